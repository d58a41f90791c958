r"""Alternating minimisation over M and lambda (paper 3, section 5): semidefinite and quadratic programs in turn.

    min over M, lambda, xi of  <K o lambda lambda', M> / (2 beta) + xi'e
    s.t. xi_i >= 1 - sum_j M_ij lambda_j K_ij / beta,  0 <= lambda <= 1,  xi >= 0,  M as in (3)

for two labels and no pairs. The problem is convex in M and in (lambda, xi), but not jointly. Both halves minimise over
xi; the paper fixes xi with lambda in the semidefinite half, which restricts M more. The result of a half is kept only
if it lowers the objective, so the losses never rise, whatever the accuracy of the halves.

**The result depends on the start.** With h = (K o M) lambda / beta the objective is the sum of lambda_i h_i / 2 +
(1 - h_i)_+, which is at least e'lambda / 2, with equality only where h = e. If some M of (3) has h = e, as is so where
no lambda_i is small, the first half finds it. lambda is then a maximiser of the quadratic half's dual, and the
alternation stops: the final loss is e'lambda / 2 of the start, far above the optimum of (3), and M is determined by
h = e and not by labels. This end is not a local minimum either (corrected), since the loss falls if M and lambda move
together along h = e.

**Quadratic half** (Proposition 1's minimum for given M): the maximum of e'lambda - lambda'Q lambda / 2 over
0 <= lambda <= 1 with Q = K o M / beta has the same value, and its maximiser attains the minimum. It is the dual (2) of
a support vector machine (`RegularizedRisk`) on rows Z with Z Z' = Q, all of the label 1.

**Semidefinite half** (`PermutationInvariantMargin` with lambda fixed): ADMM, as in `splitting`, with three copies of M:
one with (M + 1)/2 - 11'/2 semidefinite; one with rows within the balance; and one in the losses
(1 - (row i of M o K) lambda / beta)_+, whose proximal step has a closed form. Proved bounds are computed every `STEPS`
steps.

In the code M stands for (M + 1) / 2 as everywhere in this family, and beta is twice the beta above.

**`Alternation`** is a solver of (3), as `PermutationInvariantMargin` has it: the losses are upper bounds on its
optimum, and a lambda, with the multipliers of the semidefinite half, proves a lower one. It ends with the status
STATIONARY where the halves' own bounds prove that neither of them lowers the loss any further.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Matrix, Point, Tensor, Vector
from convexstruct.core.certificates import relative_gap
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.regularized_risk import RegularizedRisk
from convexstruct.families.unsupervised_margin.permutation_invariant import (
    PermutationInvariantMargin,
    check_two_classes,
)
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.tolerances import HIGH, MID
from convexstruct.validation.arguments import sentence

#: ADMM: weight of the distance between the copies, in units of the largest cost; over-relaxation (from 1.5 to 1.8 is
#: customary: Boyd and others 2011, 3.4.3); steps between two computations of the bounds; and such computations at most.
PENALTY, RELAXATION, STEPS, BRACKETS = 0.3, 1.7, 50, 200


class Half(NamedTuple):
    """Result of one half: the minimiser found, the objective there, and a lower bound on the minimum of that half.
    witness : of the semidefinite half, a dual point of (3) at its lambda."""

    found: Any
    value: float
    lower: float
    witness: Point = MappingProxyType({})


class Round(NamedTuple):
    """A round of both halves. M, lam : after it. values : the loss after each half. left : by how much the halves' own
    lower bounds lie below the losses that they began with, at most, as a share of the loss. witness : a dual point of
    `PermutationInvariantMargin` at this lambda. settled : whether the round lowered the loss by no more than ``gap``
    times its size."""

    M: Matrix
    lam: Vector
    values: tuple[float, float]
    left: float
    witness: Point
    settled: bool


def rounds(problem: UnsupervisedMargin, lam: Vector, gap: float) -> Iterator[Round]:
    """The rounds from a lambda and the trivial M, until one settles. What a half finds is kept if the loss falls."""
    m = problem.trivial()[0]["M"]
    value, settled = _value(problem, m, lam), False
    while not settled:
        before = value
        matrix = semidefinite_half(problem, lam, gap, m)
        if matrix.value < value:
            m, value = matrix.found, matrix.value
        between = value
        quadratic = quadratic_half(problem, m)
        if quadratic.value < value:
            lam, value = quadratic.found, quadratic.value
        left = max(before - matrix.lower, between - quadratic.lower) / max(abs(before), np.finfo(float).tiny)
        settled = before - value <= gap * abs(before)
        yield Round(m, lam, (between, value), left, matrix.witness, settled)


@dataclass(frozen=True)
class Alternation:
    """The alternation as a solver of (3), which it need not solve, from lambda = 1/2."""

    def iterate(self, problem: PermutationInvariantMargin, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield M and lambda after each round, with the lower bound of (3) that this lambda proves; ``start`` gives the
        first lambda. The losses of one start never rise.

        Raises
        ------
        ValueError
            If the problem has pairs or other than two labels, or lambda is fixed.
        """
        data = problem.problem
        check_two_classes(data)
        if problem.fixed is not None:
            raise sentence("problem has a fixed lambda, wanted one that is free: the alternation changes it")
        point, kept = problem.trivial()
        bound = problem.dual(kept).lower
        with np.errstate(over="ignore"):
            size = float(np.abs(4.0 * data.gram / data.beta).sum())
        if not np.isfinite(size):
            said = "K / beta overflows, so that no half can be solved: scale the features down, or raise beta"
            yield Iterate(point, kept, problem.primal(point).upper, bound, 0, done=True, message=said)
            return
        lam = np.full(data.n_rows, 0.5) if start is None else np.clip(start.point["x"], 0.0, 1.0)
        for k, each in enumerate(rounds(data, lam, MID.gap), start=1):
            witness = _scaled(problem, each.witness)
            if (proved := problem.dual(witness).lower) > bound:
                bound, kept = proved, witness
            point = {"M": each.M, "N": np.zeros((0, 0)), "x": each.lam, "z": np.zeros(2 * data.n_rows)}
            here = Iterate(point, kept, each.values[1], bound, 2 * k)
            yield here
        said = (
            f"neither M nor lambda alone lowers the loss by more than {max(each.left, 0.0):.1e} of it, as the bounds "
            "of both halves prove; it need not be a local minimum; the lower bound is that of (3) at the best lambda "
            "met"
        )
        flat = each.left <= 2.0 * MID.gap  # a half ends within this gap of its minimum, and gains no more than it
        yield replace(here, done=True, message=said, stationary=flat)


