r"""Ascent over pools of labellings, a block of examples at a time: structural SVMs on wide sparse data, such as text,
and with slack scaling or the zero-one loss.

The dual restricted to pools of labellings found so far is, with columns a_j = e_i(y) df_i(y) and b_j = E_i(y),

    D(alpha) = b'alpha - 1/(2 lam) |A'alpha|^2,     alpha >= 0,     the sum over the pool of example i <= c_i,

and w = A'alpha / lam.

**A step** takes the examples of one block. With m = b - A w of their columns and their Gram matrix G = A A' / lam it
goes towards the best multipliers of the block while all others stay (block coordinate ascent),

    maximise over the block's simplices    m'(alpha' - alpha) - 1/2 (alpha' - alpha)'G(alpha' - alpha),

found by `GRADIENT_STEPS` accelerated projected gradient steps on numbers of the size of the pool alone (Beck, Teboulle
2009, restarted as O'Donoghue, Candes 2015), and then by the best step on the segment from alpha to alpha', so that D
never falls. Only the weights that occur in the block's columns are read and written. Columns are held as the product of
two sparse matrices (`PooledBlock`), since labellings that err at the same nodes share the features of these: on 1,500
sentences of CoNLL-2000 the two have 0.8 million numbers at a gap of 2e-2 where A has 2.7, and 1e-2 takes half the time.

**A round** goes through the blocks, first decoding each at the present w and adding its most violated labellings, as
block-coordinate Frank-Wolfe does (Lacoste-Julien and others 2013; pools of earlier labellings: Shah, Kolmogorov,
Lampert 2015, and Osokin and others 2016). Then come a number of cycles without decoding, each of two parts:
`CONJUGATE_STEPS` steps of conjugate gradients over all columns on the face of the present alpha (those that are 0 stay,
the sums at their ceilings too), and the best step towards the nearest point of the simplices to where they end (More,
Toraldo 1991); and once more through the blocks, which finds the next face. A labelling without weight is dropped in the
next round.

Memory: the nonzeros of the data and of both factors, twice, and the Gram matrices of the blocks. Measured on
CoNLL-2000 (8,936 sentences, 1,247,554 weights, C = 1, one thread of an Intel Xeon with AVX-512): 1e-2 after 103 s, 1e-3
after 240 s, 1,040 MiB of which 615 were there before. On its first 1,500 sentences 1e-2 after 23 s, with sweeps in
place of the conjugate gradients after 37. Handwriting (626 words) with slack scaling, to 1e-3: 4 and 5 s with C_mean 1
and 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Labels, Matrix, Point, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.mixtures import label_type, of_single_labellings
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.evaluation import Evaluation
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.example_blocks import ExampleBlock, example_blocks, starting_w
from convexstruct.graphs import ranges
from convexstruct.oracles.box.simplices import onto_groups
from convexstruct.rounding import UNIT

#: Examples of a block: more of them make better steps and larger Gram matrices.
BLOCK_EXAMPLES = 16
#: Accelerated gradient steps of one step of a block.
GRADIENT_STEPS = 12
#: Rounds in a row without a new labelling or a gain beyond rounding before the end.
IDLE_ROUNDS = 4
#: Blocks are used where the curvature of the hinges along some weight is above this, in units of lam (`wide`): the
#: square of a feature that occurs so often, times C, is. Seconds of the processor by blocks and by tempering, C = 1.
#: Generated text, to 1e-3: 4.8 and 2.1 where the most frequent feature occurs 480 times, 8.0 and 2.9 where 1,200 times.
#: CoNLL-2000, to 1e-2: 4.4 and 37 where it occurs 2,440 times (100 sentences), 12 and more than 45 where 7,189 times.
LEAST_CURVATURE = 2e3
#: Conjugate gradient steps of a cycle: many more leave the face.
CONJUGATE_STEPS = 20
#: There is one cycle more in the next round where more than this share of the gap is that of the restricted problem,
#: and one fewer where less is.
POOL_SHARE = 0.5


def compact(a: sp.csr_array) -> tuple[sp.csr_array, Index]:
    """(a without its empty columns, with 32 bits an index; the columns that stay)."""
    used, place = np.unique(a.indices, return_inverse=True)
    shape = a.shape[0], len(used)
    return sp.csr_array((a.data, place.astype(np.int32), a.indptr.astype(np.int32)), shape=shape), used


class Simplices:
    """alpha (m,) >= 0 whose sums over groups are at most ``limit`` (groups,); own (m,) : the group of each entry, all
    of a group in a row from ``start`` (groups,) on."""

    def __init__(self, owner: Index, ceiling: Vector) -> None:
        present, self.start, self.own = np.unique(owner, return_index=True, return_inverse=True)
        self.limit, self.ends = ceiling[present], np.append(self.start, len(owner))

    def nearest(self, alpha: Vector) -> Vector:
        """The nearest point of them."""
        return onto_groups(alpha, self.ends, self.own, True, self.limit)[0]

    def along(self, alpha: Vector) -> Callable[[Vector], Vector]:
        """The projection of directions (m,) on those that leave the face of ``alpha``: entries of 0 and sums at the
        limit, but for rounding, stay."""
        free = alpha > 0
        many = np.maximum(np.add.reduceat(free.astype(np.float64), self.start), 1.0)
        share = (np.add.reduceat(alpha, self.start) >= self.limit * (1.0 - 1e-9)) / many

        def project(direction: Vector) -> Vector:
            inside = np.where(free, direction, 0.0)
            return np.where(free, inside - (np.add.reduceat(inside, self.start) * share)[self.own], 0.0)

        return project


def best_share(gain: float, bent: float) -> float:
    """The maximiser of t gain - t^2 bent / 2 over 0 <= t <= 1."""
    return 0.0 if not gain > 0 else 1.0 if gain >= bent else gain / bent


class PooledBlock:
    """The pools of a block of examples: labels, owner (m,) non-decreasing, b, alpha (m,), and the columns in parts.

    A part is a label at a node, in the order of the nodes, or one edge weight. ``parts`` (m, p S + d_edge) has how
    often the truth has each part, less how often the labelling has it, times e_i(y). Then A = parts @ X with the
    features of each part in the rows of X (`_features`). A labelling has two numbers in ``parts`` where it errs at a
    node, and twice as many in A as the node has features; labellings that err alike share the rows of X.
    """

    def __init__(self, block: ExampleBlock[StructuredSVM]) -> None:
        self.block, self.lam = block, block.whole.lam
        features = block.part.features
        rows = sp.csr_array(features.node_features)
        self.columns, place = np.unique(rows.indices, return_inverse=True)
        self.rows = sp.csr_array((rows.data, place, rows.indptr), shape=(rows.shape[0], len(self.columns)))
        self.kind = label_type(features.n_labels)
        self.pools: list[list[bytes]] = [[] for _ in block.examples]
        self.owner = np.zeros(0, dtype=np.intp)
        self.labels: list[bytes] = []
        n_edge = block.part.dimension - features.n_node_weights
        self.parts = sp.csr_array((0, features.n_nodes * features.n_labels + n_edge))
        self.b, self.alpha = np.zeros(0), np.zeros(0)
        self.true_edges = features.edges_each(features.truth, np.arange(features.n_examples))
        self.gram: Matrix = np.zeros((0, 0))
        self.row = np.zeros(0, dtype=np.intp)  # of each labelling in ``gram``, -1 for new ones
        self.stale = True

    def renew(self, w: Vector, seen: Evaluation | None) -> int:
        """Drop the labellings without weight; add those of ``seen``, the most violated ones
        of all examples at an earlier w, and the block's own at w (d,). Returns how many were added."""
        kept = np.flatnonzero(self.alpha > 0)
        if len(kept) < len(self.alpha):
            for j in np.flatnonzero(~(self.alpha > 0)):
                self.pools[self.owner[j]].remove(self.labels[j])
            self._take(kept, self.parts, self.b, self.owner, self.alpha)
        part = self.block.part
        features = part.features
        table = w[: features.n_node_weights].reshape(features.n_labels, -1)[:, self.columns]
        edge = features.edge_scores(w[: features.dimension])
        found = [part.violated(np.asarray(self.rows @ table.T), edge, np.zeros(0))]
        here, at = self.block.examples, self.block.nodes
        wanted = [(found[0].labels, found[0].violation > 0)]
        if seen is not None:
            wanted.append((seen.labels[at], seen.violation[here] > 0))
        return self.add(wanted)

    def add(self, found: list[tuple[Labels, Flags]], shares: Vector | None = None) -> int:
        """Add those of the labellings (p,) that are wanted (n,) and not there yet; returns how many they are.
        shares (n,) : the weights that they begin with, in units of the ceiling; 0 by default."""
        new, labels, losses = [], [], []
        for flat, wanted in found:
            loss = self.block.part.loss.of(flat)
            parts = self.block.split(flat)
            for i in np.flatnonzero(wanted).tolist():
                key = parts[i].astype(self.kind).tobytes()
                if key not in self.pools[i]:
                    self.pools[i].append(key)
                    self.labels.append(key)
                    new.append(i)
                    labels.append(parts[i])
                    losses.append(loss[i])
        if new:
            owner, b = np.array(new, dtype=np.intp), np.array(losses)
            parts = self._parts(np.concatenate(labels), owner)
            if self.block.whole.scaling == "slack":
                parts = sp.csr_array(parts.multiply(b[:, None]))
            alpha = np.zeros(len(new)) if shares is None else (shares * self.block.ceiling)[new]
            self._take(
                np.argsort(np.concatenate((self.owner, owner)), kind="stable"),
                sp.csr_array(sp.vstack((self.parts, parts))), np.concatenate((self.b, b)),
                np.concatenate((self.owner, owner)), np.concatenate((self.alpha, alpha)),
            )  # fmt: skip
        return len(new)

    def _parts(self, labels: Labels, examples: Index) -> sp.csr_array:
        """The parts of the truth less those of ``labels``, the labellings of ``examples`` (m,) one after the other."""
        features = self.block.part.features
        nodes, begin = ranges(features.node_start, examples)
        truth = features.truth[nodes]
        wrong = np.flatnonzero(labels != truth)
        at = nodes[wrong] * features.n_labels
        place = np.stack((at + truth[wrong], at + labels[wrong]), axis=1).ravel()
        sign = np.tile((1.0, -1.0), len(wrong))
        end = 2 * np.searchsorted(wrong, begin)
        marked = sp.csr_array((sign, place, end), shape=(len(examples), features.n_nodes * features.n_labels))
        edges = self.true_edges[examples] - features.edges_each(labels, examples)
        return sp.csr_array(sp.hstack((marked, edges)))

    def _take(self, order: Index, parts: sp.csr_array, b: Vector, owner: Index, alpha: Vector) -> None:
        self.row = np.append(self.row, np.full(len(b) - len(self.row), -1))[order]
        self.parts, self.b, self.owner, self.alpha = parts[order], b[order], owner[order], alpha[order]
        self.labels = [self.labels[j] for j in order]
        self.stale = True

    def _features(self, present: Index) -> sp.csr_array:
        """What each of the parts ``present`` (k,) adds to a: the features of its node at the weights of its label, or 1
        at its edge weight; sparse (k, d)."""
        features, width = self.block.part.features, self.block.part.features.n_node_features
        at_nodes = present[: np.searchsorted(present, features.n_nodes * features.n_labels)]
        node, label = np.divmod(at_nodes, features.n_labels)
        x = self.rows[node]
        place = self.columns[x.indices] + np.repeat(label * width, np.diff(x.indptr))
        edge = present[len(at_nodes) :] + (features.n_node_weights - features.n_nodes * features.n_labels)
        end = np.concatenate((x.indptr, x.indptr[-1] + np.arange(1, len(edge) + 1)))
        data = np.concatenate((x.data, np.ones(len(edge))))
        return sp.csr_array(
            (data, np.concatenate((place, edge)), end), shape=(len(present), self.block.whole.dimension)
        )

    def prepare(self) -> None:
        """What the steps need of the columns: their weights, Gram matrix and its largest eigenvalue, nearly."""
        if not self.stale:
            return
        self.local, present = compact(self.parts)
        self.features, self.used = compact(self._features(present))
        self.local_t, self.features_t = self.local.T, self.features.T
        old, new = np.flatnonzero(self.row >= 0), np.flatnonzero(self.row < 0)
        gram = np.empty((len(self.b), len(self.b)))
        gram[np.ix_(old, old)] = self.gram[np.ix_(self.row[old], self.row[old])]
        a = (self.local[new] @ self.features).toarray()
        gram[:, new] = self.local @ (self.features @ a.T) / self.lam
        gram[new] = gram[:, new].T
        self.gram, self.row = gram, np.arange(len(self.b))
        self.simplices = Simplices(self.owner, self.block.ceiling)
        top = 1.0 + 0.5 * np.cos(np.arange(len(self.b)))  # not 1: columns of opposite examples sum to 0
        for _ in range(8):
            top = self.gram @ top
            top /= max(float(np.linalg.norm(top)), 1e-300)
        # below the second number D is linear on the simplices, but for rounding: columns without features, say
        linear = UNIT * float(self.b.max(initial=0.0)) / float(self.simplices.limit.max(initial=UNIT))
        self.largest = max(1.1 * float(top @ (self.gram @ top)), linear)
        self.stale = False

    def step(self, w: Vector) -> float:
        """One step at w (d,), which is changed; returns the gain of D."""
        self.prepare()
        if not (len(self.b) and self.largest > 0):
            return 0.0
        alpha, rise = self.alpha, self.b - self.along(w)
        now = ahead = alpha
        momentum, slope = 1.0, rise
        for _ in range(GRADIENT_STEPS):
            new = self.simplices.nearest(ahead + slope / self.largest)
            moved = new - now
            if float((ahead - new) @ moved) > 0:
                momentum, ahead = 1.0, new
            else:
                after = 0.5 + 0.5 * np.sqrt(1.0 + 4.0 * momentum * momentum)
                momentum, ahead = after, new + ((momentum - 1.0) / after) * moved
            now = new
            slope = rise - self.gram @ (ahead - alpha)
        by = now - alpha
        change = self.sum(by) / self.lam
        gain, bent = float(rise @ by), self.lam * float(change @ change)
        size = best_share(gain, bent)
        if not size > 0:
            return 0.0
        self.alpha = alpha + size * by
        change *= size
        w[self.used] += change
        return size * gain - 0.5 * size * size * bent

    def along(self, w: Vector) -> Vector:
        """a_j'w (m,)."""
        return np.asarray(self.local @ (self.features @ w[self.used]))

    def sum(self, alpha: Vector) -> Vector:
        """A'alpha at the weights ``used``."""
        return np.asarray(self.features_t @ (self.local_t @ alpha))

    def hinge(self, w: Vector) -> float:
        """sum_i c_i max over the pool of b_j - a_j'w, at least 0."""
        self.prepare()
        if not len(self.b):
            return 0.0
        most = np.maximum.reduceat(self.b - self.along(w), self.simplices.start)
        return float(self.simplices.limit @ np.maximum(most, 0.0))


