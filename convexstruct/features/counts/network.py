"""Counts of any Bayesian network with any hidden variables, which may differ from example to example."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.brief import brief
from convexstruct.features.counts.counts import Examples, Expected, example_weights
from convexstruct.graphs import BayesianNetwork, TableLayout, read_bayesian_network
from convexstruct.junction_trees import JunctionTree, junction_tree
from convexstruct.losses import Costs, cost_matrix
from convexstruct.oracles.blocks import BLOCK
from convexstruct.oracles.tree import junction_tree as oracle
from convexstruct.validation.arguments import MOST_ENTRIES, described, refuse, sentence
from convexstruct.validation.arrays import wholes


@dataclass(frozen=True, eq=False)
class HiddenFactor:
    """A conditional distribution that touches hidden variables: it scores theta[base[k] + inner[labels of scope]].

    scope : the hidden variables of the node and its parents, as variables of the group's tree, ascending.
    base : (n,) entry of theta with all hidden variables at 0, for each example of the group.
    inner : (labels of scope[0], ...) what their labels add.
    """

    scope: tuple[int, ...]
    base: Index
    inner: Index


@dataclass(frozen=True, eq=False)
class Group:
    """The examples that hide the same variables, which share one junction tree.

    examples : (n,) the examples. hidden : the hidden nodes' positions, ascending; variable j of the tree is hidden[j].
    places : (n, h) where their labels stand in a flat labelling.
    """

    examples: Index
    hidden: tuple[int, ...]
    places: Index
    tree: JunctionTree
    factors: tuple[HiddenFactor, ...]


@dataclass(frozen=True, eq=False)
class NetworkCounts:
    """Counts of a Bayesian network for K fully observed assignments, with hidden variables that are to be predicted.

    Made by `NetworkCounts.read`. A labelling is flat: example after example, each example's hidden nodes in the
    order in which the graph lists them.

    Attributes
    ----------
    network : the network as index arrays.
    assignments : (K, n_nodes) the observed assignments.
    example : (P,) example of each hidden variable. node : (P,) its node's position.
    costs : cost[true, predicted] of each node, by its position; only nodes that are hidden somewhere.
    groups : examples by hidden set.
    weights : (K,) example weights.
    """

    network: BayesianNetwork
    assignments: Labels
    example: Index
    node: Index
    costs: Mapping[int, Matrix]
    groups: tuple[Group, ...]
    weights: Vector

    __repr__ = brief

    @classmethod
    def read(
        cls,
        graph: nx.DiGraph,
        assignments: ArrayLike | Mapping[Any, ArrayLike],
        hidden: Sequence[Any],
        loss: Costs | Mapping[Any, Costs] = "hamming",
        weights: ArrayLike | None = None,
    ) -> NetworkCounts:
        """Validate assignments and lay them out by hidden set.

        Parameters
        ----------
        graph : a DiGraph with ``states`` on its nodes (see `convexstruct.graphs.read_bayesian_network`).
        assignments : true values of every node: (K, n_nodes) integers, the columns in the order of ``graph.nodes``, or
            a mapping of each node to its column (K,).
        hidden : the nodes to be predicted: one list for all examples, or a list of K lists.
        loss : "hamming", "ring", a cost matrix cost[true, predicted] for nodes of one number of states, a function
            (true, predicted) -> cost, or a mapping that gives each hidden node one of these. The losses of
            the hidden nodes add up.
        weights : (K,) positive weights of the examples (default: one).

        Raises
        ------
        ValueError
            If a value is out of range, a hidden node is not in the graph, an example hides none, a loss is missing,
            negative or not 0 on the truth, or a junction tree is too wide.
        """
        network = read_bayesian_network(graph)
        values = _read_assignments(assignments, network)
        sets, set_of = _read_hidden(hidden, network, len(values))
        costs = _read_costs(loss, network, sorted({v for one in sets for v in one}))
        return lay_out(network, values, sets, set_of, costs, example_weights(weights, len(values)))

    @property
    def tables(self) -> TableLayout:
        return self.network.tables

    @cached_property
    def examples(self) -> Examples:
        truth, worst = self.assignments[self.example, self.node], np.empty(len(self.example))
        for v, cost in self.costs.items():
            here = self.node == v
            worst[here] = cost.max(axis=1)[truth[here]]
        max_loss = np.bincount(self.example, weights=worst, minlength=len(self.weights)).astype(np.float64)
        cards = np.array(self.network.cards, dtype=np.intp)[self.node]
        return Examples(self.weights, truth, self.example, cards, np.ones(len(truth), dtype=bool), max_loss)

    def best(self, theta: Vector, loss_weight: float = 1.0) -> tuple[Vector, Labels]:
        scores = self._observed_scores(theta)
        labels = np.empty(len(self.example), dtype=np.int64)
        for group, rows in self._blocks():
            factors = self._scores(group, rows, theta, loss_weight)
            value, found = oracle.best(group.tree, factors, len(group.examples[rows]))
            scores[group.examples[rows]] += value
            labels[group.places[rows]] = found
        return scores, labels

    def expected(self, theta: Vector, loss_weight: float = 1.0, share: Vector | None = None) -> Expected:
        every = self.weights if share is None else self.weights * share
        log_partition = self._observed_scores(theta)
        counts, loss = self._observed_counts(every), 0.0
        for group, rows in self._blocks():
            examples = group.examples[rows]
            factors = self._scores(group, rows, theta, loss_weight)
            sums = oracle.sum_product(group.tree, factors, len(examples))
            log_partition[examples] += sums.log_partition
            weights = every[examples]
            for factor in group.factors:
                used = _entries(factor, rows)
                share = sums.marginal(factor.scope).reshape(len(examples), -1) * weights[:, None]
                counts += np.bincount(used.ravel(), weights=share.ravel(), minlength=len(counts))
            for j in range(len(group.hidden)):
                loss += float(weights @ (sums.marginal((j,)) * self._loss_table(group, rows, j)).sum(axis=1))
        return Expected(log_partition, counts, loss)

    def counts(self, labels: Labels, share: Vector | None = None) -> Vector:
        weights = self.weights if share is None else self.weights * share
        columns = self._columns(labels)
        rows = np.repeat(weights, columns.shape[1])
        return np.bincount(columns.ravel(), weights=rows, minlength=self.tables.dimension).astype(np.float64)

    def counts_each(self, labels: Labels) -> sp.csr_array:
        columns = self._columns(labels)
        rows = np.repeat(np.arange(len(self.weights)), columns.shape[1])
        shape = (len(self.weights), self.tables.dimension)
        return sp.csr_array(sp.coo_array((np.ones(columns.size), (rows, columns.ravel())), shape=shape))

    def loss(self, labels: Labels) -> Vector:
        each = np.empty(len(self.example))
        for v, cost in self.costs.items():
            here = self.node == v
            each[here] = cost[self.examples.truth[here], labels[here]]
        return np.bincount(self.example, weights=each, minlength=len(self.weights)).astype(np.float64)

    def complete(self, labels: Labels) -> Labels:
        """The assignments (K, n_nodes) with the hidden values replaced by ``labels`` (P,)."""
        full = self.assignments.copy()
        full[self.example, self.node] = labels
        return full

    def _columns(self, labels: Labels) -> Labels:
        """The entry of theta that each node uses; shape (K, n_nodes)."""
        return table_entries(self.network, self.complete(labels))

    @cached_property
    def alternatives(self) -> tuple[Index, ...]:
        """Sets of two or more entries of theta whose counts add up to the same number in every labelling.

        A hidden factor of an example uses exactly one entry of a fixed set, whatever the labels. Sets that overlap are
        merged until no two overlap.
        """
        pairs = [np.zeros((0, 2), dtype=np.intp)]
        for group in self.groups:
            for factor in group.factors:
                entries = np.unique(factor.base)[:, None] + factor.inner.ravel()
                pairs.append(np.stack((np.repeat(entries[:, 0], entries.shape[1]), entries.ravel()), axis=1))
        both = np.concatenate(pairs)
        d = self.tables.dimension
        graph = sp.csr_array(sp.coo_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(d, d)))
        n, of = connected_components(graph, directed=False)
        by_set = np.argsort(of, kind="stable").astype(np.intp)
        cuts = np.searchsorted(of[by_set], np.arange(1, n))
        return tuple(each for each in np.split(by_set, cuts) if len(each) > 1)

    @cached_property
    def observed(self) -> tuple[Index, Index]:
        """(example, entry of theta) of every conditional distribution that touches no hidden variable."""
        hidden = np.zeros(self.assignments.shape, dtype=bool)
        hidden[self.example, self.node] = True
        touched = hidden.copy()
        for v, parents in enumerate(self.network.parents):
            touched[:, v] |= hidden[:, list(parents)].any(axis=1)
        examples, nodes = np.nonzero(~touched)
        return examples, self._columns(self.examples.truth)[examples, nodes].astype(np.intp)

    def _observed_counts(self, weights: Vector) -> Vector:
        examples, entries = self.observed
        counts = np.bincount(entries, weights=weights[examples], minlength=self.tables.dimension)
        return counts.astype(np.float64)

    def _observed_scores(self, theta: Vector) -> Vector:
        examples, entries = self.observed
        return np.bincount(examples, weights=theta[entries], minlength=len(self.weights)).astype(np.float64)

    def _blocks(self) -> Iterator[tuple[Group, slice]]:
        """Each group with the rows of its examples that are worked on at once: `BLOCK` numbers in their tables."""
        for group in self.groups:
            step = max(1, BLOCK // group.tree.n_entries)
            for low in range(0, len(group.examples), step):
                yield group, slice(low, low + step)

    def _loss_table(self, group: Group, rows: slice, j: int) -> Matrix:
        """(n, labels of hidden variable j): its cost against the truth."""
        v = group.hidden[j]
        return np.asarray(self.costs[v][self.assignments[group.examples[rows], v]])

    def _scores(self, group: Group, rows: slice, theta: Vector, loss_weight: float) -> list[oracle.Factor]:
        """The score tables of some examples of a group, as the oracle takes them."""
        n = len(group.examples[rows])
        factors = [(f.scope, theta[_entries(f, rows)].reshape(n, *f.inner.shape)) for f in group.factors]
        if loss_weight:
            factors += [((j,), loss_weight * self._loss_table(group, rows, j)) for j in range(len(group.hidden))]
        return factors


def lay_out(
    network: BayesianNetwork,
    values: Labels,
    sets: list[tuple[int, ...]],
    set_of: Index,
    costs: Mapping[int, Matrix],
    weights: Vector,
) -> NetworkCounts:
    """The feature map of assignments that were read, grouped by hidden set: a junction tree for each.

    values (K, n_nodes). sets : the distinct hidden sets, ascending positions of nodes. set_of (K,) : that of each
    example. costs, weights : as in `NetworkCounts`.
    """
    sizes = np.array([len(one) for one in sets], dtype=np.intp)[set_of]
    first = np.cumsum(sizes) - sizes
    node = np.concatenate([np.array(sets[i], dtype=np.intp) for i in set_of])
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(network.nodes)))
    graph.add_edges_from((u, v) for v, parents in enumerate(network.parents) for u in parents)
    moral = nx.moral_graph(graph)
    groups = []
    by_set = np.argsort(set_of, kind="stable")
    ends = np.searchsorted(set_of[by_set], np.arange(len(sets) + 1))
    for i, one in enumerate(sets):
        examples = by_set[ends[i] : ends[i + 1]]
        places = first[examples][:, None] + np.arange(len(one))
        inside = nx.relabel_nodes(moral.subgraph(one), {v: j for j, v in enumerate(one)})
        tree = junction_tree(inside, [network.cards[v] for v in one])
        groups.append(Group(examples, one, places, tree, _hidden_factors(network, values[examples], one)))
    example = np.repeat(np.arange(len(values)), sizes)
    return NetworkCounts(network, values, example, node, costs, tuple(groups), weights)


def table_entries(network: BayesianNetwork, assignments: Labels) -> Labels:
    """The entry of theta, log P(node | parents), that each node uses; shape of ``assignments``, (K, n_nodes)."""
    entries = np.empty(assignments.shape, dtype=np.int64)
    for v in range(len(network.nodes)):
        family, strides, offset = _family(network, v)
        entries[:, v] = offset + assignments[:, list(family)] @ strides
    return entries


def _family(network: BayesianNetwork, v: int) -> tuple[tuple[int, ...], Labels, int]:
    """(parents and node, their strides in the node's table, where the table starts in theta)."""
    shape = network.tables.shapes[network.table_of[v]]
    strides = np.append(np.cumprod(shape[:0:-1])[::-1], 1).astype(np.int64)
    return (*network.parents[v], v), strides, int(network.tables.offsets[network.table_of[v]])


def _hidden_factors(network: BayesianNetwork, values: Labels, hidden: tuple[int, ...]) -> tuple[HiddenFactor, ...]:
    """The conditional distributions that touch a hidden node, for the assignments ``values`` (n, n_nodes)."""
    variable = {v: j for j, v in enumerate(hidden)}
    factors = []
    for v in range(len(network.nodes)):
        family, strides, offset = _family(network, v)
        inside = sorted((variable[u], int(stride)) for u, stride in zip(family, strides) if u in variable)
        if not inside:
            continue
        base = np.full(len(values), offset, dtype=np.intp)
        for u, stride in zip(family, strides):
            if u not in variable:
                base += values[:, u] * stride
        inner = np.zeros([network.cards[hidden[j]] for j, _ in inside], dtype=np.intp)
        for axis, (_, stride) in enumerate(inside):
            shape = [1] * len(inside)
            shape[axis] = -1
            inner += stride * np.arange(inner.shape[axis]).reshape(shape)
        factors.append(HiddenFactor(tuple(j for j, _ in inside), base, inner))
    return tuple(factors)


def _entries(factor: HiddenFactor, rows: slice) -> Index:
    """The entries of theta that a factor may use; (n, labels of the scope)."""
    return np.asarray(factor.base[rows, None] + factor.inner.ravel())


def by_column(name: str, values: ArrayLike | Mapping[Any, ArrayLike], network: BayesianNetwork) -> Labels:
    """Whole numbers (K, n_nodes), from a table or from a mapping of each node to its column (K,). ValueError if they
    are none, a node has no column, a column no node, or columns differ in length."""
    if not isinstance(values, Mapping):
        return wholes(name, values, ("examples", len(network.nodes)), why="a column a node")
    position = {node: i for i, node in enumerate(network.nodes)}
    for node in values:
        if not _known(node, position):
            raise sentence(f"{name} has a column {described(node)}, which is not a node of the graph")
    columns: list[Labels] = []
    for node in network.nodes:
        if node not in values:
            raise sentence(f"{name} has no column for the node {described(node)}, wanted one for each node")
        length = len(columns[0]) if columns else "examples"
        columns.append(wholes(f"{name}[{described(node)}]", values[node], (length,), why="one value an example"))
    return np.stack(columns, axis=1)


def _read_assignments(assignments: ArrayLike | Mapping[Any, ArrayLike], network: BayesianNetwork) -> Labels:
    array = by_column("assignments", assignments, network)
    bad = (array < 0) | (array >= np.array(network.cards))
    if bad.any():
        k, v = (int(i) for i in np.argwhere(bad)[0])
        raise sentence(
            f"assignments[{k}] gives node {described(network.nodes[v])} the value {array[k, v]}, "
            f"wanted a whole number from 0 to {network.cards[v] - 1}"
        )
    return array


def _read_hidden(
    hidden: Sequence[Any], network: BayesianNetwork, n_examples: int
) -> tuple[list[tuple[int, ...]], Index]:
    """(the distinct hidden sets as ascending positions, the set of each example)."""
    items = _listed("hidden", hidden, "a list of nodes, or one list of nodes for each example")
    if not items:
        raise ValueError("hidden is empty, wanted at least one node to predict")
    position = {node: i for i, node in enumerate(network.nodes)}
    if not all(
        isinstance(item, (list, tuple, set, frozenset, np.ndarray)) and not _known(item, position) for item in items
    ):
        return [_positions("hidden", items, position)], np.zeros(n_examples, dtype=np.intp)
    if len(items) != n_examples:
        raise ValueError(f"hidden holds {len(items)} lists of nodes, wanted one for each of the {n_examples} examples")
    sets: dict[tuple[int, ...], int] = {}
    set_of = np.empty(n_examples, dtype=np.intp)
    for k, item in enumerate(items):
        set_of[k] = sets.setdefault(
            _positions(f"hidden[{k}]", _listed(f"hidden[{k}]", item, "a list of nodes"), position), len(sets)
        )
    return list(sets), set_of


def _listed(name: str, given: Any, wanted: str) -> list[Any]:
    """What a list, set or array of some entries holds."""
    if isinstance(given, str) or not isinstance(given, (Sequence, set, frozenset, np.ndarray)):
        refuse(name, given, wanted)
    if isinstance(given, np.ndarray) and (
        isinstance(given, np.ma.MaskedArray) or given.ndim == 0 or given.size > MOST_ENTRIES
    ):
        refuse(name, given, wanted)
    return list(given)


def _known(item: Any, position: Mapping[Hashable, int]) -> bool:
    """Whether ``item`` is a node."""
    try:
        return item in position
    except Exception:  # any: an object of foreign code that cannot be hashed or compared is no node
        return False


def _positions(name: str, nodes: list[Any], position: Mapping[Hashable, int]) -> tuple[int, ...]:
    """The positions of ``nodes``, ascending; ValueError if there is none, one comes twice or is not in the graph."""
    if not nodes:
        raise ValueError(f"{name} is empty, wanted at least one node to predict")
    for node in nodes:
        if not _known(node, position):
            raise sentence(f"{name} names {described(node)}, which is not a node of the graph")
    places = sorted(position[node] for node in nodes)
    if len(set(places)) < len(places):
        raise ValueError(f"{name} names a node twice, wanted each hidden node once")
    return tuple(places)


def _read_costs(loss: Costs | Mapping[Any, Costs], network: BayesianNetwork, hidden: list[int]) -> dict[int, Matrix]:
    """cost[true, predicted] of each hidden node."""
    if not isinstance(loss, Mapping):
        return {v: cost_matrix(loss, network.cards[v]) for v in hidden}
    position = {node: i for i, node in enumerate(network.nodes)}
    for node in loss:
        if not _known(node, position):
            raise sentence(f"loss names {described(node)}, which is not a node of the graph")
    missing = [network.nodes[v] for v in hidden if network.nodes[v] not in loss]
    if missing:
        raise sentence(
            f"loss has no entry for the hidden node {described(missing[0])}, wanted one for each hidden node"
        )
    return {v: cost_matrix(loss[network.nodes[v]], network.cards[v]) for v in hidden}
