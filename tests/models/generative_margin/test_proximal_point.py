"""The proximal pair: (P_n) and (D_n) have one optimum, (19) is a minimum, and the proximal point loop reaches (P)."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.generative_margin.objectives import proximal_theta
from convexstruct.models.generative_margin.enumerated import MarginRows, primal
from convexstruct.models.generative_margin.proximal_point import ProximalMargin, proximal, proximal_dual
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.models.generative_margin.instances import INSTANCES, hmm, random_c
from tests.reference import optimum


@pytest.mark.parametrize(
    ("name", "gamma", "solver"),
    [
        ("ring loss, ragged, weighted", 0.05, "CLARABEL"),
        ("ring loss, ragged, weighted", 20.0, "SCS"),
        ("hidden masks", 20.0, "CLARABEL"),
        ("network, hidden sets differ", 0.05, "CLARABEL"),
    ],
)
def test_the_proximal_primal_and_dual_have_one_optimum_and_certify_it(name: str, gamma: float, solver: str) -> None:
    problem = INSTANCES[name]()
    centre = np.log(random_c(problem, np.random.default_rng(3)))
    pair = proximal(problem, gamma, centre), proximal_dual(problem, gamma, centre)
    said = [optimum(formulation, solver) for formulation in pair]
    assert said[0].value == pytest.approx(said[1].value, rel=HIGH.gap)
    assert all(each.certified for each in said)


def test_the_proximal_optimum_is_above_that_of_the_problem_and_reaches_it_at_its_solution() -> None:
    problem = hmm(0)
    solved = primal(problem).solve()
    away = optimum(proximal(problem, 1.0)).value
    at = optimum(proximal(problem, 1.0, solved.point["theta"])).value
    assert away > solved.primal * (1 + LOW.gap)
    assert at == pytest.approx(solved.primal, rel=HIGH.gap)


def test_the_proximal_term_dropped_gives_the_problem_itself() -> None:
    problem = hmm(0)
    expected = optimum(primal(problem)).value
    assert optimum(proximal(problem, 1.0).without("rho")).value == pytest.approx(expected, rel=HIGH.gap)


def test_the_dual_value_is_below_the_lagrangian_at_every_theta() -> None:
    """(18), (19): the value is a minimum over theta, so no theta is lower, and one step off the minimiser is higher."""
    problem = hmm(3)
    rng = np.random.default_rng(6)
    rows = MarginRows(problem)
    instance = ProximalMargin(problem, 0.7, np.log(random_c(problem, rng)))
    beta = problem.eta * problem.examples.weights[rows.enumerated.example] / rows.enumerated.n_rows
    lam = rng.random(len(problem.layout.block_sizes))
    witness = rows.witness(beta, problem.eta)
    value = instance.dual({**witness, "lambda": lam})
    mu, omega = rows.a.T @ beta, rows.b @ beta

    def lagrangian(theta: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        steep = lam[problem.layout.block_of] @ np.exp(theta)
        return float(
            omega - lam.sum() + (mu - problem.c) @ theta + steep + 0.35 * np.sum((theta - instance.centre) ** 2)
        )

    best, _ = proximal_theta(problem.c - mu, lam[problem.layout.block_of], instance.centre, 0.7)
    assert value == pytest.approx(lagrangian(best), rel=ROUNDING)
    for _ in range(200):
        assert lagrangian(best + rng.normal(scale=0.1, size=len(best))) > value


def test_a_dual_point_that_is_none_bounds_nothing() -> None:
    problem = hmm(1)
    solved = proximal_dual(problem).solve()
    assert solved.dual_point is not None
    instance = ProximalMargin(problem, 1.0, problem.uniform())
    doubled = {**solved.dual_point, "label_shares": 2 * solved.dual_point["label_shares"]}
    assert instance.dual(doubled) == -np.inf
    assert instance.dual({**solved.dual_point, "lambda": solved.dual_point["lambda"] * np.nan}) == -np.inf
    with pytest.raises(ValueError, match="'lambda'"):
        instance.dual({"labels": solved.dual_point["labels"], "label_shares": solved.dual_point["label_shares"]})
