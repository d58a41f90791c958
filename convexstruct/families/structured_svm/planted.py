r"""Structural SVMs built backwards from their optimum.

**Margin scaling.** Take alpha_i, a distribution over a few labellings of example i times C omega_i. It fixes

    Psi = sum alpha_i(y) df_i(y),   w = Psi_+ / lam,

and (w, alpha) is optimal if the labellings that carry alpha_i are those of the greatest E_i(y) - <w, df_i(y)>, that is
of E_i(y) + <w, f(x_i, y)>. The costs of the nodes are still free. With s_v, s_e the scores at w and
range(s_e) the largest less the smallest entry of s_e, choose them by

    fixed node   alpha has one label a there, a wrong one. Its cost is so large that a leads every other label by more
                 than the sum of range(s_e) over the node's edges: then a is in every maximiser, with any neighbours.
    free node    alpha has several labels there, and every neighbour is fixed at b_u. With
                 g(a) = s_v(a) + sum_e s_e(a, b_u), a carrying label a gets the cost K - g(a), so that all of them tie;
                 where the truth is among them K = g(truth), because its cost is 0, else K is above every g.

All costs must be >= 0. Where the truth carries weight and does not lead by enough, the node is fixed instead and w
computed anew; this ends, because no node is ever freed. Free nodes are not adjacent, so that given the fixed nodes any
distribution with these labels at each node maximises: alpha mixes them as drawn, node by node or together.

**Beyond the margin.** Examples without alpha are added last, labelled with the best labelling at w. Costs that sum to
less than its lead over the second best leave no violation. In an example of one node, alpha may have weight on the
true labelling too.

**Slack scaling.** Let psi_i = alpha_i(y) E_i(y) be given for one labelling y wrong at every node; again it fixes w. The
costs are 1 for its labels, else 0. With lam so large that |<w, df_i(y)>| <= 1/(2 n_i) for every y, the greatest
E_i(y) (1 - <w, df_i(y)>) is at the labelling of greatest loss, which is that one. Finally the weights are chosen so
that alpha_i sums to C omega_i: omega_i = psi_i / (C n_i).

The optimum is D(alpha), exactly, computed without any inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from convexstruct.arrays import Flags, Labels, Matrix, Tensor, Vector
from convexstruct.core.cases import Instance
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.exact import best_other

#: Scale of a label's lead where no tie is wanted.
LEAST_LEAD = 0.5
#: Labellings that alpha is spread over, in each example.
SPREAD_LABELLINGS = 4


def plant(problem: StructuredSVM, rng: np.random.Generator, without_alpha: Sequence[int] = ()) -> Instance:
    """``problem`` with other costs, and, in the examples ``without_alpha``, other true labels, so that its optimum is
    known. Margin scaling."""
    features = problem.features
    free = _apart(features, rng)
    labels, shares, wrong = _draw(features, free, rng)
    shares[:, list(without_alpha)] = 0.0
    active = np.setdiff1d(np.arange(features.n_examples), without_alpha)
    while True:
        labels[:, ~free] = wrong[~free]
        w, psi = _weights(problem, labels, shares, active)
        costs, failed = _costs(problem, w, labels, shares, free, wrong, rng)
        failed &= np.isin(features.example, active)
        if not failed.any():
            break
        free &= ~failed
    planted = replace(problem, loss=replace(problem.loss, costs=costs))
    if len(without_alpha):
        planted = _beyond_the_margin(planted, w, without_alpha, rng)
    loss = sum(float((problem.ceiling * share) @ planted.loss.of(row)) for row, share in zip(labels, shares))
    kept = problem.project(psi)
    return Instance(planted, loss - 0.5 / problem.lam * float(kept @ kept), {"w": w})


def plant_slack(problem: StructuredSVM, rng: np.random.Generator) -> Instance:
    """``problem`` with other costs, weights and lam, under slack scaling, so that its optimum is known."""
    features = problem.features
    size, truth, lengths = features.n_labels, features.truth, features.lengths
    wrong = (truth + rng.integers(1, size, size=features.n_nodes)) % size
    costs = np.zeros((features.n_nodes, size))
    costs[np.arange(features.n_nodes), wrong] = 1.0
    share = rng.uniform(0.5, 2.0, size=features.n_examples)
    psi = features.joint(truth, share) - features.joint(wrong, share)
    node, edge = features.node_scores(psi), features.edge_scores(psi)
    reach = np.bincount(features.example, weights=np.ptp(node, axis=1), minlength=features.n_examples)
    reach += np.bincount(features.edge_example, weights=_ranges(features, edge), minlength=features.n_examples)
    lam = float(np.max(2.0 * lengths * reach))
    w = psi / lam
    planted = replace(
        problem,
        loss=replace(problem.loss, costs=costs),
        scale=replace(problem.scale, lam=lam),
        weights=share / (problem.scale.C * lengths),
        scaling="slack",
    )
    return Instance(planted, float(share.sum() - 0.5 / lam * (psi @ psi)), {"w": w})


# -- parts -------------------------------------------------------------------------------------------------------------


def _apart(features: PairwiseFeatures, rng: np.random.Generator) -> Flags:
    """Nodes of which no two are neighbours, about half of those that could be taken; (P,)."""
    neighbours: list[list[int]] = [[] for _ in range(features.n_nodes)]
    for u, v in features.edges.tolist():
        neighbours[u].append(v)
        neighbours[v].append(u)
    free = np.zeros(features.n_nodes, dtype=bool)
    for v in rng.permutation(features.n_nodes).tolist():
        free[v] = rng.random() < 0.6 and not free[neighbours[v]].any()
    return free


def _draw(features: PairwiseFeatures, free: Flags, rng: np.random.Generator) -> tuple[Labels, Matrix, Labels]:
    """Labellings (m, P), their shares (m, N), and one wrong label a node (P,), which all of them have where the
    node is fixed. At a free node two labels alternate, of which one may be the true one."""
    size, n = features.n_labels, features.n_nodes
    wrong = (features.truth + rng.integers(1, size, size=n)) % size
    other = (wrong + rng.integers(1, size, size=n)) % size
    labels = np.where(rng.random((SPREAD_LABELLINGS, n)) < 0.5, wrong, other)
    labels[0], labels[1] = wrong, np.where(free, other, wrong)
    return labels, rng.dirichlet(np.ones(SPREAD_LABELLINGS), size=features.n_examples).T, wrong


def _weights(problem: StructuredSVM, labels: Labels, shares: Matrix, active: Labels) -> tuple[Vector, Vector]:
    """w and Psi of alpha_i = C omega_i shares."""
    features, alpha = problem.features, problem.ceiling * shares
    used = np.zeros(problem.n_examples)
    used[active] = problem.ceiling[active]
    psi = features.joint(features.truth, used) - sum(features.joint(row, share) for row, share in zip(labels, alpha))
    return problem.project(psi) / problem.lam, psi


def _ranges(features: PairwiseFeatures, edge: Tensor) -> Vector:
    """range(s_e) of each edge; (Q,)."""
    each = np.ptp(edge.reshape(-1, features.n_labels**2), axis=1)
    return np.broadcast_to(each, (features.n_edges,))


def _costs(
    problem: StructuredSVM, w: Vector, labels: Labels, shares: Matrix, free: Flags, wrong: Labels,
    rng: np.random.Generator,
) -> tuple[Matrix, Flags]:  # fmt: skip
    """The costs (P, S), and at which free nodes some come out negative."""
    features = problem.features
    node, edge = problem.scores(w)
    n, size, truth = features.n_nodes, features.n_labels, features.truth
    at = np.arange(n)
    of_edges = np.zeros(n)
    np.add.at(of_edges, features.edges, _ranges(features, edge)[:, None])
    drawn = rng.uniform(0.0, 1.0, size=(n, size))
    drawn[at, truth] = 0.0
    rest = node + drawn
    rest[at, wrong] = -np.inf
    costs = drawn.copy()
    lead = rest.max(axis=1) - node[at, wrong] + of_edges + LEAST_LEAD * rng.uniform(0.5, 1.5, size=n)
    costs[at, wrong] = np.maximum(lead, LEAST_LEAD)

    given = node.copy()  # g: with the neighbours at their fixed labels
    tables = np.broadcast_to(edge, (features.n_edges, size, size))
    first, second = features.edges.T
    np.add.at(given, first, tables[np.arange(len(first)), :, wrong[second]])
    np.add.at(given, second, tables[np.arange(len(first)), wrong[first], :])
    carrying = np.zeros((n, size), dtype=bool)
    for row in labels:
        carrying[at, row] = True
    with_truth = carrying[at, truth]
    level = np.where(with_truth, given[at, truth], given.max(axis=1) + LEAST_LEAD * rng.uniform(0.5, 1.5, size=n))
    tied = level[:, None] - given  # the cost at which a label ties
    below = np.where(carrying, tied, np.minimum(drawn, 0.5 * tied))
    below[at, truth] = 0.0
    costs[free] = below[free]
    failed = free & (tied.min(axis=1) < 0)
    return costs, failed


def _beyond_the_margin(
    problem: StructuredSVM, w: Vector, examples: Sequence[int], rng: np.random.Generator
) -> StructuredSVM:
    """The examples with the labels that are best at w, and costs too small for a violation."""
    features, size = problem.features, problem.features.n_labels
    node, edge = problem.scores(w)
    first = problem.oracle.best(node, edge)
    second = best_other(problem.oracle, features, node, edge, first.labels)
    here = np.isin(features.example, examples)
    truth = np.where(here, first.labels, features.truth)
    lead = (first.scores - second.scores)[features.example]
    costs = np.where(here[:, None], 0.0, problem.loss.costs)
    # the costs of an example beyond its margin sum to at most 0.8 of its lead over the second best labelling
    share = 0.8 * lead / features.lengths[features.example]
    costs[here] = (share[:, None] * rng.uniform(0.0, 1.0, size=(features.n_nodes, size)))[here]
    costs[np.flatnonzero(here), truth[here]] = 0.0
    return replace(
        problem, features=replace(features, truth=truth), loss=replace(problem.loss, costs=costs, truth=truth)
    )
