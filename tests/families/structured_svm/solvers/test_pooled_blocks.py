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
from convexstruct.families.structured_svm.solvers import pooled_blocks, tempered_pools
from convexstruct.families.structured_svm.solvers.example_blocks import example_blocks
from convexstruct.families.structured_svm.solvers.pooled_blocks import PooledBlock
from convexstruct.families.structured_svm.solvers.tempered_pools import TemperedPools
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.families.structured_svm.solvers.references import holds, optimum


@dataclass(frozen=True)
class Blocks:
    """The blocks alone, whatever the size of the problem."""

    def iterate(self, problem: StructuredSVM, start: Solution | None = None) -> Iterator[Iterate]:
        yield from pooled_blocks.pooled_blocks(problem, start, 0)


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
    holds(solution, solve(problem, TemperedPools()).primal, gap=LOW.gap)


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


def filled(seed: int) -> tuple[PooledBlock, Vector]:
    """A block with a few labellings of each example and random multipliers, and its w."""
    problem = text(seed, n=6)
    run = pooled_blocks._Run(problem, np.random.default_rng(seed))
    (block,) = run.blocks
    rng = np.random.default_rng(seed + 1)
    for _ in range(3):
        block.renew(rng.normal(size=problem.dimension), None)
    block.prepare()
    block.alpha = block.simplices.nearest(rng.normal(size=len(block.b)))
    run.refresh()
    return block, run.w


def columns(block: PooledBlock) -> Matrix:
    """a_j = e_i(y) (f(x_i, y_i) - f(x_i, y)) of each labelling (m, d), one after the other by the feature map."""
    whole, found = block.block.whole, []
    for owner, key, b in zip(block.owner, block.labels, block.b):
        example = block.block.examples[owner : owner + 1]
        i = int(example[0])
        truth = whole.features.truth[whole.features.node_start[i] : whole.features.node_start[i + 1]]
        labels = np.frombuffer(key, dtype=block.kind).astype(np.int64)
        a = (whole.features.joint_each(truth, example) - whole.features.joint_each(labels, example)).toarray()[0]
        found.append(a * (b if whole.scaling == "slack" else 1.0))
    return np.array(found)


