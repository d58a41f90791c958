"""The lower bound as a table: the theorem's values exactly, rounds that are 1/(lam eps), and Pragam below (26)."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.experiment import Result
from convexstruct.families.regularized_risk.experiments import hadamard
from convexstruct.families.regularized_risk.solvers.bmrm import QpBMRM
from convexstruct.families.regularized_risk.solvers.pragam import Pragam, largest_distance
from convexstruct.tolerances import ROUNDING
from tests.families.quick_runs import quick as run_quick


@pytest.fixture(scope="module")
def quick() -> Result:
    return run_quick("hadamard").result


def test_every_value_is_that_of_the_theorem(quick: Result) -> None:
    for row in quick.rows:
        cells = dict(zip(quick.columns, row))
        t = cells["t"]
        assert isinstance(t, int)
        assert cells["J(w_t)"] == pytest.approx(1 / (2 * hadamard.LAM * t), rel=ROUNDING)
        assert cells["J_t(w_t)"] == pytest.approx(-1 / (2 * hadamard.LAM * t), rel=ROUNDING)
        assert cells["1/(lam eps)"] == pytest.approx(t, rel=ROUNDING)
        assert cells["qp-bmrm"] == cells["ls-bmrm"] == t
        off = cells["off"]
        assert isinstance(off, float)
        assert off < ROUNDING


def test_pragam_needs_no_more_rounds_than_26_allows_and_fewer_than_the_bundles(quick: Result) -> None:
    for row in quick.rows:
        cells = dict(zip(quick.columns, row))
        taken, allowed, t = cells["pragam"], cells["pragam by (26)"], cells["t"]
        assert isinstance(taken, int)
        assert isinstance(allowed, int)
        assert isinstance(t, int)
        assert 1 <= taken <= allowed
        assert taken <= t


def test_a_run_that_deviates_is_seen() -> None:
    rounds = hadamard.follow(hadamard.instance(8), QpBMRM(), 5)
    assert hadamard.deviation(rounds) < ROUNDING
    rounds.value[2] *= 1.001
    assert hadamard.deviation(rounds) == pytest.approx(1e-3, rel=1e-3)


def test_rounds_to_a_gap_are_the_first_within_it() -> None:
    rounds = hadamard.Rounds(np.array([4.0, 3.0, 1.0]), np.array([0.0, 1.0, 1.0]))
    assert (rounds.to(4.0), rounds.to(3.0), rounds.to(0.0)) == (1, 2, 3)
    assert hadamard.Rounds(np.array([1.0]), np.array([0.0])).to(0.5) is None


def test_what_26_promises_is_the_first_round_that_meets_it_and_is_kept() -> None:
    problem = hadamard.instance(32)
    start = hadamard.corner(problem)
    assert start.dual_point is not None
    constant = 6 * largest_distance(problem, start.dual_point["alpha"]) / hadamard.LAM
    path = hadamard.follow(problem, Pragam(lipschitz=1 / hadamard.LAM), 30, start)
    k = np.arange(1, len(path.value) + 1)
    assert (path.value - path.bound <= constant / ((k + 1) * (k + 2)) + ROUNDING).all()
    for eps in (50.0, 3.0, 0.1):
        first = hadamard.promised(problem, eps)
        assert constant / ((first + 1) * (first + 2)) <= eps
        assert first == 1 or constant / (first * (first + 1)) > eps


def test_from_the_middle_pragam_starts_at_the_solution() -> None:
    problem = hadamard.instance(16)
    path = hadamard.follow(problem, Pragam(), 1)
    assert path.value[0] == pytest.approx(-1 / (2 * hadamard.LAM * 16), rel=ROUNDING)
