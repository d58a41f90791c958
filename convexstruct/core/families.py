"""What calls itself a problem, and whether it is of the family that a solver or a formulation serves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from convexstruct.validation.arguments import described, refuse, sentence

#: What every problem answers (`convexstruct.core.certificates.Problem`).
METHODS = ("as_point", "primal", "dual", "repair", "residuals", "dual_residuals")

Builder = TypeVar("Builder", bound=Callable[..., Any])


def check_problem(problem: Any) -> None:
    """ValueError unless ``problem`` is one: an instance that answers what is asked of problems."""
    wanted = "a problem, such as GenerativeMargin, StructuredSVM, RegularizedRisk"
    try:
        known = isinstance(problem.family, str) and all(callable(getattr(problem, name)) for name in METHODS)
    except Exception:  # any: what is asked may be foreign code
        refuse("problem", problem, wanted)
    if not known or isinstance(problem, type):
        refuse("problem", problem, wanted)


def check_family(who: str, function: Callable[..., Any], problem: Any) -> None:
    """ValueError unless ``problem`` is of the class that ``function`` names in its annotation of ``problem``."""
    wanted = getattr(function, "__annotations__", {}).get("problem", "Any")
    wanted = wanted if isinstance(wanted, str) else getattr(wanted, "__name__", "Any")
    if wanted not in CLASSES or wanted in [each.__name__ for each in type(problem).__mro__]:
        return
    family = getattr(problem, "family", None)
    of = f" of the family {family}" if isinstance(family, str) else ""
    raise sentence(f"problem is {described(problem)}{of}, wanted a {wanted}: {who} is for the family {CLASSES[wanted]}")


def one_family(builder: Builder) -> Builder:
    """A builder that refuses problems of another class than it names."""

    @functools.wraps(builder)
    def build(problem: Any, *args: Any, **options: Any) -> Any:
        check_family(builder.__name__, builder, problem)
        return builder(problem, *args, **options)

    return cast(Builder, build)


#: The classes of problems and their families.
CLASSES = {
    "BoxProjection": "projection",
    "GaussianProcessSequences": "gaussian_process",
    "GenerativeMargin": "generative_margin",
    "MarginalProjection": "projection",
    "RegularizedRisk": "regularized_risk",
    "StructuredSVM": "structured_svm",
}
