r"""Proximal point steps on the adjoint, each by semismooth Newton in w: the fast path for every piecewise linear risk.

    alpha^{k+1} = argmax_{alpha in Q} D(alpha) - tau_k/2 sum_g p_g |a_g - a^k_g|^2,     alpha_g = p_g a_g

Each step is solved by its dual: the smoothed risk F of `solvers.smoothed_risk`, which is piecewise quadratic, is
minimised over (w, b) by Newton's directions (`solvers.risk_newton`) and line searches. That is the semismooth Newton
augmented Lagrangian method (Rockafellar 1976; Li, Sun and Toh 2018), here with

* tau, the width of the smoothing in units of the loss, which starts at ``first`` times the start's gap and is
  multiplied by ``shrink`` at each proximal step, or by more after one that took many Newton steps. Where most examples
  end on a kink with a small alpha, Newton's steps with a narrow tau would move them across their kinks one by one. So
  it starts larger where w has at least as many entries as there are groups (`TAU_LIFTS`), and is made wider while the
  first proximal step takes many Newton steps (`WIDER`), as it does where the classes are nearly separable;
* a proximal step that ends as soon as the most that F can still fall, |grad F|^2 / (2 lam), is a small part of the gap
  of the whole problem. The maximiser a is dual feasible at every Newton step, so that each gives both bounds;
* pieces far below their group's highest held at 0, and groups far from their kinks held at their alpha, once few others
  remain, until the gap of the others has fallen (`SmoothedRisk.restrict`). The dual value stays that of all groups; the
  primal is then computed of all of them;
* where there are many more features than examples, the same steps in row space first (`row_space`);
* where a small problem whose rows or columns differ much in size comes to a halt, a dense interior point method
  (`interior_point`), and Newton's steps again if that one does not end it.

The problem is piecewise quadratic, so the proximal point method ends after finitely many steps (Rockafellar 1976), and
rounding alone limits the accuracy: where rows or columns of X differ by 1e8 and more, alpha is a difference of scores
over a tau that is near to the rounding of the largest of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import cast

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from convexstruct import deadline
from convexstruct.arrays import Point, Vector
from convexstruct.core.certificates import least_unit, relative_gap
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import positive, read_options, share
from convexstruct.core.rounds import Clock, Patience
from convexstruct.core.solution import Solution
from convexstruct.deadline import DeadlinePassed
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.interior_point import (
    IDLE_STEPS,
    certified,
    finished,
    is_small,
    sizes_differ,
)
from convexstruct.families.regularized_risk.solvers.risk_newton import Effort, direction, offset_weights
from convexstruct.families.regularized_risk.solvers.row_space import in_row_space
from convexstruct.families.regularized_risk.solvers.smoothed_risk import Smoothed, SmoothedRisk
from convexstruct.rounding import EPS

#: The pieces that are not held are solved alone until their gap has fallen by this factor, or for at most so many
#: Newton steps.
HELD_FALL, HELD_STEPS = 0.2, 60
#: After a proximal step of k Newton steps tau is multiplied by shrink, if k is at most this number, else by
#: shrink^(EASY_STEPS / k). The narrower tau is, the more Newton steps the next one takes, and the more conjugate
#: gradient steps each of these.
EASY_STEPS = 2
#: After every so many Newton steps of the first proximal step tau is multiplied by WIDER, at most WIDENINGS times.
MANY_STEPS, WIDER, WIDENINGS = 6, 4.0, 3
#: A line search ends when the slope has fallen by this factor, or after so many evaluations.
SLOPE_FALL, SEARCH_TRIALS = 0.1, 30
#: The problem in row space (`row_space`) is solved first where the mean rise of an example's score by its own alpha is
#: at least this; else few steps reach the optimum. It is solved to the relative gap ROWS_GAP, for its products are
#: rounded to single precision, or for ROWS_ROUNDS rounds: where rows differ much in size, that gap may be out of reach.
#: The first tau on X is then at least ROWS_TAU times that rounding of the scores.
LEAST_LIFT, ROWS_GAP, ROWS_ROUNDS, ROWS_TAU = 0.5, 1e-7, 300, 1e4
#: The solver ends after so many rounds over all groups without improvement: what is left is rounding.
IDLE_ROUNDS = 100
#: Where w has at least as many entries as there are groups, the first tau is multiplied by this and by the mean rise
#: of an example's score by its own alpha (`_lift_of_one`), if that product is above 1.
TAU_LIFTS = 2.5
#: The values v of the pieces are sums over the steps; they are computed anew from w when the rounding of these sums may
#: have reached this share of the gap.
DRIFT = 1e-2
#: Below this relative gap the point is made longer by this share of the relative gap, if J rises by at most this share
#: of the gap.
STRETCH = 1e-3
#: The larger of the largest feature and sqrt(lam) may lie between 1 / MAX_UNIT and MAX_UNIT; beyond, the problem is
#: solved in other units.
MAX_UNIT = 2.0**100
#: The least lam that is solved with: 1 / lam^2 and what is made of it stay finite.
LEAST_LAM = 2.0**-400


@dataclass(frozen=True)
class SemismoothNewton:
    """Semismooth Newton steps inside proximal point steps on the adjoint, for any regularised risk.

    Attributes
    ----------
    shrink : the factor of tau at each proximal step that took at most `EASY_STEPS` Newton steps, below 1.
    inexact : a proximal step ends when |grad F|^2 / (2 lam) is below this share of the gap; below 1.
    zone : pieces further than ``zone`` tau below the highest of their group may be held, and so may groups further than
        that from their nearest kink.
    moving : they are held once the others are less than this share of all pieces; below 1.
    first : tau starts at so many times the gap of the start.
    """

    shrink: float = 0.5
    inexact: float = 0.5
    zone: float = 2.0
    moving: float = 0.3
    first: float = 1.2

    def __post_init__(self) -> None:
        read_options(self, shrink=share, inexact=share, zone=positive, moving=share, first=positive)

    def iterate(self, problem: RegularizedRisk, start: Solution | None = None) -> Iterator[Iterate]:
        clock = Clock("gradient", "direction", "line search", "holding", "interior point")
        given, (problem, unit) = problem, _in_range(problem)
        least, upper, bound = least_unit(given), np.inf, -np.inf
        effort, patience, early = Effort(), Patience(IDLE_ROUNDS, least), Patience(IDLE_STEPS, least)
        finish = rough = is_small(problem) and sizes_differ(problem)

        def shown_as(w: Vector, b: Vector, a: Vector, primal: float, lower: float) -> Iterate:
            found = Iterate(_point(given, w / unit, b), _witness(whole, a), primal, lower, calls, clock.parts)
            return certified(given, found) if rough else found

        whole = SmoothedRisk.whole(problem)
        w, b, a = _start(problem, whole, start, unit)
        v = whole.offset + whole.lift(b) + (whole.forward(w) if w.any() else 0.0)
        total = whole.adjoint(whole.share * a) if a.any() else np.zeros_like(w)
        best, lower, calls = whole.primal(w, b, v), whole.dual(a, total), 2
        yield shown_as(w, b, a, best, lower)
        lift = _lift_of_one(problem)
        small = in_row_space(problem) if start is None and lift >= LEAST_LIFT else None
        least_tau = 0.0
        if small is not None:
            found = self._in_rows(small)
            with deadline.without():  # also where the time is over: few products with X, and what was found is kept
                w, b, a, scores, least_tau = _from_rows(found, small, whole)
                v = whole.offset + whole.lift(b) + scores
                total = whole.adjoint(whole.share * a)
            best, lower, calls = whole.primal(w, b, v), whole.dual(a, total), calls + 3
            yield shown_as(w, b, a, best, lower)
        rounding = EPS * max(abs(best), float(np.abs(whole.offset).max()))
        tau = max(self.first * (best - lower), rounding, float(np.finfo(float).tiny))
        if whole.dimension >= len(whole.first):
            tau *= max(1.0, TAU_LIFTS * lift)
        tau = max(tau, least_tau)
        b, v = _lifted(whole, b, v, a, tau)
        longest, drift, widenings = float(problem.row_norms.max()), 0.0, WIDENINGS
        while True:
            with clock("gradient"):
                now, total = whole.at(w, a + v / tau)
                value, primal = whole.dual(now.a, total), whole.primal(w, b, v)
                calls += 1
            lower = max(lower, value)
            if drift > max(DRIFT * (min(best, primal) - lower), 0.0):
                b, v = _lifted(whole, b, whole.forward(w) + whole.offset + whole.lift(b), a, tau)
                drift, calls = 0.0, calls + 1
                continue
            *longer, primal = _stretched(whole, w, b, v, primal, min(best, primal) - lower, least)
            best = min(best, primal)
            found = shown_as(longer[0], longer[1], now.a, primal, value)
            upper, bound = min(upper, found.primal), max(bound, found.lower_bound)
            if finish and early.ended(upper, bound):
                finish = False
                yield from finished(given, problem, unit, calls, clock)
            done = patience.ended(upper, bound)
            yield replace(found, done=True, message=given.rounding_reason({}, None)) if done else found
            if self._ready(whole, now, tau, best - lower):
                a, tau, widenings = now.a, self._narrower(tau, effort), 0
                with clock("holding"):
                    moving = whole.near(v, a, self.zone * tau)
                    few = 0 < np.count_nonzero(moving) < self.moving * len(moving)
                if few:
                    with clock("holding"):
                        part, pieces = whole.restrict(moving, a, total)
                        a = a.copy()  # the old one is a witness
                    w, b, a[pieces], tau = self._held(
                        part, w, b, v[pieces], a[pieces], tau, best - lower, effort, clock
                    )
                    with clock("gradient"):
                        b, v = _lifted(whole, b, whole.forward(w) + whole.offset + whole.lift(b), a, tau)
                        calls += 1
                    continue
                with clock("gradient"):
                    now, _ = whole.at(w, a + v / tau)
                    calls += 1
            elif widenings and effort.steps == MANY_STEPS:
                tau, effort.steps, widenings = WIDER * tau, 0, widenings - 1
                b, v = _lifted(whole, b, v, a, tau)
                with clock("gradient"):
                    now, _ = whole.at(w, a + v / tau)
                    calls += 1
            w, b, v = _newton_step(whole, now, w, b, v, a, tau, effort, clock)
            calls += 1
            drift += EPS * longest * math.sqrt(float(w @ w))

    def _in_rows(self, small: RegularizedRisk) -> Iterate:
        """The last iterate on the problem in row space: near its optimum, or where `ROWS_ROUNDS` or the time ended."""
        least, best, lower = least_unit(small), np.inf, -np.inf
        found: Iterate | None = None
        try:
            for found in islice(self.iterate(small), ROWS_ROUNDS):
                best, lower = min(best, found.primal), max(lower, found.lower_bound)
                if relative_gap(best, lower, least) <= ROWS_GAP or found.done:
                    break
        except DeadlinePassed:  # the next check raises it again
            if found is None:
                raise
        assert found is not None
        return found

    def _held(
        self,
        part: SmoothedRisk,
        w: Vector,
        b: Vector,
        v: Vector,
        a: Vector,
        tau: float,
        gap: float,
        effort: Effort,
        clock: Clock,
    ) -> tuple[Vector, Vector, Vector, float]:
        """The same steps on the groups of ``part``, until their gap is `HELD_FALL` times ``gap``; (w, b, a, tau)."""
        reached, best, lower = gap, np.inf, -np.inf
        b, v = _lifted(part, b, v, a, tau)
        for _ in range(HELD_STEPS):
            deadline.check()
            with clock("gradient"):
                now, total = part.at(w, a + v / tau)
            if self._ready(part, now, tau, reached):
                with clock("gradient"):
                    best, lower = min(best, part.primal(w, b, v)), max(lower, part.dual(now.a, total))
                reached = min(reached, best - lower)
                if reached <= HELD_FALL * gap:
                    break
                if self._ready(part, now, tau, reached):
                    a, tau = now.a, self._narrower(tau, effort)
                    with clock("gradient"):
                        now, _ = part.at(w, a + v / tau)
            w, b, v = _newton_step(part, now, w, b, v, a, tau, effort, clock)
        return w, b, a, tau

    def _narrower(self, tau: float, effort: Effort) -> float:
        """The width of the next proximal step, after one that took ``effort.steps`` Newton steps."""
        root, effort.steps = max(1.0, effort.steps / EASY_STEPS), 0
        return float(tau * self.shrink ** (1.0 / root))

    def _ready(self, risk: SmoothedRisk, now: Smoothed, tau: float, gap: float) -> bool:
        """Whether F is minimised well enough: the most that it can still fall is the share ``inexact`` of the gap."""
        fall = float(now.slope_w @ now.slope_w) / (2.0 * risk.lam)
        if risk.n_biases:
            fall += float(np.sum(now.slope_b**2 / offset_weights(risk, np.flatnonzero(now.free), tau))) / 2.0
        return fall <= self.inexact * gap


def _from_rows(
    found: Iterate, small: RegularizedRisk, whole: SmoothedRisk
) -> tuple[Vector, Vector, Vector, Vector, float]:
    """(w, b, a, A w, the least tau) of ``whole`` from what was found of ``small``, the same in row space."""
    point, witness = found.point, cast("Callable[[], Point]", found.dual_point)()
    rows = solve_triangular(small.X, point["w"].reshape(whole.n_outputs, -1).T, trans=1, lower=True)
    w = np.asarray(whole.X.T @ rows).T.ravel()
    scores = whole.forward(w)
    rounding = float(np.abs(scores - small.forward(point["w"])).mean())
    return w, point.get("b", np.zeros(0)), witness["alpha"] / whole.share, scores, ROWS_TAU * rounding


def _newton_step(
    risk: SmoothedRisk,
    now: Smoothed,
    w: Vector,
    b: Vector,
    v: Vector,
    a: Vector,
    tau: float,
    effort: Effort,
    clock: Clock,
) -> tuple[Vector, Vector, Vector]:
    """(w, b, v) after Newton's direction and a search along it for a zero of the slope of F."""
    effort.steps += 1
    with clock("direction"):
        s_w, s_b = direction(risk, now, tau, effort)
    with clock("line search"):
        dv, idle = risk.forward(s_w), False
        if risk.n_biases:
            moving = np.bincount(risk.of[now.free], minlength=risk.n_biases) > 0
            idle = not moving.all()  # some offset has no free piece: F is flat in it, its step as long as 1 / RIDGE
            s_b = np.where(moving, s_b, 0.0)
            dv += risk.lift(s_b)
        held = float((risk.lam * w + risk.fixed) @ s_w) + float(risk.fixed_b @ s_b)
        bend, weighted = risk.lam * float(s_w @ s_w), risk.share * dv

        def slope(t: float) -> float:
            at = now.z + (t / tau) * dv
            if idle:  # b is minimised over along the line
                at += risk.lift(risk.best_lift(at, tau)) / tau
            return held + t * bend + float(risk.projection(at) @ weighted)

        first = slope(0.0) if idle else float(now.slope_w @ s_w) + float(now.slope_b @ s_b)
        guess = 1.0
        if first < 0 and not now.free.any():  # the Hessian is lam I alone: the length as if all were free
            with np.errstate(over="ignore"):
                guess = -first / (bend + float(weighted @ dv) / tau)
        t = search(slope, first, guess)
        return w + t * s_w, *_lifted(risk, b + t * s_b, v + t * dv, a, tau)


