r"""Block-coordinate Frank-Wolfe on the dual with pairwise steps and kept labellings: Lacoste-Julien, Jaggi, Schmidt,
Pletscher 2013, algorithms 3 and 4; Osokin, Alayrac, Lukasewitz, Dokania, Lacoste-Julien 2016, "Minding the gaps".

The dual is a product of one simplex an example. With a_i(y) = e_i(y) df_i(y) (e = 1 under margin scaling, E_i(y) under
slack scaling) and multipliers alpha_i(y) >= 0 that sum to c_i = C omega_i, at first all on the truth,

    D(alpha) = sum_i sum_y alpha_i(y) E_i(y) - lam/2 |w|^2,        w = (sum_i sum_y alpha_i(y) a_i(y))_+ / lam.

A visit to a block of examples asks the oracle for the most violated labelling of each at w, adds it to the labellings
kept for the example (the truth is always one), and takes steps of pairs: with the slopes g_y = E_i(y) - <w, a_i(y)>, y
the largest of those kept and z the smallest with alpha_i(z) > 0,

    delta = min( alpha_i(z),  lam (g_y - g_z) / |a_i(y) - a_i(z)|^2 ),    alpha_i(y) += delta,   alpha_i(z) -= delta,

example after example, until `INNER_SHARE` of the block's gap is left. A step is the best on its segment if no weight
has to be >= 0, and no longer than that otherwise: the dual value never falls. The slopes come from the Gram matrix of
the block's columns, so that w is read once and written once a visit, at the features of the block alone. The papers'
step of Frank-Wolfe, towards the most violated labelling, shrinks all multipliers of an example by one factor; a pair
can set one that is not needed to 0 at once.

**Averaged**, one term a visit: wbar_k = k/(k + 2) wbar_{k-1} + 2/(k + 2) w_k. With t_k = (k + 1)(k + 2)/2 this is

    wbar_k = w_k - u_k / t_k,        u_k = u_{k-1} + t_{k-1} (w_k - w_{k-1}),

so that a visit changes u where it changes w, and O(d) numbers are computed once a pass.

**Skipped.** A visit knows the gap of each of its examples before it steps. A pass visits the examples whose gaps were
the largest at their last visit, as many as have the share ``cover`` of the sum; each `PASSES_TO_WHOLE`-th pass visits
all. Measured on 60 words of handwriting with slack scaling (C_mean = 3, one thread, to 1e-3, ``block=16``): 16.7 s with
cover 1, 8.3 s with 0.8; one sweep a visit in place of up to `SWEEPS` leaves 2.6% after 25 s.

Memory: the data once more, three vectors like w, and the labellings kept, one byte a node of each (up to 128 labels).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Labels, Matrix, Point, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.mixtures import label_type, of_single_labellings
from convexstruct.core.options import at_least, flag, or_none, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.graphs import ranges
from convexstruct.rounding import EPS
from convexstruct.validation.arguments import number

#: Steps of pairs end once a block's gap over the labellings kept is at most this share of its gap before, or after so
#: many sweeps over its examples: a visit is dear (decoding, and the Gram matrix of its columns), a sweep is not.
INNER_SHARE, SWEEPS = 0.1, 20
#: A labelling is dropped after so many visits in a row without a multiplier: the Gram matrix grows with those kept.
IDLE_VISITS = 10
#: Every so many passes all examples are visited: the gap of one that was left out is old, and may have grown since.
PASSES_TO_WHOLE = 5


@dataclass(frozen=True)
class BlockFrankWolfe:
    """Options.

    block : examples of one visit, with one call of the oracle; None takes all.
    average : also evaluate P at the weighted average of the w's, by one more call of the oracle a pass.
    cover : share of the sum of the examples' gaps that a pass visits; 1: every example.
    seed : of the order of the examples.
    """

    block: int | None = 32
    average: bool = True
    cover: float = 0.8
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(
            self,
            block=or_none(at_least(1)),
            average=flag,
            cover=lambda name, value: number(name, value, above=0, most=1),
            seed=seed,
        )

    def iterate(self, problem: StructuredSVM | OracleSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a pass over the examples. It begins on the truth, where all multipliers are known; ``start`` is
        ignored, since w does not determine the multipliers.

        Raises
        ------
        ValueError
            If an option makes no sense.
        """
        rng = np.random.default_rng(self.seed)
        run, size = _Run(problem), self.block or problem.n_examples
        every = [_Block.of(problem, examples) for examples in _cut(problem, rng.permutation(problem.n_examples), size)]
        passes, calls = 0, 0
        while True:
            blocks = every
            if passes % PASSES_TO_WHOLE and self.cover < 1.0:
                some = _largest(run.gap, self.cover)
                blocks = [_Block.of(problem, examples) for examples in _cut(problem, rng.permutation(some), size)]
            moved = 0
            for at in rng.permutation(len(blocks)):
                deadline.check()
                moved += run.visit(blocks[at])
            passes += 1
            w, value = run.w, problem.primal({"w": run.w})
            calls += 2
            if self.average:
                calls += 1
                of_mean = problem.primal({"w": run.mean})
                w, value = (run.mean, of_mean) if of_mean < value else (w, value)
            done = blocks is every and not moved
            yield Iterate({"w": w.copy()}, run.snapshot(), value, run.bound, calls, done=done)
            if done:
                return


