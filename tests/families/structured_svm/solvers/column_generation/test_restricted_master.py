"""The quadratic program over pools: both bounds by their formulas, on random pools of all scales."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from convexstruct.arrays import Vector
from convexstruct.deadline import within
from convexstruct.families.structured_svm.solvers.column_generation import restricted_master
from convexstruct.families.structured_svm.solvers.column_generation.pools import large_features, without
from convexstruct.families.structured_svm.solvers.column_generation.restricted_master import (
    PoolColumns,
    PoolSolution,
    solve_pools,
)
from convexstruct.tolerances import HIGH, ROUNDING


class Pools(NamedTuple):
    """min lam/2 |w|^2 + sum_i c_i max_j (b_j - a_j'w), w >= 0 where nonnegative."""

    a: Vector
    b: Vector
    owner: NDArray[np.intp]
    c: Vector
    lam: float
    nonnegative: NDArray[np.bool_]
    w: Vector

    @property
    def start(self) -> NDArray[np.intp]:
        return np.searchsorted(self.owner, np.arange(len(self.c))).astype(np.intp)

    def value(self, w: Vector) -> float:
        hinge = np.maximum.reduceat(self.b - self.a @ w, self.start)
        return 0.5 * self.lam * float(w @ w) + float(self.c @ hinge)

    def bound(self, alpha: Vector) -> float:
        psi = self.a.T @ alpha
        psi[self.nonnegative] = np.maximum(psi[self.nonnegative], 0.0)
        return float(self.b @ alpha) - 0.5 / self.lam * float(psi @ psi)

    @property
    def size(self) -> float:
        """P(0), at least 1: tolerances are relative to it."""
        return max(1.0, self.value(np.zeros(self.a.shape[1])))

    def solve(self, kind: str = "dense") -> PoolSolution:
        a = sp.csr_array(self.a) if kind == "sparse" else self.a
        large = large_features(self.a) if kind == "gram" else np.zeros(0, dtype=np.intp)
        others = without(self.a, large)
        gram = others @ others.T if kind == "gram" else None
        columns = PoolColumns(a, self.b, self.owner, gram, large=large)
        tolerance = HIGH.gap * 1e-3 * self.size
        return solve_pools(columns, self.c, self.lam, self.w, tolerance, self.nonnegative)


def drawn(seed: int, d: int | None = None, bounded: bool = False, most: int = 8) -> Pools:
    """Random pools of all scales: integer columns, duplicates, pools of the truth alone."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most))
    d = int(rng.integers(1, 40)) if d is None else d
    owner = np.repeat(np.arange(n), rng.integers(1, most, size=n)).astype(np.intp)
    a = rng.normal(size=(len(owner), d)) * 10.0 ** rng.uniform(-1, 1.5)
    b = rng.integers(0, 5, size=len(owner)).astype(np.float64)
    if rng.random() < 0.4:
        a = np.round(a)
    first = np.searchsorted(owner, np.arange(n))
    a[first], b[first] = 0.0, 0.0
    for j in range(1, len(owner)):
        if owner[j] == owner[j - 1] and rng.random() < 0.2:
            a[j], b[j] = a[j - 1], b[j - 1]
    c = rng.uniform(0.5, 2.0, size=n) * 10.0 ** rng.uniform(-2, 2)
    nonnegative = (rng.random(d) < 0.5) & bounded
    w = rng.normal(size=d) * (rng.random() < 0.5)
    return Pools(a, b, owner, c, float(10.0 ** rng.uniform(-2, 1)), nonnegative, w)


def uneven(seed: int) -> Pools:
    """Wide pools with features of 1e3 to 1e9 times the others; a column of large ones may be there twice."""
    rng = np.random.default_rng(seed)
    pools = drawn(seed, d=60)
    a = pools.a.copy()
    some = rng.choice(60, size=int(rng.integers(1, 5)), replace=False)
    a[:, some] *= 10.0 ** rng.uniform(3, 9, size=len(some))
    if rng.random() < 0.3:
        a[:, some[-1]] = a[:, some[0]]
    return pools._replace(a=a, lam=1.0, w=np.zeros(60))


def kinds(pools: Pools) -> list[str]:
    """Every form the Newton system can take on these pools, as `LabellingPools` would choose it."""
    small = len(pools.b) < pools.a.shape[1] and not pools.nonnegative.any()
    return ["dense", "sparse", *(["gram"] if small else [])]


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 100_000), st.booleans())
@example(340, False)  # with long steps to the boundary these go round in circles
@example(637, False)
@example(859, True)
@example(1357, False)
@example(2058, False)
@example(230, False)  # here nothing improves for the first steps
@example(302, True)
@example(915, True)
def test_primal_and_dual_meet_and_are_what_they_are_said_to_be(seed: int, bounded: bool) -> None:
    """By weak duality, with both values computed from their formulas, that is the optimum."""
    pools = drawn(seed, bounded=bounded)
    for kind in kinds(pools):
        found = pools.solve(kind)
        assert found.primal - found.bound <= HIGH.gap * pools.size, kind
        assert found.primal == pytest.approx(pools.value(found.w), rel=ROUNDING, abs=ROUNDING * pools.size)
        assert found.bound == pytest.approx(pools.bound(found.alpha), rel=ROUNDING, abs=ROUNDING * pools.size)
        assert (found.alpha >= 0).all()
        totals = np.add.reduceat(found.alpha, pools.start)
        assert (totals <= pools.c * (1 + ROUNDING)).all()
        assert (found.w[pools.nonnegative] >= 0).all()


def test_features_of_other_sizes_do_not_hide_the_rest_from_the_gram_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the system of size d, which would mend what the Gram matrix lost."""
    monkeypatch.setattr(restricted_master, "WIDEST", 0)
    for seed in range(60):
        pools = uneven(seed)
        found = pools.solve("gram")
        assert found.primal - found.bound <= HIGH.gap * pools.size, seed
        assert found.bound == pytest.approx(pools.bound(found.alpha), rel=ROUNDING, abs=ROUNDING * pools.size)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100_000))
@example(0)
def test_many_examples_from_a_w_far_from_the_optimum(seed: int) -> None:
    """A w that separates nothing: from slacks of a thousandth of the mean xi the steps are 1e-5."""
    rng = np.random.default_rng(seed)
    n, d = 300, 20
    owner = np.repeat(np.arange(n), 3).astype(np.intp)
    a, b = 5.0 * rng.normal(size=(len(owner), d)), rng.integers(1, 6, size=len(owner)).astype(np.float64)
    first = np.searchsorted(owner, np.arange(n))
    a[first], b[first] = 0.0, 0.0
    pools = Pools(a, b, owner, np.ones(n), 1.0, np.zeros(d, dtype=bool), 0.5 * rng.normal(size=d))
    found = pools.solve()
    assert found.primal - found.bound <= HIGH.gap * pools.size
    assert found.steps <= 30


def test_a_gap_that_rounding_does_not_allow_ends_once_nothing_improves() -> None:
    """No gap below 0 is ever reached: without the PATIENCE of the restricted_master Newton's steps have no end."""
    pools = drawn(8)
    columns = PoolColumns(pools.a, pools.b, pools.owner)
    with within(10.0):
        found = solve_pools(columns, pools.c, pools.lam, pools.w, -pools.size, pools.nonnegative)
    assert found.primal - found.bound <= HIGH.gap * pools.size
