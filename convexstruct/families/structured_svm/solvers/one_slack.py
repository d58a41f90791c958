r"""Cutting planes with one slack for all examples (Joachims, Finley, Yu 2009, algorithms 3 and 4; paper 1, "Single
slack formulation [JFY09]"). A cut is one labelling of all examples,

    a_k = sum_i (c_i / c) e_i(y_i^k) df_i(y_i^k),    b_k = sum_i (c_i / c) E_i(y_i^k)

with c_i = C omega_i, c = sum_i c_i, and the restricted problem  min lam/2 |w|^2 + c max(0, max_k b_k - <w, a_k>)  has
as many variables in its dual as there are cuts. Each round adds the most violated cut, until none is violated by more
than xi + eps: then P(w) - p* <= c eps. The dual variables beta_k, sum_k beta_k <= c, give each example the mixture of
its labellings y_i^k with shares beta_k / c.

**Cache.** Between two calls of the oracle, the last few labellings that it found for each example are searched for the
most violated one, and these make a cut. It is added if its violation exceeds xi by more than eps and (our addition) by
more than half as much as the violation of the oracle's last cut did. Without the addition the restricted problem over
the cached labellings would be solved to its last digit between any two calls.

**Bound** (theorem 5 there; the slide has the larger of the two terms, the theorem their sum). In its scale, lam = 1 and
c = C, with the largest loss Dmax and R = max |e_i(y) df_i(y)|, at most

    ceil(log2(Dmax / (4 R^2 C))) + ceil(16 R^2 C / eps)

cuts are added, for eps <= 4 R^2 C; the logarithm counts where it is positive. In general C is c / lam.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Labels, Point, Vector
from convexstruct.core.certificates import magnitude
from convexstruct.core.iterate import Iterate
from convexstruct.core.mixtures import label_type
from convexstruct.core.options import at_least, positive, read_options
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.column_generation.restricted_master import (
    EXACT_GAP,
    PoolColumns,
    solve_pools,
)
from convexstruct.families.structured_svm.solvers.example_blocks import starting_w
from convexstruct.tolerances import HIGH, ROUNDING

#: The run ends after so many cuts in a row that did not raise the dual value: rounding then hides what more could be
#: gained. After one such cut the next often does.
PATIENCE = 3
#: The violation of a cut from the cache, less xi, must exceed this share of that of the oracle's last cut.
CACHED_SHARE = 0.5


def one_slack_bound(problem: StructuredSVM, eps: float, radius: float) -> float:
    """How many cuts `OneSlack` adds at most; ``radius`` is R = max |e_i(y) df_i(y)| or above."""
    c = float(problem.ceiling.sum())
    curvature = radius**2 * c / problem.lam
    if curvature == 0:
        return 1.0
    most = float(problem.loss.most.max())
    return max(0.0, math.ceil(math.log2(max(most, 1e-300) / (4 * curvature)))) + math.ceil(16 * curvature / eps)


@dataclass(frozen=True)
class OneSlack:
    """Options.

    eps : by how much a cut must be violated beyond the slack to be added, in units of the loss (under margin scaling).
    cache : labellings kept for each example; 0 asks the oracle every round.
    forget : a cut is dropped after so many rounds in a row without use.
    """

    eps: float = 1e-2 * HIGH.gap
    cache: int = 5
    forget: int = 50

    def __post_init__(self) -> None:
        read_options(self, eps=positive, cache=at_least(0), forget=at_least(1))

    def iterate(self, problem: StructuredSVM | OracleSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a call of the oracle; with a ``start``, the first cut is that at its w. ValueError if that w does
        not fit the problem."""
        cuts, cache = Cuts(problem, starting_w(problem, start), self.forget), deque[Labels](maxlen=self.cache)
        calls, added, still = 0, 0, 0
        if start is not None:
            found = problem.most_violated(cuts.w)
            calls, added = 1, 1
            cuts.add(found.labels, abs(found.value))
        while True:
            found = problem.most_violated(cuts.w)
            calls += 1
            violation = float(problem.ceiling @ found.violation) / cuts.total
            slack = cuts.xi
            done = violation <= slack + self.eps or still >= PATIENCE
            message = f"{added} cuts from {calls} calls of the oracle"
            yield Iterate({"w": cuts.w}, cuts.witness(), found.value, cuts.bound, calls, {}, done, message)
            if done:
                return
            cache.append(found.labels)
            labels: Labels | None = found.labels
            while labels is not None:
                deadline.check()
                rose = cuts.add(labels, abs(found.value))
                added += 1
                still = 0 if rose else still + 1
                worth = max(self.eps, CACHED_SHARE * (violation - slack))
                labels = cached(problem, cuts, cache, worth) if rose else None


