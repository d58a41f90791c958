r"""Ascent over pools of labellings, an example at a time: structural SVMs on wide sparse data, such as text, and with
slack scaling or the zero-one loss.

The dual restricted to pools of labellings found so far is, with columns a_j = e_i(y) df_i(y) and b_j = E_i(y),

    D(alpha) = b'alpha - 1/(2 lam) |A'alpha|^2,     alpha >= 0,     the sum over the pool of example i = c_i,

where the pool holds the truth, a = 0 and b = 0; w = A'alpha / lam.

**A step** changes two multipliers of an example. With the slopes g = b - A w, y the largest of its pool and z the
smallest with alpha_z > 0,

    delta = min( alpha_z,  lam (g_y - g_z) / |a_y - a_z|^2 ),    alpha_y += delta,   alpha_z -= delta,

the best on its segment, so that D never falls; steps go on until `INNER_SHARE` of the example's gap is left. The slopes
change by the Gram matrix of the pool, so that w is read once and written once an example, at the entries that its
columns have; these are kept by node and label, not by feature (`example_pools`).

**A round** goes through the examples, first decoding a batch of them at the present w and adding the most violated
labellings, as block-coordinate Frank-Wolfe does (Lacoste-Julien and others 2013; pools of earlier labellings: Shah,
Kolmogorov, Lampert 2015, and Osokin and others 2016). Then come a number of cycles without decoding, each of two parts:
`CONJUGATE_STEPS` steps of conjugate gradients over all columns on the face of the present alpha (those that are 0 stay,
the sums stay), and the best step towards the nearest point of the simplices to where they end (More, Toraldo 1991); and
once more through the examples, which finds the next face. A labelling without multiplier is dropped in the next round.

Memory: the nonzeros of the data, and the numbers that the columns have for nodes, labels and edges, each a few times,
and the Gram matrices of the examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Labels, Point, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.mixtures import label_type, of_single_labellings
from convexstruct.families.structured_svm.evaluation import Evaluation
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.column_generation.example_pools import Batch, ColumnMaps, ExamplePool
from convexstruct.oracles.box.simplices import onto_groups
from convexstruct.rounding import EPS, UNIT

#: Examples decoded at the same w: an oracle over 32 examples costs little more than over one.
BATCH = 32
#: Steps of an example end once its gap over the pool is at most this share of its gap before, or after so many steps:
#: what is left depends on the w that the other examples have yet to move.
INNER_SHARE, MOST_STEPS = 0.3, 50
#: Conjugate gradient steps of a cycle: many more leave the face.
CONJUGATE_STEPS = 20
#: There is one cycle more in the next round where more than this share of the gap is that of the restricted problem,
#: and one fewer where less is.
POOL_SHARE = 0.5
#: Rounds in a row without a new labelling or a gain beyond rounding before the end.
IDLE_ROUNDS = 4


class Ascent:
    """The pools of all examples, and w = A'alpha / lam."""

    def __init__(self, problem: StructuredSVM, rng: np.random.Generator) -> None:
        self.problem, self.rng, features = problem, rng, problem.features
        self.truth = features.truth.astype(label_type(features.n_labels))
        parts = np.split(self.truth, features.node_start[1:-1])
        self.w, self.maps = np.zeros(problem.dimension), ColumnMaps(problem)
        sparse = self.maps.sparse
        self.pools = [ExamplePool(y.tobytes(), float(c), sparse) for y, c in zip(parts, problem.ceiling)]
        order = rng.permutation(problem.n_examples)
        # of about the same length, so that a batched recursion has no more steps than it needs
        order = order[np.argsort(features.lengths[order], kind="stable")]
        self.batches = [
            Batch.of(problem, order[low : low + BATCH].astype(np.intp)) for low in range(0, len(order), BATCH)
        ]

    def adopt(self, witness: Point) -> None:
        """Begin with the labellings of a dual witness, and their shares."""
        rows, shares = witness.get("labels", ()), np.maximum(witness.get("label_shares", ()), 0.0)
        total = np.maximum(shares.sum(axis=0), 1.0) if len(rows) else 1.0
        for labels, share in zip(rows, shares):
            for batch in self.batches:
                self.add(batch, [labels[batch.nodes]], [(share / total)[batch.examples]])
        self.refresh()

    def add(self, batch: Batch, found: list[Labels], wanted: list[Vector | Flags]) -> int:
        """Add those of the labellings (p,) of a batch that are not there yet, where ``wanted`` (n,) is above 0: with
        such a share of the truth's multiplier, if ``wanted`` are numbers. Returns how many were new."""
        owner: list[int] = []
        keys: list[bytes] = []
        shares: list[float] = []
        for flat, share in zip(found, wanted):
            parts = batch.split(flat.astype(self.truth.dtype))
            for j in np.flatnonzero(share > 0).tolist():
                key = parts[j].tobytes()
                if key not in self.pools[batch.examples[j]].labels and (j, key) not in set(zip(owner, keys)):
                    owner.append(j)
                    keys.append(key)
                    shares.append(0.0 if share.dtype == bool else float(share[j]))
        if not owner:
            return 0
        order = np.argsort(owner, kind="stable")
        at, keys = np.array(owner, dtype=np.intp)[order], [keys[j] for j in order]
        columns, lost = self.maps.columns(batch.examples[at], [np.frombuffer(key, self.truth.dtype) for key in keys])
        cuts = np.flatnonzero(np.diff(at, prepend=-1, append=len(batch.examples)))
        for low, high in pairwise(cuts):
            pool = self.pools[batch.examples[at[low]]]
            pool.extend(keys[low:high], columns[low:high], lost[low:high], self.maps)
            share = np.array(shares)[order[low:high]] * pool.ceiling
            pool.alpha[-len(share) :] += share
            pool.alpha[0] = max(pool.alpha[0] - float(share.sum()), 0.0)
        return len(keys)

    def refresh(self) -> None:
        """w anew from the multipliers, without the rounding of the changes."""
        self.w[:] = 0.0
        for pool in self.pools:
            pool.move(self.w, (pool.alpha @ pool.a) / self.problem.lam)

    @property
    def bound(self) -> float:
        """D(alpha)."""
        rise = sum(float(pool.b @ pool.alpha) for pool in self.pools)
        return rise - 0.5 * self.problem.lam * float(self.w @ self.w)

    @property
    def hinges(self) -> float:
        """sum_i c_i max over the pool of b_j - a_j'w."""
        return sum(pool.ceiling * float(pool.slopes(self.w).max()) for pool in self.pools)

    def decode(self, seen: Evaluation | None) -> int:
        """Visit all examples, batch after batch: drop labellings without multiplier, add those of ``seen`` (of all
        examples, at an earlier w) and the most violated ones now, and step. Returns how many were new."""
        new = 0
        for at in self.rng.permutation(len(self.batches)):
            deadline.check()
            batch = self.batches[at]
            for i in batch.examples:
                self.pools[i].settle()
            now = batch.part.most_violated(batch.own(self.w, self.problem.features.n_node_features))
            found, wanted = [now.labels], [now.violation > 0]
            if seen is not None:
                found.append(seen.labels[batch.nodes])
                wanted.append(seen.violation[batch.examples] > 0)
            new += self.add(batch, found, wanted)
            self.sweep(batch.examples)
        return new

    def sweep(self, examples: Index) -> None:
        """Steps of some examples, one after the other in random order."""
        for i in self.rng.permutation(examples).tolist():
            self.step(self.pools[i])

    def step(self, pool: ExamplePool) -> None:
        """Steps of one example; w and its multipliers change."""
        if len(pool.b) < 2:
            return
        slopes = pool.slopes(self.w)
        alpha, gram, lam = pool.alpha.copy(), pool.gram, self.problem.lam
        gap = now = max(pool.ceiling * float(slopes.max()) - float(alpha @ slopes), 0.0)
        for steps in range(MOST_STEPS):
            y, z = int(slopes.argmax()), int(np.where(alpha > 0, slopes, np.inf).argmin())
            top, least, most = float(slopes[y]), float(slopes[z]), float(alpha[z])
            rise = top - least
            if rise <= EPS * (abs(top) + abs(least)) or (steps and now <= INNER_SHARE * gap):
                break
            row = (gram[y] - gram[z]) / lam
            curvature = float(row[y] - row[z])
            delta = most if rise >= most * curvature else rise / curvature
            alpha[y] += delta
            alpha[z] -= delta
            slopes -= delta * row
            now = pool.ceiling * float(slopes.max()) - float(alpha @ slopes)
        pool.move(self.w, ((alpha - pool.alpha) @ pool.a) / lam)
        pool.alpha = alpha

    def cycles(self, n: int) -> None:
        """Conjugate gradients and a sweep without decoding, n times."""
        pools = [pool for pool in self.pools if len(pool.b) > 1]
        if not pools:
            return
        sizes = np.array([len(pool.b) for pool in pools])
        ends, group = np.cumsum([0, *sizes]), np.repeat(np.arange(len(pools)), sizes)
        ceiling, b = np.array([pool.ceiling for pool in pools]), np.concatenate([pool.b for pool in pools])
        columns, used = _Columns.of(pools, self.problem.dimension)
        for _ in range(n):
            deadline.check()
            alpha, w = np.concatenate([pool.alpha for pool in pools]), self.w[used]
            rise = b - columns @ w
            far = alpha + self._along(columns, alpha, rise, group, ends)
            by = onto_groups(far, ends, group, False, ceiling)[0] - alpha
            change = columns.summed(by) / self.problem.lam
            gain, bent = float(rise @ by), self.problem.lam * float(change @ change)
            share = 0.0 if not gain > 0 else 1.0 if gain >= bent else gain / bent
            if share > 0:
                self.w[used] += share * change
                for pool, own in zip(pools, np.split(np.maximum(alpha + share * by, 0.0), ends[1:-1])):
                    pool.alpha = own
            self.sweep(np.arange(len(self.pools)))

    def _along(self, columns: _Columns, alpha: Vector, rise: Vector, group: Index, ends: Index) -> Vector:
        """Where conjugate gradients lead from alpha (m,) with the slopes ``rise``, as a change (m,), if multipliers of
        0 stay 0 and sums stay."""
        free = alpha > 0
        many = np.maximum(np.add.reduceat(free.astype(np.float64), ends[:-1]), 1.0)

        def along(direction: Vector) -> Vector:
            inside = np.where(free, direction, 0.0)
            return np.where(free, inside - (np.add.reduceat(inside, ends[:-1]) / many)[group], 0.0)

        change, left = np.zeros(len(alpha)), along(rise)
        way, size = left, float(left @ left)
        for _ in range(CONJUGATE_STEPS):
            bend = columns.summed(way)
            bent = float(bend @ bend) / self.problem.lam
            if not (size > 0 and bent > 0):  # the square of what is left may underflow
                break
            change = change + (size / bent) * way
            left = left - along(columns @ bend) * (size / bent / self.problem.lam)
            before, size = size, float(left @ left)
            way = left + (size / before) * way
        return change

    def witness(self) -> Callable[[], Point]:
        """A function that makes the dual witness of the present multipliers."""
        kept = [(pool.labels[1:], pool.alpha[1:] / pool.ceiling) for pool in self.pools]
        truth, start = self.truth, self.problem.features.node_start

        def made() -> Point:
            example = np.repeat(np.arange(len(kept)), [len(labels) for labels, _ in kept])
            every = [np.frombuffer(y, truth.dtype) for labels, _ in kept for y in labels]
            return of_single_labellings(truth, start, every, example, np.concatenate([share for _, share in kept]))

        return made