def _cut(problem: StructuredSVM | OracleSVM, examples: Index, size: int) -> list[Index]:
    """Examples in blocks of about the same length, so that a batched recursion has no more steps than it needs."""
    order = examples[np.argsort(np.diff(problem.features.node_start)[examples], kind="stable")]
    return [order[low : low + size].astype(np.intp) for low in range(0, len(order), size)]


def _largest(gap: Vector, share: float) -> Index:
    """The examples with the largest gaps that have this share of their sum; shape (n,), n >= 1."""
    order = np.argsort(-gap, kind="stable")
    summed = np.cumsum(gap[order])
    return np.sort(order[: int(np.searchsorted(summed, share * summed[-1])) + 1])


@dataclass(frozen=True, eq=False)
class _Block:
    """Examples (n,), and ``part``, the problem of these alone. columns : the node features that occur in the block,
    among all of them, where node features are sparse: ``part`` has only these; None where it has all."""

    part: Any
    examples: Index
    columns: Index | None

    @classmethod
    def of(cls, problem: StructuredSVM | OracleSVM, examples: Index) -> _Block:
        part = problem.some(examples)
        if not (isinstance(part, StructuredSVM) and sp.issparse(part.features.node_features)):
            return cls(part, examples, None)
        x = part.features.node_features
        columns, at = np.unique(x.indices, return_inverse=True)
        narrow = sp.csr_array((x.data, at.astype(x.indices.dtype), x.indptr), shape=(x.shape[0], len(columns)))
        return cls(replace(part, features=replace(part.features, node_features=narrow)), examples, columns)

    def entries(self, features: Any) -> Index:
        """The entries of w that ``part`` has, among those of all ``features``; if no example of the block has edges,
        they end before w_edge."""
        if self.columns is None:
            return np.arange(self.part.dimension)
        own = self.part.features
        node = np.arange(own.n_labels)[:, None] * features.n_node_features + self.columns
        edge = features.n_node_weights + np.arange(own.dimension - own.n_node_weights)
        return np.concatenate((node.ravel(), edge))

    def differences(self, owner: Index, labels: list[Labels]) -> tuple[Any, Vector]:
        """a = e_i(y) df_i(y), (m, d of the part), dense where node features are, and E_i(y), (m,), of m labellings of
        the block's examples ``owner`` (m,)."""
        features = self.part.features
        flat = np.concatenate(labels).astype(np.int64)
        if isinstance(self.part, OracleSVM):
            met = [features.met(i, y)[1] for i, y in zip(owner.tolist(), labels)]
            return features.joint_truth[owner] - features.joint_each(flat, owner).toarray(), np.array(met)
        node, begin = ranges(features.node_start, owner)
        row, size, m = np.repeat(np.arange(len(owner)), np.diff(begin)), features.n_labels, len(owner)
        off = flat != features.truth[node]  # elsewhere the two labellings' node features cancel
        v, true, other = node[off], row[off] * size + features.truth[node[off]], row[off] * size + flat[off]
        sign = np.repeat((1.0, -1.0), len(v))
        select = sp.coo_array((sign, (np.append(true, other), np.append(v, v))), shape=(m * size, features.n_nodes))
        product, width = sp.csr_array(select) @ features.node_features, features.n_node_features
        edge = features.edges_each(features.truth[node], owner) - features.edges_each(flat, owner)
        if sp.issparse(product):  # row (i, s) becomes a part of row i
            label = np.repeat(np.arange(m * size) % size, np.diff(product.indptr))
            parts = product.data, product.indices + label * width, product.indptr[::size]
            a = sp.csr_array(sp.hstack((sp.csr_array(parts, shape=(m, size * width)), edge)))
        else:
            a = np.hstack((product.reshape(m, -1), edge.toarray()))
        loss = self.part.loss
        lost = np.bincount(row, weights=loss.costs[node, flat], minlength=m)
        lost = np.minimum(np.bincount(row, weights=off, minlength=m), 1.0) if loss.zero_one else lost
        if self.part.scaling == "slack":
            a = sp.csr_array(a.multiply(lost[:, None])) if sp.issparse(a) else a * lost[:, None]
        return a, np.asarray(lost, dtype=np.float64)


