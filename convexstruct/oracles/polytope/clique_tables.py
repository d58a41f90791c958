r"""Tables over cliques of variables, and the marginals on which they must agree: the local marginal polytope as index
arrays.

Cliques of one shape form a *group*: one array (n, cards ...), with one row for each clique. An *agreement* says that
two cliques have the same marginal on the variables that they share,

    sum over the rest of left clique k's table = sum over the rest of right clique k's table        for k = 1 .. K,

and the local marginal polytope is {tables >= 0, each sums to its component's scale, all agreements hold}. A *component*
is an example: no agreement joins cliques of different components, so a batch of graphs, such as chains of unequal
lengths, is one `CliqueTables`. The rows of each group are in the order of their components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from convexstruct.arrays import Index, Tensor, Vector
from convexstruct.graphs import Chains
from convexstruct.oracles.blocks import BLOCK

Tables = list[Tensor]
#: A group and the axes of its tables whose marginal agreements refer to.
Port = tuple[int, tuple[int, ...]]
#: For each clique its group, and its row there in each component, (n,).
Places = tuple[tuple[int, Index], ...]


class Side(NamedTuple):
    """One side of an agreement: the group, the axes of its tables that are not summed out (counted without the axis of
    rows, in the same order of variables as on the other side), and the row of each of the K cliques."""

    group: int
    axes: tuple[int, ...]
    rows: Index


class Agreement(NamedTuple):
    """K pairs of cliques that agree on variables with ``cards`` labels; ``component`` (K,) : the component of each
    pair."""

    left: Side
    right: Side
    cards: tuple[int, ...]
    component: Index


@dataclass(frozen=True, eq=False)
class CliqueTables:
    """Groups of clique tables and their agreements.

    Attributes
    ----------
    cards : for each group the number of labels of its variables, axis by axis.
    component : for each group the component of each row, (n,), non-decreasing.
    agreements : which cliques agree on which variables.
    n_components : number of components; every one has a clique.
    """

    cards: tuple[tuple[int, ...], ...]
    component: tuple[Index, ...]
    agreements: tuple[Agreement, ...]
    n_components: int

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each group's array."""
        return tuple((len(rows), *cards) for rows, cards in zip(self.component, self.cards))

    @property
    def n_entries(self) -> int:
        """Numbers in all tables."""
        return sum(prod(shape) for shape in self.shapes)

    @property
    def n_multipliers(self) -> int:
        """Numbers in all agreements."""
        return sum(len(each.component) * prod(each.cards) for each in self.agreements)

    def split(self, flat: Vector) -> Tables:
        """Views of a flat vector (n_entries,), one array for each group."""
        ends = np.cumsum([prod(shape) for shape in self.shapes])
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), self.shapes)]

    def split_multipliers(self, flat: Vector) -> Tables:
        """Views of a flat vector (n_multipliers,), one array (K, cards ...) for each agreement."""
        shapes = [(len(each.component), *each.cards) for each in self.agreements]
        ends = np.cumsum([prod(shape) for shape in shapes])
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes)] if shapes else []

    # -- marginals and their adjoint -----------------------------------------------------------------------------------

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """The different (group, axes) that agreements refer to."""
        sides = (side for each in self.agreements for side in (each.left, each.right))
        return tuple(dict.fromkeys((side.group, side.axes) for side in sides))

    def marginal(self, tables: Tables, group: int, axes: tuple[int, ...]) -> Tensor:
        """The marginals of a whole group on the variables of ``axes``, in that order; (n, cards of axes)."""
        table, cards = tables[group], self.cards[group]
        if axes == tuple(range(len(axes))):  # the last axes are summed out: a product with ones is faster than a sum
            kept = tuple(cards[axis] for axis in axes)
            rest = prod(cards[len(axes) :])
            return np.asarray(table.reshape(len(table) * prod(kept), rest) @ np.ones(rest)).reshape(-1, *kept)
        letters = "abcdefghijklmopqrstuvwxyz"[: len(cards)]  # n is the axis of rows
        return np.asarray(np.einsum(f"n{letters}->n{''.join(letters[axis] for axis in axes)}", table))

    def disagreement(self, tables: Tables) -> Tables:
        """left marginal - right marginal of each agreement; (K, cards ...)."""
        known = {port: self.marginal(tables, *port) for port in self.ports}
        return [
            known[each.left.group, each.left.axes][each.left.rows]
            - known[each.right.group, each.right.axes][each.right.rows]
            for each in self.agreements
        ]

    def spread(self, multipliers: Tables, signs: tuple[float, float] = (1.0, -1.0)) -> list[list[Tensor]]:
        """The adjoint of `disagreement`: for each group the arrays that the multipliers add to its tables, which
        broadcast to their shape. signs : of the multipliers on the left and on the right of their agreement."""
        at = {port: np.zeros((len(self.component[port[0]]), *self.kept(port))) for port in self.ports}
        for each, values in zip(self.agreements, multipliers):
            for side, sign in zip((each.left, each.right), signs):
                _add(at[side.group, side.axes], side.rows, sign * values)
        shifts: list[list[Tensor]] = [[] for _ in self.cards]
        for port, values in at.items():
            shifts[port[0]].append(self.broad(port, values))
        return shifts

    @cached_property
    def uses(self) -> list[list[Tensor]]:
        """How many multipliers `spread` adds up in each entry of its arrays."""
        return self.spread([np.ones((len(each.component), *each.cards)) for each in self.agreements], (1.0, 1.0))

    def kept(self, port: Port) -> tuple[int, ...]:
        """The numbers of labels of a port's variables, in its order."""
        return tuple(self.cards[port[0]][axis] for axis in port[1])

    def part(self, low: int, high: int) -> Block:
        """The components low .. high - 1 alone."""
        rows = [slice(*np.searchsorted(component, (low, high))) for component in self.component]
        pairs = [slice(*np.searchsorted(each.component, (low, high))) for each in self.agreements]

        def cut(side: Side, pair: slice) -> Side:
            return side._replace(rows=side.rows[pair] - rows[side.group].start)

        agreements = tuple(
            Agreement(cut(each.left, pair), cut(each.right, pair), each.cards, each.component[pair] - low)
            for each, pair in zip(self.agreements, pairs)
        )
        component = tuple(each[some] - low for each, some in zip(self.component, rows))
        return Block(CliqueTables(self.cards, component, agreements, high - low), rows, pairs, slice(low, high))

    @cached_property
    def blocks(self) -> list[Block]:
        """All components, cut into parts of about `BLOCK` numbers."""
        entries = np.zeros(self.n_components)
        for component, cards in zip(self.component, self.cards):
            entries += prod(cards) * np.bincount(component, minlength=self.n_components)
        passed = np.cumsum(entries) // BLOCK
        starts = np.flatnonzero(np.diff(passed, prepend=-1.0)) if self.n_components else np.zeros(0, dtype=np.intp)
        return [self.part(int(low), int(high)) for low, high in zip(starts, [*starts[1:], self.n_components])]

    def broad(self, port: Port, values: Tensor) -> Tensor:
        """Values (n, cards of the port's axes, in its order) with axes of length 1 for all others."""
        group, axes = port
        gone = tuple(1 + axis for axis in range(len(self.cards[group])) if axis not in axes)
        return np.expand_dims(values.transpose(0, *(1 + np.argsort(axes))), gone)


