r"""Projected gradient ascent on the adjoint (paper 2, (25) alone): the plain loop beside which Pragam's rate is faster.

    alpha_{k+1} = V(alpha_k) = proj_Q(alpha_k + grad D(alpha_k) / L),      grad D(alpha) = c + A w(alpha),

with w(alpha) = -A' alpha / lam (24) and L = |A|_2^2 / lam. Iterate k is the mean w_k of w(alpha_0), .., w(alpha_{k-1}),
its witness alpha_k.

**Theorem** (Beck and Teboulle 2009, theorem 3.1, for D; here for the gap): with Dmax = max_Q |alpha - alpha_0|^2 / 2,

    J(w_k) - D(alpha_k)  <=  L Dmax / k,

where Pragam has 6 L Dmax / ((k + 1)(k + 2)), (26). For all beta in Q, D is above its tangent less a square, and
V(alpha) maximises that lower bound, which is L-strongly concave:

    D(alpha_{i+1})  >=  T_i(beta) - L/2 |beta - alpha_i|^2 + L/2 |beta - alpha_{i+1}|^2,
    T_i(beta)  =  D(alpha_i) + <grad D(alpha_i), beta - alpha_i>  =  lam/2 |w(alpha_i)|^2 + <c + A w(alpha_i), beta>.

T_i is convex in w(alpha_i), and J its maximum over beta. The mean over i < k, in which the squares cancel but for the
first and the last, and that maximum give the theorem, because the D(alpha_i) do not fall.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.core.iterate import Iterate
from convexstruct.core.rounds import Clock
from convexstruct.core.solution import Solution
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.pragam import lipschitz_constant
from convexstruct.families.regularized_risk.solvers.risk_projection import onto_q, starting_alpha


@dataclass(frozen=True)
class ProjectedGradient:
    """Steps of the length 1 / L, L by the iteration of Lanczos."""

    def iterate(self, problem: RegularizedRisk, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a step; alpha_0 is the dual point of ``start``, or zero."""
        clock, lam, c = Clock("projection", "data"), problem.lam, problem.loss.offset
        L = lipschitz_constant(problem)
        alpha = starting_alpha(problem, start)
        w = mean = problem.primal_of(alpha)
        k = 1
        while True:
            deadline.check()
            with clock("data"):
                slope = c + problem.forward(w)
            with clock("projection"):
                alpha = onto_q(problem, alpha + slope / L)
            with clock("data"):
                w = problem.primal_of(alpha)
                plane, b = problem.touching(mean)
            lower = float(c @ alpha) - 0.5 * lam * float(np.vdot(w, w))
            primal = 0.5 * lam * float(np.vdot(mean, mean)) + float(np.vdot(mean, plane.a)) + plane.b
            point = {"w": mean, "b": b} if problem.n_biases else {"w": mean}
            yield Iterate(point, {"alpha": alpha}, primal, lower, k, clock.parts, message=f"L = {L:.6g}")
            k += 1
            mean = mean + (w - mean) / k