@dataclass
class _Kept:
    """The labellings kept of an example, the truth first; alpha (m,), and the visits since each had a multiplier."""

    labels: list[Labels]
    alpha: Vector
    age: Index

    def add(self, labels: Labels) -> None:
        if not any(np.array_equal(labels, other) for other in self.labels):
            self.labels.append(labels)
            self.alpha, self.age = np.append(self.alpha, 0.0), np.append(self.age, 0)

    def settle(self, alpha: Vector) -> None:
        """Take new multipliers, and drop what has had none for `IDLE_VISITS` visits."""
        age = np.where(alpha > 0, 0, self.age + 1)
        age[0] = 0
        kept = np.flatnonzero(age <= IDLE_VISITS)
        self.labels, self.alpha, self.age = [self.labels[j] for j in kept], alpha[kept], age[kept]


class _Run:
    """Multipliers of the labellings kept; w and u of the head of this file, entries that must be >= 0 not yet clipped
    in ``free``; gap (N,), of each example when it was visited last."""

    def __init__(self, problem: StructuredSVM | OracleSVM) -> None:
        self.problem, features = problem, problem.features
        self._truth = features.truth.astype(label_type(features.n_labels))
        parts = np.split(self._truth, features.node_start[1:-1])
        self.kept = [_Kept([y], np.array([c]), np.zeros(1, np.intp)) for y, c in zip(parts, problem.ceiling)]
        self._free, self.w, self._u = (np.zeros(problem.dimension) for _ in range(3))
        self._visits, self._lost = 0, 0.0
        self.gap = np.zeros(problem.n_examples)

    @property
    def bound(self) -> float:
        return self._lost - 0.5 * self.problem.lam * float(self.w @ self.w)

    @property
    def mean(self) -> Vector:
        return self.w - self._u / max(0.5 * self._visits * (self._visits + 1), 1.0)

    def snapshot(self) -> Any:
        """A function that returns the present witness also later."""
        kept = [(each.labels[1:], each.alpha[1:] / c) for each, c in zip(self.kept, self.problem.ceiling)]
        truth, start = self._truth, self.problem.features.node_start

        def witness() -> Point:
            example = np.repeat(np.arange(len(kept)), [len(labels) for labels, _ in kept])
            shares = np.concatenate([share for _, share in kept])
            return of_single_labellings(truth, start, [y for labels, _ in kept for y in labels], example, shares)

        return witness

    def visit(self, block: _Block) -> int:
        """Find the most violated labellings at w, and step; returns the number of steps."""
        problem, part, entries = self.problem, block.part, block.entries(self.problem.features)
        w = self.w[entries]
        found = part.most_violated(w)
        parts = np.split(found.labels.astype(self._truth.dtype), part.features.node_start[1:-1])
        kept = [self.kept[i] for i in block.examples]
        for each, labels in zip(kept, parts):
            each.add(labels)
        owner = np.repeat(np.arange(len(kept)), [len(each.labels) for each in kept])
        a, b = block.differences(owner, [y for each in kept for y in each.labels])
        start = np.searchsorted(owner, np.arange(len(kept) + 1))
        before = np.concatenate([each.alpha for each in kept])
        pairs = _Pairs(a, b, start, before, problem.lam, part.features.nonnegative, self._free[entries])
        self.gap[block.examples] = pairs.gaps()
        pairs.sweep()
        change = pairs.alpha - before
        for each, alpha in zip(kept, np.split(pairs.alpha, start[1:-1])):
            each.settle(alpha)
        self._move(entries, np.asarray(a.T @ change) / problem.lam)
        self._lost += float(change @ b)
        return pairs.steps

    def _move(self, entries: Index, by: Vector) -> None:
        changed = np.flatnonzero(by)
        at = entries[changed]
        self._free[at] += by[changed]
        old, new = self.w[at], self._free[at]
        new = np.where(self.problem.features.nonnegative[at], np.maximum(new, 0.0), new)
        self._u[at] += 0.5 * self._visits * (self._visits + 1) * (new - old)
        self.w[at] = new
        self._visits += 1


