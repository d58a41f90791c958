"""Brute force, against sums small enough to be done by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from convexstruct.oracles import enumeration

CARDS = [2, 3]
FACTORS: list[enumeration.Factor] = [
    ((0,), np.array([0.0, 1.0])),
    ((1, 0), np.array([[1.0, 0.0], [0.0, 0.0], [2.0, -np.inf]])),
]
# score of (first, second): (0, 0) 1, (1, 0) 1, (0, 1) 0, (1, 1) 1, (0, 2) 2, (1, 2) forbidden


def test_labellings_count_in_colexicographic_order() -> None:
    expected = [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]]
    np.testing.assert_array_equal(enumeration.labellings(CARDS), expected)


def test_scores_add_up_the_factors() -> None:
    np.testing.assert_array_equal(enumeration.scores(CARDS, FACTORS), [1, 1, 0, 1, 2, -np.inf])


def test_the_best_and_the_second_best_break_ties_by_order() -> None:
    value, labels = enumeration.best(CARDS, FACTORS)
    assert (value, labels.tolist()) == (2.0, [0, 2])
    value, labels = enumeration.second_best(CARDS, FACTORS)
    assert (value, labels.tolist()) == (1.0, [0, 0])


def test_sums_and_marginals_are_those_done_by_hand() -> None:
    z = 3 * math.e + 1 + math.e**2
    assert enumeration.log_partition(CARDS, FACTORS) == pytest.approx(math.log(z))
    np.testing.assert_allclose(
        enumeration.marginal(CARDS, FACTORS, [0]), [(1 + math.e + math.e**2) / z, 2 * math.e / z]
    )
    joint = enumeration.marginal(CARDS, FACTORS, [1, 0])
    np.testing.assert_allclose(joint, np.array([[math.e, math.e], [1, math.e], [math.e**2, 0]]) / z)


def test_one_labelling_has_no_second_best() -> None:
    value, labels = enumeration.second_best([1, 1], [])
    assert value == -math.inf
    assert labels.tolist() == [0, 0]


def test_everything_forbidden_sums_to_nothing() -> None:
    assert enumeration.log_partition([2], [((0,), np.full(2, -np.inf))]) == -math.inf


def test_too_many_labellings_are_refused() -> None:
    with pytest.raises(ValueError, match=f"{2**40} labellings"):
        enumeration.labellings([2] * 40)