SHAPES: dict[str, dict[str, Any]] = KINDS | {
    "associative": {"associative": True},
    "a feature of each edge": {"edge_features": True},
    "dense": {"dense": True},
    "blocks of one example": {"block": 1},
}


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(sorted(SHAPES)))
def test_products_with_the_columns_in_parts_are_those_with_the_columns(seed: int, kind: str) -> None:
    more = dict(SHAPES[kind])
    if "weights" in more:
        more["weights"] = [0.3, 2.0, 1.0, 0.7, 1.0, 0.1]
    rng = np.random.default_rng(seed)
    problem = text(seed, n=6)
    x, labels = problem.features.node_features, problem.features.split_labels(problem.features.truth)
    size = more.pop("block", 16)
    if more.pop("dense", False):
        x = x.toarray()
    if more.pop("edge_features", False):
        more["edge_features"] = [rng.normal(size=(max(len(one) - 1, 0), 2)) for one in labels]
    problem = StructuredSVM.read(x, labels, 3, **({"C": 1.0} | more))
    for one in example_blocks(problem, size, rng):
        block = PooledBlock(one)
        for _ in range(3):
            # the next round keeps some labellings, whose rows of the Gram matrix stay, and drops the others
            block.alpha = rng.integers(0, 2, len(block.b)).astype(np.float64)
            block.renew(rng.normal(size=problem.dimension), None)
            block.prepare()
        if not len(block.b):
            continue
        a, w, alpha = columns(block), rng.normal(size=problem.dimension), rng.normal(size=len(block.b))
        assert block.along(w) == pytest.approx(a @ w, abs=1e-12)
        assert block.gram == pytest.approx(a @ a.T / block.lam, abs=1e-12)
        total = np.zeros(problem.dimension)
        total[block.used] = block.sum(alpha)
        assert total == pytest.approx(a.T @ alpha, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_the_nearest_point_of_the_simplices(seed: int) -> None:
    block, _ = filled(seed)
    given_ = np.random.default_rng(seed).normal(size=len(block.b))
    found = block.simplices.nearest(given_)
    for k, limit in enumerate(block.simplices.limit):
        here, z = found[block.simplices.own == k], given_[block.simplices.own == k]
        # the condition of optimality: z - found is the same where found > 0, not larger elsewhere, and >= 0
        level = max((z - here)[here > 0], default=max(z.max(), 0.0))
        assert here.min() >= 0
        assert here.sum() <= limit * (1 + 1e-12)
        assert level >= -1e-12
        assert (level <= 1e-12) or here.sum() == pytest.approx(limit)
        assert ((z - here)[here > 0] == pytest.approx(level, abs=1e-12)) if (here > 0).any() else True
        assert (z <= level + 1e-12)[here == 0].all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_a_step_gains_what_it_says_and_moves_w_with_the_multipliers(seed: int) -> None:
    block, w = filled(seed)
    lam, a = block.lam, columns(block)

    def dual() -> float:
        psi = a.T @ block.alpha
        return float(block.b @ block.alpha - 0.5 / lam * (psi @ psi))

    before = dual()
    gain = block.step(w)
    assert gain >= 0
    assert dual() - before == pytest.approx(gain, abs=1e-12)
    assert w == pytest.approx(a.T @ block.alpha / lam, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_directions_along_a_face_are_the_nearest_that_stay_in_it(seed: int) -> None:
    block, _ = filled(seed)
    simplices, rng = block.simplices, np.random.default_rng(seed)
    free = block.alpha > 0
    tight = np.add.reduceat(block.alpha, simplices.start) >= simplices.limit * (1 - 1e-12)
    along = simplices.along(block.alpha)
    given_ = rng.normal(size=len(free))
    found = along(given_)
    assert not found[~free].any()
    assert np.add.reduceat(found, simplices.start)[tight] == pytest.approx(0.0, abs=1e-12)
    assert along(found) == pytest.approx(found, abs=1e-12)
    other = along(rng.normal(size=len(free)))
    assert (given_ - found) @ other == pytest.approx(0.0, abs=1e-10)


def test_conjugate_gradients_reach_the_optimum_of_a_face_that_sweeps_only_approach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a few sweeps the face of the restricted optimum is found; cycles then gain what many sweeps would."""
    problem = text(2, n=60, columns=200)
    bounds = []
    for conjugate in (0, pooled_blocks.CONJUGATE_STEPS):
        monkeypatch.setattr(pooled_blocks, "CONJUGATE_STEPS", conjugate)
        run = pooled_blocks._Run(problem, np.random.default_rng(0))
        for _ in range(5):
            run.sweep(decode=True)
        before = run.bound
        run.cycles(5)
        bounds.append(run.bound - before)
        kept = run.w.copy()
        run.refresh()
        assert kept == pytest.approx(run.w, abs=1e-10)
    assert bounds[1] > bounds[0] > 0


@pytest.mark.parametrize("seed", range(4))
def test_conjugate_gradients_do_not_see_where_blocks_begin(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 examples with unequal ceilings: in blocks of 4 as in one block, up to the rounding of other orders."""
    rng = np.random.default_rng(seed)
    problem = text(seed, n=20, weights=10.0 ** rng.uniform(-2, 1, 20))
    seeds = rng.normal(size=(3, problem.dimension))
    ends: list[dict[tuple[int, bytes], float]] = []
    monkeypatch.setattr(pooled_blocks._Run, "sweep", lambda run, decode: 0)
    for size in (4, 20):
        monkeypatch.setattr(pooled_blocks, "BLOCK_EXAMPLES", size)
        run = pooled_blocks._Run(problem, np.random.default_rng(seed))
        for block in run.blocks:
            for w in seeds:
                block.renew(w, None)
            block.prepare()
            block.alpha = 0.4 * (block.simplices.limit / np.bincount(block.simplices.own))[block.simplices.own]
        run.refresh()
        before = run.bound
        run.cycles(1)
        assert run.bound > before
        for block in run.blocks:
            assert block.alpha.min() >= 0
            assert (np.bincount(block.owner, block.alpha) <= block.block.ceiling * (1 + 1e-12)).all()
        ends.append({
            (int(block.block.examples[i]), key): share
            for block in run.blocks for i, key, share in zip(block.owner, block.labels, block.alpha)
        })  # fmt: skip
        kept = run.w.copy()
        run.refresh()
        assert kept == pytest.approx(run.w, abs=1e-10)
    assert ends[0] == pytest.approx(ends[1], rel=1e-6, abs=1e-9)


def test_a_labelling_without_weight_is_dropped_and_may_return() -> None:
    block, w = filled(5)
    block.alpha = np.zeros(len(block.b))
    n = block.renew(w, None)
    assert n == len(block.b) == len(block.labels) == sum(map(len, block.pools))


def test_a_start_restores_its_bound() -> None:
    problem = text(4, n=20)
    first = solve(problem, Blocks(), tol=LOW, max_iterations=100)
    again = solve(problem, Blocks(), tol=LOW, start=first, max_iterations=1)
    assert again.lower_bound >= first.lower_bound * (1 - 1e-9)


@pytest.mark.parametrize(
    ("work", "frequent", "by_blocks"), [(0.0, 0.0, True), (np.inf, 0.0, False), (0.0, 1e3, False), (0.0, 7.0, True)]
)
def test_the_default_takes_blocks_where_data_are_wide_features_frequent_and_exact_pools_dear(
    work: float, frequent: float, by_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[StructuredSVM] = []

    def watched(problem: StructuredSVM, *rest: Any) -> Iterator[Iterate]:
        taken.append(problem)
        return pooled_blocks.pooled_blocks(problem, *rest)

    monkeypatch.setattr(tempered_pools, "CHEAP_WORK", work)
    monkeypatch.setattr(pooled_blocks, "LEAST_CURVATURE", frequent)
    monkeypatch.setattr(tempered_pools, "pooled_blocks", watched)
    problem = text(0)
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
    assert bool(taken) == by_blocks
    holds(solution, optimum(problem), gap=HIGH.gap)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, False),
        ({"scaling": "slack"}, True),
        ({"loss": "zero_one"}, True),
        ({"scaling": "slack", "associative": True}, False),
    ],
)
def test_the_default_takes_blocks_where_there_are_no_sums_and_exact_pools_are_dear(
    more: dict[str, Any], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooled_blocks, "LEAST_CURVATURE", np.inf)
    problem = text(0, size=2, **more)
    assert not tempered_pools.by_blocks(problem)
    monkeypatch.setattr(tempered_pools, "DEAR_WORK", 0.0)
    assert tempered_pools.by_blocks(problem) == expected
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
    assert ("a block of examples at a time" in solution.solver) == expected