def _lifted(risk: SmoothedRisk, b: Vector, v: Vector, a: Vector, tau: float) -> tuple[Vector, Vector]:
    """(b, v) where b minimises F with w fixed: the maximiser of F is then dual feasible as it is."""
    if not risk.n_biases:
        return b, v
    shift = risk.best_lift(a + v / tau, tau)
    return b + shift, v + risk.lift(shift)


def search(slope: Callable[[float], float], first: float, t: float = 1.0) -> float:
    """A t > 0 near the zero of a rising ``slope``, F's along the line, at which F is certainly below its start.

    first : the slope at 0, negative. t : the first guess; while the slope is negative it is multiplied by 2, 4, 8, ...

    Then secants inside a bracket (Illinois: an end that stays counts half). A t beyond the zero is taken only if what F
    fell up to the lower end, at least ``low`` times the slope there, is twice what it can have risen since.
    """
    if not first < 0:
        return 0.0
    low, high, wider = 0.0, np.inf, 2.0
    at_low, weight_low, weight_high = first, first, np.inf
    for _ in range(SEARCH_TRIALS):
        deadline.check()
        here = slope(t)
        near = abs(here) <= SLOPE_FALL * -first
        if near and (here <= 0 or 2.0 * (t - low) * here <= -low * at_low):
            return t
        if here <= 0:
            weight_high = 0.5 * weight_high if low > 0 else weight_high
            low, at_low, weight_low = t, here, here
        else:
            weight_low = 0.5 * weight_low if np.isfinite(high) else weight_low
            high, weight_high = t, here
        if np.isinf(high):
            t, wider = wider * t, 2.0 * wider
        else:
            t = low + (high - low) * min(max(weight_low / (weight_low - weight_high), 0.1), 0.9)
    return low if low > 0 else t


