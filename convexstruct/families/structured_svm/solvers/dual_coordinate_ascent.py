r"""Dual coordinate ascent by pairs: sequential minimal optimisation (Platt 1999) for structures (Taskar, Guestrin,
Koller 2004; paper 1, "Efficient solution in the dual space ... SMO applicable here").

    D(alpha) = sum alpha_i(y) E_i(y) - 1/(2 lam) |(sum alpha_i(y) a_i(y))_+|^2,    sum_y alpha_i(y) = c_i,  alpha >= 0

with a_i(y) = e_i(y) df_i(y), c_i = C omega_i, w = (sum alpha a)_+ / lam. The sum of an example's multipliers is fixed,
so at least two must change together. With the slopes g_y = E_i(y) - <w, a_i(y)>, y the largest and z the smallest of
those with alpha_i(z) > 0,

    delta = min( alpha_i(z),  lam (g_y - g_z) / |a_i(y) - a_i(z)|^2 ),    alpha_i(y) += delta,   alpha_i(z) -= delta,

the best step of this pair if no weight has to be >= 0 (else no longer than the best): the dual value never falls. The
labellings are those of pools, to which each call of the oracle adds. At first a pool holds the truth alone, with
multiplier c_i. Between two calls, sweeps of such steps go on until the gap over the pools is small (`INNER_SHARE`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Flags, Labels, Matrix, Vector
from convexstruct.core.certificates import magnitude
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.column_generation.pools import LabellingPools
from convexstruct.families.structured_svm.solvers.column_generation.restricted_master import EXACT_GAP
from convexstruct.rounding import EPS

#: Sweeps end once the gap of the problem restricted to the pools is below this share of the whole problem's gap: new
#: labellings then gain more than further sweeps.
INNER_SHARE = 0.3


@dataclass(frozen=True)
class DualCoordinateAscent:
    """Options.

    sweeps : the most sweeps (one step of each example) between two calls of the oracle. seed : of the order of the
        examples.
    """

    sweeps: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, sweeps=at_least(1), seed=seed)

    def iterate(self, problem: StructuredSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a call of the oracle. It begins on the truth, where all multipliers are known; ``start`` is
        ignored, since w does not determine the multipliers."""
        run = _Run(problem)
        rng = np.random.default_rng(self.seed)
        calls = 0
        while True:
            found = problem.most_violated(run.w)
            calls += 1
            gap = found.value - run.bound
            added = run.grow(found.labels, found.violation > 0)
            left = run.left()
            exhausted = not added and left <= EXACT_GAP * magnitude(problem, found.value)
            alpha, pools = run.alpha, run.pools
            yield Iterate({"w": run.w}, pools.witness(alpha), found.value, run.bound, calls, done=exhausted)
            if exhausted:
                return
            for _ in range(self.sweeps):
                moved = run.sweep(rng)
                if not moved or run.left() <= INNER_SHARE * gap:
                    break
            if not moved and not added:
                return


class _Run:
    """The pools, the multipliers (M,) of their columns, and w."""

    def __init__(self, problem: StructuredSVM) -> None:
        self.problem, self.pools = problem, LabellingPools(problem)
        self.alpha = problem.ceiling.copy()
        self.psi, self.w = np.zeros(problem.dimension), np.zeros(problem.dimension)
        self._read()

    def _read(self) -> None:
        columns = self.pools.columns()
        self.a, self.b, self.owner = columns.a, columns.b, columns.owner
        self.start = np.searchsorted(self.owner, np.arange(self.problem.n_examples + 1))

    @property
    def bound(self) -> float:
        return self.problem.dual_value(self.psi, float(self.b @ self.alpha))

    def grow(self, labels: Labels, wanted: Flags) -> int:
        """Add the labellings ``wanted`` with multiplier 0; returns how many were new."""
        owner, start = self.owner, self.start
        added = self.pools.add(labels, wanted)
        if added:
            self._read()
            alpha = np.zeros(len(self.b))
            alpha[self.start[owner] + np.arange(len(owner)) - start[owner]] = self.alpha
            self.alpha = alpha
        return added

    def slopes(self) -> Vector:
        """E_i(y) - <w, a_i(y)> of every column."""
        return np.asarray(self.b - self.a @ self.w)

    def left(self) -> float:
        """The gap of the restricted problem: its primal value at w less the dual value."""
        slopes = self.slopes()
        best = np.maximum.reduceat(slopes, self.start[:-1])
        return float(self.problem.ceiling @ best - slopes @ self.alpha)

    def sweep(self, rng: np.random.Generator) -> bool:
        """One step of each example, in random order; returns whether any multiplier changed."""
        moved = False
        for i in rng.permutation(self.problem.n_examples):
            deadline.check()
            at = slice(self.start[i], self.start[i + 1])
            if at.stop - at.start > 1:
                rows = self.a[at]
                moved |= self._step(at, rows.toarray() if sp.issparse(rows) else rows)
        return moved

    def _step(self, at: slice, rows: Matrix) -> bool:
        alpha, lam = self.alpha[at], self.problem.lam  # alpha is a view
        slopes = self.b[at] - rows @ self.w
        y = int(slopes.argmax())
        z = int(np.where(alpha > 0, slopes, np.inf).argmin())
        by = rows[y] - rows[z]
        rise, square = float(slopes[y] - slopes[z]), float(by @ by)
        if rise <= EPS * (abs(slopes[y]) + abs(slopes[z])):
            return False
        delta = float(alpha[z]) if lam * rise >= alpha[z] * square else lam * rise / square
        alpha[y] += delta
        alpha[z] -= delta
        self.psi += delta * by
        self.w = self.problem.project(self.psi) / lam
        return True
