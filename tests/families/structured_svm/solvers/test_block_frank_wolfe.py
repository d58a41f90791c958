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
from convexstruct.families.structured_svm.solvers.kept_labellings import Kept
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


def stocked(problem: StructuredSVM, seed: int) -> tuple[block_frank_wolfe._Run, Kept, Any]:
    """A run whose longest example has six labellings with random multipliers, at random weights; that example, and its
    columns (6, d), from the joint features."""
    rng, features = np.random.default_rng(seed), problem.features
    run, longest = block_frank_wolfe._Run(problem, rng), int(features.lengths.argmax())
    block = block_frank_wolfe._Block.of(problem, np.array([longest], dtype=np.intp))
    each, kind = run.kept[longest], run._truth.dtype
    true = np.frombuffer(each.labels[0], kind)
    labels = [rng.integers(features.n_labels, size=len(true)).astype(kind) for _ in range(5)]
    columns, lost = block.differences(np.zeros(5, np.intp), labels, features.n_node_features)
    each.extend(columns, run._where)
    for one, b in zip(labels, lost):
        each.add(one.tobytes(), float(b))
    each.alpha = 3.0 * rng.random() * rng.dirichlet(np.ones(6))
    run._free[:] = rng.normal(size=problem.dimension)
    run.w[:] = problem.project(run._free)
    joint = features.joint_each(np.concatenate([true, *labels]), np.full(6, longest)).toarray()
    scale = each.b[:, None] if problem.scaling == "slack" else 1.0
    return run, each, scale * (joint[0] - joint)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ["slack scaling, weighted, a cost matrix", "associative cycles, two labels"])
