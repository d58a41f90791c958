"""Every option of every solver is read when the solver is made; every argument of `solve` before anything runs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import convexstruct as cs
from convexstruct import solvers
from convexstruct.core import registry
from convexstruct.validation.arguments import SENTENCE_CHARACTERS
from tests.validation.test_arguments import Hostile

SOLVERS = [
    value for name in solvers.__all__ if isinstance(value := getattr(solvers, name), type) and hasattr(value, "iterate")
]
NONSENSE: list[Any] = [-3, "x", np.nan, np.inf, [], {}, object(), Hostile(), 2j, np.ones(2), 10**400]
FACTORS = cs.read_factors([2, 2], [[0, 1]])
PROBLEMS: dict[str, Any] = {
    "BoxProjection": cs.BoxProjection.simplex([0.5, 0.2]),
    "ConditionalRandomField": cs.ConditionalRandomField.read([np.eye(2)], [[0, 1]], C=1.0),
    "GaussianProcessSequences": cs.GaussianProcessSequences.read([[0.0, 1.0]], [[0, 1]], 2),
    "GenerativeMargin": cs.GenerativeMargin.hmm([[0, 1]], [[0, 1]], 2, 2, eta=0.5),
    "HiddenField": cs.HiddenField.unconditional(FACTORS, [[0, -1]]),
    "HiddenMarkov": cs.HiddenMarkov.read([[0, 1]], 2, 2),
    "MarginalProjection": cs.MarginalProjection.graph([("a",)], [[1.0, 2.0]]),
    "MarkovRandomField": cs.MarkovRandomField.read(FACTORS, [[0, 1]]),
    "OracleSVM": cs.StructuredSVM.from_oracle(
        lambda x, y: [1.0], lambda y, z: 0.0, lambda x, y, w: [0], [(None, [0])], C=1.0
    ),
    "PseudoLikelihood": cs.PseudoLikelihood.read(FACTORS, [[0, 1]]),
    "RegularizedRisk": cs.RegularizedRisk.binary([[1.0], [2.0]], [-1, 1], 0.1),
    "StructuredSVM": cs.StructuredSVM.read([np.eye(2)], [[0, 1]], C=1.0),
    "UnsupervisedMargin": cs.UnsupervisedMargin.multiclass(np.eye(3), 2, 1.0, 0.2),
    "ApproximateField": cs.ApproximateField.read(FACTORS, [[0, 1]]),
}
OWN = PROBLEMS["RegularizedRisk"]


@pytest.mark.parametrize("solver", [s for s in SOLVERS if dataclasses.is_dataclass(s)], ids=lambda s: s.__name__)
def test_every_option_of_every_solver_is_read(solver: Any) -> None:
    for field in dataclasses.fields(solver):
        for value in NONSENSE:
            with pytest.raises(ValueError, match="wanted") as caught:
                solver(**{field.name: value})
            assert len(str(caught.value)) <= SENTENCE_CHARACTERS


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="passes is -3, wanted a whole number of at least 1"):
        solvers.Perceptron(passes=-3)
    with pytest.raises(ValueError, match="shrink is 2, wanted a number above 0 and below 1"):
        solvers.EntropicProximal(shrink=2)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.__name__)
def test_a_solver_says_which_family_it_is_for(solver: Any) -> None:
    wanted = solver.iterate.__annotations__.get("problem")
    if wanted == "Any":
        return  # the protocol
    classes = wanted.split(" | ")
    wanted = " or ".join(classes)
    assert set(classes) <= set(PROBLEMS)
    assert {each.__name__ for family in registry.families().values() for each in family.problems} == set(PROBLEMS)
    for name, problem in PROBLEMS.items():
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
    for other, problem in [*PROBLEMS.items(), ("None", None), ("3", 3)]:
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
}
ARGUMENTS = [{name: value} for name, values in REFUSED.items() for value in values]


@pytest.mark.parametrize("given", ARGUMENTS, ids=lambda given: next(iter(given)))
def test_every_argument_of_solve_is_read(given: dict[str, Any]) -> None:
    ((name, _),) = given.items()
    with pytest.raises(ValueError, match=rf"^{name} is .*, wanted ") as caught:
        cs.solve(**({"problem": OWN} | given))
    assert len(str(caught.value)) <= SENTENCE_CHARACTERS


def test_a_start_of_another_problem_is_refused() -> None:
    other = cs.solve(PROBLEMS["BoxProjection"])
    with pytest.raises(ValueError, match="start does not fit the problem"):
        cs.solve(OWN, start=other)
    with pytest.raises(ValueError, match="problem is 3, wanted a problem"):
        cs.certify(3, {"w": 1})  # type: ignore[arg-type]  # wrong on purpose