def _scaled(problem: PermutationInvariantMargin, witness: Point) -> Point:
    """The witness with lambda times t and its multipliers times t^2, so that the bound, which is e'lambda t less a
    multiple of t^2, is largest; t is at most 1."""
    gain = float(witness["x"].sum())
    bend = gain - float(problem.dual(witness))
    t = 1.0 if bend <= 0.0 else min(1.0, gain / (2.0 * bend))
    return {"x": t * witness["x"], "u": t * t * witness["u"], "y": t * t * witness["y"]}


def _quadratic(problem: UnsupervisedMargin, m: Matrix) -> Matrix:
    """Q (n, n) = K o M / beta, in this family's M and beta."""
    return np.asarray(problem.gram * (2.0 * m - 1.0) * (2.0 / problem.beta))


def _value(problem: UnsupervisedMargin, m: Matrix, lam: Vector) -> float:
    """The objective at M and lambda, with the best xi."""
    image = _quadratic(problem, m) @ lam
    return float(lam @ image) / 2 + float(np.maximum(1.0 - image, 0.0).sum())


def quadratic_half(problem: UnsupervisedMargin, m: Matrix) -> Half:
    """Proposition 1's minimum over lambda for given M."""
    q, n = _quadratic(problem, m), problem.n_rows
    values, vectors = np.linalg.eigh(q)
    machine = RegularizedRisk.binary(vectors * np.sqrt(np.maximum(values, 0.0)), np.ones(n), 1.0 / n)
    witness = solve(machine, tol=HIGH.gap).dual_point
    assert witness is not None
    lam = np.clip(n * witness["alpha"], 0.0, 1.0)
    return Half(lam, _value(problem, m, lam), float(lam.sum() - lam @ q @ lam / 2))


def semidefinite_half(problem: UnsupervisedMargin, lam: Vector, gap: float, start: Matrix) -> Half:
    """The minimum over M for given lambda, to a relative gap with proved bounds."""
    at, n, k = PermutationInvariantMargin(problem, lam), problem.n_rows, problem.gram
    # objective: <linear, M> + constant + sum of (offset - row' M)_+, all with M = (M + 1) / 2
    rows = 4.0 * k * lam / problem.beta
    linear, offset = 2.0 * k * np.outer(lam, lam) / problem.beta, 1.0 + rows.sum(axis=1) / 2
    scale = float(np.abs(rows).max()) or 1.0
    lengths = np.maximum((rows**2).sum(axis=1), 1e-300)
    penalty = PENALTY * scale
    share, balance = problem.feasible.shares[0]
    z = np.repeat(start[None], 3, axis=0)
    state = z.copy()
    best, lower = Half(start, _value(problem, start, lam), -np.inf), -np.inf
    for _ in range(BRACKETS):
        for _ in range(STEPS):
            deadline.check()
            values, vectors = np.linalg.eigh((state[0] + state[0].T) / 2 - share)
            z[0] = (vectors * np.maximum(values, 0.0)) @ vectors.T + share
            sums = state[1].sum(axis=1)
            z[1] = state[1] - ((sums - np.clip(sums, n * (share - balance), n * (share + balance))) / n)[:, None]
            short = np.clip((offset - (rows * state[2]).sum(axis=1)) / lengths, 0.0, 1.0 / penalty)
            z[2] = state[2] + short[:, None] * rows
            mean = (2.0 * z - state).mean(axis=0) - linear / (3.0 * penalty)
            mean = (mean + mean.T) / 2
            np.fill_diagonal(mean, 1.0)
            state += RELAXATION * (mean - z)
        m = problem.repair({"M": z[0], "N": np.zeros((0, 0))})["M"]
        value = _value(problem, m, lam)
        multipliers = 2.0 * problem.beta * penalty * (state - z)
        lower = max(lower, at.dual(_witness(problem, lam, penalty * short, multipliers)).lower)
        if value < best.value:
            best = Half(m, value, lower)
        if relative_gap(best.value, lower) <= gap:
            break
    return Half(best.found, best.value, lower, _witness(problem, lam, lam, multipliers))


def _witness(problem: UnsupervisedMargin, lam: Vector, y: Vector, multipliers: Tensor) -> Point:
    """The dual point of `PermutationInvariantMargin`; y (n,) of the losses, multipliers (3, n, n) of the copies, in the
    units of 2 beta. With y = lambda it is one of (3)."""
    cone, rows, _ = multipliers
    u = rows.mean(axis=1)
    once = np.outer(lam, y)
    costs = 4.0 * problem.gram * (once + once.T - np.outer(lam, lam))
    left = costs - (u[:, None] + u) / 2 - (cone + cone.T) / 2
    return {"x": y, "u": u, "y": np.diagonal(left)}