def cached(problem: StructuredSVM | OracleSVM, cuts: Cuts, cache: deque[Labels], worth: float) -> Labels | None:
    """The most violated labellings among those kept, if their cut is violated by more than xi + ``worth``."""
    margins = problem.margins(cuts.w)
    violation = np.zeros(problem.n_examples)
    labels = problem.features.truth
    for kept in cache:
        lost, margin = problem.loss.of(kept), margins(kept)
        each = lost * (1.0 - margin) if problem.scaling == "slack" else lost - margin
        better = each > violation
        violation = np.where(better, each, violation)
        labels = np.where(better[problem.features.example], kept, labels)
    return labels if float(problem.ceiling @ violation) / cuts.total > cuts.xi + worth else None


class Cuts:
    """The cuts, the zero cut of the truth first, and the optimum over them: w, xi, beta, and its dual value."""

    def __init__(self, problem: StructuredSVM | OracleSVM, w: Vector, forget: int) -> None:
        self.problem, self.w, self.xi, self.bound, self.forget = problem, w, 0.0, 0.0, forget
        self.total = float(problem.ceiling.sum())
        self.labels = [problem.features.truth.astype(label_type(problem.features.n_labels))]
        self.a, self.b = np.zeros((1, problem.dimension)), np.zeros(1)
        self.gram = np.zeros((1, 1))
        self.beta, self.age = np.full(1, self.total), np.zeros(1, dtype=np.int64)

    def add(self, labels: Labels, size: float) -> bool:
        """Add the cut of a labelling (P,) of all examples, solve, and drop cuts long unused; returns whether the dual
        value rose. ``size`` is the size of P, to which the tolerance is relative."""
        problem, features = self.problem, self.problem.features
        share, lost = problem.ceiling / self.total, problem.loss.of(labels)
        weight = share * lost if problem.scaling == "slack" else share
        a = features.joint(features.truth, weight) - features.joint(labels, weight)
        across = self.a @ a
        self.gram = np.block([[self.gram, across[:, None]], [across[None], np.array([[a @ a]])]])
        self.a, self.b = np.vstack((self.a, a)), np.append(self.b, share @ lost)
        self.labels.append(labels.astype(self.labels[0].dtype))
        self.beta, self.age = np.append(self.beta, 0.0), np.append(self.age, 0)
        before = self.bound
        self._solve(size)
        self.age = np.where(self.beta > ROUNDING * self.total, 0, self.age + 1)
        self.age[0] = 0
        kept = np.flatnonzero(self.age < self.forget)
        if len(kept) < len(self.b):
            self.a, self.b, self.gram = self.a[kept], self.b[kept], self.gram[np.ix_(kept, kept)]
            self.beta, self.age, self.labels = self.beta[kept], self.age[kept], [self.labels[k] for k in kept]
        return self.bound > before

    def _solve(self, size: float) -> None:
        problem, (m, d) = self.problem, self.a.shape
        small = m < d and not problem.features.associative
        columns = PoolColumns(self.a, self.b, np.zeros(m, dtype=np.intp), self.gram if small else None, self.beta)
        tolerance = EXACT_GAP * magnitude(problem, size)
        nonnegative = problem.features.nonnegative
        solved = solve_pools(columns, np.array([self.total]), problem.lam, self.w, tolerance, nonnegative)
        self.w, self.beta, self.bound = problem.project(solved.w), solved.alpha, solved.bound
        self.xi = float((self.b - self.a @ self.w).max())

    def witness(self) -> Point:
        """The dual witness of beta: a mixture of labellings, the same shares in every example."""
        kept = [k for k in np.flatnonzero(self.beta > 0) if k > 0]
        rows = [self.labels[k] for k in kept]
        labels = np.array(rows, dtype=self.labels[0].dtype).reshape(len(rows), len(self.labels[0]))
        share = self.beta[kept] / self.total
        return {"labels": labels, "label_shares": np.tile(share[:, None], (1, self.problem.n_examples))}
