"""The two best labellings on junction trees, against brute force over all labellings."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from convexstruct.graphs import chains
from convexstruct.junction_trees import junction_tree
from convexstruct.oracles import enumeration
from convexstruct.oracles.tree import second_best
from convexstruct.oracles.tree.junction_tree import Factor
from convexstruct.oracles.tree.junction_tree_two_best import best_other, two_best
from convexstruct.tolerances import ROUNDING
from tests.oracles.tree.test_junction_tree import Model, graph_of, models

EXAMPLES = settings(max_examples=120, deadline=None, derandomize=True)


@given(models(integers=True) | models())
@EXAMPLES
def test_the_two_best_are_those_of_brute_force_ties_included(model: Model) -> None:
    found = two_best(*model)
    for k in range(model.n):
        for scores, labels, truth in (
            (found.best, found.best_labels, enumeration.best),
            (found.second, found.second_labels, enumeration.second_best),
        ):
            value, labelling = truth(*model.truth(k))
            assert scores[k] == pytest.approx(value, rel=ROUNDING, abs=ROUNDING)
            np.testing.assert_array_equal(labels[k], labelling)


@given(models(integers=True) | models())
@EXAMPLES
def test_the_best_other_than_any_labelling_is_that_of_brute_force(model: Model) -> None:
    rng = np.random.default_rng(0)
    cards = np.array(model.tree.cards)
    labels = rng.integers(0, cards, size=(model.n, len(cards)))
    scores, others = best_other(model.tree, model.factors, labels)
    for k in range(model.n):
        values = enumeration.scores(*model.truth(k))
        everything = enumeration.labellings(model.tree.cards)
        values[(everything == labels[k]).all(axis=1)] = -np.inf
        at = int(values.argmax())
        assert scores[k] == pytest.approx(values[at], rel=ROUNDING, abs=ROUNDING)
        np.testing.assert_array_equal(others[k], labels[k] if np.isneginf(values[at]) else everything[at])


def test_one_variable_of_one_label_has_no_second_best() -> None:
    tree = junction_tree(graph_of(1, []), [1])
    found = two_best(tree, [((0,), np.array([[3.0], [-1.0]]))], 2)
    np.testing.assert_array_equal(found.best, [3.0, -1.0])
    np.testing.assert_array_equal(found.second, [-np.inf, -np.inf])
    np.testing.assert_array_equal(found.second_labels, [[0], [0]])


def test_a_chain_gives_what_the_chain_oracle_gives() -> None:
    rng = np.random.default_rng(5)
    layout = chains([7])
    node, edge = rng.normal(size=(7, 4)), rng.normal(size=(4, 4))
    tree = junction_tree(nx.path_graph(7), [4] * 7)
    factors: list[Factor] = [((t,), node[None, t]) for t in range(7)]
    factors += [((t - 1, t), edge[None]) for t in range(1, 7)]
    found, expected = two_best(tree, factors, 1), second_best.two_best(layout, node, edge)
    assert found.second[0] == pytest.approx(expected.second[0], rel=ROUNDING)
    np.testing.assert_array_equal(found.second_labels[0], expected.second_labels)


def test_on_a_tree_of_all_ties_the_second_is_a_one_in_front() -> None:
    tree = junction_tree(graph_of(5, [(0, 1), (0, 2), (0, 3), (3, 4)]), [2] * 5)
    found = two_best(tree, [], 2)
    np.testing.assert_array_equal(found.best_labels, np.zeros((2, 5)))
    np.testing.assert_array_equal(found.second_labels, [[1, 0, 0, 0, 0]] * 2)


def test_the_smallest_of_tied_second_bests_is_found_in_a_tree_that_cannot_be_read_in_order() -> None:
    # a star whose centre comes first: label 2 of the centre is the best, and then (1, 0, 0, 0) and (0, 1, 1, 0) tie
    tree = junction_tree(graph_of(4, [(0, 1), (0, 2), (0, 3)]), [3, 2, 2, 2])
    assert not tree.reads_in_order
    table = np.array([[[0.0, 1.0], [1.0, 0.0], [2.0, -9.0]]])
    last = np.array([[0.0, -9.0]])
    found = two_best(tree, [((0, 1), table), ((0, 2), table), ((3,), last)], 1)
    np.testing.assert_array_equal(found.best_labels, [[2, 0, 0, 0]])
    np.testing.assert_array_equal(found.second_labels, [[1, 0, 0, 0]])
    assert (found.best[0], found.second[0]) == (4.0, 2.0)


def test_tables_handed_in_stay_as_they_are() -> None:
    tree = junction_tree(graph_of(2, [(0, 1)]), [2, 2])
    table = np.ones((3, 2, 2))
    two_best(tree, [((0, 1), table), ((1, 0), table)], 3)
    assert (table == 1.0).all()
