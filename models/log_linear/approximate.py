r"""Approximate maximum entropy over the local polytope (paper 4, Approx-Maximum-Entropy; CAMEL), in CVXPY.

    camel            Bethe entropy, where it is concave: at most one cycle in each connected part
    tree_reweighted  the mean entropy over spanning trees, concave on any graph

Both are over beliefs mu_v of nodes and b_uv of pairs that agree. On a graph with cycles such beliefs need not be the
marginals of a distribution, and the entropy is that of none: this is a problem other than that of p*, and its optimum
does not certify p*. theta is minus the multipliers of the moments, or a variable, as in `entropy`.

**Entropies.** With the conditional entropy H(v | u) = -sum b_uv ln (b_uv / mu_u), every entropy here is

    sum_v r_v H(mu_v) + sum over directed edges of rho_{u -> v} H(v | u),       r_v + sum_u rho_{u -> v} = 1,

r, rho >= 0: concave, and DCP as entr and rel_entr. A tree with a root r is r_root = 1 and rho = 1 from each parent to
its child. A cycle walked in one direction has r = 0 and rho = 1, which is its Bethe entropy, the sum over pairs minus
the sum over nodes. A connected graph of more edges than nodes has no such orientation, and its Bethe entropy is not
concave; `camel` refuses it. `tree_reweighted` takes the mean over one breadth-first tree from each node. The entropy of
each tree is at least that of any distribution with these beliefs, because it conditions on less; so this mean is an
upper bound on the entropy.

**Erratum (paper 4, the example).** The right-hand side of (20.17) is printed as 2; the three rows of the slide give
5/3. With either value, and 0 for (20.18), the moments lie on the border of those that distributions have, and theta_11
diverges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Flags, Index
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.features.graphs.factors import Factors
from convexstruct.graphs import starts
from convexstruct.marginals.triplets import Triplets, picks, sums_by
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.log_linear.statement import PAPER, QUADRATIC, Penalised, parameters
from convexstruct.validation.arguments import sentence

#: LaTeX.
BETHE = r"\sum_i H_{\beta_i}(C_i) - \sum_{i,j} H_{\mu_{i,j}}(S_{i,j})"
TREES = r"\sum_v r_v H(\mu_v) + \sum_{u \to v} \rho_{u \to v} H_\beta(v \mid u)"
CONSISTENT = r"\sum_a \beta(a, b) = \mu(b) \quad \text{for every pair, in both directions}"
FORBIDDEN = r"\beta_i[c_i] = 0 \quad \text{where } c_i \text{ is forbidden}"


class Weights:
    """The weights of an entropy: ``root`` is r (n,), ``given`` has rho of the directed edges (u, v)."""

    def __init__(self, n: int) -> None:
        self.root = np.zeros(n)
        self.given: dict[tuple[int, int], float] = {}

    def add_tree(self, graph: nx.Graph, root: int, share: float) -> None:
        """Add the breadth-first tree from ``root`` over its connected part, with weight ``share``."""
        self.root[root] += share
        for parent, child in nx.bfs_edges(graph, root):
            self.given[parent, child] = self.given.get((parent, child), 0.0) + share


def bethe(graph: nx.Graph) -> Weights:
    """The weights of the Bethe entropy: each connected part is a rooted tree, or a cycle walked in one direction with
    trees that hang from it. ValueError if a part has more than one cycle."""
    weights = Weights(len(graph))
    for part in sorted(map(sorted, nx.connected_components(graph))):
        inside = graph.subgraph(part)
        if inside.number_of_edges() < len(part):
            weights.add_tree(inside, part[0], 1.0)
            continue
        if inside.number_of_edges() > len(part):
            raise sentence(
                f"problem has {inside.number_of_edges() - len(part) + 1} independent cycles through variable "
                f"{part[0]}'s part, wanted at most one: its Bethe entropy is not concave; use 'tree_reweighted', or "
                "the double loop"
            )
        cycle = [int(u) for u, _ in nx.find_cycle(inside)]
        for u, v in zip(cycle, cycle[1:] + cycle[:1]):
            weights.given[u, v] = 1.0
        hanging = nx.restricted_view(inside, [], list(zip(cycle, cycle[1:] + cycle[:1])))
        for u in cycle:  # trees that hang from the cycle, away from it
            weights.given |= dict.fromkeys(nx.bfs_edges(hanging, u), 1.0)
    return weights


def spanning_trees(graph: nx.Graph) -> Weights:
    """The weights of the mean over breadth-first trees, one from each node of a connected part."""
    weights = Weights(len(graph))
    for part in nx.connected_components(graph):
        for root in sorted(part):
            weights.add_tree(graph, root, 1.0 / len(part))
    return weights


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Beliefs (n,): nodes first, then pairs u < v, in C order. start, pair : where each node and each pair begins."""

    cards: tuple[int, ...]
    start: Index
    pair: dict[tuple[int, int], int]
    n: int

    @classmethod
    def of(cls, factors: Factors) -> Beliefs:
        for c, scope in enumerate(factors.scopes):
            if not 1 <= len(scope) <= 2:
                raise sentence(
                    f"scopes[{c}] has {len(scope)} variables, wanted 1 or 2 for entropies of nodes and pairs"
                )
        start = starts(factors.cards)
        at, pairs = int(start[-1]), {}
        for u, v in sorted((min(edge), max(edge)) for edge in factors.graph.edges):
            pairs[u, v] = at
            at += factors.cards[u] * factors.cards[v]
        return cls(factors.cards, start, pairs, at)

    def places(self, u: int, v: int) -> Index:
        """The indices of b_uv, (labels of u, labels of v), for u < v and for u > v."""
        first, second = min(u, v), max(u, v)
        size = self.cards[first] * self.cards[second]
        each = np.arange(self.pair[first, second], self.pair[first, second] + size)
        table = each.reshape(self.cards[first], self.cards[second])
        return table if u < v else table.T

    def node(self, v: int) -> Index:
        """The indices of mu_v, (labels of v,)."""
        return np.arange(self.start[v], self.start[v + 1])

    def tables(self, factors: Factors) -> sp.csr_array:
        """Sparse (T, n): picks the tables of all factors from the beliefs, stacked in the order of the factors."""
        columns = [self.node(*scope) if len(scope) == 1 else self.places(*scope).ravel() for scope in factors.scopes]
        return picks(np.concatenate(columns), self.n)

    def agreement(self) -> sp.csr_array:
        """Sparse rows whose products with the beliefs must be 0: for both ends of each pair, the sums of b minus mu."""
        entries, row = Triplets(), 0
        for u, v in self.pair:
            for first, second in ((u, v), (v, u)):
                table = self.places(first, second)
                rows = row + np.arange(len(table))
                entries.add(rows[:, None], table, 1.0)
                entries.add(rows, self.node(first), -1.0)
                row += len(table)
        return entries.matrix((row, self.n))

    def support(self, factors: Factors) -> Flags:
        """The beliefs (n,) that need not be 0: not forbidden, and each label with some label at the other end of every
        pair, and each pair with both of its labels."""
        found = np.ones(self.n, dtype=bool)
        if factors.forbidden is None:
            return found
        found &= np.asarray(self.tables(factors)[np.flatnonzero(factors.forbidden)].sum(axis=0)).ravel() == 0
        left = self.n + 1
        while found.sum() < left:
            left = found.sum()
            for u, v in (*self.pair, *((v, u) for u, v in self.pair)):
                table = self.places(u, v)
                found[self.node(u)] &= found[table].any(axis=1)
                found[table] &= found[self.node(u)][:, None]
        return found

    def entropy(self, beliefs: Any, weights: Weights, support: Flags) -> Any:
        """sum_v r_v H(mu_v) + sum rho H(v | u)."""
        root = np.repeat(weights.root, self.cards)
        some = np.flatnonzero((root > 0) & support[: len(root)])
        value = cp.sum(cp.multiply(root[some], cp.entr(beliefs[some]))) if len(some) else 0.0
        inner, outer, rho = [], [], []
        for (u, v), share in sorted(weights.given.items()):
            table = self.places(u, v)
            inner.append(table.ravel())
            outer.append(np.repeat(self.node(u), table.shape[1]))
            rho.append(np.full(table.size, share))
        if not inner:
            return value
        places = np.concatenate(inner)
        kept = np.flatnonzero(support[places])
        each = cp.rel_entr(beliefs[places[kept]], beliefs[np.concatenate(outer)[kept]])
        return value - cp.sum(cp.multiply(np.concatenate(rho)[kept], each))


