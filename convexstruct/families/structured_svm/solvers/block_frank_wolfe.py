r"""Block-coordinate Frank-Wolfe on the dual with pairwise steps and kept labellings: Lacoste-Julien, Jaggi, Schmidt,
Pletscher 2013, algorithms 3 and 4; Osokin, Alayrac, Lukasewitz, Dokania, Lacoste-Julien 2016, "Minding the gaps".

The dual is a product of one simplex an example. With a_i(y) = e_i(y) df_i(y) (e = 1 under margin scaling, E_i(y) under
slack scaling) and multipliers alpha_i(y) >= 0 that sum to c_i = C omega_i, at first all on the truth,

    D(alpha) = sum_i sum_y alpha_i(y) E_i(y) - lam/2 |w|^2,        w = (sum_i sum_y alpha_i(y) a_i(y))_+ / lam.

A visit to a block of examples asks the oracle for the most violated labelling of each at w, and adds it to the
labellings kept for the example (the truth is always one). Then, example after example at the w reached, it takes steps
of pairs: with the slopes g_y = E_i(y) - <w, a_i(y)>, y the largest of those kept, z the smallest with alpha_i(z) > 0,

    delta = min( alpha_i(z),  lam (g_y - g_z) / |a_i(y) - a_i(z)|^2 ),    alpha_i(y) += delta,   alpha_i(z) -= delta,

until `INNER_SHARE` of the example's gap is left. A step is the best on its segment if no weight has to be >= 0, and no
longer than that otherwise: the dual value never falls. The slopes come from the Gram matrix of the example's columns
a_i(y), so that w is read once and written once an example. The papers' step of Frank-Wolfe, towards the most violated
labelling, shrinks all multipliers of an example by one factor; a pair can set one that is not needed to 0 at once.

**Columns held.** With sparse node features the columns stay between visits. `HELD_PASSES` passes of such steps over all
examples, in random order and without the oracle, follow each pass with it, as in Shah, Kolmogorov, Lampert 2015, "A
multi-plane block-coordinate Frank-Wolfe algorithm". With dense features columns are computed at each visit, and a visit
goes over its examples until `INNER_SHARE` of the block's gap is left.

**Averaged**, one term a visit: wbar_k = k/(k + 2) wbar_{k-1} + 2/(k + 2) w_k. With t_k = (k + 1)(k + 2)/2 this is

    wbar_k = w_k - u_k / t_k,        u_k = u_{k-1} + t_{k-1} (w_k - w_{k-1}),

so that a visit changes u where it changes w, and O(d) numbers are computed once a pass.

**Skipped.** A visit computes the gap of each of its examples before it steps. A pass visits the examples whose gaps
were the largest at their last visit, as many as have the share ``cover`` of the sum; each `PASSES_TO_WHOLE`-th pass
visits all. This saves time where a visit is expensive, with dense features.

**Labellings or marginals.** Under margin scaling an example's multipliers could be held as node and edge marginals, one
step of Frank-Wolfe a visit. Measured on 3,394 sentences of CoNLL-2000 (57,853 words, 19 labels, windows of five words,
241,870 weights, C = 1 an example, one thread): seconds, lower bound, the better of P(w) and P(wbar),

    marginals       4.4   2763   7537     9.0   3668   6163    17.8   4274   5386    40.1   4568   4982
    labellings      5.2   2537   9032    10.8   4056   6609    21.7   4689   5180    41.1   4754   4812

Marginals, whose visit is cheaper, are ahead until 20% of P is left, for 15 s; then labellings are, and reach 1.2% where
marginals have 8.3%. Labellings are what is kept here. Joint steps of pairs in a block, without columns held, have
4669 and 5492 after 40.3 s.

**Memory**: the data once more; three vectors like w; the labellings kept, `MOST_KEPT` an example at most, one byte a
node each (up to 128 labels); columns and Gram matrices of at most `HELD_SHARE` numbers for each stored feature and for
each node and label. Columns beyond that are computed again at each visit. A labelling without a multiplier is dropped
after the visit. An example with `MOST_KEPT` labellings hands the smallest multiplier to another labelling if D does not
fall by that; else it gets no more labellings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Index, Labels, Point, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.mixtures import label_type, of_single_labellings
from convexstruct.core.options import at_least, flag, or_none, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.labellings import Labellings
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.kept_labellings import Column, Kept
from convexstruct.graphs import ranges
from convexstruct.rounding import EPS
from convexstruct.validation.arguments import number

#: Steps of pairs of an example end once its gap over the labellings kept is at most this share of its gap before, or
#: after so many steps: what is left depends on the w that the other examples have yet to move. The visits of a block
#: that go over its examples several times end at the same share of the block's gap.
INNER_SHARE, MOST_STEPS = 0.3, 50
#: Passes over the columns held that follow each pass with the oracle. On 1,500 sentences one, two and four of them
#: leave a gap of 7% after 12 s, none leaves 26%.
HELD_PASSES = 2
#: Where not all columns are held, a visit goes over its examples so often at most: decoding and computing columns are
#: expensive there, and another pass over the columns is cheap.
SWEEPS = 20
#: Labellings kept of an example, at most: one byte each a node, they take as much as eight numbers a node.
MOST_KEPT = 64
#: Numbers in the columns held and their Gram matrices, at most so many for each stored feature and for each node and
#: label.
HELD_SHARE = 8
#: Every so many passes all examples are visited: the gap of one that was left out is old, and may have grown since.
PASSES_TO_WHOLE = 5
#: The default of ``cover`` with dense features: on 60 words of handwriting with slack scaling it halves the time.
COVER = 0.8


@dataclass(frozen=True)
class BlockFrankWolfe:
    """Options.

    block : examples of one visit, with one call of the oracle; None takes all.
    average : also evaluate P at the weighted average of the w's, by one more call of the oracle a pass.
    cover : share of the sum of the examples' gaps that a pass visits; 1: every example. None: 1 where node features
        are sparse, else `COVER`.
    seed : of the order of the examples.
    """

    block: int | None = 32
    average: bool = True
    cover: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(
            self,
            block=or_none(at_least(1)),
            average=flag,
            cover=or_none(lambda name, value: number(name, value, above=0, most=1)),
            seed=seed,
        )

    def iterate(self, problem: StructuredSVM | OracleSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a pass over the examples. It begins on the truth, where all multipliers are known; ``start`` is
        ignored, since w does not determine the multipliers."""
        rng = np.random.default_rng(self.seed)
        run, size = _Run(problem, rng), self.block or problem.n_examples
        every = [_Block.of(problem, examples) for examples in _cut(problem, rng.permutation(problem.n_examples), size)]
        cover = self.cover or (1.0 if run.sparse else COVER)
        passes, calls = 0, 0
        while True:
            blocks = every
            if passes % PASSES_TO_WHOLE and cover < 1.0:
                some = _largest(run.gap, cover)
                blocks = [_Block.of(problem, examples) for examples in _cut(problem, rng.permutation(some), size)]
            moved = sum(run.visit(blocks[at]) for at in rng.permutation(len(blocks)))
            for _ in range(HELD_PASSES if run.sparse else 0):
                run.again(size)
            passes += 1
            w, value = run.w, problem.primal({"w": run.w})
            calls += 2
            if self.average:
                calls += 1
                of_mean = problem.primal({"w": run.mean})
                w, value = (run.mean, of_mean) if of_mean < value else (w, value)
            done = blocks is every and not moved
            full = sum(len(each.labels) >= MOST_KEPT for each in run.kept) if done else 0
            message = f"{full} examples keep {MOST_KEPT} labellings and have room for no other" if full else ""
            yield Iterate({"w": w.copy()}, run.snapshot(), value, run.bound, calls, done=done, message=message)
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
    among all of them, where node features are sparse: ``part`` has only these; None where it has all. entries : those
    of w that ``part`` has, among all; if no example of the block has edges, they end before w_edge."""

    part: Any
    examples: Index
    columns: Index | None
    entries: Index

    @classmethod
    def of(cls, problem: StructuredSVM | OracleSVM, examples: Index) -> _Block:
        if not (isinstance(problem, StructuredSVM) and sp.issparse(problem.features.node_features)):
            own = problem.some(examples)
            return cls(own, examples, None, np.arange(own.dimension))
        part, whole = problem.some(examples), problem.features
        x = part.features.node_features
        columns, at = np.unique(x.indices, return_inverse=True)
        narrow = sp.csr_array((x.data, at.astype(x.indices.dtype), x.indptr), shape=(x.shape[0], len(columns)))
        features = replace(part.features, node_features=narrow)
        node = np.arange(features.n_labels)[:, None] * whole.n_node_features + columns
        edge = whole.n_node_weights + np.arange(features.dimension - features.n_node_weights)
        return cls(replace(part, features=features), examples, columns, np.concatenate((node.ravel(), edge)))

    def differences(self, owner: Index, labels: list[Labels], width: int) -> tuple[list[Column], Vector]:
        """a = e_i(y) df_i(y), as m columns, dense where node features are, and E_i(y), (m,), of m labellings of the
        block's examples ``owner`` (m,). width : F of the whole problem."""
        features = self.part.features
        flat = np.concatenate(labels).astype(np.int64)
        if isinstance(self.part, OracleSVM):
            met = [features.met(i, y) for i, y in zip(owner.tolist(), labels)]
            truth = features.joint_truth[owner]
            return [Column(None, f - joint) for f, (joint, _) in zip(truth, met)], np.array([lost for _, lost in met])
        node, begin = ranges(features.node_start, owner)
        row, size, m = np.repeat(np.arange(len(owner)), np.diff(begin)), features.n_labels, len(owner)
        off = np.flatnonzero(flat != features.truth[node])  # elsewhere the two labellings' node features cancel
        v, row, true, other = node[off], row[off], features.truth[node[off]], flat[off]
        edge = features.edges_each(features.truth[node], owner) - features.edges_each(flat, owner)
        loss = self.part.loss
        summed, some = np.bincount(row, weights=loss.costs[v, other], minlength=m), np.bincount(row, minlength=m) > 0
        lost: Vector = np.asarray(some if loss.zero_one else summed, dtype=np.float64)
        scale = lost if self.part.scaling == "slack" else np.ones(m)
        if self.columns is None:
            sign = np.repeat((1.0, -1.0), len(v))
            ends = np.append(row * size + true, row * size + other), np.append(v, v)
            select = sp.csr_array(sp.coo_array((sign, ends), shape=(m * size, features.n_nodes)))
            a = np.hstack(((select @ features.node_features).reshape(m, -1), edge.toarray())) * scale[:, None]
            return [Column(None, each) for each in a], lost
        x = features.node_features
        at, start = ranges(x.indptr, v)
        many = np.diff(start)
        f, value, row, edge = self.columns[x.indices[at]], x.data[at], np.repeat(row, many), edge.tocoo()
        place = np.repeat(true, many) * width + f, np.repeat(other, many) * width + f, size * width + edge.coords[1]
        rows = np.concatenate((row, row, edge.coords[0]))
        order = np.argsort(rows, kind="stable")
        values = (np.concatenate((value, -value, edge.data)) * scale[rows])[order]
        cuts = np.searchsorted(rows[order], np.arange(1, m))
        each = zip(np.split(np.concatenate(place)[order], cuts), np.split(values, cuts))
        return [Column(*entries) for entries in each], lost


