r"""Terms f of theta in (28) of paper 0, beside - c'theta, and centres: what c, or a piece's own centre, may be.

    (none)             - c'theta                                     D(c || e^theta) up to a constant, as in (2)
    QuadraticPenalty   rho/2 |theta - theta0|^2
    ReverseKL          rho sum_ij [e^theta (theta - ln q) - e^theta + q]     rho D(e^theta || q), section 3.2

**Reverse KL, three readings.** (i) Its entries are convex only where theta >= ln q - 1, so that without such a floor
the program of section 3.2 is not convex (as section 3.2 claims), and `ReverseKL` refuses it. (ii) The proximal problem
(19) with it is convex where gamma >= rho max q e^-2, and the paper's algorithm runs there, towards a stationary point.
(iii) With the floor the problem is convex, and its dual has the same value. As printed the term lacks - e^theta + q: it
then is no divergence where mass is missing, since e^theta ln(e^theta / q) is least at e^theta = q / e; ``printed``
gives that term, convex where theta >= ln q - 2.

Weights and centres are numbers, arrays (d,), or mappings of tables; ``of(layout)`` gives the piece with vectors in
their place, or a ValueError if they do not fit. Then, all by entries (d,): ``value`` and ``slope``, of an array or of
one with errors; ``curvature``, at least ``modulus``; ``convex_from``, the theta from which on f is convex; and
``least(u, lam)``, the theta at which f(theta) - u theta + lam e^theta is least, lam > 0, in closed form: by Wright's
omega (20), or by Lambert's W. ``latex``: f as in (28).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy

from convexstruct.arrays import Vector
from convexstruct.brief import brief
from convexstruct.families.generative_margin.constraints import Bound, Floor, spread
from convexstruct.features.counts.counts import Counts
from convexstruct.graphs import TableLayout
from convexstruct.rounding import exact, exp, log
from convexstruct.validation.arguments import flag, listed, refuse, sentence
from convexstruct.validation.arrays import bounded


def proximal_theta(u: Vector, lam: Vector, centre: Vector, weight: Vector | float) -> tuple[Vector, Vector]:
    r"""The x at which weight/2 (x - centre)^2 - u x + lam e^x is least, in closed form; and y = lam e^x / weight.

    With u = c - mu and weight = gamma x is the root of (20), mu - c - gamma theta^n + lam e^x + gamma x = 0. With
    a = centre + u / weight and z = ln(lam / weight) + a,

        y = wrightomega(z),   x = a - y if z <= 1,   x = ln(weight / lam) + ln y if z > 1,   x = a if lam = 0.

    The paper's Newton iteration needs hundreds of steps, or overflows, at extreme arguments.

    Parameters
    ----------
    u, lam, centre : (d,) each; lam >= 0.
    weight : (d,) or one number, positive.
    """
    a = centre + u / weight
    positive = lam > 0
    log_ratio = np.where(positive, np.log(np.where(positive, lam, 1.0)) - np.log(weight), -np.inf)
    z = log_ratio + a
    y = np.asarray(scipy.special.wrightomega(z))
    low = z <= 1
    x = np.where(low, a - y, np.log(np.where(low, 1.0, y)) - np.where(low, 0.0, log_ratio))
    return x, y


@dataclass(frozen=True, eq=False)
class QuadraticPenalty:
    """f(theta) = sum_ij rho_ij / 2 (theta_ij - theta0_ij)^2. weight : rho, positive. centre : theta0, finite."""

    weight: Bound
    centre: Bound
    modulus: Vector = field(init=False, repr=False)
    convex_from: Vector = field(init=False, repr=False)
    latex: str = field(init=False, default=r"\tfrac{\rho}{2} \lVert \theta - \theta^0 \rVert^2", repr=False)

    __repr__ = brief

    def of(self, layout: TableLayout) -> QuadraticPenalty:
        found = replace(
            self, weight=_weights(self.weight, layout), centre=spread("QuadraticPenalty centre", self.centre, layout)
        )
        object.__setattr__(found, "modulus", found.weight)
        object.__setattr__(found, "convex_from", np.full(layout.dimension, -np.inf))
        return found

    def value(self, theta: Any) -> Any:
        away = theta - np.asarray(self.centre)
        return (0.5 * np.asarray(self.weight)) * (away * away)

    def slope(self, theta: Any) -> Any:
        return np.asarray(self.weight) * (theta - np.asarray(self.centre))

    def curvature(self, theta: Vector) -> Vector:
        return np.asarray(self.weight)

    def least(self, u: Vector, lam: Vector) -> Vector:
        return proximal_theta(u, lam, np.asarray(self.centre), np.asarray(self.weight))[0]


@dataclass(frozen=True, eq=False)
class ReverseKL:
    """f(theta) = sum_ij rho_ij [e^theta (theta - ln q) - e^theta + q], only with a `Floor` at ``floor`` or above.

    q : positive, a distribution in each block as a rule; an array (d,) or a mapping of tables. weight : rho, positive.
    printed : leave - e^theta + q out, as section 3.2 does.
    """

    q: Bound
    weight: Bound = 1.0
    printed: bool = False
    modulus: Vector = field(init=False, repr=False)
    convex_from: Vector = field(init=False, repr=False)
    latex: str = field(init=False, default=r"\rho \sum e^{\theta} (\theta - \ln q)", repr=False)

    __repr__ = brief

    def of(self, layout: TableLayout) -> ReverseKL:
        q = spread("ReverseKL q", self.q, layout)
        if not (q > 0).all():
            at = layout.block_name(int(layout.block_of[np.argmin(q)]))
            raise ValueError(f"ReverseKL q of {at} holds {q.min():g}, wanted positive numbers: ln q is in the term")
        found = replace(self, q=q, weight=_weights(self.weight, layout), printed=flag("printed", self.printed))
        object.__setattr__(found, "modulus", np.zeros(layout.dimension))
        object.__setattr__(found, "convex_from", np.log(q) - (2.0 if found.printed else 1.0))
        return found

    def value(self, theta: Any) -> Any:
        weight, q = np.asarray(self.weight), np.asarray(self.q)
        away, mass = theta - self._log_q(theta), exp(theta)
        return weight * (mass * away if self.printed else mass * (away - 1.0) + q)

    def slope(self, theta: Any) -> Any:
        away = theta - self._log_q(theta)
        return np.asarray(self.weight) * (exp(theta) * (away + 1.0 if self.printed else away))

    def _log_q(self, theta: Any) -> Any:
        return np.log(np.asarray(self.q)) if isinstance(theta, np.ndarray) else log(exact(np.asarray(self.q)))

    def curvature(self, theta: Vector) -> Vector:
        return np.asarray(self.weight) * np.exp(theta) * (theta - self.convex_from)

    def least(self, u: Vector, lam: Vector) -> Vector:
        # e^t (t - a + 1) = (u - lam e^t) / rho with a = convex_from + 2, so y = t - a + 1 + lam / rho has y e^y = arg
        weight, a = np.asarray(self.weight), self.convex_from + 2.0
        shift = lam / weight
        with np.errstate(over="ignore"):
            arg = (u / weight) * np.exp(np.minimum(1.0 - a + shift, 700.0))
        log_u = np.log(np.maximum(u / weight, 1e-300))
        far = log_u + 1.0 - a + shift  # ln arg, where arg overflows: then y + ln y = ln arg, and t = ln(u / rho) - ln y
        root = np.real(scipy.special.lambertw(np.maximum(arg, -np.exp(-1.0))))
        near = a - 1.0 - shift + np.where(np.isnan(root), -1.0, root)
        beyond = log_u - np.log(np.real(scipy.special.wrightomega(np.maximum(far, 1.0))))
        return np.asarray(np.maximum(np.where(far > 600.0, beyond, near), self.convex_from))

    def floor(self, layout: TableLayout) -> Floor:
        """The floor from which the term is convex, a few units in the last place above it."""
        least = self.of(layout).convex_from
        return Floor(least + 8e-16 * (1.0 + np.abs(least)))


#: A term f of theta.
Objective = QuadraticPenalty | ReverseKL


def read_objective(f: Any, layout: TableLayout) -> Objective:
    """``f`` with its weights and centres as vectors. ValueError if it is no piece, or does not fit."""
    if not isinstance(f, Objective):
        refuse("f", f, "QuadraticPenalty or ReverseKL (a fixed distribution goes into c)")
    return f.of(layout)


def _weights(value: Any, layout: TableLayout) -> Vector:
    found = spread("weight", value, layout)
    bounded("weight", found, positive=True, what="weights: a term that falls away from its centre is not convex")
    return found


# -- centres -----------------------------------------------------------------------------------------------------------


def uniform(layout: TableLayout) -> Vector:
    """Uniform distributions; (d,)."""
    return (1.0 / layout.block_sizes)[layout.block_of]


def frequencies(features: Counts, smoothing: float = 1.0, kept: Any = None) -> Vector:
    """The maximum likelihood estimate of the training data, each count raised by ``smoothing``, as a centre (d,).

    smoothing : above 0, where a count may be 0: c_ij = 0 would allow no labelling that raises mu_ij above 0.
    kept : a smaller model: for some tables, by name, the axes of the parents that stay. The distribution given all
        parents is that given those which stay, p(y | pa) = p(y | pa'), pa' in pa. All parents stay where None.
    """
    layout = features.tables
    kept = {} if kept is None else dict(kept)
    if not set(kept) <= set(layout.names):
        raise sentence(f"kept has the tables {listed(kept)}, wanted some of {listed(layout.names)}")
    tables = layout.tables(features.counts(features.examples.truth))
    parts = []
    for name, table in tables.items():
        drop = tuple(axis for axis in range(table.ndim - 1) if name in kept and axis not in tuple(kept[name]))
        counted = np.broadcast_to(table.sum(axis=drop, keepdims=True), table.shape) + smoothing
        total = counted.sum(axis=-1, keepdims=True)
        if not (total > 0).all():
            raise ValueError(
                f"smoothing is {smoothing:g}, wanted above 0: a distribution of {name!r:.40} was never used"
            )
        parts.append((counted / total).ravel())
    return np.concatenate(parts)