def _stretched(
    risk: SmoothedRisk, w: Vector, b: Vector, v: Vector, primal: float, gap: float, least: float
) -> tuple[Vector, Vector, float]:
    """(w, b) and J there; w and b are first made a little longer where the gap is small already and J hardly rises by
    that. least : a unit of J, as in `Patience`.

    At an optimum many examples lie on their kink, where rounding gives some a loss of one unit in the last place. Where
    losses are far larger than J (separable examples, a small lam) these exceed the gap wanted. With a slightly longer w
    such examples lie beyond their kink, where the loss is 0.
    """
    if not 0 < gap <= STRETCH * max(abs(primal), least):
        return w, b, primal
    by = STRETCH * min(gap / abs(primal), 1.0) if primal else STRETCH
    longer, moved = w + by * w, b + by * b
    value = risk.primal(longer, moved, v + by * (v - risk.offset))
    return (longer, moved, value) if value - primal <= STRETCH * gap else (w, b, primal)


def _in_range(problem: RegularizedRisk) -> tuple[RegularizedRisk, float]:
    """The problem in X / unit, w unit and lam / unit^2, in which squares neither overflow nor vanish; and the unit.

    The unit is a power of two, so that X / unit is exact; it is 1, and ``problem`` comes back as it is, unless features
    or sqrt(lam) are beyond `MAX_UNIT`. A lam still below `LEAST_LAM` is raised to it: at scores near 1 its term in J is
    far below one rounding of a loss.
    """
    X = problem.X.data if sp.issparse(problem.X) else problem.X
    size = max(float(X.max(initial=0.0)), -float(X.min(initial=0.0)), math.sqrt(problem.lam))
    unit = 1.0 if 1 / MAX_UNIT <= size <= MAX_UNIT else 2.0 ** math.frexp(size)[1] if size < 2.0**1023 else 2.0**1023
    lam = max(problem.lam / unit / unit, LEAST_LAM)
    return (
        (problem, 1.0) if unit == 1.0 and lam == problem.lam else (replace(problem, X=problem.X / unit, lam=lam), unit)
    )


