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
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.rounding import Rounded, RoundedArray, dot, least_eigenvalue, maximum, summed
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
        image = self._relation @ lam
        value: Rounded = 0.5 * dot(lam, image) + summed(maximum(1.0 - image, 0.0))
        return value

    def dual(self, dual_point: Point) -> Rounded:
        """The lower bound of x, moved into [0, 1], with its allowance; -inf where x is not finite."""
        x = self._read("dual_point", dual_point, "x")
        if not np.isfinite(x).all():
            return Rounded(-np.inf)
        x = np.clip(x, 0.0, 1.0)
        bent = Rounded(max(0.0, -self._least)) * len(x)
        value: Rounded = summed(x) - 0.5 * (dot(x, self._relation @ x) + bent)
        return value

    @cached_property
    def _relation(self) -> RoundedArray:
        """Q (p1, p1)."""
        return self.problem.rounded_gram * self.given / (0.5 * self.problem.beta)

    @cached_property
    def _least(self) -> float:
        """At most the least eigenvalue of Q."""
        return least_eigenvalue(self._relation)

    def _read(self, what: str, given: Any, name: str) -> Vector:
        read = mapping(what, given, {name})
        return real(f"{what}[{name!r}]", read[name], (self.problem.n_rows,), finite=False, keep=False)
