r"""The sums of a dual witness of a structural SVM, with a proved bound on their rounding: `StructuredSVM.dual`.

All kinds of witness are first added up to one set of marginals, mu_v(s) = sum alpha_i(y) e_i(y) [y_v = s] and likewise
for edges. These are sums and products of nonnegative numbers, and therefore have a small relative error ``relative``:

* labellings: alpha is defined as the computed product of shares and C omega, so that only additions round;
* Gibbs measures: the computed sums over labellings are turned into conditional distributions, each normalised, outwards
  from a root, or along a chain (`convexstruct.oracles.chain.enclosure`). They define a distribution whatever the
  errors of exp and of the messages were, and any distribution gives a lower bound;
* marginals on forests: in the same way. On the local polytope edges are scaled to agree with their nodes; the remaining
  disagreement is measured, and repairing it moves an edge by at most twice as much (Altschuler, Weed, Rigollet 2017,
  lemma 7).

Then Psi = sum_v x_v (x) d_v + (edges), where d_v(s) = -mu_v(s), except at the true label, where d_v is the sum of the
other labels' mu_v: no difference of two marginals is formed. Psi is off by at most

    e = (relative + gamma(B)) |X|'|d|        entrywise; B the terms of one block, blocks are summed with compensation

and E by relative E. Shares sum to at most 1 + eta, with eta a few units of rounding, so D(t) = t E - t^2 |Psi_+|^2 /
(2 lam) is a lower bound for every 0 <= t <= 1 - eta. The allowance at the t chosen is t relative E + t^2 (2 Psi_+'e +
|e|^2) / (2 lam), plus the rounding of the norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Matrix, Point, Vector
from convexstruct.families.structured_svm.kernel_rounding import of_lower_bound
from convexstruct.families.structured_svm.rounding import PrimalRounding
from convexstruct.families.structured_svm.witness import Posed, Witness, agreeing, consistent, read_witness
from convexstruct.features.graphs.gram import GramFeatures
from convexstruct.inference.differences import Marginals
from convexstruct.inference.exact import Inference
from convexstruct.oracles.tree import forest as levels
from convexstruct.rounding import TINY, UNIT, Rounded, gamma, square, times, total


class Margin(Posed, Protocol):
    """What the dual value needs of a structural SVM; documented in `StructuredSVM`."""

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
    """psi (d,) and loss, the computed Psi and E; psi_error (d,) and the allowance of loss bound how far those of an
    alpha whose shares sum to at most 1 + excess are from them. Not finite if an intermediate number was not.
    spread : sum_p sqrt(K_pp) |d_p| if the features come from a kernel (`kernel_rounding`), else 0."""

    psi: Vector
    psi_error: Vector
    loss: Rounded
    excess: float
    spread: float = 0.0


def aggregate(problem: Margin, dual_point: Point) -> Aggregate:
    """(Psi, E) of a witness whose shares are clipped at 0 and scaled to sum to at most 1."""
    found = enclosed(problem, read_witness(problem, dual_point))
    return Aggregate(found.psi, float(found.loss))


def enclosed(problem: Margin, witness: Witness) -> Enclosed:
    """(Psi, E) of a witness, as `aggregate`, with bounds on their errors."""
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
            node = features.node_scores(theta) + b * problem.loss.costs
            mixed.add_gibbs(problem.oracle, node, features.edge_scores(theta), share)
    if len(witness.node_marginals) and marginal_share.any():
        _add_marginals(problem, mixed, witness, marginal_share * clear)
    longest = int(features.lengths.max())
    mixed.relative += gamma(rows + longest + 2 * size + 16)
    mixed.absolute += TINY * (rows + 4)
    smallest = float(ceiling.min())
    excess = gamma(rows + 16) + (rows * TINY / smallest if smallest > 0 else math.inf)
    away = mixed.differences()
    psi, error = mixed.psi(problem.rounding.plain, away)
    return Enclosed(psi, error, _loss(problem, mixed, lost), excess, _spread(problem, mixed, away))


def _add_marginals(problem: Margin, mixed: Marginals, witness: Witness, share: Vector) -> None:
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


def _spread(problem: Margin, mixed: Marginals, away: Matrix) -> float:
    """An upper bound on sum_p sqrt(K_pp) |d_p|; 0 without a kernel."""
    if problem.kernel is None:
        return 0.0
    n, size = away.shape
    norms = np.sqrt((away * away).sum(axis=1)) + 2.0 * size * (mixed.absolute + math.sqrt(TINY))
    return float(problem.kernel.sizes @ norms) * (1.0 + mixed.relative + gamma(n + 4 * size + 8))


def _loss(problem: Margin, mixed: Marginals, lost_by: Vector) -> Rounded:
    """E and its allowance. lost_by (N,) : sum_y alpha_i(y) E_i(y), used under slack scaling and the zero-one loss."""
    costs = problem.loss.costs
    if problem.scaling == "slack" or problem.loss.zero_one:
        terms = lost_by
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
    """max over 0 <= t <= 1 - eta of D(t Psi, t E), and its allowance: at least 0 = D(0), or -inf if not finite."""
    with np.errstate(all="ignore"):
        return on_ray(enclosed(problem, witness), problem.lam, problem.project, problem.kernel)


def on_ray(
    found: Enclosed, lam: float, project: Callable[[Vector], Vector], kernel: GramFeatures | None = None
) -> Rounded:
    """`dual`, from the sums of a witness; ``project`` clips weights that must be >= 0."""
    psi, error, loss, excess, spread = found
    if not (np.isfinite(psi).all() and math.isfinite(loss)):
        return Rounded(-math.inf)
    kept = project(psi)
    norm = square(kept)
    away = 2.0 * float(np.abs(kept) @ error) + float(error @ error) + len(error) * TINY
    curvature = float(norm) / lam
    t = float(loss) / curvature if curvature > 0 else 1.0
    t = max(0.0, min(t, 1.0 - 2.0 * excess)) if math.isfinite(t) else 0.0
    if not (t > 0 and math.isfinite(curvature)):
        return Rounded(0.0)
    bent = 0.5 * t * (t * curvature)  # t^2 alone may fall below the smallest number
    value = t * float(loss) - bent
    away_by = 0.5 * times(t, t, 1.0 / lam, norm.allowance + away) if math.isfinite(away) else math.inf
    allowance = Rounded.of(
        value,
        t * loss.allowance,
        away_by * (1.0 + 8 * UNIT),
        8 * UNIT * (abs(t * float(loss)) + bent),
        0.0 if kernel is None else of_lower_bound(kernel, lam, t, spread),
        8 * TINY,
    ).allowance
    return Rounded(value, min(allowance, abs(value))) if value > 0 else Rounded(0.0)
