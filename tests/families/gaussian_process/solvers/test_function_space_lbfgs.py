"""L-BFGS in function space, against optima of (32) written out and its own certificate."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.families.gaussian_process.solvers.function_space_lbfgs import (
    FunctionSpace,
    FunctionSpaceLBFGS,
    search,
)
from convexstruct.tolerances import HIGH, MID, ROUNDING
from tests.families.gaussian_process.kernel_chains import every_kernel, optimum, small, spread, written_out


@every_kernel
@pytest.mark.parametrize(("lam", "memory"), [(0.01, 100), (1.0, 100), (100.0, 100), (1.0, 1), (3.0, 0)])
def test_it_reaches_the_optimum_of_every_labelling_written_out(
    kernel: tuple[str, dict[str, float]], lam: float, memory: int
) -> None:
    problem = small(0, kernel, lam=lam)
    solution = solve(problem, FunctionSpaceLBFGS(memory))
    assert solution.status is Status.OPTIMAL
    known = optimum(problem)
    scale = max(1.0, abs(known))
    assert solution.lower_bound <= known + ROUNDING * scale
    assert known <= solution.primal + ROUNDING * scale
    assert solution.primal - known <= HIGH.gap * scale


@pytest.mark.parametrize(("gram", "eta"), [(np.zeros((3, 3)), 0.0), (np.zeros((3, 3)), 1.0), (np.ones((3, 3)), 0.0)])
def test_a_kernel_that_is_zero_somewhere_is_solved(gram: np.ndarray, eta: float) -> None:
    problem = GaussianProcessSequences.from_gram(gram, [[0, 0], [1]], 2, eta=eta)
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.primal == pytest.approx(optimum(problem), rel=HIGH.gap)


@pytest.mark.parametrize("memory", [0, 100])
def test_it_goes_on_to_rounding_and_stops_by_itself(memory: int) -> None:
    """Where the gradient is below `VALUE_ROUNDING` of `function_space_lbfgs`."""
    iterates = list(FunctionSpaceLBFGS(memory).iterate(small(3, lam=5.0)))
    last, values = iterates[-1], [iterate.primal for iterate in iterates]
    assert last.done
    assert last.message
    assert abs(last.primal - last.lower_bound) <= ROUNDING * max(1.0, abs(last.primal))
    assert all(b <= a + ROUNDING for a, b in pairwise(values))


def test_without_memory_a_step_is_one_of_exponentiated_gradient_on_the_dual() -> None:
    """beta <- beta e^{step grad D} / Z, grad D = -ln beta - 1 + z_y'K(z - E z_y) / lam, all labellings written out."""
    problem = small(3, lam=2.0)
    naive = written_out(problem)
    first, second = (iterate.point["u"] for _, iterate in zip(range(2), FunctionSpaceLBFGS(0).iterate(problem)))
    here, there = ([softmax(scores) for scores in naive.scores(spread(problem, u))] for u in (first, second))
    gradient = problem.at(first, problem.multiply(first)).g
    moved = np.flatnonzero(gradient)
    step = problem.lam * float(np.median((first - second)[moved] / gradient[moved]))  # u fell by a g, step = a lam
    assert 0 < step <= 1
    mean = np.sum([beta @ rows for beta, rows in zip(here, naive.each)], axis=0)
    for beta, after, rows in zip(here, there, naive.each):
        ascent = -np.log(beta) + rows @ naive.kernel @ (naive.z - mean) / problem.lam
        assert np.allclose(softmax(np.log(beta) + step * ascent), after, rtol=ROUNDING)


def test_pairs_of_lbfgs_save_iterations() -> None:
    problem = small(1, lam=0.1)
    assert solve(problem, FunctionSpaceLBFGS(0)).iterations > 2 * solve(problem, FunctionSpaceLBFGS()).iterations


def test_rounding_does_not_pile_up_where_transitions_outweigh_all_else_by_ten_orders() -> None:
    """If t = K u were never computed anew, the solver's own lower bound here would be far above the certified one."""
    problem = small(74, lengths=(2, 2, 5, 4), eta=1e4, lam=1e-6)
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.primal == pytest.approx(optimum(problem), rel=MID.gap)


def test_a_line_is_searched_until_wolfes_conditions_hold_from_steps_far_too_short_or_long() -> None:
    problem = small(8)
    space = FunctionSpace(problem)
    here = space.start(None)
    kg = space.multiply(here.g)
    slope = -float(here.g @ kg)
    for scale in (1e-6, 1e-3, 1.0, 1e4):
        d, kd = -scale * here.g, -scale * kg
        there = search(space, here, d, kd)
        assert there is not None
        assert there.value < here.value
        assert abs(there.g @ kd) <= 0.9 * scale * abs(slope)
    assert search(space, here, here.g, kg) is None  # uphill


@settings(max_examples=15, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), n_labels=st.integers(1, 4),
    eta=st.sampled_from([0.0, 1.0, 50.0]), lam=st.sampled_from([1e-3, 1.0, 1e3]), seed=st.integers(0, 99),
)  # fmt: skip
def test_every_small_problem_is_certified(lengths: list[int], n_labels: int, eta: float, lam: float, seed: int) -> None:
    problem = small(seed, lengths=tuple(lengths), n_labels=n_labels, eta=eta, lam=lam)
    assert solve(problem).status is Status.OPTIMAL
