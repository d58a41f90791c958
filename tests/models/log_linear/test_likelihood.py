"""Penalised maximum likelihood in CVXPY: its terms, and what is written out; `test_entropy` has its optima."""

from __future__ import annotations

import numpy as np

from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise
from convexstruct.models.log_linear import likelihood, written_out
from tests.families.log_linear.random_fields import field


def test_the_terms_are_probabilities_at_the_optimum() -> None:
    problem = field(32)
    formulation = likelihood(problem)
    formulation.solve()
    of = written_out(problem)
    theta, a = (formulation.variables[name].value for name in ("theta", "a"))
    np.testing.assert_allclose(of.totals @ np.exp(of.features.T @ theta - a[of.example]), 1.0, atol=1e-5)


def test_forbidden_labellings_are_not_written_out() -> None:
    problem = field(33, "forbidden")
    every, allowed = enumerate_pairwise(problem.features), written_out(problem)
    wanted = [row for row, labels in enumerate(every.labels) if (np.diff(labels) >= 0).all()]
    assert 0 < len(wanted) < every.n_rows
    np.testing.assert_allclose(allowed.features.toarray(), every.joint[wanted].T.toarray())
    np.testing.assert_array_equal(allowed.example, every.example[wanted])