class _Columns(NamedTuple):
    """The columns A (M, k) of all pools, one after the other, over the weights that any of them has, as a product:
    their numbers by cell (M, Q) and B (Q, k), or of dense features A alone; and its transposes, which copy nothing."""

    factors: list[sp.csr_array]
    transposed: list[sp.csc_array]

    @classmethod
    def of(cls, pools: list[ExamplePool], dimension: int) -> tuple[_Columns, Index]:
        """These, and the weights (k,)."""
        where = np.zeros(dimension, dtype=np.int32)
        for pool in pools:
            where[pool.place] = 1
        used = np.flatnonzero(where)
        where[used] = np.arange(len(used), dtype=np.int32)
        place, counts = (np.concatenate(each) for each in zip(*((where[pool.place], pool.counts) for pool in pools)))
        value = np.concatenate([np.broadcast_to(pool.value, pool.place.shape) for pool in pools])
        b = sp.csr_array((value, place, _ends(counts)), shape=(len(counts), len(used)))
        there = [pool.a.nonzero() for pool in pools]
        begin = np.cumsum([0, *(len(pool.cells) for pool in pools)])
        cells = np.concatenate([column + first for (_, column), first in zip(there, begin)]).astype(np.int32)
        numbers = np.concatenate([pool.a[at] for pool, at in zip(pools, there)])
        each = np.concatenate([np.bincount(row, minlength=len(pool.b)) for pool, (row, _) in zip(pools, there)])
        a = sp.csr_array((numbers, cells, _ends(each)), shape=(len(each), len(counts)))
        if pools[0].sparse:
            factors = [a, b]
        else:  # a cell is a weight
            factors = [sp.csr_array((numbers, place[cells], a.indptr), shape=(len(each), len(used)))]
        return cls(factors, [factor.T for factor in factors]), used

    def __matmul__(self, w: Vector) -> Vector:
        """A w."""
        for factor in reversed(self.factors):
            w = factor @ w
        return w

    def summed(self, alpha: Vector) -> Vector:
        """A' alpha."""
        for factor in self.transposed:
            alpha = factor @ alpha
        return alpha


