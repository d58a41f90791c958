r"""Structural SVMs by constraint generation, one step at a time: n-slack, one-slack, and without slack.

Each step solves the master with the constraints found so far, asks the problem's oracle for the most violated labelling
of each example at its w, and adds what is new. With a_r = e df, e = 1 (margin scaling) or E (slack scaling),

    n-slack       <w, a_i(y)> >= E_i(y) - xi_i                           up to N constraints a round
    one-slack     sum_i omega_i <w, a_i(y_i)> >= sum_i omega_i E_i(y_i) - xi     one (Joachims, Finley and Yu 2009)
    hard margin   <w, a_i(y)> >= E_i(y)                                  up to N

Bounds, valid every round whatever the solver's accuracy:

* upper: P at the master's w. Without slack: lam/2 |w|^2 at w scaled up until every margin holds, if some factor does;
* lower: the master's multipliers, made feasible, are an alpha of (D). D at their best multiple between 0 and 1 (without
  slack: any multiple >= 0) is the bound. The optimum that the solver claims for the master is reported and never used
  as a bound.

Every master has the constraint xi >= 0, so that no example has a negative slack. With an approximate or relaxed oracle
the bounds are valid, but need not meet.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Labels, Vector
from convexstruct.core.certificates import Certificate
from convexstruct.core.scale import Scale
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.models.constraint_generation import Round as Round
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, equation
from convexstruct.models.labelling_cuts import LabellingCuts
from convexstruct.models.labelling_cuts import Slack as Slack
from convexstruct.models.structured_svm.enumerated import (
    NO_SLACK_BELOW_0,
    PAPER_1,
    PAPER_4,
    scale_parameters,
    sign,
)

CUTS = {
    "n": r"w'a_i(y) \ge E_i(y) - \xi_i, \quad y \in \mathcal{W}_i,\ \forall i",
    "one": r"\sum_i \omega_i\, w'a_i(y_i) \ge \sum_i \omega_i E_i(y_i) - \xi, \quad (y_i)_i \in \mathcal{W}",
    "none": r"w'a_i(y) \ge E_i(y), \quad y \in \mathcal{W}_i,\ \forall i",
}
NAMES = {"n": "n_slack_cuts", "one": "one_slack_cuts", "none": "hard_margin_cuts"}


class ConstraintGeneration(LabellingCuts[StructuredSVM]):
    """A structural SVM by constraint generation; what it shares with other families is in
    `convexstruct.models.labelling_cuts`.

    problem : the problem; its scaling and its oracle decide what is added.
    slack : "n", "one" or "none".
    w : the best point so far (0 before the first step).
    """

    def __init__(self, problem: StructuredSVM, slack: Slack = "n") -> None:
        super().__init__(problem, slack)
        self._lower = 0.0  # D at alpha = 0

    @property
    def w(self) -> Vector:
        return np.asarray(self.point["w"])

    @property
    def name(self) -> str:
        return NAMES[self.slack]

    @property
    def weights(self) -> Vector:
        return self.problem.weights

    @property
    def starts(self) -> Index:
        return self.problem.features.node_start

    def limit(self, problem: StructuredSVM) -> float:
        return problem.scale.C

    def formulation(self) -> Formulation:
        r"""The master with the constraints found so far:

        min lam/2 |w|^2 + C sum_i omega_i xi_i  (one slack: C xi; none: nothing)  s.t. the cuts, xi >= 0, w_edge >= 0.
        """
        problem, rows = self.problem, self.found()
        w = cp.Variable(problem.dimension, name="w")
        lam, C = scale_parameters(problem)
        cost, parts, variables, shown = lam / 2 * cp.sum_squares(w), {}, {"w": w}, ""
        of_cuts: Any = 0
        if self.slack != "none":
            xi = cp.Variable(1 if self.slack == "one" else problem.n_examples, name="xi")
            cost += C * (cp.sum(xi) if self.slack == "one" else problem.weights @ xi)
            shown = r" + C\, \xi" if self.slack == "one" else r" + C \sum_i \omega_i \xi_i"
            variables["xi"] = xi
            if rows is not None:
                of_cuts = self.slack_of(rows) @ xi
            parts["xi"] = equation(xi >= 0, NO_SLACK_BELOW_0)
        if rows is not None:
            parts = {"margin": equation(rows.a @ w >= rows.b - of_cuts, CUTS[self.slack]), **parts}
        return Formulation(
            name=f"{self.name} master",
            objective=cp.Minimize(cost),
            objective_latex=rf"\min\quad \tfrac{{\lambda}}{{2}} \|w\|^2{shown}",
            objective_label="P",
            parts=parts | sign(problem, w[problem.features.n_node_weights :]),
            variables=variables,
            parameters={"lam": lam} | ({} if self.slack == "none" else {"C": C}),
            source=f"paper 1, cutting-plane algorithm, {problem.scaling} scaling",
        )

    def rows_of(self, labels: Labels) -> tuple[sp.csr_array, Vector]:
        features, loss = self.problem.features, self.problem.loss.of(labels)
        difference = sp.csr_array(features.joint_each(features.truth) - features.joint_each(labels))
        if self.problem.scaling == "slack":
            difference = sp.csr_array(difference.multiply(loss[:, None]))
        return difference, loss

    def bound_above(self) -> tuple[Labels, Vector]:
        """P at the master's w; without slack lam/2 |w|^2 at w scaled up until every margin holds, if some factor does
        it."""
        assert self.master is not None
        w = self.problem.project(np.asarray(self.master.variables["w"].value, dtype=np.float64))
        found = self.problem.most_violated(w)
        value = found.value
        if self.slack == "none":
            factor = separating_factor(self.problem, found.hinge)
            w = w if factor is None else factor * w
            value = np.inf if factor is None else 0.5 * self.problem.lam * float(w @ w)
        self.improve(value, {"w": w})
        return found.labels, found.violation

    def bound_below(self) -> None:
        """D at the best multiple of the master's multipliers."""
        problem, rows = self.problem, self.found()
        if rows is None:
            return
        alpha = self.multipliers_of(rows, "margin")
        if self.slack == "none":
            psi = problem.project(np.asarray(rows.a.T @ alpha))
            square = float(psi @ psi) / problem.lam
            alpha = alpha * (max(0.0, float(rows.b @ alpha)) / square if square > 0 else 1.0)
        value = problem.best_on_ray(np.asarray(rows.a.T @ alpha), float(rows.b @ alpha))
        self.raise_bound(value, self.by_example(alpha))

    def certified(self) -> StructuredSVM:
        """The problem whose optimum the run finds. Without slack it is the soft margin with a C so large that the best
        multipliers found are feasible: its optimum is the hard margin's once they are optimal."""
        if self.slack != "none":
            return self.problem
        most = float(np.max(self._multipliers.sum(axis=0) / self.weights))
        return replace(self.problem, scale=Scale(self.problem.lam, max(self.problem.scale.C, most)))

    def certificate(self, floor: float) -> Certificate:
        """Without slack and before a w that separates the data is found, there is no upper bound: P of the soft margin
        at the w so far is none of the hard margin's optimum, which may be inf."""
        found = super().certificate(floor)
        if self.slack == "none" and not math.isfinite(self._primal):
            return replace(found, primal=math.inf, gap=math.inf, claimed=math.inf)
        return found