class Block(NamedTuple):
    """Some of the components as a structure of their own; its rows of each group, its pairs of each agreement, and its
    components, in the structure of all."""

    structure: CliqueTables
    rows: list[slice]
    pairs: list[slice]
    components: slice

    def of(self, tables: Sequence[Tensor]) -> Tables:
        """The views of its rows, of one array for each group."""
        return [table[rows] for table, rows in zip(tables, self.rows)]

    def between(self, multipliers: Tables) -> Tables:
        """The views of its pairs, of one array for each agreement."""
        return [each[pairs] for each, pairs in zip(multipliers, self.pairs)]


def chain_tables(chains: Chains, n_labels: int, nodes: bool = True) -> CliqueTables:
    """The cliques of a batch of chains, in flat order, one chain after the other: nodes (P, S) and edges (P - N, S, S).

    With ``nodes``, each edge agrees with its two nodes (two agreements, in the order of the edges: left end, right
    end). Without, the maximal cliques alone, as in E.3.1 of paper 2: edges, where neighbouring edges agree on the node
    between them, and the nodes of chains of one position.
    """
    lengths = chains.lengths
    chain_of = np.repeat(np.arange(len(lengths)), lengths)
    has_next = np.ones(len(chain_of), dtype=bool)
    has_next[np.cumsum(lengths) - 1] = False
    left = np.flatnonzero(has_next)
    edge_chain = chain_of[left]
    s = n_labels
    every = np.arange(len(left))
    if nodes:
        agreements = (
            Agreement(Side(1, (0,), every), Side(0, (0,), left), (s,), edge_chain),
            Agreement(Side(1, (1,), every), Side(0, (0,), left + 1), (s,), edge_chain),
        )
        return CliqueTables(((s,), (s, s)), (chain_of, edge_chain), agreements, len(lengths))
    first = np.flatnonzero(np.diff(edge_chain) == 0)
    between = Agreement(Side(1, (1,), first), Side(1, (0,), first + 1), (s,), edge_chain[first])
    alone = np.flatnonzero(lengths == 1)
    return CliqueTables(((s,), (s, s)), (alone, edge_chain), (between,), len(lengths))


