"""Hidden variables and partial labels: the bound of EM, the observed case, and what is claimed where P goes to 0;
`combinations` has the values by all labellings written out."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.hidden import HiddenField
from convexstruct.families.log_linear.solvers.expectation_maximisation import ExpectationMaximisation
from convexstruct.families.log_linear.solvers.lbfgs import LBFGS
from convexstruct.features.graphs.factors import tabular_factors
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.log_linear.random_fields import partly


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_the_bound_of_em_touches_where_it_is_made_and_lies_above_elsewhere(seed: int) -> None:
    problem = partly(seed)
    theta, other = np.random.default_rng(seed).normal(size=(2, problem.dimension))
    bound = problem.majorant(theta)
    here, there = problem.value_and_gradient(theta), problem.value_and_gradient(other)
    touching, above = bound.value_and_gradient(theta), bound.value_and_gradient(other)
    assert touching[0] == pytest.approx(here[0], rel=ROUNDING, abs=ROUNDING)
    np.testing.assert_allclose(touching[1], here[1], atol=ROUNDING)
    assert above[0] >= there[0] - ROUNDING * (1.0 + abs(there[0]))


@pytest.mark.parametrize("solver", [LBFGS(), ExpectationMaximisation()], ids=["gradient", "em"])
@pytest.mark.parametrize("given_as", ["flags", "labels"])
def test_where_all_is_observed_it_is_the_conditional_random_field(solver: Any, given_as: str) -> None:
    rng = np.random.default_rng(9)
    inputs = [rng.normal(size=(n, 2)) for n in (3, 4)]
    labels = [rng.integers(3, size=len(x)) for x in inputs]
    crf = ConditionalRandomField.read(inputs, labels, 3, C=2.0)
    known = [np.eye(3, dtype=bool)[y] for y in labels] if given_as == "flags" else labels
    problem = HiddenField.conditional(inputs, known, 3, C=2.0)
    theirs, mine = solve(crf, LBFGS()), solve(problem, solver)
    assert mine.status is Status.OPTIMAL
    for point, dual_point in ((theirs.point, theirs.dual_point), (mine.point, mine.dual_point)):
        of_field, here = certify(crf, point, dual_point), certify(problem, point, dual_point)
        assert (of_field.primal, of_field.lower_bound) == (here.primal, here.lower_bound)
    assert mine.primal == pytest.approx(theirs.primal, rel=HIGH.gap)


@pytest.mark.parametrize("tol", ["LOW", "HIGH"])
def test_where_p_goes_to_0_no_more_is_claimed_than_rounding_lets_a_certificate_prove(tol: str) -> None:
    """Without a penalty: the data are separable, and at P near 0 rounding decides how small the gap is."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = 2 + seed
        inputs = [rng.normal(size=(3, 6)) for _ in range(n)]
        allowed = [np.where(rng.random(3) < 0.4, -1, rng.integers(2, size=3)) for _ in range(n)]
        samples = np.where(rng.random((n, 4)) < 0.4, -1, rng.integers(2, size=4))
        for problem in (
            HiddenField.conditional(inputs, allowed, 2),
            HiddenField.unconditional(tabular_factors(nx.path_graph(4), 2), samples),
        ):
            assert solve(problem, tol=tol, max_iterations=100).status is not Status.INACCURATE
