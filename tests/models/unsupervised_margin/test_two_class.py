"""Two classes: (1), (2) and Proposition 1 have one value; (3) lies below all labels, far above the multiclass SDP."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from convexstruct.models.unsupervised_margin import (
    alternating_matrix,
    dual,
    multiclass,
    primal,
    proposition_1,
    two_class,
    two_class_dual,
)
from convexstruct.tolerances import HIGH, LOW, MID
from tests.models.unsupervised_margin.instances import least, losses, points
from tests.reference import SOLVERS, close, optimum


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("build", [primal, dual, proposition_1])
def test_1_2_and_proposition_1_are_the_multiclass_loss_with_half_its_beta(build: object, solver: str) -> None:
    assert callable(build)
    problem = points()
    for labels, expected in losses("points").items():
        said = optimum(build(problem, labels), solver)
        assert said.certified
        assert said.value == pytest.approx(expected, abs=HIGH.gap * max(1.0, expected))


def test_proposition_1_is_the_maximum_of_2_for_any_semidefinite_matrix() -> None:
    """Between two labellings: the minimum against the maximum over lambda, by steps up the gradient."""
    problem, (one, other) = points(), list(losses("points"))[:2]
    y = 2.0 * np.array([one, other]) - 1
    M = 0.3 * np.outer(y[0], y[0]) + 0.7 * np.outer(y[1], y[1])
    q = problem.gram * M / (problem.beta / 2)
    lam, step = np.zeros(problem.n_rows), 1.0 / np.linalg.norm(q, 2)
    for _ in range(20_000):
        lam = np.clip(lam + step * (1 - q @ lam), 0, 1)
    said = optimum(proposition_1(problem, M=M))
    assert said.certified
    assert said.value == pytest.approx(lam.sum() - lam @ q @ lam / 2, rel=MID.gap)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n", [4, 7])
def test_3_and_the_half_of_the_alternation_are_certified(n: int, solver: str) -> None:
    problem = points(5, n)
    found = optimum(two_class(problem), solver)
    assert found.certified
    assert found.lower_bound >= 0
    lam = np.linspace(0, 1, n)
    half = optimum(alternating_matrix(problem, lam), solver)
    assert half.certified
    assert found.lower_bound <= half.upper_bound


def test_the_multiclass_sdp_of_two_labels_is_3_with_one_half_in_place_of_its_maximum_over_lambda() -> None:
    """Paper 3 has (3) as the case kappa = 2 of section 2.2. Losses of labels agree; the relaxations do not: with
    lambda = e/2, n/2 - <K, M> / (8 beta) of half the problem's beta is what the multiclass SDP minimises."""
    problem = points(6, 6)
    of = two_class(problem)
    half = problem.n_rows / 2 - cp.sum(cp.multiply(problem.gram, of.variables["M"])) / (4 * problem.beta)
    fixed = of.without("3").minimizing(half)
    assert fixed.reference().value == pytest.approx(optimum(multiclass(problem)).value, rel=HIGH.gap)
    assert optimum(of).value > fixed.reference().value + LOW.gap


@pytest.mark.parametrize("balance", [0.02, 0.4])
@pytest.mark.parametrize("n", [2, 5, 9])
def test_3_and_its_dual_have_one_value(n: int, balance: float) -> None:
    """The claim from (3) is compared: at n = 5 and the smaller balance its answer is certified to 5e-6 alone."""
    problem = replace(points(5, n), label_balance=balance)
    found = optimum(two_class_dual(problem))
    assert found.certified
    assert close(two_class(problem).reference().value, found.value)


def test_the_dual_of_3_without_a_constraint_is_no_bound() -> None:
    """Some lambda are 1 here: without either part the value rises, or has no bound."""
    of = two_class_dual(points(beta=20.0))
    value = optimum(of).value
    for label in of.parts:
        assert not of.without(label).reference().value <= value + LOW.gap


@pytest.mark.parametrize("solver", SOLVERS)
def test_3_lies_below_every_loss_and_far_above_the_multiclass_sdp(solver: str) -> None:
    problem = points()
    value = optimum(two_class(problem), solver).value
    assert 0 < value <= least("points") + HIGH.gap
    assert optimum(multiclass(problem)).value < -1.0


def test_3_at_labels_is_their_loss() -> None:
    """M fixed at yy': the Schur complement states the maximum of (2)."""
    problem = points()
    formulation = two_class(problem)
    for labels, expected in losses("points").items():
        y = 2.0 * np.array(labels) - 1
        fixed = formulation.without("diag", "M", "balance").adding("y", formulation.variables["M"] == np.outer(y, y))
        assert fixed.reference("SCS").value == pytest.approx(expected, rel=MID.gap)
