"""Warm starts: theta of an earlier solution as the centre, its dual witness as points of script-D."""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.solution import Solution
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.inner_approximation import (
    ALL_EXAMPLES,
    InnerApproximation,
    LowerBound,
    Mixture,
    Sources,
)

#: theta, in nats, that stands for -inf in a start (a probability of 0): solvers need a finite one.
LEAST_THETA = -60.0


def starting_theta(problem: GenerativeMargin, start: Solution | None) -> Vector:
    """A feasible, finite theta: that of ``start``, or else uniform distributions."""
    if start is None:
        return np.asarray(problem.trivial()[0]["theta"])
    theta = problem.as_point(start.point)["theta"]
    if np.isnan(theta).any():
        return problem.uniform()
    return np.asarray(problem.repair({"theta": np.maximum(theta, LEAST_THETA)})["theta"])


def adopt(
    problem: GenerativeMargin, start: Solution, sources: Sources, points: InnerApproximation, bound: LowerBound
) -> None:
    """Add the witness of ``start`` to ``points``: the whole mixture as one point, which restores its lower bound, and
    each labelling and each Gibbs distribution, on all examples, as a point of its own."""
    witness = start.dual_point
    if witness is None or not np.isfinite(problem.dual(witness)):
        return
    everyone = np.ones((1, problem.n_examples))
    whole: Mixture = {}
    for row, share in zip(witness.get("labels", ()), witness.get("label_shares", ())):
        if share.max() > 0:
            source = sources.add_labels(row)
            whole[source, sources.add_subset(np.maximum(share, 0.0))] = 1.0
            alone = {"labels": row[None], "label_shares": everyone}
            _add(points, *problem.aggregate(alone), {(source, ALL_EXAMPLES): 1.0})
    for theta, loss, share in zip(*(witness.get(name, ()) for name in ("gibbs", "gibbs_loss", "gibbs_shares"))):
        if share.max() > 0:
            source = sources.add_gibbs(np.asarray(theta, dtype=np.float64), float(loss))
            whole[source, ALL_EXAMPLES] = float(share[0])
            alone = {"gibbs": theta[None], "gibbs_loss": np.array([loss]), "gibbs_shares": everyone}
            _add(points, *problem.aggregate(alone), {(source, ALL_EXAMPLES): 1.0})
    mu, omega = problem.aggregate(witness)
    _add(points, mu, omega, whole)
    bound.improve(mu, omega, lambda: whole)
    points.alpha = np.where(np.arange(len(points)) == len(points) - 1, 1.0, 0.0)


def _add(points: InnerApproximation, mu: Vector, omega: float, mixture: Mixture) -> None:
    points.add(mu[None], np.array([omega]), [mixture], np.zeros(1, dtype=np.intp))
