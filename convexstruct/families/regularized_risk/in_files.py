r"""Regularised risks whose rows lie in files: sums over the rows of each file, and bounds from them.

A file has its own shares omega_i / W_f, W_f the sum of its weights, and with W = sum_f W_f the risk of all rows is the
mean of the files' risks, weighted by W_f / W. So J is the mean of their J, and Q holds the mean of members of their Q.

**Dual witness** of the size of w, in place of alpha: alpha_p = share_g q_g(p) with the weights
q_g(p) ~ exp(<Theta, a_p> + B c_p) of the pieces of group g and of its zero piece, in the arrays "gibbs" (1, dimension),
Theta, and "gibbs_loss" (1,), B. D is taken at the best t alpha, 0 <= t <= 1, which lies in Q as well.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct.arrays import Labels, Vector
from convexstruct.families.regularized_risk import losses
from convexstruct.families.regularized_risk.bounds import enclosed, member, upper
from convexstruct.families.regularized_risk.losses import PiecewiseLoss
from convexstruct.features.example_files import KEPT_BYTES, InFiles, Stored, read_files, refuse_all
from convexstruct.inference.shards import Shards, in_files
from convexstruct.rounding import Rounded, RoundedArray, dot, gamma, square
from convexstruct.validation.arguments import choice, mapping, sentence
from convexstruct.validation.arrays import real


class Rows(NamedTuple):
    """Rows of a file: X (n, d), dense or CSR, codes (n,) of their labels, and weights (n,)."""

    X: Any
    codes: Labels
    weights: Vector


class FiledRows(InFiles):
    """In place of X where the rows lie in files: every node of a sequence is a row, with the sequence's weight."""

    needs: ClassVar[Collection[str]] = ("labels", "node_features")
    alike: ClassVar[Collection[str]] = ()

    @staticmethod
    def made(stored: Stored) -> Rows:
        return Rows(stored.node_features, stored.labels, np.repeat(stored.weights, np.diff(stored.start)))

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_nodes, self.files[0].n_node_features


@dataclass(frozen=True)
class FiledLoss:
    """In place of the pieces of rows in files: how they follow from labels 0 .. n_labels - 1.

    kind : "binary", "multiclass" or "ordinal". given : the cost of classes, the thresholds of levels, or None.
    """

    kind: str
    n_labels: int
    given: Any = None
    n_biases: ClassVar[int] = 0

    def of(self, codes: Labels) -> PiecewiseLoss:
        """The pieces of rows with these labels."""
        if self.kind == "binary":
            return losses.binary(2 * codes - 1, len(codes), False)
        if self.kind == "multiclass":
            return losses.multiclass(codes, len(codes), self.given, self.n_labels)
        return losses.ordinal(codes, len(codes), self.given)

    @property
    def n_outputs(self) -> int:
        return self.n_labels if self.kind == "multiclass" else 1

    def predicted(self, scores: Any, b: Vector | None) -> list[Any]:
        return self.of(np.arange(self.n_labels)).predicted(scores, b)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(PiecewiseLoss, name) and name not in PiecewiseLoss.__dataclass_fields__:
            raise AttributeError(name)
        refuse_all(name)


def from_files(
    cls: Any,
    paths: Any,
    loss: str,
    lam: float,
    *,
    cost: ArrayLike | None = None,
    thresholds: ArrayLike | None = None,
    memory: int = KEPT_BYTES,
) -> Any:
    """Rows in files (`convexstruct.features.example_files`): every node of a sequence is a row, with the weight of the
    sequence, and sequences mean nothing else. `SemismoothNewton` solves it by tempering alone: no alpha is kept.

    Parameters
    ----------
    paths, memory : as `ConditionalRandomField.from_files` takes them; what is wrong with files is said as there.
    loss : "binary", where labels 0 and 1 stand for -1 and +1, "multiclass", or "ordinal". Offsets are fixed: a feature
        that is 1 everywhere takes the place of a bias.
    lam : as `RegularizedRisk.binary` takes it. cost, thresholds : as `multiclass` and `ordinal` do; an ordinal loss
        has thresholds, one less than there are labels.

    Raises
    ------
    ValueError
        If an argument is malformed; if a file is missing, damaged, changed, or holds what it must not.
    """
    rows = read_files(paths, memory, FiledRows)
    kind, n_labels = choice("loss", loss, ("binary", "multiclass", "ordinal")), rows.files[0].n_labels
    of = FiledLoss(kind, n_labels, cost if kind == "multiclass" else thresholds)
    if kind == "binary" and n_labels != 2:
        raise sentence(f"loss is 'binary', and the files have n_labels = {n_labels}, wanted 2")
    if kind == "ordinal":
        real("thresholds", thresholds, (n_labels - 1,), why="one less than the files have labels")
    of.of(np.arange(n_labels))  # refuses what is wrong with its arguments
    return cls(rows, of, lam)


