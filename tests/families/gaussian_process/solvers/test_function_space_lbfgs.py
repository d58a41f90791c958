"""L-BFGS in function space, against optima of (32) written out and its own certificate."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.families.gaussian_process.solvers.function_space import FunctionSpace
from convexstruct.families.gaussian_process.solvers.function_space_lbfgs import (
    FunctionSpaceLBFGS,
    search,
)
from convexstruct.tolerances import HIGH, LOW, MID, ROUNDING
from tests.families.gaussian_process.kernel_chains import every_kernel, optimum, small


@every_kernel
@pytest.mark.parametrize("lam", [0.01, 1.0, 100.0])
def test_it_reaches_the_optimum_of_every_labelling_written_out(
    kernel: tuple[str, dict[str, float]], lam: float
) -> None:
    problem = small(0, kernel, lam=lam)
    solution = solve(problem, FunctionSpaceLBFGS())
    assert solution.status is Status.OPTIMAL
    known = optimum(problem)
    scale = max(1.0, abs(known))
    assert solution.lower_bound <= known + ROUNDING * scale
    assert known <= solution.primal + ROUNDING * scale
    assert solution.primal - known <= HIGH.gap * scale


def test_it_is_what_solve_picks() -> None:
    solution = solve(small(1))
    assert "FunctionSpaceLBFGS" in solution.solver
    assert solution.status is Status.OPTIMAL


def test_a_matrix_without_an_inverse_and_repeated_inputs_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(3, 2))
    labels = [rng.integers(3, size=n) for n in (4, 1, 3)]
    gram = (rows @ rows.T)[np.ix_(np.arange(8) % 3, np.arange(8) % 3)]  # rank 2 of 8
    whole = GaussianProcessSequences.from_gram(gram, labels, 3, lam=0.1)
    places = [[0, 1, 2, 0], [1], [2, 0, 1]]
    once = GaussianProcessSequences.from_gram(rows @ rows.T, labels, 3, places=places, lam=0.1)
    assert solve(whole).primal == pytest.approx(solve(once).primal, rel=HIGH.gap)
    assert solve(whole).primal == pytest.approx(optimum(whole), rel=HIGH.gap)


@pytest.mark.parametrize(("gram", "eta"), [(np.zeros((3, 3)), 0.0), (np.zeros((3, 3)), 1.0), (np.ones((3, 3)), 0.0)])
def test_a_kernel_that_is_zero_somewhere_is_solved(gram: np.ndarray, eta: float) -> None:
    problem = GaussianProcessSequences.from_gram(gram, [[0, 0], [1]], 2, eta=eta)
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.primal == pytest.approx(optimum(problem), rel=HIGH.gap)


def test_it_goes_on_to_rounding_and_stops_by_itself() -> None:
    problem = small(3)
    iterates = list(FunctionSpaceLBFGS().iterate(problem))
    assert iterates[-1].done
    assert iterates[-1].message
    last = iterates[-1]
    assert abs(last.primal - last.lower_bound) <= ROUNDING * max(1.0, abs(last.primal))
    values = [iterate.primal for iterate in iterates]
    assert all(b <= a + ROUNDING for a, b in pairwise(values))


def test_it_goes_on_from_where_a_rough_solution_ended() -> None:
    problem = small(4, lam=0.01)
    rough = solve(problem, tol=LOW)
    fine = solve(problem, start=rough)
    assert fine.trace.primal[0] == pytest.approx(rough.primal, rel=ROUNDING)
    assert fine.status is Status.OPTIMAL


def test_one_step_of_memory_is_enough_to_get_there() -> None:
    problem = small(5)
    assert solve(problem, FunctionSpaceLBFGS(memory=1)).primal == pytest.approx(optimum(problem), rel=HIGH.gap)


def test_the_iterate_carries_k_u_without_a_product_with_k() -> None:
    """t is updated with u; after many iterations it is still K u, and the solver's bounds are those certified."""
    problem = small(6, lam=0.001)
    for iterate in FunctionSpaceLBFGS().iterate(problem):
        assert problem.primal(iterate.point) == pytest.approx(iterate.primal, rel=ROUNDING)
        lower = problem.dual(iterate.point)
        assert lower == pytest.approx(iterate.lower_bound, rel=ROUNDING, abs=ROUNDING * max(1.0, iterate.primal))


def test_rounding_does_not_pile_up_where_transitions_outweigh_all_else_by_ten_orders() -> None:
    """If t = K u were never computed anew, the solver's own lower bound here would be far above the certified one."""
    problem = small(75, lengths=(2, 2, 5, 4), eta=1e4, lam=1e-6)
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


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="memory is 0, wanted a whole number of at least 1"):
        FunctionSpaceLBFGS(memory=0)


@settings(max_examples=15, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), n_labels=st.integers(1, 4),
    eta=st.sampled_from([0.0, 1.0, 50.0]), lam=st.sampled_from([1e-3, 1.0, 1e3]), seed=st.integers(0, 99),
)  # fmt: skip
def test_every_small_problem_is_certified(lengths: list[int], n_labels: int, eta: float, lam: float, seed: int) -> None:
    problem = small(seed, lengths=tuple(lengths), n_labels=n_labels, eta=eta, lam=lam)
    assert solve(problem).status is Status.OPTIMAL
