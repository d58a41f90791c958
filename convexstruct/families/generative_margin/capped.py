r"""Slacks that h caps at m, eps_k <= m: a theta that keeps all of them, or a proof that there is none.

The cap is one more family of affine rows, A_k(s)'theta + b_k(s) <= m, so the phase one of `constraints.Limits` finds a
theta with room to all, by the rows that the oracle finds violated. Where there is none, multipliers beta >= 0 of these
rows prove it: with mu = sum beta A, omega = sum beta b and v = -mu >= 0 (kap and the limits aside),

    omega - m 1'beta + sum_i [V_i ln V_i - sum_j v_ij ln v_ij] > 0,        the dual of (P) with c = 0,

is 1'beta times the least by which some row is violated, at least. As m falls to 0 this is the hard margin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Labels, Vector
from convexstruct.families.generative_margin.constraints import Contradiction
from convexstruct.features.counts.bounds import excess
from convexstruct.rounding import UNIT


def inside(problem: Any) -> Vector:
    """A theta with room to every limit and to the cap. `Contradiction` where there is none, with the labellings
    (rounds, P) of its beta in the proof."""
    asked: list[Labels] = []

    def margins(theta: Vector) -> tuple[sp.csr_array, Vector]:
        labels = problem.violated(theta)[1]
        asked.append(labels)
        a, b = problem.rows(labels)
        return a, problem.h.most - b

    try:
        found: Vector = problem.general.parameters.limits.within(margins)
        return found
    except Contradiction as contradiction:
        contradiction.proof["labels"] = np.array(asked[: len(contradiction.proof["beta"])])
        raise


def over(problem: Any, theta: Vector) -> Vector:
    """How far each slack may be above the cap, 0 where it certainly is not; (K,)."""
    needed = (problem.c > 0) | (problem.truth_counts > 0)
    if np.isnan(theta).any() or (theta[needed] == -np.inf).any():
        return np.full(problem.n_examples, np.inf)
    slack = excess(problem.margins, theta)
    above = slack.value + slack.errors - problem.h.most * (1.0 - 4.0 * UNIT)
    return np.maximum(np.where(np.isnan(above), np.inf, above), 0.0)


def residuals(problem: Any, theta: Vector) -> Mapping[str, float]:
    """How far theta may violate the limits, and the cap where there is one."""
    found = {"(4), (5), (30) violated": float(problem.general.parameters.violations(theta).max())}
    return {**found, "slacks above their cap": float(over(problem, theta).max())} if problem.capped else found


def repaired(problem: Any, theta: Vector) -> Vector:
    """A theta near ``theta`` that meets the limits, and keeps the cap where there is one: moved towards `inside`, by
    the share that a convex slack needs and no more."""
    parameters = problem.general.parameters
    theta = parameters.repair(theta)
    away = over(problem, theta) if problem.capped else np.zeros(1)
    if not away.any():
        return theta
    centre = problem.inside
    room = problem.h.most - problem.violated(centre)[0]
    share = float(np.max(away / (away + np.maximum(room, 1e-300)))) if np.isfinite(away).all() else 1.0
    while True:  # rounding may ask for a larger share, seldom more than once
        moved: Vector = parameters.repair(theta + share * (centre - theta))
        if share >= 1.0 or not over(problem, moved).any():
            return moved
        share = min(1.0, 2.0 * share)


def contradiction(problem: Any, proof: Mapping[str, Any]) -> float:
    """The least violation that ``proof`` proves, from the data alone; 0 where it proves none. labels (n, P),
    beta (n, K), kap, v (d,), as `Contradiction` has them."""
    limits = problem.general.parameters.limits
    A, a = limits.affine
    rows, sides = [A], [a]
    for labels in proof["labels"]:
        more, b = problem.rows(np.asarray(labels))
        rows.append(more)
        sides.append(problem.h.most - b)
    weights = np.maximum(np.concatenate((proof["kap"], np.ravel(proof["beta"]))), 0.0)
    every = sp.csr_array(sp.vstack(rows, format="csr"))
    found: float = limits.violation(every, np.concatenate(sides), weights, np.maximum(proof["v"], 0.0))
    return found
