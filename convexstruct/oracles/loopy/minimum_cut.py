"""Exact best labellings with two labels and associative pairwise terms, by minimum cut.

An edge's table is associative (its energy submodular) if edge(0, 0) + edge(1, 1) >= edge(0, 1) + edge(1, 0). Then minus
the score is, up to a constant, the Ising energy

    sum_v a_v y_v + sum_e k_e |y_u - y_v|,    k_e = [edge(0, 0) + edge(1, 1) - edge(0, 1) - edge(1, 0)] / 2 >= 0,

and its minimum is a minimum cut between the nodes labelled 0 (source, a_v > 0) and 1 (sink, a_v < 0) (Greig, Porteous,
Seheult 1989; Kolmogorov, Zabih 2004). A flow, one number g_e in [-k_e, k_e] for each edge, gives the bound

    min >= sum_v min(0, a_v - net flow out of v),

which in terms of the tables is `Pairwise.upper` at the messages that `messages` makes of g. The returned bound is
computed in this way from the scores and g, so it is valid however g was found.

**Precision.** `scipy.sparse.csgraph.maximum_flow` takes 32-bit whole numbers. Capacities are divided by a unit, a power
of two chosen so that the greatest quotient is below 2^30, and rounded. The gap between score and bound comes from this
rounding: at most one unit for each node and each edge of the cut. One round leaves a gap of about `ROUNDING` times sum
|a_v| + sum k_e, or less. If a smaller gap is asked for, another round follows: no arc of the residual graph need carry
more than the gap, so capacities are cut off at twice the gap, the unit is reduced by the same factor, and the flow is
increased further. After a second round, which takes about as long as the first, the gap is the rounding of double
precision.

Large graphs start from a flow near the maximum, found by accelerated projected gradient steps on |a - net flow|^2 / 2
(its minimiser is a maximum flow: Chambolle 2004); each step is a few array operations. The maximum flow then starts
from the side, source or sink, of less capacity: fewer of its searches end where nothing more can flow.

Ties: the labelling returned is the smallest (each node's label is the smallest that it has in any best labelling). This
is exact where the scores are multiples of a power of two of at most 30 bits, such as whole numbers; elsewhere it holds
up to rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Labels, Tensor, Vector
from convexstruct.oracles.loopy.pairwise import Pairwise
from convexstruct.tolerances import ROUNDING

#: Capacities stay below 2^BITS: a residual capacity, the sum of two of them, must fit into 32 bits with its sign.
BITS = 30
#: From this number of nodes and edges on, gradient steps first find a flow near the maximum; on smaller graphs
#: computing the maximum flow at once is faster.
GRADIENT_FROM = 20_000
#: How many gradient steps are made: more of them took longer than the maximum flow that follows.
GRADIENT_STEPS = 25
#: A gap below this, relative to the sum of all |a_v| and k_e, is rounding.
NEGLIGIBLE = 2.0**-50


class Cut(NamedTuple):
    """A best labelling of each part.

    scores (N,): its score. labels (P,). upper (N,): an upper bound on the greatest score, equal to it up to rounding.
    flow (Q,): the flow g from the first to the second end of each edge, from which the bound is computed.
    """

    scores: Vector
    labels: Labels
    upper: Vector
    flow: Vector


class _Ising(NamedTuple):
    """minimise a'y + sum_e k_e |y_u - y_v|: a (P,), k (E,) >= 0, pairs u < v in lexicographic order, each once.

    of (Q,): the pair of each of the caller's edges. share (Q,): the edge's share of the pair's k, negative if it runs
    from v to u.
    """

    a: Vector
    u: Index
    v: Index
    k: Vector
    of: Index
    share: Vector

    def rest(self, g: Vector) -> Vector:
        """a less the net flow out of each node; shape (P,)."""
        out = np.bincount(self.u, weights=g, minlength=len(self.a))
        return np.asarray(self.a - out + np.bincount(self.v, weights=g, minlength=len(self.a)))

    def value(self, labels: Labels) -> float:
        return float(self.a @ labels + self.k @ np.abs(labels[self.u] - labels[self.v]))

    def bound(self, rest: Vector) -> float:
        return float(np.minimum(rest, 0.0).sum())


def minimum_cut(scores: Pairwise, tol: float = ROUNDING) -> Cut:
    """The greatest score of each part, a labelling that attains it, and the flow that gives the upper bound. ValueError
    if there are not two labels, or a table is not associative: the first such edge is named.

    The rounds end once the gap of all parts together is at most ``tol`` (sum |a_v| + sum k_e) or no longer halved by a
    round; with 0 they end at the rounding of double precision.
    """
    if scores.n_labels != 2:
        raise ValueError(f"node has {scores.n_labels} labels, wanted 2 for a minimum cut")
    ising = _ising(scores)
    largest = float(max(np.abs(ising.a).max(), ising.k.max(initial=0.0)))
    size = float(np.abs(ising.a).sum() + ising.k.sum())
    large = len(ising.a) + len(ising.k) >= GRADIENT_FROM
    enough = size * max(NEGLIGIBLE, tol)
    g = np.zeros(len(ising.k))
    if large:
        unit = _unit(largest)
        g = np.clip(np.rint(_near_maximum(ising) / unit) * unit, -ising.k, ising.k)
    rest = ising.rest(g)
    labels = np.asarray(rest < 0, dtype=np.int64)
    gap = np.inf
    while True:
        deadline.check()
        before, gap = gap, ising.value(labels) - ising.bound(rest)
        if not enough < gap < before / 2:  # ends also where sums overflowed and the gap is not a number
            break
        unit = _unit(min(largest, 2.0 * gap))
        g = _more_flow(ising, g, rest, 2.0 * gap, unit, prune=large)
        rest = ising.rest(g)
        # nodes from which the sink can still be reached must be labelled 1
        labels = _reached(ising, g, -rest, max(unit, NEGLIGIBLE * largest), -1).astype(np.int64)
        cut = labels[ising.v] - labels[ising.u]
        full = np.where(cut == 0, g, cut * ising.k)  # edges of the cut carry their full capacity
        if ising.bound(filled := ising.rest(full)) > ising.bound(rest):
            g, rest = full, filled
    flow = ising.share * g[ising.of]
    found = scores.score(labels)
    return Cut(found, labels, np.maximum(scores.upper(messages(scores, flow)), found), flow)


def messages(scores: Pairwise, flow: Vector) -> Tensor:
    """The messages (Q, 2, 2) of a flow g (Q,): with them the energy left on each edge is k |y_u - y_v| - g (y_v -
    y_u)."""
    first, second, _ = _coefficients(scores)
    made = np.zeros((scores.n_edges, 2, 2))
    made[:, 0, 1] = flow - first
    made[:, 1, 1] = -flow - second
    return made


def _coefficients(scores: Pairwise) -> tuple[Vector, Vector, Vector]:
    """Energy of each edge's table as first y_u + second y_v + k |y_u - y_v|; each (Q,)."""
    (a, b), (c, d) = scores.edge.transpose(1, 2, 0)
    both, turn = (a - d) / 2, (b - c) / 2
    return both + turn, both - turn, (a + d - b - c) / 2


