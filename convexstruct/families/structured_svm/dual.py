r"""A dual witness of a structural SVM summed up, with a proved bound on what rounding does: `StructuredSVM.dual`.

All kinds of witness are first added up to one set of marginals, mu_v(s) = sum alpha_i(y) e_i(y) [y_v = s] and the same
of edges, numbers >= 0 that are right to a relative error ``relative``, for they are sums and products of such numbers:

* labellings: alpha is the computed product of shares and C omega, an exact number; additions remain;
* Gibbs measures: sums over labellings are read as conditional distributions that are scaled to one, outwards from a
  root, or along a chain (`convexstruct.oracles.chain.enclosure`). That is a distribution, whatever exp and
  the messages were off by; a lower bound needs no more, and it does not matter which distribution it is;
* marginals on forests: in the same way. On the local polytope edges are scaled to agree with their nodes; what they
  still disagree by is measured, and moved at most twice (Altschuler, Weed, Rigollet 2017, lemma 7).

Then Psi = sum_v x_v (x) d_v + (edges), where d_v is minus mu_v but at the truth, where it is the sum of the others: no
difference is taken before the features are multiplied in. Psi is off by at most

    e = (relative + gamma(B)) |X|'|d|        entrywise; B the terms of one block, blocks are added with their errors

and E by relative E. Shares sum to 1 + eta at most, with eta of a few units, so D(t) = t E - t^2 |Psi_+|^2 / (2 lam) is
a lower bound for every 0 <= t <= 1 - eta. The allowance at the t chosen is t relative E + t^2 (2 Psi_+'e + |e|^2) /
(2 lam) and the rounding of the norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Labels, Matrix, Point, Tensor, Vector
from convexstruct.families.structured_svm.kernel_rounding import of_lower_bound
from convexstruct.families.structured_svm.rounding import (
    BLOCK,
    GREATEST,
    PrimalRounding,
    compensated,
    square,
    times,
)
from convexstruct.families.structured_svm.witness import Posed, Witness, agreeing, consistent, read_witness
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.exact import ChainInference, ForestInference, Inference, TreeInference
from convexstruct.oracles.chain.enclosure import near
from convexstruct.oracles.tree import forest as levels
from convexstruct.rounding import TINY, UNIT, Rounded, gamma, total


class Margin(Posed, Protocol):
    """What is asked of a structural SVM for its dual; `StructuredSVM` says what each is."""

    @property
    def oracle(self) -> Inference: ...

    @property
    def rounding(self) -> PrimalRounding: ...

    def project(self, w: Vector) -> Vector: ...


class Aggregate(NamedTuple):
    """psi (d,) = sum alpha_i(y) e_i(y) df_i(y); loss = sum alpha_i(y) E_i(y)."""

    psi: Vector
    loss: float


class Enclosed(NamedTuple):
    """Psi (d,) and E, entrywise bounds on how far they are from those of an alpha whose shares sum to 1 + excess at
    most. Not finite where a number on the way was not. spread : sum_p sqrt(K_pp) |d_p| where features come from a
    kernel (`kernel_rounding`), else 0."""

    psi: Vector
    psi_error: Vector
    loss: Rounded
    excess: float
    spread: float = 0.0


@dataclass
class _Sums:
    """What a witness's parts add up to.

    node (P, S): mu. edge: mu of each edge (Q, S, S); where edges share a table, that of edges that labellings have
    wrong, by blocks of edges (blocks, S, S), then gained (blocks, S, S) is what the truth has there, and wholes (S, S)
    are sums over all edges. loss (N,): sum alpha_i(y) E_i(y), where that is not a sum over nodes. relative, absolute:
    bounds on the error of every entry; loose (Q,): of each edge besides, absolute.
    """

    node: Matrix
    edge: Tensor
    gained: Tensor
    loss: Vector
    relative: float = 0.0
    absolute: float = 0.0
    loose: Vector | None = None
    wholes: list[Matrix] = field(default_factory=list)


def aggregate(problem: Margin, dual_point: Point) -> Aggregate:
    """(Psi, E) of a witness, its shares cleared of rounding."""
    found = enclosed(problem, read_witness(problem, dual_point))
    return Aggregate(found.psi, float(found.loss))


def enclosed(problem: Margin, witness: Witness) -> Enclosed:
    """(Psi, E) of a witness with their errors."""
    features, ceiling = problem.features, problem.ceiling
    n_examples, size = problem.n_examples, features.n_labels
    parts = [np.maximum(part, 0.0) for part in (witness.label_shares, witness.gibbs_shares)]
    marginal_share = np.maximum(witness.marginal_shares, 0.0)
    sums = parts[0].sum(axis=0) + parts[1].sum(axis=0) + marginal_share
    clear = ceiling / np.maximum(sums, 1.0)
    rows = len(parts[0]) + len(parts[1]) + 1
    blocks = -(-features.n_edges // BLOCK) if features.shared else features.n_edges
    mixed = _Sums(
        np.zeros((features.n_nodes, size)), np.zeros((blocks, size, size)),
        np.zeros((blocks if features.shared else 0, size, size)), np.zeros(n_examples),
    )  # fmt: skip
    for row, share in zip(witness.labels, parts[0] * clear):
        deadline.check()
        if share.any():
            _add_labelling(problem, mixed, row.astype(np.int64), share)
    for theta, b, share in zip(witness.gibbs, witness.gibbs_loss, parts[1] * clear):
        deadline.check()
        if share.any():
            node = features.node_scores(theta) + b * problem.loss.costs
            _add_gibbs(problem, mixed, node, features.edge_scores(theta), share)
    if len(witness.node_marginals) and marginal_share.any():
        _add_marginals(problem, mixed, witness, marginal_share * clear)
    longest = int(features.lengths.max())
    mixed.relative += gamma(rows + longest + 2 * size + 16)
    mixed.absolute += TINY * (rows + 4)
    smallest = float(ceiling.min())
    excess = gamma(rows + 16) + (rows * TINY / smallest if smallest > 0 else math.inf)
    away = _differences(problem.features, mixed.node)
    psi, error = _joint(problem, mixed, away)
    return Enclosed(psi, error, _loss(problem, mixed), excess, _spread(problem, mixed, away))


# -- what each kind adds -----------------------------------------------------------------------------------------------


def _add_labelling(problem: Margin, mixed: _Sums, labels: Labels, share: Vector) -> None:
    features = problem.features
    lost = problem.loss.of(labels)
    weight = share * lost if problem.scaling == "slack" else share
    mixed.node[np.arange(features.n_nodes), labels] += weight[features.example]
    mixed.loss += share * lost
    if not features.n_edges:
        return
    size = features.n_labels
    (u, v), (s, t) = (x[features.edges].T for x in (labels, features.truth))
    of_edges = weight[features.edge_example]
    if not features.shared:
        mixed.edge[np.arange(features.n_edges), u, v] += of_edges
        return
    wrong = np.flatnonzero(((u != s) | (v != t)) & (of_edges > 0))
    block = wrong // BLOCK * size * size
    for table, first, second in ((mixed.edge, u, v), (mixed.gained, s, t)):
        cell = block + first[wrong] * size + second[wrong]
        table += np.bincount(cell, weights=of_edges[wrong], minlength=table.size).reshape(table.shape)


def _add_gibbs(problem: Margin, mixed: _Sums, node: Matrix, edge: Tensor, share: Vector) -> None:
    features, oracle = problem.features, problem.oracle
    if not float(np.abs(node).sum() + features.n_edges * np.abs(edge).max(initial=0.0)) < GREATEST:
        mixed.node[:] = np.nan  # sums of such scores may overflow
        return
    size = features.n_labels
    if isinstance(oracle, ChainInference):
        found = near(oracle.layout, node[oracle.layout.packed], edge, share)
        mixed.node += found.node[oracle.layout.flat] * share[features.example][:, None]
        _add_pairs(problem, mixed, found.pairs, share)
        mixed.relative = max(mixed.relative, found.relative)
        mixed.absolute += found.absolute
        return
    if isinstance(oracle, ForestInference):
        sums = levels.sum_product(oracle.layout, node, edge)
        steps = (len(oracle.layout.levels) + 1) * (2 * size + 8)
        _add_tables(problem, mixed, sums.node, sums.edge, share, gamma(steps))
        return
    if not isinstance(oracle, TreeInference):
        oracle.sums(node, edge, share)  # says that it has none
        return
    every = np.ascontiguousarray(np.broadcast_to(edge, (features.n_edges, size, size)))
    tables = oracle.sums(node, every)
    steps = max(batch.tree.n_cliques * (2 * max(map(math.prod, batch.tree.shapes)) + 8) for batch in oracle.batches)
    _add_tables(problem, mixed, tables.node, tables.edge, share, gamma(2 * steps))


def _add_marginals(problem: Margin, mixed: _Sums, witness: Witness, share: Vector) -> None:
    features, size = problem.features, problem.features.n_labels
    if max(float(witness.node_marginals.max()), float(witness.edge_marginals.max(initial=0.0))) > 1e100:
        mixed.node[:] = np.nan  # sums of such numbers may overflow; no distribution has them
        return
    if not problem.oracle.relaxed:
        node, edge = consistent(features, witness.node_marginals, witness.edge_marginals)
        depth = len(levels.forest(features.n_nodes, features.edges).levels) + 1
        _add_tables(problem, mixed, node, edge, share, gamma(depth * (2 * size + 8)))
        return
    node, edge = agreeing(features, witness.node_marginals, witness.edge_marginals)
    first, second = node[features.edges[:, 0]], node[features.edges[:, 1]]
    apart = np.abs(edge.sum(axis=2) - first).sum(axis=1) + np.abs(edge.sum(axis=1) - second).sum(axis=1)
    apart += gamma(2 * size + 8) * (2.0 * edge.sum(axis=(1, 2)) + 4.0)
    mixed.loose = 4.0 * apart * share[features.edge_example]
    _add_tables(problem, mixed, node, edge, share, gamma(size + 8))


def _add_tables(problem: Margin, mixed: _Sums, node: Matrix, edge: Tensor, share: Vector, relative: float) -> None:
    """Marginals of every node and every edge, each right to ``relative``."""
    features = problem.features
    mixed.node += node * share[features.example][:, None]
    mixed.relative = max(mixed.relative, relative)
    mixed.absolute += 4 * TINY * len(node) * (1.0 + float(share.max()))
    if not features.n_edges:
        return
    weighted = edge * share[features.edge_example][:, None, None]
    if features.shared:
        _add_pairs(problem, mixed, np.add.reduceat(weighted, np.arange(0, features.n_edges, BLOCK), axis=0), share)
    else:
        mixed.edge += weighted


def _add_pairs(problem: Margin, mixed: _Sums, pairs: list[Matrix] | Tensor, share: Vector) -> None:
    """Parts (S, S) of the sum of all edges' marginals, against the truth's whole weight."""
    features = problem.features
    if not features.n_edges:
        return
    s, t = features.truth[features.edges].T
    cell = np.arange(features.n_edges) // BLOCK * features.n_labels**2 + s * features.n_labels + t
    whole = np.bincount(cell, weights=share[features.edge_example], minlength=mixed.gained.size)
    mixed.gained += whole.reshape(mixed.gained.shape)
    mixed.wholes.append(compensated(pairs, pairs[0].shape))


# -- Psi and E ---------------------------------------------------------------------------------------------------------


def _differences(features: PairwiseFeatures, node: Matrix) -> Matrix:
    """d (P, S): minus mu, but at the truth, where it is the sum of the others."""
    every = np.arange(features.n_nodes)
    away = -node
    away[every, features.truth] = 0.0
    away[every, features.truth] = -away.sum(axis=1)
    return away


def _spread(problem: Margin, mixed: _Sums, away: Matrix) -> float:
    """An upper bound on sum_p sqrt(K_pp) |d_p|; 0 without a kernel."""
    if problem.kernel is None:
        return 0.0
    n, size = away.shape
    norms = np.sqrt((away * away).sum(axis=1)) + 2.0 * size * (mixed.absolute + math.sqrt(TINY))
    return float(problem.kernel.sizes @ norms) * (1.0 + mixed.relative + gamma(n + 4 * size + 8))


def _joint(problem: Margin, mixed: _Sums, away: Matrix) -> tuple[Vector, Vector]:
    """Psi and the bound on its error, entrywise; both (d,); from the differences d (P, S) of the nodes."""
    features, plain = problem.features, problem.rounding.plain
    relative, absolute = mixed.relative + gamma(BLOCK + 8), mixed.absolute
    used = np.flatnonzero(away[np.arange(features.n_nodes), features.truth])
    x, d = features.node_features[used], away[used]
    if sp.issparse(x):
        first = np.asarray(x.T @ d)
        size = np.asarray(abs(x).T @ np.abs(d))
        long = np.bincount(x.indices, minlength=x.shape[1])
        size *= (relative + long * UNIT / (1.0 - long * UNIT))[:, None]
    else:
        pieces = [slice(low, low + BLOCK) for low in range(0, len(used), BLOCK)]
        shape = (x.shape[1], features.n_labels)
        first = compensated((x[piece].T @ d[piece] for piece in pieces), shape)
        size = np.zeros(shape)
        for piece in pieces:
            size += np.abs(x[piece]).T @ np.abs(d[piece])
        size *= relative
    lost = absolute * plain.node + features.n_nodes * TINY
    error = (size * (1.0 + gamma(len(used))) + (2.0 * features.n_labels) * lost[:, None]).T.ravel()
    second, second_error = _edges(features, mixed, relative, absolute, plain.edge)
    return np.concatenate((first.T.ravel(), second)), np.concatenate((error, second_error))


def _edges(
    features: PairwiseFeatures, mixed: _Sums, relative: float, absolute: float, plain: Vector
) -> tuple[Vector, Vector]:
    """The part of Psi that belongs to w_edge, and its error."""
    size, n = features.n_labels, features.n_edges
    if not n:
        return np.zeros(0), np.zeros(0)
    loose = np.zeros(n) if mixed.loose is None else mixed.loose
    if features.shared:
        lost = [mixed.edge, *(part[None] for part in mixed.wholes)]
        table = compensated([*mixed.gained, *(-part for parts in lost for part in parts)], (size, size))[None]
        mass = mixed.gained.sum(axis=0) + sum(parts.sum(axis=0) for parts in lost)
        error = (relative * mass + absolute * n + float(loose.sum()))[None]
    else:
        assert features.edge_features is not None
        (s, t), every = features.truth[features.edges].T, np.arange(n)
        away = -mixed.edge
        away[every, s, t] = 0.0
        away[every, s, t] = -away.sum(axis=(1, 2))
        z = features.edge_features
        pieces = [slice(low, low + BLOCK) for low in range(0, n, BLOCK)]
        shape = (z.shape[1], size, size)
        table = compensated((np.tensordot(z[p].T, away[p], axes=1) for p in pieces), shape)
        count = relative + gamma(size * size)
        error = count * np.tensordot(np.abs(z).T, np.abs(away), axes=1)
        error += (absolute * size * size * plain + np.abs(z).T @ loose + n * TINY)[:, None, None]
    error = error * (1.0 + gamma(n + 8)) + n * TINY
    if features.associative:
        table, error = (np.diagonal(part, axis1=1, axis2=2) for part in (table, error))
    return table.ravel(), error.ravel()


def _loss(problem: Margin, mixed: _Sums) -> Rounded:
    """E and its allowance."""
    costs = problem.loss.costs
    if problem.scaling == "slack" or problem.loss.zero_one:
        terms = mixed.loss
        lost = TINY * len(terms)
    else:
        terms = np.einsum("vs,vs->v", mixed.node, costs)
        lost = times(mixed.absolute + TINY, float(costs.sum()) + float(costs.size))
    value = total(terms)
    return Rounded.of(
        float(value), value.allowance, times(mixed.relative + gamma(costs.shape[1] + 4), float(value)), lost
    )


# -- the bound ---------------------------------------------------------------------------------------------------------


def dual(problem: Margin, witness: Witness) -> Rounded:
    """max over 0 <= t <= 1 - eta of D(t Psi, t E), and its allowance; never below 0, which alpha = 0 proves."""
    with np.errstate(all="ignore"):
        psi, error, loss, excess, spread = enclosed(problem, witness)
        if not (np.isfinite(psi).all() and math.isfinite(loss)):
            return Rounded(-math.inf)
        kept = problem.project(psi)
        norm = square(kept)
        away = 2.0 * float(np.abs(kept) @ error) + float(error @ error) + len(error) * TINY
        curvature = float(norm) / problem.lam
        t = float(loss) / curvature if curvature > 0 else 1.0
        t = max(0.0, min(t, 1.0 - 2.0 * excess)) if math.isfinite(t) else 0.0
        if not (t > 0 and math.isfinite(curvature)):
            return Rounded(0.0)
        bent = 0.5 * t * (t * curvature)  # t^2 alone may fall below the smallest number
        value = t * float(loss) - bent
        away_by = 0.5 * times(t, t, 1.0 / problem.lam, norm.allowance + away) if math.isfinite(away) else math.inf
        allowance = Rounded.of(
            value,
            t * loss.allowance,
            away_by * (1.0 + 8 * UNIT),
            8 * UNIT * (abs(t * float(loss)) + bent),
            0.0 if problem.kernel is None else of_lower_bound(problem.kernel, problem.lam, t, spread),
            8 * TINY,
        ).allowance
        return Rounded(value, min(allowance, abs(value))) if value > 0 else Rounded(0.0)
