"""The local marginal polytope of the hidden variables: polynomially many marginals in place of all labellings.

On a chain, and on any junction tree, it is exact: its vertices are the labellings, so a linear function of the counts
has the same maximum over both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Vector
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.marginals.tree_tables import Columns, TreeTables, laid_out
from convexstruct.marginals.triplets import Triplets


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
    columns : what each variable stands for.
    """

    equality: sp.csr_array
    rhs: Vector
    counts: sp.csr_array
    loss: Vector
    columns: Columns

    @property
    def n_variables(self) -> int:
        return len(self.loss)


def local_polytope(features: Counts) -> LocalPolytope:
    """The local marginal polytope of ``features``, exact for chains and junction trees. ValueError if the feature map
    is of a kind that has no such description here."""
    if isinstance(features, HMMCounts):
        return chain_polytope(features)
    if isinstance(features, NetworkCounts):
        return network_polytope(features)
    raise ValueError(f"features is a {type(features).__name__}, wanted HMMCounts or NetworkCounts")


def chain_polytope(features: HMMCounts) -> LocalPolytope:
    """Edge marginals z[k, t, s', s] of (label at t - 1, label at t), t = 1 .. T_k - 1; node marginals z[k, s] where
    T_k = 1. Variables of an example stand step after step, s fastest; labels that an observed position rules out have
    no variable.

    Equalities: sum of the first step's marginals = 1; sum_s' z[k, t, s', s] = sum_s'' z[k, t + 1, s, s''].
    """
    layout, s_all = features.chains, features.n_states
    n_chains, n_positions, flat = layout.n_chains, layout.n_positions, layout.flat
    free = features.examples.free
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
    label = np.where(free[here], new, features.examples.truth[here])
    old_label = np.where(free[before], old, features.examples.truth[before])
    n = len(here)
    column = np.arange(n)
    example = layout.chain[flat[here]]
    opening = first[before]  # the group that carries its chain's first position

    middle = ~first & ~last
    row_of = n_chains + np.cumsum(np.where(middle, width, 0)) - np.where(middle, width, 0)
    into, out = middle[here], middle[before] & paired
    rows = np.concatenate((example[opening], (row_of[here] + new)[into], (row_of[before] + old)[out]))
    places = np.concatenate((column[opening], column[into], column[out]))
    signs = np.concatenate((np.ones(int(opening.sum() + into.sum())), -np.ones(int(out.sum()))))
    m = n_chains + int(width[middle].sum())
    equality = sp.csr_array(sp.coo_array((signs, (rows, places)), shape=(m, n)))
    rhs = np.zeros(m)
    rhs[:n_chains] = 1.0

    symbol = features.channels[flat].T
    loss_row = features.loss_row[flat]
    weight = features.weights[example]
    start_label = np.where(paired, old_label, label)
    emission = s_all + s_all * s_all + np.arange(features.n_channels)[:, None] * (s_all * features.n_symbols)
    begun = opening & paired
    rows = np.concatenate((
        start_label[opening],
        (s_all + old_label * s_all + label)[paired],
        (emission + label * features.n_symbols + symbol[:, here]).ravel(),
        (emission + old_label * features.n_symbols + symbol[:, before])[:, begun].ravel(),
    ))  # fmt: skip
    shown = np.concatenate((np.tile(column, features.n_channels), np.tile(column[begun], features.n_channels)))
    places = np.concatenate((column[opening], column[paired], shown))
    shape = (features.tables.dimension, n)
    counts = sp.csr_array(sp.coo_array((weight[places], (rows, places)), shape=shape))
    loss = features.loss_table[loss_row[here], label]
    loss[begun] += features.loss_table[loss_row[before], old_label][begun]
    step = np.where(paired, here - layout.first[example] - 1, 0)
    columns = Columns(example, step, np.stack((before, here), axis=1), np.stack((start_label, label), axis=1))
    return LocalPolytope(equality, rhs, counts, loss * weight, columns)


def network_polytope(features: NetworkCounts) -> LocalPolytope:
    """Clique marginals z[k, clique, labels] over the junction tree of each example's hidden variables.

    Cliques stand root first, the axes of each as `convexstruct.junction_trees.JunctionTree.cliques` lists them.

    Equalities: sum of the root's marginals = 1; each clique and its parent agree on the variables that they share.
    """
    n_examples = len(features.weights)
    start, row, n_rows, of = laid_out([(g.tree, g.examples, g.places) for g in features.groups], n_examples)
    n, m = len(of.example), n_examples + n_rows
    root_entries = np.empty(n_examples, dtype=np.intp)
    equality, counts = Triplets(), Triplets()
    loss = np.zeros(n)
    for group in features.groups:
        examples = group.examples
        weights = features.weights[examples]
        columns = start[examples]
        tables = TreeTables(group.tree)
        root_entries[examples] = group.tree.shapes[0][1]
        equality.add(examples[:, None], columns[:, None] + tables.entries(0), 1.0)
        tables.agree(equality, n_examples + row[examples], columns)
        for factor in group.factors:
            c = group.tree.clique_of(factor.scope)
            inner = factor.inner[tuple(tables.labels[c][v] for v in factor.scope)]
            counts.add(factor.base[:, None] + inner, columns[:, None] + tables.entries(c), weights[:, None])
        for j, v in enumerate(group.hidden):
            c = group.tree.home[j]
            cost = features.costs[v][features.assignments[examples, v]][:, tables.labels[c][j]]
            loss[columns[:, None] + tables.entries(c)] += weights[:, None] * cost
    # distributions that touch no hidden variable are counted with the root clique, whose marginals sum to 1
    observed, entries = features.observed
    size = root_entries[observed]
    inner = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    counts.add(
        np.repeat(entries, size), np.repeat(start[observed], size) + inner, np.repeat(features.weights[observed], size)
    )
    rhs = np.zeros(m)
    rhs[:n_examples] = 1.0
    return LocalPolytope(equality.matrix((m, n)), rhs, counts.matrix((features.tables.dimension, n)), loss, of)