def _ends(counts: Index) -> Index:
    return np.append(0, np.cumsum(counts)).astype(np.int32)


def ascend(run: Ascent, w: Vector, shown: bool) -> Iterator[Iterate]:
    """One iterate a round: w and the multipliers. The most violated labellings at ``w`` are among the first;
    ``shown``: it is the first iterate."""
    problem = run.problem
    seen: Evaluation | None = problem.most_violated(w) if w.any() or shown else None
    if seen is not None and shown:
        yield Iterate({"w": w}, run.witness(), seen.value, run.bound, 1)
    n, calls, rest = 1, 0, 0
    while True:
        before = run.bound
        new = run.decode(seen)
        run.cycles(n)
        run.refresh()
        w, bound, seen = run.w.copy(), run.bound, problem.most_violated(run.w)
        calls += 2
        pool = 0.5 * problem.lam * float(w @ w) + run.hinges
        # P still falls where D gains next to nothing: the end is where rounding hides all that it gains
        rest = rest + 1 if new == 0 and bound - before <= 4 * UNIT * bound else 0
        yield Iterate({"w": w}, run.witness(), seen.value, bound, calls, done=rest == IDLE_ROUNDS)
        if rest == IDLE_ROUNDS:
            return
        n = n + 1 if pool - bound > POOL_SHARE * (seen.value - bound) else max(1, n - 1)
