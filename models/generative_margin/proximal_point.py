r"""The proximal pair of paper 0: (P_n) (14)-(17) and its dual (D_n) (18)-(19), enumerated, for small instances.

gamma and the centre theta^n are CVXPY parameters, so that a proximal point loop in a notebook compiles once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Point, Vector
from convexstruct.families.generative_margin.general import only_linear
from convexstruct.families.generative_margin.objectives import proximal_theta
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.marginals.enumeration import MOST_LABELLINGS
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.generative_margin.enumerated import (
    LAMBDA,
    MARGIN,
    PAPER,
    SUB_DISTRIBUTION,
    DualSet,
    MarginRows,
    at_parameters,
    block_sums,
    eta_parameter,
)
from convexstruct.rounding import Rounded, exact, square
from convexstruct.tolerances import DUAL_ROUNDING
from convexstruct.validation.arguments import number


@dataclass(frozen=True, eq=False)
class ProximalMargin:
    """Problem (P_n), (P) plus gamma/2 ||theta - theta^n||^2, against which solutions of the pair are certified.

    Attributes
    ----------
    problem : (P). gamma : positive. centre : theta^n (d,), within (16).

    A dual point is a dual witness of (P), which stands for a member of script-D, together with "lambda" (blocks,). Its
    value is (18), with the minimiser of (19) in closed form from (20). (The closed form is ours: the paper takes Newton
    steps, which overflow far from the minimiser.)
    """

    problem: GenerativeMargin
    gamma: float
    centre: Vector
    family: ClassVar[str] = "generative_margin"

    def as_point(self, value: Any) -> Point:
        return self.problem.as_point(value)

    def primal(self, point: Point) -> float:
        away = exact(point["theta"]) - self.centre
        value: Rounded = self.problem.primal(point) + 0.5 * self.gamma * square(away)
        return value

    @property
    def trivial_value(self) -> float:
        return self.problem.trivial_value

    def trivial(self) -> tuple[Point, Point]:
        point, dual_point = self.problem.trivial()
        return point, {**dual_point, "lambda": np.zeros(len(self.problem.layout.block_sizes))}

    def repair(self, point: Point) -> Point:
        return self.problem.repair(point)

    def residuals(self, point: Point) -> Mapping[str, float]:
        return self.problem.residuals(point)

    def dual(self, dual_point: Point) -> float:
        """Q_n of (18) at the witness, with negative lambda set to 0: a valid lower bound."""
        mixture, lam = self._split(dual_point)
        if (
            not np.isfinite(lam).all()
            or self.problem.dual_residuals(mixture)["shares outside the simplex"] > DUAL_ROUNDING
        ):
            return -np.inf
        mu, omega = self.problem.aggregate(mixture)
        lam = np.maximum(lam, 0.0)
        u = self.problem.c - mu
        x, y = proximal_theta(u, lam[self.problem.layout.block_of], self.centre, self.gamma)
        away = x - self.centre
        q = self.gamma * (y.sum() + 0.5 * (away @ away)) - u @ x
        return float(omega - lam.sum() + q)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        mixture, lam = self._split(dual_point)
        shares = self.problem.dual_residuals(mixture)["shares outside the simplex"]
        return {"shares outside the simplex": shares, "lambda below 0": float(max(0.0, -lam.min()))}

    def _split(self, dual_point: Point) -> tuple[Point, Vector]:
        blocks = len(self.problem.layout.block_sizes)
        lam = np.asarray(dual_point.get("lambda", np.zeros(0)), dtype=np.float64)
        if lam.shape != (blocks,):
            raise ValueError(f"dual_point['lambda'] has shape {lam.shape}, wanted ({blocks},)")
        return {name: value for name, value in dual_point.items() if name != "lambda"}, lam


def _parameters(problem: GenerativeMargin, gamma: float, centre: ArrayLike | None) -> tuple[Any, Any]:
    """gamma and theta^n as CVXPY parameters; the default centre is the uniform theta."""
    gamma = number("gamma", gamma, above=0)
    start = problem.uniform() if centre is None else problem.as_point(centre)["theta"]
    if not np.isfinite(start).all():
        raise ValueError("centre contains NaN or infinity, wanted a finite theta")
    return (
        cp.Parameter(pos=True, name="gamma", value=gamma),
        cp.Parameter(problem.dimension, name="centre", value=start),
    )


def _instance(problem: GenerativeMargin, formulation: Formulation) -> ProximalMargin:
    values = formulation.parameters
    centre = np.array(values["centre"].value, dtype=np.float64)
    return ProximalMargin(at_parameters(problem, formulation), float(values["gamma"].value), centre)


@stated("(P_n), the proximal primal", PAPER, "(14)-(17)", optimum="p_n*", enumerated=True)
def proximal(
    problem: GenerativeMargin, gamma: float = 1.0, centre: ArrayLike | None = None, limit: int = MOST_LABELLINGS
) -> Formulation:
    r"""(P_n), all assignments enumerated:

        min  - sum_i c_i' theta_i + eta sum_k w_k eps_k + gamma/2 ||theta - theta^n||^2     (14)
        s.t. sum_i a_{i,k}(s)' theta_i + b_k(s) <= eps_k                                   (15)
             1' e^{theta_i} <= 1                                                           (16)
             eps >= 0                                                                      (17)

    Source: paper 0, (14)-(17). Variables theta (d,), eps (K,), rho = theta - theta^n (d,), by which gamma multiplies a
    square without another parameter in it (DPP). Parameters eta, gamma, centre = theta^n (d,).

    Raises
    ------
    ValueError
        If there are more than ``limit`` assignments, or gamma is not positive, or the centre is not finite.
    """
    only_linear(problem, "proximal")
    rows = MarginRows(problem, limit)
    theta = cp.Variable(problem.dimension, name="theta")
    rho = cp.Variable(problem.dimension, name="rho")
    eps = cp.Variable(problem.n_examples, name="eps")
    eta = eta_parameter(problem)
    rate, middle = _parameters(problem, gamma, centre)

    def recover(formulation: Formulation) -> Recovered:
        instance = _instance(problem, formulation)
        witness = rows.witness(np.asarray(formulation.dual_values["15"]), instance.problem.eta)
        lam = np.asarray(formulation.dual_values["16"])
        return Recovered(instance, {"theta": np.asarray(theta.value)}, {**witness, "lambda": lam})

    objective = -problem.c @ theta + eta * (problem.examples.weights @ eps) + rate / 2 * cp.sum_squares(rho)
    return Formulation(
        name="proximal",
        objective=cp.Minimize(objective),
        objective_latex=r"\min_{\theta,\epsilon}\quad -\sum_i c_i'\theta_i + \eta \sum_k w_k \epsilon_k "
        r"+ \frac{\gamma_n}{2} \lVert \theta - \theta^n \rVert^2",
        objective_label="14",
        parts={
            "15": equation(rows.a @ theta + rows.b <= rows.of_example.T @ eps, MARGIN),
            "16": equation(block_sums(problem.layout) @ cp.exp(theta) <= 1, SUB_DISTRIBUTION),
            "17": equation(eps >= 0, r"\epsilon \ge 0"),
            "rho": equation(rho == theta - middle, r"\rho = \theta - \theta^n"),
        },
        variables={"theta": theta, "eps": eps, "rho": rho},
        parameters={"eta": eta, "gamma": rate, "centre": middle},
        source="paper 0, (14)-(17), enumerated",
        recover=recover,
    )


@stated("(D_n), the proximal dual", PAPER, "(18), (19), (9)", optimum="p_n*", enumerated=True)
def proximal_dual(
    problem: GenerativeMargin, gamma: float = 1.0, centre: ArrayLike | None = None, limit: int = MOST_LABELLINGS
) -> Formulation:
    r"""(D_n), with (19) as a maximum that CVXPY accepts (the form is ours):

        max  omega - sum_i lambda_i + sum_i q_i^n(mu_i, lambda_i)                                          (18)
        q_i^n = min over theta_i of (mu_i - c_i)'theta_i + lambda_i 1'e^{theta_i} + gamma/2 ||theta_i - theta_i^n||^2
              = max { sum_j u_ij - u_ij ln(u_ij/lambda_i) - gamma/2 ||rho_i||^2 - gamma rho_i'theta_i^n
                      : u_i + gamma rho_i + mu_i = c_i, u_i >= 0 }                                         (19)

    Splitting theta into a copy in each of the two convex terms, with gamma rho the multiplier of their equality, gives
    the second line: the first term's minimum is sum u - u ln(u/lambda), the second's is at theta = theta^n + rho. At
    the optimum u = lambda e^theta, and the constraint is (20). gamma theta^n is a parameter of its own, computed from
    the two (a product of two parameters is not DPP).

    Source: paper 0, (18), (19), (9). Variables beta (R,), mu (d,), omega, lam (blocks,), u (d,), rho (d,).

    Raises
    ------
    ValueError
        If there are more than ``limit`` assignments, or gamma is not positive, or the centre is not finite.
    """
    of = DualSet(problem, limit)
    layout = problem.layout
    rate, middle = _parameters(problem, gamma, centre)
    pull = cp.CallbackParam(lambda: rate.value * middle.value, problem.dimension, name="gamma centre")
    lam = cp.Variable(len(layout.block_sizes), name="lambda")
    u = cp.Variable(problem.dimension, name="u")
    rho = cp.Variable(problem.dimension, name="rho")
    q = cp.sum(u - cp.rel_entr(u, block_sums(layout).T @ lam)) - rate / 2 * cp.sum_squares(rho) - pull @ rho

    def recover(formulation: Formulation) -> Recovered:
        instance = _instance(problem, formulation)
        witness = of.rows.witness(np.asarray(of.beta.value), instance.problem.eta)
        point = {"theta": instance.centre + np.asarray(rho.value)}
        return Recovered(instance, point, {**witness, "lambda": np.asarray(lam.value)})

    return Formulation(
        name="proximal_dual",
        objective=cp.Maximize(of.omega - cp.sum(lam) + q),
        objective_latex=r"\max_{\mu,\omega,\lambda}\quad \omega - \sum_i \lambda_i + \sum_i q_i^n(\mu_i, \lambda_i)",
        objective_label="18",
        parts={
            "19": equation(
                [u + rate * rho + of.mu == problem.c, u >= 0],
                r"q_i^n(\mu_i, \lambda_i) = \max_{u,\rho} \Big\{ \sum_j u_{ij} - u_{ij} \ln (u_{ij}/\lambda_i) "
                r"- \frac{\gamma_n}{2} \lVert \rho_i \rVert^2 - \gamma_n \rho_i'\theta_i^n : "
                r"u_i + \gamma_n \rho_i + \mu_i = c_i,\ u_i \ge 0 \Big\}",
            ),
            "lambda": equation(lam >= 0, LAMBDA),
            "9": of.script_d,
        },
        variables={**of.variables, "lambda": lam, "u": u, "rho": rho},
        parameters={"eta": of.eta, "gamma": rate, "centre": middle},
        source="paper 0, (18), (19), enumerated",
        recover=recover,
    )
