"""Hidden Markov models as a problem: P against all state sequences, the lower bound, and where Baum-Welch ends."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Labels, Point
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.families.log_linear.hidden_markov import TABLES, HiddenMarkov
from convexstruct.families.log_linear.solvers.baum_welch import BaumWelch
from convexstruct.models.log_linear import expected_counts
from convexstruct.tolerances import HIGH, ROUNDING
from tests.reference import optimum

EXAMPLES = settings(max_examples=15, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed: int) -> tuple[HiddenMarkov, list[Labels], Point]:
    """Four weighted sequences of up to four steps, two states, three symbols; and a point."""
    rng = np.random.default_rng(seed)
    symbols = [rng.integers(0, 3, size=n) for n in rng.integers(1, 5, size=4)]
    problem = HiddenMarkov.read(symbols, 2, 3, weights=rng.uniform(0.5, 2.0, 4))
    point = {name: rng.exponential(size=shape) for name, shape in problem.shapes.items()}
    return problem, symbols, problem.repair(point)


def written_out(problem: HiddenMarkov, symbols: list[Labels], point: Point) -> float:
    """P from all state sequences."""
    assert problem.observed.weights is not None
    value = 0.0
    for one, weight in zip(symbols, problem.observed.weights):
        total = 0.0
        for y in itertools.product(range(2), repeat=len(one)):
            p = point["initial"][y[0]] * np.prod(point["emission"][list(y), one])
            total += p * float(np.prod([point["transition"][a, b] for a, b in itertools.pairwise(y)]))
        value -= weight * np.log(total)
    return float(value)


@pytest.mark.parametrize("rightwards", [False, True])
@given(seed=SEEDS)
@EXAMPLES
def test_p_is_that_of_all_state_sequences_and_above_the_bound(rightwards: bool, seed: int) -> None:
    problem, symbols, point = drawn(seed)
    if rightwards:
        point = problem.repair({**point, "transition": np.triu(point["transition"])})
        start = Solution(point, {}, certify(problem, point, {}), Status.STALLED, Trace())
        for iterate in BaumWelch().iterate(problem, start):
            assert iterate.point["transition"][1, 0] == 0.0
    primal, bound = problem.primal(problem.as_point(point)), problem.dual({})
    assert primal == pytest.approx(written_out(problem, symbols, point), rel=ROUNDING, abs=ROUNDING)
    assert primal.allowance <= ROUNDING * (1.0 + primal)
    assert bound <= primal
    assert max(problem.residuals(point).values()) == 0.0


@given(seed=SEEDS)
@EXAMPLES
def test_the_bound_is_the_entropy_of_sequences_of_each_length(seed: int) -> None:
    rng = np.random.default_rng(seed)
    symbols = [rng.integers(0, 2, size=n) for n in rng.integers(1, 4, size=20)]
    weights = rng.uniform(0.5, 2.0, 20)
    found: dict[tuple[int, ...], float] = {}
    for x, weight in zip(symbols, weights):
        found[tuple(x)] = found.get(tuple(x), 0.0) + weight
    value = 0.0
    for x, weight in found.items():
        value += weight * math.log(sum(w for z, w in found.items() if len(z) == len(x)) / weight)
    bound = HiddenMarkov.read(symbols, 2, 2, weights=weights).dual({})
    assert bound == pytest.approx(value, rel=ROUNDING)
    assert bound.allowance <= ROUNDING * bound


def test_the_bound_of_em_in_cvxpy_is_that_of_the_next_iteration() -> None:
    problem, _, point = drawn(8)
    formulation = expected_counts(problem, point)
    value = optimum(formulation.without()).value  # claimed: P is not convex, and what is read back proves nothing
    here, after = float(problem.primal(point)), BaumWelch()
    assert value <= here + HIGH.gap
    found = {name: np.asarray(formulation.variables[name].value) for name in TABLES}
    assert float(problem.primal(problem.repair(found))) <= value + HIGH.gap * abs(value)
    ended = solve(problem, after)
    assert optimum(expected_counts(problem, ended.point).without()).value == pytest.approx(ended.primal, rel=1e-5)


@given(seed=SEEDS)
@EXAMPLES
def test_the_slope_is_the_largest_difference_quotient_in_the_logits(seed: int) -> None:
    problem, symbols, point = drawn(seed)
    largest, step = 0.0, 1e-5
    for name in TABLES:
        for at in np.ndindex(point[name].shape):
            ends = []
            for sign in (1, -1):
                moved = {**point, name: point[name].copy()}
                moved[name][at] *= np.exp(sign * step)
                ends.append(written_out(problem, symbols, problem.repair(moved)))
            largest = max(largest, abs(ends[0] - ends[1]) / (2 * step))
    assert problem.observed.weights is not None
    counted = sum(w * len(one) for w, one in zip(problem.observed.weights, symbols))
    assert problem.stationarity(point) == pytest.approx(largest / counted, rel=1e-5, abs=1e-8)


def test_an_end_that_comes_too_early_is_not_called_stationary() -> None:
    problem, _, _ = drawn(3)
    early = solve(problem, BaumWelch(fall=0.1))
    assert early.status is Status.STALLED
    assert problem.stationarity(early.point) > math.sqrt(ROUNDING)


def test_points_are_repaired() -> None:
    problem, _, point = drawn(2)
    off = {**{name: 2.0 * table for name, table in point.items()}, "emission": 2.0 * point["emission"] - 0.5}
    assert certify(problem, off, {}).infeasibility > 0.1
    assert max(problem.residuals(problem.repair(problem.as_point(off))).values()) == 0.0
