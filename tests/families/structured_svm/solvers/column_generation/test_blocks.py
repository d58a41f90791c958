"""Ascent over pools by blocks: against all labellings written out, and each part of a step against its definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Matrix, Vector
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution, Status
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.column_generation import blocks, column_generation
from convexstruct.families.structured_svm.solvers.column_generation.blocks import Ascent
from convexstruct.families.structured_svm.solvers.column_generation.column_generation import ColumnGeneration
from convexstruct.families.structured_svm.solvers.column_generation.example_pools import ExamplePool
from convexstruct.families.structured_svm.solvers.example_blocks import starting_w
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.families.structured_svm.solvers.references import holds, optimum


@dataclass(frozen=True)
class Blocks:
    """The blocks alone, whatever the size of the problem."""

    def iterate(self, problem: StructuredSVM, start: Solution | None = None) -> Iterator[Iterate]:
        run = Ascent(problem, np.random.default_rng(0))
        if start is not None:
            run.adopt(start.dual_point or {})
        yield from blocks.ascend(run, starting_w(problem, start), start is not None)


def text(seed: int, n: int = 4, size: int = 3, columns: int = 40, **more: Any) -> StructuredSVM:
    """Chains of 1 to 4 tokens, each with one column of all and three more, as words in a window are."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, n)
    p = int(lengths.sum())
    places = np.concatenate((np.zeros((p, 1), dtype=int), rng.integers(1, columns, (p, 3))), axis=1)
    x = sp.csr_array((np.ones(4 * p), places.ravel(), 4 * np.arange(p + 1)), shape=(p, columns))
    labels = np.split(rng.integers(0, size, p), np.cumsum(lengths)[:-1])
    return StructuredSVM.read(x, labels, size, **({"C": 1.0} | more))


KINDS: dict[str, dict[str, Any]] = {
    "margin": {},
    "weighted": {"weights": [0.3, 2.0, 1.0, 0.7], "C": 3.0},
    "slack": {"scaling": "slack"},
    "zero-one": {"loss": "zero_one"},
    "costs": {"loss": np.array([[0.0, 1.0, 3.0], [0.5, 0.0, 2.0], [0.0, 1.0, 0.0]]), "C": 5.0},
    "no edges": {"edges": "none"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_it_reaches_the_optimum_over_all_labellings(kind: str, seed: int) -> None:
    problem = text(seed, **KINDS[kind])
    solution = solve(problem, Blocks(), max_iterations=500)
    assert solution.status is Status.OPTIMAL
    holds(solution, optimum(problem))


def test_examples_in_several_blocks_share_one_w() -> None:
    problem = text(2, n=40)
    solution = solve(problem, Blocks(), tol=LOW, max_iterations=300)
    assert solution.status is Status.OPTIMAL
    holds(solution, solve(problem, ColumnGeneration()).primal, gap=LOW.gap)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["margin", "slack"]))
def test_the_dual_value_never_falls_and_the_witness_has_it(seed: int, scaling: Any) -> None:
    problem = text(seed, n=20, scaling=scaling)
    before = 0.0
    for iterate in islice(Blocks().iterate(problem), 4):
        assert callable(iterate.dual_point)
        bound = iterate.lower_bound
        assert bound >= before - ROUNDING * (1 + abs(bound))
        assert float(problem.dual(iterate.dual_point())) >= bound - ROUNDING * (1 + abs(bound))
        assert iterate.primal == pytest.approx(float(problem.primal(iterate.point)))
        before = bound


def filled(problem: StructuredSVM, seed: int) -> Ascent:
    """A run with a few labellings of each example and random multipliers."""
    rng = np.random.default_rng(seed)
    run = Ascent(problem, rng)
    for _ in range(3):
        for batch in run.batches:
            found = batch.part.most_violated(rng.normal(size=len(batch.entries)))
            run.add(batch, [found.labels], [found.violation > -1])
    for pool in run.pools:
        pool.alpha = pool.ceiling * rng.dirichlet(np.ones(len(pool.b)))
    run.refresh()
    return run


def columns(problem: StructuredSVM, pool: ExamplePool, i: int, kind: Any) -> tuple[Matrix, Vector]:
    """a = e_i(y) (f(x_i, y_i) - f(x_i, y)) and E_i(y) of each labelling of example i, by the feature map."""
    features, example = problem.features, np.array([i])
    truth = features.split_labels(features.truth)[i]
    rows, lost = [], []
    for key in pool.labels:
        labels, flat = np.frombuffer(key, dtype=kind).astype(np.int64), features.truth.copy()
        flat[features.node_start[i] : features.node_start[i + 1]] = labels
        b = float(problem.loss.of(flat)[i])
        a = (features.joint_each(truth, example) - features.joint_each(labels, example)).toarray()[0]
        rows.append(a * (b if problem.scaling == "slack" else 1.0))
        lost.append(b)
    return np.array(rows), np.array(lost)


