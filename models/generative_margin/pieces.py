r"""The pieces of (28)-(30) in CVXPY: h and its conjugate, f, the limits of theta, and phi, the part of a dual that
knows u = c - mu alone. Each has the formula that its class states in `convexstruct.families.generative_margin`.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from convexstruct.families.generative_margin.objectives import QuadraticPenalty
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.slack_penalties import (
    Capped,
    Exponential,
    Huber,
    Power,
    Quadratic,
    SlackPenalty,
)
from convexstruct.models.formulation import Equation, equation
from convexstruct.validation.arguments import sentence


def penalty(h: SlackPenalty | None, eps: Any) -> tuple[Any, list[Any]]:
    """(h(eps) entry by entry, constraints on eps)."""
    if isinstance(h, Quadratic):
        return h.slope0 * eps + h.kappa / 2 * cp.square(eps), []
    if isinstance(h, Huber):
        return cp.huber(eps, h.delta) / (2 * h.delta), []
    if isinstance(h, Power):
        return cp.power(eps, h.p) / h.p, []
    if isinstance(h, Exponential):
        return h.scale * (cp.exp(eps / h.scale) - 1), []
    return eps, [eps <= h.most] if isinstance(h, Capped) else []


def conjugate(h: SlackPenalty | None, b: Any) -> tuple[Any, list[Any]]:
    """(h*(b) entry by entry, constraints on b >= 0 and further variables)."""
    if isinstance(h, Quadratic):
        return cp.square(cp.pos(b - h.slope0)) / (2 * h.kappa), []
    if isinstance(h, Huber):
        return h.delta / 2 * cp.square(b), [b <= 1]
    if isinstance(h, Power):
        return cp.power(b, h.q) / h.q, []
    if isinstance(h, Exponential):
        u = cp.Variable(b.shape, name="u")
        return h.scale * (1 - u - cp.entr(u)), [u >= b, u >= 1]
    if isinstance(h, Capped):
        return h.most * cp.pos(b - 1), []
    return 0 * b, [b <= 1]


def term(problem: GenerativeMargin, theta: Any) -> Any:
    """f(theta). ValueError if CVXPY has no cone for it."""
    if problem.f is None:
        return 0.0
    f = _quadratic(problem.f)
    return cp.sum(cp.multiply(f.weight, cp.square(theta - f.centre))) / 2


def _quadratic(f: Any) -> Any:
    if not isinstance(f, QuadraticPenalty):
        raise sentence(
            "problem has a reverse KL term, wanted another f: CVXPY has no cone for theta e^theta; EntropicProximal "
            "solves it and certifies the optimum"
        )
    return f


def limits(problem: GenerativeMargin, theta: Any) -> dict[str, Equation]:
    """The constraints (30) by name: "floor", "ceiling" and "rows", as far as there are any."""
    if problem.general is None or not problem.constraints:
        return {}
    of = problem.general.parameters.limits
    below, above, (G, g) = np.isfinite(of.low), np.isfinite(of.high), of.rows
    found = {
        "floor": equation(theta[below] >= of.low[below], r"\theta \ge l") if below.any() else None,
        "ceiling": equation(theta[above] <= of.high[above], r"\theta \le t") if above.any() else None,
        "rows": equation(G @ theta <= g, r"G \theta \le g") if len(g) else None,
    }
    return {name: part for name, part in found.items() if part is not None}


class Phi:
    """phi(c - mu - G'kap) as a concave maximum over v, and over y where there is an f:

        u = v - kap_floor + kap_ceiling,  sum_i [Y_i ln Y_i - sum_j y_ij ln y_ij] + kap_floor'l - kap_ceiling't - kap'g,

    y = v where there is no f; else less (v - y)'theta0 + sum (v - y)^2 / (2 rho).

    value : the expression. parts, variables : what it needs. kap : the multipliers of the rows.
    """

    def __init__(self, problem: GenerativeMargin, mu: Any, entropy: Any) -> None:
        assert problem.general is not None
        d, of = problem.dimension, problem.general.parameters.limits
        below, above, (G, g) = np.isfinite(of.low), np.isfinite(of.high), of.rows
        self.v = cp.Variable(d, name="v")
        floor, ceiling = cp.Variable(d, nonneg=True, name="floor"), cp.Variable(d, nonneg=True, name="ceiling")
        self.kap = cp.Variable(len(g), nonneg=True, name="kap") if len(g) else None
        pulled = floor - ceiling - (0.0 if self.kap is None else G.T @ self.kap)
        held = [each[~some] == 0 for each, some in ((floor, below), (ceiling, above)) if not some.all()]
        low, high = np.where(below, of.low, 0.0), np.where(above, of.high, 0.0)
        self.value = low @ floor - high @ ceiling - (0.0 if self.kap is None else g @ self.kap)
        self.variables = {"v": self.v, "floor": floor, "ceiling": ceiling}
        if self.kap is not None:
            self.variables["kap"] = self.kap
        y = self.v
        if problem.f is not None:
            f = _quadratic(problem.f)
            y = self.variables["y"] = cp.Variable(d, name="y")
            away = self.v - y
            self.value -= away @ f.centre + cp.sum(cp.multiply(0.5 / f.weight, cp.square(away)))
        self.value -= entropy(problem.layout, y)
        shown = r"v + \mu = c + \kappa_l - \kappa_t - G'\kappa"
        self.parts = {"v": equation([self.v + mu == problem.c + pulled, *held], shown)}

    @property
    def rows(self) -> Any:
        """kap after a solve, made >= 0."""
        return np.zeros(0) if self.kap is None else np.maximum(np.asarray(self.kap.value), 0.0)