def _start(
    problem: RegularizedRisk, whole: SmoothedRisk, start: Solution | None, unit: float
) -> tuple[Vector, Vector, Vector]:
    """(w, b, a) to begin with: those of ``start``; else w = 0, its best offsets, and a nearest to 0 in Q."""
    w, alpha = np.zeros(problem.dimension), np.zeros(problem.n_pieces)
    b = problem.best_bias(w)
    if start is not None:
        point = problem.as_point(start.point)
        if all(np.isfinite(value).all() for value in point.values()):
            w, b = point["w"].ravel() * unit, point.get("b", b)
        if start.dual_point is not None and np.isfinite(problem.dual(start.dual_point)):
            alpha = np.asarray(start.dual_point["alpha"], dtype=np.float64)
    return w, b, problem.feasible(alpha) / whole.share


def _lift_of_one(problem: RegularizedRisk) -> float:
    """The mean of share |x|^2 / lam: by how much the score of an example rises when its own alpha becomes its share."""
    X = problem.X
    squares = float(X.data @ X.data) if sp.issparse(X) else float(np.vdot(X, X))
    return float(np.mean(problem.shares)) * squares / int(X.shape[0]) / problem.lam


def _witness(whole: SmoothedRisk, a: Vector) -> Callable[[], Point]:
    return lambda: {"alpha": whole.share * a}


def _point(problem: RegularizedRisk, w: Vector, b: Vector) -> Point:
    return {"w": w.reshape(problem.shape), "b": b} if problem.n_biases else {"w": w.reshape(problem.shape)}
