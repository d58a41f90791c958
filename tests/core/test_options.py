"""A solver and a formulation say which problems they are for; every argument of `solve` is read before it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import convexstruct as cs
from benchmarks.malformed import Hostile
from convexstruct import solvers
from convexstruct.validation.arguments import SENTENCE_CHARACTERS
from tests.core.problems import KINDS, one_of_each

SOLVERS = [
    value for name in solvers.__all__ if isinstance(value := getattr(solvers, name), type) and hasattr(value, "iterate")
]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.__name__)
def test_a_solver_says_which_family_it_is_for(solver: Any) -> None:
    wanted = solver.iterate.__annotations__.get("problem")
    if wanted == "Any":
        return  # the protocol
    classes = wanted.split(" | ")
    wanted = " or ".join(classes)
    assert set(classes) <= {kind.__name__ for kind in KINDS} == set(one_of_each())
    for name, problem in one_of_each().items():
        if name not in classes:
            with pytest.raises(ValueError, match=f"wanted a {wanted}: {solver.__name__} is for the family"):
                cs.solve(problem, solver())
            with pytest.raises(ValueError, match=f"wanted a {wanted}: {solver.__name__} is for the family"):
                solver().iterate(problem)
    for nonsense in (None, 3, "x", cs.GenerativeMargin, Hostile()):
        with pytest.raises(ValueError, match=f"wanted a {wanted}") as caught:
            solver().iterate(nonsense)
        assert len(str(caught.value)) <= SENTENCE_CHARACTERS


@pytest.mark.parametrize("name", sorted(cs.models.FORMULATIONS))
def test_a_formulation_says_which_family_it_is_for(name: str) -> None:
    builder = cs.models.FORMULATIONS[name].builder
    classes = builder.__annotations__["problem"].split(" | ")
    wanted = " or ".join(classes)
    for other, problem in [*one_of_each().items(), ("None", None), ("3", 3)]:
        if other not in classes:
            with pytest.raises(ValueError, match=f"wanted a {wanted}: {builder.__name__} is for the family"):
                builder(problem)


#: What `solve` is given, argument by argument, and refuses.
REFUSED: dict[str, list[Any]] = {
    "problem": [None, 3, "p", Hostile(), cs.BoxProjection, {}, np.ones(2)],
    "solver": [solvers.SemismoothNewton, "Newton", 3, Hostile()],
    "tol": ["abc", np.nan, True, 0, 1, -1, None, [], np.ones(2), Hostile(), "nan", 10**400],
    "time_limit": ["x", np.inf, np.nan, 0, -1, True, [], Hostile()],
    "max_iterations": [2.5, 2.0, 0, -1, True, "3", np.inf, [], Hostile()],
    "start": [3, "x", {}, np.ones(2), Hostile(), {"w": [1.0]}],
    "progress": [3, "x", [], Hostile(), print],
    "callback": [3, "x", [], Hostile()],
    "executor": [3, "x", [], Hostile(), print],
    "checkpoint": [3, "", [], Hostile(), "a\0b"],
    "every": ["x", None, np.nan, np.inf, 0, -1, True, [], Hostile()],
}
ARGUMENTS = [{name: value} for name, values in REFUSED.items() for value in values]


@pytest.mark.parametrize("given", ARGUMENTS, ids=lambda given: next(iter(given)))
def test_every_argument_of_solve_is_read(given: dict[str, Any]) -> None:
    ((name, _),) = given.items()
    with pytest.raises(ValueError, match=rf"^{name} is .*, wanted ") as caught:
        cs.solve(**({"problem": one_of_each()["RegularizedRisk"]} | given))
    assert len(str(caught.value)) <= SENTENCE_CHARACTERS


def test_a_start_of_another_problem_is_refused() -> None:
    other = cs.solve(one_of_each()["BoxProjection"])
    with pytest.raises(ValueError, match="start does not fit the problem"):
        cs.solve(one_of_each()["RegularizedRisk"], start=other)
    with pytest.raises(ValueError, match="problem is 3, wanted a problem"):
        cs.certify(3, {"w": 1})  # type: ignore[arg-type]  # wrong on purpose
