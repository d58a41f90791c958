r"""Without a penalty: parameters in an orthonormal basis of the span of the features, and what the lower bound covers.

Let the rows of D (r, d) be the features of the places where a model computes scores D theta, and let e (r,) hold, at
each place, the truth less what a distribution q expects there. Then <g, theta> = e'D theta for g = D'e, and by Fenchel

    P(theta) >= H(q) - <g, theta>        for every theta and every q.

**Theorem.** Let B = D T have full column rank, |B u| >= s |u| for every u. Then for all theta = T u whose scores D
theta are at most ρ = `REACH_NATS` in magnitude,

    <g, theta> = e'B u <= |B'e| |u| <= |B'e| |B u| / s <= (ρ sqrt(r) / s) |B'e|,

and so P(theta) >= H(q) - (ρ sqrt(r) / s) |B'e|. With D = Q R and T = R^-1, s is 1 and B'e is R^-T g. Where the rank of
D is that of B, every theta is T u plus a change that moves no score: none is left out. The columns of B here have
squares of mean 1, so that s is nearly sqrt(r), and the price nearly ρ |B'e|. A model with several blocks of weights for
the same features, one a label, pays for each block.

Bounded is thus P over all parameters whose scores stay within 1000 nats: collinear columns, or an offset beside a bias,
need large parameters that cancel, and those are among them. Descent in u instead of theta is what makes B'e small: the
scores B u do not cancel. Only P of the final theta = T u is computed from terms that do, and its allowance says so.

**How T is found.** Columns are scaled to a largest entry near 1. Each round takes a QR factorisation with column
pivots; columns nearly in the span of those before them are replaced by their residuals, scaled, and compete again in
the next round. T need not be accurate, for any T gives a true bound; B = D T has to be. It is computed from exact
products of slices of the digits (Ozaki, Ogita, Oishi, Rump 2012), and is wrong by its last digit alone. A column that
is, beside its terms, no larger than the rounding of such terms (`NOISE`) is taken for 0: it is collinear with others.

**Too many features** (`LARGEST_WORK`): T is the identity, and the bound holds over all theta of which no single entry
moves a score by more than 1000 nats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from convexstruct import deadline
from convexstruct.arrays import Index, Matrix, Tensor, Vector
from convexstruct.features.graphs.factors import Factors
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.rounding import UNIT, Rounded, compensated, gamma

#: How far scores may be from 0, in nats, at the parameters that a lower bound without a penalty holds for.
#: Probabilities below e^-745 are 0 in double precision.
REACH_NATS = 1000.0
#: What is said of a point that is not among them.
BEYOND = f"the point has scores beyond {REACH_NATS:.0f} nats, where no lower bound is known without a penalty"
#: Operations of a factorisation, rows times squared columns, beyond which it is left out: some ten seconds. An entry of
#: D costs so many besides: half a gigabyte is the limit for columns however few.
LARGEST_WORK, ENTRY_WORK = 4e9, 100
#: A residual below this share of the sizes of its terms is their rounding: each is at most `UNIT` of its size, in the
#: data (a column that is the rounded sum of two others) and in T.
NOISE = 4 * UNIT
#: A column is nearly in the span of others where its residual is below this share of it: T is then computed in rounds,
#: each to twelve digits. A round divides residuals by at least as much, so that the 16 digits of data need six.
NEAR, ROUNDS = 1e-3, 12
#: Slices that the digits of numbers are cut into for exact products; four have at least 80 bits.
SLICES = 4
#: Exponents of the powers of 2 by which columns are scaled: those beyond, and their inverses, are no normal numbers.
LARGEST_POWER = 960
#: B is accepted where the eigenvalues of its B'B / r are above this: the price of the bound is 1/sqrt of it.
LEAST_EIGENVALUE = 0.25


class Reach(NamedTuple):
    """The parameters u that a bound holds for: of each block, those of a Euclidean length of at most ``length``.

    block (d,) : the block of each parameter. length (blocks,).
    """

    block: Index
    length: Vector

    def norms(self, g: Vector) -> Vector:
        """The Euclidean length of each block of g; (blocks,)."""
        size, top = np.abs(g), np.zeros(len(self.length))
        np.maximum.at(top, self.block, size)
        scaled = size / np.where(top > 0, top, 1.0)[self.block]
        return np.asarray(top * np.sqrt(np.bincount(self.block, scaled**2, minlength=len(top))))

    def lower_bound(self, entropy: Rounded, g: Vector, error: Vector | float = 0.0) -> Rounded:
        """H - max <g, u> over the parameters within reach, with its allowance, where the exact g is within ``error``
        of the computed one, entry by entry; -inf where a number is not finite."""
        paid = float(self.length @ self.norms(g))
        roundings = gamma(len(g) + len(self.length) + 8)
        doubt = float(self.length @ self.norms(np.broadcast_to(error, g.shape))) * (1.0 + roundings) + roundings * paid
        value = float(entropy) - paid
        if not (math.isfinite(value) and math.isfinite(doubt)):
            return Rounded(-math.inf)
        return Rounded.of(value, entropy.allowance, doubt, 2 * UNIT * (abs(float(entropy)) + paid))


class Span(NamedTuple):
    """A basis of the span of the columns of D (r, d).

    change (d, d) : T; columns of 0 in place of those that are collinear with others. features (r, d) : B, sparse where
    it is a sparse D with its columns scaled. off (d,) : bounds on |B - D T|, column by column. length : |u| where all
    |D T u| <= `REACH_NATS`, at most.
    """

    change: Matrix
    features: Any
    off: Vector
    length: float

    def coordinates(self, scores: Matrix) -> Matrix:
        """u (d, k) for which B u is nearest to ``scores`` (r, k); 0 for columns of 0."""
        B = self.features
        return np.asarray(np.linalg.pinv(dense(B.T @ B), hermitian=True) @ (B.T @ scores))


class Part(NamedTuple):
    """Parameters theta[at] whose features are D (r, k).

    last : whether the axis of the features is the last of these parameters, and not the first. weight : the sum of |e|
    over all places, at most. less (k,) : the sum of the constants that were taken from the features of factors. rows
    (r,), low (r, k) : for factors, the places, and digits of the features that D has no room for.
    """

    at: Index
    D: Matrix
    span: Span
    last: bool
    weight: float
    less: Vector | float = 0.0
    rows: Index | None = None
    low: Matrix | None = None

    def columns(self, theta: Vector) -> Matrix:
        """theta[at] as a matrix (k, blocks)."""
        k = self.D.shape[1]
        return theta[self.at].reshape(-1, k).T if self.last else theta[self.at].reshape(k, -1)

    def scores(self, theta: Vector) -> tuple[Matrix, float]:
        """D theta (r, blocks), and a bound on the error of its entries."""
        found, off = _exact_product(self.D, self.low, self.columns(theta))
        return found, float(off.max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Basis:
    """A problem in other parameters u, with theta = T u; the same problem if ``parts`` is empty.

    problem : the problem of u. parts : of which T consists. reach : what a lower bound without a penalty covers.
    off (d,) : what the gradient is wrong by since B is rounded, at most. largest (d,) : the most that each entry of
    theta, at 1, moves a score. said : a sentence on what the bound covers, if
    not all parameters whose scores are within `REACH_NATS`.
    """

    problem: Any
    parts: tuple[Part, ...] = ()
    reach: Reach | None = None
    off: Vector | float = field(default=0.0, repr=False)
    largest: Vector | float = field(default=0.0, repr=False)
    said: str = ""

    def theta(self, u: Vector) -> Vector:
        return self._mapped(u, lambda part: part.span.change @ part.columns(u))

    def lost(self, theta: Vector) -> float:
        """Nats that the rounding of theta may move the sum of all scores by."""
        if not self.parts:
            return 0.0
        sizes = self.largest * np.abs(theta)
        sums = (part.weight * float(part.columns(sizes).sum(axis=0).max(initial=0.0)) for part in self.parts)
        return UNIT * sum(sums)

    def covers(self, theta: Vector) -> bool:
        """Whether a lower bound that is stated over `reach` holds at theta."""
        if self.reach is None:
            return True
        scores = [part.scores(theta) for part in self.parts]
        alone = self.largest * np.abs(theta) > REACH_NATS
        for part in self.parts:
            alone[part.at] = False
        return not alone.any() and all(np.abs(each).max(initial=0.0) + off <= REACH_NATS for each, off in scores)

    def coordinates(self, theta: Vector) -> Vector:
        """u whose scores are nearest to those of theta."""
        return self._mapped(theta, lambda part: part.span.coordinates(part.D @ part.columns(theta)))

    def _mapped(self, given: Vector, mapped: Callable[[Part], Matrix]) -> Vector:
        if not self.parts:
            return given
        found = given.copy()
        with np.errstate(all="ignore"):
            for part in self.parts:
                columns = mapped(part)
                found[part.at] = (columns.T if part.last else columns).ravel()
        return found


def span(D: Any, low: Matrix | None = None) -> Span | None:
    """A basis of the span of the columns of D, dense or sparse (r, d), or of D + low, digits that D has no room for;
    None where that takes too long, or columns are so small that T overflows."""
    rows, d = D.shape
    if float(rows + d) * d * (d + ENTRY_WORK) > LARGEST_WORK:
        return None
    power = _powers(x := dense(D), 0)[0]
    T, B = np.diag(np.ldexp(1.0, -power)), np.ldexp(x, -power)
    off = np.zeros(d) if low is None else np.ldexp(np.abs(low).max(axis=0, initial=0.0), -power)
    terms, root = np.abs(x), math.sqrt(max(rows, 1))
    for _ in range(ROUNDS):
        deadline.check()
        norms = np.linalg.norm(B, axis=0) / root
        kept = np.flatnonzero(norms > NOISE * np.linalg.norm(terms @ np.abs(T), axis=0) / root)
        power = np.rint(np.log2(norms[kept])).astype(int)
        with np.errstate(over="ignore"):
            T, B, off = (np.ldexp(each[..., kept], -power) for each in (T, B, off))
        if not np.isfinite(T).all():
            return None
        if _least_eigenvalue(B) > LEAST_EIGENVALUE:
            break
        R, pivots = scipy.linalg.qr(B, mode="r", pivoting=True, check_finite=False)
        diagonal = np.abs(np.diag(R))
        n = int((diagonal > NEAR * diagonal[0]).sum())
        T = T[:, pivots]
        T[:, n:] -= T[:, :n] @ scipy.linalg.solve_triangular(R[:n, :n], R[:n, n:], check_finite=False)
        T[:, :n] = root * scipy.linalg.solve_triangular(R[:n, :n], T[:, :n].T, trans="T", check_finite=False).T
        B, off = _exact_product(x, low, T)
    reach = math.sqrt(max(_least_eigenvalue(B), 0.0)) - float(np.linalg.norm(off))
    length = REACH_NATS / reach * (1 + 16 * UNIT) if reach > 0 else math.inf
    lost = [(0, 0), (0, d - T.shape[1])]
    T, B, off = np.pad(T, lost), np.pad(B, lost), np.pad(off, lost[1:])
    if sp.issparse(D) and not off.any():  # no round has combined columns
        B = sp.csr_array(D @ sp.csr_array(T))
    return Span(T, B, off, length if T.any() else 0.0)


def dense(D: Any) -> Matrix:
    return np.asarray(D.toarray() if sp.issparse(D) else D, dtype=np.float64)


def _least_eigenvalue(B: Matrix) -> float:
    """At most the least eigenvalue of B'B / r; 1 without columns."""
    rows, k = B.shape
    if not k:
        return 1.0
    square = B.T @ B / max(rows, 1)
    error = gamma(rows + 4 * k + 16) * float(np.trace(square)) * math.sqrt(k)
    return float(np.linalg.eigvalsh(square)[0]) - error


