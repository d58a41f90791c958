r"""The cases of projections: built backwards from the answer, enumerated over all labellings, and extreme ones.

**Built backwards, boxes.** Choose a* in the box with some entries at a bound, rho, and multipliers alpha (beta) >= 0
for the entries at their lower (upper) bound. With m = a* + (rho s - alpha + beta) / d^2 and z = <s, a*> the KKT
conditions hold, so that a* is the projection and the optimum is 1/2 sum d^2 (a* - m)^2.

**Built backwards, tables.** Choose a* in the local polytope (a mixture of labellings, which has zeros; on loops also a
point that is no such mixture), multipliers xi and lambda, and nu >= 0 where a* = 0. With m = a* + (lambda - sigma - nu)
/ d^2, sigma in each entry the sum of the xi of its agreements, the KKT conditions hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.cases import Case, Instance, seeded
from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.solvers.block_ascent import BlockAscent
from convexstruct.families.projection.solvers.breakpoint_search import BreakpointSearch
from convexstruct.families.projection.tables import MarginalProjection

BOX = "projection onto a box cut by one equality"
TABLES = "projection onto the local marginal polytope"


# -- boxes -------------------------------------------------------------------------------------------------------------


def plant_box(rng: np.random.Generator, n: int, s: Vector, infinite: float = 0.0) -> Instance:
    """A share ``infinite`` of the bounds is infinite; of entries with finite bounds about a third lie at each bound."""
    lower = rng.normal(size=n)
    upper = lower + rng.uniform(0.1, 2.0, size=n)
    lower[rng.random(n) < infinite], upper[rng.random(n) < infinite] = -np.inf, np.inf
    low, high = (np.where(np.isfinite(bound), bound, side) for bound, side in ((lower, upper - 1), (upper, lower + 1)))
    low, high = np.where(np.isfinite(low), low, -1.0), np.where(np.isfinite(high), high, 1.0)
    place = rng.integers(0, 3, size=n)
    a = np.where(place == 0, low, np.where(place == 1, high, low + (high - low) * rng.uniform(0.1, 0.9, size=n)))
    d = rng.uniform(0.3, 3.0, size=n)
    push = rng.exponential(size=n) * ((a == upper).astype(float) - (a == lower))
    m = a + (rng.normal() * s + push) / d**2
    return by_hand(BoxProjection(m, lower, upper, s, float(s @ a), d), a)


def planted_box(seed: int, scale: int = 1) -> Instance:
    rng = np.random.default_rng([51, seed])
    return plant_box(rng, 40 * scale, np.ones(40 * scale))


def planted_signed(rng: np.random.Generator, n: int, signs: Sequence[float], infinite: float) -> Instance:
    return plant_box(rng, n, rng.choice(signs, size=n), infinite)


def stairs(rng: np.random.Generator, z: float, top: float, middle: float) -> Instance:
    """Eight entries each with m = 3, 1 and -1 on a simplex, solved by hand: ``top``, ``middle`` and 0."""
    m = rng.permutation(np.repeat([3.0, 1.0, -1.0], 8))
    return by_hand(BoxProjection.simplex(m, z=z), np.where(m == 3.0, top, np.where(m == 1.0, middle, 0.0)))


def by_hand(problem: BoxProjection, a: Vector) -> Instance:
    """A problem whose answer is known to be a."""
    return Instance(problem, problem.primal({"a": a}), {"a": a})


def corner(rng: np.random.Generator) -> Instance:
    """z is the greatest value of <s, a>: one point is feasible, and every small enough rho is a multiplier."""
    s = rng.choice([-1.0, 2.0], size=12)
    lower, upper = -rng.random(12), rng.random(12)
    a = np.where(s > 0, upper, lower)
    return by_hand(BoxProjection(rng.normal(size=12), lower, upper, s, float(s @ a)), a)


def bias(rng: np.random.Generator) -> BoxProjection:
    """The set Q2 of an SVM with a bias: 0 <= a <= 1/n, sum y a = 0."""
    y = np.where(rng.random(200) < 0.2, 1.0, -1.0)
    return BoxProjection(rng.normal(size=200) / 200, 0.0, 1 / 200, y, 0.0)


planted_signs = seeded(52, planted_signed, 30, (-2.0, -1.0, 0.0, 0.5, 1.0), 0.0)
planted_open = seeded(53, planted_signed, 30, (-1.0, 1.0, 3.0), 0.4)
#: So many entries that the search starts from a sample instead of sorting all breakpoints.
planted_many = seeded(54, planted_signed, 20_000, (-1.0, 1.0), 0.0)


simplex = seeded(55, lambda rng: BoxProjection.simplex(rng.normal(size=50)))
capped = seeded(
    56, lambda rng: BoxProjection.capped_simplex(2.0 * rng.normal(size=25), z=7.0, d=rng.uniform(0.5, 2.0, size=25))
)
single = seeded(
    60, lambda rng: by_hand(BoxProjection(rng.normal(size=1), -2.0, 2.0, -1.5, 0.75, 2.0), np.array([-0.5]))
)
#: The breakpoint rho = 1 gives 2, 0, -2 clipped to 2, 0, 0, whose sum 8 * 2 = 16 is less than 18; rho = 7/8 is right.
ties = seeded(57, stairs, 18.0, 17 / 8, 1 / 8)
#: rho = 1 is a breakpoint shared by a third of the entries.
kink = seeded(58, stairs, 16.0, 2.0, 0.0)


# -- clique tables -----------------------------------------------------------------------------------------------------


def plant_tables(problem: MarginalProjection, a: Vector, rng: np.random.Generator) -> Instance:
    """The same problem with m such that a, a member of the local polytope, is its projection."""
    structure = problem.structure
    multipliers = structure.split_multipliers(rng.normal(size=structure.n_multipliers))
    planted = np.empty(structure.n_entries)
    for target, table, shifts, d in zip(
        structure.split(planted), structure.split(a), structure.spread(multipliers), problem.d
    ):
        column = (-1, *(1,) * (table.ndim - 1))
        lam = rng.normal(size=len(table)).reshape(column)
        nu = rng.exponential(size=table.shape) * (table == 0)
        target[...] = table + (lam - sum(shifts, np.zeros(table.shape)) - nu) / np.square(d).reshape(column)
    instance = replace(problem, m=planted)
    return Instance(instance, instance.primal({"a": a}), {"a": a})


def mixture(problem: MarginalProjection, labellings: Sequence[Sequence[int]], names: Sequence[Sequence[int]]) -> Vector:
    """The tables of the even mixture of ``labellings`` of a graph's variables, in every component; ``names`` are the
    cliques as variables 0, 1, .."""
    a = np.zeros(problem.structure.n_entries)
    views = problem.structure.split(a)
    for labels in labellings:
        for (group, rows), clique in zip(problem.places, names):
            at = np.ravel_multi_index([labels[v] for v in clique], problem.structure.cards[group])
            scale = problem.scale[problem.structure.component[group][rows]]
            views[group].reshape(len(views[group]), -1)[rows, at] += scale / len(labellings)
    return a


def graph(
    seed: Sequence[int], cliques: Sequence[Sequence[int]], cards: Sequence[int], n: int = 1
) -> tuple[MarginalProjection, np.random.Generator]:
    """A graph's cliques with normal tables, weights and scales of their own."""
    rng = np.random.default_rng(list(seed))
    tables = [rng.normal(size=(n, *(cards[v] for v in clique))) for clique in cliques]
    d, scale = rng.uniform(0.5, 2.0, size=len(cliques)), rng.uniform(0.3, 2.0, size=n)
    return MarginalProjection.graph(cliques, tables, d, scale), rng


