"""The local marginal polytope of the hidden variables: polynomially many marginals in place of all labellings.

On a chain, and on any junction tree, it is exact: its vertices are the labellings, so a linear function of the counts
has the same maximum over both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from convexstruct.features.counts import Counts
from convexstruct.features.hmm import HMMCounts
from convexstruct.graphs import Index

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LocalPolytope:
    """{z >= 0, equality z = rhs}: for each example, marginals of its edges or cliques that fit together.

    Every example's z carries one distribution (its first edge's or clique's marginals sum to 1) and neighbouring
    marginals agree on what they share. Then

        sum_k w_k E counts_k = counts z,      sum_k w_k E loss_k = loss' z;

    the example weights w_k stand in ``counts`` and ``loss``, not in z.

    Attributes
    ----------
    equality : sparse (m, n). rhs : (m,); the first K rows are the distributions' sums, with 1 on the right.
    counts : sparse (d, n), weighted. loss : (n,), weighted.
    example : (n,), non-decreasing; the example of each variable.
    """

    equality: sp.csr_array
    rhs: Vector
    counts: sp.csr_array
    loss: Vector
    example: Index

    @property
    def n_variables(self) -> int:
        return len(self.loss)


def local_polytope(features: Counts) -> LocalPolytope:
    """The local marginal polytope of ``features``, exact for chains and junction trees.

    Raises
    ------
    ValueError
        If the feature map is of a kind that has no such description here.
    """
    if isinstance(features, HMMCounts):
        return chain_polytope(features)
    raise ValueError(f"features is a {type(features).__name__}, wanted HMMCounts or NetworkCounts")


def chain_polytope(features: HMMCounts) -> LocalPolytope:
    """Edge marginals z[k, t, s', s] of (label at t - 1, label at t), t = 1 .. T_k - 1; node marginals z[k, s] where
    T_k = 1. Variables of an example stand step after step, s fastest; labels that an observed position rules out have
    no variable.

    Equalities: sum of the first step's marginals = 1; sum_s' z[k, t, s', s] = sum_s'' z[k, t + 1, s, s''].
    """
    layout, s_all = features.chains, features.n_states
    n_chains, n_positions, flat = layout.n_chains, layout.n_positions, layout.flat
    free = features.free
    width = np.where(free, s_all, 1)  # labels that each flat position may take
    first = np.zeros(n_positions, dtype=bool)
    first[layout.first] = True
    last = np.zeros(n_positions, dtype=bool)
    last[layout.first + layout.lengths - 1] = True
    alone = first & last

    # one group of variables a pair (before, here); a chain of one position has a group without "before"
    here = np.flatnonzero(~first | alone)
    paired = ~alone[here]
    before = np.where(paired, here - 1, here)
    size = width[here] * np.where(paired, width[before], 1)
    group = np.repeat(np.arange(len(here)), size)
    inner = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    here, before, paired = here[group], before[group], paired[group]
    new, old = inner % width[here], inner // width[here]
    label = np.where(free[here], new, features.truth[here])
    old_label = np.where(free[before], old, features.truth[before])
    n = len(here)
    column = np.arange(n)
    example = layout.chain[flat[here]]
    opening = first[before]  # the group that carries its chain's first position

    middle = ~first & ~last
    row_of = n_chains + np.cumsum(np.where(middle, width, 0)) - np.where(middle, width, 0)
    into, out = middle[here], middle[before] & paired
    rows = np.concatenate((example[opening], (row_of[here] + new)[into], (row_of[before] + old)[out]))
    columns = np.concatenate((column[opening], column[into], column[out]))
    signs = np.concatenate((np.ones(int(opening.sum() + into.sum())), -np.ones(int(out.sum()))))
    m = n_chains + int(width[middle].sum())
    equality = sp.csr_array(sp.coo_array((signs, (rows, columns)), shape=(m, n)))
    rhs = np.zeros(m)
    rhs[:n_chains] = 1.0

    symbol = features.symbols[flat]
    loss_row = features.loss_row[flat]
    weight = features.weights[example]
    start_label = np.where(paired, old_label, label)
    emission = s_all + s_all * s_all
    begun = opening & paired
    rows = np.concatenate((
        start_label[opening],
        (s_all + old_label * s_all + label)[paired],
        emission + label * features.n_symbols + symbol[here],
        (emission + old_label * features.n_symbols + symbol[before])[begun],
    ))  # fmt: skip
    columns = np.concatenate((column[opening], column[paired], column, column[begun]))
    shape = (features.tables.dimension, n)
    counts = sp.csr_array(sp.coo_array((weight[columns], (rows, columns)), shape=shape))
    loss = features.loss_table[loss_row[here], label]
    loss[begun] += features.loss_table[loss_row[before], old_label][begun]
    return LocalPolytope(equality, rhs, counts, loss * weight, example.astype(np.intp))