SHAPES: dict[str, dict[str, Any]] = KINDS | {
    "a feature of each edge": {"edge_features": True},
    "dense": {"dense": True},
}


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(sorted(SHAPES)))
def test_the_columns_of_a_pool_are_those_of_the_feature_map_as_labellings_come_and_go(seed: int, kind: str) -> None:
    more = dict(SHAPES[kind])
    if "weights" in more:
        more["weights"] = [0.3, 2.0, 1.0, 0.7, 1.0, 0.1]
    rng = np.random.default_rng(seed)
    problem = text(seed, n=6)
    x, labels = problem.features.node_features, problem.features.split_labels(problem.features.truth)
    if more.pop("dense", False):
        x = x.toarray()
    if more.pop("edge_features", False):
        more["edge_features"] = [rng.normal(size=(max(len(one) - 1, 0), 2)) for one in labels]
    problem = StructuredSVM.read(x, labels, 3, **({"C": 1.0} | more))
    run = filled(problem, seed)
    for pool in run.pools:  # some labellings are dropped, and others come
        pool.alpha *= rng.integers(0, 2, len(pool.b))
        pool.settle()
    run.refresh()
    run.decode(None)
    w = np.zeros(problem.dimension)
    for i, pool in enumerate(run.pools):
        a, lost = columns(problem, pool, i, run.truth.dtype)
        own = np.zeros_like(a)
        own[:, pool.place] = pool.a
        assert own == pytest.approx(a, abs=1e-12)
        assert pool.b == pytest.approx(lost)
        assert pool.gram == pytest.approx(a @ a.T, abs=1e-12)
        assert len(set(pool.labels)) == len(pool.labels) == len(pool.alpha)
        w += a.T @ pool.alpha / problem.lam
    assert run.w == pytest.approx(w, abs=1e-10)
    assert (run.where == -1).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["margin", "slack"]))
def test_steps_of_an_example_raise_the_dual_value_and_leave_little_of_its_gap(seed: int, scaling: Any) -> None:
    run = filled(text(seed, n=6, scaling=scaling), seed)
    for pool in run.pools:
        slopes = pool.b - pool.a @ run.w[pool.place]
        gap, before = pool.ceiling * slopes.max() - pool.alpha @ slopes, run.bound
        run.step(pool)
        assert run.bound >= before - ROUNDING
        assert pool.alpha.min() >= 0
        assert pool.alpha.sum() == pytest.approx(pool.ceiling)
        slopes = pool.b - pool.a @ run.w[pool.place]
        left = pool.ceiling * slopes.max() - pool.alpha @ slopes
        assert left <= blocks.INNER_SHARE * gap + ROUNDING


def test_a_labelling_without_multiplier_is_dropped_and_the_truth_never_is() -> None:
    run = filled(text(5, n=6), 5)
    for pool in run.pools:
        truth = pool.labels[0]
        pool.alpha = np.zeros(len(pool.b))
        pool.settle()
        assert pool.labels == [truth]
        assert pool.a.shape == (1, 0)


def test_a_start_restores_its_bound() -> None:
    problem = text(4, n=20)
    first = solve(problem, Blocks(), tol=LOW, max_iterations=100)
    again = solve(problem, Blocks(), tol=LOW, start=first, max_iterations=1)
    assert again.lower_bound >= first.lower_bound * (1 - 1e-9)
    run = Ascent(problem, np.random.default_rng(0))
    run.adopt(first.dual_point or {})
    assert [pool.alpha.sum() for pool in run.pools] == pytest.approx([pool.ceiling for pool in run.pools])


