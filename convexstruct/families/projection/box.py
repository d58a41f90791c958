r"""Projection onto a box cut by one linear equality (paper 2, appendix B), simplices among them:

    minimise over a   1/2 sum_i d_i^2 (a_i - m_i)^2      s.t.  l_i <= a_i <= u_i,   <s, a> = z.

The projection onto the local marginal polytope (E.3) is `tables`.

**Dual.** With rho the multiplier of <s, a> = z,

    D(rho) = min over the box of 1/2 sum_i d_i^2 (a_i - m_i)^2 + rho (<s, a> - z),
             attained at a_i(rho) = clip(m_i - rho s_i / d_i^2, l_i, u_i),                                    (27)-(29)

which is a lower bound for every rho, and largest where phi(rho) = <s, a(rho)> - z = 0 (30). (In the paper l = 0 and
s > 0; here bounds may be infinite and s_i of any sign. Where s_i = 0 the entry is clip(m_i, l_i, u_i) for every rho.)

**Dual witness.** {"rho": a number}. Every finite number is valid.

**Allowance** (`rounding`). P: the rounding of its sums, and the rise of P where a is moved until <s, a> is exactly z,
about |rho| times the rounding of <s, a>. D: the rounding of its sums, and of a(rho). A z outside the values that <s, a>
takes in the box, by no more than rounding, is accepted and read as the nearest such value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Point, Vector
from convexstruct.brief import brief
from convexstruct.families.projection.rounding import beyond, looked_at, lost, lower_bound, sums, upper_bound
from convexstruct.oracles.box.projection import EQUALITY_ROUNDING, Box, checked
from convexstruct.rounding import UNIT, Rounded, total
from convexstruct.tolerances import HIGH
from convexstruct.validation.arguments import mapping, number, sentence
from convexstruct.validation.arrays import real


@dataclass(frozen=True, eq=False)
class BoxProjection:
    """Project m onto {lower <= a <= upper, <s, a> = z} in the norm with weights d.

    Attributes
    ----------
    m : (n,) what is projected.
    lower, upper : (n,), or one number for all entries; -inf and inf where there is no bound.
    s : (n,), or one number; may be 0 or negative.
    z : what <s, a> must be.
    d : (n,), or one number; positive.
    """

    m: Vector
    lower: Vector | float = 0.0
    upper: Vector | float = np.inf
    s: Vector | float = 1.0
    z: float = 1.0
    d: Vector | float = 1.0
    family: ClassVar[str] = "projection"

    __repr__ = brief

    def __post_init__(self) -> None:
        m = real("m", self.m, ("n",))
        object.__setattr__(self, "m", m)
        for name in ("lower", "upper", "s", "d"):
            array = real(name, getattr(self, name), m.shape, (), finite=name in ("s", "d"))
            if np.isnan(array).any():
                raise ValueError(f"{name} contains NaN, wanted numbers, or an infinity where there is no bound")
            object.__setattr__(self, name, float(array) if array.ndim == 0 else array)
        if self.weight_ends[0] <= 0:
            raise ValueError(f"d has the entry {self.weight_ends[0]:g}, wanted positive numbers")
        crossed = np.broadcast_to(np.asarray(self.lower) > np.asarray(self.upper), m.shape)
        if crossed.any() or np.any(np.asarray(self.lower) == np.inf) or np.any(np.asarray(self.upper) == -np.inf):
            i = int(np.argmax(crossed))
            low, high = (float(np.broadcast_to(x, m.shape)[i]) for x in (self.lower, self.upper))
            raise ValueError(
                f"the bounds of entry {i} are {low:g} and {high:g}, wanted lower <= upper and a number between"
            )
        object.__setattr__(self, "z", number("z", self.z))
        checked(self.z, self._reach)

    @cached_property
    def box(self) -> Box:
        """The data as the search takes them."""
        return Box.read(self.m, self.lower, self.upper, self.s, self.d)

    @cached_property
    def _reach(self) -> tuple[float, float]:
        """The least and greatest <s, a> in the box, up to rounding."""
        return self.box.attainable()

    @cached_property
    def _beyond(self) -> float:
        """A bound on how far z lies outside the values that <s, a> takes."""
        return beyond(self.box, self.z, self._reach)

    @classmethod
    def simplex(cls, m: ArrayLike, z: float = 1.0, d: ArrayLike = 1.0) -> BoxProjection:
        """Onto {a >= 0, sum a = z}."""
        return cls(m, 0.0, np.inf, 1.0, z, d)  # type: ignore[arg-type]  # read in __post_init__

    @classmethod
    def capped_simplex(cls, m: ArrayLike, cap: ArrayLike = 1.0, z: float = 1.0, d: ArrayLike = 1.0) -> BoxProjection:
        """Onto {0 <= a <= cap, sum a = z}: with z = k and cap 1, the convex hull of choices of k entries."""
        return cls(m, 0.0, cap, 1.0, z, d)  # type: ignore[arg-type]  # read in __post_init__

    @property
    def n(self) -> int:
        """Number of entries."""
        return len(self.m)

    @cached_property
    def weight(self) -> Vector | float:
        """d^2."""
        return self.d * self.d

    @cached_property
    def weight_ends(self) -> tuple[float, float]:
        """The least and the greatest d."""
        return float(np.min(self.d)), float(np.max(self.d))

    @cached_property
    def trivial_value(self) -> float:
        """1/2 sum d_i^2 m_i^2 + z^2 / (2 sum s_i^2 / d_i^2), or 1 where that is 0 or overflows.

        The first term is the objective at a = 0, the second its minimum on <s, a> = z for m = 0: a unit for gaps that
        is not 0 where m is feasible and the optimum 0.
        """
        with np.errstate(all="ignore"):
            size, reach = self._squares
            value = 0.5 * (size + (self.z * self.z / reach if reach else 0.0))
        return value if 0.0 < value < np.inf else 1.0

    def trivial(self) -> tuple[Point, Point]:
        """The feasible point that `repair` makes of 0, and rho = 0."""
        return self.repair({"a": np.zeros(self.n)}), {"rho": np.zeros(())}

    # -- primal --------------------------------------------------------------------------------------------------------

    def as_point(self, value: Any) -> Point:
        """Read a, as an array (n,) or under "a"."""
        if isinstance(value, Mapping):
            value = mapping("point", value, {"a"})["a"]
        return {"a": real("a", value, (self.n,), finite=False, keep=False)}

    def primal(self, point: Point) -> Rounded:
        """1/2 sum d_i^2 (a_i - m_i)^2, with its allowance; infinite where a is outside the box."""
        return self.examined(point, None)[1]

    def total(self, a: Vector) -> Rounded:
        """<s, a>."""
        return total([sums(part, a[cut]).weighted for cut, part in self.box.blocks()])

    def residuals(self, point: Point) -> Mapping[str, float]:
        """How far a lies outside the bounds, and <s, a> from z; the latter divided by max(1, |z|), and 0 where it is
        only rounding, which the allowance of P covers."""
        return self.examined(point, None)[0]

    @np.errstate(all="ignore")
    def examined(self, point: Point, dual_point: Point | None) -> tuple[Mapping[str, float], Rounded, Rounded]:
        """(`residuals`, `primal`, `dual`), from one pass over the entries; D is -inf without a dual point."""
        rho = np.nan if dual_point is None else self._read_dual(dual_point)
        found, lower = looked_at(self.box, point["a"], rho), Rounded(-np.inf)
        if found.least is not None:
            wrong = lost(rho, *self._squares, self.weight_ends)
            lower = lower_bound(self.box, self.z, rho, found.least, wrong, self._beyond)
        off = abs(self._missing(found.sums.weighted)) / max(1.0, abs(self.z))
        residuals = {"a below its lower bound": found.below, "a above its upper bound": found.above}
        return residuals | {"<s, a> off z": off}, upper_bound(self.box, self.z, point["a"], found), lower

    def _missing(self, total: Rounded) -> float:
        """z - <s, a>; 0 where no profile asks for less, and it is no more than <s, a> itself is rounded by."""
        missing, rounding = self.z - float(total), EQUALITY_ROUNDING / UNIT * total.allowance
        return 0.0 if abs(missing) <= min(HIGH.feasibility * max(1.0, abs(self.z)), rounding) else missing

    @np.errstate(all="ignore")
    def repair(self, point: Point) -> Point:
        """Clip to the box, then move all entries the same share of the way to the bounds at which <s, a> is greatest
        (or least) until it is z; where some of these bounds are infinite, move only the entries that have them, along
        s / d^2."""
        a = point["a"].copy() if np.isfinite(point["a"]).all() else np.nan_to_num(point["a"])
        self.box.clip(a, a)
        for _ in range(2):  # a second, short move corrects the rounding of the first
            total = self.total(a)
            missing = self._missing(total)
            if missing == 0:
                break
            end, way = self._reach[missing > 0], np.sign(missing)
            room = end - float(total)
            share = min(1.0, max(0.0, missing / room)) if room else 0.0
            along = signs = 0.0
            if np.isinf(end):
                for _, part in self.box.blocks():
                    s = np.where(np.isfinite(part.ends(way)), 0.0, part.s)
                    along += float(np.sum(s * part.w))
                    signs += float(np.abs(s).sum())
            for cut, part in self.box.blocks():
                goal = part.ends(way, a[cut])
                if signs:
                    by_weight = 0.0 < along < np.inf  # else s^2 / d^2 underflows or overflows
                    step = missing / along * part.w if by_weight else missing / signs * np.sign(part.s)
                    step = np.where(np.isfinite(goal), 0.0, step)
                else:
                    step = share * (goal - a[cut])
                part.clip(a[cut] + step, a[cut])
        return {"a": a}

    # -- dual ----------------------------------------------------------------------------------------------------------

    def at(self, rho: float) -> Vector:
        """a(rho) = clip(m - rho s / d^2, lower, upper); (n,)."""
        return self.box.at(rho)

    @np.errstate(all="ignore")
    def dual(self, dual_point: Point) -> Rounded:
        """D(rho) with its allowance, a lower bound for every finite rho; -inf for others."""
        return self.examined({"a": self.at(self._read_dual(dual_point))}, dual_point)[2]

    @cached_property
    @np.errstate(all="ignore")
    def _squares(self) -> tuple[float, float]:
        """sum (d_i m_i)^2 and sum (s_i / d_i)^2."""
        if isinstance(self.d, float) and isinstance(self.s, float):
            return float(self.m @ self.m) * self.d * self.d, self.n * self.s / self.d * self.s / self.d
        size = reach = 0.0
        for _, part in self.box.blocks():
            away, steps = part.d * part.m, np.broadcast_to(part.s / part.d, part.m.shape)
            size, reach = size + float(away @ away), reach + float(steps @ steps)
        return size, reach

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """Every finite rho is feasible."""
        return {} if np.isfinite(self._read_dual(dual_point)) else {"rho not finite": np.inf}

    def _read_dual(self, dual_point: Point) -> float:
        rho = mapping("dual_point", dual_point, {"rho"})["rho"]
        return float(real("dual_point['rho']", rho, (), (1,), finite=False, keep=False).reshape(()))

    def predict(self, point: Any, examples: Any = None) -> list[Vector]:
        """Refused: a projection learns nothing from examples; its answer is the point itself.

        Raises
        ------
        ValueError
            Always; every other family predicts the labels of examples here.
        """
        raise sentence("a BoxProjection has no prediction: it learns nothing from examples, its answer is the point")
