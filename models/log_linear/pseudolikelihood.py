r"""Pseudolikelihood (paper 4, 20.6, (20.31)) in CVXPY: a softmax for each distinct conditional of the samples.

Symbols: theta (d,); G groups, each a variable and the labels of its neighbours; K (R, d) with a row k_g(l) for each
group g and label l, the features of the factors that hold the variable; n (R,) the weight C omega of the samples with
that label, N (G,) its sums by group; a (G,) the logarithms of the conditionals' normalisers.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from convexstruct.marginals.triplets import sums_by
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.log_linear.statement import PAPER, Penalised


@stated("pseudolikelihood: a softmax for each distinct conditional", PAPER, "20.6, (20.31)", optimum="p_pl*")
def pseudolikelihood(problem: PseudoLikelihood) -> Formulation:
    r"""Penalised maximum pseudolikelihood:

        min  sum_g [N_g a_g - sum_l n_g(l) <theta, k_g(l)>] + lam/2 |theta|^2 + l1 |theta|_1
        s.t. sum_l exp(<theta, k_g(l)> - a_g) <= 1   for every g          ("softmax")

    Its optimality conditions are (20.31) = 0: the features expected of each variable given all others are the data's.

    Source: paper 4, pseudolikelihood and (20.31). Variables theta (d,), a (G,); parameters lam, l1 (n holds C). The
    terms of "softmax" at the optimum are the conditionals. Optimum p_pl*.
    """
    groups, penalised = problem.groups, Penalised(problem)
    lengths = np.diff(groups.start)
    of = sums_by(np.repeat(np.arange(len(lengths)), lengths), len(lengths))
    theta, a = cp.Variable(problem.dimension, name="theta"), cp.Variable(len(lengths), name="a")
    scores = groups.features @ theta
    penalty, shown = penalised.penalty(theta)

    def recover(formulation: Formulation) -> Recovered:
        found = np.array(theta.value, dtype=np.float64)
        instance = penalised.stated()
        return Recovered(instance, {"theta": found}, {"conditionals": instance.conditionals(found)})

    return Formulation(
        name="pseudolikelihood",
        objective=cp.Minimize(groups.totals @ a - groups.counts @ scores + penalty),
        objective_latex=rf"\min_{{\theta, a}}\quad \sum_g \Big[ N_g a_g - \sum_l n_g(l)\, \theta'k_g(l) \Big]{shown}",
        parts={
            "softmax": equation(
                of @ cp.exp(scores - of.T @ a) <= 1, r"\sum_l e^{\theta'k_g(l) - a_g} \le 1 \quad \forall g"
            )
        },
        variables={"theta": theta, "a": a},
        parameters={name: value for name, value in penalised.parameters.items() if name != "C"},
        source="paper 4, pseudolikelihood, (20.31)",
        recover=recover,
    )
