r"""Max-margin training without slack, and with slack at a constant margin (paper 4), every labelling written out.

hard_margin   "Simple-Max-Margin": no slack, no C
hm_svm        the hidden Markov SVM: margin 1 whatever the labelling, with slack
"""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.scale import Scale
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.marginals.enumeration import MOST_LABELLINGS
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.structured_svm.enumerated import (
    PAPER_4,
    MarginRows,
    at_parameters,
    scale_parameters,
    sign,
    soft_margin,
)


@stated("the hard margin, no slack and no C", PAPER_4, "Simple-Max-Margin", optimum="hard-margin p*", enumerated=True)
def hard_margin(problem: StructuredSVM, limit: int = MOST_LABELLINGS) -> Formulation:
    r"""No slack, all labellings enumerated:

        min  lam/2 |w|^2
        s.t. <w, df_i(y)> >= E_i(y)   for all y != y_i, i       margin scaling
             <w, df_i(y)> >= 1        for all y with E_i(y) > 0, i      slack scaling

    With the zero-one loss this is the lecture's Simple-Max-Margin: <w, df_i(y)> >= 1 for all y != y_i (there |w|^2,
    here lam/2 |w|^2). It is the limit of the soft margin for large C, so that C does not occur in it. If no w separates
    the data, it is infeasible, and the solution has the status INFEASIBLE.

    `recover` returns the soft-margin problem with C so large that the multipliers of each example i sum to at most
    C omega_i: its optimum then has no slack and equals this one. w is scaled up until every margin holds in spite of
    rounding.

    Source: paper 4, "Max-margin training". Variable w (d,); parameter lam.

    Raises
    ------
    ValueError
        If there are more than ``limit`` labellings.
    """
    rows = MarginRows(problem, limit)
    others = np.setdiff1d(rows.stated, rows.rows.truth)
    margin = np.ones(len(others)) if problem.scaling == "slack" else rows.loss[others]
    difference = rows.rows.difference[others]
    w = cp.Variable(problem.dimension, name="w")
    lam, _ = scale_parameters(problem)
    parts = {}
    if len(others):
        right = "1" if problem.scaling == "slack" or problem.loss.zero_one else "E_i(y)"
        among = "y : E_i(y) > 0" if problem.scaling == "slack" else r"y \ne y_i"
        parts["margin"] = equation(difference @ w >= margin, rf"w'\delta f_i(y) \ge {right} \quad \forall {among},\ i")
    parts |= sign(problem, w[problem.features.n_node_weights :])

    def recover(formulation: Formulation) -> Recovered:
        instance = at_parameters(problem, formulation)
        found = problem.project(np.asarray(w.value))
        alpha = np.zeros(len(rows.loss))
        if len(others):
            alpha[others] = np.maximum(np.asarray(formulation.dual_values["margin"]), 0.0)
            if problem.scaling == "slack":
                alpha[others] /= rows.loss[others]
            found = found * up_to_margins(np.asarray(difference @ found), margin)
        most = float(np.max((rows.of_example @ alpha) / problem.weights))
        instance = replace(instance, scale=Scale(instance.scale.lam, max(instance.scale.C, most)))
        return Recovered(instance, {"w": found}, rows.witness(alpha, instance.ceiling))

    return Formulation(
        name="hard_margin",
        objective=cp.Minimize(lam / 2 * cp.sum_squares(w)),
        objective_latex=r"\min_w\quad \tfrac{\lambda}{2} \|w\|^2",
        parts=parts,
        variables={"w": w},
        parameters={"lam": lam},
        source="paper 4, Simple-Max-Margin, enumerated",
        recover=recover,
    )


def up_to_margins(reached: Vector, margin: Vector) -> float:
    """The least factor >= 1 that scales ``reached`` (n,) up to all margins (n,); 1 if no factor does."""
    asked = margin > 0
    if (reached[asked] <= 0).any():
        return 1.0
    return float(np.max(margin[asked] / reached[asked], initial=1.0))


@stated(
    "the hidden Markov SVM: a constant margin of 1, with slack",
    PAPER_4,
    "Slack variables",
    optimum="zero-one p*",
    enumerated=True,
)
def hm_svm(problem: StructuredSVM, limit: int = MOST_LABELLINGS) -> Formulation:
    r"""The hidden Markov SVM on the problem's data, all labellings enumerated:

        min  lam/2 |w|^2 + C sum_i omega_i xi_i
        s.t. <w, df_i(y)> >= 1 - xi_i    for all y != y_i, i
             xi >= 0

    The margin is 1 for every labelling: this is the structural SVM of the zero-one loss, whatever loss the problem has,
    and `recover` certifies it as that. For the zero-one loss margin and slack scaling are the same.

    Source: paper 4, "Slack variables" (C = 1, lam twice the lecture's). Variables w (d,), xi (N,); parameters lam, C.

    Raises
    ------
    ValueError
        If there are more than ``limit`` labellings.
    """
    constant = replace(problem, loss=replace(problem.loss, zero_one=True), scaling="margin")
    rows = MarginRows(constant, limit)
    others = np.setdiff1d(rows.stated, rows.rows.truth)
    return soft_margin(
        problem, "hm_svm", "paper 4, hidden Markov SVM, enumerated",
        (rows.a[others], 1, rows.of_example[:, others].T, r"w'\delta f_i(y) \ge 1 - \xi_i \quad \forall y \ne y_i,\ i"),
        lambda multipliers, ceiling: rows.witness(rows.all_rows(multipliers, others), ceiling), posed=constant,
        label="",
    )  # fmt: skip