class _Run:
    """Multipliers of the labellings kept; w and u of the head of this file; ``free``, w before entries that must be
    >= 0 are clipped, the same array where none must; gap (N,), of each example when it was visited last."""

    def __init__(self, problem: StructuredSVM | OracleSVM, rng: np.random.Generator) -> None:
        self.problem, self._rng, features = problem, rng, problem.features
        self._truth = features.truth.astype(label_type(features.n_labels))
        parts = np.split(self._truth, features.node_start[1:-1])
        self.kept = [Kept(y.tobytes(), float(c)) for y, c in zip(parts, problem.ceiling)]
        self.w, self._u = np.zeros(problem.dimension), np.zeros(problem.dimension)
        self._low = features.nonnegative if features.nonnegative.any() else None
        self._free = self.w if self._low is None else np.zeros(problem.dimension)
        self._where = np.full(problem.dimension, -1)
        self._visits, self._lost = 0, 0.0
        self.gap = np.zeros(problem.n_examples)
        self.sparse, self._dear, self._width, self._room = False, True, 0, 0
        if not isinstance(features, Labellings):
            x, self._width = features.node_features, features.n_node_features
            self.sparse = sp.issparse(x)
            self._dear = not self.sparse
            self._room = HELD_SHARE * (x.nnz + features.n_nodes * features.n_labels) if self.sparse else 0

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
            every = [np.frombuffer(y, truth.dtype) for labels, _ in kept for y in labels]
            return of_single_labellings(truth, start, every, example, shares)

        return witness

    def visit(self, block: _Block) -> int:
        """Find the most violated labellings at w, and step; returns the number of steps."""
        deadline.check()
        kept, kind = [self.kept[i] for i in block.examples], self._truth.dtype
        self._room += sum(each.held for each in kept)
        found = block.part.most_violated(self.w[block.entries]).labels.astype(kind)
        keys = [labels.tobytes() for labels in np.split(found, block.part.features.node_start[1:-1])]
        new = [key not in each.labels and len(each.labels) < MOST_KEPT for each, key in zip(kept, keys)]
        missing = [
            (each.labels[1:] if each.a is None else []) + ([key] if added else [])
            for each, key, added in zip(kept, keys, new)
        ]
        owner = np.repeat(np.arange(len(kept)), [len(labels) for labels in missing])
        if len(owner):
            labels = [np.frombuffer(key, kind) for each in missing for key in each]
            columns, lost = block.differences(owner, labels, self._width)
            start = np.searchsorted(owner, np.arange(len(kept) + 1)).tolist()
            for each, key, added, low, high in zip(kept, keys, new, start, start[1:]):
                if low < high:
                    each.extend(columns[low:high], self._where)
                if added:
                    each.add(key, float(lost[high - 1]))
        steps, gap = 0, np.zeros(len(kept))
        for sweep in range(SWEEPS if self._dear else 1):
            before = steps
            for j in self._rng.permutation(len(kept)).tolist():
                gap[j], made = self._step(kept[j])
                steps += made
            if not sweep:
                self.gap[block.examples] = gap
            if steps == before or gap.sum() <= INNER_SHARE * self.gap[block.examples].sum():
                break
        for each in kept:
            each.settle()
            if len(each.labels) >= MOST_KEPT:
                self._make_room(each)
            if each.held > self._room:
                each.release()
                self._dear = True
            self._room -= each.held
        self._visits += 1
        return steps

    def again(self, size: int) -> None:
        """Steps of all examples whose columns are held, in random order; ``size`` of them count as a visit."""
        order = self._rng.permutation(len(self.kept))
        for low in range(0, len(order), size):
            deadline.check()
            for i in order[low : low + size].tolist():
                self._step(self.kept[i])
            self._visits += 1

    def _step(self, each: Kept) -> tuple[float, int]:
        """Steps of pairs, if the columns are there; returns the gap before, over the labellings kept, and how many."""
        a, lam = each.a, self.problem.lam
        if a is None:
            return 0.0, 0
        old = self._free[each.place]
        slopes = each.b - a @ self._clipped(old, each.place)
        alpha, ceiling, steps = each.alpha.copy(), float(each.alpha.sum()), 0
        gap = now = max(ceiling * float(slopes.max()) - float(alpha @ slopes), 0.0)
        while steps < MOST_STEPS and (now > INNER_SHARE * gap or not steps):
            y, z = int(slopes.argmax()), int(np.where(alpha > 0, slopes, np.inf).argmin())
            top, least, most = float(slopes[y]), float(slopes[z]), float(alpha[z])
            rise = top - least
            if rise <= EPS * (abs(top) + abs(least)):
                break
            row = (each.gram[y] - each.gram[z]) / lam
            curvature = float(row[y] - row[z])
            delta = most if rise >= most * curvature else rise / curvature
            alpha[y] += delta
            alpha[z] -= delta
            steps += 1
            if self._low is None:
                slopes -= delta * row
            else:
                slopes = each.b - a @ self._clipped(old + (alpha - each.alpha) @ a / lam, each.place)
            now = ceiling * float(slopes.max()) - float(alpha @ slopes)
        if steps:
            self._shift(each, alpha)
        return gap, steps

    def _make_room(self, each: Kept) -> None:
        """The labelling with the smallest multiplier (not the truth) gives it to the one that makes most of it, and is
        dropped, if D does not fall by that."""
        if each.a is None:
            return
        z = 1 + int(each.alpha[1:].argmin())
        delta, gram = float(each.alpha[z]), each.gram
        slopes = each.b - each.a @ self.w[each.place]
        gain = slopes - slopes[z] - 0.5 * delta * (gram.diagonal() + gram[z, z] - 2.0 * gram[z]) / self.problem.lam
        gain[z] = -np.inf
        y = int(gain.argmax())
        if gain[y] >= 0:
            alpha = each.alpha.copy()
            alpha[y] += delta
            alpha[z] = 0.0
            self._shift(each, alpha)
            each.settle()

    def _clipped(self, free: Vector, place: Index | slice) -> Vector:
        return free if self._low is None else np.where(self._low[place], np.maximum(free, 0.0), free)

    def _shift(self, each: Kept, alpha: Vector) -> None:
        """Take new multipliers of an example."""
        change, place = alpha - each.alpha, each.place
        free = self._free[place] + (change @ each.a) / self.problem.lam
        w = self._clipped(free, place)
        self._u[place] += 0.5 * self._visits * (self._visits + 1) * (w - self.w[place])
        self._free[place] = free
        self.w[place] = w
        self._lost += float(change @ each.b)
        each.alpha = alpha
