"""The two best labellings on junction trees, against brute force over all labellings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from convexstruct.junction_trees import junction_tree
from convexstruct.oracles import enumeration
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
