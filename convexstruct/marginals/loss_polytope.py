r"""Flows over (state, loss so far): the rows of a slack that the loss rescales, polynomially many, none written out.

Multipliers gamma_k(s) = b_k(s) beta_k(s) >= 0 of the labellings s of a chain, by their shares of gamma on each edge and
of each loss so far. A unit of gamma adds counts_k(s) - counts_k(s*) to mu and 1 to omega; in sum_s beta_k(s) it stands
as 1 / b_k(s), which is read off the flow where it ends, at (last state, b). Labellings without loss have no row: the
flow that ends at a loss of 0 is left out. For S states and L values of the loss a step has S^2 L variables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.rescaled import LossRescaled
from convexstruct.marginals.decomposition import greedy_mixture
from convexstruct.marginals.polytope import LocalPolytope
from convexstruct.marginals.tree_tables import Columns
from convexstruct.marginals.triplets import Triplets
from convexstruct.validation.arguments import sentence


@dataclass(frozen=True, eq=False)
class LossPolytope:
    """Flows z >= 0 of free size.

    polytope : equality z = rhs, where the first K rows are the flows' sizes, and 0 on the right of the others; counts
        and loss, weighted, with which mu = counts z - sum_k w_k size_k counts_k(s*) and omega = loss'z.
    ends : sparse (K, n), 1 / b where a flow ends: ends z are the masses 1'beta_k.
    kinds : a label of the polytope's columns is state * kinds + the number of the loss so far.
    """

    polytope: LocalPolytope
    ends: sp.csr_array
    kinds: int

    def mixture(self, features: LossRescaled, z: Vector) -> tuple[Labels, Matrix]:
        """(labels (m, P), beta (m, K)): labellings whose multipliers beta have the flow z."""
        k, truth, of = len(features.examples), features.examples.truth, self.polytope.columns
        size = np.maximum(self.polytope.equality[:k] @ z, 0.0)
        each = z / np.where(size > 0, size, 1.0)[of.example]
        codes, shares = greedy_mixture(of, each, truth * self.kinds)
        labels = codes // self.kinds
        loss = np.array([features.loss(row) for row in labels])
        return labels, np.where(loss > 0, shares * size / np.where(loss > 0, loss, 1.0), 0.0)


def loss_polytope(features: LossRescaled) -> LossPolytope:
    """The flows of all examples, chains alone. ValueError for another kind of feature map."""
    plain = features.features
    if not isinstance(plain, HMMCounts):
        raise sentence(
            f"features is a {type(plain).__name__}, wanted HMMCounts: the flow over the loss is stated for chains; the "
            f"formulations primal, entropy_dual and n_slack take others"
        )
    layout, free, truth = plain.chains, plain.examples.free, plain.examples.truth
    steps, values = features.numbered.steps, features.numbered.values
    kinds = values.shape[1]
    equality, counts, ends = Triplets(), Triplets(), Triplets()
    example, step, position, label, loss = [], [], [], [], []
    n, rows = 0, layout.n_chains
    for k, (first, length) in enumerate(zip(layout.first, layout.lengths)):
        weight, ending = float(plain.weights[k]), values[min(k, len(values) - 1)]
        nodes: Index = np.zeros(0, dtype=np.int64)  # (state, loss so far) before, as one number
        row_of: Index = np.zeros(0, dtype=np.intp)
        for t in range(int(length)):
            at = int(first + t)
            packed = int(layout.flat[at])
            states = np.arange(plain.n_states) if free[at] else truth[at : at + 1]
            arrived = states * kinds + steps[packed, states]
            if t == 0 and length > 1:
                nodes = arrived
                continue
            if t == 0:
                old, new, opening = arrived, arrived, False
            else:
                old, new = np.repeat(nodes, len(states)), (nodes[:, None] % kinds + arrived).ravel()
                opening = t == 1
            last = t == length - 1
            kept = new % kinds > 0 if last else np.ones(len(new), dtype=bool)
            old, new = old[kept], new[kept]
            column = n + np.arange(len(new))
            n += len(new)
            example.append(np.full(len(new), k))
            step.append(np.full(len(new), max(t - 1, 0)))
            position.append(np.tile((at - (t > 0), at), (len(new), 1)))
            label.append(np.stack((old, new), axis=1))
            loss.append(np.full(len(new), weight * (t <= 1)))
            # what each adds to the counts
            emitted = _entries(plain, packed, new // kinds)
            used = [new // kinds, *emitted] if t == 0 else [_transition(plain, old // kinds, new // kinds), *emitted]
            if opening:
                used += [old // kinds, *_entries(plain, int(layout.flat[at - 1]), old // kinds)]
            for entries in used:
                counts.add(entries, column, weight)
            # conservation of what arrived before, and of what leaves now
            if t <= 1:
                equality.add(np.full(len(new), k), column, 1.0)
            else:
                equality.add(row_of[np.searchsorted(nodes, old)], column, -1.0)
            if last:
                ends.add(np.full(len(new), k), column, 1.0 / ending[new % kinds])
                continue
            nodes = np.unique(new)
            row_of = rows + np.arange(len(nodes))
            rows += len(nodes)
            equality.add(row_of[np.searchsorted(nodes, new)], column, 1.0)
    of = Columns(*(np.concatenate(each) for each in (example, step, position, label)))
    polytope = LocalPolytope(
        equality.matrix((rows, n)), np.zeros(rows), counts.matrix((plain.tables.dimension, n)),
        np.concatenate(loss), of,
    )  # fmt: skip
    return LossPolytope(polytope, ends.matrix((layout.n_chains, n)), kinds)


def _transition(plain: HMMCounts, old: Labels, new: Labels) -> Labels:
    return np.asarray(plain.n_states + old * plain.n_states + new)


def _entries(plain: HMMCounts, packed: int, states: Labels) -> list[Labels]:
    """The emissions of a position in each of ``states``, one array a channel."""
    s, m = plain.n_states, plain.n_symbols
    return [s + s * s + (o * s + states) * m + symbol for o, symbol in enumerate(plain.channels[packed])]
