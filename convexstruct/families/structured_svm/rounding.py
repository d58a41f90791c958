r"""How far a computed P(w) may lie from the exact one: the allowance of `StructuredSVM.primal`.

The model and gamma(n) are those of `convexstruct.rounding`. With W_f = max_s |w_node[s, f]| and V_k = max |w_edge[k]|,
no term of a score of example i is larger in sum than

    M_i = sum_v sum_f |x_vf| W_f + sum_e sum_k |z_ek| V_k.

Every decoder adds numbers and takes maxima, and neither rounding nor a maximum turns an order round: what it returns is
the largest of all labellings' sums, each rounded in some order. So no decoding is wrong by more than gamma(n_i) M_i,
n_i the operations that any term passes through (the longest row of features, and each node and edge a few times).
Bounds from messages (minimum cuts, the local polytope) are sums of maxima too, valid for whatever messages; the size
of the messages joins M_i. Then

    |H_i computed - H_i| <= 2 gamma(n_i) (M_i + max_y E_i(y))                  margin scaling
    |H_i computed - H_i| <= 2 (gamma(n_i) + delta) (M_i + 1) max_y E_i(y)      slack scaling

delta is how far the numbered losses are from the sums of costs (`convexstruct.features.graphs.loss_steps`). With
weights
C omega_i their sum is one product of W with sums over the data that are made once (`PrimalRounding`). lam/2 |w|^2 is
summed in blocks, and all of P by math.fsum, so that their allowances do not grow with the size of the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Matrix, Point, Tensor, Vector
from convexstruct.families.structured_svm.kernel_rounding import of_upper_bound
from convexstruct.families.structured_svm.witness import Posed
from convexstruct.features.graphs.gram import GramFeatures
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.forests import Forests
from convexstruct.rounding import TINY, UNIT, Rounded, gamma, total

#: Terms that are summed before a sum is compensated or handed to math.fsum.
BLOCK = 256
#: Scores beyond this might overflow on the way: the primal value is infinite then.
GREATEST = 1e300
#: A feature that is so many times as large as half of all entries is named as the cause of large allowances: squares of
#: such a ratio leave fewer than six of the 16 digits, which the profile HIGH needs.
UNEVEN = 1e5


def times(*factors: float) -> float:
    """The product of numbers >= 0, with no overflow or underflow on the way; 0 where a factor is 0."""
    if min(factors) == 0.0:
        return 0.0
    if not all(map(math.isfinite, factors)):
        return math.inf
    mantissa, exponent = 1.0, 0
    for factor in factors:
        part, power = math.frexp(factor)
        mantissa, exponent = mantissa * part, exponent + power
    try:
        return math.ldexp(mantissa, exponent)
    except OverflowError:
        return math.inf


def square(x: Vector) -> Rounded:
    """|x|^2: each block of `BLOCK` terms as it comes, their sum by math.fsum."""
    whole = len(x) - len(x) % BLOCK
    body = x[:whole].reshape(-1, BLOCK)
    parts = np.append(np.einsum("ij,ij->i", body, body), x[whole:] @ x[whole:])
    rough = total(parts)
    return Rounded.of(float(rough), rough.allowance, gamma(BLOCK + 2) * float(rough), len(x) * TINY)


def compensated(parts: Iterable[Tensor], shape: tuple[int, ...]) -> Tensor:
    """The sum of arrays, each addition with its error carried along (Ogita, Rump, Oishi 2005, Sum2): wrong by at most
    UNIT |sum| + gamma(n)^2 sum |parts| for n of them."""
    high, low = np.zeros(shape), np.zeros(shape)
    for part in parts:
        new = high + part
        back = new - high
        low += (high - (new - back)) + (part - back)
        high = new
    return np.asarray(high + low)


@dataclass(frozen=True, eq=False)
class Magnitudes:
    """Sums of absolute features: node (F,) over all nodes, edge (E,) over all edges; longest: entries of the longest
    row, E included."""

    node: Vector
    edge: Vector
    longest: int

    @classmethod
    def of(cls, features: PairwiseFeatures, rho: Vector | None = None) -> Magnitudes:
        """Weighted by ``rho`` (N,), 1 by default."""
        x = features.node_features
        rows = np.ones(features.n_nodes) if rho is None else rho[features.example]
        edges = np.ones(features.n_edges) if rho is None else rho[features.edge_example]
        if sp.issparse(x):
            longest = int(np.diff(x.indptr).max(initial=0))
            node = np.asarray(abs(x).T @ rows)
        else:
            longest = x.shape[1]
            node = _absolute_sums(x, rows)
        z = np.ones((features.n_edges, features.n_edge_features))
        z = z if features.edge_features is None else np.abs(features.edge_features)
        return cls(node, edges @ z, longest + features.n_edge_features)


def _absolute_sums(x: Matrix, rows: Vector) -> Vector:
    """|x|' rows, block by block, so that no copy of x is made."""
    found = np.zeros(x.shape[1])
    for low in range(0, len(x), 4096):
        found += rows[low : low + 4096] @ np.abs(x[low : low + 4096])
    return found