@pytest.mark.parametrize(
    ("constant", "more", "expected"),
    [
        ("CHEAP_WORK", {}, True),
        ("CHEAP_WORK", {"dense": True}, False),
        ("DEAR_WORK", {}, False),
        ("DEAR_WORK", {"scaling": "slack"}, True),
        ("DEAR_WORK", {"loss": "zero_one"}, True),
        ("DEAR_WORK", {"scaling": "slack", "associative": True}, False),
    ],
)
def test_the_default_ascends_where_exact_pools_are_dear_and_data_are_wide_or_there_are_no_sums(
    constant: str, more: dict[str, Any], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = text(0, **{key: value for key, value in more.items() if key != "dense"})
    if "dense" in more:
        x = problem.features.node_features.toarray()
        problem = StructuredSVM.read(x, problem.features.split_labels(problem.features.truth), 3, C=1.0)
    assert "an example at a time" not in solve(problem).solver
    monkeypatch.setattr(column_generation, constant, 0.0)
    solution = solve(problem)
    assert ("an example at a time" in solution.solver) == expected
    holds(solution, optimum(problem))


def test_gradients_whose_squares_underflow_end_the_conjugate_gradients() -> None:
    """Losses of 1e-100 and features of 1e10: what rounding leaves of a gradient has a square of 0."""
    problem = text(0)
    x = sp.csr_array(problem.features.node_features * 1e10)
    labels = problem.features.split_labels(problem.features.truth)
    problem = StructuredSVM.read(x, labels, 3, C=1.0, loss=1e-100 * (1.0 - np.eye(3)))
    for iterate in islice(Blocks().iterate(problem), 6):
        assert np.isfinite(iterate.primal)


@pytest.mark.parametrize("x", [np.ones((2, 5)), np.zeros((2, 5))], ids=["opposite", "without features"])
def test_columns_that_cancel_do_not_stall_it(x: Any) -> None:
    """Two examples with the same features and opposite labels, or none: w stays 0, and D = P = 2 needs alpha = c."""
    problem = StructuredSVM.read(sp.csr_array(x), [[0], [1]], 2, C=1.0)
    solution = solve(problem, Blocks(), max_iterations=20)
    assert solution.status is Status.OPTIMAL
    assert solution.lower_bound == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize(
    "numbers", [{"BLOCK_ROUNDS": 3}, {"BLOCK_ROUNDS": 3, "GROWN_WORK": 0.0}], ids=["once", "and back"]
)
@pytest.mark.parametrize("edges", ["chain", "none"])
def test_pools_and_blocks_hand_over_to_each_other_and_the_bounds_stay_true(
    edges: str, numbers: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of sizes 1e-2 to 1e2."""
    for name, value in ({"CHEAP_WORK": 0.0} | numbers).items():
        monkeypatch.setattr(column_generation, name, value)
    problem = text(1, n=6, edges=edges)
    size = sp.diags_array(10.0 ** np.random.default_rng(0).integers(-2, 3, problem.features.n_node_features))
    x = sp.csr_array(problem.features.node_features @ size)
    problem = StructuredSVM.read(x, problem.features.split_labels(problem.features.truth), 3, edges=edges, C=1.0)
    expected, bounds = optimum(problem), []
    solution = solve(problem, tol=LOW, callback=lambda iterate, _: bounds.append(iterate.lower_bound))
    assert solution.status is Status.OPTIMAL
    assert max(bounds) <= expected * (1 + HIGH.gap)
    holds(solution, expected, gap=LOW.gap)


@pytest.mark.slow
def test_dense_chains_with_slack_scaling_are_left_to_exact_pools() -> None:
    """900 chains, d = 464: pools end in 11 rounds and 2 s; blocks have a gap of 0.56 after 27 and two minutes."""
    rng = np.random.default_rng(1)
    lengths, slopes = rng.integers(2, 6, 900), rng.normal(size=(50, 8))
    x = rng.normal(size=(int(lengths.sum()), 50))
    labels = np.argmax(x @ slopes + 7.0 * rng.normal(size=(len(x), 8)), axis=1)
    problem = StructuredSVM.read(x, np.split(labels, np.cumsum(lengths)[:-1]), 8, C=1.0, scaling="slack")
    assert column_generation.pool_work(problem) > column_generation.CHEAP_WORK
    assert solve(problem, tol=LOW, max_iterations=30).status is Status.OPTIMAL


@pytest.mark.parametrize("witness", [True, False])
def test_a_start_is_the_first_iterate(witness: bool) -> None:
    problem = text(1, n=20, scaling="slack")
    first = solve(problem, Blocks(), tol=LOW, max_iterations=100)
    start = first if witness else replace(first, dual_point=None)
    again = solve(problem, Blocks(), tol=LOW, start=start, max_iterations=1)
    assert again.primal <= first.primal * (1 + 1e-12)


def test_it_stops_in_time_with_bounds() -> None:
    solution = solve(text(6, n=60, columns=2000), Blocks(), tol=1e-15, time_limit=0.3)
    assert np.isfinite(solution.gap)
    assert solution.lower_bound > 0


def test_it_ends_where_rounding_hides_what_rounds_gain() -> None:
    """By IDLE_ROUNDS of the blocks: without them it goes on."""
    assert any(found.done for found in islice(Blocks().iterate(text(3, **KINDS["no edges"])), 30))