def test_a_step_of_a_pair_is_the_best_on_its_segment_and_no_longer_where_weights_have_a_sign(
    name: str, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, _ = reference(name)
    if sparse:
        x = sp.csr_array(problem.features.node_features)
        problem = replace(problem, features=replace(problem.features, node_features=x))
    monkeypatch.setattr(block_frank_wolfe, "MOST_STEPS", 1)
    lam, ends = problem.lam, 0
    for seed in range(20):
        run, each, a = stocked(problem, seed)
        alpha, free, b = each.alpha, run._free.copy(), each.b
        slopes, before = b - a @ run.w, run.bound
        gap, steps = run._step(each)
        assert gap == pytest.approx(alpha.sum() * slopes.max() - alpha @ slopes)
        by = each.alpha - alpha
        assert steps == 1
        assert by[slopes.argmax()] > 0
        assert by[slopes.argmin()] < 0
        np.testing.assert_allclose(run._free, free + a.T @ by / lam, atol=ROUNDING)
        np.testing.assert_allclose(run.w, problem.project(run._free))
        reach = float(np.min(alpha[by < 0] / -by[by < 0]))  # 1 where the step is cut off
        ends += reach < 1 + ROUNDING
        sizes = np.array([0.0, 0.5, 0.99, 1.0, min(1.01, reach)])
        tried = [t * float(b @ by) + problem.dual_value(lam * free + a.T @ (t * by), 0.0) for t in sizes]
        assert tried[3] > tried[0]
        assert run.bound - before == pytest.approx(tried[3] - tried[0])
        if not problem.features.associative:
            assert max(tried) <= tried[3] + ROUNDING
    assert 0 < ends < 20  # else all steps were cut off, or none


@pytest.mark.parametrize("name", INSTANCES)
def test_steps_of_an_example_never_lower_the_dual_value_and_leave_little_of_its_gap(name: str) -> None:
    problem, _ = reference(name)
    for seed in range(5):
        run, each, a = stocked(problem, seed)
        before, (gap, steps) = run.bound, run._step(each)
        assert run.bound >= before - ROUNDING
        assert each.alpha.min() >= 0
        slopes = each.b - a @ run.w
        left = each.alpha.sum() * slopes.max() - each.alpha @ slopes
        few = steps < block_frank_wolfe.MOST_STEPS
        assert left <= block_frank_wolfe.INNER_SHARE * gap + ROUNDING or not few


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
    w = problem.project(rng.normal(size=problem.dimension))
    flat = rng.integers(features.n_labels, size=features.n_nodes)
    of_each = [features.split_labels(features.truth), features.split_labels(flat)]
    labels = [each[i] for i in block.examples for each in of_each]
    owner = np.repeat(np.arange(len(block.examples)), 2)
    columns, b = block.differences(owner, labels, features.n_node_features)
    a = np.zeros((len(columns), problem.dimension))
    for row, (place, value) in zip(a, columns):
        assert (place is not None) == sparse
        np.add.at(row, np.arange(len(value)) if place is None else place, value)
    rows = (features.joint_each(features.truth) - features.joint_each(flat)).toarray()[block.examples]
    lost = problem.loss.of(flat)[block.examples]
    weight = lost if problem.scaling == "slack" else np.ones(len(lost))
    np.testing.assert_allclose(b, np.column_stack((np.zeros(len(lost)), lost)).ravel())
    np.testing.assert_allclose(a[1::2], weight[:, None] * rows, atol=ROUNDING)
    assert not a[::2].any()
    narrow = block.part.most_violated(w[block.entries])
    np.testing.assert_allclose(narrow.hinge, problem.most_violated(w).hinge[block.examples], atol=ROUNDING)


def test_the_average_is_that_of_the_paper_and_costs_no_pass_over_the_weights() -> None:
    for name in ("chains, weighted, a cost matrix, C_mean", "associative chains, three labels"):
        problem, _ = reference(name)
        run, mean = block_frank_wolfe._Run(problem, np.random.default_rng(0)), np.zeros(problem.dimension)
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


def text(n: int, seed: int = 0, scaling: Any = "margin") -> StructuredSVM:
    """Chains of one to six words, sparse features that several words share, four labels, one of which is not used."""
    rng = np.random.default_rng(seed)
    labels = [rng.integers(3, size=1 + i % 6) for i in range(n)]
    truth = np.concatenate(labels)
    words = np.where(rng.random(len(truth)) < 0.5, truth, rng.integers(3, 40, size=len(truth)))
    x = sp.csr_array(np.eye(41)[words] + np.eye(41)[40])
    return StructuredSVM.read(x, labels, 4, C=1.0, scaling=scaling)


@pytest.mark.parametrize("scaling", ["margin", "slack"])
def test_sparse_text_is_solved_whether_columns_are_held_or_not(scaling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = text(30, scaling=scaling)
    held = solve(problem, BlockFrankWolfe(), tol=LOW, max_iterations=60)
    monkeypatch.setattr(block_frank_wolfe, "HELD_SHARE", 0)
    released = solve(problem, BlockFrankWolfe(), tol=LOW, max_iterations=60)
    assert max(held.lower_bound, released.lower_bound) <= min(held.primal, released.primal)
    assert max(held.gap, released.gap) <= 1e-2


def test_columns_and_labellings_take_no_more_than_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = text(40)
    size = problem.features.node_features.nnz + problem.features.n_nodes * problem.features.n_labels
    rng = np.random.default_rng(0)
    blocks = [block_frank_wolfe._Block.of(problem, np.arange(low, low + 8)) for low in range(0, 40, 8)]
    counts = []
    for share, most in ((8, 64), (1, 64), (8, 3)):
        monkeypatch.setattr(block_frank_wolfe, "HELD_SHARE", share)
        monkeypatch.setattr(block_frank_wolfe, "MOST_KEPT", most)
        run, bounds = block_frank_wolfe._Run(problem, rng), [0.0]
        for _ in range(12):
            for block in blocks:
                run.visit(block)
            run.again(8)
            held = sum(each.held for each in run.kept)
            assert held <= share * size
            assert run._room == share * size - held
            assert max(len(each.labels) for each in run.kept) <= most
            bounds.append(run.bound)
        assert (np.diff(bounds) >= -ROUNDING).all()
        kept = [len(each.labels) for each in run.kept]
        counts.append((max(kept), sum(each.a is None for each, m in zip(run.kept, kept) if m > 1)))
        certificate = certify(problem, {"w": run.w}, run.snapshot()())
        assert certificate.lower_bound == pytest.approx(run.bound, rel=ROUNDING)
    assert counts[0][0] > 3
    assert counts[0][1] == 0
    assert counts[1][1] > 0  # some are released
    assert counts[2][0] == 3


def test_room_is_made_by_the_best_transfer_of_the_smallest_multiplier_or_not_at_all() -> None:
    problem, _ = reference("chains, weighted, a cost matrix, C_mean")
    made = 0
    for seed in range(20):
        run, each, a = stocked(problem, seed)
        run._free[:] = run.w[:] = 0.1 * run.w
        each.alpha = np.array([0.3, *(0.1 * np.random.default_rng(seed).permutation(5) + 0.05)])
        alpha, labels, w, before = each.alpha, each.labels, run.w.copy(), run.bound
        z = 1 + int(alpha[1:].argmin())
        values = []
        for y in range(6):
            by = np.zeros(6)
            by[y] += alpha[z]
            by[z] -= alpha[z]
            after = w + a.T @ by / problem.lam
            values.append(-np.inf if y == z else by @ each.b - 0.5 * problem.lam * (after @ after - w @ w))
        run._make_room(each)
        if max(values) < 0:
            assert each.labels == labels
            assert run.bound == before
            continue
        made += 1
        assert each.labels == labels[:z] + labels[z + 1 :]
        assert each.alpha.sum() == pytest.approx(alpha.sum())
        assert run.bound - before == pytest.approx(max(values))
    assert 0 < made < 20


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


def test_an_end_for_want_of_room_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_frank_wolfe, "MOST_KEPT", 1)
    found = solve(text(10), BlockFrankWolfe())
    assert found.status is Status.STALLED
    assert "10 examples keep 1 labellings" in found.message