class _Run:
    """All blocks, and w = A'alpha / lam."""

    def __init__(self, problem: StructuredSVM, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng
        self.blocks = [PooledBlock(block) for block in example_blocks(problem, BLOCK_EXAMPLES, rng)]
        self.w = np.zeros(problem.dimension)
        self.seen: Evaluation | None = None

    def adopt(self, start: Solution) -> None:
        """Begin with the labellings of an earlier solution's dual witness, and their shares."""
        witness = start.dual_point or {}
        rows, shares = witness.get("labels", ()), witness.get("label_shares", ())
        total = np.maximum(np.maximum(shares, 0.0).sum(axis=0), 1.0) if len(rows) else 1.0
        for labels, share in zip(rows, shares):
            for block in self.blocks:
                one = (np.maximum(share, 0.0) / total)[block.block.examples]
                block.add([(labels[block.block.nodes].astype(np.int64), one > 0)], one)
        self.seen = self.problem.most_violated(starting_w(self.problem, start))
        self.refresh()

    def refresh(self) -> None:
        """w anew from the multipliers, without the rounding of the changes."""
        self.w[:] = 0.0
        for block in self.blocks:
            block.prepare()
            self.w[block.used] += block.sum(block.alpha) / self.problem.lam

    @property
    def bound(self) -> float:
        """D(alpha)."""
        rise = sum(float(block.b @ block.alpha) for block in self.blocks)
        return rise - 0.5 * self.problem.lam * float(self.w @ self.w)

    def sweep(self, decode: bool) -> int:
        """One step of each block; returns how many labellings were new."""
        new = 0
        for at in self.rng.permutation(len(self.blocks)):
            deadline.check()
            if decode:
                new += self.blocks[at].renew(self.w, self.seen)
            self.blocks[at].step(self.w)
        return new

    def cycles(self, n: int) -> None:
        """Conjugate gradients and a sweep without decoding, n times."""
        blocks, lam = self.blocks, self.problem.lam
        for block in blocks:
            block.prepare()
        b = np.concatenate([block.b for block in blocks])
        cuts = np.cumsum([len(block.b) for block in blocks])[:-1]
        owner = np.concatenate([block.owner + k * BLOCK_EXAMPLES for k, block in enumerate(blocks)])
        ceiling = np.concatenate([block.block.ceiling for block in blocks])
        simplices = Simplices(owner, ceiling)
        place = np.zeros(len(self.w), dtype=np.int32)
        for block in blocks:
            place[block.used] = 1
        used = np.flatnonzero(place)
        place[used] = np.arange(len(used))
        parts = sp.block_diag([block.local for block in blocks], format="csr")
        rows = [
            sp.csr_array((x.data, place[block.used][x.indices], x.indptr), shape=(x.shape[0], len(used)))
            for block in blocks
            for x in [block.features]
        ]
        features = sp.csr_array(sp.vstack(rows))
        for _ in range(n if len(b) else 0):
            deadline.check()
            alpha, rise = np.concatenate([block.alpha for block in blocks]), b - parts @ (features @ self.w[used])
            along = simplices.along(alpha)
            left = way = along(rise)
            far, size = alpha, float(left @ left)
            for _ in range(CONJUGATE_STEPS):
                bend = features.T @ (parts.T @ way)
                bent = float(bend @ bend) / lam
                if not (size > 0 and bent > 0):  # the square of what is left may underflow
                    break
                far = far + (size / bent) * way
                left = left - along(parts @ (features @ bend)) * (size / bent / lam)
                before, size = size, float(left @ left)
                way = left + (size / before) * way
            by = simplices.nearest(far) - alpha
            change = np.asarray(features.T @ (parts.T @ by)) / lam
            share = best_share(float(rise @ by), lam * float(change @ change))
            if share > 0:
                self.w[used] += share * change
                for block, own in zip(blocks, np.split(alpha + share * by, cuts)):
                    block.alpha = own
            self.sweep(decode=False)

    def witness(self) -> Callable[[], Point]:
        """A function that makes the dual witness of the present multipliers."""
        start, kind = self.problem.features.node_start, label_type(self.problem.features.n_labels)
        kept = [(int(block.block.examples[i]), key, share)
            for block in self.blocks
            for i, key, share in zip(block.owner, block.labels, block.alpha / block.block.ceiling[block.owner])
            if share > 0
        ]  # fmt: skip
        truth = self.problem.features.truth.astype(kind)

        def made() -> Point:
            each = sorted(kept, key=lambda one: one[0])
            labels = [np.frombuffer(key, dtype=kind) for _, key, _ in each]
            examples = np.array([i for i, _, _ in each], dtype=np.intp)
            return of_single_labellings(truth, start, labels, examples, np.array([share for _, _, share in each]))

        return made


def wide(problem: StructuredSVM) -> bool:
    """Whether features are sparse, weights more than nodes, so that a column has few of all weights and few of
    another's, and a feature so frequent that the curvature of the hinges along it, sum_v c x_v^2 over lam, is above
    `LEAST_CURVATURE`."""
    features = problem.features
    x = features.node_features
    if not (sp.issparse(x) and problem.dimension > features.n_nodes):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        squares = sp.csr_array((x.data**2, x.indices, x.indptr), shape=x.shape)
        curvature = squares.T @ problem.ceiling[features.example]
    return float(curvature.max(initial=0.0)) > LEAST_CURVATURE * problem.lam


def pooled_blocks(problem: StructuredSVM, start: Solution | None, seed: int) -> Iterator[Iterate]:
    """One iterate a round: w and the multipliers. ``start`` gives the first iterate and first labellings."""
    run = _Run(problem, np.random.default_rng(seed))
    if start is not None:
        run.adopt(start)
        assert run.seen is not None
        yield Iterate({"w": starting_w(problem, start)}, run.witness(), run.seen.value, run.bound, 1)
    n, calls, rest = 1, 0, 0
    while True:
        before = run.bound
        new = run.sweep(decode=True)
        run.cycles(n)
        run.refresh()
        w = run.w.copy()
        bound, found = run.bound, problem.most_violated(w)
        run.seen = found
        calls += 2
        pool = 0.5 * problem.lam * float(w @ w) + sum(block.hinge(w) for block in run.blocks)
        # P still falls where D gains next to nothing: the end is where rounding hides all that it gains
        rest = rest + 1 if new == 0 and bound - before <= 4 * UNIT * bound else 0
        yield Iterate({"w": w}, run.witness(), found.value, bound, calls, done=rest == IDLE_ROUNDS)
        if rest == IDLE_ROUNDS:
            return
        within = pool - bound > POOL_SHARE * (found.value - bound)
        n = n + 1 if within else max(1, n - 1)
