"""Paper 0 in CVXPY: on instances that can be written out, every formulation gives one optimum, and mutants do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import cvxpy as cp
import numpy as np
import pytest

from convexstruct.core.solution import Status
from convexstruct.families.generative_margin.cases import plant_near
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.models import FORMULATIONS, Formulation, equation
from convexstruct.models.generative_margin import enumerated as generative_margin
from convexstruct.models.generative_margin.compact import compact_dual
from convexstruct.models.generative_margin.enumerated import MarginRows
from convexstruct.tolerances import HIGH, LOW
from tests.models.generative_margin.instances import INSTANCES, hmm
from tests.reference import agrees, certified_optimum, close, optimum, with_solvers

OWN = {name.split(".")[1]: entry for name, entry in FORMULATIONS.items() if name.startswith("generative_margin.")}
SAME = [name for name, entry in OWN.items() if entry.optimum == "p*"]


@cache
def instance(name: str) -> tuple[GenerativeMargin, float]:
    """An instance and its p*, certified from both sides by the enumerated primal."""
    problem = INSTANCES[name]()
    return problem, certified_optimum(generative_margin.primal(problem))


@pytest.mark.parametrize("formulation", SAME)
@pytest.mark.parametrize(("name", "solver"), with_solvers(INSTANCES))
def test_every_formulation_has_the_same_optimum_and_certifies_itself(name: str, formulation: str, solver: str) -> None:
    problem, expected = instance(name)
    agrees(OWN[formulation].builder(problem), expected, solver)


@pytest.mark.parametrize("seed", range(3))
def test_where_c_is_zero_the_formulations_still_agree_and_certify_themselves(seed: int) -> None:
    """c_ij = 0 where nothing was counted: mu_ij <= 0 must hold exactly, and a minimum need not be attained."""
    problem = hmm(seed, eta=0.1)
    c = problem.c.copy()
    c[problem.layout.block_start[::2]] = 0.0
    c /= problem.layout.block_sum(c)[problem.layout.block_of]
    problem = GenerativeMargin(problem.features, c, 0.1)
    solutions = {name: OWN[name].builder(problem).solve("CLARABEL") for name in SAME}
    for name, solution in solutions.items():
        assert solution.status is Status.OPTIMAL, f"{name}: {solution.message}"
        assert close(solution.primal, solutions["primal"].primal)


@pytest.mark.parametrize("formulation", SAME)
@pytest.mark.parametrize("seed", range(3))
def test_a_planted_optimum_is_found(formulation: str, seed: int) -> None:
    made = plant_near(hmm(seed, lengths=(2, 4, 1, 3, 3)), np.random.default_rng(seed + 100))
    assert made.optimum is not None
    assert close(optimum(OWN[formulation].builder(made.problem)).value, float(made.optimum))


def test_without_margins_the_optimum_is_the_entropy_of_c() -> None:
    """(P) without (3): theta = ln c, value sum_i H(c_i), the maximum likelihood (or prior) estimate."""
    problem, _ = instance("ring loss, ragged, weighted")
    formulation = generative_margin.primal(problem).without("3")
    assert close(optimum(formulation).value, float(-problem.c @ np.log(problem.c)))
    np.testing.assert_allclose(formulation.variables["theta"].value, np.log(problem.c), atol=LOW.feasibility)


def test_without_the_sub_distributions_the_optimum_falls_and_without_signs_it_is_unbounded() -> None:
    problem, expected = instance("ring loss, ragged, weighted")
    formulation = generative_margin.primal(problem)
    lower = optimum(formulation.without("4")).value
    assert lower < expected - LOW.gap * abs(expected)
    assert formulation.without("4", "5").reference().value == -np.inf
    assert formulation.without("4", "5").solve().status is Status.UNBOUNDED


def test_a_changed_copy_is_not_certified_against_the_original() -> None:
    problem, expected = instance("ring loss, ragged, weighted")
    solution = generative_margin.primal(problem).without("3").solve()
    assert solution.status is Status.UNCERTIFIED
    assert solution.lower_bound == -np.inf
    assert not close(solution.certificate.claimed, expected, LOW.gap)


def test_an_optimum_is_claimed_only_if_the_certificate_confirms_it() -> None:
    problem, _ = instance("ring loss, ragged, weighted")
    formulation = generative_margin.primal(problem)
    assert formulation.solve(tol=HIGH).status is Status.OPTIMAL
    too_much = formulation.solve(tol=np.finfo(float).eps)
    assert too_much.status is Status.INACCURATE
    assert 0 < too_much.gap < HIGH.gap


def test_a_solver_that_calls_itself_inaccurate_is_judged_by_its_bounds_not_by_its_word() -> None:
    problem, expected = instance("ring loss, ragged, weighted")
    early = generative_margin.primal(problem).solve(solver="SCS", max_iters=300, tol=LOW)
    assert "optimal_inaccurate" in early.message
    assert early.status is Status.OPTIMAL
    solution = generative_margin.primal(problem).solve(solver="SCS", max_iters=200, tol=LOW)
    assert "optimal_inaccurate" in solution.message
    assert solution.status is Status.INACCURATE  # its gap is small, its point infeasible by more than LOW allows
    slack = HIGH.gap * expected
    assert solution.lower_bound - slack <= expected <= solution.primal + slack


def _primal_with(change: Callable[[MarginRows, Formulation], object]) -> Callable[[GenerativeMargin], Formulation]:
    def build(problem: GenerativeMargin) -> Formulation:
        formulation = generative_margin.primal(problem)
        return formulation.without("3").adding("3'", change(MarginRows(problem), formulation))

    return build


def _margin(sign: float, loss: float, rows: MarginRows, formulation: Formulation) -> object:
    theta, eps = formulation.variables["theta"], formulation.variables["eps"]
    return sign * rows.a @ theta + loss * rows.b <= rows.of_example.T @ eps


def _entropy_dual_with_mu_reversed(problem: GenerativeMargin) -> Formulation:
    formulation = generative_margin.entropy_dual(problem)
    v, mu = formulation.variables["v"], formulation.variables["mu"]
    return formulation.without("v").adding("v'", v - mu == problem.c)


def _dual_beta_with_twice_the_weight(problem: GenerativeMargin) -> Formulation:
    formulation = generative_margin.dual_beta(problem)
    beta, cap = formulation.variables["beta"], 2 * problem.eta * problem.examples.weights
    within = [beta >= 0, MarginRows(problem).of_example @ beta <= cap]
    return formulation.without("beta").adding("beta", within)


def _dual_with_lambda_bounded(problem: GenerativeMargin) -> Formulation:
    formulation = generative_margin.dual(problem)
    return formulation.adding("cap", formulation.variables["lambda"] <= 0.5)


def _compact_dual_with_edges_that_need_not_agree(problem: GenerativeMargin) -> Formulation:
    return compact_dual(problem).without("flow")


MUTANTS: dict[str, Callable[[GenerativeMargin], Formulation]] = {
    "the margin with the wrong sign": _primal_with(lambda rows, f: _margin(-1.0, 1.0, rows, f)),
    "the margin without its loss": _primal_with(lambda rows, f: _margin(1.0, 0.0, rows, f)),
    "the loss with the wrong sign": _primal_with(lambda rows, f: _margin(1.0, -1.0, rows, f)),
    "probabilities that need not sum to one": lambda problem: generative_margin.primal(problem).without("4"),
    "beta up to 2 eta": _dual_beta_with_twice_the_weight,
    "(D') with mu not tied to beta": lambda problem: generative_margin.dual_beta(problem).without("6"),
    "(D) with lambda too small": _dual_with_lambda_bounded,
    "v = c + mu": _entropy_dual_with_mu_reversed,
    "marginals that need not agree": _compact_dual_with_edges_that_need_not_agree,
    "marginals that need not sum to one": lambda problem: compact_dual(problem).without("sum"),
    "marginals below zero": lambda problem: compact_dual(problem).without("z"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_has_another_optimum(name: str) -> None:
    problem, expected = instance("ring loss, ragged, weighted")
    said = MUTANTS[name](problem).reference()
    assert said.status in {"optimal", "unbounded"}, "a mutant that fails to solve shows nothing"
    assert not close(said.value, expected, LOW.gap)


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
