"""The pairs of L-BFGS against the updates of BFGS written out with dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.core.quasi_newton import Pairs
from convexstruct.tolerances import ROUNDING


def pairs_of_a_quadratic(n: int, count: int, seed: int) -> tuple[Vector, list[tuple[Vector, Vector]]]:
    """A positive definite Hessian and pairs (s, Hessian s)."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    hessian = root @ root.T + np.eye(n)
    changes = rng.normal(size=(count, n))
    return hessian, [(s, hessian @ s) for s in changes]


def updated(start: Vector, pairs: list[tuple[Vector, Vector]]) -> Vector:
    """The inverse Hessian after the BFGS updates, by their formula."""
    h = start
    for s, y in pairs:
        left = np.eye(len(s)) - np.outer(s, y) / (s @ y)
        h = left @ h @ left.T + np.outer(s, s) / (s @ y)
    return h


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize(("count", "memory"), [*((n, 4) for n in (0, 1, 3, 4, 5, 8, 9, 23)), (5, 1)])
def test_a_solve_is_the_product_of_the_last_updates(count: int, memory: int, single: bool) -> None:
    _, pairs = pairs_of_a_quadratic(6, count, count)
    start = np.diag(np.linspace(0.5, 2.0, 6))
    kept = Pairs(memory, 6, single=single)
    for change, bend in pairs:
        kept.add(change, bend)
    assert len(kept) == min(count, memory)
    gradient = np.random.default_rng(1).normal(size=6)
    found = kept.solve(lambda q: start @ q, gradient, fit=False)
    assert found.dtype == np.float64
    near = 1e4 * float(np.finfo(np.float32).eps) if single else ROUNDING
    np.testing.assert_allclose(found, updated(start, pairs[-memory:]) @ gradient, rtol=near, atol=near)


def test_the_fitted_metric_is_scaled_by_the_last_pair() -> None:
    _, pairs = pairs_of_a_quadratic(5, 3, 0)
    kept = Pairs(10, 5)
    for change, bend in pairs:
        kept.add(change, bend)
    s, y = pairs[-1]
    gradient = np.arange(5.0)
    wanted = updated((s @ y) / (y @ y) * np.eye(5), pairs) @ gradient
    for _ in range(2):  # this metric returns its argument, not a copy: neither the pairs nor the gradient may change
        np.testing.assert_allclose(kept.solve(lambda q: q, gradient, fit=True), wanted, rtol=ROUNDING)
    np.testing.assert_array_equal(gradient, np.arange(5.0))


@pytest.mark.parametrize("fit", [False, True])
def test_a_diagonal_that_the_pairs_do_not_know_is_added_to_each(fit: bool) -> None:
    _, pairs = pairs_of_a_quadratic(5, 7, 1)
    more = np.array([3.0, 100.0])
    kept, other = Pairs(4, 5), Pairs(4, 5)
    for s, y in pairs:
        kept.add(s, y)
        other.add(s, y + np.concatenate((np.zeros(3), more)) * s)
    gradient = np.arange(5.0)
    for _ in range(2):  # the pairs themselves are unchanged
        found = kept.solve(lambda q: 0.5 * q, gradient, fit, more)
        np.testing.assert_allclose(found, other.solve(lambda q: 0.5 * q, gradient, fit), rtol=1e3 * ROUNDING)


def test_in_another_inner_product_a_solve_is_the_product_of_the_updates_written_in_it() -> None:
    """<a, b> = a'Kb: with K = C'C the updates are the usual ones of C s and C y, and u is kept with K u beside it."""
    rng = np.random.default_rng(7)
    n, root = 5, np.tril(rng.normal(size=(5, 5)), -1) + 2.0 * np.eye(5)
    gram = root.T @ root

    def both(u: Any) -> Vector:
        return np.concatenate((u, gram @ u))

    _, usual = pairs_of_a_quadratic(n, 6, 3)  # C s and C y
    kept = Pairs(4, 2 * n, inner=lambda rows, x: rows[:, :n] @ x[n:])
    for s, y in usual:
        kept.add(both(np.linalg.solve(root, s)), both(np.linalg.solve(root, y)))
    gradient = rng.normal(size=n)
    s, y = usual[-1]
    wanted = np.linalg.solve(root, updated((s @ y) / (y @ y) * np.eye(n), usual[-4:]) @ (root @ gradient))
    found = kept.solve(lambda q: q, both(gradient), fit=True)
    np.testing.assert_allclose(found, both(wanted), rtol=1e3 * ROUNDING)


@pytest.mark.parametrize("single", [False, True])
def test_a_pair_whose_product_is_rounding_is_not_kept(single: bool) -> None:
    kept = Pairs(3, 2, single=single)
    for bend in ([-1.0, 0.0], [0.0, 1.0], [1e-13, 1.0]):
        kept.add(np.array([1.0, 0.0]), np.array(bend))
    assert len(kept) == 0
    kept.add(np.array([1.0, 0.0]), np.array([1e-11, 1.0]))
    assert len(kept) == 1


def test_scaled_pairs_speak_of_the_scaled_hessian_and_cleared_ones_of_none() -> None:
    hessian, pairs = pairs_of_a_quadratic(4, 7, 2)
    kept, other = Pairs(5, 4), Pairs(5, 4)
    for change, bend in pairs:
        kept.add(change, bend)
        other.add(change, 3.0 * bend)
    kept.scale(3.0)
    gradient = np.ones(4)
    wanted = other.solve(lambda q: q, gradient, fit=False)
    np.testing.assert_allclose(kept.solve(lambda q: q, gradient, fit=False), wanted, rtol=ROUNDING)
    assert not np.allclose(wanted, np.linalg.solve(hessian, gradient))
    kept.clear()
    np.testing.assert_array_equal(kept.solve(lambda q: q, gradient, fit=True), gradient)


def test_a_pair_that_is_not_kept_drops_no_other() -> None:
    _, pairs = pairs_of_a_quadratic(3, 9, 2)
    for count in range(len(pairs)):
        kept = Pairs(2, 3)
        for s, y in pairs[:count]:
            kept.add(s, y)
        before = kept.solve(lambda q: q, np.arange(3.0), fit=False)
        kept.add(pairs[0][0], -pairs[0][1])
        assert len(kept) == min(count, 2)
        np.testing.assert_array_equal(kept.solve(lambda q: q, np.arange(3.0), fit=False), before)
