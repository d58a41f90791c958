r"""Regularized risk minimisation: problem (1) of paper 2, with a risk that is piecewise linear, (8)-(9).

    minimise  J(w, b) = lam/2 |w|^2 + sum_g share_g loss_g(w, b),      share_g = omega_i / sum_k omega_k

where group g belongs to example i and loss_g is a maximum of affine pieces (`losses`): binary, multiclass, multilabel
and ordinal hinge, or pieces of one's own. A weight omega_i counts as so many copies of example i; without weights share
= 1/n. With all pieces as rows of A, their offsets c, and the signs s of the free offsets b (not regularised),

    min_b J(w, b) = lam/2 |w|^2 + max_{alpha in Q} <A w + c, alpha>

    Q: alpha >= 0, sum of alpha over group g <= share_g (= share_g without the zero piece),
       and for each free offset j: sum of s_p alpha_p over its pieces = 0                                    (20)

so the adjoint, maximised over Q, is (10), (21)-(22), with its primal point (11), (24):

    D(alpha) = <c, alpha> - |A' alpha|^2 / (2 lam),       w(alpha) = - A' alpha / lam.

For the binary hinge alpha_i is in [0, 1/n], and the extra condition is sum_i y_i alpha_i = 0 where there is a bias.

**Dual witness.** {"alpha": (m,)}, one number a piece. Every finite witness gives a bound (others -inf) after it is made
feasible: negative entries become 0; a group whose sum is above its share is scaled down to it, and without a zero piece
one below its share is scaled up (the share is spread evenly where all entries are 0); of the two sides of a free offset
the heavier is scaled down to the lighter. The result lies in Q up to rounding, which the allowance covers.

**Allowance.** `primal` and `dual` carry a proved bound on their rounding (`bounds`). Of rows in files: see `in_files`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import OPTIONAL, Index, Point, Tensor, Vector
from convexstruct.brief import brief
from convexstruct.core.certificates import Unconstrained
from convexstruct.families.regularized_risk import bounds as regularized_risk_bounds
from convexstruct.families.regularized_risk import losses as piecewise_loss
from convexstruct.families.regularized_risk.in_files import FiledRows, RiskInFiles, from_files
from convexstruct.families.regularized_risk.losses import PiecewiseLoss, read_features
from convexstruct.features.graphs.feature_sizes import uneven
from convexstruct.inference.shards import Shards, Workers, in_shards
from convexstruct.rounding import Rounded, RoundedArray, adjoint, binned, largest_of, maximum, product, row_norms
from convexstruct.validation.arguments import flag, mapping, number, refuse
from convexstruct.validation.arrays import predictive, real


class Plane(NamedTuple):
    """<a, w> + b, an affine lower bound of the risk, (3): a = A' alpha has the shape of w; alpha (m,) lies in Q."""

    a: Tensor
    b: float
    alpha: Vector


