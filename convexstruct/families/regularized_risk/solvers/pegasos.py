r"""Pegasos (Shalev-Shwartz, Singer and Srebro 2007): subgradient steps of length 1 / (lam t) (paper 2, section 5).

    w_{t+1} = (1 - 1/t) w_t - (1 / (lam t)) g_t,      then  w *= min(1, sqrt(J(0) / lam) / |w|)

with g_t = A' alpha_t a subgradient of the risk (`PegasosN`: pegasos-n), or of one example drawn with its share as its
probability (`Pegasos1`). Written out, w_{t+1} = - A' alpha / lam with alpha = (alpha_1 + .. + alpha_t) / t. This alpha
is the dual witness. It lies in Q where g_t is of the whole risk; of single examples it lies near Q, and what is left of
it after scaling it into Q gives a weak bound.

The last step projects onto a ball that holds the optimum: lam |w*|^2 = <c, alpha*> - R(w*) <= J(0), if the risk is
nowhere negative. Without a zero piece that is not known, and nothing is projected. For the hinge the radius is
1 / sqrt(lam), as in the original.

**Bound**, for the whole risk: with |g_t| <= G and, projected, |w_t| <= r, the mean of J(w_1), .., J(w_T) is above J* by
at most (G + lam r)^2 (1 + ln T) / (2 lam T), and so is the least of them (theorem 1 there).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Index, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, or_none, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.risk_projection import starting_alpha


def radius(problem: RegularizedRisk) -> float:
    """The radius of a ball that holds the optimum; inf where none is known."""
    if not problem.loss.floor:
        return math.inf
    return math.sqrt(problem.value(np.zeros(problem.shape)) / problem.lam)


@dataclass(frozen=True)
class PegasosN:
    """Pegasos with the subgradient of the whole risk each step; free offsets are minimised over."""

    def iterate(self, problem: RegularizedRisk, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a step, w_1, w_2, ..; w_1 is w(alpha), (24), at the dual point of ``start``, or zero."""
        lam, ball = problem.lam, radius(problem)
        alpha = starting_alpha(problem, start)  # the first step, of length 1 / lam, drops it
        pull = problem.adjoint(alpha)
        t = 1
        while True:
            w = -pull / lam
            plane, b = problem.touching(w)
            square = float(np.vdot(w, w))
            primal = 0.5 * lam * square + float(np.vdot(w, plane.a)) + plane.b
            lower = float(problem.loss.offset @ alpha) - 0.5 * lam * square
            point = {"w": w, "b": b} if problem.n_biases else {"w": w}
            yield Iterate(point, {"alpha": alpha}, primal, lower, t)
            alpha = alpha + (plane.alpha - alpha) / t
            pull = pull + (plane.a - pull) / t
            shrink = min(1.0, ball * lam / max(float(np.linalg.norm(pull)), np.finfo(float).tiny))
            alpha, pull = shrink * alpha, shrink * pull
            t += 1


@dataclass(frozen=True)
class Pegasos1:
    """Pegasos with one example each step, for risks without free offsets.

    steps : steps between two iterates; None takes as many as there are groups.
    seed : of the draws of examples.
    """

    steps: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, steps=or_none(at_least(1)), seed=seed)

    def iterate(self, problem: RegularizedRisk, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate every ``steps`` steps; a ``start`` counts as so many steps made as there are groups.

        Raises
        ------
        ValueError
            If the problem has free offsets: the best ones depend on all examples together.
        """
        if problem.n_biases:
            raise ValueError("Pegasos1 takes a risk without free offsets; use PegasosN for one with a bias")
        loss, rng = problem.loss, np.random.default_rng(self.seed)
        every = loss.n_groups if self.steps is None else self.steps
        lam, ball = problem.lam, radius(problem)
        mass = float(problem.shares.sum())
        rank = np.cumsum(problem.shares) / mass
        rank[-1] = 1.0
        # w = - u / (lam t), u the sum of the subgradients so far; c the sum of their alphas
        t = 0 if start is None else loss.n_groups
        c = t * starting_alpha(problem, start)
        u, rows = problem.adjoint(c).ravel(), _Rows(problem)
        while True:
            square = float(u @ u)
            for group in np.searchsorted(rank, rng.random(every), side="right"):
                deadline.check()
                t += 1
                piece = rows.highest(int(group), u, -1.0 / (lam * max(t - 1, 1)))
                if piece >= 0:
                    c[piece] += mass
                    entries, columns = rows.row(piece)
                    square += 2.0 * mass * float(entries @ u[columns]) + mass**2 * float(entries @ entries)
                    u[columns] += mass * entries
                limit = ball * lam * t
                if square > limit * limit:
                    shrink = limit / math.sqrt(square)
                    u *= shrink
                    c *= shrink
                    square = limit * limit
            w = (-u / (lam * t)).reshape(problem.shape)
            alpha = problem.feasible(c / t)
            yield Iterate({"w": w}, {"alpha": alpha}, problem.value(w), problem.dual_value(alpha), t)


class _Rows:
    """The rows of A, by their entries and the columns of these, and the pieces of a group."""

    def __init__(self, problem: RegularizedRisk) -> None:
        self.loss, self.matrix = problem.loss, problem.matrix()
        self.sparse = sp.issparse(self.matrix)

    def row(self, piece: int) -> tuple[Vector, Index | slice]:
        if not self.sparse:
            return self.matrix[piece], slice(None)
        begin, end = self.matrix.indptr[piece], self.matrix.indptr[piece + 1]
        return self.matrix.data[begin:end], self.matrix.indices[begin:end]

    def highest(self, group: int, w: Vector, scale: float) -> int:
        """The highest piece of the group at ``scale`` w; -1 if the loss of the group is 0 around it."""
        first, last = int(self.loss.start[group]), int(self.loss.start[group + 1])
        best, chosen = (0.0, -1) if self.loss.floor else (-np.inf, first)
        for piece in range(first, last):
            entries, columns = self.row(piece)
            value = self.loss.offset[piece] + scale * float(entries @ w[columns])
            if value > best:
                best, chosen = value, piece
        return chosen
