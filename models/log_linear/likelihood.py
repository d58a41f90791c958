r"""Maximum likelihood of undirected models (paper 4, 20.2), unconditional and conditional, in CVXPY: log-sum-exp, every
labelling written out.

Symbols: theta (d,); N examples of weight omega_i (a Markov random field is one example, weighted by the mass of its
data); R labellings in all, row r of f (R, d) belonging to example i(r); a (N,) the logarithms of the partition
functions.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.marginals.enumeration import MOST_LABELLINGS
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.log_linear.statement import PAPER, Penalised, written_out


@stated("penalised maximum likelihood, every labelling written out", PAPER, "20.2, (20.4)", enumerated=True)
def likelihood(problem: ConditionalRandomField | MarkovRandomField, limit: int = MOST_LABELLINGS) -> Formulation:
    r"""Penalised maximum likelihood:

        min  C sum_i omega_i [a_i - <theta, f(x_i, y_i)>] + lam/2 |theta|^2 + l1 |theta|_1
        s.t. sum_y exp(<theta, f(x_i, y)> - a_i) <= 1   for every i        ("log-sum-exp")

    Source: paper 4, the likelihood of undirected models, and of CRFs. Variables theta (d,), a (N,); parameters C, lam,
    l1. At the optimum the terms of "log-sum-exp" are the probabilities of the labellings, and its multipliers C omega.

    Raises
    ------
    ValueError
        If there are more than ``limit`` labellings.
    """
    of, penalised = written_out(problem, limit), Penalised(problem)
    theta, a = cp.Variable(len(of.truth), name="theta"), cp.Variable(len(of.weights), name="a")
    penalty, shown = penalised.penalty(theta)

    def recover(formulation: Formulation) -> Recovered:
        found, instance = np.array(theta.value, dtype=np.float64), penalised.stated()
        return Recovered(instance, {"theta": found}, instance.witness(found))

    return Formulation(
        name="likelihood",
        objective=cp.Minimize(penalised.C * (of.weights @ a - of.truth @ theta) + penalty),
        objective_latex=rf"\min_{{\theta, a}}\quad C \sum_i \omega_i \big[ a_i - \theta'f(x_i, y_i) \big]{shown}",
        parts={
            "log-sum-exp": equation(
                of.totals @ cp.exp(of.features.T @ theta - of.totals.T @ a) <= 1,
                r"\sum_y e^{\theta'f(x_i, y) - a_i} \le 1 \quad \forall i",
            )
        },
        variables={"theta": theta, "a": a},
        parameters=penalised.parameters,
        source="paper 4, maximum likelihood, enumerated",
        recover=recover,
    )
