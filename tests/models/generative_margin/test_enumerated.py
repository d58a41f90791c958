"""Paper 0 in CVXPY: on instances that can be written out, every formulation gives one optimum."""

from __future__ import annotations

from functools import cache

import cvxpy as cp
import numpy as np
import pytest

from convexstruct.core.solution import Status
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.models import FORMULATIONS, Formulation, equation
from convexstruct.models.generative_margin import enumerated as generative_margin
from convexstruct.models.generative_margin.compact import compact_dual
from convexstruct.tolerances import HIGH, LOW
from tests.models.generative_margin.instances import INSTANCES, hmm
from tests.reference import agrees, certified_optimum, close, optimum, same_optimum

SAME = [name for name, entry in FORMULATIONS.items() if entry.family == "generative_margin" and entry.optimum == "p*"]


@cache
def instance(name: str) -> tuple[GenerativeMargin, float]:
    """An instance and its p*, certified from both sides by the enumerated primal."""
    problem = INSTANCES[name]()
    return problem, certified_optimum(generative_margin.primal(problem))


@pytest.mark.parametrize(("name", "formulation", "solver"), same_optimum("generative_margin", INSTANCES))
def test_every_formulation_has_the_same_optimum_and_certifies_itself(name: str, formulation: str, solver: str) -> None:
    problem, expected = instance(name)
    agrees(FORMULATIONS[formulation].builder(problem), expected, solver)


def test_where_c_is_zero_the_formulations_still_agree_and_certify_themselves() -> None:
    """c_ij = 0 where nothing was counted: mu_ij <= 0 must hold exactly, and a minimum need not be attained."""
    problem = hmm(0, eta=0.1)
    c = problem.c.copy()
    c[problem.layout.block_start[::2]] = 0.0
    c /= problem.layout.block_sum(c)[problem.layout.block_of]
    problem = GenerativeMargin(problem.features, c, 0.1)
    best = generative_margin.primal(problem).solve("CLARABEL").primal
    for name in SAME:
        solution = FORMULATIONS[name].builder(problem).solve("CLARABEL")
        assert solution.status is Status.OPTIMAL, f"{name}: {solution.message}"
        assert close(solution.primal, best)


def test_without_margins_the_optimum_is_the_entropy_of_c() -> None:
    """(P) without (3): theta = ln c, value sum_i H(c_i), the maximum likelihood (or prior) estimate."""
    problem, _ = instance("ring loss, ragged, weighted")
    formulation = generative_margin.primal(problem).without("3")
    assert close(optimum(formulation).value, float(-problem.c @ np.log(problem.c)))
    np.testing.assert_allclose(formulation.variables["theta"].value, np.log(problem.c), atol=LOW.feasibility)


def test_the_size_is_that_of_the_assignments_or_of_the_marginals() -> None:
    problem = hmm(0, lengths=(1, 3, 2, 4), n_states=3)
    assignments = 3 + 27 + 9 + 81
    primal = generative_margin.primal(problem).sizes
    assert (primal.variables, primal.rows) == (18 + 4, assignments + 7 + 18 + 4)
    compact = compact_dual(problem).sizes
    assert compact.variables == 3 + 2 * 9 + 9 + 3 * 9 + 2 * 18
    assert compact.cones["exponential"] == 3 * problem.dimension


@pytest.mark.parametrize("v", [0.2, 0.7, 1.5])
def test_the_maximum_cvxpy_needs_is_the_minimum_of_the_paper(v: float) -> None:
    """(7), per entry: max u - u ln(u/lambda) over 0 <= u <= v is min -v theta + lambda e^theta over theta <= 0."""
    lam = 0.7
    theta = np.linspace(-12, 0, 2_000_001)
    u = cp.Variable(nonneg=True, name="u")
    formulation = Formulation(
        "q", cp.Maximize(u - cp.rel_entr(u, lam)), r"\max\quad q", {"7": equation(u <= v, r"u \le v")}, {"u": u}
    )
    assert optimum(formulation).value == pytest.approx(float(np.min(-v * theta + lam * np.exp(theta))), rel=HIGH.gap)