@stated(
    "approximate maximum entropy with Bethe entropies, at most one cycle a part",
    PAPER,
    "Approx-Maximum-Entropy, (20.17)-(20.23)",
    optimum="p_bethe*",
)
def camel(problem: MarkovRandomField) -> Formulation:
    r"""Approximate maximum entropy with Bethe entropies (CAMEL):

        max  C M [sum_i H_beta_i(C_i) - sum_ij H_mu_ij(S_ij)] - lam/2 |theta|^2
        s.t. C M sum_i E_beta_i f + lam theta + v = C s                  (20.10), in the example (20.17) and (20.18)
             |v_k| <= l1                                                 ("box")
             sum_a beta(a, b) = mu(b), every pair, both ends             (20.19)-(20.21)
             sum beta_i = 1                                              (20.22)
             beta_i >= 0                                                 (20.23)

    The beliefs of nodes are ours: in print, pairs agree with one another directly. Exact on forests.

    Source: paper 4, Approx-Maximum-Entropy, (20.17)-(20.23). Variables beliefs (n,): nodes, then pairs; theta (d,),
    v (d,); parameters C, lam, l1. Optimum p_bethe*.

    Raises
    ------
    ValueError
        If a part of the graph has more than one cycle, or a factor more than two variables.
    """
    return _over("camel", problem, bethe(problem.factors.graph), BETHE, "paper 4, (20.17)-(20.23)")


