"""The best labelling other than a given one, on junction trees, against brute force over all labellings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from convexstruct.oracles import enumeration
from convexstruct.oracles.tree.junction_tree_two_best import best_other
from convexstruct.tolerances import ROUNDING
from tests.oracles.tree.test_junction_tree import Model, models, score

EXAMPLES = settings(max_examples=120, deadline=None, derandomize=True)


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
        if np.isneginf(values[at]):
            np.testing.assert_array_equal(others[k], labels[k])
            continue
        assert (others[k] != labels[k]).any()
        assert score(others[k], *model.truth(k)) == pytest.approx(values[at], rel=ROUNDING, abs=ROUNDING)
