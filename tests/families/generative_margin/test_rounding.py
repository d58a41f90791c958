"""The bounds of problem (P) hold exactly: against rational numbers, 60 digits and labellings written out."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import ArrayLike

from benchmarks.exact import exactly
from benchmarks.exact_generative import Listed
from convexstruct.core.certificates import certify
from convexstruct.families.generative_margin.member import Member
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.segment import certain_on_segment
from convexstruct.features.counts import bounds
from convexstruct.rounding import Rounded, RoundedArray
from convexstruct.tolerances import ROUNDING
from tests.families.generative_margin.instances import every_kind, one_variable


def test_a_theta_of_minus_1e16_absorbs_no_loss() -> None:
    # c of symbol 1 is 0, but the data have it: only differences of its scores count, and 1e16 absorbs them
    c: dict[str, ArrayLike] = {"initial": [0.5, 0.5], "transition": [[0.5, 0.5]] * 2, "emission": [[1.0, 0.0]] * 2}
    problem = GenerativeMargin.hmm([[1]], [[0]], 2, 2, eta=1.0, c=c)
    theta = problem.uniform()
    theta[[7, 9]] = -1e16
    theta[[6, 8]] = 0.0
    exact = 3.0 * math.log(2.0) + 1.0  # the loss of 1 is not absorbed: -1e16 is in the scores of both states
    found = problem.primal({"theta": theta})
    assert found == pytest.approx(exact, rel=ROUNDING)
    assert found.allowance <= 1e-12 * exact
    assert found.upper >= Listed(problem).value(theta) >= found.lower


def test_where_large_scores_do_hide_the_loss_the_bound_says_so() -> None:
    # two chains may swap what they emit: the two losses of 1 stand between sums of 1e16 that no labelling shares
    problem = GenerativeMargin.hmm([[0, 0, 0]], [[0, 1, 0]], 2, 1, eta=1.0)
    theta = problem.uniform()
    theta[[2, 3, 4, 5]] = [-1e16, -3.0, -1e16, -0.7]
    found = problem.primal({"theta": theta})
    assert found.upper >= Listed(problem).value(theta)
    assert certify(problem, theta).primal >= found


def test_mu_above_c_by_a_rounding_is_above_c() -> None:
    # label 1 has c = 0, so a share of it, however small, forbids all but t = 0: the bound is the entropy of c, 0
    problem = one_variable([1.0, 0.0], 1e4, loss=1e8)
    witness = {"labels": np.array([[1]]), "label_shares": np.array([[1e-15]])}
    assert problem.dual(witness) == 0.0
    assert problem.dual_residuals(witness)["mu above c"] > 0


@every_kind
def test_a_repaired_theta_is_feasible_in_60_digits_and_repaired_once(make: Callable[[int], GenerativeMargin]) -> None:
    rng = np.random.default_rng(0)
    problem = make(0)
    for scale in (1e-17, 1e-3, 1.0, 1e3, 1e16):
        theta = problem.uniform() + scale * rng.normal(size=problem.dimension)
        repaired = problem.repair({"theta": theta})["theta"]
        assert Listed(problem).feasible(repaired)
        for inside in (repaired, repaired - 0.1):
            np.testing.assert_array_equal(problem.shift(inside), inside)


@every_kind
def test_the_excess_encloses_the_best_labelling_of_rational_arithmetic(make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(1)
    one, rng = Listed(problem), np.random.default_rng(0)
    missed = 0
    for scale, large in zip(np.repeat([0.1, 1.0, 100.0], 20), np.tile([0.0, 1e3], 30)):  # large scores that cancel
        theta = scale * rng.normal(size=problem.dimension) + large * rng.integers(-1, 2, size=problem.dimension)
        found = bounds.excess(problem.features, theta)
        for value, error, (_, rows, offsets) in zip(found.value.tolist(), found.errors.tolist(), one.groups):
            best = (rows @ exactly(theta) + offsets).max()
            assert Fraction(value) - Fraction(error) <= best <= Fraction(value) + Fraction(error)
            assert error <= 1e-13 * max(value, scale, large)
            assert best != 0 or error == 0
            missed += Fraction(value) != best
    assert missed  # so the error is needed


def test_a_step_towards_a_member_is_short_enough_for_every_mu_within_its_errors() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        problem = one_variable((share := rng.dirichlet(np.ones(3))).tolist(), 1.0)
        mu, error = 2.0 * rng.normal(size=3), 1e-12 * rng.random(3)
        given = Member(RoundedArray(mu, error), Rounded(1e6))
        t, _ = certain_on_segment(problem.c, given, problem.best_on_segment, problem._dual_function)
        assert t > 0
        assert (exactly(problem.c) >= Fraction(t) * (exactly(mu) + exactly(error))).all(), share


def test_the_loss_of_a_member_is_that_of_rational_arithmetic() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        cost = rng.random((20, 2)) * [0.0, 1.0]
        problem = GenerativeMargin.hmm([[0] * 20], [[0] * 20], 2, 1, eta=1.0, loss=[cost])
        witness = {"labels": np.ones((1, 20), dtype=int), "label_shares": np.array([[0.5]])}
        found = problem._member(witness).omega
        assert abs(Fraction(float(found)) - exactly(cost[:, 1]).sum() / 2) <= Fraction(found.allowance)


@every_kind
def test_what_makes_a_theta_exactly_feasible_is_in_its_allowance(make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(0)
    inside = problem.shift(problem.uniform() - 1e-9)
    edge = inside + 1e-9 - 1e-15  # 1'e^theta_i is 1 but for a few roundings
    terms = problem.examples.weights @ np.asarray(problem.truth_each.sum(axis=1)).ravel()
    more = problem.primal({"theta": edge}).allowance - problem.primal({"theta": inside}).allowance
    assert more >= 2**-53 * (problem.c.sum() + 2 * problem.eta * terms)
