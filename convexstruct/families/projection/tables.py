r"""Projection onto the local marginal polytope of a graph (paper 2, appendix E.3):

    minimise over {a_c}   sum_c d_c^2 / 2 |a_c - m_c|^2
    s.t.                  a_c >= 0, sum of a_c = z for every clique c,
                          a_c and a_c' have the same marginal on the variables that they share.

On a forest, and on any junction tree, these are the clique marginals of distributions over all labellings (times z);
on other graphs the set is larger. It contains the marginals of every distribution. The text of E.1 and E.3 has the
image "satisfy the conditional independence properties encoded by the graphical model", but the distributions with these
properties are no convex set (corrected). One problem holds a batch of components: examples that share a graph
(`graph`), or chains of unequal lengths (`chains`, E.3.1, and what Pragam needs for E.1), each with its scale z.

**Dual.** With multipliers xi of the agreements and x_c = m_c + (the sum of those in each entry of c) / d_c^2

    D(xi) = sum_c min over a_c in z times the simplex of d_c^2 / 2 (|a_c - x_c|^2 - |x_c|^2 + |m_c|^2),          (34)

a lower bound for every xi; each minimum is a projection onto a simplex (appendix B), attained at (33). (The dual in the
paper is also over the multipliers of the sums and of a >= 0; here it is maximised over these, which is (36).)

**Points** are flat: {"a": (n_entries,)}, the groups of `CliqueTables` one after the other; `tables` reads them.
**Dual witness.** {"xi": (n_multipliers,)}, the structure's agreements one after the other. Every finite one is valid.

**Allowance** (`tables_rounding`). P: the rounding of its sums, and the rise of P where nonnegative tables are changed
until they agree exactly. D: the rounding of its sums, and of the tables at which the Lagrangian is least.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Point, Tensor, Vector
from convexstruct.brief import brief
from convexstruct.families.projection.tables_rounding import lower_bound, upper_bound
from convexstruct.graphs import chains
from convexstruct.oracles.polytope.clique_tables import Block, CliqueTables, Places, Tables, chain_tables, graph_tables
from convexstruct.oracles.polytope.feasible_tables import feasible_tables
from convexstruct.oracles.polytope.local_polytope import Weights, read_weights
from convexstruct.rounding import Rounded, gamma, total
from convexstruct.validation.arguments import cut, described, mapping, sentence, sequence, whole
from convexstruct.validation.arrays import frozen, real


@dataclass(frozen=True, eq=False)
class MarginalProjection:
    """Project clique tables onto the local marginal polytope; made by `graph` or `chains`.

    Attributes
    ----------
    structure : the cliques, group by group, and what they agree on.
    m : (n_entries,) what is projected, flat.
    d : for each group the weights d_c of its cliques, (n,), positive.
    scale : (n_components,) z of each component, positive.
    names : of each group's tables: "node" and "edge" for chains, else such as "tables of (2, 3) labels".
    places : of each clique of a graph: its group, and its row there in each component.
    """

    structure: CliqueTables
    m: Vector
    d: tuple[Vector, ...]
    scale: Vector
    names: tuple[str, ...]
    places: Places = ()
    family: ClassVar[str] = "projection"

    __repr__ = brief

    @classmethod
    def graph(
        cls,
        cliques: Sequence[Sequence[Hashable]],
        m: Sequence[ArrayLike],
        d: ArrayLike = 1.0,
        scale: ArrayLike = 1.0,
    ) -> MarginalProjection:
        """The cliques of one graph, perhaps for several examples that share it.

        Parameters
        ----------
        cliques : the variables of each clique, in the order of its table's axes.
        m : a table a clique, (labels of its variables ...); for n examples (n, labels ...) in every clique.
        d : one number, or one a clique. scale : one number, or one an example.

        Raises
        ------
        ValueError
            If a table does not fit its clique, two tables give a variable different numbers of labels, a number is not
            finite, or a weight or scale is not positive.
        """
        given = sequence("cliques", cliques, "a list of at least one clique", least=1)
        named = [
            tuple(each if isinstance(each, str) else sequence(f"cliques[{c}]", each, "a list of variables"))
            for c, each in enumerate(given)
        ]
        m = sequence("m", m, "one table a clique", length=len(named))
        for c, clique in enumerate(named):
            for v in clique:
                if not _is_name(v):
                    raise sentence(f"cliques[{c}] holds {described(v)}, wanted names or numbers of variables")
        order = {v: i for i, v in enumerate(dict.fromkeys(v for clique in named for v in clique))}
        tables = [real(f"m[{c}]", table) for c, table in enumerate(m)]
        batched = tables[0].ndim == len(named[0]) + 1
        n = len(tables[0]) if batched else 1
        cards: dict[Hashable, int] = {}
        for c, (clique, table) in enumerate(zip(named, tables)):
            if not clique or len(set(clique)) != len(clique):
                raise sentence(f"cliques[{c}] is {cut(str(clique))}, wanted at least one variable, each once")
            shape = table.shape[1:] if batched else table.shape
            if len(shape) != len(clique) or 0 in table.shape or (batched and len(table) != n):
                rows = f"({n}, " if batched else "("
                wanted = f"{rows}one axis for each of {cut(str(clique))})"
                raise ValueError(f"m[{c}] has shape {table.shape}, wanted {wanted}")
            for v, card in zip(clique, shape):
                if cards.setdefault(v, card) != card:
                    raise ValueError(f"m[{c}] gives {v!r} {card} labels, an earlier table gives it {cards[v]}")
        indices = [tuple(order[v] for v in clique) for clique in named]
        structure, places = graph_tables(indices, [cards[v] for v in order], n)
        flat = np.empty(structure.n_entries)
        each = _positive("d", d, len(named), "cliques")
        d_rows = [np.empty(len(rows)) for rows in structure.component]
        views = structure.split(flat)
        for (group, at), table, weight in zip(places, tables, each):
            views[group][at] = table if batched else table[None]
            d_rows[group][at] = weight
        names = tuple(f"tables of {cards} labels" for cards in structure.cards)
        return cls(structure, flat, tuple(d_rows), _positive("scale", scale, n, "components"), names, places)

    @classmethod
    def chains(
        cls,
        lengths: ArrayLike,
        edge: ArrayLike,
        node: ArrayLike | None = None,
        d_edge: ArrayLike = 1.0,
        d_node: ArrayLike = 1.0,
        scale: ArrayLike = 1.0,
        n_labels: int | None = None,
    ) -> MarginalProjection:
        """A batch of chains of unequal lengths.

        Parameters
        ----------
        lengths : positions of each chain.
        edge : (Q, S, S), the pairs of neighbours, chain after chain; label before, label after.
        node : (P, S), the positions, chain after chain. Without it the cliques are those of E.3.1: edges alone, and
            every chain must have at least two positions.
        d_edge, d_node : one number, or one a table. scale : one number, or one a chain.
        n_labels : S; only needed where there is no table.

        Raises
        ------
        ValueError
            If a shape does not fit, a number is not finite, or a length, weight or scale is not positive.
        """
        layout = chains(lengths)
        q = layout.n_positions - layout.n_chains
        tables = real("edge", edge)
        if n_labels is None and tables.ndim != 3:
            raise sentence(f"edge has shape {tables.shape}, wanted ({q}, S, S): a table for each pair of neighbours")
        s = tables.shape[-1] if n_labels is None else whole("n_labels", n_labels, least=1)
        if tables.shape != (q, s, s):
            raise ValueError(
                f"edge has shape {tables.shape}, wanted ({q}, {s}, {s}): a table for each pair of neighbours"
            )
        if node is None and (layout.lengths < 2).any():
            raise ValueError("lengths has a chain of 1 position, wanted node tables too, or at least 2 positions")
        nodes = np.zeros((0, s)) if node is None else real("node", node)
        if node is not None and nodes.shape != (layout.n_positions, s):
            raise ValueError(
                f"node has shape {nodes.shape}, wanted ({layout.n_positions}, {s}): a table for each position"
            )
        structure = chain_tables(layout, s, nodes=node is not None)
        weights = (_positive("d_node", d_node, len(nodes), "nodes"), _positive("d_edge", d_edge, q, "edges"))
        return cls(
            structure, np.concatenate((nodes.ravel(), tables.ravel())), weights,
            _positive("scale", scale, layout.n_chains, "components"), ("node", "edge"),
        )  # fmt: skip

    # -- tables --------------------------------------------------------------------------------------------------------

    def tables(self, point: Any) -> dict[str, Tensor]:
        """The tables of a point by name, one array (n, labels ...) a group."""
        return dict(zip(self.names, self.structure.split(self.as_point(point)["a"])))

    def clique(self, point: Any, c: int) -> Tensor:
        """The table of clique ``c`` of `graph`, (n_components, labels ...), axes as it was given."""
        group, rows = self.places[c]
        return self.structure.split(self.as_point(point)["a"])[group][rows]

    @property
    def weights(self) -> Weights:
        """d_c^2 and z_c of every clique."""
        return read_weights(self.structure, self.d, self.scale)

    @cached_property
    def trivial_value(self) -> float:
        """sum_c d_c^2 / 2 (|m_c|^2 + |u_c|^2), u_c the uniform table of sum z.

        The first term is the objective at a = 0, the second that at uniform tables for m = 0: a unit for gaps that is
        not 0 where m is feasible and the optimum 0.
        """
        with np.errstate(over="ignore"):
            total = 0.0
            for table, d, component in zip(self.groups, self.d, self.structure.component):
                rows = table.reshape(len(table), prod(table.shape[1:]))
                uniform = np.square(self.scale[component]) / max(rows.shape[1], 1)
                total += 0.5 * float(np.square(d) @ (np.einsum("ij,ij->i", rows, rows) + uniform))
            return total or 1.0

    def trivial(self) -> tuple[Point, Point]:
        """Uniform tables, and xi = 0."""
        a = np.empty(self.structure.n_entries)
        for table, component in zip(self.structure.split(a), self.structure.component):
            level = self.scale[component] / max(prod(table.shape[1:]), 1)
            table[:] = level.reshape(-1, *(1,) * (table.ndim - 1))
        return {"a": a}, {"xi": np.zeros(self.structure.n_multipliers)}

    # -- primal --------------------------------------------------------------------------------------------------------

    def as_point(self, value: Any) -> Point:
        """Read a: flat (n_entries,), under "a", or a mapping of the groups' names to their arrays."""
        if isinstance(value, Mapping) and set(value) == set(self.names) and "a" not in value:
            shapes = dict(zip(self.names, self.structure.shapes))
            parts = [
                real(f"point[{name!r}]", value[name], shape, finite=False, keep=False) for name, shape in shapes.items()
            ]
            value = np.concatenate([part.ravel() for part in parts])
        elif isinstance(value, Mapping):
            value = mapping("point", value, {"a"}, otherwise=f" or {' and '.join(self.names)}")["a"]
        return {"a": real("a", value, (self.structure.n_entries,), finite=False, keep=False)}

    def primal(self, point: Point) -> Rounded:
        """sum_c d_c^2 / 2 |a_c - m_c|^2, with its allowance; infinite where an entry is below 0."""
        tables = self.structure.split(point["a"])
        with np.errstate(all="ignore"):
            return total([upper_bound(*self._of(block), block.of(tables)) for block in self.structure.blocks])

    def _of(self, block: Block) -> tuple[CliqueTables, Tables, Tables, Vector]:
        """Structure, m, d and scale of some components."""
        return block.structure, block.of(self.groups), block.of(self.d), self.scale[block.components]

    def residuals(self, point: Point) -> Mapping[str, float]:
        """How far the tables are from simplices and from agreement, relative to the component's z; 0 where that is only
        rounding, which the allowance of P covers."""
        tables = self.structure.split(point["a"])
        low = off = apart = 0.0
        for table, component in zip(tables, self.structure.component):
            rows, z = table.reshape(len(table), prod(table.shape[1:])), self.scale[component]
            low = max(low, float(np.max(-rows.min(axis=1, initial=0.0) / z, initial=0.0)))
            off = max(off, float(np.max(np.abs(rows.sum(axis=1) / z - 1.0), initial=0.0)))
        for each, agreement in zip(self.structure.disagreement(tables), self.structure.agreements):
            size = np.abs(each).reshape(len(each), prod(each.shape[1:])).max(axis=1, initial=0.0)
            apart = max(apart, float(np.max(size / self.scale[agreement.component], initial=0.0)))
        rounded = 2.0 * gamma(max(map(prod, self.structure.cards), default=1) + 4)
        off, apart = (0.0 if each <= rounded else each for each in (off, apart))
        return {"a below 0": low, "tables that do not sum to z": off, "marginals that disagree": apart}

    def repair(self, point: Point) -> Point:
        """Tables of the local marginal polytope near the point; see `convexstruct.oracles.polytope.feasible_tables`."""
        a = np.empty(self.structure.n_entries)
        whole, given = self.structure.split(a), self.structure.split(np.nan_to_num(point["a"]))
        for block in self.structure.blocks:
            scale = self.scale[block.components]
            for target, table in zip(block.of(whole), feasible_tables(block.structure, block.of(given), scale)):
                target[...] = table
        return {"a": a}

    # -- dual ----------------------------------------------------------------------------------------------------------

    def dual(self, dual_point: Point) -> Rounded:
        """D(xi) with its allowance, a lower bound for every finite xi; -inf for others."""
        xi = self._read_dual(dual_point)
        if not np.isfinite(xi).all():
            return Rounded(-np.inf)
        with np.errstate(all="ignore"):
            multipliers = self.structure.split_multipliers(xi)
            return total([lower_bound(*self._of(block), block.between(multipliers)) for block in self.structure.blocks])

    @property
    def groups(self) -> Tables:
        """m, one array a group."""
        return self.structure.split(self.m)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """Every finite xi is feasible."""
        return {} if np.isfinite(self._read_dual(dual_point)).all() else {"xi not finite": np.inf}

    def _read_dual(self, dual_point: Point) -> Vector:
        xi = mapping("dual_point", dual_point, {"xi"})["xi"]
        return real("dual_point['xi']", xi, (self.structure.n_multipliers,), finite=False, keep=False)

    def predict(self, point: Any, examples: Any = None) -> list[Vector]:
        """Refused: a projection learns nothing from examples; its answer is the point itself.

        Raises
        ------
        ValueError
            Always; every other family predicts the labels of examples here.
        """
        raise sentence(
            "a MarginalProjection has no prediction: it learns nothing from examples, its answer is the point"
        )


def _is_name(value: Any) -> bool:
    """Whether this can name a variable: text, a finite number, or a tuple or set that can be hashed."""
    if isinstance(value, (float, np.floating)):
        return math.isfinite(value)
    if isinstance(value, np.timedelta64) or not isinstance(value, (str, int, np.integer, tuple, frozenset)):
        return False
    try:
        return hash(value) is not None
    except TypeError:
        return False


def _positive(name: str, value: ArrayLike, n: int, of: str) -> Vector:
    array = real(name, value, (), (n,), positive=True, why=f"one for each of the {of}")
    return frozen(np.broadcast_to(array, (n,)))
