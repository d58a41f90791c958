"""Block-coordinate Frank-Wolfe: a dual value that never falls, bounds that hold, steps best on their segment."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.structured_svm.solvers import block_frank_wolfe
from convexstruct.families.structured_svm.solvers.block_frank_wolfe import BlockFrankWolfe
from convexstruct.families.structured_svm.solvers.example_blocks import example_blocks
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.families.structured_svm.solvers.references import holds, optimum, radius, reference
from tests.models.structured_svm.instances import INSTANCES, svm


@pytest.mark.parametrize("block", [1, None])
@pytest.mark.parametrize("name", INSTANCES)
def test_certified_bounds_enclose_the_optimum_and_close_in(name: str, block: int | None) -> None:
    problem, expected = reference(name)
    solution = solve(problem, BlockFrankWolfe(block=block), tol=LOW, max_iterations=30)
    holds(solution, expected, gap=np.inf)
    at_0 = problem.primal({"w": np.zeros(problem.dimension)})
    assert solution.primal - solution.lower_bound <= 0.35 * at_0  # where it begins, the gap is at_0


def test_it_comes_within_the_low_profile_where_there_is_time() -> None:
    problem, expected = reference("chains, weighted, a cost matrix, C_mean")
    solution = solve(problem, BlockFrankWolfe(block=1), tol=LOW, max_iterations=400)
    assert solution.status is Status.OPTIMAL
    holds(solution, expected, gap=LOW.gap)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from(["margin", "slack"]), st.booleans(), st.sampled_from([1, 2, None]))
def test_the_dual_value_never_falls_and_the_witness_has_it(
    seed: int, scaling: Any, associative: bool, block: int | None
) -> None:
    problem = svm(seed, (1, 2, 3), 2, scaling=scaling, associative=associative, weighted=True)
    iterates = list(islice(BlockFrankWolfe(block=block, average=seed % 2 == 0).iterate(problem), 8))
    bounds = np.array([iterate.lower_bound for iterate in iterates])
    assert (np.diff(bounds) >= -ROUNDING * (1 + np.abs(bounds[1:]))).all()
    last = iterates[-1]
    assert callable(last.dual_point)
    certificate = certify(problem, last.point, last.dual_point())
    assert certificate.lower_bound >= last.lower_bound - ROUNDING * (1 + abs(last.lower_bound))
    assert certificate.primal == pytest.approx(last.primal)
    assert last.lower_bound <= optimum(problem) * (1 + HIGH.gap)


def test_a_step_is_the_best_on_its_segment() -> None:
    problem, _ = reference("slack scaling, weighted, a cost matrix")
    run = block_frank_wolfe._Run(problem)
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(30):
        block = example_blocks(problem, 1)[int(rng.integers(problem.n_examples))]
        (i,) = block.examples
        psi, loss, total, sums = run.psi[i].copy(), run.loss[i], run.total.copy(), run.loss.sum()
        found = block.most_violated(run.w)
        a, b = block.columns(found.labels)
        by, rise = block.ceiling[0] * a.toarray()[0] - psi, block.ceiling[0] * b[0] - loss
        run.step(block)
        steps = np.linspace(0.0, 1.0, 2001)
        tried = [problem.dual_value(total + t * by, sums + t * rise) for t in steps]
        assert run.bound >= max(tried) - ROUNDING
        inside += 0 < int(np.argmax(tried)) < 2000
    assert inside > 3  # else all steps were clipped


def test_one_step_an_example_a_pass_is_at_least_as_good_as_one_frank_wolfe_step_for_all() -> None:
    """The rate of Frank-Wolfe (Jaggi 2013), D* - D_k <= 2 Curvature / (k + 2), with the whole set as one block."""
    problem, expected = reference("trees, weighted")
    curvature = (2 * radius(problem) * float(problem.ceiling.sum())) ** 2 / problem.lam
    for k, iterate in enumerate(islice(BlockFrankWolfe(block=None).iterate(problem), 60), start=1):
        assert expected - iterate.lower_bound <= 2 * curvature / (k + 2)


def test_one_label_leaves_nothing_to_learn() -> None:
    solution = solve(svm(3, n_labels=1), BlockFrankWolfe())
    assert (solution.status, solution.primal, solution.lower_bound) == (Status.OPTIMAL, 0.0, 0.0)


def test_too_many_numbers_and_bad_blocks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="block is 0"):
        next(BlockFrankWolfe(block=0).iterate(svm(0)))
    monkeypatch.setattr(block_frank_wolfe, "MOST_NUMBERS", 10)
    with pytest.raises(ValueError, match="use NSlack or Subgradient"):
        next(BlockFrankWolfe().iterate(svm(0)))
