r"""LaRank (Bordes, Bottou, Gallinari, Weston 2007; on sequences Bordes, Usunier, Bottou 2008; named in paper 1): pairs
of multipliers of one example at a time, on the labellings found so far.

The dual is a product of one simplex an example. With a_i(y) = e_i(y) df_i(y) (e = 1 under margin scaling, E_i(y) under
slack scaling) and multipliers alpha_i(y) >= 0 that sum to c_i = C omega_i, at first all on the truth, so that every
dual value is a bound at once,

    D(alpha) = sum_i sum_y alpha_i(y) E_i(y) - |Psi_+|^2 / (2 lam),    Psi = sum_i sum_y alpha_i(y) a_i(y),

w = Psi_+ / lam, where entries are clipped at 0 if the weight must be >= 0. The slope along alpha_i(y) is
g_i(y) = E_i(y) - <w, a_i(y)>. A step moves mass of one example from a labelling ``down`` of its support to ``up``,

    tau = min(alpha_i(down), lam (g(up) - g(down)) / |a(up) - a(down)|^2),

the best on the pair if no weight has to be >= 0, and no longer than that otherwise: D never falls.

    new       up = the most violated labelling, down = the truth: an example seen for the first time
    old       up = the most violated labelling, down = the least slope of the support
    optimise  up and down = the greatest and the least slope of the support: no oracle

After each example follow ``old`` examples seen before, and after each of these ``optimise`` steps on its support.

**At the end.** If a pass moves nothing, no slope of a support is more than eps below the greatest of its example, so
P(w) - D = sum_i sum_y alpha_i(y) (max g_i - g_i(y)) <= eps sum_i c_i.

**Bound on the steps** (ours). With R the largest |a - a'| of two labellings of an example, a step that is not cut at
alpha(down) raises D by at least lam eps^2 / (2 R^2), and D <= sum_i c_i max E_i: at most 2 R^2 sum_i c_i max E_i /
(lam eps^2) of them. A step that is cut takes ``down`` out of the support: those within the support are at most N more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Labels, Point
from convexstruct.core.iterate import Iterate
from convexstruct.core.mixtures import label_type, of_single_labellings
from convexstruct.core.options import at_least, positive, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.example_blocks import ExampleBlock, example_blocks
from convexstruct.tolerances import HIGH


@dataclass(frozen=True)
class LaRank:
    """Options.

    eps : a pair moves where its slopes differ by more, in units of the loss (under margin scaling).
    old : examples seen before that are visited, with a call of the oracle, after each example.
    optimise : steps on the support of each example that is visited.
    seed : of the order of the examples.
    """

    eps: float = 1e-2 * HIGH.gap
    old: int = 1
    optimise: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, eps=positive, old=at_least(0), optimise=at_least(0), seed=seed)

    def iterate(self, problem: StructuredSVM | OracleSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a pass over the examples. It begins on the truth, where all multipliers are known; ``start`` is
        ignored, since w does not determine the multipliers."""
        rng, run = np.random.default_rng(self.seed), _Run(problem, self.eps)
        supports = [_Support(block) for block in example_blocks(problem, 1)]
        seen: list[_Support] = []
        while True:
            before, first = run.steps, not seen
            for at in rng.permutation(len(supports)):
                run.visit(supports[at], self.optimise)
                if first:
                    seen.append(supports[at])
                for other in rng.integers(len(seen), size=self.old):
                    run.visit(seen[other], self.optimise)
            value, done = problem.primal({"w": run.w}), run.steps == before
            size = sum(len(each.alpha) for each in supports)
            message = f"{run.steps} steps, {run.cut} of them cut; {size} labellings in the supports"
            yield Iterate({"w": run.w.copy()}, run.witness(supports), value, run.bound, run.calls, {}, done, message)
            if done:
                return


class _Support:
    """The labellings of one example whose multiplier is above 0: labels (n_i,), columns a (1, d), b, and alpha."""

    def __init__(self, block: ExampleBlock[Any]) -> None:
        self.block = block
        self.labels: list[Labels] = []
        self.a: list[sp.csr_array] = []
        self.b: list[float] = []
        self.alpha: list[float] = []
        self.alpha[self.find(block.part.features.truth)] = float(block.ceiling[0])

    def find(self, labels: Labels) -> int:
        """The place of a labelling, which is added with alpha = 0 where it is new."""
        for at, known in enumerate(self.labels):
            if np.array_equal(known, labels):
                return at
        columns, losses = self.block.columns(labels)
        self.labels.append(labels.copy())
        self.a.append(columns)
        self.b.append(float(losses[0]))
        self.alpha.append(0.0)
        return len(self.labels) - 1

    def drop_empty(self) -> None:
        """Forget the labellings whose multiplier is 0."""
        kept = [at for at, share in enumerate(self.alpha) if share > 0.0]
        self.labels, self.a = [self.labels[at] for at in kept], [self.a[at] for at in kept]
        self.b, self.alpha = [self.b[at] for at in kept], [self.alpha[at] for at in kept]


class _Run:
    """Psi, w and the loss of the mixture; how many steps there were, and how many of them were cut; oracle calls."""

    def __init__(self, problem: StructuredSVM | OracleSVM, eps: float) -> None:
        self.problem, self.eps = problem, eps
        self.psi, self.w = np.zeros(problem.dimension), np.zeros(problem.dimension)
        self.lost, self.steps, self.cut, self.calls = 0.0, 0, 0, 0

    @property
    def bound(self) -> float:
        return self.lost - 0.5 * self.problem.lam * float(self.w @ self.w)

    def visit(self, support: _Support, optimise: int) -> None:
        """A step towards the most violated labelling, and steps on the support. The support of an example not seen
        before is the truth alone, so that "new" is the same as "old"."""
        deadline.check()
        self.calls += 1
        up = support.find(support.block.most_violated(self.w).labels)
        self.step(support, up)
        for _ in range(optimise):
            if not self.step(support):
                break
        support.drop_empty()

    def step(self, support: _Support, up: int | None = None) -> bool:
        """One step of a pair, ``up`` being the greatest slope unless it is given; returns whether it moved."""
        slopes = [b - float(self.w[a.indices] @ a.data) for a, b in zip(support.a, support.b)]
        up = int(np.argmax(slopes)) if up is None else up
        down = min((at for at, share in enumerate(support.alpha) if share > 0.0), key=slopes.__getitem__)
        rise = slopes[up] - slopes[down]
        if not rise > self.eps:
            return False
        by = sp.csr_array(support.a[up] - support.a[down])
        place, change = by.indices, by.data
        bent, most = float(change @ change) / self.problem.lam, support.alpha[down]
        cut = rise >= most * bent
        tau = most if cut else rise / bent
        self.psi[place] += tau * change
        low = self.problem.features.nonnegative[place]
        self.w[place] = np.where(low, np.maximum(self.psi[place], 0.0), self.psi[place]) / self.problem.lam
        self.lost += tau * (support.b[up] - support.b[down])
        support.alpha[up] += tau
        support.alpha[down] = 0.0 if cut else most - tau
        self.steps += 1
        self.cut += cut
        return True

    def witness(self, supports: list[_Support]) -> Point:
        """The mixture of labellings."""
        features = self.problem.features
        labels = [each for support in supports for each in support.labels]
        owner = np.repeat(np.arange(len(supports)), [len(support.labels) for support in supports])
        share = np.array([each for support in supports for each in support.alpha]) / self.problem.ceiling[owner]
        truth = features.truth.astype(label_type(features.n_labels))
        return of_single_labellings(truth, features.node_start, labels, owner, share)
