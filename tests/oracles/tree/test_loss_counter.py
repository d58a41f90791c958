"""Best labellings by their loss on junction trees, against brute force over all labellings.

Those of chains, and of batches of any graphs, are in `tests/inference/test_exact.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from convexstruct.arrays import Labels
from convexstruct.graphs import chains
from convexstruct.junction_trees import junction_tree
from convexstruct.oracles import enumeration
from convexstruct.oracles.tree import loss_counter
from convexstruct.oracles.tree.junction_tree import Factor
from convexstruct.oracles.tree.loss_counter import LossTable, by_loss, by_loss_on_tree
from convexstruct.tolerances import ROUNDING
from tests.oracles.tree.test_junction_tree import Model, graph_of, models

EXAMPLES = settings(max_examples=80, deadline=None, derandomize=True)
SEEDS = st.integers(0, 2**32 - 1)


def totals_to_read(table: LossTable) -> list[NDArray[np.intp]]:
    """Totals for all examples at once, so that each total that an example has is asked for."""
    each = [np.flatnonzero(np.isfinite(row)) for row in table.scores]
    return [np.array([own[min(i, len(own) - 1)] for own in each]) for i in range(max(map(len, each)))]


def check(model: Model, steps: Labels) -> None:
    """Every column of each example, and the labelling read for each total that some labelling has."""
    table = by_loss_on_tree(*model, steps)
    read = [(totals, table.labels(totals)) for totals in totals_to_read(table)]
    for k in range(model.n):
        cards, factors = model.truth(k)
        labels = {int(totals[k]): found[k] for totals, found in read}
        everything, values = enumeration.labellings(cards), enumeration.scores(cards, factors)
        losses = steps[k, np.arange(len(cards)), everything].sum(axis=1)
        for total in range(table.scores.shape[1]):
            best = values[losses == total].max(initial=-np.inf)
            assert table.scores[k, total] == pytest.approx(best, rel=ROUNDING, abs=ROUNDING)
            if np.isfinite(best):
                found = int(np.flatnonzero((everything == labels[total]).all(axis=1))[0])
                assert losses[found] == total
                assert values[found] == pytest.approx(best, rel=ROUNDING, abs=ROUNDING)
        assert losses[np.isfinite(values)].max() < table.scores.shape[1]


@given(models(integers=True) | models(), SEEDS, st.booleans())
@EXAMPLES
def test_on_junction_trees_each_loss_has_its_best_labelling(model: Model, seed: int, hamming: bool) -> None:
    """Hamming-like losses, or small whole numbers with gaps between them."""
    rng, cards = np.random.default_rng(seed), model.tree.cards
    shape = (model.n, len(cards), max(cards))
    check(model, rng.integers(0, 2, size=shape) if hamming else rng.choice([0, 0, 2, 3], size=shape))


@given(SEEDS)
@EXAMPLES
def test_where_everything_ties_the_losses_shared_out_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    order = rng.permutation(6)
    scopes = [(int(order[i]), int(order[rng.integers(0, i)])) for i in range(1, 6)]
    steps = np.zeros((1, 6, 2), dtype=np.int64)
    steps[0, :, 1] = rng.integers(1, 3, size=6)
    check(Model(junction_tree(graph_of(6, scopes), [2] * 6), [], 1), steps)


def test_blocks_and_messages_computed_again_leave_no_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    layout = chains(rng.integers(1, 9, size=40))
    node, edge = rng.normal(size=(layout.n_positions, 3)), rng.normal(size=(3, 3))
    tree = junction_tree(graph_of(4, [(0, 1), (1, 2), (1, 3)]), [3] * 4)
    factors: list[Factor] = [((v,), rng.normal(size=(40, 3))) for v in range(4)]
    steps, tree_steps = rng.integers(0, 3, size=node.shape), rng.integers(0, 3, size=(40, 4, 3))
    whole = by_loss(layout, node, edge, steps), by_loss_on_tree(tree, factors, 40, tree_steps)
    for name, size in (("BLOCK", 200), ("TREE_BLOCK", 1), ("KEPT_NUMBERS", 1)):
        monkeypatch.setattr(loss_counter, name, size)
    for one, other in zip(whole, (by_loss(layout, node, edge, steps), by_loss_on_tree(tree, factors, 40, tree_steps))):
        np.testing.assert_array_equal(one.scores, other.scores)
        totals = one.scores.argmax(axis=1)
        np.testing.assert_array_equal(one.labels(totals), other.labels(totals))
