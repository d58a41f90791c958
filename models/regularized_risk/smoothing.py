r"""The smoothed risk of paper 2: J with mu d(alpha) subtracted inside the maximum, for Nesterov's excessive gap method.

    J_mu(w) = lam/2 |w|^2 + max_{alpha in Q2} { <A w + c, alpha> - mu/2 |alpha - alpha_0|^2 }          (23)
    D_mu(alpha) = D(alpha) - mu/2 |alpha - alpha_0|^2

J_mu has a Lipschitz gradient, and J_mu <= J <= J_mu + mu D_max with D_max = max over Q2 of 1/2 |alpha - alpha_0|^2. The
maximiser alpha_mu(w) is the projection of alpha_0 + (A w + c)/mu onto Q2. To state J_mu with slacks, mu rho_p is
subtracted from the value of each piece, and terms in rho are added to the objective; at the minimum
rho = alpha_mu(w) - alpha_0:

    max_{alpha in Q2} {...} = min over rho, b of  <alpha_0, mu rho> + mu/2 |rho|^2
                                                + sum_g share_g max([0,] <a_p, w> + c_p + s_p b_j - mu rho_p)

because the conjugate of mu/2 |alpha - alpha_0|^2 at mu rho is <alpha_0, mu rho> + mu/2 |rho|^2, and the conjugate of a
sum is the least sum of conjugates. (This form is ours.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Point, Vector
from convexstruct.core.certificates import Unconstrained
from convexstruct.families.regularized_risk import bounds
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.regularized_risk.risk import (
    N_TH,
    NORM,
    PAPER,
    SHARE,
    STATIONARY,
    Parts,
    at_lam,
    lam_parameter,
    point_of,
)
from convexstruct.rounding import Rounded, dot, exact, square
from convexstruct.validation.arguments import number
from convexstruct.validation.arrays import real


@dataclass(frozen=True, eq=False)
class SmoothedProblem(Unconstrained):
    """min J_mu as a problem, against which solutions of the pair are certified.

    Attributes
    ----------
    problem : J. mu : positive. centre : alpha_0 (m,), in Q2.

    A point has w, the free offsets b where there are any, and rho (m,); its value is at least J_mu(w), and equal at the
    best rho. A dual witness is alpha, as that of ``problem``.
    """

    problem: RegularizedRisk
    mu: float
    centre: Vector
    family: ClassVar[str] = "regularized_risk"

    def as_point(self, value: Any) -> Point:
        if not isinstance(value, Mapping) or "rho" not in value:
            raise ValueError("point must be a mapping with w, rho, and b where the loss has free offsets")
        rho = np.asarray(value["rho"], dtype=np.float64)
        if rho.shape != (self.problem.n_pieces,):
            raise ValueError(f"rho has shape {rho.shape}, wanted ({self.problem.n_pieces},)")
        return {**self.problem.as_point({key: part for key, part in value.items() if key != "rho"}), "rho": rho}

    def primal(self, point: Point) -> Rounded:
        """J with c - mu rho in place of c, plus the terms in rho."""
        rho = point["rho"]
        risk = bounds.upper(self.problem, point["w"], point.get("b"), -self.mu * exact(rho))
        value: Rounded = risk + self.mu * (dot(self.centre, rho) + 0.5 * square(rho))
        return value

    @property
    def trivial_value(self) -> float:
        return self.problem.trivial_value

    def trivial(self) -> tuple[Point, Point]:
        point, dual_point = self.problem.trivial()
        return {**point, "rho": np.zeros(self.problem.n_pieces)}, dual_point

    def dual(self, dual_point: Point) -> Rounded:
        """D_mu at a member of Q2 near the witness as the problem repairs it, as in `bounds.lower`."""
        if "alpha not finite" in self.problem.dual_residuals(dual_point):
            return Rounded(-np.inf)
        given = np.asarray(dual_point["alpha"], dtype=np.float64)
        risk = bounds.lower(self.problem, given)
        if not np.isfinite(risk):
            return Rounded(-np.inf)
        alpha, eta = bounds.enclosed(self.problem, bounds.member(self.problem, given))
        value: Rounded = risk - 0.5 * self.mu * square(alpha * Rounded(1.0, eta) - self.centre)
        return value

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        return self.problem.dual_residuals(dual_point)


def _parameters(problem: RegularizedRisk, mu: float, centre: ArrayLike | None) -> tuple[Any, Vector]:
    """mu as a CVXPY parameter, and alpha_0: by default 0, or without a zero piece each group's share spread evenly."""
    mu = number("mu", mu, above=0)
    if centre is None:
        start = problem.feasible(np.zeros(problem.n_pieces))
    else:
        start = real("centre", centre, (problem.n_pieces,), why="a point of Q2")
    return cp.Parameter(pos=True, name="mu", value=mu), start


