r"""Penalties h of the slacks in (28) of paper 0: each convex, rising, h(0) = 0, with its conjugate.

    h*(b) = sup over eps >= 0 of b eps - h(eps),    h(eps) + h*(h'(eps)) = eps h'(eps)     (Fenchel and Young)

A multiplier beta_k enters the dual of (28) by its mass b = 1'beta_k / (eta w_k) alone, as - eta w_k h*(b). Where the
slopes of h are bounded, h* is infinite beyond the steepest: b lies in a box. Names, with u = max(b, 1):

    Linear          eps                            0,                          b <= 1
    Quadratic       a eps + kappa eps^2 / 2        (b - a)_+^2 / (2 kappa)
    Huber           eps^2 / (2 delta) up to delta, then eps - delta / 2;  delta b^2 / 2,  b <= 1
    Power           eps^p / p, p > 1               b^q / q, 1/p + 1/q = 1
    Exponential     s (e^{eps/s} - 1)              s (u ln u - u + 1)
    Capped          eps, eps <= m                  m (b - 1)_+

``value`` is h for 0 <= eps <= ``most``, the largest slack with a finite penalty; ``slope`` h', the steepest beyond it;
``curvature`` h'', 0 where it jumps or is infinite; ``conjugate`` h* for 0 <= b <= ``steepest`` = sup h', which
``conjugate_slope`` gives an eps to attain. value and conjugate take floats, arrays and numbers that carry their
rounding. name : as messages say it; latex : h(epsilon_k). The losses are in the unit of b_k(s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np

from convexstruct.rounding import FUNCTION, TINY, UNIT, Rounded, RoundedArray, exp, log, maximum
from convexstruct.validation.arguments import number, refuse


@dataclass(frozen=True)
class Linear:
    """h(eps) = eps, as in (2)."""

    name: ClassVar[str] = "linear"
    steepest: ClassVar[float] = 1.0
    most: ClassVar[float] = math.inf
    latex: ClassVar[str] = r"\epsilon_k"

    def value(self, eps: Any) -> Any:
        return eps

    def slope(self, eps: Any) -> Any:
        return np.ones_like(eps)

    def curvature(self, eps: Any) -> Any:
        return np.zeros_like(eps)

    def conjugate(self, b: Any) -> Any:
        return 0.0 * b

    def conjugate_slope(self, b: Any) -> Any:
        return np.zeros_like(b)


@dataclass(frozen=True)
class Quadratic:
    """h(eps) = slope0 eps + kappa eps^2 / 2. kappa : positive, one over the unit of loss. slope0 : at least 0."""

    kappa: float = 1.0
    slope0: float = 0.0
    name: ClassVar[str] = "quadratic"
    steepest: ClassVar[float] = math.inf
    most: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "kappa", _convex("kappa", self.kappa, "kappa eps^2 / 2"))
        object.__setattr__(self, "slope0", _rising("slope0", self.slope0))

    @property
    def latex(self) -> str:
        first = rf"{self.slope0:g}\, \epsilon_k + " if self.slope0 else ""
        return rf"{first}\tfrac{{{self.kappa:g}}}{{2}} \epsilon_k^2"

    def value(self, eps: Any) -> Any:
        return (0.5 * self.kappa) * (eps * eps) + self.slope0 * eps

    def slope(self, eps: Any) -> Any:
        return self.slope0 + self.kappa * eps

    def curvature(self, eps: Any) -> Any:
        return np.full_like(eps, self.kappa)

    def conjugate(self, b: Any) -> Any:
        rest = maximum(b - self.slope0, 0.0)
        return (rest * rest) / (2.0 * self.kappa)

    def conjugate_slope(self, b: Any) -> Any:
        return np.maximum(b - self.slope0, 0.0) / self.kappa


@dataclass(frozen=True)
class Huber:
    """h(eps) = eps^2 / (2 delta) up to delta, then eps - delta / 2. delta : positive, in the unit of loss."""

    delta: float = 1.0
    name: ClassVar[str] = "Huber"
    steepest: ClassVar[float] = 1.0
    most: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", _convex("delta", self.delta, "eps^2 / (2 delta)"))

    @property
    def latex(self) -> str:
        return rf"H_{{{self.delta:g}}}(\epsilon_k)"

    def value(self, eps: Any) -> Any:
        inner = -maximum(-eps, -self.delta)
        return (inner * inner) / (2.0 * self.delta) + (eps - inner)

    def slope(self, eps: Any) -> Any:
        return np.minimum(eps / self.delta, 1.0)

    def curvature(self, eps: Any) -> Any:
        return np.where(np.asarray(eps) < self.delta, 1.0 / self.delta, 0.0)

    def conjugate(self, b: Any) -> Any:
        return (0.5 * self.delta) * (b * b)

    def conjugate_slope(self, b: Any) -> Any:
        return self.delta * b


@dataclass(frozen=True)
class Power:
    """h(eps) = eps^p / p. p : above 1 (`Linear` is p = 1)."""

    p: float = 1.5
    name: ClassVar[str] = "power"
    steepest: ClassVar[float] = math.inf
    most: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        p = number("p", self.p)
        if not p > 1:
            raise ValueError(f"p is {p:g}, wanted above 1: eps^p / p is not convex below, and Linear() at 1")
        object.__setattr__(self, "p", p)

    @property
    def q(self) -> float:
        return self.p / (self.p - 1.0)

    @property
    def latex(self) -> str:
        return rf"\tfrac{{1}}{{{self.p:g}}} \epsilon_k^{{{self.p:g}}}"

    def value(self, eps: Any) -> Any:
        return _power(eps, self.p) / self.p

    def slope(self, eps: Any) -> Any:
        return np.power(eps, self.p - 1.0)

    def curvature(self, eps: Any) -> Any:
        return (self.p - 1.0) * np.power(np.maximum(eps, 1e-12), self.p - 2.0)

    def conjugate(self, b: Any) -> Any:
        # the divisor q has a relative error of a few units; those of the exponent are in `_power`
        found = _power(b, self.q, moved=8.0 * UNIT * self.q) / self.q
        return _widened(found, 8.0 * UNIT)

    def conjugate_slope(self, b: Any) -> Any:
        return np.power(b, self.q - 1.0)


@dataclass(frozen=True)
class Exponential:
    """h(eps) = s (e^{eps/s} - 1). scale : s, positive, in the unit of loss."""

    scale: float = 1.0
    name: ClassVar[str] = "exponential"
    steepest: ClassVar[float] = math.inf
    most: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _convex("scale", self.scale, "s e^{eps / s}"))

    @property
    def latex(self) -> str:
        return rf"{self.scale:g}\, (e^{{\epsilon_k / {self.scale:g}}} - 1)"

    def value(self, eps: Any) -> Any:
        return self.scale * (exp(eps / self.scale) - 1.0)

    def slope(self, eps: Any) -> Any:
        return np.exp(eps / self.scale)

    def curvature(self, eps: Any) -> Any:
        return np.exp(eps / self.scale) / self.scale

    def conjugate(self, b: Any) -> Any:
        u = maximum(b, 1.0)
        return self.scale * ((u * log(u) - u) + 1.0)

    def conjugate_slope(self, b: Any) -> Any:
        return self.scale * np.log(np.maximum(b, 1.0))


@dataclass(frozen=True)
class Capped:
    """h(eps) = eps, and no slack above m: hard beyond a violation that is tolerated. most : m, positive. Where no theta
    keeps the cap, solvers and certificates raise a `capped` proof.

    The hard margin, m = 0, is refused: the truth itself has slack 0, so that rounding lets no theta prove that it has
    no slack. Where it is feasible it is the limit of small m, and what `Linear` gives from some eta on: a multiplier
    of (3) that costs eta w_k at most is then as good as one without bound, and all slacks are 0.
    """

    most: float
    name: ClassVar[str] = "capped"
    steepest: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        if number("most", self.most) == 0:
            raise ValueError(
                "most is 0, the hard margin, wanted a positive number: a small cap comes near it, and linear slacks "
                "are it from some eta on"
            )
        object.__setattr__(self, "most", number("most", self.most, above=0))

    @property
    def latex(self) -> str:
        return rf"\epsilon_k \quad (\epsilon_k \le {self.most:g})"

    def value(self, eps: Any) -> Any:
        if isinstance(eps, RoundedArray):
            kept = eps.value + eps.errors <= self.most * (1.0 - 2.0 * UNIT)
            return RoundedArray(np.where(kept, eps.value, np.inf), eps.error)
        return np.where(np.asarray(eps) <= self.most, eps, np.inf)

    def slope(self, eps: Any) -> Any:
        return np.ones_like(eps)

    def curvature(self, eps: Any) -> Any:
        return np.zeros_like(eps)

    def conjugate(self, b: Any) -> Any:
        return self.most * maximum(b - 1.0, 0.0)

    def conjugate_slope(self, b: Any) -> Any:
        return np.where(b > 1.0, self.most, 0.0)


#: A penalty h.
SlackPenalty = Linear | Quadratic | Huber | Power | Exponential | Capped
#: All penalties, by the name that messages and tables use.
PENALTIES: dict[str, type] = {each.name: each for each in get_args(SlackPenalty)}


def read_penalty(h: Any) -> SlackPenalty | None:
    """``h`` as a problem keeps it: None for the linear one of (2). ValueError if it is no penalty."""
    if h is None or isinstance(h, Linear):
        return None
    if not isinstance(h, SlackPenalty):
        refuse("h", h, f"a penalty of the slacks: {', '.join(each.__name__ for each in PENALTIES.values())}")
    return h


def _convex(name: str, value: Any, term: str) -> float:
    found = number(name, value)
    if not found > 0:
        raise ValueError(f"{name} is {found:g}, wanted a positive number: {term} is not convex otherwise")
    return found


def _rising(name: str, value: Any) -> float:
    found = number(name, value)
    if found < 0:
        raise ValueError(
            f"{name} is {found:g}, wanted at least 0: h would fall at 0, and a slack that is paid for is no penalty"
        )
    return found


def _power(x: Any, exponent: float, moved: float = 0.0) -> Any:
    """x^exponent for x >= 0 and an exponent above 1 that may be wrong by ``moved``: it rises in x, so that the ends of
    an interval enclose it."""
    if not isinstance(x, (RoundedArray, Rounded)):
        return np.power(x, exponent)
    value, error = (x.value, x.errors) if isinstance(x, RoundedArray) else (np.asarray(float(x)), x.allowance)
    low, high = np.maximum(value - error, 0.0) * (1.0 - 4.0 * UNIT), (value + error) * (1.0 + 4.0 * UNIT)
    middle, ends = np.power(value, exponent), (np.power(low, exponent), np.power(high, exponent))
    logs = np.abs(np.log(np.where(high > 0, high, 1.0))) + np.abs(np.log(np.where(low > 0, low, 1.0)))
    relative = 2.0 * FUNCTION * UNIT + 2.0 * moved * logs
    return RoundedArray(
        middle, np.maximum(ends[1] - middle, middle - ends[0]) + relative * ends[1] + 4.0 * TINY * (high > 0)
    )


def _widened(x: Any, relative: float) -> Any:
    return RoundedArray(x.value, x.errors + relative * np.abs(x.value)) if isinstance(x, RoundedArray) else x