@dataclass(frozen=True, eq=False)
class RegularizedRisk(Unconstrained):
    """Problem (1): features, a piecewise linear loss, and the weight lam of the regulariser.

    Build it by `binary`, `multiclass`, `multilabel`, `ordinal` or `pieces`.

    Attributes
    ----------
    X : (n, d) features, dense or sparse (kept as CSR, never made dense; not copied if it already is what is needed).
    loss : the pieces of every example.
    lam : weight of the regulariser, positive.
    weights : omega, (n,) positive; None counts every example once.
    workers : where the products with A are computed, if not here.
    """

    X: Any
    loss: PiecewiseLoss
    lam: float
    weights: Vector | None = None
    workers: Workers | None = field(default=None, repr=False, kw_only=True, metadata=OPTIONAL)
    family: ClassVar[str] = "regularized_risk"

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", number("lam", self.lam, above=0))
        if isinstance(self.X, FiledRows):
            return
        if not isinstance(self.loss, PiecewiseLoss):
            refuse("loss", self.loss, "a PiecewiseLoss: see binary, multiclass, multilabel, ordinal, pieces")
        X = read_features("X", self.X)
        object.__setattr__(self, "X", X)
        n = X.shape[0]
        if self.loss.combine.shape[1] != n * self.loss.n_outputs:
            raise ValueError(f"loss is of {self.loss.combine.shape[1]} scores, wanted {n} x {self.loss.n_outputs}")
        if self.weights is not None:
            count = int(self.loss.example.max()) + 1 if self.loss.kind == "pieces" else n
            object.__setattr__(
                self, "weights", real("weights", self.weights, (count,), positive=True, why="one an example")
            )

    @classmethod
    def binary(
        cls, X: Any, y: ArrayLike, lam: float, bias: bool = False, weights: ArrayLike | None = None
    ) -> RegularizedRisk:
        """The hinge (2), max(0, 1 - y (<w, x> + b)); y as -1 and +1, or two values, of which the larger is +1."""
        X = read_features("X", X)
        return cls(X, piecewise_loss.binary(y, X.shape[0], flag("bias", bias)), lam, weights)  # type: ignore[arg-type]

    @classmethod
    def multiclass(
        cls,
        X: Any,
        y: ArrayLike,
        lam: float,
        cost: ArrayLike | None = None,
        n_classes: int | None = None,
        weights: ArrayLike | None = None,
    ) -> RegularizedRisk:
        """max_k cost[y, k] + <w_k - w_y, x>; cost is 1 off the diagonal unless given, w has shape (classes, d)."""
        X = read_features("X", X)
        return cls(X, piecewise_loss.multiclass(y, X.shape[0], cost, n_classes), lam, weights)  # type: ignore[arg-type]

    @classmethod
    def multilabel(cls, X: Any, Y: Any, lam: float, weights: ArrayLike | None = None) -> RegularizedRisk:
        """max(0, max 1 + <w_s - w_r, x>) over labels r that x has and s that it has not; Y (n, labels) of 0 and 1."""
        X = read_features("X", X)
        return cls(X, piecewise_loss.multilabel(Y, X.shape[0]), lam, weights)  # type: ignore[arg-type]

    @classmethod
    def ordinal(
        cls,
        X: Any,
        y: ArrayLike,
        lam: float,
        thresholds: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> RegularizedRisk:
        """sum_j max(0, 1 - z_j (<w, x> - theta_j)), z_j = +1 above threshold j and -1 below.

        Without ``thresholds`` theta is free, and the point's "b"; levels are y's values in order.
        """
        X = read_features("X", X)
        return cls(X, piecewise_loss.ordinal(y, X.shape[0], thresholds), lam, weights)  # type: ignore[arg-type]

    @classmethod
    def pieces(
        cls,
        A: Any,
        b: ArrayLike,
        lam: float,
        example: ArrayLike | None = None,
        floor: bool = False,
        weights: ArrayLike | None = None,
    ) -> RegularizedRisk:
        """max_p <a_p, w> + b_p over the rows p of each example (rising numbers 0, 1, ..; None: one example).

        ``floor`` adds the zero piece. One example with a_j = the columns of H_d / sqrt(d), b = 0 is (14).
        """
        A = read_features("A", A)
        return cls(A, piecewise_loss.pieces(b, A.shape[0], example, floor), lam, weights)  # type: ignore[arg-type]

    #: Rows in files that only workers read; offsets are fixed.
    from_files = classmethod(from_files)

    # -- sizes and shares ----------------------------------------------------------------------------------------------

    @property
    def n_pieces(self) -> int:
        """m, the length of alpha."""
        return self.loss.n_pieces

    @property
    def n_biases(self) -> int:
        return self.loss.n_biases

    @property
    def dimension(self) -> int:
        """Numbers in w."""
        return int(self.X.shape[1]) * self.loss.n_outputs

    @property
    def shape(self) -> tuple[int, ...]:
        """Of w: (d,), or (outputs, d) where there are several."""
        d, k = int(self.X.shape[1]), self.loss.n_outputs
        return (d,) if k == 1 else (k, d)

    @cached_property
    def shares(self) -> Vector:
        """share_g for each group; (G,)."""
        if self.weights is not None:
            return np.asarray(regularized_risk_bounds.shares(self.weights)[self.loss.example])
        n = self.loss.n_groups if self.loss.kind == "pieces" else self.X.shape[0]
        return np.full(self.loss.n_groups, 1.0 / n)

    @cached_property
    def trivial_value(self) -> float:
        """|J(0)|; if 0, |g|^2 / (2 lam), g a subgradient at 0: the most that J can fall from there; if 0 too, 1."""
        if self.filed is not None:
            return self.filed.trivial_value
        with np.errstate(over="ignore", invalid="ignore"):
            plane, b = self.touching(np.zeros(self.shape))
            fall = 0.5 * float(np.vdot(plane.a, plane.a)) / self.lam
            return abs(self.value(np.zeros(self.shape), b)) or fall or 1.0

    def trivial(self) -> tuple[Point, Point]:
        """w = 0 with its best offsets, and alpha = 0."""
        return self.as_point(np.zeros(self.shape)), {"alpha": np.zeros(self.n_pieces)} if self.filed is None else {}

    @cached_property
    def is_box(self) -> bool:
        """Whether every group is max(0, one piece), so that Q is a box (cut by the free offsets' conditions)."""
        return self.loss.floor and self.loss.n_groups == self.loss.n_pieces

    @cached_property
    def group(self) -> Index:
        """(m,) the group of each piece."""
        return np.repeat(np.arange(self.loss.n_groups), np.diff(self.loss.start))

    @cached_property
    def single(self) -> tuple[Vector, Index | None] | None:
        """(factor, row of X) of each piece, if each takes one score (row None: all rows in order); else None."""
        return self.loss.single

    @cached_property
    def row_norms(self) -> Vector:
        """At least the Euclidean length of each row of X; (n,)."""
        return row_norms(self.X)

    @cached_property
    def column_norms(self) -> Vector:
        """At least the Euclidean length of each column of X; (d,)."""
        return row_norms(self.X.T)

    @cached_property
    def column_counts(self) -> Index | None:
        """How many entries each column of a sparse X stores, (d,); None where X is dense."""
        return np.bincount(self.X.indices, minlength=self.X.shape[1]) if sp.issparse(self.X) else None

    # -- the linear map ------------------------------------------------------------------------------------------------

    @cached_property
    def shards(self) -> Shards | None:
        """Some of the examples each, with about as many features that are not 0; they predict nothing."""
        row = self.loss.rows(self.X.shape[0])

        def some(examples: Index) -> RegularizedRisk:
            first, last = int(examples[0]), int(examples[-1]) + 1
            return RegularizedRisk(self.X[row[first] : row[last]], self.loss.some(first, last, row), self.lam)

        return in_shards(self.workers, np.diff(self.X.indptr[row] if sp.issparse(self.X) else row), some)

    @cached_property
    def filed(self) -> RiskInFiles | None:
        """The sums over rows in files; None where the rows are here."""
        return RiskInFiles.of(self) if isinstance(self.X, FiledRows) else None

    def scores(self, w: ArrayLike, X: Any = None) -> Tensor:
        """<w_k, x_i>: (n,), or (n, outputs) where there are several; of the rows of ``X`` (n', d) if it is given.
        ValueError if w or X does not fit the problem."""
        read = real("w", w, self.shape, (self.dimension,), what="weights", keep=False)
        return np.asarray(self._scores(read, self.X if X is None else read_features("X", X, self.X.shape[1])))

    def _scores(self, w: Any, X: Any, norms: Vector | None = None) -> Any:
        deadline.check()
        w = w.reshape(self.shape).T
        if norms is None and isinstance(w, RoundedArray) and not sp.issparse(X):
            return adjoint(X.T, w)  # long sums in blocks
        return product(X, w, norms)

    def forward(self, w: Any, norms: Vector | None = None) -> Any:
        """A w, one value a piece, offsets and biases left out; (m,). Of a `RoundedArray`, with its error, by ``norms``
        as in `product`."""
        if self.shards is not None and isinstance(w, np.ndarray):
            return np.concatenate(self.shards.map("forward", w))
        scores = self._scores(w, self.X, norms)
        if self.single is None:
            return product(self.loss.combine, scores.reshape(-1))
        factor, rows = self.single
        return factor * (scores if rows is None else scores[rows])

    def adjoint(self, alpha: Any, norms: Vector | None = None) -> Any:
        """A' alpha, in the shape of w. Of a `RoundedArray`, with its error, by ``norms`` as in `rounding.adjoint`."""
        deadline.check()
        if self.shards is not None and isinstance(alpha, np.ndarray):
            at = self.loss.pieces_of(np.array(self.shards.at))
            return np.asarray(sum(self.shards.map_each("adjoint", [(alpha[i:j],) for i, j in pairwise(at)])))
        if self.single is None:
            part = product(self.loss.combine.T, alpha)
        else:
            factor, rows = self.single
            part = factor * alpha
            part = part if rows is None else binned(part, rows, self.X.shape[0])
        if self.loss.n_outputs == 1:
            return adjoint(self.X, part, norms, self.column_counts)
        found = adjoint(self.X, part.reshape(-1, self.loss.n_outputs), norms, self.column_counts).T
        return np.ascontiguousarray(found) if isinstance(found, np.ndarray) else found

    def matrix(self) -> Any:
        """A itself, (m, dimension), w flattened row by row: sparse, unless X is dense and has one output."""
        return self.loss.matrix(self.X)

    # -- primal --------------------------------------------------------------------------------------------------------

    def values(self, w: Any, b: Vector | None = None, norms: Vector | None = None) -> Any:
        """The value of every piece, A w + s b + c; (m,). w and ``norms`` as in `forward`."""
        values = self.forward(w, norms) + self.loss.offset
        if self.n_biases and b is not None:
            values = values + self.loss.bias_sign * b[self.loss.bias_of]
        return values

    def losses(self, values: Any) -> Any:
        """loss_g from the pieces' values, with their errors if they have any; (G,)."""
        top = values if self.is_box else largest_of(values, self.loss.start[:-1])
        return maximum(top, 0.0) if self.loss.floor else top

    def value(self, w: ArrayLike, b: ArrayLike | None = None) -> float:
        """J(w, b); without b the minimum over b."""
        w = np.asarray(w, dtype=np.float64).reshape(self.shape)
        values = self.values(w)
        if self.n_biases:
            b = self.offsets_at(values)[0] if b is None else np.asarray(b, dtype=np.float64)
            values = values + self.loss.bias_sign * b[self.loss.bias_of]
        return float(0.5 * self.lam * np.vdot(w, w) + self.shares @ self.losses(values))

    def best_bias(self, w: ArrayLike) -> Vector:
        """The b that minimises J(w, b), exactly: for each free offset a weighted quantile of the kinks; (n_biases,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.offsets_at(self.values(np.asarray(w, dtype=np.float64)))[0]

    def offsets_at(self, values: Vector) -> tuple[Vector, Vector]:
        """(b, alpha) of min_b sum share max(0, values + s b) = max over Q of <values, alpha>."""
        return piecewise_loss.best_offsets(self.loss, self.shares, values)

    def best_alpha(self, values: Vector) -> Vector:
        """argmax of <values, alpha> over Q, ``values`` = A w + c; a vertex but for one piece a free offset; (m,)."""
        if self.n_biases:
            return self.offsets_at(values)[1]
        if self.is_box:
            return np.where(values > 0, self.shares, 0.0)
        top = np.maximum.reduceat(values, self.loss.start[:-1])
        hit = np.flatnonzero(values == top[self.group])
        first = hit[np.unique(self.group[hit], return_index=True)[1]]
        alpha = np.zeros(self.n_pieces)
        alpha[first] = self.shares
        if self.loss.floor:
            alpha[first[top <= 0]] = 0.0
        return alpha

    def touching(self, w: ArrayLike) -> tuple[Plane, Vector]:
        """The plane of (3) that touches the risk (minimised over the free offsets) at w, and the best offsets there."""
        values = self.values(np.asarray(w, dtype=np.float64).reshape(self.shape))
        b, alpha = self.offsets_at(values) if self.n_biases else (np.zeros(0), self.best_alpha(values))
        return Plane(self.adjoint(alpha), float(self.loss.offset @ alpha), alpha), b

    def subgradient(self, w: ArrayLike) -> Plane:
        """The plane of (3) at w: a is a subgradient of the risk (least over the free offsets), b = R(w) - <w, a>."""
        return self.touching(w)[0]

    def as_point(self, value: Any) -> Point:
        """Read w, as an array or under "w", flat or in its shape; b under "b", the best one where it is not given."""
        if isinstance(value, Mapping):
            named = mapping("point", value, {"w"}, {"b"} if self.n_biases else ())
            given, b = named["w"], named.get("b")
        else:
            given, b = value, None
        w = real("w", given, self.shape, (self.dimension,), finite=False, keep=False).reshape(self.shape)
        if not self.n_biases:
            return {"w": w}
        if b is None:
            return {"w": w, "b": self.best_bias(w) if np.isfinite(w).all() else np.full(self.n_biases, np.nan)}
        shapes = ((self.n_biases,), ()) if self.n_biases == 1 else ((self.n_biases,),)
        b = np.atleast_1d(real("b", b, *shapes, finite=False, keep=False))
        return {"w": w, "b": b}

    def primal(self, point: Point) -> Rounded:
        """J(w, b) with its allowance."""
        if self.filed is not None:
            return self.filed.upper(point["w"])
        return regularized_risk_bounds.upper(self, point["w"], point.get("b"))

    # -- dual ----------------------------------------------------------------------------------------------------------

    def dual_value(self, alpha: Vector) -> float:
        """D(alpha) = <c, alpha> - |A' alpha|^2 / (2 lam), for alpha in Q or not."""
        return float(self.loss.offset @ alpha - np.sum(self.adjoint(alpha) ** 2) / (2.0 * self.lam))

    def primal_of(self, alpha: Vector) -> Tensor:
        """w(alpha) = - A' alpha / lam, (24); in the shape of w."""
        return np.asarray(-self.adjoint(alpha) / self.lam)

    def feasible(self, alpha: Vector) -> Vector:
        """A member of Q near ``alpha``, by clipping and scaling; a member stays as it is up to rounding."""
        return regularized_risk_bounds.member(self, alpha)

    def dual(self, dual_point: Point) -> Rounded:
        """A valid lower bound from any finite witness: D at what `feasible` makes of it, with an allowance."""
        if self.filed is not None:
            return self.filed.lower(dual_point)
        alpha = self._read_dual(dual_point)
        return regularized_risk_bounds.lower(self, alpha) if np.isfinite(alpha).all() else Rounded(-np.inf)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """How far alpha lies outside Q."""
        if self.filed is not None:
            return self.filed.dual_residuals(dual_point)
        alpha = self._read_dual(dual_point)
        if not np.isfinite(alpha).all():
            return {"alpha not finite": np.inf}
        sums = np.add.reduceat(alpha, self.loss.start[:-1])
        excess = sums - self.shares if self.loss.floor else np.abs(sums - self.shares)
        found = {"alpha below 0": float(max(-alpha.min(), 0.0)), "groups off their share": float(max(excess.max(), 0))}
        if self.n_biases:
            balance = np.bincount(self.loss.bias_of, alpha * self.loss.bias_sign, self.n_biases)
            found["free offsets out of balance"] = float(np.abs(balance).max())
        return found

    def _read_dual(self, dual_point: Point) -> Vector:
        alpha = mapping("dual_point", dual_point, {"alpha"})["alpha"]
        return real("dual_point['alpha']", alpha, (self.n_pieces,), finite=False, keep=False)

    def rounding_reason(self, point: Point, dual_point: Point | None) -> str:
        """What makes the allowances large: features of very different sizes, or a small lam."""
        lam, scale = self.lam, 1.0 / self.X.shape[0] / self.lam
        said = uneven("feature {}", self.X if self.filed is None else self.X.sample.X)
        return said or f"lam = {lam:.1e}, C = 1 / (lam n) = {scale:.1e}, lets large terms cancel: take a larger lam"

    # -- prediction ----------------------------------------------------------------------------------------------------

    def predict(self, point: Any, examples: Any = None) -> list[Any]:
        """The label of each example, one of the values that the problem's labels had: a list, one entry an example.

        For multilabel an entry holds the scores of all labels, (labels,); for pieces it is the score of the row.

        Parameters
        ----------
        point : (w, b), as `as_point` reads it.
        examples : rows of features without labels, dense or sparse, (n', d); by default the problem's own X.

        Raises
        ------
        ValueError
            If ``point`` has the wrong shape, or ``examples`` are no table of finite numbers with d columns.
        """
        read, d = predictive(self.as_point(point)), self.X.shape[1]
        scores = self._scores(read["w"], self.X if examples is None else read_features("examples", examples, d))
        return self.loss.predicted(scores, read.get("b"))
