"""Maximum entropy, exact: against likelihood, against all joint labels written out, and against each other."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear.cases import CASES
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.examples import triangle
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.models import FORMULATIONS, Formulation
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import HIGH, MID
from tests.families.log_linear.fields import CAMEL, GRAPHS, drawn, value
from tests.reference import optimum

EXACT = ["likelihood", "maximum_entropy", "clique_entropy"]
every_form = pytest.mark.parametrize("name", EXACT)
PENALTIES: dict[str, dict[str, float]] = {
    "none": {}, "L2": {"beta": 0.7}, "L1": {"l1": 0.9}, "elastic": {"C": 0.3, "l1": 0.2},
}  # fmt: skip


def built(name: str, problem: ConditionalRandomField | MarkovRandomField) -> Formulation:
    formulation: Formulation = FORMULATIONS[f"log_linear.{name}"].builder(problem)
    return formulation


@pytest.mark.parametrize(
    ("graph", "penalty"),
    [pair for at, pair in enumerate(itertools.product(sorted(GRAPHS), sorted(PENALTIES))) if at % 3 == 0],
)
def test_likelihood_and_maximum_entropy_meet(graph: str, penalty: str) -> None:
    """Theorem 20.3.4, with an L2 penalty as a quadratic penalty on the moments and an L1 penalty as a box."""
    problem = drawn(graph, 7, 200, **PENALTIES[penalty])
    values = [optimum(built(name, problem)).value for name in EXACT]
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
        said = optimum(built(name, problem)).value
        slack = HIGH.gap * abs(solution.primal)
        assert solution.lower_bound - slack <= said <= solution.primal + slack


@every_form
def test_each_form_is_read_back_as_a_certified_point(name: str) -> None:
    problem = drawn("cycle", 3, 200, **PENALTIES["elastic"])
    solution = built(name, problem).solve()
    assert solution.status is Status.OPTIMAL
    assert abs(solution.gap) <= HIGH.gap
    assert value(problem, solution.point["theta"]) == pytest.approx(solution.primal, rel=HIGH.gap)


@pytest.mark.parametrize(("side", "wanted"), [("printed", 1.24245), ("rows", 1.36892)])
@pytest.mark.parametrize("name", EXACT[1:])
def test_the_exact_entropies_of_the_triangle(name: str, side: str, wanted: float) -> None:
    problem = triangle(CAMEL[side])
    assert optimum(built(name, problem)).value == pytest.approx(wanted, abs=5e-6)


def test_the_distribution_of_greatest_entropy_is_that_of_the_maximum_likelihood() -> None:
    problem = drawn("cycle", 1, 200)
    formulation = built("maximum_entropy", problem)
    theta = formulation.solve().point["theta"]
    scores = problem.factors.scores(theta, labellings(problem.factors.cards))
    q = np.asarray(formulation.variables["q"].value)
    np.testing.assert_allclose(q, np.exp(scores - np.logaddexp.reduce(scores)), atol=MID.gap)


def test_under_l1_what_is_strictly_inside_the_box_has_no_parameter() -> None:
    problem = drawn("tree", 2, 100, l1=6.0)
    formulation = built("clique_entropy", problem)
    theta = formulation.solve().point["theta"]
    inside = np.abs(np.asarray(formulation.variables["v"].value)) < 6.0 * (1 - MID.gap)
    assert inside.any()
    assert (~inside).any()
    assert np.abs(theta[inside]).max() <= MID.gap


def test_over_cliques_the_cones_grow_with_the_cliques_and_not_with_the_labellings() -> None:
    cones = {name: built(name, drawn("path", 0, n_labels=4, beta=1.0)).sizes.cones["exponential"] for name in EXACT[1:]}
    assert cones == {"maximum_entropy": 3 * 4**4, "clique_entropy": 3 * 3 * 4**2}
