r"""Losses that are a maximum of a few affine pieces of the scores, read from labels (paper 2, (8)).

With scores S = X W', S_ik = <w_k, x_i> (one output, k = 1, where the loss needs no more), group g has the loss

    loss_g(S, b) = max( [0,] max_{p in g}  (M vec S)_p + s_p b_{j(p)} + c_p )

Each row of the sparse M takes one or two scores of one example. 0 is one more piece (the "zero piece") where ``floor``
is True. The free offsets b are a bias or ordinal thresholds, where the loss has them. The losses:

    binary      max(0, 1 - y (<w, x> + b))                                   (2) of paper 2; bias b optional
    multiclass  max_k cost[y, k] + <w_k - w_y, x>                            Crammer and Singer 2001, margin scaled
    multilabel  max(0, max_{r in Y, s not in Y} 1 + <w_s - w_r, x>)          Crammer and Singer 2003, as in BMRM
    ordinal     sum_j max(0, 1 - z_j (<w, x> - theta_j)), z_j = +1 if y > j, else -1    Chu and Keerthi 2005, implicit
    pieces      max_p <a_p, w> + c_p                                         anything else

The ordinal loss of one example is a sum over its thresholds, so it has one group for each of them. At an optimum the
thresholds are in order without a constraint (Chu and Keerthi 2005, theorem 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from convexstruct.arrays import Index, Matrix, Vector
from convexstruct.validation import arrays
from convexstruct.validation.arguments import cut, described, flag, sentence, sized, whole
from convexstruct.validation.arrays import raw, real, wholes
from convexstruct.validation.sparse import dense, matrix


@dataclass(frozen=True, eq=False)
class PiecewiseLoss:
    """The pieces of every example, in the order of their groups.

    Attributes
    ----------
    kind : "binary", "multiclass", "multilabel", "ordinal" or "pieces".
    combine : M, sparse (m, n K): piece p of the scores vec S, row-major.
    offset : c, (m,).
    start : (G + 1,) group g has the pieces start[g] .. start[g + 1] - 1, at least one.
    example : (G,) the example each group belongs to.
    floor : whether 0 is one more piece of every group.
    n_outputs : K, columns of the scores.
    labels : of the examples: +-1 (n,), class codes (n,), 0/1 (n, K) or level codes (n,); empty for "pieces".
    classes : the user's values of the labels, in the order of their codes.
    n_biases : how many free offsets b there are; a group with one has a single piece and a floor.
    bias_of, bias_sign : (m,) j(p) and s_p = +-1; empty without free offsets.
    """

    kind: str
    combine: sp.csr_array
    offset: Vector
    start: Index
    example: Index
    floor: bool
    n_outputs: int
    labels: NDArray[Any]
    classes: NDArray[Any]
    n_biases: int
    bias_of: Index
    bias_sign: Vector

    @property
    def n_pieces(self) -> int:
        return len(self.offset)

    @property
    def n_groups(self) -> int:
        return len(self.example)

    @cached_property
    def single(self) -> tuple[Vector, Index | None] | None:
        """(factor, row) of each piece, if each takes one score (row None: all rows in order); else None."""
        combine = self.combine
        if self.n_outputs > 1 or combine.nnz != self.n_pieces or (np.diff(combine.indptr) != 1).any():
            return None
        rows = np.asarray(combine.indices, dtype=np.intp)
        in_order = len(rows) == combine.shape[1] and bool((rows == np.arange(len(rows))).all())
        return np.asarray(combine.data), None if in_order else rows

    def rows(self, n: int) -> Index:
        """Where each example begins among the ``n`` rows of features, and n."""
        return self.start if self.kind == "pieces" else np.arange(n + 1)

    def pieces_of(self, examples: Index) -> Index:
        """The first piece of each of ``examples``; the number of pieces for one after the last."""
        return self.start[np.searchsorted(self.example, examples)]

    def some(self, first: int, last: int, row: Index) -> PiecewiseLoss:
        """The pieces of the examples first .. last - 1, without their labels; ``row`` as `rows` returns it."""
        low, high = np.searchsorted(self.example, (first, last))
        pieces = slice(self.start[low], self.start[high])
        return replace(
            self,
            combine=self.combine[pieces, row[first] * self.n_outputs : row[last] * self.n_outputs],
            offset=self.offset[pieces],
            start=self.start[low : high + 1] - self.start[low],
            example=self.example[low:high] - first,
            labels=self.labels[:0],
            bias_of=self.bias_of[pieces],
            bias_sign=self.bias_sign[pieces],
        )

    def predicted(self, scores: Any, b: Vector | None) -> list[Any]:
        """The labels of rows with these scores (n,), or (n, K), and free offsets b; see `RegularizedRisk.predict`."""
        if self.kind == "binary":
            return list(self.classes[(scores + (0.0 if b is None else b) > 0).astype(np.intp)])
        if self.kind == "multiclass":
            return list(self.classes[scores.argmax(axis=1)])
        if self.kind == "ordinal":
            q = len(self.classes) - 1
            fixed = (self.offset - 1.0)[:q] * -self.combine.data[:q]
            return list(self.classes[(scores[:, None] > (fixed if b is None else b)).sum(axis=1)])
        return list(scores)

    def matrix(self, X: Any) -> Any:
        """A (m, d K) of all pieces, w flattened row by row: sparse, unless X is dense and has one output."""
        if self.n_outputs == 1:
            return sp.csr_array(self.combine @ X) if sp.issparse(X) else np.asarray(self.combine @ X)
        d = X.shape[1]
        wide = sp.kron(sp.csr_array(X), sp.identity(self.n_outputs), format="csr")  # column (feature, output)
        order = np.arange(d * self.n_outputs).reshape(d, self.n_outputs).T.ravel()
        return sp.csr_array((sp.csr_array(self.combine @ wide))[:, order])


_NONE: Index = np.zeros(0, dtype=np.intp)


def binary(y: ArrayLike, n: int, bias: bool) -> PiecewiseLoss:
    """1 - y_i (<w, x_i> + b) for each example; y as +-1, or any two values, of which the larger counts as +1."""
    values = arrays.labels("y", y, n)
    found = np.unique(values)
    if len(found) > 2 or (len(found) == 1 and found[0] not in (-1, 1)):
        raise ValueError(f"y holds {_listed(found)}, wanted two values, such as -1 and +1")
    classes = found if len(found) == 2 else np.array([-1, 1])
    signs = np.where(values == classes[1], 1.0, -1.0)
    if bias and len(found) == 1:
        raise ValueError(f"y holds {found[0]} alone, wanted both classes where there is a bias")
    rows = np.arange(n)
    extra = (1, np.zeros(n, dtype=np.intp), -signs) if bias else (0, _NONE, np.zeros(0))
    combine = sp.csr_array((-signs, rows, np.arange(n + 1)), shape=(n, n))
    return PiecewiseLoss("binary", combine, np.ones(n), np.arange(n + 1), rows, True, 1, signs, classes, *extra)


def multiclass(y: ArrayLike, n: int, cost: ArrayLike | None, n_classes: int | None) -> PiecewiseLoss:
    """cost[y_i, k] + <w_k - w_{y_i}, x_i> for each other class k; k = y_i is the zero piece."""
    values = arrays.labels("y", y, n)
    if n_classes is None:
        classes, codes = np.unique(values, return_inverse=True)
    else:
        n_classes = whole("n_classes", n_classes, least=2)
        sized("n_classes", n_classes, n_classes * max(n, n_classes))
        classes = np.arange(n_classes)
        if not np.isin(values, classes).all():
            odd = values[~np.isin(values, classes)][0]
            raise sentence(
                f"y holds {described(odd)}, wanted classes 0 .. {n_classes - 1}, for n_classes is {n_classes}"
            )
        codes = values.astype(np.intp)
    k = len(classes)
    if k < 2:
        raise ValueError(f"y holds {_listed(classes)}, wanted at least two classes (or say n_classes)")
    table = 1.0 - np.eye(k) if cost is None else read_cost(cost, k)
    other = np.tile(np.arange(k), (n, 1))
    keep = other != codes[:, None]
    example = np.repeat(np.arange(n), k - 1)
    combine = _differences(example, other[keep], codes[example], n, k)
    start = (k - 1) * np.arange(n + 1)
    offset = table[codes[example], other[keep]]
    return PiecewiseLoss(
        "multiclass", combine, offset, start, np.arange(n), True, k, codes, classes, 0, _NONE, np.zeros(0)
    )


def multilabel(Y: Any, n: int) -> PiecewiseLoss:
    """1 + <w_s - w_r, x_i> for each label r that example i has and each s that it has not."""
    values = raw("Y", dense("Y", Y), "(examples, labels) of 0 and 1")
    if values.dtype.kind not in "biuf":
        raise sentence(f"Y holds {values.dtype}, wanted 0 and 1")
    if values.ndim != 2 or values.shape[0] != n or values.shape[1] < 2:
        raise ValueError(f"Y has shape {values.shape}, wanted ({n}, labels) with at least two labels")
    if not np.isin(values, (0, 1)).all():
        raise ValueError(f"Y holds {values[~np.isin(values, (0, 1))][0]}, wanted 0 and 1")
    has = values.astype(bool)
    example, wrong, right = np.nonzero(~has[:, :, None] & has[:, None, :])
    if len(example) == 0:
        raise ValueError("Y gives every example all labels or none, wanted at least one example with some")
    used, first = np.unique(example, return_index=True)
    k = values.shape[1]
    combine = _differences(example, wrong, right, n, k)
    start = np.append(first, len(example))
    return PiecewiseLoss(
        "multilabel", combine, np.ones(len(example)), start, used, True, k, values.astype(np.int64), np.arange(k),
        0, _NONE, np.zeros(0),
    )  # fmt: skip


def ordinal(y: ArrayLike, n: int, thresholds: ArrayLike | None) -> PiecewiseLoss:
    """1 - z_ij (<w, x_i> - theta_j) for each threshold j; theta free, or fixed where ``thresholds`` gives them."""
    values = arrays.labels("y", y, n)
    classes, codes = np.unique(values, return_inverse=True)
    if thresholds is not None:
        fixed = real("thresholds", thresholds, ("thresholds",))
        if (np.diff(fixed) < 0).any():
            raise ValueError("thresholds must be a sequence of finite numbers in rising order, at least one")
        if not np.isin(values, np.arange(len(fixed) + 1)).all():
            raise ValueError(f"y holds {_listed(classes)}, wanted levels 0 .. {len(fixed)} with the thresholds given")
        classes, codes = np.arange(len(fixed) + 1), values.astype(np.intp)
    q = len(classes) - 1
    if q < 1:
        raise ValueError(f"y holds {_listed(classes)}, wanted at least two levels")
    example, at = np.repeat(np.arange(n), q), np.tile(np.arange(q), n)
    z = np.where(codes[example] > at, 1.0, -1.0)
    combine = sp.csr_array((-z, example, np.arange(n * q + 1)), shape=(n * q, n))
    offset = np.ones(n * q) if thresholds is None else 1.0 + z * fixed[at]
    extra = (q, at, z) if thresholds is None else (0, _NONE, np.zeros(0))
    return PiecewiseLoss(
        "ordinal", combine, offset, np.arange(n * q + 1), example, True, 1, codes, classes, *extra
    )  # fmt: skip


def pieces(offset: ArrayLike, m: int, example: ArrayLike | None, floor: bool) -> PiecewiseLoss:
    """<a_p, w> + c_p, the rows of X as the a_p; ``example`` says which rows belong together, default all."""
    c = real("b", offset, (m,), what="offsets", why="one offset a row of A")
    floor = flag("floor", floor)
    of = np.zeros(m, dtype=np.intp) if example is None else wholes("example", example, (m,))
    if of[0] != 0 or not np.isin(np.diff(of), (0, 1)).all():
        raise ValueError("example must number the examples 0, 1, .. in rising order, each with at least one row")
    n = int(of[-1]) + 1
    start = np.searchsorted(of, np.arange(n + 1))
    none = np.zeros(0)
    return PiecewiseLoss(
        "pieces", sp.csr_array(sp.identity(m, format="csr")), c, start, np.arange(n), bool(floor), 1, none, none,
        0, _NONE, none,
    )  # fmt: skip


def read_features(name: str, X: Any, columns: int | str = "features") -> Any:
    """Validate a matrix of features: dense as float64, or sparse as CSR. ValueError if it is not two-dimensional, has
    no rows or other ``columns`` than wanted, or holds what is no finite number."""
    return matrix(name, X, "examples", columns, what="features")


def read_cost(cost: ArrayLike, k: int) -> Matrix:
    """Validate cost[y, k]: finite, not negative, zero where k = y."""
    table = real("cost", cost, (k, k), what="costs", least=0, why="true class by other class")
    if np.diagonal(table).any():
        raise ValueError("cost must be finite and not negative, with zeros on its diagonal")
    return table


def _differences(example: Index, plus: Index, minus: Index, n: int, k: int) -> sp.csr_array:
    """Rows S[example, plus] - S[example, minus], each in the order of its columns: SciPy sorts the rows of a matrix in
    place when an operation asks for it, which would change the data of other matrices that share them."""
    m = len(example)
    sign = np.where(plus < minus, 1.0, -1.0)
    columns = np.stack((example * k + np.minimum(plus, minus), example * k + np.maximum(plus, minus)), axis=1).ravel()
    data = np.stack((sign, -sign), axis=1).ravel()
    return sp.csr_array((data, columns, 2 * np.arange(m + 1)), shape=(m, n * k))


def _listed(values: Sequence[Any] | NDArray[Any]) -> str:
    shown = ", ".join(cut(str(value), 20) for value in values[:5])
    return f"{len(values)} value{'s' if len(values) != 1 else ''} ({shown}{', ..' if len(values) > 5 else ''})"


def best_offsets(loss: PiecewiseLoss, shares: Vector, values: Vector) -> tuple[Vector, Vector]:
    """(b (n_biases,), alpha (m,)) of min_b sum share max(0, values + s b) = max over Q of <values, alpha>.

    For each offset the slope starts at minus the share of its pieces with s < 0, and rises by the share of a piece at
    its kink -s values. Its sign changes at the best b, the kink of a piece whose alpha is a part of its share.
    """
    sign, of = loss.bias_sign, loss.bias_of
    b, alpha = np.zeros(loss.n_biases), np.zeros(loss.n_pieces)
    for j in range(loss.n_biases):
        rows = np.flatnonzero(of == j) if loss.n_biases > 1 else np.arange(loss.n_pieces)
        kinks = -sign[rows] * values[rows]
        order = np.argsort(kinks, kind="stable")
        rows = rows[order]
        share, falling = shares[rows], sign[rows] < 0
        passed = np.cumsum(share)
        target = float(share[falling].sum())
        at = min(int(np.searchsorted(passed, target)), len(rows) - 1)
        b[j] = kinks[order[at]]
        filled = np.where((np.arange(len(rows)) < at) != falling, share, 0.0)
        rest = min(max(target - (passed[at] - share[at]), 0.0), share[at])
        filled[at] = share[at] - rest if falling[at] else rest
        alpha[rows] = filled
    return b, alpha
