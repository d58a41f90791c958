r"""Proximal point steps on the adjoint, each by semismooth Newton in w: the fast path for every piecewise linear risk.

    alpha^{k+1} = argmax_{alpha in Q} D(alpha) - tau_k/2 sum_g p_g |a_g - a^k_g|^2,     alpha_g = p_g a_g

Each step is solved by its dual: the smoothed risk F of `smoothed_risk`, which is piecewise quadratic, is minimised over
(w, b) by Newton's directions (`direction`) and line searches (`proximal_step`). That is the semismooth Newton augmented
Lagrangian method (Rockafellar 1976; Li, Sun and Toh 2018), here with

* tau, the width of the smoothing in units of the loss, which starts at `FIRST` times the start's gap and is
  multiplied by `SHRINK` at each proximal step, or by more after one that took many Newton steps. Where most examples
  end on a kink with a small alpha, Newton's steps with a narrow tau would move them across their kinks one by one. So
  it starts larger where w has at least as many entries as there are groups (`TAU_LIFTS`), and is made wider while the
  first proximal step takes many Newton steps (`WIDER`), as it does where the classes are nearly separable;
* a proximal step that ends as soon as the most that F can still fall, |grad F|^2 / (2 lam), is a small part of the gap
  of the whole problem. The maximiser a is dual feasible at every Newton step, so that each gives both bounds;
* pieces far below their group's highest held at 0, and groups far from their kinks held at their alpha, once few others
  remain, until the gap of the others has fallen (`SmoothedRisk.restrict`). The dual value stays that of all groups; the
  primal is then computed of all of them;
* where there are many more features than examples, the same steps in row space first (`row_space`).

The problem is piecewise quadratic, so the proximal point method ends after finitely many steps (Rockafellar 1976), and
rounding alone limits the accuracy: where rows or columns of X differ by 1e8 and more, alpha is a difference of scores
over a tau that may be near to the rounding of the largest of them. The status then says which feature to scale.
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
from convexstruct.arrays import Flags, Point, Vector
from convexstruct.core.certificates import least_unit, relative_gap
from convexstruct.core.iterate import Iterate
from convexstruct.core.rounds import Clock, Patience
from convexstruct.core.solution import Solution
from convexstruct.deadline import DeadlinePassed
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.risk_projection import read_start
from convexstruct.families.regularized_risk.solvers.semismooth_newton.in_files import tempered
from convexstruct.families.regularized_risk.solvers.semismooth_newton.proximal_step import ProximalStep
from convexstruct.families.regularized_risk.solvers.semismooth_newton.row_space import in_row_space
from convexstruct.families.regularized_risk.solvers.semismooth_newton.smoothed_risk import SmoothedRisk
from convexstruct.rounding import EPS

#: tau starts at so many times the gap of the start, and is multiplied by SHRINK at each proximal step that took few
#: Newton steps.
FIRST, SHRINK = 1.2, 0.5
#: A proximal step ends when |grad F|^2 / (2 lam) is below this share of the gap.
INEXACT = 0.5
#: Pieces further than ZONE tau below the highest of their group may be held, and so may groups further than that from
#: their nearest kink: once the others are less than the share MOVING of all pieces.
ZONE, MOVING = 2.0, 0.3
#: The pieces that are not held are solved alone until their gap has fallen by this factor, or for at most so many
#: Newton steps.
HELD_FALL, HELD_STEPS = 0.2, 60
#: After every so many Newton steps of the first proximal step tau is multiplied by WIDER, at most WIDENINGS times.
MANY_STEPS, WIDER, WIDENINGS = 6, 4.0, 3
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
#: The values v of the pieces are sums over the steps, and computed anew from w after so many Newton steps: sums without
#: end lose their digits; where w has large scores, each product loses some that the sums of small steps keep.
RENEWED = 30
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
    """Semismooth Newton steps inside proximal point steps on the adjoint, for any regularised risk; tempering where the
    rows lie in files (`.in_files`)."""

    def iterate(self, problem: RegularizedRisk, start: Solution | None = None) -> Iterator[Iterate]:
        if problem.filed is not None:
            yield from tempered(problem, problem.filed, start)
            return
        clock = Clock("gradient", "direction", "line search", "holding")
        given, (problem, unit) = problem, _in_range(problem)
        whole, least = SmoothedRisk.whole(problem), least_unit(given)
        upper, bound, patience = np.inf, -np.inf, Patience(IDLE_ROUNDS, least)

        def shown(w: Vector, b: Vector, a: Vector, primal: float, lower: float) -> Iterate:
            return Iterate(_point(given, w / unit, b), _witness(whole, a), primal, lower, step.calls, clock.parts)

        step = _first_step(problem, whole, start, unit, clock)
        best, lower = step.bounds()
        yield shown(step.w, step.b, step.a, best, lower)
        lift, least_tau = _lift_of_one(problem), 0.0
        small = in_row_space(problem) if start is None and lift >= LEAST_LIFT else None
        if small is not None:
            inside = self._in_rows(small)
            with deadline.without():  # also where the time is over: few products with X, and what was found is kept
                least_tau = _from_rows(step, inside, small)
                best, lower = step.bounds()
            yield shown(step.w, step.b, step.a, best, lower)
        rounding = EPS * max(abs(best), float(np.abs(whole.offset).max()))
        step.tau = max(FIRST * (best - lower), rounding, float(np.finfo(float).tiny))
        if whole.dimension >= len(whole.first):
            step.tau *= max(1.0, TAU_LIFTS * lift)
        step.tau = max(step.tau, least_tau)
        step.lift()
        widenings = WIDENINGS
        while True:
            primal, value = step.evaluate()
            lower = max(lower, value)
            if step.since >= RENEWED:
                step.renew()
                continue
            *longer, primal = _stretched(step, primal, min(best, primal) - lower, least)
            best = min(best, primal)
            found = shown(longer[0], longer[1], step.now.a, primal, value)
            upper, bound = min(upper, found.primal), max(bound, found.lower_bound)
            done = patience.ended(upper, bound)
            yield replace(found, done=True, message=given.rounding_reason({}, None)) if done else found
            if step.is_solved(INEXACT * (best - lower)):
                step.move_centre(SHRINK)
                widenings = 0
                with clock("holding"):
                    moving = whole.near(step.v, step.a, ZONE * step.tau)
                if 0 < np.count_nonzero(moving) < MOVING * len(moving):
                    self._move_alone(step, moving, best - lower)
                    continue
                step.evaluate()
            elif widenings and step.effort.steps == MANY_STEPS:
                widenings -= 1
                step.widen(WIDER)
                step.evaluate()
            step.newton()

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

    def _move_alone(self, step: ProximalStep, moving: Flags, gap: float) -> None:
        """Proximal steps on the pieces ``moving``, the others held, until their gap is `HELD_FALL` times ``gap``."""
        with step.clock("holding"):
            part, pieces = step.risk.restrict(moving, step.a, step.total)
        inner = ProximalStep(part, step.w, step.b, step.a[pieces], step.v[pieces], step.tau, step.clock, step.effort)
        inner.lift()
        reached, best, lower = gap, np.inf, -np.inf
        for _ in range(HELD_STEPS):
            deadline.check()
            primal, value = inner.evaluate()
            if inner.is_solved(INEXACT * reached):
                best, lower = min(best, primal), max(lower, value)
                reached = min(reached, best - lower)
                if reached <= HELD_FALL * gap:
                    break
                if inner.is_solved(INEXACT * reached):
                    inner.move_centre(SHRINK)
                    inner.evaluate()
            inner.newton()
        a = step.a.copy()  # the old one is a witness
        a[pieces] = inner.a
        step.w, step.b, step.a, step.tau = inner.w, inner.b, a, inner.tau
        step.renew()


def _first_step(
    problem: RegularizedRisk, whole: SmoothedRisk, start: Solution | None, unit: float, clock: Clock
) -> ProximalStep:
    """The point and the centre to begin with: those of ``start``; else w = 0, its best offsets, and a nearest to 0 in
    Q. tau is set later, by the gap of these."""
    point, alpha = read_start(problem, start)
    if point is None:
        point = problem.trivial()[0]
    w, b = point["w"].ravel() * unit, point.get("b", np.zeros(0))
    a = problem.feasible(np.zeros(problem.n_pieces) if alpha is None else alpha) / whole.share
    return ProximalStep(whole, w, b, a, whole.values(w, b), np.inf, clock)


def _from_rows(step: ProximalStep, found: Iterate, small: RegularizedRisk) -> float:
    """Move ``step`` to what was found of ``small``, its problem in row space; the least tau that is above the rounding
    of that."""
    point, witness, whole = found.point, cast("Callable[[], Point]", found.dual_point)(), step.risk
    rows = solve_triangular(small.X, point["w"].reshape(whole.n_outputs, -1).T, trans=1, lower=True)
    step.w = np.asarray(whole.X.T @ rows).T.ravel()
    step.b, step.a = point.get("b", np.zeros(0)), witness["alpha"] / whole.share
    scores = whole.forward(step.w)
    step.v = whole.offset + whole.lift(step.b) + scores
    step.calls += 1
    return ROWS_TAU * float(np.abs(scores - small.forward(point["w"])).mean())


def _stretched(step: ProximalStep, primal: float, gap: float, least: float) -> tuple[Vector, Vector, float]:
    """(w, b) and J there; w and b are first made a little longer where the gap is small already and J hardly rises by
    that. primal : J at the point of ``step``. least : a unit of J, as in `Patience`.

    At an optimum many examples lie on their kink, where rounding gives some a loss of one unit in the last place. Where
    losses are far larger than J (separable examples, a small lam) these exceed the gap wanted. With a slightly longer w
    such examples lie beyond their kink, where the loss is 0.
    """
    w, b, v, risk = step.w, step.b, step.v, step.risk
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


def _lift_of_one(problem: RegularizedRisk) -> float:
    """The mean of share |x|^2 / lam: by how much the score of an example rises when its own alpha becomes its share."""
    X = problem.X
    squares = float(X.data @ X.data) if sp.issparse(X) else float(np.vdot(X, X))
    return float(np.mean(problem.shares)) * squares / int(X.shape[0]) / problem.lam


def _witness(whole: SmoothedRisk, a: Vector) -> Callable[[], Point]:
    return lambda: {"alpha": whole.share * a}


def _point(problem: RegularizedRisk, w: Vector, b: Vector) -> Point:
    return {"w": w.reshape(problem.shape), "b": b} if problem.n_biases else {"w": w.reshape(problem.shape)}
