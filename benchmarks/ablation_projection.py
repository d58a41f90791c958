"""Each mechanism of the search for a box projection, switched off on the instances of `benchmarks/projection.py`; and
of the ascent that projects onto local marginal polytopes, on chains and graphs with 2 to 50 labels.

The times of boxes are those of whole solves, certificate included, of which the search takes a third to a half. Calls
of the ascent are gradient steps, summed over its blocks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import networkx as nx
import numpy as np

from benchmarks.ablation import Mechanism, Study, numbers, options, sizes
from benchmarks.projection import Workload
from convexstruct.arrays import Flags, Tensor, Vector
from convexstruct.families.projection import BoxProjection, BreakpointSearch, MarginalAscent, MarginalProjection
from convexstruct.oracles.polytope import local_polytope
from convexstruct.tolerances import HIGH

#: More than any number of entries.
ALL = 10**9


def _offset(n: int) -> BoxProjection:
    """A simplex so far from m (entries near 1e9) that no double is near enough to the exact multiplier."""
    return BoxProjection.simplex(1e9 + np.random.default_rng([94, n]).normal(size=n))


def _table(rng: np.random.Generator, shape: tuple[int, ...], kind: str, spread: float) -> Tensor:
    """Normal numbers times ``spread``; "ties" : rounded first; "sparse" : nine in ten 0; "forbidden" : three in ten
    -1000 ``spread``."""
    x = rng.normal(size=shape)
    x = np.round(x) if kind == "ties" else np.where(rng.random(shape) < 0.1, x, 0.0) if kind == "sparse" else x
    return spread * (np.where(rng.random(shape) < 0.3, -1e3, x) if kind == "forbidden" else x)


def _chains(n: int, length: int, labels: int, kind: str = "", spread: float = 1.0) -> MarginalProjection:
    rng = np.random.default_rng([95, n, labels])
    edges, nodes = n * (length - 1), n * length
    node, edge = (_table(rng, shape, kind, spread) for shape in ((nodes, labels), (edges, labels, labels)))
    d = rng.uniform(0.3, 3.0, size=edges) if kind == "weighted" else 1.0
    return MarginalProjection.chains([length] * n, edge, None if kind == "edges" else node, d_edge=d)


def _graph(graph: nx.Graph, labels: int, kind: str = "", spread: float = 1.0) -> MarginalProjection:
    """Nodes and edges of a graph; "triples" : every three neighbours along 0, 1, 2, ... too."""
    rng = np.random.default_rng([96, len(graph), labels])
    g = nx.convert_node_labels_to_integers(graph)
    cliques = [*((v,) for v in g), *g.edges, *((v - 2, v - 1, v) for v in range(2, len(g)) if kind == "triples")]
    d = rng.uniform(0.3, 3.0, size=len(cliques)) if kind == "weighted" else 1.0
    return MarginalProjection.graph(cliques, [_table(rng, (labels,) * len(c), kind, spread) for c in cliques], d)


def _even(*arguments: Any, _active: Any = local_polytope._active) -> list[Tensor]:
    return [np.full_like(each, each.max(initial=0.0)) for each in _active(*arguments)]


def _no_restart(momentum: Vector, against: Flags, _pushed: Any = local_polytope._pushed) -> tuple[Vector, Vector]:
    found: tuple[Vector, Vector] = _pushed(momentum, np.zeros_like(against))
    return found


def _cold(
    layout: Any, m: Any, weights: Any, xi: Any, _: Any, slack: Any, _evaluate: Any = local_polytope.evaluate
) -> Any:
    return _evaluate(layout, m, weights, xi, local_polytope.unknown(layout.structure), slack)


MECHANISMS = (
    Mechanism("start from a sample", patches={"box.projection:Box.likely": lambda *_: 0.0}),
    *numbers("box.projection", SMALLEST_SAMPLE=(1 << 15,), BLOCK=(ALL,), NEWTON_STEPS=(-1,)),
)
FAR = (*MECHANISMS, *numbers("box.projection", MOST_SHIFTS=(0,)))
TABLES = (
    Mechanism("diagonal metric", patches={"local_polytope:_active": _even}),
    Mechanism("shorter steps where D is curved", patches={"local_polytope:_curvature": lambda *a: np.zeros(a[-1])}),
    Mechanism("momentum", patches={"local_polytope:_pushed": lambda momentum, _: (np.zeros_like(momentum), momentum)}),
    Mechanism("momentum 0 against the gradient", patches={"local_polytope:_pushed": _no_restart}),
    Mechanism("thresholds of the round before", patches={"local_polytope:evaluate": _cold}),
    *numbers("local_polytope", EARLY_ACCURACY=(0.0,), SUM_ACCURACY=(0.0,)),
    *options(steps=(4, 100)),
)
CACHE = numbers("clique_tables", BLOCK=(ALL,))
ODD = ("ties", "sparse", "forbidden", "weighted")
CHAINS = [
    *sizes(_chains, (200, 8, 2), (60, 8, 10), (20, 8, 26), (5, 8, 50)),
    *sizes(_chains, *((30, 8, 8, kind) for kind in (*ODD, "edges")), (4, 200, 5)),
]
LOOSE = nx.gnm_random_graph(30, 60, seed=3)
GRAPHS = [
    *sizes(_graph, *((nx.grid_2d_graph(a, a), s) for a, s in ((12, 2), (8, 5), (5, 20), (4, 50)))),
    *sizes(_graph, *((nx.gnm_random_graph(n, m, seed=3), 4) for n, m in ((60, 90), (15, 90)))),
    *sizes(_graph, *((LOOSE, 4, kind) for kind in (*ODD, "triples"))),
    *sizes(_graph, (nx.star_graph(30), 4), (nx.complete_graph(10), 2)),
]
EXTREME = [
    build
    for spread in (0.0, 1e-8, 1e8)
    for build in (partial(_chains, 20, 8, 8, spread=spread), partial(_graph, nx.grid_2d_graph(6, 6), 3, spread=spread))
]
KINDS = ("simplex", "capped", "bias", "weighted")

STUDIES = [
    *(
        Study(f"box-{n}", [Workload(kind, n).box for kind in KINDS], BreakpointSearch(), HIGH.gap, MECHANISMS)
        for n in (10_000, 100_000, 1_000_000)
    ),
    Study("box-10000000", [Workload("bias", 10_000_000).box], BreakpointSearch(), HIGH.gap, MECHANISMS),
    Study("box-far", [partial(_offset, 100_000)], BreakpointSearch(), HIGH.gap, FAR),
    Study("tables, many chains", [Workload("chains", 600).chains], MarginalAscent(), 1e-4, CACHE),
    Study("tables, chains", CHAINS, MarginalAscent(), 1e-6, TABLES),
    Study("tables, graphs", GRAPHS, MarginalAscent(), 1e-6, TABLES),
    Study("tables, extreme", EXTREME, MarginalAscent(), 1e-6, TABLES),
]
