"""Mistakes that are easily made with a convex energy network: its penalty, labels, curvature and offsets."""

from __future__ import annotations

from collections.abc import Iterator

from convexstruct.core.slips import Slip, altered, moved
from convexstruct.families.energy_network.inference import EnergyInference
from convexstruct.families.energy_network.problem import ConvexEnergyNetwork
from convexstruct.families.energy_network.unrolled import UnrolledEnergyNetwork


def slips(problem: ConvexEnergyNetwork | EnergyInference | UnrolledEnergyNetwork) -> Iterator[Slip]:
    if isinstance(problem, UnrolledEnergyNetwork):
        yield altered("with labels on and off exchanged", problem, labels=1 - problem.labels)
        return
    if problem.hidden is not None:
        flat = problem.hidden.copy()
        flat[:, -1] = 0.0
        yield altered("without the offsets of the hidden layer", problem, hidden=flat)
    if isinstance(problem, EnergyInference):
        yield altered("with twice the curvature: is the 1/2 of y'Qy forgotten?", problem, Q=2.0 * problem.Q)
        yield altered("with the scores' sign changed: is it -y'Ux?", problem, scores=-problem.scores)
        yield moved("with labels on and off exchanged it is optimal", "Y", lambda y: 1.0 - y)
        return
    n, lam = len(problem.labels), problem.lam
    yield altered("with twice the penalty: is it lam |W|^2, where lam/2 |W|^2 is wanted?", problem, lam=2.0 * lam)
    yield altered("with half the penalty", problem, lam=0.5 * lam)
    if n > 1:
        yield altered("with lam N: is the loss a mean, where a sum over the examples is wanted?", problem, lam=lam * n)
    yield altered("with labels on and off exchanged", problem, labels=1 - problem.labels)
    yield moved("with twice its Q it is optimal: is the 1/2 of y'Qy forgotten?", "Q", lambda q: 2.0 * q)