@dataclass(frozen=True, eq=False)
class RowsOfFile:
    """The ``risk``, a `RegularizedRisk`, of a file's rows, with shares of their own, and its sums, each times W_f."""

    risk: Any

    @classmethod
    def made(cls, kind: type, loss: FiledLoss, lam: float, rows: Rows, _: Vector | None = None) -> RowsOfFile:
        """Of a file's rows, whose weights they have; ``kind`` is the class of the risk."""
        return cls(kind(rows.X, loss.of(rows.codes), lam, rows.weights))

    def mass(self) -> Rounded:
        """W_f, the sum of the rows' weights."""
        assert self.risk.weights is not None
        value = math.fsum(self.risk.weights.tolist())
        return Rounded(value, gamma(2) * value)

    def value(self, w: Vector) -> float:
        """J(w)."""
        return float(self.mass()) * float(self.risk.value(w))

    def upper(self, w: Vector) -> Rounded:
        """J(w) with its allowance."""
        found: Rounded = upper(self.risk, w, None) * self.mass()
        return found

    def pieces(self, theta: Vector, loss: float) -> tuple[Vector, Vector]:
        """(alpha (m,), ln Z (G,)) at Theta = ``theta`` and B = ``loss``; not times W_f."""
        risk = self.risk
        start = risk.loss.start[:-1]
        score = risk.forward(theta) + loss * risk.loss.offset
        top = np.maximum(np.maximum.reduceat(score, start), 0.0)
        each = np.exp(score - top[risk.group])
        total = np.add.reduceat(each, start) + np.exp(-top)
        return (risk.shares / total)[risk.group] * each, top + np.log(total)

    def softened(self, theta: Vector, loss: float) -> tuple[float, Vector, float]:
        """(sum_g share_g ln Z_g, - A' alpha flat, <c, alpha>); the first is inf where scores overflow."""
        risk, w = self.risk, float(self.mass())
        with np.errstate(over="ignore", invalid="ignore"):
            alpha, logs = self.pieces(theta, loss)
            value = float(risk.shares @ logs)
        if not math.isfinite(value):
            return math.inf, np.zeros(risk.dimension), 0.0
        return w * value, -w * np.ravel(risk.adjoint(alpha)), w * float(risk.loss.offset @ alpha)

    def variances(self) -> Vector:
        """The variance of each entry of the pieces, (dimension,), where all of a group are equally probable."""
        risk, n = self.risk, max(self.risk.loss.n_outputs, 2)
        X = risk.X.power(2) if sp.issparse(risk.X) else risk.X**2
        each = float(self.mass()) * (1.0 / n) * (1.0 - 1.0 / n) * np.asarray(X.mean(axis=0))
        return np.tile(each, risk.loss.n_outputs)

    def gibbs(self, theta: Vector, loss: float) -> tuple[Rounded, RoundedArray, Rounded]:
        """(<c, alpha>, A' alpha flat), with their errors, and eta, not times W_f: (1 - eta) alpha is in Q."""
        risk, w = self.risk, self.mass()
        near, eta = enclosed(risk, member(risk, self.pieces(theta, loss)[0]))
        return dot(risk.loss.offset, near) * w, risk.adjoint(near, None).reshape(-1) * w, Rounded(eta)


