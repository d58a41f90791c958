"""Gradient descent in function space: the optimum on small problems, and what it is on the dual."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest
from scipy.special import softmax

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.gaussian_process.solvers import function_space, functional_gradient
from convexstruct.families.gaussian_process.solvers.function_space_lbfgs import FunctionSpaceLBFGS
from convexstruct.families.gaussian_process.solvers.functional_gradient import FunctionalGradient
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.gaussian_process.kernel_chains import every_kernel, optimum, small, spread, written_out


@every_kernel
def test_it_reaches_the_optimum_of_every_labelling_written_out(kernel: tuple[str, dict[str, float]]) -> None:
    problem = small(0, kernel, lam=3.0)
    solution = solve(problem, FunctionalGradient())
    assert solution.status is Status.OPTIMAL
    assert solution.primal == pytest.approx(optimum(problem), rel=HIGH.gap)


def test_it_needs_more_iterations_than_lbfgs() -> None:
    problem = small(1, lam=0.1)
    assert solve(problem, FunctionalGradient()).iterations > 2 * solve(problem, FunctionSpaceLBFGS()).iterations


def test_p_never_rises_and_the_run_ends_by_itself() -> None:
    iterates = list(FunctionalGradient().iterate(small(2, lam=5.0)))
    values = [iterate.primal for iterate in iterates]
    assert all(b <= a + ROUNDING for a, b in pairwise(values))
    assert iterates[-1].done
    assert iterates[-1].message


def test_a_gradient_below_rounding_ends_the_run_which_has_no_end_without_that_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = small(3)
    most = 3 * len(list(FunctionalGradient().iterate(problem)))
    for module in (function_space, functional_gradient):
        monkeypatch.setattr(module, "VALUE_ROUNDING", 0.0)
    assert not any(iterate.done for iterate in islice(FunctionalGradient().iterate(problem), most))


def test_a_step_is_one_of_exponentiated_gradient_on_the_dual() -> None:
    """beta <- beta e^{step grad D} / Z, grad D = -ln beta - 1 + z_y'K(z - E z_y) / lam, all labellings written out."""
    problem = small(3, lam=2.0)
    naive = written_out(problem)
    first, second = (iterate.point["u"] for _, iterate in zip(range(2), FunctionalGradient().iterate(problem)))
    here, there = ([softmax(scores) for scores in naive.scores(spread(problem, u))] for u in (first, second))
    gradient = problem.evaluate(first).kernel_gradient
    moved = np.flatnonzero(gradient)
    step = problem.lam * float(np.median((first - second)[moved] / gradient[moved]))  # u fell by a g, step = a lam
    assert 0 < step <= 1
    mean = np.sum([beta @ rows for beta, rows in zip(here, naive.each)], axis=0)
    for beta, after, rows in zip(here, there, naive.each):
        ascent = -np.log(beta) + rows @ naive.kernel @ (naive.z - mean) / problem.lam
        assert np.allclose(softmax(np.log(beta) + step * ascent), after, rtol=ROUNDING)


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match=r"growth is 0.5, wanted a number of at least 1"):
        FunctionalGradient(growth=0.5)
