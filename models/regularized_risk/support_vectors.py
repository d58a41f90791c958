r"""Support vector machines with C in place of lam (paper 2, (1)-(2) and (20)-(22), divided by lam): the textbook pair.

    C = 1 / (lam sum_i omega_i),      optimum p*/lam,      multipliers alpha/lam

so that a multiplier is at most C omega_i; in the paper it is at most 1/n. C is a CVXPY parameter, in the objective of
the primal and in the constraints of the dual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np

from convexstruct.arrays import Point, Vector
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.regularized_risk.risk import PAPER, Parts, point_of
from convexstruct.rounding import Rounded

OMEGA = r"\omega"


@dataclass(frozen=True, eq=False)
class Rescaled:
    """The problem with its objective divided by lam, against which solutions of the pair are certified.

    Points and dual witnesses are those of ``problem``: alpha, not alpha/lam.
    """

    problem: RegularizedRisk
    family: ClassVar[str] = "regularized_risk"

    def as_point(self, value: Any) -> Point:
        return self.problem.as_point(value)

    def primal(self, point: Point) -> Rounded:
        bound: Rounded = self.problem.primal(point) / self.problem.lam
        return bound

    def dual(self, dual_point: Point) -> Rounded:
        bound: Rounded = self.problem.dual(dual_point) / self.problem.lam
        return bound

    @property
    def trivial_value(self) -> float:
        return self.problem.trivial_value / self.problem.lam

    def trivial(self) -> tuple[Point, Point]:
        return self.problem.trivial()

    def repair(self, point: Point) -> Point:
        return self.problem.repair(point)

    def residuals(self, point: Point) -> Mapping[str, float]:
        return self.problem.residuals(point)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        return self.problem.dual_residuals(dual_point)


class Cost:
    """C as a parameter. omega : (G,) the weight of each group, 1 without weights; share = omega / total."""

    def __init__(self, problem: RegularizedRisk) -> None:
        self.problem = problem
        weights = problem.weights
        self.omega: Vector = np.ones(problem.loss.n_groups) if weights is None else weights[problem.loss.example]
        self.total = float(self.omega[0] / problem.shares[0])
        self.parameter: Any = cp.Parameter(pos=True, name="C", value=1.0 / (problem.lam * self.total))

    def read(self, point: Point, scaled: Any) -> Recovered:
        """The problem at the present C, a point, and alpha from alpha/lam."""
        lam = 1.0 / (float(self.parameter.value) * self.total)
        return Recovered(Rescaled(replace(self.problem, lam=lam)), point, {"alpha": np.asarray(scaled) * lam})


@stated("the textbook primal with C", PAPER, "(1)-(2), over lambda", optimum="p*/lam")
def svm(problem: RegularizedRisk) -> Formulation:
    r"""The problem in the form of textbooks, (1) divided by lam, with C = 1 / (lam sum_i omega_i):

        min  1/2 |w|^2 + C sum_g omega_g xi_g
        s.t. <a_p, w> + s_p b_j + c_p <= xi_g     for every piece p of group g  (2)
             xi >= 0                              where 0 is one more piece

    Source: paper 2, (1)-(2), rescaled. Its optimum is p*/lam, its multipliers alpha/lam. Parameter C.
    """
    of = Parts(problem)
    variables, parts = of.slacks("2")
    cost = Cost(problem)

    def recover(formulation: Formulation) -> Recovered:
        return cost.read(point_of(variables), formulation.dual_values["2"])

    return Formulation(
        name="svm",
        objective=cp.Minimize(cp.sum_squares(variables["w"]) / 2 + cost.parameter * (cost.omega @ variables["xi"])),
        objective_latex=rf"\min_{{w,\xi}}\quad \frac12 \lVert w \rVert^2 + C {of.summed(OMEGA)}",
        parts=parts,
        variables=variables,
        parameters={"C": cost.parameter},
        source="paper 2, (1)-(2), over lambda",
        recover=recover,
    )


@stated("the textbook dual with C", PAPER, "(20)-(22), over lambda", optimum="p*/lam")
def svm_dual(problem: RegularizedRisk) -> Formulation:
    r"""The textbook dual:

        max  <c, alpha> - 1/2 |w|^2,   w + A' alpha = 0
        s.t. alpha >= 0, sum of alpha over g <= C omega_g (= without the zero piece)
             sum_p s_p alpha_p = 0 for each free offset

    For the binary hinge: max sum_i alpha_i - 1/2 |sum_i alpha_i y_i x_i|^2 over 0 <= alpha_i <= C. Only the
    constraints contain C.

    Source: paper 2, (20)-(22), rescaled. Its optimum is p*/lam. Parameter C.
    """
    of = Parts(problem)
    cost = Cost(problem)
    alpha, parts = of.weights(cost.parameter * cost.omega, rf"C {OMEGA}_{of.of}")
    w = cp.Variable(problem.dimension, name="w")

    def recover(formulation: Formulation) -> Recovered:
        return cost.read({"w": np.asarray(w.value)}, alpha.value)

    return Formulation(
        name="svm_dual",
        objective=cp.Maximize(of.c @ alpha - cp.sum_squares(w) / 2),
        objective_latex=r"\max_{\alpha,w}\quad \langle c, \alpha \rangle - \frac12 \lVert w \rVert^2",
        parts={"11": equation(w + of.a.T @ alpha == 0, r"w + A^\top \alpha = 0"), **parts},
        variables={"alpha": alpha, "w": w},
        parameters={"C": cost.parameter},
        source="paper 2, (20)-(22), over lambda",
        recover=recover,
    )
