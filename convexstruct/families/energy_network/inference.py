r"""Inference in a convex energy network, for given weights: the least energy on the cube, of several examples at once.

    min over Y in [0, 1]^(n x L) of sum_i E(y_i),   E(y_i) = - <scores_i, y_i> + 1/2 y_i'Q y_i + sum_k v_k softplus(..)

(`energy`; scores_i = U x_i, to which 1 - 2 t_i is added where the loss is: loss-augmented inference.) Paper 1 predicts
by gradient steps on an energy of this kind; where it is convex, the exact minimum is known and certified: every Y in
the cube gives a lower bound by its tangent, so the dual point is a Y too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from convexstruct.arrays import OPTIONAL, Labels, Matrix, Point, Vector
from convexstruct.brief import brief
from convexstruct.families.energy_network.energy import Energy, semidefinite
from convexstruct.rounding import Rounded, exact, summed
from convexstruct.tolerances import ROUNDING
from convexstruct.validation.arguments import mapping, sentence
from convexstruct.validation.arrays import predictive, real


@dataclass(frozen=True, eq=False)
class EnergyInference:
    """Energies to be minimised over the cube.

    Attributes
    ----------
    scores : (n, L), the linear term of each example, with a minus in E.
    Q : (L, L) symmetric positive semidefinite.
    hidden : (K, L + 1), rows (a_k, b_k) of the hidden layer; None without one.
    v : (K,) weights of the hidden units, at least 0; None without a hidden layer.
    """

    scores: Matrix
    Q: Matrix
    hidden: Matrix | None = field(default=None, metadata=OPTIONAL)
    v: Vector | None = field(default=None, metadata=OPTIONAL)
    family: ClassVar[str] = "energy_network"

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", real("scores", self.scores, ("examples", "labels")))
        n_labels = self.scores.shape[1]
        q = real("Q", self.Q, (n_labels, n_labels), why="one row and one column a label")
        apart = float(np.abs(q - q.T).max())
        if apart > ROUNDING * float(np.abs(q).max()):
            raise sentence(f"Q is not symmetric, entries differ by {apart:.2g}, wanted a symmetric matrix")
        lowest = float(np.linalg.eigvalsh(q)[0])
        if lowest < -ROUNDING * float(np.abs(q).max()):
            raise sentence(f"Q has the eigenvalue {lowest:.3g}, wanted a positive semidefinite matrix")
        object.__setattr__(self, "Q", q)
        object.__setattr__(self, "hidden", read_hidden(self.hidden, n_labels))
        if (self.hidden is None) != (self.v is None):
            raise sentence("v and hidden are given one without the other, wanted both or neither")
        if self.hidden is not None:
            object.__setattr__(self, "v", real("v", self.v, (len(self.hidden),), least=0.0, why="one a hidden unit"))

    @cached_property
    def energy(self) -> Energy:
        a, b = layer(self.hidden, self.scores.shape[1])
        return Energy(self.Q, np.zeros(0) if self.v is None else self.v, a, b)

    @cached_property
    def _carried(self) -> Energy:
        """The same, of numbers that carry their rounding."""
        return Energy(exact(self.Q), self.energy.v, self.energy.A, self.energy.b)

    @cached_property
    def _bent(self) -> float:
        """At most so much does E lie below its tangents, for Q is semidefinite up to rounding: with BB' exactly so,
        y'Qy >= - sum |Q - BB'| for y in [-1, 1]^L."""
        off = abs(self.Q - semidefinite(self.Q))
        return 0.5 * float((off.value + off.errors).sum()) * (1.0 + ROUNDING)

    @property
    def trivial_value(self) -> float:
        """The sum of the sizes of all terms, at least what E differs by on the cube."""
        e = self.energy
        with np.errstate(all="ignore"):
            hidden = np.abs(e.v) @ (np.abs(e.A).sum(axis=1) + np.abs(e.b) + 1.0)
            return float(np.abs(self.scores).sum() + len(self.scores) * (np.abs(self.Q).sum() + hidden)) or 1.0

    def trivial(self) -> tuple[Point, Point]:
        """The middle of the cube."""
        return {"Y": np.full(self.scores.shape, 0.5)}, {"Y": np.full(self.scores.shape, 0.5)}

    def as_point(self, value: Any) -> Point:
        """Y: an array (n, L), or a mapping with it."""
        return read_cube("point", value, self.scores.shape)

    def residuals(self, point: Point) -> Mapping[str, float]:
        """How far entries lie outside 0 and 1."""
        return outside(point)

    def repair(self, point: Point) -> Point:
        """Clipped to the cube."""
        return {"Y": np.clip(point["Y"], 0.0, 1.0)}

    def primal(self, point: Point) -> Rounded:
        """sum_i E(y_i); inf where it is not finite."""
        with np.errstate(all="ignore"):
            value = summed(self._carried.values(exact(self.scores), point["Y"]))
            return value if np.isfinite(value) and np.isfinite(point["Y"]).all() else Rounded(np.inf)

    def dual(self, dual_point: Point) -> Rounded:
        """The sum of the tangents' bounds at Y, clipped to the cube; -inf where Y is not finite. The allowance includes
        what E may lie below its tangents."""
        y = read_cube("dual_point", dual_point, self.scores.shape)["Y"]
        if not np.isfinite(y).all():
            return Rounded(-np.inf)
        y, scores = np.clip(y, 0.0, 1.0), exact(self.scores)
        with np.errstate(all="ignore"):
            value = summed(self._carried.values(scores, y) - self._carried.gaps(scores, y))
            found = Rounded.of(float(value), value.allowance, len(y) * self._bent)
            return found if np.isfinite(found.lower) else Rounded(-np.inf)

    def rounding_reason(self, point: Point, dual_point: Point | None) -> str:
        """That of Q, where it makes half of the lower bound's allowance or more."""
        if dual_point is None or 2.0 * len(self.scores) * self._bent < self.dual(dual_point).allowance:
            return ""
        return (
            "Q is positive semidefinite only up to rounding, so that each energy may lie "
            f"{self._bent:.1e} below its tangents: ask for a larger gap"
        )

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """How far entries lie outside 0 and 1."""
        return outside(read_cube("dual_point", dual_point, self.scores.shape))

    def predict(self, point: Any, examples: None = None) -> list[Labels]:
        """The labels of each example, 1 where y is at least 1/2; (L,) each.

        Raises
        ------
        ValueError
            If ``point`` is none, or ``examples`` are given: the problem holds scores, not weights.
        """
        if examples is not None:
            raise sentence("examples are given, wanted None: the problem has scores, and no weights for new examples")
        return list((predictive(self.as_point(point))["Y"] >= 0.5).astype(np.int64))