@pytest.mark.parametrize(("size", "wide"), [(1e200, True), (1e-200, False)])
def test_whether_features_are_frequent_is_found_without_a_warning(size: float, wide: bool) -> None:
    problem = text(0)
    x = sp.csr_array(problem.features.node_features * size)
    problem = StructuredSVM.read(x, problem.features.split_labels(problem.features.truth), 3, C=1.0)
    with np.errstate(all="raise", under="ignore"):
        assert pooled_blocks.wide(problem) == wide


def test_the_default_takes_blocks_where_examples_have_several_components(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempered_pools, "CHEAP_WORK", 0.0)
    monkeypatch.setattr(pooled_blocks, "LEAST_CURVATURE", 0.0)
    problem = text(1, edges="none")
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
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


def test_the_nearest_point_to_large_numbers_keeps_the_ceiling() -> None:
    block, _ = filled(0)
    rise: Vector = 4.0 * np.random.default_rng(0).integers(0, 3, len(block.b)).astype(np.float64)
    found = block.simplices.nearest(1e16 + rise)
    start, own, limit = block.simplices.start, block.simplices.own, block.simplices.limit
    top = np.maximum.reduceat(rise, start)[own]
    at_top = np.bincount(own, rise == top)[own]
    assert found == pytest.approx(np.where(rise == top, limit[own] / at_top, 0.0), rel=1e-12)


def test_the_nearest_point_to_what_is_no_number_ends() -> None:
    block, _ = filled(0)
    assert np.isnan(block.simplices.nearest(np.full(len(block.b), np.nan))).all()


@pytest.mark.parametrize("rounds", [40, 10**9])
def test_exact_pools_end_what_blocks_do_not(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of sizes 1e-2 to 1e2: blocks alone need 101 rounds."""
    monkeypatch.setattr(tempered_pools, "CHEAP_WORK", 0.0)
    monkeypatch.setattr(tempered_pools, "BLOCK_ROUNDS", rounds)
    problem = text(1, n=6)
    size = sp.diags_array(10.0 ** np.random.default_rng(0).integers(-2, 3, problem.features.n_node_features))
    x = sp.csr_array(problem.features.node_features @ size)
    problem = StructuredSVM.read(x, problem.features.split_labels(problem.features.truth), 3, C=1.0)
    solution = solve(problem, tol=LOW, max_iterations=60)
    assert (solution.status is Status.OPTIMAL) == (rounds == 40)
    holds(solution, optimum(problem), gap=LOW.gap if rounds == 40 else 1.0)


def test_exact_pools_go_on_where_blocks_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*given_: Any) -> Iterator[Iterate]:
        yield replace(next(pooled_blocks.pooled_blocks(*given_)), done=True)

    monkeypatch.setattr(tempered_pools, "by_blocks", lambda problem: True)
    monkeypatch.setattr(tempered_pools, "pooled_blocks", ended)
    problem = text(0)
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
    holds(solution, optimum(problem), gap=HIGH.gap)


def test_pools_of_many_labellings_are_left_to_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempered_pools, "CHEAP_WORK", 0.0)
    monkeypatch.setattr(tempered_pools, "STEP_WORK", 0.0)
    solution = solve(text(0), TemperedPools(), max_iterations=500)
    assert solution.status is Status.OPTIMAL
    holds(solution, optimum(text(0)))


@pytest.mark.slow
def test_dense_chains_with_slack_scaling_are_left_to_exact_pools() -> None:
    """900 chains, d = 464: pools end in 11 rounds and 2 s; blocks have a gap of 0.56 after 27 and two minutes."""
    rng = np.random.default_rng(1)
    lengths, slopes = rng.integers(2, 6, 900), rng.normal(size=(50, 8))
    x = rng.normal(size=(int(lengths.sum()), 50))
    labels = np.argmax(x @ slopes + 7.0 * rng.normal(size=(len(x), 8)), axis=1)
    problem = StructuredSVM.read(x, np.split(labels, np.cumsum(lengths)[:-1]), 8, C=1.0, scaling="slack")
    assert tempered_pools.pool_work(problem) > tempered_pools.CHEAP_WORK
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


def test_it_ends_where_rounding_hides_what_rounds_gain_and_not_without_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, most = text(3, **KINDS["no edges"]), 30
    assert any(found.done for found in islice(Blocks().iterate(problem), most))
    monkeypatch.setattr(pooled_blocks, "IDLE_ROUNDS", 10**9)
    assert not any(found.done for found in islice(Blocks().iterate(problem), most))
