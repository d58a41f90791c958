"""Solvers that yield nonsense, data at the ends of double precision: one sentence, or an honest status."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Status
from convexstruct.validation.arguments import SENTENCE_CHARACTERS

X, Y = np.random.default_rng(0).normal(size=(8, 3)), np.array([-1, 1] * 4)
LABELS = [[0, 1] * 4]
W = np.zeros(3)
NO_BOUND = (np.inf, -np.inf)


class Yielding:
    """A solver of somebody's own: it yields what the functions make, one after the other."""

    def __init__(self, *made: Callable[[], Any]) -> None:
        self.made = made

    def iterate(self, problem: Any, start: Any = None) -> Iterator[Any]:
        for each in self.made:
            yield each()


class Returning:
    """A solver that returns ``value`` where a generator is due."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def iterate(self, problem: Any, start: Any = None) -> Any:
        return self.value


@pytest.mark.parametrize(
    ("solver", "says"),
    [
        (Yielding(lambda: None), "what the solver yields is None, wanted an Iterate"),
        (Yielding(lambda: W), "what the solver yields is an array .* wanted an Iterate"),
        (Yielding(), "Yielding stopped before its first iterate"),
        (Returning(None), "what Returning.iterate returns is None, wanted a generator"),
        (Yielding(lambda: Iterate(None, None, *NO_BOUND)), "point of an iterate is None"),  # type: ignore[arg-type]  # wrong on purpose
        (Yielding(lambda: Iterate({"w": "abc"}, None, *NO_BOUND)), "point.'w'. of an iterate is 'abc'"),  # type: ignore[dict-item]  # wrong on purpose
        (Yielding(lambda: Iterate({"w": W}, None, "0", 0.0)), "primal of an iterate is '0'"),  # type: ignore[arg-type]  # wrong on purpose
        (Yielding(lambda: Iterate({"w": W}, 3, *NO_BOUND)), "dual_point of an iterate is 3"),  # type: ignore[arg-type]  # wrong on purpose
        (Yielding(lambda: Iterate({"w": W}, None, *NO_BOUND, oracle_calls="x")), "oracle_calls of"),  # type: ignore[arg-type]  # wrong on purpose
        (Yielding(lambda: Iterate({"w": W}, None, *NO_BOUND, parts=None)), "parts of an iterate"),  # type: ignore[arg-type]  # wrong on purpose
        (Yielding(lambda: Iterate({"w": W}, None, *NO_BOUND, message=7)), "message of an iterate"),  # type: ignore[arg-type]  # wrong on purpose
        (Yielding(lambda: Iterate({"w": W * np.nan}, None, 0.0, 0.0)), "not finite"),
        (Yielding(lambda: Iterate({"theta": W}, None, 0.0, 0.0)), r"point has the keys \['theta'\], wanted w"),
        (Yielding(lambda: Iterate({"w": np.zeros(7)}, None, 0.0, 0.0)), r"w has shape \(7,\), wanted \(3,\)"),
        (Yielding(lambda: Iterate({"w": W}, {"rho": W}, 0.0, 0.0)), r"dual_point has the keys \['rho'\]"),
    ],
)
def test_a_solver_that_yields_nonsense_is_told_so(solver: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        cs.solve(cs.RegularizedRisk.binary(X, Y, 0.1), solver, max_iterations=3)
    assert len(str(caught.value)) <= SENTENCE_CHARACTERS


def test_a_solver_that_lies_or_writes_into_the_problem_gains_nothing() -> None:
    problem = cs.RegularizedRisk.binary(X, Y, 0.1)
    lie = Yielding(lambda: Iterate({"w": W}, {"alpha": np.zeros(8)}, 0.0, 0.0))
    solution = cs.solve(problem, lie)
    assert solution.status is Status.INACCURATE
    assert solution.primal >= 1.0
    upside_down = cs.solve(problem, Yielding(lambda: Iterate({"w": W}, None, 0.0, 5.0)))
    assert not upside_down.status.solved
    with pytest.raises(ValueError, match="read-only"):
        cs.solve(problem, Yielding(lambda: problem.X.__setitem__((0, 0), 5.0)))


EXTREMES: dict[str, Callable[[], Any]] = {
    "SVM, C 1e300": lambda: cs.StructuredSVM.read([X], LABELS, C=1e300),
    "SVM, C 1e-300": lambda: cs.StructuredSVM.read([X], LABELS, C=1e-300),
    "SVM, features 1e300": lambda: cs.StructuredSVM.read([X * 1e300], LABELS, C=1.0),
    "SVM, one node": lambda: cs.StructuredSVM.read([X[:1]], [[1]], n_labels=2, C=1.0),
    "HMM, eta 1e300": lambda: cs.GenerativeMargin.hmm([[0, 1]], [[0, 1]], 2, 2, eta=1e300),
    "HMM, one state": lambda: cs.GenerativeMargin.hmm([[0, 1]], [[0, 0]], 1, 2, eta=0.5),
    "risk, features 1e300": lambda: cs.RegularizedRisk.binary(X * 1e300, Y, 0.1),
    "risk, one label": lambda: cs.RegularizedRisk.binary(X, np.ones(8), 0.1),
    "GP, features 1e-300": lambda: cs.GaussianProcessSequences.read([X * 1e-300], LABELS, 2, kernel="linear"),
    "box, 1e300": lambda: cs.BoxProjection.simplex([1e300, -1e300]),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_data_end_in_a_status_and_without_a_warning(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = cs.solve(EXTREMES[name](), tol="LOW", max_iterations=1000)
    assert solution.lower_bound <= solution.primal
    assert solution.status.solved or solution.status in (Status.STALLED, Status.ROUNDING, Status.UNCERTIFIED)


def test_features_whose_gram_matrix_overflows_are_refused_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="gram contains NaN or infinity"):
            cs.GaussianProcessSequences.read([X * 1e300], LABELS, 2, kernel="linear")
