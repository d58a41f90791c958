"""Slacks with a cap: a theta that keeps it, or a proof that none does, against a solver over all labellings."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.generative_margin import capped
from convexstruct.families.generative_margin.cases import capped_slacks
from convexstruct.families.generative_margin.constraints import NEAR, Contradiction, Floor, Tied
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.slack_penalties import Capped
from convexstruct.models.generative_margin import entropy_dual, n_slack, primal
from convexstruct.models.generative_margin.enumerated import MarginRows, block_sums
from convexstruct.models.generative_margin.pieces import limits
from convexstruct.tolerances import HIGH, MID, ROUNDING
from tests.reference import optimum


def contrary(**more: object) -> GenerativeMargin:
    """Equal symbols with unequal states, so that no theta separates them."""
    symbols, states = [[0, 1, 1], [0, 1, 1], [1, 0], [1]], [[0, 1, 0], [0, 0, 1], [1, 1], [0]]
    return GenerativeMargin.hmm(symbols, states, 2, 2, eta=0.4, **more)  # type: ignore[arg-type]


def least_slack(problem: GenerativeMargin) -> float:
    """min over theta of the largest slack, all labellings listed."""
    rows, theta, top = MarginRows(problem), cp.Variable(problem.dimension), cp.Variable()
    parts = [rows.a @ theta + rows.b <= top, block_sums(problem.layout) @ cp.exp(theta) <= 1]
    for part in limits(problem, theta).values():
        parts += part.constraints
    return float(cp.Problem(cp.Minimize(top), parts).solve(solver="CLARABEL"))


PROBLEMS = {
    "plain": lambda: contrary(),
    "limits": lambda: contrary(constraints=[Floor(-1.5), Tied([[0, 2]])]),
    "rescaled": lambda: contrary(rescaled=True),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("share", [0.3, 0.99])
def test_below_the_least_largest_slack_a_proof_says_so_and_the_problem_checks_it(name: str, share: float) -> None:
    plain = PROBLEMS[name]()
    least = least_slack(plain)
    problem = replace(plain, h=Capped(share * least))
    with pytest.raises(Contradiction, match="h, which caps the slacks, contradicts") as found:
        _ = problem.inside
    proof = found.value.proof
    assert 0 < capped.contradiction(problem, proof) <= (1 - share) * least + HIGH.gap
    assert capped.contradiction(problem, proof) == pytest.approx(found.value.violation, rel=ROUNDING)
    assert capped.contradiction(replace(problem, h=Capped(1.01 * least)), proof) == 0.0
    assert capped.contradiction(problem, {**proof, "beta": 0.0 * proof["beta"]}) == 0.0
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = {key: rng.uniform(0.5, 2.0, size=proof[key].shape) * proof[key] for key in ("beta", "kap", "v")}
        assert capped.contradiction(problem, {**proof, **other}) <= (1 - share) * least + HIGH.gap
    with pytest.raises(Contradiction):
        certify(problem, problem.uniform())
    if name != "rescaled":
        with pytest.raises(Contradiction):
            solve(problem)


@pytest.mark.parametrize("name", PROBLEMS)
def test_above_it_an_inside_is_found_and_every_repair_keeps_the_cap(name: str) -> None:
    plain = PROBLEMS[name]()
    cap = 1.02 * least_slack(plain)
    problem, rng = replace(plain, h=Capped(cap)), np.random.default_rng(0)
    assert problem.violated(problem.inside)[0].max() < cap
    for scale in (0.1, 1.0, 30.0):
        theta = problem.repair({"theta": scale * rng.normal(size=problem.dimension)})
        assert max(problem.residuals(theta).values()) == 0.0
        assert np.isfinite(problem.primal(theta).upper)


def test_a_cap_near_the_least_is_kept_from_an_inside_that_is_near() -> None:
    """From an `inside` with entries at -FAR every repair costs thousands of nats, and the engine stalls."""
    plain = capped_slacks(0).problem
    assert isinstance(plain, GenerativeMargin)
    problem = replace(plain, h=Capped(1.5))
    assert 1.2 - HIGH.gap <= least_slack(problem) <= 1.5
    assert problem.inside.min() >= -NEAR
    found = solve(problem, tol=HIGH)
    assert found.status is Status.OPTIMAL
    assert found.primal == pytest.approx(optimum(entropy_dual(problem)).value, rel=2 * HIGH.gap)


def test_the_hard_margin_is_the_limit_of_caps_and_linear_from_some_eta_on_so_a_cap_of_0_is_refused() -> None:
    rng = np.random.default_rng(3)
    symbols = [rng.integers(0, 2, size=n) for n in (2, 3, 3)]
    plain = GenerativeMargin.hmm(symbols, symbols, 2, 2, eta=1.0, constraints=[Floor(-20.0)])
    rows, theta = MarginRows(plain), cp.Variable(plain.dimension)
    parts = [rows.a @ theta + rows.b <= 0, block_sums(plain.layout) @ cp.exp(theta) <= 1, theta >= -20]
    hard = float(cp.Problem(cp.Minimize(-plain.c @ theta), parts).solve(solver="CLARABEL"))
    found = [solve(replace(plain, eta=eta), tol=HIGH) for eta in (0.02, 1.0)]
    assert found[0].primal < hard - 0.1
    assert found[1].primal == pytest.approx(hard, rel=2 * HIGH.gap)
    assert solve(replace(plain, h=Capped(1e-3)), tol=HIGH).primal == pytest.approx(hard, rel=MID.gap)
    with pytest.raises(ValueError, match="most is 0, the hard margin, wanted a positive number"):
        Capped(0)


def test_a_solvers_excess_by_rounding_costs_as_much_as_it_is() -> None:
    problem = contrary(h=Capped(2.1))
    found = primal(problem).solve("CLARABEL")
    theta = found.point["theta"]
    moved = theta + 1e-4 * (theta - problem.inside)
    certificate = certify(problem, moved, found.dual_point)
    assert certificate.residuals["slacks above their cap"] > 0
    assert certificate.gap <= 2 * certificate.infeasibility <= 1e-4


@pytest.mark.parametrize("h", [Capped(2.02), Capped(2.5)], ids=str)
def test_the_default_engine_meets_the_enumerated_optimum(h: Capped) -> None:
    problem = contrary(h=h)
    found = solve(problem, tol=HIGH)
    assert found.status is Status.OPTIMAL
    assert found.primal == pytest.approx(optimum(primal(problem)).value, rel=HIGH.gap)


def test_a_formulation_ends_infeasible_and_constraint_generation_with_the_proof() -> None:
    problem = contrary(h=Capped(1.0))
    assert primal(problem).solve("CLARABEL").status is Status.INFEASIBLE
    with pytest.raises(Contradiction):
        n_slack(problem)  # whose first point is a repaired one
