"""Input of problem (P): points, data and new examples that are accepted, and those that are refused."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.core.certificates import certify
from convexstruct.families.generative_margin.distributions import default_c
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.features.counts.network import NetworkCounts, table_entries
from convexstruct.graphs import hmm_graph
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.tolerances import ROUNDING
from tests.families.generative_margin.instances import (
    MAKERS,
    feasible,
    random_c,
    random_witness,
    small_hmm,
    small_network,
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


def test_new_symbols_are_labelled_as_if_they_had_been_the_problem_s_own() -> None:
    problem, rng = small_hmm(3), np.random.default_rng(4)
    theta = feasible(problem, rng)
    new = [rng.integers(3, size=t) for t in (2, 4, 1)]
    for symbols, found in zip(new, problem.predict(theta, new)):
        tables = problem.layout.tables(theta)

        def score(states: tuple[int, ...], seen: Any = symbols, parts: Any = tables) -> float:
            moves = sum(parts["transition"][pair] for pair in pairwise(states))
            return float(parts["initial"][states[0]] + moves + parts["emission"][list(states), seen].sum())

        assert tuple(found) == max(product(range(2), repeat=len(symbols)), key=score)


def test_new_symbols_of_several_channels_are_labelled_by_all_of_them() -> None:
    rng = np.random.default_rng(5)
    old = [rng.integers(3, size=(t, 2)) for t in (3, 2)]
    problem = GenerativeMargin.hmm(old, [rng.integers(2, size=len(each)) for each in old], 2, 3, eta=0.5)
    theta = feasible(problem, rng)
    new = [rng.integers(3, size=(t, 2)) for t in (4, 1)]
    parts = problem.layout.tables(theta)
    for symbols, found in zip(new, problem.predict(theta, new)):
        scores = {}
        for states in product(range(2), repeat=len(symbols)):
            seen = sum(parts[f"emission {o}"][list(states), symbols[:, o]].sum() for o in range(2))
            moves = sum(parts["transition"][pair] for pair in pairwise(states))
            scores[states] = float(parts["initial"][states[0]] + moves + seen)
        assert tuple(found) == max(scores, key=lambda states: scores[states])
    with pytest.raises(ValueError, match=r"examples\[1\] has shape \(1, 3\), wanted \(length, 2\)"):
        problem.predict(theta, [new[0], np.zeros((1, 3), dtype=int)])


def test_missing_values_of_new_assignments_are_filled_by_the_most_probable() -> None:
    problem, rng = small_network(3), np.random.default_rng(6)
    features = problem.features
    assert isinstance(features, NetworkCounts)
    cards = features.network.cards
    theta = feasible(problem, rng)
    rows = np.array([[int(rng.integers(n)) for n in cards] for _ in range(6)])
    hide = rng.random(rows.shape) < 0.4
    hide[:, 0] |= ~hide.any(axis=1)
    found = problem.predict(theta, np.where(hide, -1, rows))
    for row, hidden, labels in zip(rows, hide, found):
        places = np.flatnonzero(hidden)
        scores = {}
        for values in product(*(range(cards[v]) for v in places)):
            full = row.copy()
            full[places] = values
            scores[values] = float(theta[table_entries(features.network, full[None])].sum())
        assert tuple(labels) == max(scores, key=lambda values: scores[values])


def test_new_examples_that_do_not_fit_are_refused_in_one_sentence() -> None:
    chain, net = small_hmm(0), small_network(0)
    for problem, examples, message in (
        (chain, [[0, 3]], r"examples\[0\]"),
        (chain, [], r"examples"),
        (chain, [[]], r"examples\[0\]"),
        (chain, 7, r"examples is 7"),
        (net, np.zeros((2, 4), dtype=int), r"examples has shape \(2, 4\), wanted"),
        (net, [[0] * 5], r"examples\[0\] has no value missing, wanted at least one -1"),
        (net, [[-1, 0, 0, 0, 9]], r"examples\[0\] gives node .* the value 9, wanted a whole number from 0 to"),
        (net, [[-2, 0, 0, 0, 0]], r"examples"),
    ):
        with pytest.raises(ValueError, match=message):
            problem.predict(problem.uniform(), examples)


def test_a_hidden_markov_model_is_the_same_problem_as_its_network() -> None:
    rng = np.random.default_rng(0)
    states, symbols = rng.integers(2, size=(5, 4)), rng.integers(3, size=(5, 4))
    chain = random_c(GenerativeMargin.hmm(list(symbols), list(states), 2, 3, eta=0.7), rng)
    nodes = [("state", t) for t in range(4)]
    net = GenerativeMargin.network(hmm_graph(2, 3, 4), np.hstack((states, symbols)), nodes, eta=0.7, c=chain.c)
    theta = feasible(chain, rng)
    assert net.evaluate(theta).value == pytest.approx(chain.evaluate(theta).value, rel=ROUNDING)
    witness = random_witness(chain, rng, 0.05)
    assert net.dual(witness) == pytest.approx(chain.dual(witness), rel=ROUNDING)


def test_c_is_uniform_by_default_and_may_come_as_tables() -> None:
    layout = small_hmm(0).layout
    np.testing.assert_array_equal(default_c(None, layout), [*[0.5] * 2, *[0.5] * 4, *[1 / 3] * 6])
    tables: dict[str, Any] = {
        "initial": [0.4, 0.6], "transition": [[0.1, 0.9], [0.8, 0.2]], "emission": [[0.2, 0.3, 0.5], [1, 0, 0]],
    }  # fmt: skip
    np.testing.assert_array_equal(default_c(tables, layout), [0.4, 0.6, 0.1, 0.9, 0.8, 0.2, 0.2, 0.3, 0.5, 1, 0, 0])


DOOR: dict[str, Any] = {"symbols": [[0, 1], [2]], "states": [[0, 1], [1]], "n_states": 2, "n_symbols": 3, "eta": 1.0}
GOOD_C = np.array([*[0.5] * 2, *[0.5] * 4, *[1 / 3] * 6])


def changed(at: list[int], value: float) -> Vector:
    c = GOOD_C.copy()
    c[at] = value
    return c


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eta": 0.0}, "eta is 0.0, wanted a positive number"),
        ({"c": GOOD_C[:-1]}, r"c has shape \(11,\), wanted \(12,\)"),
        ({"c": changed([3], math.nan)}, "c contains NaN or infinity"),
        ({"c": changed([3], -0.5)}, r"c of transition\[0\] has a negative entry \(-0.5\)"),
        ({"c": changed([4, 5], 0.0)}, r"c of transition\[1\] is all zero, wanted a distribution"),
        ({"c": changed([6], 0.5)}, r"c of emission\[0\] sums to 1.16667, wanted a distribution: 1"),
        ({"c": {"initial": [0.5, 0.5]}}, r"c has the tables initial, wanted \['emission', 'initial', 'transition'\]"),
        (
            {"c": {"initial": [1.0], "transition": np.eye(2), "emission": np.ones((2, 3)) / 3}},
            r"c\['initial'\] has shape",
        ),
    ],
)
def test_the_door_of_a_hidden_markov_model_refuses(change: dict[str, Any], message: str) -> None:
    GenerativeMargin.hmm(**DOOR)
    with pytest.raises(ValueError, match=message):
        GenerativeMargin.hmm(**{**DOOR, **change})


@pytest.mark.parametrize("size", [1e5, 1e308])
def test_huge_values_still_give_an_upper_bound(size: float) -> None:
    problem = small_hmm(0)
    bound = problem.dual({})
    for sign in (1.0, -1.0):
        for at in (slice(3, 4), slice(None)):
            theta = problem.uniform()
            theta[at] = sign * size
            assert certify(problem, theta).primal >= bound
