from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.generative_margin import cases
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.models import FORMULATIONS
from convexstruct.tolerances import HIGH, ROUNDING
from tests.reference import optimum

PLANTED = [cases.planted_hmm, cases.planted_kink, cases.planted_missing_mass, cases.planted_network]


@pytest.mark.parametrize("make", PLANTED)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_optimum_built_in_is_the_one_a_general_solver_finds(make: cases.Make, seed: int) -> None:
    instance = make(seed)
    assert instance.optimum is not None
    said = optimum(FORMULATIONS["generative_margin.compact_dual"].builder(instance.problem))
    assert said.value == pytest.approx(instance.optimum, rel=HIGH.gap)


@pytest.mark.parametrize("make", PLANTED)
def test_the_point_built_in_is_feasible_and_has_the_optimal_value(make: cases.Make) -> None:
    instance = make(0)
    assert instance.point is not None
    assert max(instance.problem.residuals(instance.point).values()) <= ROUNDING
    assert instance.problem.primal(instance.point) == instance.optimum


def test_no_mass_is_left_in_one_block_of_the_missing_mass_case() -> None:
    instance = cases.planted_missing_mass(0)
    problem = instance.problem
    assert isinstance(problem, GenerativeMargin)
    assert instance.point is not None
    sums = np.exp(problem.layout.block_logsumexp(instance.point["theta"]))
    assert np.sort(sums)[0] == pytest.approx(0.7)
    assert np.sort(sums)[1:] == pytest.approx(1.0)


def test_many_labellings_are_best_at_once_on_the_kink() -> None:
    instance = cases.planted_kink(0)
    problem = instance.problem
    assert isinstance(problem, GenerativeMargin)
    assert instance.point is not None
    theta = instance.point["theta"]
    best, labels = problem.oracle.best(theta, 1.0)
    swapped = np.where(np.isin(labels, (1, 2)) & ~np.isin(problem.examples.truth, (1, 2)), 3 - labels, labels)
    assert (swapped != labels).any()
    assert problem.features.counts_each(swapped) @ theta + problem.features.loss(swapped) == pytest.approx(best)


def test_every_generator_is_deterministic_and_heeds_its_seed() -> None:
    for case in cases.CASES:
        first, again, other = case.make(3).problem, case.make(3).problem, case.make(4).problem
        assert isinstance(first, GenerativeMargin)
        assert isinstance(again, GenerativeMargin)
        assert isinstance(other, GenerativeMargin)
        np.testing.assert_array_equal(first.truth_counts, again.truth_counts)
        if case.name != "hmm-ties":
            same = first.truth_counts.shape == other.truth_counts.shape
            assert not (same and np.array_equal(first.truth_counts, other.truth_counts)), case.name