def planted_tree(seed: int) -> Instance:
    """A junction tree with separators that overlap, three examples; a* is a mixture of three labellings."""
    cliques, cards = [(0, 1, 2), (3, 1, 2), (3, 4), (2, 5)], [2, 2, 3, 2, 3, 2]
    problem, rng = graph([62, seed], cliques, cards, 3)
    return plant_tables(problem, mixture(problem, rng.integers(0, cards, size=(3, 6)).tolist(), cliques), rng)


def planted_loop(seed: int) -> Instance:
    """A triangle; a* has unequal labels at the ends of every edge: it agrees locally, but no distribution has it."""
    cliques = [(0, 1), (1, 2), (2, 0)]
    problem, rng = graph([63, seed], cliques, [2, 2, 2])
    apart = problem.scale[0] * np.array([[0.0, 0.5], [0.5, 0.0]])
    return plant_tables(problem, np.tile(apart.ravel(), 3), rng)


def planted_edges(seed: int) -> Instance:
    """Chains as in E.3.1, with edges alone; a* of every chain is a mixture of two labellings."""
    rng = np.random.default_rng([64, seed])
    lengths, s = [2, 6, 9, 4], 3
    scale = rng.uniform(0.2, 2.0, size=4)
    problem = MarginalProjection.chains(lengths, np.zeros((17, s, s)), scale=scale, d_edge=rng.uniform(0.5, 2, size=17))
    edge = np.zeros((17, s, s))
    start = 0
    for length, z in zip(lengths, scale):
        for labels in rng.integers(0, s, size=(2, length)):
            edge[np.arange(start, start + length - 1), labels[:-1], labels[1:]] += z / 2
        start += length - 1
    return plant_tables(problem, edge.ravel(), rng)


def chains(
    rng: np.random.Generator, lengths: Sequence[int], s: int, size: float, scale: Vector | float
) -> MarginalProjection:
    """Chains with normal node and edge tables."""
    p, q = sum(lengths), sum(lengths) - len(lengths)
    edge, node = size * rng.normal(size=(q, s, s)), size * rng.normal(size=(p, s))
    return MarginalProjection.chains(lengths, edge, node, scale=scale)


