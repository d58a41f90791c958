"""L-BFGS in function space, against optima of (32) written out and its own certificate."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.families.gaussian_process.solvers.function_space_lbfgs import FunctionSpaceLBFGS
from convexstruct.tolerances import HIGH, MID, ROUNDING
from tests.families.gaussian_process.kernel_chains import every_kernel, optimum, small, spread, written_out

CHANGED: list[dict[str, Any]] = [
    {}, {"lam": 0.01}, {"lam": 100.0}, {"eta": 0.0}, {"eta": 50.0}, {"lengths": (1, 1, 1)}, {"lengths": (4,)},
    {"n_labels": 1},
]  # fmt: skip


def check_optimal(problem: GaussianProcessSequences, memory: int = FunctionSpaceLBFGS.memory) -> None:
    """It ends at the optimum of every labelling written out, in a bracket around it."""
    solution, known = solve(problem, FunctionSpaceLBFGS(memory)), optimum(problem)
    scale = max(1.0, abs(known))
    assert solution.status is Status.OPTIMAL
    assert solution.lower_bound <= known + ROUNDING * scale
    assert -ROUNDING * scale <= solution.primal - known <= HIGH.gap * scale


@every_kernel
@pytest.mark.parametrize("changed", CHANGED, ids=str)
def test_it_reaches_the_optimum_of_every_labelling_written_out(kernel: Any, changed: Any) -> None:
    check_optimal(small(3, kernel, stationary=CHANGED.index(changed) % 2 == 0, **changed))


@pytest.mark.parametrize(("lam", "memory"), [(1.0, 1), (3.0, 0)])
def test_with_one_pair_and_with_none_it_reaches_the_optimum_too(lam: float, memory: int) -> None:
    check_optimal(small(0, lam=lam), memory)


@pytest.mark.parametrize(("gram", "eta"), [(np.zeros((3, 3)), 0.0), (np.zeros((3, 3)), 1.0), (np.ones((3, 3)), 0.0)])
def test_a_kernel_that_is_zero_somewhere_is_solved(gram: np.ndarray, eta: float) -> None:
    check_optimal(GaussianProcessSequences.from_gram(gram, [[0, 0], [1]], 2, eta=eta))


@pytest.mark.parametrize("memory", [0, 100])
def test_it_goes_on_to_rounding_and_stops_by_itself(memory: int) -> None:
    """Where the gradient is below `VALUE_ROUNDING` of `function_space_lbfgs`."""
    iterates = list(FunctionSpaceLBFGS(memory).iterate(small(3, lam=5.0)))
    last, values = iterates[-1], [iterate.primal for iterate in iterates]
    assert last.done
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


def test_rounding_does_not_pile_up_where_transitions_outweigh_all_else_by_ten_orders() -> None:
    """If t = K u were never computed anew, the solver's own lower bound here would be far above the certified one."""
    problem = small(74, lengths=(2, 2, 5, 4), eta=1e4, lam=1e-6)
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.primal == pytest.approx(optimum(problem), rel=MID.gap)