@stated(
    "the same with the mean entropy of spanning trees, concave on any graph",
    PAPER,
    "Approx-Maximum-Entropy",
    optimum="p_trw*",
)
def tree_reweighted(problem: MarkovRandomField) -> Formulation:
    r"""Approximate maximum entropy with a tree-reweighted entropy, on any graph: as `camel`, with

        sum_v r_v H(mu_v) + sum_{u -> v} rho_{u -> v} H(v | u)

    for the mean over one breadth-first spanning tree from each node. The optimum p_trw* is not below p*: the entropy of
    each tree is at least that of any distribution with the same beliefs, and beliefs satisfy fewer constraints than
    marginals do. Exact on forests.

    Source: Wainwright, Jaakkola and Willsky (2005), for paper 4's Approx-Maximum-Entropy. Variables and parameters as
    `camel`.

    Raises
    ------
    ValueError
        If a factor has more than two variables.
    """
    return _over("tree_reweighted", problem, spanning_trees(problem.factors.graph), TREES, "tree-reweighted, ours")


def _over(name: str, problem: MarkovRandomField, weights: Weights, shown: str, source: str) -> Formulation:
    of, penalised = Beliefs.of(problem.factors), Penalised(problem)
    support = of.support(problem.factors)
    beliefs = cp.Variable(of.n, name="beliefs")
    features = sp.csr_array(problem.factors.design.T @ of.tables(problem.factors))
    parts, variables, cost = penalised.moments((problem.mass * features) @ beliefs, problem.sums)
    if of.pair:
        parts["20.19-20.21"] = equation(of.agreement() @ beliefs == 0, CONSISTENT)
    each = np.repeat(np.arange(len(of.cards)), of.cards)
    parts["20.22"] = equation(sums_by(each, len(of.cards)) @ beliefs[: len(each)] == 1, r"\sum_{c_i} \beta_i[c_i] = 1")
    parts["20.23"] = equation((beliefs if support.all() else beliefs[np.flatnonzero(support)]) >= 0, r"\beta_i \ge 0")
    if not support.all():
        parts["forbidden"] = equation(beliefs[np.flatnonzero(~support)] == 0, FORBIDDEN)
    quadratic = f" - {QUADRATIC}" if penalised.lam is not None else ""

    def recover(formulation: Formulation) -> Recovered:
        theta, instance = parameters(formulation), penalised.stated()
        return Recovered(instance, {"theta": theta}, instance.witness(theta))

    return Formulation(
        name=name,
        objective=cp.Maximize(penalised.C * (problem.mass * of.entropy(beliefs, weights, support)) - cost),
        objective_latex=rf"\max_\beta\quad C M \Big[ {shown} \Big]{quadratic}",
        parts=parts,
        variables={"beliefs": beliefs, **variables},
        parameters=penalised.parameters,
        source=source,
        recover=recover if nx.is_forest(problem.factors.graph) else None,  # with cycles the optimum is not p*
    )