def _instance(problem: RegularizedRisk, formulation: Formulation, centre: Vector) -> SmoothedProblem:
    return SmoothedProblem(at_lam(problem, formulation), float(formulation.parameters["mu"].value), centre)


@stated("the smoothed risk J_mu", PAPER, "(23)", optimum="J_mu*")
def smoothed(problem: RegularizedRisk, mu: float = 1.0, centre: ArrayLike | None = None) -> Formulation:
    r"""The smoothed primal:

        min  lam/2 |w|^2 + sum_g share_g xi_g + mu (<alpha_0, rho> + 1/2 |rho|^2)                      (23)
        s.t. <a_p, w> + s_p b_j + c_p - mu rho_p <= xi_g      for every piece p of group g
             xi >= 0                                          where 0 is one more piece

    Source: paper 2, (23). Variables w (d,), rho (m,), xi (G,), and the free offsets b; parameters lam and mu. At the
    optimum rho = alpha_mu(w) - alpha_0, and the multipliers are alpha_mu(w).

    Raises
    ------
    ValueError
        If mu is not positive, or the centre has the wrong shape.
    """
    of = Parts(problem)
    rate, middle = _parameters(problem, mu, centre)
    rho = cp.Variable(problem.n_pieces, name="rho")
    variables, parts = of.slacks("23", rate * rho, of.margins.replace(r"\le", r"- \mu \rho_p \le", 1))
    variables["rho"] = rho
    lam = lam_parameter(problem)

    def recover(formulation: Formulation) -> Recovered:
        point = {**point_of(variables), "rho": np.asarray(rho.value)}
        alpha = np.asarray(formulation.dual_values["23"])
        return Recovered(_instance(problem, formulation, middle), point, {"alpha": alpha})

    moved = rate * (middle @ rho) + rate / 2 * cp.sum_squares(rho)
    return Formulation(
        name="smoothed",
        objective=cp.Minimize(lam / 2 * cp.sum_squares(variables["w"]) + of.shares @ variables["xi"] + moved),
        objective_latex=rf"\min_{{w,\xi,\rho}}\quad {NORM} + {of.summed(SHARE, N_TH)} "
        r"+ \mu \langle \alpha_0, \rho \rangle + \frac{\mu}{2} \lVert \rho \rVert^2",
        parts=parts,
        variables=variables,
        parameters={"lam": lam, "mu": rate},
        source="paper 2, (23), the form is ours",
        recover=recover,
    )


@stated("its adjoint", PAPER, "(22), (23)", optimum="J_mu*")
def smoothed_dual(problem: RegularizedRisk, mu: float = 1.0, centre: ArrayLike | None = None) -> Formulation:
    r"""The smoothed adjoint:

        max  <c, alpha> - lam/2 |w|^2 - mu/2 |alpha - alpha_0|^2,   lam w + A' alpha = 0,   alpha in Q2

    Source: paper 2, (22), (23). Variables alpha (m,), w (d,); parameters lam and mu. Its solution is unique.

    Raises
    ------
    ValueError
        If mu is not positive, or the centre has the wrong shape.
    """
    of = Parts(problem)
    rate, middle = _parameters(problem, mu, centre)
    alpha, parts = of.weights()
    w = cp.Variable(problem.dimension, name="w")
    lam = lam_parameter(problem)

    def recover(formulation: Formulation) -> Recovered:
        instance, found = _instance(problem, formulation, middle), np.asarray(alpha.value)
        point = {**problem.as_point(np.asarray(w.value)), "rho": found - middle}
        if problem.n_biases:
            point["b"] = -np.asarray(formulation.dual_values["bias"])
        return Recovered(instance, point, {"alpha": found})

    away = rate / 2 * cp.sum_squares(alpha - middle)
    return Formulation(
        name="smoothed_dual",
        objective=cp.Maximize(of.c @ alpha - lam / 2 * cp.sum_squares(w) - away),
        objective_latex=rf"\max_{{\alpha,w}}\quad \langle c, \alpha \rangle - {NORM} "
        r"- \frac{\mu}{2} \lVert \alpha - \alpha_0 \rVert^2",
        parts={"11": equation(lam * w + of.a.T @ alpha == 0, STATIONARY), **parts},
        variables={"alpha": alpha, "w": w},
        parameters={"lam": lam, "mu": rate},
        source="paper 2, (22), (23)",
        recover=recover,
    )
