r"""(28)-(30) where they go beyond (2)-(5): the objective and its dual, from h, f and the limits of theta.

    P(theta) = - c'theta + f(theta) + eta sum_k w_k h(slack_k)
    D(t)     = t omega - eta sum_k w_k h*(t b_k) - t kap'g + phi(c - t (mu + G'kap)),      0 <= t <= 1

of a member (mu, omega) with masses b_k = 1'beta_k / (eta w_k) and multipliers kap of the affine rows: t = 1 is the dual
itself, t = 0 is beta = 0, kap = 0, and any t between is as valid. D is concave in t, so its derivative, with the theta
of phi, is bisected. phi is that of `parameters`, h that of `slack_penalties`, f that of `objectives`, and the limits
are those of `constraints`, with affine rows G theta <= g.

Where h is not linear, the truth can no longer fill a mass up for nothing: b_k is free. In a dual witness "mass" (K,)
>= 0 multiplies the shares, beta_k = eta w_k mass_k (sum of shares times distributions), 1 by default; and "rows" (n,)
>= 0 is kap, of the rows of G and then, for each tied entry, of theta_j - theta_i <= 0 and theta_i - theta_j <= 0; 0 by
default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from convexstruct.arrays import Point, Vector
from convexstruct.families.generative_margin.constraints import Constraint, joined
from convexstruct.families.generative_margin.distributions import read_distributions
from convexstruct.families.generative_margin.member import Member
from convexstruct.families.generative_margin.objectives import Objective, read_objective
from convexstruct.families.generative_margin.parameters import Parameters
from convexstruct.families.generative_margin.slack_penalties import Linear, SlackPenalty, read_penalty
from convexstruct.graphs import TableLayout
from convexstruct.rounding import OUTWARD, UNIT, Rounded, adjoint, dot, exact, summed, up
from convexstruct.validation.arguments import sentence, sequence
from convexstruct.validation.arrays import real

#: Bisections of t: to a share of 1e-12 of the whole segment.
BISECTIONS = 40
#: theta, in nats, that stands for -inf where a derivative along the segment is computed.
LEAST_THETA = -700.0


@dataclass(frozen=True, eq=False)
class General:
    """The parts of a problem that its general objective needs. weights (K,) : w_k. c (d,), eta : as in the problem."""

    layout: TableLayout
    weights: Vector
    c: Vector
    eta: float
    penalty: SlackPenalty | None
    f: Objective | None
    constraints: tuple[Constraint, ...]

    def refusal(self, who: str) -> ValueError:
        """What ``who``, which takes (2)-(5) alone, says of this problem."""
        given = {"h": self.penalty, "f": self.f, "constraints": self.constraints or None}
        extra = " and ".join(name for name, piece in given.items() if piece is not None)
        return sentence(
            f"problem has {extra} of (28)-(30), wanted (2)-(5) alone: {who} does not take them; EntropicProximal and "
            f"CuttingPlanes do, and the formulations primal, entropy_dual, compact_dual and n_slack"
        )

    def multipliers(self, dual_point: Point) -> tuple[Vector, Vector]:
        """(mass (K,), rows (n,)) of a witness, negative ones set to 0. ValueError if a shape is wrong."""
        n, k = len(self.parameters.limits.rows[1]), len(self.weights)
        mass = real("dual_point['mass']", dual_point.get("mass", np.ones(k)), (k,), finite=False, keep=False)
        rows = real("dual_point['rows']", dual_point.get("rows", np.zeros(n)), (n,), finite=False, keep=False)
        return np.maximum(mass, 0.0), np.maximum(rows, 0.0)

    @cached_property
    def h(self) -> SlackPenalty:
        return Linear() if self.penalty is None else self.penalty

    @cached_property
    def parameters(self) -> Parameters:
        """ValueError if the limits contradict each other, or f is not convex within them."""
        found = Parameters(self.layout, self.f, joined(self.constraints, self.layout))
        if self.f is not None:
            low = self.f.convex_from > found.limits.low
            if low.any():
                j = int(np.argmax(low))
                block = self.layout.block_name(int(self.layout.block_of[j]))
                raise ValueError(
                    f"f is not convex below theta = {self.f.convex_from[j]:.6g} in the block {block}, wanted "
                    f"constraints with the Floor that its floor(layout) gives, or a higher one"
                )
        found.limits.check()
        return found

    def check(self) -> None:
        """ValueError as `parameters` says."""
        self.parameters.limits.check()

    def objective(self, theta: Any, slack: Any) -> Rounded:
        """P from theta and its slacks, an array or one with errors; inf where a slack is above what h allows."""
        used = self.c > 0
        value = self.eta * dot(self.weights, self.h.value(slack)) - summed(self.c[used] * theta[used])
        found: Rounded = value + self.parameters.value(theta)
        return Rounded(np.inf) if np.isnan(found) else found

    def best_share(self, mu: Vector, omega: float, b: Vector, kap: Vector) -> tuple[float, float]:
        """(t, D(t)) at the best t of the segment, inside the domain of D; in floats."""
        G, g = self.parameters.limits.rows
        step, right = mu + G.T @ kap, float(kap @ g)
        toward = self.parameters.free & (step > 0)
        with np.errstate(over="ignore"):
            limit = min(1.0, float(np.min(self.c[toward] / step[toward], initial=1.0)) * (1.0 - 8.0 * UNIT))

        def slope(t: float) -> float:
            theta = self.parameters.least(np.where(toward, np.maximum(self.c - t * step, 0.0), self.c - t * step))[1]
            slack = self.h.conjugate_slope(t * b)
            return float(
                omega - self.eta * (self.weights @ (b * slack)) - right + step @ np.maximum(theta, LEAST_THETA)
            )

        low, high = 0.0, limit
        if slope(limit) >= 0:
            low = limit
        else:
            for _ in range(BISECTIONS):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if slope(middle) > 0 else (low, middle)
        values = [(self.value(t * mu, t * omega, t * b, t * kap), t) for t in (0.0, low, high)]
        value, t = max(values)
        return t, value

    def value(self, mu: Vector, omega: float, b: Vector, kap: Vector) -> float:
        """D at t = 1, in floats; -inf outside its domain."""
        G, g = self.parameters.limits.rows
        if (b > self.h.steepest).any():
            return -np.inf
        phi = self.parameters.least(self.c - mu - G.T @ kap)[0]
        return float(omega - self.eta * (self.weights @ self.h.conjugate(b)) - kap @ g + phi)

    def segment(self, found: Member, kap: Vector) -> tuple[float, Rounded]:
        """(t, D(t)) with its rounding, at the best t for which it is certain; t = 0 always is."""
        G, g = self.parameters.limits.rows
        start = 0.0, self.parameters.bound(exact(self.c))
        step = found.mu + adjoint(G, exact(kap))
        high = np.where(self.parameters.free, up(step.value + step.errors * OUTWARD), step.value)
        finite = np.isfinite(found.omega.upper) and np.isfinite(high).all() and np.isfinite(found.b).all()
        if not finite or (found.b > self.h.steepest).any():
            return start
        t = self.best_share(high - G.T @ kap, found.omega, found.b, kap)[0]
        paid = self.eta * dot(self.weights, self.h.conjugate(exact(found.b) * t))
        value = t * found.omega - paid - t * dot(exact(kap), g) + self.parameters.bound(self.c - t * step)
        return (t, value) if value.lower > start[1].lower else start


def only_linear(problem: Any, who: str) -> None:
    """ValueError, on behalf of ``who``, if a problem has more than (2)-(5)."""
    if problem.general is not None:
        raise problem.general.refusal(who)


def read_pieces(layout: TableLayout, c: Any, h: Any, f: Any, constraints: Any) -> Mapping[str, Any]:
    """c, h, f and constraints as a problem keeps them. Without f, c is a distribution in each block; with one, any
    numbers >= 0. ValueError if a piece is none."""
    found: dict[str, Any] = {"c": read_distributions("c", c, layout), "f": None} if f is None else {
        "c": real("c", c, (layout.dimension,), least=0), "f": read_objective(f, layout)
    }  # fmt: skip
    given = () if constraints is None else tuple(sequence("constraints", constraints))
    return {**found, "h": read_penalty(h), "constraints": given or None}