@dataclass(frozen=True, eq=False)
class PrimalRounding:
    """What of the allowance does not depend on w.

    weighted : |features|, each example weighted by its share rho_i of the largest C omega e: C omega_i e_i 2
        gamma(n_i), with e_i = 1 under margin scaling, max E_i under slack scaling and for the zero-one loss.
    own : sum of rho_i max E_i, or of rho_i where e_i is max E_i. of_messages (N,) : rho, for what messages add.
    plain : |features|, unweighted. ceiling, loss : the largest C omega and the largest e.
    """

    weighted: Magnitudes
    own: float
    of_messages: Vector
    plain: Magnitudes
    ceiling: float
    loss: float

    @classmethod
    def of(cls, problem: Posed) -> PrimalRounding:
        features, loss = problem.features, problem.loss
        plain = Magnitudes.of(features)
        slack = problem.scaling == "slack" and not loss.zero_one
        of_scores = problem.scaling == "slack" or loss.zero_one
        count = plain.longest + 4.0 * (
            features.lengths + np.bincount(features.edge_example, minlength=len(features.lengths))
        )
        count += 24.0 + (loss.numbered.deviation / UNIT if slack else 0.0)
        allowed = 2.0 * count / (1.0 - count * UNIT)  # 2 gamma(n_i) in units of UNIT
        scale = loss.most if of_scores else np.ones(features.n_examples)
        ceiling, largest = float(problem.ceiling.max()), float(scale.max())
        rho = allowed * (problem.ceiling / ceiling) * (scale / (largest or 1.0))
        own = rho if of_scores else rho * loss.most
        return cls(Magnitudes.of(features, rho), float(own.sum()), rho, plain, ceiling, largest)

    def reach(self, widest: tuple[Vector, Vector]) -> float:
        """sum_i M_i."""
        return _product(self.plain.node, widest[0]) + _product(self.plain.edge, widest[1])

    def of_hinges(self, widest: tuple[Vector, Vector], moved: Vector | None) -> float:
        """The bound on sum_i C omega_i |H_i computed - H_i|."""
        size = _product(self.weighted.node, widest[0]) + _product(self.weighted.edge, widest[1]) + self.own
        if moved is not None:
            size += _product(self.of_messages, moved)
        # products of features and weights, of shares and features, that fall below the smallest normal number
        lost = TINY * len(self.of_messages) * (float(widest[0].sum()) + float(widest[1].sum()) + 1.0)
        return times(size + lost, UNIT, self.ceiling, self.loss)


def _product(left: Vector, right: Vector) -> float:
    """left'right of numbers >= 0, where 0 times infinity is 0."""
    some = (left > 0) & (right > 0)
    return float(left[some] @ right[some])


def widest(problem: Posed, w: Vector) -> tuple[Vector, Vector]:
    """W (F,) and V (E,): the largest |weight| of each feature over all labels."""
    node, edge = problem.features.split(w)
    return np.abs(node).max(axis=0), np.abs(edge).max(axis=tuple(range(1, edge.ndim)), initial=0.0)


