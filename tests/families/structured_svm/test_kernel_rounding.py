"""Certificates of a kernelised SVM hold for the kernel as given: against its optimum in rational arithmetic."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from benchmarks.exact import EXACT, exactly
from convexstruct.core.driver import solve
from convexstruct.families.structured_svm.problem import StructuredSVM


def optimum(K: Any, labels: list[int], C: int) -> Any:
    """p* of nodes without edges and of two labels, from all ways to set multipliers to 0, to C, or free.

    max over 0 <= a <= C of sum_p a_p - a'Qa / 2, Q_pq = 2 K_pq s_p s_q, s_p = 1 or -1: <d_p, d_q> = 2 a_p a_q s_p s_q.
    """
    sign = 2 * np.array(labels, dtype=object) - 1
    Q, best = 2 * exactly(K) * np.outer(sign, sign), 0
    for places in product("0Cf", repeat=len(labels)):
        free = [p for p, place in enumerate(places) if place == "f"]
        a = np.array([C * (place == "C") for place in places], dtype=object)
        with contextlib.suppress(ZeroDivisionError):  # a singular matrix
            if free:
                a[free] = list(EXACT.lu_solve(EXACT.matrix(Q[np.ix_(free, free)].tolist()), list((1 - Q @ a)[free])))
            if all(0 <= value <= C for value in a):
                best = max(best, a.sum() - a @ Q @ a / 2)
    return best


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
    solution, truth = solve(moved, max_iterations=100), optimum(K, labels, 1)
    assert solution.lower_bound <= truth <= solution.primal
    blind = solve(replace(moved, kernel=None))
    assert not blind.lower_bound <= truth <= blind.primal
