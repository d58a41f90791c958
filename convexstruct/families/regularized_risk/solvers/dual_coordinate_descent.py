r"""Dual coordinate descent (Hsieh, Chang, Lin, Keerthi and Sundararajan 2008; liblinear), in blocks.

    alpha_i <- clip(alpha_i + lam g_i / |a_i|^2, 0, share_i),     g_i = c_i + <a_i, w>,  w = - A' alpha / lam

for risks whose groups have one piece each, without free offsets: the binary hinge, and the ordinal one with given
thresholds. Each epoch goes through the coordinates in random order.

An update of one coordinate takes liblinear some nanoseconds and Python a microsecond, so an epoch is cut into blocks.
One product gives the gradient of a block; the coordinates that cannot move are dropped from it, all at once; the others
are updated one by one by their Gram matrix (in the order of the original method); and one more product updates w. An
epoch still takes several times as long as liblinear's on dense rows, and a hundred times on short sparse rows: this
solver is here for comparison.

**Shrinking.** The gap after each epoch needs the gradient of all coordinates anyway. A coordinate at a bound is left
out of the next epoch if its gradient points out of the box by more than the largest violation of any coordinate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Index, Vector
from convexstruct.core.certificates import least_unit
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, flag, read_options, seed
from convexstruct.core.rounds import PATIENCE, Clock, Patience
from convexstruct.core.solution import Solution
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.risk_projection import starting_alpha


@dataclass(frozen=True)
class DualCoordinateDescent:
    """Dual coordinate descent with shrinking and a certified gap each epoch.

    block : coordinates whose Gram matrix is formed at a time.
    shrinking : leave out coordinates that will most likely stay at their bound.
    seed : of the order.
    """

    block: int = 128
    shrinking: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, block=at_least(1), shrinking=flag, seed=seed)

    def iterate(self, problem: RegularizedRisk, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate an epoch; alpha begins with the dual point of ``start``, if it has one.

        Raises
        ------
        ValueError
            If a group of the problem has several pieces, or free offsets join them.
        """
        if not problem.is_box or problem.n_biases or problem.single is None:
            raise ValueError(
                "DualCoordinateDescent takes groups of one piece and no free offsets; give a bias as a column of ones"
            )
        clock, patience = Clock("blocks", "gap"), Patience(PATIENCE, least_unit(problem))
        rng = np.random.default_rng(self.seed)
        factor, rows = problem.single
        rows = np.arange(problem.n_pieces) if rows is None else rows
        c, lam, shares = problem.loss.offset, problem.lam, problem.shares
        alpha = starting_alpha(problem, start)
        active = np.arange(problem.n_pieces)
        epoch = 0
        while True:
            with clock("gap"):
                w = problem.primal_of(alpha)
                slope = problem.forward(w) + c
                square = 0.5 * lam * float(w @ w)
                primal = square + float(shares @ np.maximum(slope, 0.0))
                lower = float(c @ alpha) - square
                done = patience.ended(primal, lower)
            yield Iterate({"w": w.copy()}, {"alpha": alpha.copy()}, primal, lower, epoch + 1, clock.parts, done)
            if self.shrinking:
                active = _may_move(alpha, shares, slope)
            with clock("blocks"):
                order = rng.permutation(active)
                for begin in range(0, len(order), self.block):
                    deadline.check()
                    _update(problem, factor, rows, w, alpha, order[begin : begin + self.block])
            epoch += 1


def _may_move(alpha: Vector, shares: Vector, slope: Vector) -> Index:
    """All coordinates but those at a bound whose slope points out of the box by more than the largest violation."""
    low, high = alpha <= 0.0, alpha >= shares
    violation = np.where(low, np.maximum(slope, 0.0), np.where(high, np.maximum(-slope, 0.0), np.abs(slope)))
    worst = float(violation.max(initial=0.0))
    return np.flatnonzero(~((low & (slope < -worst)) | (high & (slope > worst))))


def _update(problem: RegularizedRisk, factor: Vector, rows: Index, w: Vector, alpha: Vector, block: Index) -> None:
    """Coordinates of ``block`` one after the other; alpha and w change in place."""
    X = problem.X[rows[block]]
    slope = factor[block] * (X @ w) + problem.loss.offset[block]
    here, most = alpha[block], problem.shares[block]
    free = np.flatnonzero(((here > 0.0) | (slope > 0.0)) & ((here < most) | (slope < 0.0)))
    if len(free) == 0:
        return
    X, block = X[free], block[free]
    signs = factor[block]
    gram = X @ X.T
    gram = (gram.toarray() if sp.issparse(gram) else gram) * np.outer(signs, signs) / problem.lam
    moved = np.zeros(len(free))
    bends, slopes = np.diagonal(gram).tolist(), slope[free].tolist()
    values, tops = here[free].tolist(), most[free].tolist()
    for j, (bend, first, value, top) in enumerate(zip(bends, slopes, values, tops)):
        g = first - float(gram[j] @ moved)
        if bend > 0.0:
            moved[j] = min(max(value + g / bend, 0.0), top) - value
        elif g != 0.0:
            moved[j] = (top if g > 0.0 else 0.0) - value
    # value + moved may miss the bounds by rounding
    alpha[block] = np.clip(here[free] + moved, 0.0, most[free])
    w -= np.asarray(X.T @ (signs * moved)) / problem.lam