def exact_product(x: Matrix, y: Matrix) -> tuple[Matrix, Vector]:
    """(x y, a bound on the error in each column), as if computed with twice the digits and rounded once."""
    power, inner = _powers(x, 0)[0], max(x.shape[1], 1)
    x, y = np.ldexp(x, -power), np.ldexp(y, power[:, None])
    bits = int((53 - math.ceil(math.log2(inner))) // 2)
    left, right = (_slices(a, bits, axis) for a, axis in ((x, 1), (y, 0)))
    pairs = (left[i] @ right[k - i] for k in range(SLICES) for i in range(k + 1))
    found = compensated(pairs, (x.shape[0], y.shape[1]))
    sizes = 4.0 * np.abs(x).max(initial=0.0) * np.abs(y).max(axis=0, initial=0.0)
    lost = inner * (8.0 * 2.0 ** (-SLICES * bits) + 400.0 * UNIT**2)
    return found, 2 * UNIT * np.abs(found).max(axis=0, initial=0.0) + lost * sizes


def _exact_product(x: Matrix, low: Matrix | None, y: Matrix) -> tuple[Matrix, Vector]:
    """`exact_product` of x, or of x + low, and y."""
    return exact_product(x, y) if low is None else exact_product(np.hstack((x, low)), np.vstack((y, y)))


def _powers(a: Matrix, axis: int) -> Matrix:
    """p with 2^(p-1) <= max |a| < 2^p along an axis, which stays, up to `LARGEST_POWER` in magnitude."""
    power = np.frexp(np.abs(a).max(axis=axis, keepdims=True, initial=0.0))[1]
    return np.asarray(np.clip(power, -LARGEST_POWER, LARGEST_POWER))


def _slices(a: Matrix, bits: int, axis: int) -> list[Matrix]:
    """Matrices that add up to a but for its last digits, each with ``bits`` bits beside the largest entry along an
    axis: products of two such rows and columns are exact."""
    found = []
    for _ in range(SLICES):
        anchor = np.ldexp(1.0, _powers(a, axis) + (53 - bits))
        found.append((a + anchor) - anchor)
        a = a - found[-1]
    return found


def joined(problem: Any, parts: list[Part], largest: Vector, said: str = "") -> Basis:
    """The `Basis` of parts and of single entries of theta elsewhere.

    problem : in the new parameters. largest (d,) : the most that each
    entry of theta, at 1, moves a score. said : as in `Basis`.
    """
    block, off = np.arange(len(largest)), np.zeros(len(largest))
    with np.errstate(over="ignore"):  # of features below the normal numbers, whose weights have no bound
        length = np.where(largest > 0, REACH_NATS / np.where(largest > 0, largest, 1.0), 0.0)
    for at, D, own, last, weight, *_ in parts:
        k = D.shape[1]
        numbers = np.arange(len(at) // k)
        block[at] = at[np.repeat(numbers, k) if last else np.tile(numbers, k)]
        off[at] = weight * (np.tile(own.off, len(numbers)) if last else np.repeat(own.off, len(numbers)))
        length[at] = 0.0
        length[at[numbers]] = own.length
    return Basis(problem, tuple(parts), Reach(block, length), off, largest, said)


def pairwise_parts(features: PairwiseFeatures, ceiling: Vector) -> tuple[PairwiseFeatures, list[Part], str]:
    """(the features in bases of those of nodes and of those of edges, their parts, what is said if they have no basis).

    ceiling (N,) : the weight of each example. A table that all edges share is no part: its entries are scores.
    """
    x, z, at = features.node_features, features.edge_features, features.n_node_weights
    parts, said, own = [], "", features
    if (node := span(x)) is None:
        said = too_many(features.n_node_features, features.n_nodes)
    elif at:
        parts.append(Part(np.arange(at), dense(x), node, True, float(ceiling @ features.lengths)))
        own = replace(own, node_features=node.features)
    if z is not None and features.dimension > at:
        if (edge := span(z)) is None:
            said = too_many(features.n_edge_features, features.n_edges)
        else:
            weight = float(ceiling[features.edge_example].sum())
            parts.append(Part(np.arange(at, features.dimension), dense(z), edge, False, weight))
            own = replace(own, edge_features=edge.features)
    return own, parts, said


def exact_scores(
    parts: Sequence[Part], theta: Vector, node: Matrix, edge: Tensor, moved: list[float]
) -> tuple[Matrix, Tensor]:
    """The scores of nodes and edges, those of ``parts`` rounded once, with no loss where terms cancel.

    moved : what the rounding of those of nodes, and of those of edges, adds up to over all places; it is changed.
    """
    for part in parts:
        found, off = part.scores(theta)
        moved[0 if part.last else 1] = part.weight * (off + gamma(4) * float(np.abs(found).max(initial=0.0)))
        if part.last:
            node = found
        else:
            edge = np.where(np.isneginf(edge), edge, found.reshape(edge.shape))
    return node, edge


def too_many(columns: int, rows: int) -> str:
    return (
        f"{columns} features at {rows} places are too many, or too small, to factor, so that the lower bound is that "
        "over all theta of which no single entry moves a score by more than 1000 nats"
    )


def shared_entries(factors: Factors) -> Iterator[tuple[Index, Index, Matrix, Matrix, Vector]]:
    """For each set of features that have entries of the design in common, directly or by way of others: (its columns
    (k,), the rows of all factors that have them (r,), D and low (r, k), their sum (k,)). A feature alone that is 0
    somewhere in each of its factors is left out.

    Constants added to the table of a factor change no distribution. D + low are exactly the features less those of the
    first row of each factor, so that an offset beside small differences does not count; the sum is of these rows.
    """
    design, d = factors.design, factors.dimension
    labels = connected_components(sp.block_array([[None, design], [design.T, None]]))[1][factors.n_entries :]
    allowed = np.ones(factors.n_entries, dtype=bool) if factors.forbidden is None else ~factors.forbidden
    of_row = np.repeat(np.arange(len(factors.scopes)), np.diff(factors.start))
    order, by_column, entries = np.argsort(labels, kind="stable"), design.tocsc(), design.tocoo()
    inside = allowed[entries.row] & (entries.data != 0)
    each, count = np.unique(of_row[entries.row[inside]] * d + entries.col[inside], return_counts=True)
    whole = np.zeros(d, dtype=bool)  # features that are nowhere 0 in some factor
    whole[each[count == np.bincount(of_row[allowed], minlength=len(factors.scopes))[each // d]] % d] = True
    for columns in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1) if d else ():
        if len(columns) == 1 and not whole[columns[0]]:
            continue
        own = sp.csr_array(by_column[:, columns])
        touched = np.zeros(len(factors.scopes), dtype=bool)
        touched[of_row[np.flatnonzero(np.diff(own.indptr))]] = True
        rows = np.flatnonzero(touched[of_row] & allowed)
        found = own[rows].toarray()
        _, first, factor = np.unique(of_row[rows], return_index=True, return_inverse=True)
        away = found[first][factor]
        less = found - away
        back = less - found
        yield columns, rows, less, (found - (less - back)) - (away + back), found[first].sum(axis=0)
