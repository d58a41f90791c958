"""The numbered values of a loss against sums of fractions over all labellings, at any scale of the costs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.features.graphs.loss_steps import LossSteps, number_losses
from convexstruct.oracles.enumeration import labellings
from convexstruct.oracles.tree.loss_counter import MOST_LOSSES
from convexstruct.rounding import UNIT


def numbered(costs: Any, example: Any) -> LossSteps:
    return number_losses(np.asarray(costs, dtype=np.float64), np.asarray(example, dtype=np.intp), max(example) + 1)


def check(costs: Any, example: Any, found: LossSteps) -> None:
    """The value of every labelling is the sum of its costs, computed in fractions, up to the deviation."""
    costs = np.asarray(costs, dtype=np.float64)
    for i in range(max(example) + 1):
        nodes = np.flatnonzero(np.asarray(example) == i)
        row = found.values[i if len(found.values) > 1 else 0]
        for y in labellings([costs.shape[1]] * len(nodes)):
            exact = sum((Fraction(c) for c in costs[nodes, y].tolist()), Fraction(0))
            value = Fraction(float(row[int(found.steps[nodes, y].sum())]))
            assert abs(value - exact) <= Fraction(found.deviation) * exact


#: Multiples of a unit, costs of any size, the smallest and the largest numbers.
COSTS = st.one_of(
    st.integers(0, 5).map(float),
    st.integers(1, 12).map(lambda k: k / 10),
    st.integers(1, 5).map(lambda k: 1.0 / k),
    st.floats(1e-300, 1e300),
    st.sampled_from([1e-300, 5e-324, 0.5, 1e6, 5e-4, 1e9, 1e300]),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.lists(COSTS, min_size=3, max_size=3), min_size=1, max_size=3))
def test_a_value_is_the_exact_sum_of_the_costs_to_a_few_units(costs: list[list[float]]) -> None:
    found = numbered(costs, [0] * len(costs))
    assert found.deviation <= 30 * UNIT
    check(costs, [0] * len(costs), found)


@pytest.mark.parametrize(
    ("costs", "most"),
    [
        ([[0, 2, 4, 6]] * 3, 9),  # in units of 2
        ([[0, 0.5, 0.75]] * 3, 9),  # of 1/4
        ([[0, 0.1, 0.3, 0.7]] * 3, 21),  # of .1, though 3 * .1 is not .3
        ([[0, 1 / 3, 0.5, 1 / 6]] * 3, 9),  # of 1/6
        ([[0, 0], [0, 0]], 0),
        ([[0, 0.5], [1e9, 0]], 3),  # .5 and 1e9 are a digit each
        ([[0, 5e-4], [1e6, 0]], 3),
        ([[0, np.pi], [1, 0]], 3),
        ([[0, 1, np.pi, 2, 2 * np.pi]] * 3, 42),  # two units, a digit of 0 .. 6 each
    ],
)
def test_as_few_values_as_there_are_are_counted(costs: Any, most: int) -> None:
    found = numbered(costs, [0] * len(costs))
    assert found.values.shape == (1, most + 1)
    check(costs, [0] * len(costs), found)


def test_costs_that_share_no_unit_between_examples_are_numbered_example_by_example() -> None:
    lengths = np.arange(3, 24)
    example = np.repeat(np.arange(len(lengths)), lengths)
    costs = np.repeat(1.0 / lengths, lengths)[:, None] * [0.0, 1.0]  # the share of wrong nodes
    found = numbered(costs, example)
    assert found.values.shape == (len(lengths), lengths.max() + 1)
    for row, length in zip(found.values, lengths):
        np.testing.assert_allclose(row[: length + 1], np.arange(length + 1) / length, rtol=found.deviation)


def test_too_many_values_are_refused_in_one_sentence() -> None:
    rng = np.random.default_rng(0)
    costs = np.column_stack((np.zeros(16), rng.random(16)))
    with pytest.raises(
        ValueError, match=rf"loss has 16 different costs in example 0, .* take more than {MOST_LOSSES} values"
    ):
        numbered(costs, [0] * 16)
