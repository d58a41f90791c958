r"""The convex bound of expectation-maximisation (paper 4, hidden variables) in CVXPY: its M step.

Let q_i be the posterior, at some theta_0, of the labels that are not known. Then

    Q(theta) = C sum_i omega_i [ln Z_i(theta) - <theta, E_q f> - H(q_i)] + R(theta)  >=  P(theta),

with equality at theta_0. Where every label is known, q_i is the truth, and Q = P.
"""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np

from convexstruct.arrays import Vector
from convexstruct.families.log_linear.hidden import HiddenField
from convexstruct.marginals.enumeration import MOST_LABELLINGS
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.log_linear.statement import PAPER, Penalised, written_out


@stated("the convex bound of EM: maximum likelihood of expected features", PAPER, "hidden variables", optimum="q*")
def expected_likelihood(
    problem: HiddenField, theta_0: Vector | None = None, limit: int = MOST_LABELLINGS
) -> Formulation:
    r"""Penalised maximum likelihood of expected features:

        min  C sum_i omega_i [a_i - <theta, E_q f(x_i, y)> - H(q_i)] + lam/2 |theta|^2 + l1 |theta|_1
        s.t. sum_y exp(<theta, f(x_i, y)> - a_i) <= 1   for every i        ("log-sum-exp")

    Source: paper 4, hidden variables, clamped and unclamped expectations; the M step of EM. Variables theta (d,), a
    (N,); parameters C, lam, l1. theta_0 : the point at which q is the posterior, 0 by default. The value is the
    solver's claim, and certified only where P is convex.

    Raises
    ------
    ValueError
        If there are more than ``limit`` labellings.
    """
    of, penalised = written_out(problem.model, limit), Penalised(problem.model)
    here = problem.as_point(np.zeros(problem.dimension) if theta_0 is None else theta_0)["theta"]
    value, moments = problem.clamped(here)
    expected, less = moments / problem.model.scale.C, (here @ moments - value) / problem.model.scale.C
    theta, a = cp.Variable(problem.dimension, name="theta"), cp.Variable(len(of.weights), name="a")
    penalty, shown = penalised.penalty(theta)

    def recover(formulation: Formulation) -> Recovered:
        found, instance = np.array(theta.value, dtype=np.float64), replace(problem, model=penalised.stated())
        return Recovered(instance, {"theta": found}, instance.witness(found))

    return Formulation(
        name="expected_likelihood",
        objective=cp.Minimize(penalised.C * (of.weights @ a - expected @ theta + less) + penalty),
        objective_latex=r"\min_{\theta, a}\quad C \sum_i \omega_i \big[ a_i - \theta'\mathbf{E}_{q_i} f(x_i, y)"
        rf" - H(q_i) \big]{shown}",
        parts={
            "log-sum-exp": equation(
                of.totals @ cp.exp(of.features.T @ theta - of.totals.T @ a) <= 1,
                r"\sum_y e^{\theta'f(x_i, y) - a_i} \le 1 \quad \forall i",
            )
        },
        variables={"theta": theta, "a": a},
        parameters=penalised.parameters,
        source="paper 4, hidden variables, the M step of EM",
        recover=recover if problem.observed or problem.unknown else None,
    )
