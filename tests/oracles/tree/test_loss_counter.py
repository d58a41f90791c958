"""Best labellings by their loss, on chains and junction trees, against brute force over all labellings."""

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
from tests.oracles.chain.test_chain import Batch, batches
from tests.oracles.tree.test_junction_tree import Model, graph_of, models

EXAMPLES = settings(max_examples=80, deadline=None, derandomize=True)
SEEDS = st.integers(0, 2**32 - 1)


def drawn_steps(rng: np.random.Generator, shape: tuple[int, ...]) -> Labels:
    """Hamming-like losses, or small whole numbers with gaps between them."""
    return rng.integers(0, 2, size=shape) if rng.random() < 0.5 else rng.choice([0, 0, 2, 3], size=shape)


def assert_is_the_truth(
    table: LossTable,
    k: int,
    cards: list[int],
    factors: list[enumeration.Factor],
    steps: Labels,
    read: dict[int, Labels],
) -> None:
    """Every column of example k, and the labelling read for each total that some labelling has."""
    everything = enumeration.labellings(cards)
    values = enumeration.scores(cards, factors)
    losses = steps[np.arange(len(cards)), everything].sum(axis=1)
    for total in range(table.scores.shape[1]):
        of_total = np.where(losses == total, values, -np.inf)
        at = int(of_total.argmax())
        assert table.scores[k, total] == pytest.approx(of_total[at], rel=ROUNDING, abs=ROUNDING)
        if np.isfinite(of_total[at]):
            found = int(np.flatnonzero((everything == read[total]).all(axis=1))[0])
            assert losses[found] == total
            assert values[found] == pytest.approx(of_total[at], rel=ROUNDING, abs=ROUNDING)
    assert losses[np.isfinite(values)].max() < table.scores.shape[1]


def totals_to_read(table: LossTable) -> list[NDArray[np.intp]]:
    """Totals for all examples at once, so that each total that an example has is asked for."""
    each = [np.flatnonzero(np.isfinite(row)) for row in table.scores]
    return [np.array([own[min(i, len(own) - 1)] for own in each]) for i in range(max(map(len, each)))]


@given(batches(integers=True) | batches(), SEEDS)
@EXAMPLES
def test_on_chains_each_loss_has_its_best_labelling(batch: Batch, seed: int) -> None:
    steps = drawn_steps(np.random.default_rng(seed), batch.node.shape)
    table = by_loss(*batch, steps)
    read = [(totals, table.labels(totals)) for totals in totals_to_read(table)]
    for k in range(batch.layout.n_chains):
        own = batch.layout.split(steps[batch.layout.flat])[k]
        labels = {int(totals[k]): batch.of(k, packed) for totals, packed in read}
        assert_is_the_truth(table, k, *batch.truth(k), own, labels)


@given(models(integers=True) | models(), SEEDS)
@EXAMPLES
def test_on_junction_trees_each_loss_has_its_best_labelling(model: Model, seed: int) -> None:
    cards = model.tree.cards
    steps = drawn_steps(np.random.default_rng(seed), (model.n, len(cards), max(cards)))
    table = by_loss_on_tree(*model, steps)
    read = [(totals, table.labels(totals)) for totals in totals_to_read(table)]
    for k in range(model.n):
        labels = {int(totals[k]): found[k] for totals, found in read}
        assert_is_the_truth(table, k, *model.truth(k), steps[k], labels)


@given(SEEDS)
@EXAMPLES
def test_where_everything_ties_the_losses_shared_out_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    order = rng.permutation(6)
    scopes = [(int(order[i]), int(order[rng.integers(0, i)])) for i in range(1, 6)]
    tree = junction_tree(graph_of(6, scopes), [2] * 6)
    steps = np.zeros((1, 6, 2), dtype=np.int64)
    steps[0, :, 1] = rng.integers(1, 3, size=6)
    table = by_loss_on_tree(tree, [], 1, steps)
    read = {int(total[0]): table.labels(total)[0] for total in totals_to_read(table)}
    assert_is_the_truth(table, 0, [2] * 6, [], steps[0], read)


def test_blocks_and_messages_computed_again_leave_no_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    layout = chains(rng.integers(1, 9, size=40))
    node, edge = rng.normal(size=(layout.n_positions, 3)), rng.normal(size=(3, 3))
    steps = rng.integers(0, 3, size=node.shape)
    totals = np.arange(40)
    tree = junction_tree(graph_of(4, [(0, 1), (1, 2), (1, 3)]), [3] * 4)
    factors: list[Factor] = [((v,), rng.normal(size=(40, 3))) for v in range(4)]
    tree_steps = rng.integers(0, 3, size=(1, 4, 3))
    whole, whole_tree = by_loss(layout, node, edge, steps), by_loss_on_tree(tree, factors, 40, tree_steps)
    totals, tree_totals = whole.scores.argmax(axis=1), whole_tree.scores.argmax(axis=1)
    for name in ("BLOCK", "TREE_BLOCK", "KEPT_NUMBERS"):
        monkeypatch.setattr(loss_counter, name, 1 if name != "BLOCK" else 200)
    cut, cut_tree = by_loss(layout, node, edge, steps), by_loss_on_tree(tree, factors, 40, tree_steps)
    np.testing.assert_array_equal(cut.scores, whole.scores)
    np.testing.assert_array_equal(cut.labels(totals), whole.labels(totals))
    np.testing.assert_array_equal(cut_tree.scores, whole_tree.scores)
    np.testing.assert_array_equal(cut_tree.labels(tree_totals), whole_tree.labels(tree_totals))


def test_too_many_losses_are_counted_in_the_refusal() -> None:
    node = np.zeros((3, 2))
    with pytest.raises(ValueError, match=r"steps allow 6001 distinct losses \(number 0\), wanted at most 4096"):
        by_loss(chains([3]), node, np.zeros((2, 2)), [[0, 2000]] * 3)
    with pytest.raises(ValueError, match="steps allow 5001 distinct losses"):
        by_loss_on_tree(junction_tree(graph_of(1, []), [2]), [], 1, [[[0, 5000]]])


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([[0, 1]], r"steps has shape \(1, 2\), wanted \(2, 2\)"),
        ([[0, 1], [0, 0.5]], "steps holds numbers that are not whole"),
        ([[0, 1], [0, np.nan]], "steps holds numbers that are not whole"),
        ([[0, 1], [0, -1]], "steps contains -1, wanted whole numbers >= 0"),
    ],
)
def test_losses_that_do_not_fit_are_refused(steps: list[list[float]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        by_loss(chains([2]), np.zeros((2, 2)), np.zeros((2, 2)), steps)


def test_a_loss_that_no_labelling_has_cannot_be_read() -> None:
    table = by_loss(chains([1, 1]), np.zeros((2, 2)), np.zeros((2, 2)), [[0, 2], [0, 2]])
    np.testing.assert_array_equal(table.scores, [[0.0, -np.inf, 0.0]] * 2)
    np.testing.assert_array_equal(table.labels([2, 0]), [1, 0])
    for totals in ([0, 1], [0, 3], [0, -1]):
        with pytest.raises(
            ValueError, match=rf"totals\[1\] is {totals[1]}, but no labelling of number 1 has that loss"
        ):
            table.labels(totals)
    with pytest.raises(ValueError, match="wanted 2 whole numbers"):
        table.labels([0.0, 0.0])
