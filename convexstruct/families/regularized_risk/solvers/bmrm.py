r"""Bundle methods for regularized risk minimisation (paper 2, (3)-(4); Teo, Vishwanathan, Smola and Le 2010).

    w_t = argmin J_t(w) = lam/2 |w|^2 + max_{i <= t} (<w, a_i> + b_i),    a_i a subgradient of R at w_{i-1},
                                                                          b_i = R(w_{i-1}) - <w_{i-1}, a_i>

* **QpBMRM** solves (3) exactly, by its dual over the simplex (`solvers.simplex_qp`): w_t = - A beta / lam.
* **LsBMRM** keeps one mixture (a, b) of all planes, and moves it towards the new plane (a', b') by a line search in the
  dual,
      eta = min(1, lam (<a' - a, w> + b' - b) / |a' - a|^2),    w = - a / lam,
  which is a step of Frank and Wolfe on the adjoint (the paper calls it coordinate descent; corrected).

Iterate t is w_t. Its lower bound is J_t(w_t), its witness the mixture of the planes' dual points. Where the loss has
free offsets, R(w) is its minimum over them, which is convex too.

**Bound on the rounds**, for both: let G be the largest |a_i|, so that |a' - a| <= 2G, and e the gap (4). Each round
raises the dual value by at least (e/2) min(1, lam e / 4G^2). So from the gap e_1 of the first iterate

    rounds to a gap eps  <=  max(0, ceil log2(lam e_1 / 4G^2)) + ceil(8 G^2 / (lam eps)) + 1,

and on the Hadamard instance 1/(lam eps) rounds are needed (theorem 6).

**Theorem 5**, of which print has lost (13), follows from the same recurrence with G in place of 2G, H being the
curvature of Omega* (1 here): `theorem_5`. On the Hadamard instance J(0) = 0, and the logarithm of lam J(0) / (G^2 H)
that is printed would be -inf: its positive part is meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Point, Vector
from convexstruct.core.certificates import least_unit
from convexstruct.core.iterate import Iterate
from convexstruct.core.rounds import PATIENCE, Clock, Patience
from convexstruct.core.solution import Solution
from convexstruct.families.regularized_risk.problem import Plane, RegularizedRisk
from convexstruct.families.regularized_risk.solvers.cutting_planes import CuttingPlanes
from convexstruct.families.regularized_risk.solvers.risk_projection import read_start
from convexstruct.families.regularized_risk.solvers.simplex_qp import maximise


def theorem_5(first: float, lam: float, eps: float, largest: float = 1.0, curvature: float = 1.0) -> float:
    """The rounds of BMRM to a gap ``eps``, at most (paper 2, (13), restored):

        log2(lam e / 4 G^2 H)_+ + 8 G^2 H / (lam eps) - 2,      e = ``first``, the gap at w_0,

    from e_t - e_{t+1} >= (e_t / 2) min(1, lam e_t / 4 G^2 H), for eps up to 4 G^2 H / lam. largest : G, of the
    subgradients' norms. curvature : H, of Omega*.
    """
    unit = 4.0 * largest**2 * curvature / lam
    halvings = max(math.log2(first / unit), 0.0) if first > 0.0 else 0.0
    return halvings + 2.0 * unit / eps - 2.0


@dataclass(frozen=True)
class QpBMRM:
    """BMRM with the whole inner problem solved each round: qp-bmrm of paper 2."""

    def iterate(self, problem: RegularizedRisk, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a plane. The first plane touches the risk at the w of ``start``; its alpha gives one more."""
        clock = Clock("risk", "inner problem")
        planes, patience = CuttingPlanes(problem), Patience(PATIENCE, least_unit(problem))
        w, witness = _start(problem, start)
        held: list[Plane] = [] if witness is None else [plane_of(problem, witness)]
        with clock("risk"):
            held.append(_at(problem, w)[0])
        beta = np.zeros(0)
        calls = 1
        while True:
            for plane in held:
                planes.add(plane)
                beta = np.append(beta, 0.0 if len(planes) > 1 else 1.0)
            with clock("inner problem"):
                beta = maximise(planes.gram, planes.b, problem.lam, beta)
                a = beta @ planes.a
                lower = float(beta @ planes.b) - float(a @ a) / (2.0 * problem.lam)
                w = -a / problem.lam
            with clock("risk"):
                plane, point = _at(problem, w)
                calls += 1
            primal = _value(problem, w, plane)
            done = patience.ended(primal, lower)
            yield Iterate(point, _mixture(planes, beta), primal, lower, calls, clock.parts, done)
            held = [plane]


@dataclass(frozen=True)
class LsBMRM:
    """BMRM with a line search between the mixture so far and the new plane: ls-bmrm of paper 2."""

    def iterate(self, problem: RegularizedRisk, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a plane. The mixture begins as the alpha of ``start``, else as the plane touching at its w."""
        clock = Clock("risk")
        patience = Patience(PATIENCE, least_unit(problem))
        w, witness = _start(problem, start)
        with clock("risk"):
            plane = _at(problem, w)[0] if witness is None else plane_of(problem, witness)
        a, b, alpha = plane.a.ravel(), plane.b, plane.alpha
        calls = 1
        while True:
            w = -a / problem.lam
            lower = b - float(a @ a) / (2.0 * problem.lam)
            with clock("risk"):
                plane, point = _at(problem, w)
                calls += 1
            primal = _value(problem, w, plane)
            done = patience.ended(primal, lower)
            yield Iterate(point, {"alpha": alpha}, primal, lower, calls, clock.parts, done)
            toward = plane.a.ravel() - a
            rise = float(toward @ w) + plane.b - b
            length = float(toward @ toward)
            eta = min(1.0, max(0.0, problem.lam * rise / length)) if length > 0 else 0.0
            a, b = a + eta * toward, b + eta * (plane.b - b)
            alpha = alpha + eta * (plane.alpha - alpha)


def plane_of(problem: RegularizedRisk, alpha: Vector) -> Plane:
    """The plane <a, w> + b of ``alpha`` in Q: a = A' alpha, b = <c, alpha>."""
    return Plane(problem.adjoint(alpha), float(problem.loss.offset @ alpha), alpha)


def _at(problem: RegularizedRisk, w: Vector) -> tuple[Plane, Point]:
    """The plane that touches the risk at w; and the point w with its best free offsets."""
    w = w.reshape(problem.shape)
    plane, b = problem.touching(w)
    return plane, {"w": w, "b": b} if problem.n_biases else {"w": w}


def _value(problem: RegularizedRisk, w: Vector, plane: Plane) -> float:
    """J(w), given the plane that touches the risk at w."""
    return 0.5 * problem.lam * float(w @ w) + float(w @ plane.a.ravel()) + plane.b


def _start(problem: RegularizedRisk, start: Solution | None) -> tuple[Vector, Vector | None]:
    """w_0 = 0, or w of ``start``; and its witness in Q, if it has one."""
    point, witness = read_start(problem, start)
    return (np.zeros(problem.dimension) if point is None else point["w"].ravel()), witness


def _mixture(planes: CuttingPlanes, beta: Vector) -> Callable[[], Point]:
    return lambda: {"alpha": planes.mixture(beta)}
