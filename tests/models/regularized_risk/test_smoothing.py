"""The smoothed risk: one optimum from both sides, J_mu <= J <= J_mu + mu D_max, and alpha_mu(w) a projection."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.models.regularized_risk.risk import primal
from convexstruct.models.regularized_risk.smoothing import SmoothedProblem, smoothed, smoothed_dual
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.models.regularized_risk.risks import INSTANCES, binary
from tests.reference import optimum, with_solvers

NAMES = ["binary", "binary, bias, weighted", "multiclass, cost", "multilabel", "ordinal", "pieces", "pieces, floor"]


@pytest.mark.parametrize("mu", [0.05, 5.0])
@pytest.mark.parametrize(("name", "solver"), with_solvers(NAMES))
def test_the_smoothed_pair_has_one_optimum_and_certifies_it(name: str, mu: float, solver: str) -> None:
    problem = INSTANCES[name]()
    values = []
    for build in (smoothed, smoothed_dual):
        said = optimum(build(problem, mu), solver)
        assert said.certified
        values.append(said.value)
    assert values[0] == pytest.approx(values[1], rel=HIGH.gap, abs=HIGH.gap)


@pytest.mark.parametrize("name", NAMES)
def test_the_smoothed_optimum_lies_below_the_optimum_by_at_most_mu_times_d_max(name: str) -> None:
    """D_max = max over Q of 1/2 |alpha - alpha_0|^2 <= 1/2 sum over groups (2 share)^2, alpha_0 in Q."""
    problem = INSTANCES[name]()
    expected = optimum(primal(problem)).value
    built = smoothed_dual(problem)
    before = np.inf
    for mu in (10.0, 1.0, 0.1, 1e-3):
        built.parameters["mu"].value = mu
        off = expected - optimum(built).value
        assert -HIGH.gap <= off <= mu * 2 * float(problem.shares @ problem.shares) + HIGH.gap
        assert off <= before + HIGH.gap
        before = off
    assert before < LOW.gap


def test_the_maximiser_is_the_projection_of_23() -> None:
    """alpha_mu(w) = clip(alpha_0 + (1 - y <w, x>)/mu, 0, 1/n) without a bias, and rho = alpha_mu(w) - alpha_0."""
    problem, mu = binary(lam=0.3), 2.0
    centre = np.full(6, 0.05)
    built = smoothed(problem, mu, centre)
    optimum(built)
    w, rho = built.variables["w"].value, built.variables["rho"].value
    alpha = np.clip(centre + problem.values(w) / mu, 0, 1 / 6)
    np.testing.assert_allclose(built.dual_values["23"], alpha, atol=HIGH.feasibility)
    np.testing.assert_allclose(rho, alpha - centre, atol=LOW.feasibility)
    # and the value the constraints give is the maximum it is said to be
    away = alpha - centre
    value = 0.5 * problem.lam * w @ w + problem.values(w) @ alpha - 0.5 * mu * away @ away
    assert SmoothedProblem(problem, mu, centre).primal({"w": w, "rho": away}) == pytest.approx(value, rel=ROUNDING)
    assert built.problem.value == pytest.approx(value, rel=HIGH.gap)


def test_any_rho_gives_an_upper_bound_and_any_alpha_a_lower_one() -> None:
    rng = np.random.default_rng(2)
    for name in NAMES:
        problem = INSTANCES[name]()
        centre = problem.feasible(rng.random(problem.n_pieces))
        instance = SmoothedProblem(problem, 0.4, centre)
        best = optimum(smoothed_dual(problem, 0.4, centre)).value
        for _ in range(10):
            point = {"w": rng.normal(size=problem.shape), "rho": rng.normal(size=problem.n_pieces)}
            assert instance.primal(instance.as_point(point)) >= best - HIGH.gap
            assert instance.dual({"alpha": rng.normal(size=problem.n_pieces)}) <= best + HIGH.gap


@pytest.mark.parametrize("size", [1.0, 1e6, 1e12])
@pytest.mark.parametrize("seed", range(3))
def test_both_values_carry_the_rounding_of_their_sums(size: float, seed: int) -> None:
    """Against fractions: four examples, so that a share of 1/4 and with it Q2 are exact in floats."""
    rng = np.random.default_rng(seed)
    X, y, mu, lam = rng.normal(loc=(0.0, size), size=(4, 2)), np.array([1, -1, -1, 1]), 0.3, 0.7
    centre, alpha = rng.integers(0, 9, size=(2, 4)) / 32
    instance = SmoothedProblem(RegularizedRisk.binary(X, y, lam), mu, centre)
    w, rho = rng.normal(size=2), rng.normal(size=4)
    rows = [[Fraction(float(x)) for x in -row * sign] for row, sign in zip(X, y)]
    exact_w, exact_rho = [Fraction(float(x)) for x in w], [Fraction(float(x)) for x in rho]
    rate, weight = Fraction(mu), Fraction(lam)
    middle, share = [Fraction(float(x)) for x in centre], [Fraction(float(x)) for x in alpha]
    value = weight / 2 * sum(x * x for x in exact_w)
    for row, r, c in zip(rows, exact_rho, middle):
        value += rate * (c * r + r * r / 2)
        value += max(1 + sum(a * b for a, b in zip(row, exact_w)) - rate * r, Fraction(0)) / 4
    total = [sum(a * row[j] for a, row in zip(share, rows)) for j in range(2)]
    bound = sum(share) - sum(t * t for t in total) / (2 * weight)
    bound -= rate / 2 * sum(((a - c) ** 2 for a, c in zip(share, middle)), Fraction(0))
    for found, exact in (
        (instance.primal({"w": w, "rho": rho}), value),
        (instance.dual({"alpha": alpha}), bound),
    ):
        assert Fraction(found.lower) <= exact <= Fraction(found.upper)
        assert size > 1.0 or found.allowance <= 1e-13 * max(abs(found), 1.0)