def graph_tables(cliques: Sequence[Sequence[int]], cards: Sequence[int], n: int = 1) -> tuple[CliqueTables, Places]:
    """The cliques of one graph, for ``n`` components that share it; and the places of each clique's tables.

    For each set S that is the intersection of two cliques, all cliques that hold S are joined by as few agreements on S
    as are needed beside those on larger sets.

    Parameters
    ----------
    cliques : the variables of each clique, in the order of its table's axes.
    cards : number of labels of each variable.
    """
    shapes = [tuple(cards[v] for v in clique) for clique in cliques]
    kinds = list(dict.fromkeys(shapes))
    of = [kinds.index(shape) for shape in shapes]
    counts = [of.count(kind) for kind in range(len(kinds))]
    position = [of[:c].count(kind) for c, kind in enumerate(of)]
    places = tuple((kind, at + counts[kind] * np.arange(n)) for kind, at in zip(of, position))
    found: dict[tuple[Any, ...], tuple[list[Index], list[Index]]] = {}
    for shared, one, other in _ties([frozenset(clique) for clique in cliques]):
        order = [v for v in cliques[one] if v in shared]
        axes = [tuple(cliques[c].index(v) for v in order) for c in (one, other)]
        key = of[one], axes[0], of[other], axes[1], tuple(cards[v] for v in order)
        left, right = found.setdefault(key, ([], []))
        left.append(places[one][1])
        right.append(places[other][1])
    agreements = []
    for (g, axes, h, others, kept), (left, right) in found.items():
        rows = [np.stack(some, axis=1).ravel() for some in (left, right)]  # component after component
        component = np.repeat(np.arange(n), len(left))
        agreements.append(Agreement(Side(g, axes, rows[0]), Side(h, others, rows[1]), kept, component))
    components = tuple(np.repeat(np.arange(n), count) for count in counts)
    return CliqueTables(tuple(kinds), components, tuple(agreements), n), places


def _ties(cliques: list[frozenset[int]]) -> list[tuple[frozenset[int], int, int]]:
    """Agreements that imply all others, as (S, c, e): the cliques c and e agree on their common variables S."""
    holders: dict[int, list[int]] = {}
    for c, clique in enumerate(cliques):
        for v in clique:
            holders.setdefault(v, []).append(c)
    pairs = {(c, e) for held in holders.values() for i, c in enumerate(held) for e in held[i + 1 :]}
    found: list[tuple[frozenset[int], int, int]] = []
    for shared in sorted({cliques[c] & cliques[e] for c, e in pairs}, key=lambda s: (-len(s), sorted(s))):
        members = sorted(set.intersection(*(set(holders[v]) for v in shared)), key=lambda c: (len(cliques[c]), c))
        tied = nx.Graph()
        tied.add_nodes_from(members)
        tied.add_edges_from((c, e) for larger, c, e in found if shared <= larger)
        first, *others = (min(part, key=members.index) for part in nx.connected_components(tied))
        hub = min((first, *others), key=members.index)
        found += [(shared, hub, other) for other in sorted((first, *others)) if other != hub]
    return found


def _add(target: Tensor, rows: Index, values: Tensor) -> None:
    """target[rows] += values, for rows that may occur more than once."""
    if (np.diff(rows) > 0).all():
        target[rows] += values
    else:
        np.add.at(target, rows, values)
