"""Solvers that yield nonsense, data at the ends of double precision: one sentence, or an honest status."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import convexstruct as cs
from benchmarks.malformed import Hostile
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Status
from tests.core.squares import Scripted
from tests.refusals import check_sentence

X, Y = np.random.default_rng(0).normal(size=(8, 3)), np.array([-1, 1] * 4)
LABELS = [[0, 1] * 4]
W = np.zeros(3)
NO_BOUND = (np.inf, -np.inf)


def test_an_iterate_of_nonsense_is_refused_by_the_name_of_its_field() -> None:
    sound = Iterate({"w": W}, None, *NO_BOUND)
    for field in ("point", "dual_point", "primal", "lower_bound", "oracle_calls", "parts", "message"):
        for nonsense in (3j if field == "message" else "abc", [W], Hostile()):
            change: dict[str, Any] = {field: nonsense}
            with pytest.raises(ValueError, match=f"{field} of an iterate is ") as caught:
                replace(sound, **change)
            check_sentence(caught.value)


@pytest.mark.parametrize(
    ("yielded", "says"),
    [
        ([None], "what the solver yields is None, wanted an Iterate"),
        ([], "Scripted stopped before its first iterate"),
        ([Iterate({"w": np.array("abc")}, None, *NO_BOUND)], "point.'w'. of an iterate is"),
        ([Iterate({"w": W * np.nan}, None, 0.0, 0.0)], "not finite"),
        ([Iterate({"theta": W}, None, 0.0, 0.0)], r"point has the keys \['theta'\], wanted w"),
        ([Iterate({"w": np.zeros(7)}, None, 0.0, 0.0)], r"w has shape \(7,\), wanted \(3,\)"),
        ([Iterate({"w": W}, {"rho": W}, 0.0, 0.0)], r"dual_point has the keys \['rho'\]"),
    ],
)
def test_a_solver_that_yields_nonsense_is_told_so(yielded: list[Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        cs.solve(cs.RegularizedRisk.binary(X, Y, 0.1), Scripted(yielded), max_iterations=3)
    check_sentence(caught.value)


def test_a_solver_that_lies_gains_nothing() -> None:
    problem = cs.RegularizedRisk.binary(X, Y, 0.1)
    solution = cs.solve(problem, Scripted([Iterate({"w": W}, {"alpha": np.zeros(8)}, 0.0, 0.0)]))
    assert solution.status is Status.INACCURATE
    assert solution.primal >= 1.0
    assert not cs.solve(problem, Scripted([Iterate({"w": W}, None, 0.0, 5.0)])).status.solved


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
