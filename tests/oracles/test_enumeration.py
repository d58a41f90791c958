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


def test_labellings_scores_and_the_best_are_those_done_by_hand() -> None:
    every = [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]]
    np.testing.assert_array_equal(enumeration.labellings(CARDS), every)
    np.testing.assert_array_equal(enumeration.scores(CARDS, FACTORS), [1, 1, 0, 1, 2, -np.inf])
    score, labelling = enumeration.best(CARDS, FACTORS)
    assert (score, labelling.tolist()) == (2.0, [0, 2])


def test_sums_and_marginals_are_those_done_by_hand() -> None:
    z = 3 * math.e + 1 + math.e**2
    assert enumeration.log_partition(CARDS, FACTORS) == pytest.approx(math.log(z))
    assert enumeration.log_partition([2], [((0,), np.full(2, -np.inf))]) == -math.inf
    np.testing.assert_allclose(
        enumeration.marginal(CARDS, FACTORS, [0]), [(1 + math.e + math.e**2) / z, 2 * math.e / z]
    )
    joint = enumeration.marginal(CARDS, FACTORS, [1, 0])
    np.testing.assert_allclose(joint, np.array([[math.e, math.e], [1, math.e], [math.e**2, 0]]) / z)


def test_too_many_labellings_are_refused() -> None:
    with pytest.raises(ValueError, match=f"{2**40} labellings"):
        enumeration.labellings([2] * 40)
