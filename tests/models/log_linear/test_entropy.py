"""Maximum entropy, exact: against likelihood, against all joint labels written out, and against each other."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.families.log_linear.cases import CASES
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import HIGH, MID
from tests.families.log_linear.fields import GRAPHS, drawn
from tests.reference import optimum, stated

EXACT = ["likelihood", "maximum_entropy", "clique_entropy"]
PENALTIES: dict[str, dict[str, float]] = {
    "none": {}, "L2": {"beta": 0.7}, "L1": {"l1": 0.9}, "elastic": {"C": 0.3, "l1": 0.2},
}  # fmt: skip


@pytest.mark.parametrize(
    ("graph", "penalty"),
    [pair for at, pair in enumerate(itertools.product(sorted(GRAPHS), sorted(PENALTIES))) if at % 3 == 0],
)
def test_likelihood_and_maximum_entropy_meet(graph: str, penalty: str) -> None:
    """Theorem 20.3.4, with an L2 penalty as a quadratic penalty on the moments and an L1 penalty as a box."""
    problem = drawn(graph, 7, 200, **PENALTIES[penalty])
    values = [optimum(stated(f"log_linear.{name}", problem)).value for name in EXACT]
    assert values == pytest.approx([values[0]] * len(EXACT), rel=HIGH.gap)


@pytest.mark.parametrize(
    ("case", "l1"),
    [
        ("chains", 0.3),
        ("weights", 0.3),
        ("forbidden", 0.0),
        ("stars-features", 0.0),
        ("cycles", 0.3),
        ("length-one", 0),
    ],
)
def test_likelihood_and_maximum_entropy_of_conditional_fields_meet(case: str, l1: float) -> None:
    problem = next(each for each in CASES if each.name == f"crf-{case}").make(0).problem
    assert isinstance(problem, ConditionalRandomField)
    problem = replace(problem, l1=l1)
    solution = solve(problem, tol=HIGH)
    for name in EXACT:
        said = optimum(stated(f"log_linear.{name}", problem)).value
        slack = HIGH.gap * abs(solution.primal)
        assert solution.lower_bound - slack <= said <= solution.primal + slack


def test_the_distribution_of_greatest_entropy_is_that_of_the_maximum_likelihood() -> None:
    problem = drawn("cycle", 1, 200)
    formulation = stated("log_linear.maximum_entropy", problem)
    theta = formulation.solve().point["theta"]
    scores = problem.factors.scores(theta, labellings(problem.factors.cards))
    q = np.asarray(formulation.variables["q"].value)
    np.testing.assert_allclose(q, np.exp(scores - np.logaddexp.reduce(scores)), atol=MID.gap)


def test_under_l1_what_is_strictly_inside_the_box_has_no_parameter() -> None:
    problem = drawn("tree", 2, 100, l1=6.0)
    formulation = stated("log_linear.clique_entropy", problem)
    theta = formulation.solve().point["theta"]
    inside = np.abs(np.asarray(formulation.variables["v"].value)) < 6.0 * (1 - MID.gap)
    assert inside.any()
    assert (~inside).any()
    assert np.abs(theta[inside]).max() <= MID.gap


def test_over_cliques_the_cones_grow_with_the_cliques_and_not_with_the_labellings() -> None:
    problem = drawn("path", 0, n_labels=4, beta=1.0)
    cones = {name: stated(f"log_linear.{name}", problem).sizes.cones["exponential"] for name in EXACT[1:]}
    assert cones == {"maximum_entropy": 3 * 4**4, "clique_entropy": 3 * 3 * 4**2}
