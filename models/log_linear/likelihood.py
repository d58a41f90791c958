r"""Maximum likelihood of conditional random fields (paper 4) in CVXPY: log-sum-exp, every labelling written out.

Symbols: theta (d,); N examples of weight omega_i; R labellings in all that have no forbidden pair, row r of df (R, d)
belonging to example i(r), df_r = f(x_i, y_i) - f(x_i, y); a (N,) the losses ln Z_i - <theta, f(x_i, y_i)>. lam, C and
l1 are parameters, so that they can be swept.
"""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np

from convexstruct.arrays import Index
from convexstruct.core.registry import one_family
from convexstruct.core.scale import Scale
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.marginals.pairwise_enumeration import (
    MOST_LABELLINGS,
    EnumeratedPairwise,
    enumerate_pairwise,
    n_labellings,
)
from convexstruct.models.formulation import Entry, Formulation, Recovered, equation, sums_by

PAPER_4 = "paper 4: Murphy, Stat 521A, lecture 25"


def allowed(problem: ConditionalRandomField, limit: int = MOST_LABELLINGS) -> tuple[EnumeratedPairwise, Index]:
    """Every labelling, and the rows of those without a forbidden pair.

    Raises
    ------
    ValueError
        If there are more than ``limit`` labellings.
    """
    features = problem.features
    total = n_labellings(features)
    if total > limit:
        raise ValueError(
            f"the examples have {total} labellings, wanted at most {limit} to write out: use one over marginals"
        )
    every = enumerate_pairwise(features, None, limit)
    if problem.forbidden is None:
        return every, np.arange(every.n_rows)
    first = np.searchsorted(features.edge_example, np.arange(features.n_examples + 1))
    local = features.edges - features.node_start[features.edge_example][:, None]
    kept = []
    for row, (i, labels) in enumerate(zip(every.example, every.labels)):
        u, v = labels[local[first[i] : first[i + 1]]].T
        if not problem.forbidden[u, v].any():
            kept.append(row)
    return every, np.array(kept, dtype=np.intp)


@one_family
def likelihood(problem: ConditionalRandomField, limit: int = MOST_LABELLINGS) -> Formulation:
    r"""Penalised maximum likelihood:

        min  C sum_i omega_i a_i + lam/2 |theta|^2 + l1 |theta|_1
        s.t. sum_y exp(-<theta, df_i(y)> - a_i) <= 1   for every i        ("log-sum-exp")

    Source: paper 4, maximum likelihood in undirected models, conditional. Variables theta (d,), a (N,); parameters lam,
    C, l1. At the optimum the terms of "log-sum-exp" are the probabilities of the labellings.

    Raises
    ------
    ValueError
        If there are more than ``limit`` labellings.
    """
    every, kept = allowed(problem, limit)
    theta = cp.Variable(problem.dimension, name="theta")
    a = cp.Variable(problem.n_examples, name="a")
    lam = cp.Parameter(nonneg=True, name="lam", value=problem.scale.lam)
    C = cp.Parameter(pos=True, name="C", value=problem.scale.C)
    l1 = cp.Parameter(nonneg=True, name="l1", value=problem.l1)
    of_example = sums_by(every.example[kept], problem.n_examples)
    terms = cp.exp(-(every.difference[kept] @ theta) - of_example.T @ a)

    def recover(formulation: Formulation) -> Recovered:
        instance = replace(
            problem, scale=Scale(float(lam.value), float(C.value)), l1=float(l1.value)
        )  # as the parameters are now
        found = np.asarray(theta.value, dtype=np.float64)
        return Recovered(instance, {"theta": found}, instance.witness(found))

    penalty = lam * (0.5 * cp.sum_squares(theta)) + l1 * cp.norm1(theta)
    return Formulation(
        name="likelihood",
        objective=cp.Minimize(C * (problem.weights @ a) + penalty),
        objective_latex=r"\min_{\theta, a}\quad C \sum_i \omega_i a_i + \tfrac{\lambda}{2} \|\theta\|^2"
        r" + \ell_1 \|\theta\|_1",
        parts={
            "log-sum-exp": equation(
                of_example @ terms <= 1, r"\sum_y e^{-\theta'\delta f_i(y) - a_i} \le 1, \quad \forall i"
            )
        },
        variables={"theta": theta, "a": a},
        parameters={"lam": lam, "C": C, "l1": l1},
        source="paper 4, maximum likelihood, enumerated",
        recover=recover,
    )


ENTRIES = (
    Entry(
        "likelihood", "log_linear", "penalised maximum likelihood of a CRF, every labelling written out", PAPER_4,
        "maximum likelihood, conditional", "p*", True, likelihood,
    ),
)  # fmt: skip
