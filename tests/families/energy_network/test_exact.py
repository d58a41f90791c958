"""Both bounds of the convex network against 60 digits, at scales of inputs, penalties and r that differ by 1e16."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest

from convexstruct.families.energy_network import ConvexEnergyNetwork

DIGITS = 60


def matrix(array: Any) -> Any:
    return mp.matrix(np.atleast_2d(np.asarray(array, dtype=float)).tolist())


def rise(problem: ConvexEnergyNetwork, y: Any, t: Any) -> list[Any]:
    """softplus(A y + b) - softplus(A t + b) for columns y and t."""
    found = []
    for row in [] if problem.hidden is None else problem.hidden.tolist():
        both = [mp.log1p(mp.exp(sum((a * z for a, z in zip(row, at)), mp.mpf(row[-1])))) for at in (y, t)]
        found.append(both[0] - both[1])
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_allowances_cover_the_distance_from_60_digits(seed: int) -> None:
    rng = np.random.default_rng([12, seed])
    n, d, n_labels, n_units = rng.integers(1, 5), rng.integers(1, 4), rng.integers(1, 4), rng.integers(0, 3)
    x = 10.0 ** rng.uniform(-9, 9) * rng.normal(size=(n, d))
    hidden = 10.0 ** rng.uniform(-2, 2) * rng.normal(size=(n_units, n_labels + 1)) if n_units else None
    labels = rng.integers(2, size=(n, n_labels))
    problem = ConvexEnergyNetwork(x, labels, 10.0 ** rng.uniform(-8, 8), hidden)
    r = 10.0 ** rng.uniform(-12, 0) * rng.uniform(size=labels.shape)
    bound, point = problem.dual({"r": r}), problem.as_point(problem.weights(r))
    value, worst = problem.primal(point), problem.worst(point)
    with mp.workdps(DIGITS):
        t, move = matrix(problem.T), matrix((1.0 - 2.0 * problem.T) * r)
        y, lam = t + move, mp.mpf(problem.lam)
        total = [mp.mpf(0)] * n_units
        for i in range(n):
            total = [s + more for s, more in zip(total, rise(problem, y[i, :], t[i, :]))]
        values = mp.eigsy((y.T * y - t.T * t) / 2, eigvals_only=True)
        parts = [each**2 for each in move.T * matrix(x)] + [max(each, 0) ** 2 for each in [*values, *total]]
        exact = mp.fsum(map(mp.mpf, r.ravel().tolist())) - mp.fsum(parts) / (2 * lam)
        assert abs(exact - mp.mpf(float(bound))) <= bound.allowance
        # J is at least its value with any y: here the worst found, and the truth
        u, q = matrix(point["U"]), matrix(point["Q"])
        v = [mp.mpf(each) for each in point.get("v", np.zeros(0)).tolist()]
        least = lam / 2 * mp.fsum(each**2 for each in [*u, *q, *v])
        for i in range(n):
            yi, ti = matrix(worst[i]).T, t[i, :].T
            loss = ((yi - ti).T * u * matrix(x[i]).T)[0] + (ti.T * q * ti)[0] / 2 - (yi.T * q * yi)[0] / 2
            loss += mp.fsum(map(abs, yi - ti)) - mp.fsum(w * s for w, s in zip(v, rise(problem, yi.T, ti.T)))
            least += max(loss, 0)
        assert least <= mp.mpf(value.upper) * (1 + mp.mpf(10) ** -40)