class _Pairs:
    """Steps of pairs over the columns a (m, d), b (m,) of a block, example i from start[i] on; alpha (m,) and the
    slopes g (m,). free (d,) : w before entries that must be >= 0 are clipped."""

    def __init__(
        self, a: Any, b: Vector, start: Index, alpha: Vector, lam: float, nonnegative: Flags, free: Vector
    ) -> None:
        self.alpha, self.start, self.steps, self._lam = alpha.copy(), start, 0, lam
        gram = a @ a.T
        self._gram: Matrix = gram.toarray() if sp.issparse(gram) else gram
        low = a[:, nonnegative]
        self._bounded: Matrix = low.toarray() if sp.issparse(low) else low
        self._free = free[nonnegative]
        self._slopes: Vector = b - a @ np.where(nonnegative, 0.0, free)  # of the weights that may have any sign
        self._curved = (self._gram - self._bounded @ self._bounded.T) / lam

    @property
    def slopes(self) -> Vector:
        """b - a w at the present w."""
        return np.asarray(self._slopes - self._bounded @ np.maximum(self._free, 0.0))

    def gaps(self) -> Vector:
        """c_i max_y g_y - sum_y alpha_y g_y of each example; shape (n,)."""
        slopes, first = self.slopes, self.start[:-1]
        best = np.maximum.reduceat(slopes, first) * np.add.reduceat(self.alpha, first)
        return np.asarray(np.maximum(best - np.add.reduceat(self.alpha * slopes, first), 0.0))

    def sweep(self) -> None:
        """Steps, example after example, until `INNER_SHARE` of the gap is left."""
        wanted = INNER_SHARE * float(self.gaps().sum())
        spans = [(low, high) for low, high in pairwise(self.start.tolist()) if high - low > 1]
        for _ in range(SWEEPS):
            moved = [self._step(low, high) for low, high in spans]
            if not any(moved) or self.gaps().sum() <= wanted:
                return

    def _step(self, low: int, high: int) -> bool:
        slopes = self.slopes[low:high]
        y = low + int(slopes.argmax())
        z = low + int(np.where(self.alpha[low:high] > 0, slopes, np.inf).argmin())
        rise = float(slopes[y - low] - slopes[z - low])
        if rise <= EPS * (abs(slopes[y - low]) + abs(slopes[z - low])):
            return False
        curvature = float(self._gram[y, y] + self._gram[z, z] - 2.0 * self._gram[y, z]) / self._lam
        delta = float(self.alpha[z]) if rise >= self.alpha[z] * curvature else rise / curvature
        self.alpha[y] += delta
        self.alpha[z] -= delta
        self._slopes -= delta * (self._curved[y] - self._curved[z])
        self._free += delta / self._lam * (self._bounded[y] - self._bounded[z])
        self.steps += 1
        return True