enumerated_chains = seeded(66, chains, [4, 1, 3, 2], 3, 1.0, np.array([1.0, 0.1, 0.5, 2.0]))
#: E.1: every example's tables sum to C / N, which is small beside the entries that are projected.
margins = seeded(67, chains, [5, 8, 1, 6, 7, 3], 4, 0.3, 1.0 / 60)


def drawn(number: int, cliques: Sequence[Sequence[int]], cards: Sequence[int], n: int, seed: int) -> Instance:
    return Instance(graph([number, seed], cliques, cards, n)[0])


enumerated_tree = partial(drawn, 65, [(0,), (1, 0), (1, 2, 3), (3,)], [3, 2, 2, 2], 2)
#: A loop of cliques of three variables, each two sharing another pair: agreements that overlap, on a cycle.
triples = partial(drawn, 68, [(0, 1, 2), (1, 2, 3), (2, 3, 0), (0, 1, 3)], [2, 2, 2, 2], 2)
#: Variables of one label only: tables of a single number or row, most of which the equations determine.
one_label = partial(drawn, 69, [(0, 1), (1, 2), (2,)], [1, 1, 2], 1)
#: The edges of a grid of three by three nodes: along the rows, then down the columns.
GRID = [(3 * r + c, 3 * r + c + 1) for r in range(3) for c in range(2)]
GRID += [(3 * r + c, 3 * r + c + 3) for r in range(2) for c in range(3)]
grid = partial(drawn, 70, [*((v,) for v in range(9)), *GRID], [3] * 9, 1)


def letters(seed: int) -> Instance:
    """Words of handwriting: 26 labels, 20 chains."""
    rng = np.random.default_rng([71, seed])
    return seeded(71, chains, rng.integers(3, 12, size=20).tolist(), 26, 0.05, 1.0 / 20)(seed)


#: All cases of the family.
CASES: tuple[Case, ...] = (
    Case("box-planted", BOX, "appendix B", "the optimum is known by construction", planted_box, "box"),
    Case("box-signs", BOX, "appendix B", "known by construction; s negative and 0", planted_signs, "box_dual"),
    Case("box-open", BOX, "appendix B", "known by construction; bounds that are not there", planted_open, "box"),
    Case("box-simplex", BOX, "(27)-(30)", "the simplex; by medians of all breakpoints", simplex, "box",
         solver=BreakpointSearch("medians")),
    Case("box-capped", BOX, "(27)-(30)", "the capped simplex; by sorting", capped, "box_dual",
         solver=BreakpointSearch("sorting")),
    Case("box-ties", BOX, "(30)", "equal entries, solved by hand", ties, "box"),
    Case("box-kink", BOX, "(30)", "the root is a breakpoint of many, solved by hand", kink, "box_dual"),
    Case("box-corner", BOX, "(30)", "one feasible point, many multipliers", seeded(59, corner), "box"),
    Case("box-single", BOX, "(30)", "n = 1, solved by hand", single, "box"),
    Case("box-bias", BOX, "(20), (23), (25)", "the dual's set of an SVM with a bias; the reference by SCS",
         seeded(61, bias), "box", "SCS"),
    Case("box-many", BOX, "appendix B", "20,000 entries: a sample first", planted_many, "box", open=False, quick=False),
    Case("tables-tree", TABLES, "(33)-(36)", "the optimum is known by construction; a junction tree", planted_tree,
         "tables"),
    Case("tables-loop", TABLES, "(33)-(36)", "known by construction; no distribution has these marginals", planted_loop,
         "tables_dual"),
    Case("tables-edges", TABLES, "(37)-(38)", "known by construction; chains, edges alone", planted_edges, "tables"),
    Case("tables-enumerated", TABLES, "E.3", "all labellings of a junction tree", enumerated_tree, "labellings"),
    Case("tables-enumerated-chains", TABLES, "E.3.1", "all labellings of chains of unequal lengths and scales",
         enumerated_chains, "labellings"),
    Case("tables-margins", TABLES, "E.1", "chains with nodes, each summing to C / N", margins, "tables_dual"),
    Case("tables-triples", TABLES, "(33)-(36)", "agreements that overlap and go round", triples, "tables"),
    Case("tables-blocks", TABLES, "Algorithm 3", "chains, by block coordinate ascent", enumerated_chains, "tables",
         solver=BlockAscent()),
    Case("tables-one-label", TABLES, "E.3", "variables of one label", one_label, "tables_dual"),
    Case("tables-grid", TABLES, "E.3", "a grid of three by three, nodes and edges", grid, "tables"),
    Case("tables-letters", TABLES, "E.1", "20 chains, 26 labels", letters, "tables", open=False, quick=False),
)  # fmt: skip
