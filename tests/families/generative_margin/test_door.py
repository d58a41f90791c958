"""Input of problem (P): points, distributions c and new examples; `refusals` has what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.datasets.generated.networks import random_network
from convexstruct.families.generative_margin.distributions import default_c
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.marginals.enumeration import enumerate_counts
from tests.families.generative_margin.instances import (
    MAKERS,
    feasible,
    small_hmm,
)


def test_a_point_is_read_from_an_array_or_by_the_names_of_the_tables() -> None:
    problem = small_hmm(0)
    theta = np.arange(12.0)
    tables = problem.layout.tables(theta)
    for value in (theta, list(theta), {"theta": theta}, tables, {str(k): v.tolist() for k, v in tables.items()}):
        np.testing.assert_array_equal(problem.as_point(value)["theta"], theta)


def test_prediction_is_the_best_labelling_without_the_loss() -> None:
    for make in MAKERS:
        problem = make(3)
        table = enumerate_counts(problem.features)
        theta = feasible(problem, np.random.default_rng(3))
        scores = table.counts @ theta
        predicted = problem.predict(theta)
        for k in range(problem.n_examples):
            rows = np.flatnonzero(table.example == k)
            row = table.labels[rows[scores[rows].argmax()]]
            np.testing.assert_array_equal(predicted[k], row[row >= 0])
        assert len(predicted) == problem.n_examples


def chain_of(symbols: list[Any]) -> GenerativeMargin:
    """Two states, three symbols; the states do not matter here."""
    return GenerativeMargin.hmm(symbols, [np.zeros(len(each), dtype=int) for each in symbols], 2, 3, eta=0.5)


@pytest.mark.parametrize("shape", [(), (2,)], ids=["symbols", "two channels"])
def test_new_symbols_are_labelled_as_if_they_had_been_the_problem_s_own(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    old, new = ([rng.integers(3, size=(t, *shape)) for t in lengths] for lengths in ((3, 2), (2, 4, 1)))
    problem = chain_of(old)
    theta = feasible(problem, rng)
    for found, wanted in zip(problem.predict(theta, new), chain_of(new).predict(theta), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_missing_values_of_new_assignments_are_filled_as_if_they_had_been_the_problem_s_own() -> None:
    rng = np.random.default_rng(6)
    net = random_network(5, 6, states=(2, 3), seed=3)
    hide = rng.random((6, 5)) < 0.4
    hide[:, 0] |= ~hide.any(axis=1)
    own = GenerativeMargin.network(net.graph, net.assignments, [np.flatnonzero(row).tolist() for row in hide], eta=0.3)
    other = GenerativeMargin.network(net.graph, net.assignments[:1], [0], eta=0.3)
    theta = feasible(own, rng)
    new = other.predict(theta, np.where(hide, -1, net.assignments))
    for found, wanted in zip(new, own.predict(theta), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_c_is_uniform_by_default_and_may_come_as_tables() -> None:
    layout = small_hmm(0).layout
    np.testing.assert_array_equal(default_c(None, layout), [*[0.5] * 2, *[0.5] * 4, *[1 / 3] * 6])
    tables: dict[str, Any] = {
        "initial": [0.4, 0.6], "transition": [[0.1, 0.9], [0.8, 0.2]], "emission": [[0.2, 0.3, 0.5], [1, 0, 0]],
    }  # fmt: skip
    np.testing.assert_array_equal(default_c(tables, layout), [0.4, 0.6, 0.1, 0.9, 0.8, 0.2, 0.2, 0.3, 0.5, 1, 0, 0])


@pytest.mark.parametrize("size", [1e5, 1e308])
def test_huge_values_still_give_an_upper_bound(size: float) -> None:
    problem = small_hmm(0)
    bound = problem.dual({})
    for sign in (1.0, -1.0):
        for at in (slice(3, 4), slice(None)):
            theta = problem.uniform()
            theta[at] = sign * size
            assert certify(problem, theta).primal >= bound
