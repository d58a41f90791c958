r"""Learning the structure of a Bayesian network from complete data: hill climbing by BIC or BDeu.

Both scores of a graph are sums over its families, a node i with its parents. N rows; i has r_i states and its parents
q_i joint ones; N_ijk rows show state k of i with state j of the parents, N_ij of them in all. With natural logarithms

    BIC  = sum_i [ sum_jk N_ijk ln(N_ijk / N_ij) - q_i (r_i - 1) / 2 ln N ],                        (Schwarz 1978)
    BDeu = sum_i sum_j [ lnG(a_ij) - lnG(a_ij + N_ij) + sum_k (lnG(a_ijk + N_ijk) - lnG(a_ijk)) ],
           a_ijk = a / (r_i q_i), a_ij = a / q_i, lnG = ln Gamma,             (Buntine 1991; Heckerman and others 1995)

the first an approximation to, the second the logarithm of, the probability of the data given the graph, under a
Dirichlet prior that is worth ``a`` rows. Graphs that imply the same independences have equal scores.

Hill climbing starts without edges and takes, while one raises the score, the single change that raises it most: an edge
added, removed, or turned round, no cycle closed and no node with more parents than allowed. What a change adds to the
score is known from the families that it touches; a family's score is computed once.

It ends at a local maximum: no single change is better. The best graph is hard to find (NP-hard for two parents or more:
Chickering 1996), so another graph may be better.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import networkx as nx
import numpy as np
import scipy
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import Flags, Labels, Matrix, Tensor
from convexstruct.graphs import read_bayesian_network
from convexstruct.validation.arguments import choice, described, number, sentence, sequence, sized, whole
from convexstruct.validation.arrays import wholes

SCORES = ("bic", "bdeu")
#: Changes of the score below this share of the largest family's score are rounding: they are ties, or no gain.
SCORE_ROUNDING = 1e-11


def learned_network(
    assignments: ArrayLike,
    nodes: Sequence[Hashable] | None = None,
    *,
    score: str = "bic",
    max_parents: int = 2,
    rows_of_prior: float = 1.0,
    states: Sequence[int] | None = None,
) -> nx.DiGraph:
    """A Bayesian network at a local maximum of ``score``, by hill climbing from the graph without edges.

    Of changes that raise the score equally the first is taken, in the order: added, removed, turned round; then by
    number of the edge's start, then of its end. So the result depends on the order of the columns, not on that of rows.

    Parameters
    ----------
    assignments : (N, n) whole numbers from 0, one row an example, one column a node; N at least 2.
    nodes : (n,) names of the columns; their numbers, if None.
    score : "bic" or "bdeu".
    max_parents : the most parents of a node.
    rows_of_prior : a, the equivalent sample size of BDeu, in rows. BIC does not read it.
    states : (n,) number of states of each column; one more than its largest value, if None.

    Returns
    -------
    The graph with ``states`` on its nodes, in the order of the columns: as `GenerativeMargin.network` reads it.

    Raises
    ------
    ValueError
        If ``assignments`` is no such table, or has one row; a column is constant and ``states`` does not say that it
        need not be; ``max_parents`` is negative; or another argument is not as above.
    """
    table = Families(assignments, nodes, score, rows_of_prior, states)
    most, n = whole("max_parents", max_parents, least=0), len(table.nodes)
    parents = np.zeros((n, n), dtype=bool)  # [i, j]: an edge from i to j
    change = table.changes(parents, range(n))
    least = SCORE_ROUNDING * np.abs(table.alone).max()
    while True:
        deadline.check()
        gains = _gains(parents, change, most)
        best = gains.max()
        if not best > least:
            return table.graph(parents)
        kind, i, j = (int(each) for each in np.argwhere(gains >= best - least)[0])
        parents[i, j] = kind == 0
        parents[j, i] = kind == 2
        for each in (j, i) if kind == 2 else (j,):
            change[:, each] = table.changes(parents, (each,))[:, each]


def network_score(
    graph: nx.DiGraph,
    assignments: ArrayLike,
    *,
    score: str = "bic",
    rows_of_prior: float = 1.0,
) -> float:
    """BIC or BDeu of a network, in nats; the greater, the better.

    Parameters
    ----------
    graph : a directed acyclic graph with ``states`` on its nodes.
    assignments : (N, n) as in `learned_network`, columns in the order of the graph's nodes.
    score, rows_of_prior : as there.

    Raises
    ------
    ValueError
        If the graph or the table is not as above, or they do not fit each other.
    """
    network = read_bayesian_network(graph)
    table = Families(assignments, network.nodes, score, rows_of_prior, network.cards)
    return float(sum(table.score(i, parents) for i, parents in enumerate(network.parents)))


class Families:
    """The scores of families (a node with its parents) of one table; arguments as in `learned_network`."""

    def __init__(
        self,
        assignments: ArrayLike,
        nodes: Sequence[Hashable] | None,
        score: str,
        rows_of_prior: float,
        states: Sequence[int] | None,
    ) -> None:
        rows = wholes("assignments", assignments, ("N", "n"), least=0)
        n = rows.shape[1]
        if len(rows) < 2:
            raise sentence("assignments has 1 row, wanted at least 2")
        self.nodes = tuple(range(n) if nodes is None else sequence("nodes", nodes, "a list of names", length=n))
        if len(set(self.nodes)) < n:
            raise sentence(f"nodes has {len(set(self.nodes))} different names, wanted {n}: one a column")
        cards = rows.max(axis=0) + 1 if states is None else wholes("states", states, (n,), least=1, why="one a column")
        for i, node in enumerate(self.nodes):
            if rows[:, i].max() >= cards[i]:
                raise sentence(
                    f"assignments holds {rows[:, i].max()} for node {described(node)}, wanted less than its "
                    f"{cards[i]} states"
                )
            if states is None and rows[:, i].min() == rows[:, i].max():
                raise sentence(
                    f"assignments is {rows[0, i]} in all rows of node {described(node)}, wanted two values or more, or "
                    f"states= to say how many there are"
                )
        self._bic = choice("score", score, SCORES) == "bic"
        self._prior = number("rows_of_prior", rows_of_prior, above=0)
        self._cards = [int(card) for card in cards]
        self._columns: Labels = np.ascontiguousarray(rows.T)
        self._known: dict[tuple[int, frozenset[int]], float] = {}
        self.alone = np.array([self.score(i, ()) for i in range(n)])

    def score(self, node: int, parents: Sequence[int] | frozenset[int]) -> float:
        """The part of BIC or BDeu that belongs to ``node`` with these parents."""
        key = node, frozenset(parents)
        if key not in self._known:
            self._known[key] = self._computed(node, sorted(key[1]))
        return self._known[key]

    def _computed(self, node: int, parents: Sequence[int]) -> float:
        r, q = self._cards[node], 1
        at = np.zeros(self._columns.shape[1], dtype=np.int64)
        for parent in parents:
            q *= self._cards[parent]
            sized("max_parents", len(parents), q * r)
            at = at * self._cards[parent] + self._columns[parent]
        counts = np.bincount(at * r + self._columns[node], minlength=q * r).reshape(q, r).astype(np.float64)
        total = counts.sum(axis=1)
        if self._bic:
            likelihood = scipy.special.xlogy(counts, counts).sum() - scipy.special.xlogy(total, total).sum()
            return float(likelihood - 0.5 * q * (r - 1) * np.log(len(at)))
        of_state, of_parents = self._prior / (r * q), self._prior / q
        return float(_rising(of_state, counts) - _rising(of_parents, total))

    def changes(self, parents: Flags, nodes: Sequence[int] | range) -> Matrix:
        """(n, n): what adding i as a parent of j, or removing it where it is one, adds to the score; j in ``nodes``."""
        n = len(parents)
        found = np.zeros((n, n))
        for j in nodes:
            now = frozenset(np.flatnonzero(parents[:, j]).tolist())
            for i in range(n):
                if i != j:
                    found[i, j] = self.score(j, now ^ {i}) - self.score(j, now)
        return found

    def graph(self, parents: Flags) -> nx.DiGraph:
        """The graph with these edges."""
        graph = nx.DiGraph()
        graph.add_nodes_from((node, {"states": card}) for node, card in zip(self.nodes, self._cards))
        graph.add_edges_from((self.nodes[i], self.nodes[j]) for i, j in np.argwhere(parents))
        return graph


def _rising(a: float, counts: Tensor) -> float:
    """sum of lnG(a + N) - lnG(a) over the counts N, by the Beta function: exact where a is far above N, too."""
    used = counts[counts > 0]  # others add 0
    return float((scipy.special.gammaln(used) - scipy.special.betaln(a, used)).sum())


def _gains(parents: Flags, change: Matrix, most: int) -> Tensor:
    """(3, n, n): what adding, removing or turning round the edge i -> j adds to the score; -inf where it may not be."""
    n = len(parents)
    reach = np.eye(n, dtype=bool)  # [i, j]: a path from i to j, of no edge or more
    for _ in range(n.bit_length()):
        step = (reach | parents).astype(np.int64)
        reach = step @ step > 0
    full = parents.sum(axis=0) >= most
    ways = parents.astype(np.int64) @ reach.astype(np.int64)  # [i, j]: children of i from which a path leads to j
    added = np.where(parents | reach.T | full[None, :], -np.inf, change)
    removed = np.where(parents, change, -np.inf)
    turned = np.where(parents & (ways == 1) & ~full[:, None], change + change.T, -np.inf)
    return np.stack((added, removed, turned))
