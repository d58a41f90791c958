"""The convex bound of EM in CVXPY: it touches P, lies above it, and its least point is that of the M step."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear import LBFGS, HiddenField
from convexstruct.features.graphs.factors import tabular_factors
from convexstruct.models.log_linear import expected_likelihood, likelihood
from convexstruct.tolerances import HIGH
from tests.families.log_linear.fields import GRAPHS
from tests.families.log_linear.random_fields import field
from tests.reference import optimum


def gaps(kind: str) -> HiddenField:
    rng = np.random.default_rng(3)
    if kind == "unconditional":
        samples = rng.integers(-1, 2, size=(8, 4))
        return HiddenField.unconditional(tabular_factors(GRAPHS["cycle"], 2), samples, C=0.5)
    allowed = [rng.random((n, 3)) < 0.6 for n in (3, 2)]
    for part in allowed:
        part[:, 0] = True
    return HiddenField.conditional([rng.normal(size=(len(one), 2)) for one in allowed], allowed, C=2.0, l1=0.05)


@pytest.mark.parametrize("kind", ["conditional", "unconditional"])
def test_its_least_value_is_that_of_the_m_step_and_above_p(kind: str) -> None:
    problem = gaps(kind)
    theta_0 = np.random.default_rng(4).normal(size=problem.dimension)
    formulation = expected_likelihood(problem, theta_0)
    value = optimum(formulation).value
    found = formulation.variables["theta"].value
    slope = problem.penalty.gradient(found, problem.unclamped(found)[1] - problem.clamped(theta_0)[1])
    assert np.abs(slope).max() <= 1e-3 * np.abs(problem.clamped(theta_0)[1]).max()
    slack = HIGH.gap * abs(value)
    assert float(problem.primal(problem.as_point(found))) - slack <= value
    assert value <= float(problem.primal(problem.as_point(theta_0))) + slack


@pytest.mark.parametrize("kind", ["conditional", "unconditional"])
def test_at_a_stationary_point_it_has_its_least_value_there(kind: str) -> None:
    problem = gaps(kind)
    ended = solve(problem, LBFGS())
    value = optimum(expected_likelihood(problem, ended.point["theta"])).value
    assert value == pytest.approx(ended.primal, rel=HIGH.gap)


def test_where_all_is_observed_it_is_the_likelihood() -> None:
    crf = field(30)
    problem = HiddenField(crf, np.eye(crf.features.n_labels, dtype=bool)[crf.features.truth])
    formulation = expected_likelihood(problem)
    assert optimum(formulation).value == pytest.approx(optimum(likelihood(crf)).value, rel=HIGH.gap)
    assert formulation.solve().status is Status.OPTIMAL
