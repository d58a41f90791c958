r"""The M step of Baum-Welch in CVXPY: the convex bound of EM on the likelihood of a hidden Markov model.

Let n be the expected counts at the tables theta_0. Then Q(p) = - sum n ln p - H(posterior) is at least P(p), with
equality at theta_0.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from convexstruct.families.log_linear.hidden_markov import TABLES, HiddenMarkov
from convexstruct.inference.baum_welch import expected
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.log_linear.statement import PAPER


@stated(
    "the convex bound of Baum-Welch: maximum likelihood of expected counts", PAPER, "hidden variables", optimum="q_hmm*"
)
def expected_counts(problem: HiddenMarkov, theta_0: Any = None) -> Formulation:
    r"""Maximum likelihood of expected counts:

        min  - sum n_initial ln initial - sum n_transition ln transition - sum n_emission ln emission - H
        s.t. rows sum to 1                                                                       ("rows")

    Source: paper 4, hidden variables; the M step of EM. Variables initial (S,), transition (S, S), emission (S, M).
    theta_0 : a point at which the counts are expected; uniform rows by default. The value is an upper bound on the
    least P, and equal to it where theta_0 is a best model.
    """
    point = problem.as_point(problem.trivial()[0] if theta_0 is None else theta_0)
    models = problem.models(point)
    found = expected(problem.observed, models)
    counts = (found.first[0], found.pairs[0], found.seen[0, 0])
    variables = {name: cp.Variable(n.shape, name=name, nonneg=True) for name, n in zip(TABLES, counts)}
    terms, here = [], 0.0
    for name, n in zip(TABLES, counts):
        some = np.nonzero(n > 0)
        if len(some[0]):
            terms.append(-cp.sum(cp.multiply(n[some], cp.log(variables[name][some]))))
            here -= float((n[some] * np.log(point[name][some])).sum())
    less = float(problem.primal(point)) - here

    def recover(formulation: Formulation) -> Recovered:
        read = {name: np.array(variable.value, dtype=np.float64) for name, variable in variables.items()}
        return Recovered(problem, read, {})

    rows = [cp.sum(variables["initial"]) == 1]
    rows += [cp.sum(variables[name], axis=1) == 1 for name in TABLES[1:]]
    return Formulation(
        name="expected_counts",
        objective=cp.Minimize(cp.sum(cp.hstack(terms)) + less),
        objective_latex=r"\min\quad -\sum n \ln p - H",
        parts={"rows": equation(rows, r"\sum_t p(t \mid s) = 1")},
        variables=variables,
        source="paper 4, hidden variables, the M step of Baum-Welch",
        recover=recover,
    )