def read_hidden(hidden: Any, n_labels: int) -> Matrix | None:
    """The hidden layer (K, L + 1), or None."""
    if hidden is None:
        return None
    return real("hidden", hidden, ("units", n_labels + 1), why="a weight a label and an offset")


def layer(hidden: Matrix | None, n_labels: int) -> tuple[Matrix, Vector]:
    """A (K, L) and b (K,); K = 0 without a hidden layer."""
    return (np.zeros((0, n_labels)), np.zeros(0)) if hidden is None else (hidden[:, :-1], hidden[:, -1])


def read_cube(what: str, value: Any, shape: tuple[int, ...], name: str = "Y") -> Point:
    """The array ``name`` of a "point", which may be given as it is, or of a "dual_point"."""
    array = mapping(what, value, {name})[name] if isinstance(value, Mapping) or what == "dual_point" else value
    return {name: real(name if what == "point" else f"{what}[{name!r}]", array, shape, finite=False, keep=False)}


def outside(point: Point) -> dict[str, float]:
    """How far the one array of ``point`` lies outside the cube, by the name of the constraint."""
    ((name, y),) = point.items()
    far = np.maximum(-y, y - 1.0).max() if np.isfinite(y).all() else np.inf
    return {f"{name} outside the cube": max(float(far), 0.0)}
