"""What the planted cases are for: a block without mass, and a kink."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.generative_margin import cases
from convexstruct.families.generative_margin.problem import GenerativeMargin


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
