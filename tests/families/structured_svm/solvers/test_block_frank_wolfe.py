"""Block-coordinate Frank-Wolfe: a dual value that never falls, bounds that hold, steps best on their segment."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers import block_frank_wolfe
from convexstruct.families.structured_svm.solvers.block_frank_wolfe import BlockFrankWolfe
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


@pytest.mark.parametrize("name", ["slack scaling, weighted, a cost matrix", "associative cycles, two labels"])
def test_a_step_of_a_pair_is_the_best_on_its_segment_and_no_longer_where_weights_have_a_sign(name: str) -> None:
    problem, _ = reference(name)
    features, lam, rng = problem.features, problem.lam, np.random.default_rng(0)
    longest = int(features.lengths.argmax())
    block = block_frank_wolfe._Block.of(problem, np.array([longest], dtype=np.intp))
    ends = 0
    for _ in range(20):
        labels = [rng.integers(features.n_labels, size=int(features.lengths.max())) for _ in range(6)]
        a, b = block.differences(np.zeros(6, np.intp), labels)
        alpha, free = 3.0 * rng.random() * rng.dirichlet(np.ones(6)), rng.normal(size=problem.dimension)
        pairs = block_frank_wolfe._Pairs(a, b, np.array([0, 6]), alpha, lam, features.nonnegative, free)
        np.testing.assert_allclose(pairs.slopes, b - a @ problem.project(free), atol=ROUNDING)
        assert pairs._step(0, 6)
        by = pairs.alpha - alpha
        after = problem.project(free + a.T @ by / lam)
        np.testing.assert_allclose(pairs.slopes, b - a @ after, atol=ROUNDING)
        reach = float(np.min(alpha[by < 0] / -by[by < 0]))  # 1 where the step is cut off
        ends += reach < 1 + ROUNDING
        steps = np.array([0.0, 0.5, 0.99, 1.0, min(1.01, reach)])
        tried = [t * float(b @ by) + problem.dual_value(lam * free + a.T @ (t * by), 0.0) for t in steps]
        assert tried[3] > tried[0]
        if not features.associative:
            assert max(tried) <= tried[3] + ROUNDING
    assert 0 < ends < 20  # else all steps were cut off, or none


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", INSTANCES)
def test_a_block_has_the_columns_and_weights_of_the_whole_problem(name: str, sparse: bool) -> None:
    problem, rng = INSTANCES[name](), np.random.default_rng(3)
    features = problem.features
    if sparse:
        x = sp.csr_array(np.where(rng.random(features.node_features.shape) < 0.5, features.node_features, 0.0))
        features = replace(features, node_features=x)
        problem = replace(problem, features=features, kernel=None)
    block = block_frank_wolfe._Block.of(problem, np.arange(problem.n_examples)[::-2])
    w, entries = rng.normal(size=problem.dimension), block.entries(features)
    flat = rng.integers(features.n_labels, size=features.n_nodes)
    of_each = [features.split_labels(features.truth), features.split_labels(flat)]
    labels = [each[i] for i in block.examples for each in of_each]
    a, b = block.differences(np.repeat(np.arange(len(block.examples)), 2), labels)
    assert sp.issparse(a) == sparse
    rows = (features.joint_each(features.truth) - features.joint_each(flat)).toarray()[block.examples]
    lost = problem.loss.of(flat)[block.examples]
    weight = lost if problem.scaling == "slack" else np.ones(len(lost))
    np.testing.assert_allclose(b, np.column_stack((np.zeros(len(lost)), lost)).ravel())
    product = np.column_stack((np.zeros(len(lost)), weight * (rows @ w))).ravel()
    np.testing.assert_allclose(a @ w[entries], product, atol=ROUNDING)
    whole = np.zeros(problem.dimension)
    whole[entries] = a.T @ np.ones(len(b))
    np.testing.assert_allclose(whole, weight @ rows, atol=ROUNDING)


def test_the_average_is_that_of_the_paper_and_costs_no_pass_over_the_weights() -> None:
    for name in ("chains, weighted, a cost matrix, C_mean", "associative chains, three labels"):
        problem, _ = reference(name)
        run, mean = block_frank_wolfe._Run(problem), np.zeros(problem.dimension)
        for k in range(25):
            run.visit(block_frank_wolfe._Block.of(problem, np.array([k % problem.n_examples], dtype=np.intp)))
            mean = (k * mean + 2.0 * run.w) / (k + 2.0)
            np.testing.assert_allclose(run.mean, mean, atol=ROUNDING)
        assert mean.any()
        assert (run.w[problem.features.nonnegative] >= 0).all()


def test_examples_with_large_gaps_are_visited_and_all_of_them_every_few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert block_frank_wolfe._largest(np.array([0.0, 5.0, 1.0, 4.0]), 0.8).tolist() == [1, 3]
    assert block_frank_wolfe._largest(np.zeros(3), 0.8).tolist() == [0]
    problem, _ = reference("chains, weighted, a cost matrix, C_mean")
    seen: list[int] = []
    visit = block_frank_wolfe._Run.visit

    def watched(run: block_frank_wolfe._Run, block: block_frank_wolfe._Block) -> int:
        seen.append(len(block.examples))
        return visit(run, block)

    monkeypatch.setattr(block_frank_wolfe._Run, "visit", watched)
    for k, _ in enumerate(islice(BlockFrankWolfe(cover=0.5).iterate(problem), 2 * block_frank_wolfe.PASSES_TO_WHOLE)):
        assert (seen[-1] == problem.n_examples) == (k % block_frank_wolfe.PASSES_TO_WHOLE == 0)


def test_sparse_text_is_solved_where_examples_times_weights_are_half_a_billion() -> None:
    rng, n, width = np.random.default_rng(0), 900, 60_000
    labels = [rng.integers(10, size=2) for _ in range(n)]
    x = sp.csr_array((np.ones(8 * n), rng.integers(width, size=8 * n), np.arange(0, 8 * n + 1, 4)), (2 * n, width))
    problem = StructuredSVM.read(x, labels, 10, C=1.0)
    assert problem.n_examples * problem.dimension > 5e8
    solution = solve(problem, BlockFrankWolfe(), tol=LOW, max_iterations=2)
    assert 0.0 < solution.lower_bound < solution.primal < problem.trivial_value


def test_one_step_an_example_a_pass_is_at_least_as_good_as_one_frank_wolfe_step_for_all() -> None:
    """The rate of Frank-Wolfe (Jaggi 2013), D* - D_k <= 2 Curvature / (k + 2), with the whole set as one block."""
    problem, expected = reference("trees, weighted")
    curvature = (2 * radius(problem) * float(problem.ceiling.sum())) ** 2 / problem.lam
    for k, iterate in enumerate(islice(BlockFrankWolfe(block=None).iterate(problem), 60), start=1):
        assert expected - iterate.lower_bound <= 2 * curvature / (k + 2)


def test_one_label_leaves_nothing_to_learn() -> None:
    solution = solve(svm(3, n_labels=1), BlockFrankWolfe())
    assert (solution.status, solution.primal, solution.lower_bound) == (Status.OPTIMAL, 0.0, 0.0)


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="block is 0"):
        BlockFrankWolfe(block=0)
    with pytest.raises(ValueError, match="cover is 0"):
        BlockFrankWolfe(cover=0.0)
