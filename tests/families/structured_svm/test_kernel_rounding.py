"""Certificates of a kernelised SVM hold for the kernel as given: against its optimum in rational arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.families.structured_svm.problem import StructuredSVM


def solved(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction] | None:
    """The solution of linear equations; None if there is not exactly one."""
    n = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for k in range(n):
        pivot = next((i for i in range(k, n) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[n] for row in rows]


def optimum(K: Any, labels: list[int], C: Fraction) -> Fraction:
    """p* of nodes without edges and of two labels, from all ways to set multipliers to 0, to C, or free.

    max over 0 <= a <= C of sum_p a_p - a'Qa / 2, Q_pq = 2 K_pq s_p s_q, s_p = 1 or -1: <d_p, d_q> = 2 a_p a_q s_p s_q.
    """
    n = len(labels)
    sign = [1 if y else -1 for y in labels]
    Q = [[2 * Fraction(float(K[p, q])) * sign[p] * sign[q] for q in range(n)] for p in range(n)]
    best = Fraction(0)
    for places in product("0Cf", repeat=n):
        free = [p for p in range(n) if places[p] == "f"]
        a = [C if place == "C" else Fraction(0) for place in places]
        right = [1 - sum((Q[p][q] * a[q] for q in range(n)), Fraction(0)) for p in free]
        values = solved([[Q[p][q] for q in free] for p in free], right)
        if values is None:
            continue
        for p, value in zip(free, values, strict=True):
            a[p] = value
        if all(0 <= value <= C for value in a):
            bent = sum((a[p] * Q[p][q] * a[q] for p in range(n) for q in range(n)), Fraction(0))
            best = max(best, sum(a, Fraction(0)) - bent / 2)
    return best


def encloses(x: Any, labels: list[int], C: float) -> float:
    """Assert that the certified bounds enclose the optimum of K = x x', whose entries are exact; return the gap."""
    exact = [[sum((Fraction(float(a)) * Fraction(float(b)) for a, b in zip(p, q, strict=True)), Fraction(0))
              for q in x] for p in x]  # fmt: skip
    K = np.array([[float(value) for value in row] for row in exact])
    assert all(Fraction(float(K[p, q])) == exact[p][q] for p in range(len(x)) for q in range(len(x)))
    problem = StructuredSVM.read(None, [labels], 2, kernel=K, edges="none", C=C)
    solution = solve(problem, max_iterations=100)
    truth = optimum(K, labels, Fraction(C))
    assert Fraction(solution.lower_bound) <= truth <= Fraction(solution.primal), (x, labels, C)
    return solution.gap


@pytest.mark.parametrize("labels", [[0, 1, 1], [0, 1, 0], [1, 0, 0]])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_inputs_of_1e6_beside_inputs_of_10_are_enclosed(labels: list[int], C: float) -> None:
    encloses(np.array([[1e6, 0.0], [0.0, 10.0], [0.0, 10.0]]), labels, C)


@pytest.mark.slow
def test_inputs_of_any_scales_are_enclosed() -> None:
    """Whole numbers times powers of two, so that K is exact and no eigenvalue of it is below 0."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, width = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        scales = np.ldexp(1.0, rng.integers(-12, 13, size=(n, 1)))
        x = rng.integers(-9, 10, size=(n, width)) * scales + np.eye(n, width) * scales
        if x.any():
            encloses(x, rng.integers(2, size=n).tolist(), float(10.0 ** rng.integers(-3, 4)))


def test_ordinary_kernels_are_still_solved_to_six_digits() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-5, 6, size=(4, 3)).astype(float)
    assert encloses(x, [0, 1, 1, 0], 1.0) <= 1e-6


def test_a_dropped_part_of_the_kernel_widens_both_bounds() -> None:
    """A factor made worse on purpose: without the allowance, the bounds are those of another kernel."""
    x = np.array([[3.0, 1.0], [1.0, -2.0], [-2.0, 2.0]])
    K, labels = x @ x.T, [0, 1, 0]
    problem = StructuredSVM.read(None, [labels], 2, kernel=K, edges="none", C=1.0)
    assert problem.kernel is not None
    worse = problem.kernel.features * (1.0 + 1e-4)
    dropped = float((np.abs(K - worse @ worse.T) / np.outer(problem.kernel.sizes, problem.kernel.sizes)).max()) * 1.01
    kernel = replace(problem.kernel, features=worse, inverse=problem.kernel.inverse / (1.0 + 1e-4), dropped=dropped)
    moved = replace(problem, features=replace(problem.features, node_features=worse), kernel=kernel)
    solution, truth = solve(moved, max_iterations=100), optimum(K, labels, Fraction(1))
    assert Fraction(solution.lower_bound) <= truth <= Fraction(solution.primal)
    blind = solve(replace(moved, kernel=None))
    assert not Fraction(blind.lower_bound) <= truth <= Fraction(blind.primal)