def _ising(scores: Pairwise) -> _Ising:
    """The Ising energy of the tables; edges between the same two nodes are added up."""
    first, second, k = _coefficients(scores)
    lowest = -ROUNDING * max(1.0, float(np.abs(scores.edge).max(initial=0.0)))
    if (k < lowest).any():
        e = int(np.argmax(k < lowest))
        u, v = scores.edges[e].tolist()
        raise ValueError(
            f"edges[{e}] = ({u}, {v}) is not associative: equal labels score {2 * -k[e]:g} less than unequal ones, "
            "wanted edge(0, 0) + edge(1, 1) >= edge(0, 1) + edge(1, 0) for a minimum cut"
        )
    k = np.maximum(k, 0.0)
    n = scores.n_nodes
    a = scores.node[:, 0] - scores.node[:, 1]
    a += np.bincount(scores.edges[:, 0], weights=first, minlength=n)
    a += np.bincount(scores.edges[:, 1], weights=second, minlength=n)
    low, high = scores.edges.min(axis=1), scores.edges.max(axis=1)
    key, of = np.unique(low * n + high, return_inverse=True)
    total = np.bincount(of, weights=k, minlength=len(key)).astype(np.float64)
    turned = np.where(scores.edges[:, 0] == low, 1.0, -1.0)
    share = turned * np.divide(k, total[of], out=np.zeros_like(k), where=total[of] > 0)
    return _Ising(a, key // n, key % n, total, of.astype(np.intp), share)


def _unit(largest: float) -> float:
    """A power of two such that ``largest`` is less than 2^BITS times it."""
    return float(2.0 ** (np.frexp(largest)[1] - BITS)) if largest > 0 else 1.0


def _near_maximum(ising: _Ising) -> Vector:
    """A flow near the maximum: `GRADIENT_STEPS` accelerated projected gradient steps on |a - net flow|^2 / 2.

    The step of an edge is 1 / (degree of u + degree of v): the inverse of an upper bound on the curvature there.
    """
    n = len(ising.a)
    degree = np.bincount(ising.u, minlength=n) + np.bincount(ising.v, minlength=n)
    step = 1.0 / (degree[ising.u] + degree[ising.v])
    pairs = np.tile(np.arange(len(ising.k)), 2)
    signs = np.repeat([1.0, -1.0], len(ising.k))
    out = sp.csr_array((signs, (np.concatenate((ising.u, ising.v)), pairs)), shape=(n, len(ising.k)))
    g = ahead = np.zeros(len(ising.k))
    least, momentum = -ising.k, 1.0
    for _ in range(GRADIENT_STEPS):
        deadline.check()
        rest = ising.a - out @ ahead
        moved = np.take(rest, ising.u)
        moved -= np.take(rest, ising.v)
        moved *= step
        moved += ahead
        np.minimum(moved, ising.k, out=moved)
        np.maximum(moved, least, out=moved)
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
        ahead = np.subtract(moved, g)
        ahead *= (momentum - 1.0) / following
        ahead += moved
        g, momentum = moved, following
    return g


def _more_flow(ising: _Ising, g: Vector, rest: Vector, most: float, unit: float, prune: bool) -> Vector:
    """``g`` plus a maximum flow in the residual graph, in whole units; capacities are cut off at ``most``.

    ``prune`` leaves out nodes that are not reached from the source or from which the sink is not reached: after a flow
    near the maximum few nodes remain.
    """
    open_nodes = np.arange(len(rest))
    if prune:
        from_source, to_sink = (_reached(ising, g, end * rest, unit, end) for end in (1, -1))
        open_nodes = np.flatnonzero(from_source & to_sink)
    n = len(open_nodes)
    if not n:
        return g
    place = np.full(len(rest), -1)
    place[open_nodes] = np.arange(n)
    edges = np.flatnonzero((place[ising.u] >= 0) & (place[ising.v] >= 0))
    u, v, k, g_open, x = place[ising.u[edges]], place[ising.v[edges]], ising.k[edges], g[edges], rest[open_nodes]

    def whole(capacity: Vector, rounding: np.ufunc = np.floor) -> NDArray[np.int32]:
        return np.asarray(rounding(np.clip(capacity, 0.0, most) / unit), dtype=np.int32)

    source, sink = np.flatnonzero(x > 0), np.flatnonzero(x < 0)
    rows = np.concatenate((u, v, np.full(len(source), n), sink), dtype=np.int32)  # SciPy's index type
    columns = np.concatenate((v, u, source, np.full(len(sink), n + 1)), dtype=np.int32)
    capacity = (whole(k - g_open), whole(k + g_open), whole(x[source], np.rint), whole(-x[sink], np.rint))
    begin, end, sign = n, n + 1, 1.0
    if x.sum() > 0.0:  # from the sink, along arcs turned round
        rows, columns, begin, end, sign = columns, rows, n + 1, n, -1.0
    graph = sp.csr_matrix((np.concatenate(capacity), (rows, columns)), shape=(n + 2, n + 2))
    flow = maximum_flow(graph, begin, end, method="dinic").flow
    tail = np.repeat(np.arange(n + 2), np.diff(flow.indptr))
    inside = (tail < flow.indices) & (flow.indices < n)
    at = np.searchsorted(u * n + v, tail[inside] * n + flow.indices[inside])
    more = g.copy()
    more[edges[at]] += sign * unit * flow.data[inside]
    return np.clip(more, -ising.k, ising.k)


def _reached(ising: _Ising, g: Vector, excess: Vector, unit: float, direction: int) -> Flags:
    """Nodes joined to the nodes with ``excess`` >= unit by a path of arcs with a residual capacity of at least
    ``unit``: paths from those nodes if ``direction`` is 1, paths to them if it is -1; shape (P,)."""
    n = len(excess)
    forward, backward = ising.k - direction * g >= unit, ising.k + direction * g >= unit
    start = np.flatnonzero(excess >= unit)
    tail = np.concatenate((ising.u[forward], ising.v[backward], np.full(len(start), n)), dtype=np.int32)
    head = np.concatenate((ising.v[forward], ising.u[backward], start), dtype=np.int32)
    graph = sp.csr_matrix((np.ones(len(tail)), (tail, head)), shape=(n + 1, n + 1))
    found = np.zeros(n + 1, dtype=bool)
    found[breadth_first_order(graph, n, return_predecessors=False)] = True
    return found[:n]