@dataclass(frozen=True, eq=False)
class RiskInFiles:
    """The sums of a risk over all its files, by the ``shards`` whose parts are `RowsOfFile`; each divided by W.

    It is what `convexstruct.core.tempering` takes: labellings of a group are its pieces, and the zero piece is
    the true one.
    """

    shards: Shards
    lam: float
    dimension: int

    @classmethod
    def of(cls, problem: Any) -> RiskInFiles:
        """Those of a `RegularizedRisk` whose rows lie in files."""
        made = partial(RowsOfFile.made, type(problem), problem.loss, problem.lam)
        return cls(in_files(problem.X, problem.workers, made), problem.lam, problem.dimension)

    @classmethod
    def of_sample(cls, problem: Any) -> RiskInFiles:
        """Those of a few of its rows."""
        rows = RowsOfFile.made(type(problem), problem.loss, problem.lam, problem.X.sample)
        return cls(Shards([rows], None), problem.lam, problem.dimension)

    @cached_property
    def truth_joint(self) -> Vector:
        """0: what the zero piece adds to scores."""
        return np.zeros(self.dimension)

    @cached_property
    def trivial_value(self) -> float:
        """J(0), above 0; 1 where it is 0."""
        return self.value(self.truth_joint) or 1.0

    @cached_property
    def mass(self) -> Rounded:
        """W."""
        return self.shards.total_each(RowsOfFile.mass, [()])

    def value(self, w: Vector) -> float:
        """J(w)."""
        return self.shards.total_each(RowsOfFile.value, [(w,)]) / float(self.mass)

    def upper(self, w: Vector) -> Rounded:
        """J(w) with its allowance."""
        value: Rounded = self.shards.total_each(RowsOfFile.upper, [(w,)]) / self.mass
        return value if math.isfinite(value) else Rounded(math.inf)

    def softened(self, theta: Vector, loss: float) -> tuple[float, Vector, float]:
        """(sum of share ln Z, Psi = - A' alpha flat, <c, alpha>) of all rows; the first is inf where scores
        overflow."""
        (value, psi, lost), w = self.shards.total_each(RowsOfFile.softened, [(theta, loss)]), float(self.mass)
        return value / w, psi / w, lost / w

    def variances(self) -> Vector:
        return self.shards.total_each(RowsOfFile.variances, [()]) / float(self.mass)

    def best_on_ray(self, psi: Vector, loss: float) -> float:
        """The greatest D of t alpha, 0 <= t <= 1."""
        bend = float(psi @ psi) / self.lam
        t = _best_share(loss, bend)
        return t * loss - 0.5 * t * (t * bend)

    def lower(self, dual_point: Any) -> Rounded:
        """D at the best t alpha; 0 of a witness without arrays. The sum of the files' eta is at least the largest, and
        with alpha Q holds all shorter ones."""
        given = self._read(dual_point)
        if given is None:
            return Rounded(0.0)
        theta, loss = given
        if not (np.isfinite(theta).all() and math.isfinite(loss)):
            return Rounded(-math.inf)
        gain, pull, eta = self.shards.total_each(RowsOfFile.gibbs, [(theta, loss)])
        with np.errstate(all="ignore"):
            gain, bend = gain / self.mass * Rounded(1.0, eta), square(pull / self.mass) / self.lam
            t = _best_share(float(gain), float(bend))
            value: Rounded = t * gain - 0.5 * (t * (t * bend))
        return value if math.isfinite(value) else Rounded(-math.inf)

    def dual_residuals(self, dual_point: Any) -> dict[str, float]:
        """Empty where the witness is finite: q is a distribution of any numbers."""
        theta, loss = self._read(dual_point) or (self.truth_joint, 0.0)
        finite = np.isfinite(theta).all() and math.isfinite(loss)
        return {} if finite else {"gibbs not finite": math.inf}

    def _read(self, dual_point: Any) -> tuple[Vector, float] | None:
        """(Theta, B) of a dual witness; None for alpha = 0, which has no arrays."""
        given = mapping("dual_point", dual_point, (), {"gibbs", "gibbs_loss"})
        if not given:
            return None
        named = mapping("dual_point", given, {"gibbs", "gibbs_loss"})
        theta = real("dual_point['gibbs']", named["gibbs"], (1, self.dimension), finite=False, keep=False)
        loss = real("dual_point['gibbs_loss']", named["gibbs_loss"], (1,), finite=False, keep=False)
        return theta[0], float(loss[0])


def _best_share(gain: float, bend: float) -> float:
    """The t, 0 <= t <= 1, of the greatest t gain - t^2 bend / 2."""
    return 1.0 if not bend > 0 else min(max(gain / bend, 0.0), 1.0)