def separating_factor(problem: StructuredSVM, hinge: Vector) -> float | None:
    """A factor that scales w until every hard margin holds, from H_i(w) (N,) or upper bounds of it; None if none is
    known.

    With e_i > 0 the least positive loss of the example, <w, df_i(y)> >= E_i(y) - H_i >= E_i(y) (1 - H_i / e_i), under
    slack scaling >= 1 - H_i / e_i. If a labelling other than y_i has no loss, its constraint <w, df_i(y)> >= 0 holds
    after scaling only if it held before.
    """
    if problem.loss.zero_one:
        least = np.ones(problem.n_examples)
    else:
        costs = np.where(problem.loss.costs > 0, problem.loss.costs, np.inf).min(axis=1)
        least = np.minimum.reduceat(costs, problem.features.node_start[:-1])
        free = bool(((problem.loss.costs == 0).sum(axis=1) > 1).any())
        if free and problem.scaling == "margin" and hinge.any():
            return None
    left = 1.0 - float(np.max(hinge / least, initial=0.0))
    return 1.0 / left if left > 0 else None


@stated("(P) by constraint generation, a slack for each example", PAPER_1, "cutting-plane algorithm")
def n_slack_cuts(problem: StructuredSVM) -> ConstraintGeneration:
    """The problem by constraint generation with a slack for each example: up to N constraints a round."""
    return ConstraintGeneration(problem, "n")


@stated("(P) by constraint generation, one slack for all", PAPER_1, "single slack formulation")
def one_slack_cuts(problem: StructuredSVM) -> ConstraintGeneration:
    """The problem by constraint generation with one slack xi = sum_i omega_i xi_i for all: one constraint a round."""
    return ConstraintGeneration(problem, "one")


@stated("the hard margin by constraint generation", PAPER_4, "cutting plane optimization", optimum="hard-margin p*")
def hard_margin_cuts(problem: StructuredSVM) -> ConstraintGeneration:
    """The hard margin by constraint generation; the run ends INFEASIBLE where no w separates the data."""
    return ConstraintGeneration(problem, "none")
