r"""One proximal point step on the adjoint: F of a centre a and a width tau (`smoothed_risk`), minimised by Newton.

The maximiser of F at any (w, b) is dual feasible, so that each Newton step gives both bounds of the whole problem.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.rounds import Clock
from convexstruct.families.regularized_risk.solvers.semismooth_newton.direction import (
    Effort,
    direction,
    offset_weights,
)
from convexstruct.families.regularized_risk.solvers.semismooth_newton.line_search import search
from convexstruct.families.regularized_risk.solvers.semismooth_newton.smoothed_risk import Smoothed, SmoothedRisk

#: After a proximal step of k Newton steps tau is multiplied by shrink, if k is at most this number, else by
#: shrink^(EASY_STEPS / k). The narrower tau is, the more Newton steps the next one takes, and the more conjugate
#: gradient steps each of these.
EASY_STEPS = 2
#: tau falls no further: a gap that is the rounding of a large loss beside a small optimum does not fall with it, and
#: quotients by a tau of 0 are no numbers. Scores up to 1e8 may be divided by it.
LEAST_TAU = 1e-300


@dataclass
class ProximalStep:
    """F of the groups of ``risk``, and the point at which it is.

    w, b : the point. v (m,) : the values of the pieces there, c + A w + s b. a (m,), tau : the centre and the width.
    effort : of the Newton steps since the centre was moved last.
    now, total : F's derivatives at the point, and A' alpha of the maximiser (`evaluate`).
    calls : products with all of A. since : the Newton steps since v was computed from w.
    """

    risk: SmoothedRisk
    w: Vector
    b: Vector
    a: Vector
    v: Vector
    tau: float
    clock: Clock
    effort: Effort = field(default_factory=Effort)
    calls: int = 0
    since: int = 0
    now: Smoothed = field(init=False)
    total: Vector = field(init=False)

    def bounds(self) -> tuple[float, float]:
        """(J, D) of the point and of the centre."""
        total = self.risk.adjoint(self.risk.share * self.a) if self.a.any() else np.zeros_like(self.w)
        self.calls += 2
        return self.risk.primal(self.w, self.b, self.v), self.risk.dual(self.a, total)

    def evaluate(self) -> tuple[float, float]:
        """(J, D) of the point and of the maximiser; `now` and `total` are those of the point."""
        with self.clock("gradient"):
            self.now, self.total = self.risk.at(self.w, self.a + self.v / self.tau)
            self.calls += 1
            return self.risk.primal(self.w, self.b, self.v), self.risk.dual(self.now.a, self.total)

    def is_solved(self, most: float) -> bool:
        """Whether F can fall by at most ``most``: |grad F|^2 / (2 lam), and the same for b by its own curvature."""
        slope_w, slope_b = self.now.slope_w, self.now.slope_b
        fall = float(slope_w @ slope_w) / (2.0 * self.risk.lam)
        if self.risk.n_biases:
            free = np.flatnonzero(self.now.free)
            fall += float(np.sum(slope_b**2 / offset_weights(self.risk, free, self.tau))) / 2.0
        return fall <= most

    def move_centre(self, shrink: float) -> None:
        """The next proximal step: the centre is the maximiser, and tau is narrower, the less so the more Newton steps
        this one took."""
        steps = max(1.0, self.effort.steps / EASY_STEPS)
        self.a, self.tau, self.effort.steps = self.now.a, max(self.tau * shrink ** (1.0 / steps), LEAST_TAU), 0

    def widen(self, by: float) -> None:
        """``by`` times the width, at the same centre."""
        self.tau, self.effort.steps = by * self.tau, 0
        self.lift()

    def lift(self) -> None:
        """Move b to where it minimises F with w fixed: the maximiser of F is then dual feasible as it is."""
        if self.risk.n_biases:
            shift = self.risk.best_lift(self.a + self.v / self.tau, self.tau)
            self.b, self.v = self.b + shift, self.v + self.risk.lift(shift)

    def renew(self) -> None:
        """Compute v from w."""
        with self.clock("gradient"):
            self.v = self.risk.values(self.w, self.b)
            self.lift()
            self.calls, self.since = self.calls + 1, 0

    def newton(self) -> None:
        """Newton's direction, and a search along it for a zero of the slope of F."""
        risk, now, tau = self.risk, self.now, self.tau
        self.effort.steps += 1
        self.calls += 1
        with self.clock("direction"):
            s_w, s_b = direction(risk, now, tau, self.effort)
        with self.clock("line search"):
            dv, idle = risk.forward(s_w), False
            if risk.n_biases:
                moving = np.bincount(risk.of[now.free], minlength=risk.n_biases) > 0
                idle = not moving.all()  # some offset has no free piece: F is flat in it, its step as long as 1 / RIDGE
                s_b = np.where(moving, s_b, 0.0)
                dv += risk.lift(s_b)
            held = float((risk.lam * self.w + risk.fixed) @ s_w) + float(risk.fixed_b @ s_b)
            bend, weighted = risk.lam * float(s_w @ s_w), risk.share * dv

            def slope(t: float) -> float:
                at = now.z + (t / tau) * dv
                if idle:  # b is minimised over along the line
                    at += risk.lift(risk.best_lift(at, tau)) / tau
                return held + t * bend + float(risk.projection(at) @ weighted)

            first = slope(0.0) if idle else float(now.slope_w @ s_w) + float(now.slope_b @ s_b)
            guess, curved = 1.0, bend + float(weighted @ dv) / tau  # 0 where its squares are below the smallest float
            if first < 0 < curved and not now.free.any():  # the Hessian is lam I alone: the length as if all were free
                guess = -first / curved
            t = search(slope, first, guess)
            self.w, self.b, self.v = self.w + t * s_w, self.b + t * s_b, self.v + t * dv
            self.lift()
        self.since += 1
