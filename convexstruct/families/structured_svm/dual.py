r"""The sums of a dual witness of a structural SVM, with a proved bound on their rounding: `StructuredSVM.dual`.

All kinds of witness are first added up to one set of marginals, mu_v(s) = sum alpha_i(y) e_i(y) [y_v = s] and likewise
for edges. These are sums and products of nonnegative numbers, and therefore have a small relative error ``relative``:

* labellings: alpha is defined as the computed product of shares and C omega, so that only additions round;
* Gibbs measures: the computed sums over labellings are turned into conditional distributions, each normalised, outwards
  from a root, or along a chain (`convexstruct.oracles.chain.sums`). They define a distribution whatever the
  errors of exp and of the messages were, and any distribution gives a lower bound;
* marginals on forests: in the same way. On the local polytope edges are scaled to agree with their nodes; the remaining
  disagreement is measured, and repairing it moves an edge by at most twice as much (Altschuler, Weed, Rigollet 2017,
  lemma 7).

Then Psi = sum_v x_v (x) d_v + (edges), where d_v(s) = -mu_v(s), except at the true label, where d_v is the sum of the
other labels' mu_v: no difference of two marginals is formed. Psi and E carry their errors from there (`Enclosed`).
Shares sum to at most 1 + eta, with eta a few units of rounding, so D(t) = t E - t^2 |Psi_+|^2 / (2 lam) is a lower
bound for every 0 <= t <= 1 - eta.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Point, Vector
from convexstruct.families.structured_svm.kernel_rounding import of_lower_bound
from convexstruct.families.structured_svm.witness import (
    Enclosed,
    Posed,
    Witness,
    agreeing,
    consistent,
    of_examples,
    read_witness,
)
from convexstruct.features.graphs.gram import GramFeatures
from convexstruct.inference.differences import Marginals
from convexstruct.oracles.tree import forest as levels
from convexstruct.rounding import TINY, Rounded, RoundedArray, exact, gamma, row_norms, square, summed


class Aggregate(NamedTuple):
    """psi (d,) = sum alpha_i(y) e_i(y) df_i(y); loss = sum alpha_i(y) E_i(y)."""

    psi: Vector
    loss: float


def aggregate(problem: Posed, dual_point: Point) -> Aggregate:
    """(Psi, E) of a witness whose shares are clipped at 0 and scaled to sum to at most 1."""
    found = problem.enclosed(read_witness(problem, dual_point))
    return Aggregate(found.psi.value, float(found.loss))


def enclosed(problem: Posed, witness: Witness) -> Enclosed:
    """(Psi, E) of a witness, as `aggregate`, with bounds on their errors."""
    if problem.shards is not None and problem.kernel is None:  # the norms of a kernel's features lie here
        given = [(of_examples(witness, problem.features, *ends),) for ends in pairwise(problem.shards.at)]
        return Enclosed(*problem.shards.total_each(problem.enclosed, given))
    features, ceiling = problem.features, problem.ceiling
    n_examples, size = problem.n_examples, features.n_labels
    parts = [np.maximum(part, 0.0) for part in (witness.label_shares, witness.gibbs_shares)]
    marginal_share = np.maximum(witness.marginal_shares, 0.0)
    sums = parts[0].sum(axis=0) + parts[1].sum(axis=0) + marginal_share
    clear = ceiling / np.maximum(sums, 1.0)
    rows = len(parts[0]) + len(parts[1]) + 1
    mixed, lost = Marginals.none(features), np.zeros(n_examples)
    for row, share in zip(witness.labels, parts[0] * clear):
        deadline.check()
        if share.any():
            labels = row.astype(np.int64)
            costs = problem.loss.of(labels)
            mixed.add_labelling(labels, share * costs if problem.scaling == "slack" else share)
            lost += share * costs
    for theta, b, share in zip(witness.gibbs, witness.gibbs_loss, parts[1] * clear):
        deadline.check()
        if share.any():
            node, edge = problem.scores(theta)
            mixed.add_gibbs(problem.oracle, node + b * problem.loss.costs, edge, share)
    if len(witness.node_marginals) and marginal_share.any():
        _add_marginals(problem, mixed, witness, marginal_share * clear)
    longest = int(features.lengths.max())
    mixed.relative += gamma(rows + longest + 2 * size + 16)
    mixed.absolute += TINY * (rows + 4)
    away = mixed.differences()
    excess = excess_of(rows, ceiling)
    return Enclosed(mixed.psi(away), _loss(problem, mixed, lost), excess, _spread(problem, away))


def excess_of(rows: int, ceiling: Vector) -> float:
    """How far above 1 the shares of ``rows`` parts may sum that were scaled to sum to at most 1."""
    smallest = float(ceiling.min())
    return gamma(rows + 16) + (rows * TINY / smallest if smallest > 0 else math.inf)


def _add_marginals(problem: Posed, mixed: Marginals, witness: Witness, share: Vector) -> None:
    features, size = problem.features, problem.features.n_labels
    if max(float(witness.node_marginals.max()), float(witness.edge_marginals.max(initial=0.0))) > 1e100:
        mixed.node[:] = np.nan  # sums of such numbers may overflow; no distribution has them
        return
    if not problem.oracle.relaxed:
        node, edge = consistent(features, witness.node_marginals, witness.edge_marginals)
        depth = len(levels.forest(features.n_nodes, features.edges).levels) + 1
        mixed.add_tables(node, edge, share, gamma(depth * (2 * size + 8)))
        return
    node, edge = agreeing(features, witness.node_marginals, witness.edge_marginals)
    first, second = node[features.edges[:, 0]], node[features.edges[:, 1]]
    apart = np.abs(edge.sum(axis=2) - first).sum(axis=1) + np.abs(edge.sum(axis=1) - second).sum(axis=1)
    apart += gamma(2 * size + 8) * (2.0 * edge.sum(axis=(1, 2)) + 4.0)
    mixed.loose = 4.0 * apart * share[features.edge_example]
    mixed.add_tables(node, edge, share, gamma(size + 8))


# -- Psi and E ---------------------------------------------------------------------------------------------------------


def _spread(problem: Posed, away: RoundedArray) -> float:
    """An upper bound on sum_p sqrt(K_pp) |d_p|; 0 without a kernel."""
    if problem.kernel is None:
        return 0.0
    norms = row_norms(np.abs(away.value) + away.errors)
    return summed(exact(problem.kernel.sizes) * norms, positive=True).upper


def _loss(problem: Posed, mixed: Marginals, lost_by: Vector) -> Rounded:
    """E. lost_by (N,) : sum_y alpha_i(y) E_i(y), used under slack scaling and the zero-one loss."""
    costs = problem.loss.costs
    rate = mixed.relative + gamma(costs.shape[1] + 4)
    if problem.scaling == "slack" or problem.loss.zero_one:
        return summed(RoundedArray(lost_by, rate * lost_by + TINY), positive=True)
    terms = np.einsum("vs,vs->v", mixed.node, costs)
    lost = mixed.absolute * costs.sum(axis=1) + TINY * costs.shape[1]
    return summed(RoundedArray(terms, rate * terms + lost), positive=True)


# -- the bound ---------------------------------------------------------------------------------------------------------


def dual(problem: Posed, witness: Witness) -> Rounded:
    """max over 0 <= t <= 1 - eta of D(t Psi, t E), and its allowance: at least 0 = D(0), or -inf if not finite."""
    with np.errstate(all="ignore"):
        return on_ray(problem.enclosed(witness), problem.lam, problem.project, problem.kernel)


def on_ray(
    found: Enclosed, lam: float, project: Callable[[Vector], Vector], kernel: GramFeatures | None = None
) -> Rounded:
    """`dual`, from the sums of a witness; ``project`` clips weights that must be >= 0."""
    psi, loss, excess, spread = found
    if not (np.isfinite(psi.value).all() and math.isfinite(loss)):
        return Rounded(-math.inf)
    curvature = square(RoundedArray(project(psi.value), psi.error)) / lam
    t = float(loss) / float(curvature) if curvature > 0 else 1.0
    t = max(0.0, min(t, 1.0 - 2.0 * excess)) if math.isfinite(t) else 0.0
    if not (t > 0 and math.isfinite(curvature)):
        return Rounded(0.0)
    value = t * loss - 0.5 * t * (t * curvature)  # t^2 alone may fall below the smallest number
    if kernel is not None:
        value = Rounded.of(value, value.allowance, of_lower_bound(kernel, lam, t, spread))
    return Rounded(value, min(value.allowance, abs(value))) if value > 0 else Rounded(0.0)
