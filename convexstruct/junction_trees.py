"""Junction trees: networkx triangulates and finds the cliques, `JunctionTree` is what message passing runs on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from convexstruct import deadline
from convexstruct.validation.arguments import described, refuse, sentence, whole
from convexstruct.validation.arrays import wholes

#: A clique table of more entries than this is refused.
MOST_CLIQUE_ENTRIES = 1_000_000


@dataclass(frozen=True)
class JunctionTree:
    """A rooted junction tree over the variables 0 .. n - 1; made by `junction_tree`.

    Cliques stand root first, each after its parent. Each variable is *assigned* at the one clique that holds it and is
    nearest to the root. Variables of a separator, and of what a clique assigns, stand last variable first.

    Attributes
    ----------
    cards : number of labels of each variable.
    parent : the parent of each clique; -1 for the root, clique 0.
    separators : for each clique the variables shared with its parent; parts of the graph that are not connected are
        joined by an empty separator.
    assigned : for each clique the variables assigned there.
    """

    cards: tuple[int, ...]
    parent: tuple[int, ...]
    separators: tuple[tuple[int, ...], ...]
    assigned: tuple[tuple[int, ...], ...]

    @property
    def n_cliques(self) -> int:
        return len(self.parent)

    @cached_property
    def cliques(self) -> tuple[tuple[int, ...], ...]:
        """The variables of each clique in the order of its table's axes: separator, then assigned."""
        return tuple(s + a for s, a in zip(self.separators, self.assigned))

    @cached_property
    def home(self) -> tuple[int, ...]:
        """The clique at which each variable is assigned."""
        at = {v: c for c, variables in enumerate(self.assigned) for v in variables}
        return tuple(at[v] for v in range(len(self.cards)))

    @cached_property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(labellings of the separator, labellings of what is assigned) of each clique."""
        return tuple((self.size(s), self.size(a)) for s, a in zip(self.separators, self.assigned))

    @property
    def width(self) -> int:
        """The tree's width: the largest clique's number of variables, less one."""
        return max(len(clique) for clique in self.cliques) - 1

    @property
    def n_entries(self) -> int:
        """Entries of all clique tables."""
        return sum(rows * columns for rows, columns in self.shapes)

    def size(self, variables: Sequence[int]) -> int:
        """Number of joint labels of ``variables``."""
        return math.prod(self.cards[v] for v in variables)

    def clique_of(self, scope: Sequence[int]) -> int:
        """The clique that holds every variable of ``scope``; ValueError if none does."""
        found = self._held.get(tuple(scope))
        if found is None:
            found = max((self.home[v] for v in scope), default=0)
            if not set(scope) <= set(self.cliques[found]):
                raise ValueError(f"scope {tuple(scope)} lies in no clique of the junction tree")
            self._held[tuple(scope)] = found
        return found

    @cached_property
    def _held(self) -> dict[tuple[int, ...], int]:
        """The clique of each scope that `clique_of` was asked for."""
        return {}


def junction_tree(
    graph: nx.Graph,
    cards: Sequence[int],
    limit: int = MOST_CLIQUE_ENTRIES,
    what: str = "the hidden variables' junction tree has a",
    advice: str = "hide fewer variables",
) -> JunctionTree:
    """Triangulate an undirected graph on the nodes 0 .. n - 1 and root its junction tree at the last variable.

    ``what`` and ``advice`` begin and end the sentence that refuses a graph that is too wide.

    Raises
    ------
    ValueError
        If the graph is directed or not on the nodes 0 .. n - 1, ``cards`` are no n whole numbers of at least 1, or the
        largest clique table would have more than ``limit`` entries.
    """
    if not isinstance(graph, nx.Graph) or graph.is_directed() or graph.is_multigraph():
        refuse("graph", graph, "an undirected graph")
    cards = wholes("cards", cards, ("n",), least=1, what="numbers of labels", kinds="iu").tolist()
    whole("limit", limit, least=1)
    if set(graph) != set(range(len(cards))):
        raise sentence(f"graph has other nodes than 0 .. {len(cards) - 1}, wanted one node for each of cards")
    chordal = _triangulated(graph, cards, limit, what, advice)
    cliques = sorted(tuple(sorted(clique, reverse=True)) for clique in nx.chordal_graph_cliques(chordal))
    tree = _clique_tree(cliques)
    position: dict[int, int] = {}
    seen: set[int] = set()
    parent: list[int] = []
    separators: list[tuple[int, ...]] = []
    assigned: list[tuple[int, ...]] = []
    for root in reversed(range(len(cliques))):  # the clique of the last variable first
        if root in position:
            continue
        position[root] = len(parent)
        parent.append(0 if parent else -1)
        for above, node in [(None, root), *nx.bfs_edges(tree, root)]:
            if above is not None:
                position[node] = len(parent)
                parent.append(position[above])
            separators.append(tuple(v for v in cliques[node] if v in seen))
            assigned.append(tuple(v for v in cliques[node] if v not in seen))
            seen.update(cliques[node])
    return JunctionTree(tuple(int(c) for c in cards), tuple(parent), tuple(separators), tuple(assigned))


def _triangulated(graph: nx.Graph, cards: Sequence[int], limit: int, what: str, advice: str) -> nx.Graph:
    """The graph with the edges that make it chordal (maximum cardinality search, "MCS-M": A. Berry, J. Blair, P.
    Heggernes, B. Peyton, Algorithmica 39, 2004), in O(nodes x edges).

    Nodes are numbered from the last to the first. A node and its neighbours that are numbered are a clique of the
    result, so that a graph that is too wide is refused at the first one that has more than ``limit`` joint labels.
    """
    chordal, left = nx.Graph(graph), dict.fromkeys(graph)
    numbered: dict[int, list[int]] = {v: [] for v in graph}  # the neighbours in the result that are numbered
    complete = nx.is_chordal(graph)
    while left:
        z = max(left, key=lambda v: len(numbered[v]))
        del left[z]
        clique = [z, *numbered[z]]
        entries = math.prod(cards[v] for v in clique)
        if entries > limit:
            raise sentence(
                f"{what} clique of {len(clique)} variables (tree width {len(clique) - 1} or more) and "
                f"{described(entries)} joint labels, wanted at most {limit}: {advice}"
            )
        found = [v for v in graph[z] if v in left] if complete else _reached(graph, left, numbered, z)
        for v in found:
            numbered[v].append(z)
        chordal.add_edges_from((z, v) for v in found)
    return chordal


def _reached(graph: nx.Graph, left: dict[int, None], numbered: dict[int, list[int]], z: int) -> list[int]:
    """The nodes of ``left`` to which a path leads from z over nodes of ``left`` with fewer numbered neighbours."""
    deadline.check()
    seen, found = {z}, []
    paths: list[list[int]] = [[] for _ in graph]  # ends of paths, by the most numbered neighbours on them
    for v in graph[z]:
        if v in left:
            seen.add(v)
            found.append(v)
            paths[len(numbered[v])].append(v)
    for most, ends in enumerate(paths):
        while ends:
            for v in graph[ends.pop()]:
                if v in left and v not in seen:
                    seen.add(v)
                    if len(numbered[v]) > most:
                        found.append(v)
                    paths[max(len(numbered[v]), most)].append(v)
    return found


def _clique_tree(cliques: list[tuple[int, ...]]) -> nx.Graph:
    """A spanning tree (of each component) of greatest separators, on the cliques' positions.

    Not `networkx.junction_tree`: that names a separator by its variables, so that two equal ones become one node, which
    may close a cycle.
    """
    holders: dict[int, list[int]] = {}
    for c, clique in enumerate(cliques):
        for v in clique:
            holders.setdefault(v, []).append(c)
    graph = nx.Graph()
    graph.add_nodes_from(range(len(cliques)))
    for together in holders.values():
        for i, j in itertools.combinations(together, 2):
            graph.add_edge(i, j, weight=graph.get_edge_data(i, j, {"weight": 0})["weight"] + 1)
    return nx.maximum_spanning_tree(graph)
