"""M3N: the dual over marginals is the structural SVM; printed one way it is not; on cycles the local polytope is a
relaxation."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.solution import Status
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.marginals.pairwise_polytope import is_forest
from convexstruct.models.structured_svm.enumerated import n_slack
from convexstruct.models.structured_svm.max_margin_markov import local_relaxation, marginals
from convexstruct.tolerances import HIGH, LOW
from tests.models.structured_svm.instances import DECOMPOSABLE, frustrated, svm
from tests.models.structured_svm.test_enumerated import instance
from tests.reference import agrees, close, optimum


@pytest.mark.parametrize("name", DECOMPOSABLE)
def test_the_marginals_have_the_optimum_of_the_labellings(name: str) -> None:
    problem, expected = instance(name)
    agrees(marginals(problem), expected, "CLARABEL")


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 1000), n=st.integers(1, 5), n_labels=st.integers(1, 3), p=st.floats(0.0, 1.0),
    C=st.floats(0.01, 10.0), associative=st.booleans(),
)  # fmt: skip
def test_on_any_small_graph_exact_marginals_are_the_labellings_and_the_local_polytope_is_no_smaller(
    seed: int, n: int, n_labels: int, p: float, C: float, associative: bool
) -> None:
    graphs = (nx.gnp_random_graph(n, p, seed=seed), nx.path_graph(2))
    problem = svm(seed, graphs=graphs, n_labels=n_labels, associative=associative, C=C)
    expected = n_slack(problem).solve()
    agrees(marginals(problem), 0.5 * (expected.primal + expected.lower_bound), "CLARABEL")
    above = optimum(local_relaxation(problem)).value
    assert above >= expected.lower_bound - HIGH.gap * max(1.0, above)
    if is_forest(problem.features):
        assert close(above, expected.primal)


@pytest.mark.parametrize("seed", range(2))
def test_one_way_consistency_as_printed_overestimates(seed: int) -> None:
    problem = svm(seed, lengths=(4, 3), C=2.0)
    formulation = marginals(problem)
    expected = optimum(n_slack(problem)).value
    assert close(optimum(formulation).value, expected)
    assert optimum(formulation.without("5.3")).value > expected * (1 + LOW.gap)
    assert optimum(formulation.without("5.2")).value > expected * (1 + LOW.gap)


# -- the relaxation ----------------------------------------------------------------------------------------------------


def test_on_cycles_the_relaxation_lies_strictly_above() -> None:
    problem = frustrated()
    exact = optimum(n_slack(problem)).value
    assert close(optimum(marginals(problem)).value, exact)
    formulation = local_relaxation(problem)
    value = optimum(formulation).value
    assert value > exact * (1 + 10 * LOW.gap)
    solution = formulation.solve()
    assert solution.status is Status.OPTIMAL, solution.message
    assert close(solution.lower_bound, value)
    at_its_w = problem.primal(solution.point)  # P is below P_L, and above p*
    assert exact * (1 - HIGH.gap) <= at_its_w < solution.primal * (1 - LOW.gap)


@pytest.mark.parametrize("name", ["cycles", "a ladder, edge features", "associative cycles, two labels", "a kernel"])
def test_the_relaxation_is_certified_as_the_problem_with_relaxed_inference(name: str) -> None:
    problem, expected = instance(name)
    formulation = local_relaxation(problem)
    solution = formulation.solve()
    assert solution.status is Status.OPTIMAL, solution.message
    assert formulation.recover is not None
    stated = formulation.recover(formulation).problem
    assert isinstance(stated, StructuredSVM)
    assert stated.oracle.relaxed == (not is_forest(problem.features))
    assert solution.primal >= expected * (1 - HIGH.gap)
