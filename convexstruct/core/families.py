"""What calls itself a problem."""

from __future__ import annotations

from typing import Any

from convexstruct.validation.arguments import refuse

#: What every problem answers (`convexstruct.core.certificates.Problem`).
METHODS = ("as_point", "primal", "dual", "repair", "residuals", "dual_residuals")


def check_problem(problem: Any) -> None:
    """ValueError unless ``problem`` is one: an instance that answers what is asked of problems."""
    wanted = "a problem, such as GenerativeMargin, StructuredSVM, RegularizedRisk"
    try:
        known = isinstance(problem.family, str) and all(callable(getattr(problem, name)) for name in METHODS)
    except Exception:  # any: what is asked may be foreign code
        refuse("problem", problem, wanted)
    if not known or isinstance(problem, type):
        refuse("problem", problem, wanted)
