r"""Proposition 1's minimum for a given M, with both bounds (paper 3, section 5).

    omega(M) = min over 0 <= lambda <= 1 of  lambda'Q lambda / 2 + sum_i max(0, 1 - (Q lambda)_i),      Q = K o M / beta

with M and beta as (1)-(3) have them: entries of M in [-1, 1], beta half the problem's.

**Upper bound**: the objective at any lambda, moved into [0, 1].

**Lower bound** by any x in [0, 1]: max(0, t) >= x_i t, and lambda'Q lambda / 2 = (lambda - x)'Q (lambda - x) / 2 + x'Q
lambda - x'Q x / 2, so

    omega(M) >= e'x - x'Qx / 2 - p1 max(0, -(least eigenvalue of Q)) / 2,

the last term because |lambda - x|^2 <= p1. It is needed because a solver's M, and so Q, is semidefinite only up to the
solver's accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from convexstruct.arrays import Matrix, Point, Vector
from convexstruct.families.unsupervised_margin.eigenvalue import least_eigenvalue
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.rounding import OUTWARD, UNIT, Rounded, gamma, summed
from convexstruct.validation.arguments import mapping
from convexstruct.validation.arrays import real


@dataclass(frozen=True, eq=False)
class FixedRelation:
    """omega(M) for two labels and no pairs. given (p1, p1) : M, entries from -1 to 1.

    **Point** {"lambda": (p1,)}; **dual witness** {"x": (p1,)}. Every finite one gives a bound.
    """

    problem: UnsupervisedMargin
    given: Matrix
    family: ClassVar[str] = "unsupervised_margin"

    @property
    def trivial_value(self) -> float:
        """p1, the loss of w = 0."""
        return float(self.problem.n_rows)

    def trivial(self) -> tuple[Point, Point]:
        none = np.zeros(self.problem.n_rows)
        return {"lambda": none}, {"x": none}

    def as_point(self, value: Any) -> Point:
        """Read {"lambda": (p1,)}."""
        return {"lambda": self._read("point", value, "lambda")}

    def repair(self, point: Point) -> Point:
        """lambda moved into [0, 1]."""
        return {"lambda": np.clip(point["lambda"], 0.0, 1.0)}

    def residuals(self, point: Point) -> Mapping[str, float]:
        """How far lambda is from [0, 1]."""
        lam = point["lambda"]
        return {"lambda outside [0, 1]": float(np.abs(lam - np.clip(lam, 0.0, 1.0)).max()) if len(lam) else 0.0}

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """How far x is from [0, 1]."""
        return self.residuals({"lambda": self._read("dual_point", dual_point, "x")})

    def primal(self, point: Point) -> Rounded:
        """The objective at lambda in [0, 1], with its allowance; inf where lambda is not finite."""
        if not np.isfinite(point["lambda"]).all():
            return Rounded(np.inf)
        lam = self.repair(point)["lambda"]
        image, error = self._image(lam)
        short = np.maximum(1.0 - image, 0.0)
        square = summed(0.5 * lam * image, float(lam @ error), 1)
        rest = summed(short, float((error + UNIT * (1.0 + np.abs(image))).sum()))
        value = float(square) + float(rest)
        return Rounded.of(value, square.allowance, rest.allowance, 2.0 * UNIT * abs(value))

    def dual(self, dual_point: Point) -> Rounded:
        """The lower bound of x, moved into [0, 1], with its allowance; -inf where x is not finite."""
        x = self._read("dual_point", dual_point, "x")
        if not np.isfinite(x).all():
            return Rounded(-np.inf)
        x = np.clip(x, 0.0, 1.0)
        image, error = self._image(x)
        gain = summed(x)
        square = summed(0.5 * x * image, float(x @ error), 1)
        bent = 0.5 * len(x) * max(0.0, -self._least) * OUTWARD
        value = float(gain) - float(square) - bent
        rounded = 4.0 * UNIT * (float(gain) + abs(float(square)) + bent)
        return Rounded.of(value, gain.allowance, square.allowance, rounded)

    @cached_property
    def _relation(self) -> Matrix:
        """Q (p1, p1) as it was computed."""
        return np.asarray(self.problem.gram * self.given / (0.5 * self.problem.beta))

    @property
    def _doubt(self) -> float:
        """An upper bound on the change of a row of Q (sum of absolute values) by the rounding of K."""
        return self.problem.kernel_error * float(np.abs(self.given).max(initial=0.0)) / (0.5 * self.problem.beta)

    @cached_property
    def _least(self) -> float:
        """A lower bound on the least eigenvalue of the exact Q."""
        sizes = np.abs(self._relation).sum(axis=1)
        return least_eigenvalue(self._relation, gamma(4) * float(sizes.max(initial=0.0)) + self._doubt * OUTWARD)

    def _image(self, x: Vector) -> tuple[Vector, Vector]:
        """Q x for x in [0, 1], and an upper bound on the error of each entry."""
        error = gamma(len(x) + 6) * (np.abs(self._relation) @ x) + self._doubt * OUTWARD
        return self._relation @ x, error

    def _read(self, what: str, given: Any, name: str) -> Vector:
        read = mapping(what, given, {name})
        return real(f"{what}[{name!r}]", read[name], (self.problem.n_rows,), finite=False, keep=False)