def weighed(problem: Posed, w: Vector, hinge: Vector) -> Rounded:
    """lam/2 |w|^2 + sum_i C omega_i hinge_i, the hinges taken as exact."""
    norm, terms = square(w), problem.ceiling * hinge
    quadratic = 0.5 * problem.lam * float(norm)
    size = float(hinge.sum())
    return Rounded.of(
        *(lambda value: (float(value), value.allowance))(total([quadratic, *terms.tolist()])),
        times(0.5, problem.lam, norm.allowance),
        times(4 * UNIT, quadratic),
        times(4 * UNIT, float(terms.sum())),
        TINY * (size + len(hinge) + 1.0),
    )


class Violated(Protocol):
    """The most violated labellings at a w. hinge, moved : as in the problem's `Evaluation`."""

    @property
    def hinge(self) -> Vector: ...

    @property
    def moved(self) -> Vector | None: ...


class Margin(Posed, Protocol):
    """What is asked of a structural SVM for P(w); `StructuredSVM` says what each is."""

    @property
    def rounding(self) -> PrimalRounding: ...

    @property
    def forests(self) -> Forests: ...

    def scores(self, w: Vector) -> tuple[Matrix, Tensor]: ...

    def truth_scores(self, node: Matrix, edge: Tensor) -> Vector: ...

    def most_violated(self, w: Vector) -> Violated: ...


def primal(problem: Margin, point: Point) -> Rounded:
    """P(w) and its allowance; (inf) where scores might overflow."""
    w = point["w"]
    if not (w.any() or problem.loss.most.any()):
        return Rounded(0.0)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        reach = widest(problem, w)
        own = problem.rounding
        size = own.reach(reach) + float(problem.loss.most.sum())
        shifts = point.get("shifts")
        if shifts is not None:
            size += 4.0 * float(np.abs(shifts).sum())
        if not size < GREATEST:
            return Rounded(math.inf)
        if shifts is None:
            found = problem.most_violated(w)
            hinge, moved = found.hinge, found.moved
        else:
            node, edge = problem.scores(w)
            upper = problem.forests.upper(node + problem.loss.costs, edge, shifts)
            hinge = np.maximum(upper - problem.truth_scores(node, edge), 0.0)
            moved = problem.forests.moved(shifts)
        value = weighed(problem, w, hinge)
        if not math.isfinite(value):
            return Rounded(math.inf)
        # a C omega_i among the smallest numbers is wrong by TINY
        subnormal = TINY * times(own.loss or 1.0, 4.0 * (size + len(hinge)))
        of_kernel = 0.0 if problem.kernel is None else of_upper_bound(problem, problem.kernel, problem.lam, w)
        return Rounded.of(float(value), value.allowance, own.of_hinges(reach, moved), subnormal, of_kernel)


def reason(features: PairwiseFeatures, lam: float, C: float, kernel: GramFeatures | None = None) -> str:
    """One sentence on what makes the sums of a problem cancel, and what to do about it."""
    x, advice = features.node_features, "scale the features to sizes near 1"
    columns = abs(x).max(axis=0).toarray().ravel() if sp.issparse(x) else np.abs(x).max(axis=0)
    entries, named = np.abs(x.data if sp.issparse(x) else x).ravel(), "node feature {}"
    if kernel is not None:  # the columns of its factor mean nothing to the caller
        columns = entries = kernel.sizes
        named, advice = "the square root of kernel[{0}, {0}]", "scale the kernel's rows to diagonals near 1"
    tables = [(named, columns, entries)]
    if features.edge_features is not None and features.n_edges:
        sizes = np.abs(features.edge_features)
        tables.append(("edge feature {}", sizes.max(axis=0), sizes.ravel()))
    for said, widths, values in tables:
        values = values[values > 0]
        if not len(values):
            continue
        at, half = int(widths.argmax()), float(np.median(values))
        if widths[at] / half > UNEVEN or widths[at] > UNEVEN:
            return f"{said.format(at)} reaches {widths[at]:.1e}, half of all entries are at most {half:.1e}: {advice}"
    return f"C / lam = {C / lam:.1e} lets large terms cancel: take a smaller C, or a larger lam"
