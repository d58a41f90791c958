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
from convexstruct.arrays import Index, Tensor, Vector
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
        u = problem.adjoint(c)
        draw = _Draw(problem)
        while True:
            square = float(np.vdot(u, u))
            for group in np.searchsorted(rank, rng.random(every), side="right"):
                deadline.check()
                t += 1
                piece, change = draw.step(u, -1.0 / (lam * max(t - 1, 1)), int(group), mass)
                if piece >= 0:
                    c[piece] += mass
                    square += change
                limit = ball * lam * t
                if square > limit * limit:
                    shrink = limit / math.sqrt(square)
                    u *= shrink
                    c *= shrink
                    square = limit * limit
            w = -u / (lam * t)
            alpha = problem.feasible(c / t)
            yield Iterate({"w": w}, {"alpha": alpha}, problem.value(w), problem.dual_value(alpha), t)


class _Draw:
    """The step for one group: finds its highest piece, and adds that piece's row to u in place."""

    def __init__(self, problem: RegularizedRisk) -> None:
        self.loss = problem.loss
        self.X, self.outputs = problem.X, problem.loss.n_outputs
        self.sparse = sp.issparse(problem.X)

    def step(self, u: Tensor, scale: float, group: int, mass: float) -> tuple[int, float]:
        """(piece, change of |u|^2) where w = ``scale`` u; piece -1 if the loss of the group is 0 around w."""
        loss = self.loss
        first, last = int(loss.start[group]), int(loss.start[group + 1])
        best, chosen = (0.0, -1) if loss.floor else (-np.inf, first)
        combine = loss.combine
        for piece in range(first, last):
            value = loss.offset[piece]
            for at in range(int(combine.indptr[piece]), int(combine.indptr[piece + 1])):
                value += scale * combine.data[at] * self.score(u, int(combine.indices[at]))
            if value > best:
                best, chosen = float(value), piece
        if chosen < 0:
            return -1, 0.0
        change = 0.0
        for at in range(int(combine.indptr[chosen]), int(combine.indptr[chosen + 1])):
            change += self.add(u, int(combine.indices[at]), mass * float(combine.data[at]))
        return chosen, change

    def row(self, score: int) -> tuple[Vector, Index | slice, int]:
        """(entries, columns, output) of the score at this place."""
        example, output = divmod(score, self.outputs)
        if not self.sparse:
            return self.X[example], slice(None), output
        begin, end = self.X.indptr[example], self.X.indptr[example + 1]
        return self.X.data[begin:end], self.X.indices[begin:end], output

    def score(self, u: Tensor, at: int) -> float:
        entries, columns, output = self.row(at)
        return float(entries @ (u if u.ndim == 1 else u[output])[columns])

    def add(self, u: Tensor, at: int, weight: float) -> float:
        entries, columns, output = self.row(at)
        part = u if u.ndim == 1 else u[output]
        change = 2.0 * weight * float(entries @ part[columns]) + weight**2 * float(entries @ entries)
        part[columns] += weight * entries
        return change
