"""Chain oracles against brute force over all labellings."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

from convexstruct.arrays import Tensor
from convexstruct.graphs import Chains, chains
from convexstruct.oracles import enumeration
from convexstruct.oracles.chain import chain
from convexstruct.oracles.chain import log_sums as chain_log
from convexstruct.oracles.chain import terms as chain_terms
from convexstruct.oracles.chain.sums import ChainSums
from convexstruct.oracles.chain.two_best import two_best
from convexstruct.tolerances import ROUNDING

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)


class Batch(NamedTuple):
    layout: Chains
    node: Tensor
    edge: Tensor

    def truth(self, k: int) -> tuple[list[int], list[enumeration.Factor]]:
        """Chain k as brute force takes it."""
        return enumeration.chain_factors(self.layout.split(self.node[self.layout.flat])[k], self.edge)

    def of(self, k: int, packed: NDArray[np.int64]) -> NDArray[np.int64]:
        """Chain k's part of packed labels."""
        return self.layout.split(packed[self.layout.flat])[k]


@st.composite
def batches(draw: st.DrawFn, integers: bool = False, forbid: bool = True) -> Batch:
    """Unequal lengths (1 among them), 1 to 3 labels; integer scores make ties; label 0 is never forbidden."""
    n_labels = draw(st.integers(1, 3))
    layout = chains(draw(st.lists(st.integers(1, 5), min_size=1, max_size=5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shapes = [(layout.n_positions, n_labels), (n_labels, n_labels)]
    if integers:
        node, edge = (rng.integers(-1, 2, size=shape).astype(float) for shape in shapes)
    else:
        node, edge = (rng.normal(size=shape) * draw(st.sampled_from([0.1, 1.0, 10.0])) for shape in shapes)
    if forbid and draw(st.booleans()):
        node[:, 1:][rng.random(node[:, 1:].shape) < 0.3] = -np.inf
        keep = edge[0, 0]
        edge[rng.random(edge.shape) < 0.3] = -np.inf
        edge[0, 0] = keep
    return Batch(layout, node, edge)


@given(batches(integers=True) | batches())
@EXAMPLES
def test_viterbi_finds_the_colexicographically_smallest_best_labelling(batch: Batch) -> None:
    scores, labels = chain.viterbi(*batch)
    for k in range(batch.layout.n_chains):
        best, labelling = enumeration.best(*batch.truth(k))
        assert scores[k] == pytest.approx(best, rel=ROUNDING, abs=ROUNDING)
        np.testing.assert_array_equal(batch.of(k, labels), labelling)


@given(batches(integers=True) | batches())
@EXAMPLES
def test_second_best_is_the_best_of_all_the_others(batch: Batch) -> None:
    found = two_best(*batch)
    for k in range(batch.layout.n_chains):
        for score, labels, truth in (
            (found.best, found.best_labels, enumeration.best),
            (found.second, found.second_labels, enumeration.second_best),
        ):
            value, labelling = truth(*batch.truth(k))
            assert score[k] == pytest.approx(value, rel=ROUNDING, abs=ROUNDING)
            np.testing.assert_array_equal(batch.of(k, labels), labelling)


def test_large_batches_are_cut_into_blocks_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    layout = chains(rng.integers(1, 9, size=40))
    node, edge = rng.normal(size=(layout.n_positions, 3)), rng.normal(size=(3, 3)) * 200
    weights = rng.uniform(0.5, 2.0, size=40)
    whole = chain_terms.sums_by_terms(layout, node, edge, weights)
    best, second = chain.viterbi(layout, node, edge)[1], two_best(layout, node, edge).second_labels
    for module in (chain, chain_terms):
        monkeypatch.setattr(module, "BLOCK", 1)
    monkeypatch.setattr(chain_terms, "LEAST_CHAINS", 7)
    monkeypatch.setattr("convexstruct.oracles.chain.two_best.BLOCK", 1)
    cut = chain_terms.sums_by_terms(layout, node, edge, weights)
    np.testing.assert_allclose(cut.log_partition, whole.log_partition, rtol=ROUNDING)
    np.testing.assert_allclose(cut.node, whole.node, atol=ROUNDING)
    np.testing.assert_allclose(cut.edge, whole.edge, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_array_equal(chain.viterbi(layout, node, edge)[1], best)
    np.testing.assert_array_equal(two_best(layout, node, edge).second_labels, second)


def assert_sums(batch: Batch, sums: ChainSums, weights: Tensor, scale: float = 1.0) -> None:
    """log Z, posteriors and expected pairs are those of brute force; ``scale`` is the size of the scores."""
    n_labels = batch.edge.shape[0]
    close = ROUNDING * max(1.0, 1e-5 * scale)
    pairs, squared = np.zeros((n_labels, n_labels)), np.zeros((n_labels, n_labels))
    posteriors = batch.layout.split(sums.node[batch.layout.flat])
    for k in range(batch.layout.n_chains):
        truth = batch.truth(k)
        assert sums.log_partition[k] == pytest.approx(enumeration.log_partition(*truth), rel=ROUNDING, abs=ROUNDING)
        for t in range(len(posteriors[k])):
            np.testing.assert_allclose(posteriors[k][t], enumeration.marginal(*truth, [t]), atol=close)
            if t:
                pair = enumeration.marginal(*truth, [t - 1, t])
                pairs += weights[k] * pair
                squared += weights[k] * pair**2
    np.testing.assert_allclose(sums.edge, pairs, atol=close * max(1.0, batch.layout.n_positions))
    if sums.edge_squared is not None:
        np.testing.assert_allclose(sums.edge_squared, squared, atol=close * max(1.0, batch.layout.n_positions))


@given(batches(), st.booleans())
@EXAMPLES
def test_forward_backward_sums_over_all_labellings(batch: Batch, weighted: bool) -> None:
    weights = np.linspace(0.5, 2.0, batch.layout.n_chains)
    given_weights, used = (weights, weights) if weighted else (None, np.ones(len(weights)))
    for oracle in (chain.sum_product, chain_terms.sums_by_terms):
        assert_sums(batch, oracle(*batch, given_weights, squares=True), used)


@pytest.mark.parametrize("spread", [1.0, 300.0, 3000.0])
def test_a_chain_of_weight_0_adds_nothing_to_the_pairs(spread: float) -> None:
    rng = np.random.default_rng(0)
    layout = chains([3, 1, 4, 2])
    batch = Batch(layout, spread * rng.normal(size=(layout.n_positions, 3)), spread * rng.normal(size=(3, 3)))
    weights = np.array([0.0, 0.0, 1.0, 2.0])
    for oracle in (chain.sum_product, chain.rescaled, chain_log.log_messages, chain_terms.sums_by_terms):
        sums = oracle(*batch, weights)
        if sums is not None:
            assert_sums(batch, sums, weights, spread)


@st.composite
def far_apart(draw: st.DrawFn) -> Batch:
    """Scores of hundreds to thousands of nats of which many are alike: labellings that count use the lowest edges."""
    n_labels = draw(st.integers(2, 4))
    layout = chains(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([100.0, 640.0, 660.0, 1000.0, 1249.0]))
    edge = scale * draw(st.sampled_from([1.0, 0.5])) * -rng.choice([0.0, 0.5, 0.99, 1.0], size=(n_labels, n_labels))
    node = -rng.choice([0.0, 0.5, 1.0, 2.0, 5.0], size=(layout.n_positions, n_labels)) * scale
    return Batch(layout, node + rng.normal(size=node.shape), edge + rng.uniform(0.0, 1.0, size=edge.shape))


@given(far_apart(), st.booleans())
@EXAMPLES
def test_log_messages_are_exact_up_to_their_reach(batch: Batch, weighted: bool) -> None:
    weights = np.array([0.0, 1.0, 2.0])[: batch.layout.n_chains] if weighted else None
    used = np.ones(batch.layout.n_chains) if weights is None else weights
    sums = chain_log.log_messages(*batch, weights)
    assert sums is not None
    assert_sums(batch, sums, used, float(np.abs(batch.node).max()))
    assert_sums(batch, chain.sum_product(*batch, weights), used, float(np.abs(batch.node).max()))
    rescaled = chain.rescaled(*batch, weights)
    if rescaled is not None:
        assert_sums(batch, rescaled, used, float(np.abs(batch.node).max()))


@pytest.mark.parametrize("range_of_edges", [chain_log.REACH + 1.0, 20_000.0, np.inf])
def test_log_messages_are_not_used_beyond_their_reach(range_of_edges: float) -> None:
    # label 1 at the second position is reached from label 0 alone, at this cost, and pays it back there
    node, edge = np.array([[0.0, -1e6], [0.0, range_of_edges + 0.5]]), np.array([[0.0, -range_of_edges], [0.0, 0.0]])
    if not np.isfinite(range_of_edges):
        node[1, 1] = 0.5
    batch = Batch(chains([2]), node, edge)
    assert chain_log.log_messages(*batch) is None
    assert_sums(batch, chain.sum_product(*batch), np.ones(1), 1e6)


def test_rescaled_messages_that_lose_the_best_labelling_are_not_used() -> None:
    # the best first label is e^1000 below the other at step 0, and makes up for it only at the next step
    layout = chains([2])
    node = np.array([[0.0, -1000.0], [0.0, 0.0]])
    edge = np.array([[-1500.0, -1500.0], [0.0, -1.0]])
    batch = Batch(layout, node, edge)
    assert_sums(batch, chain.sum_product(*batch), np.ones(1), 1000.0)
    assert enumeration.best(*batch.truth(0))[1].tolist() == [1, 0]


#: Scores of label 1 less those of label 0 at each position. A chain keeps its label, and label 1 is 5 nats ahead in the
#: end, but twice so far behind that a node's weight, or a message's, underflows, and a message backwards too.
LATE = {
    "a node": [-800.0, 300.0, 300.0, 300.0, -800.0, 300.0, 300.0, 105.0],
    "a message": [-500.0, -500.0, 475.0, 475.0, 475.0, 475.0, -500.0, -500.0, -600.0, 350.0, 355.0],
}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
def test_with_forbidden_pairs_rescaled_messages_that_lose_a_label_are_not_used(late: list[float]) -> None:
    node, edge = np.column_stack((np.zeros(len(late)), late)), np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    batch = Batch(chains([len(late)]), node, edge)
    assert chain.rescaled(*batch) is None
    assert_sums(batch, chain.sum_product(*batch), np.ones(1), 1000.0)


def test_a_label_lost_by_its_edge_and_its_node_together_is_seen() -> None:
    """Label 1 is best in the middle, and entered and left by way of label 2 alone, each time at -600 and -300."""
    middle = 38
    node = np.array([[0, -np.inf, -np.inf], [0, -np.inf, -300], *[[-50, 0, -np.inf]] * middle])
    node = np.concatenate((node, node[1::-1]))
    edge = np.array([[0, -np.inf, -600], [-np.inf, 0, 0], [-600, 0, -np.inf]])
    layout = chains([len(node)])
    assert chain.rescaled(layout, node, edge) is None
    sums = chain.sum_product(layout, node, edge)
    assert sums.log_partition[0] == pytest.approx(-1800.0)
    np.testing.assert_allclose(sums.node[2:-2, 1], 1.0)


@given(batches())
@EXAMPLES
def test_with_forbidden_pairs_too_rescaled_messages_serve_scores_of_ordinary_size(batch: Batch) -> None:
    sums = chain.rescaled(*batch)
    assert sums is not None
    assert_sums(batch, sums, np.ones(batch.layout.n_chains))


@pytest.mark.parametrize(
    "seed", [858, 1224]
)  # of 4000: there v^2 and the shares' squares leave the numbers, their product does not
def test_squares_that_overflow_are_left_to_sums_by_terms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_labels, layout = int(rng.integers(2, 5)), chains(rng.integers(1, 8, size=4))
    scale, shapes = rng.uniform(100, 640), [(layout.n_positions, n_labels), (n_labels, n_labels)]
    node = -rng.uniform(0, scale, size=shapes[0]) * (rng.random(shapes[0]) < 0.5)
    edge = -rng.uniform(0, scale, size=shapes[1]) * (rng.random(shapes[1]) < 0.6)
    batch = Batch(layout, node, edge)
    assert chain.rescaled(*batch) is not None
    assert chain.rescaled(*batch, squares=True) is None
    sums, whole = chain.sum_product(*batch, squares=True), chain_terms.sums_by_terms(*batch, squares=True)
    assert sums.edge_squared is not None
    assert whole.edge_squared is not None
    np.testing.assert_allclose(sums.edge_squared, whole.edge_squared, atol=ROUNDING)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_samples_come_with_the_frequencies_of_the_gibbs_distribution(scale: float) -> None:
    rng = np.random.default_rng(11)
    copies = 10_000
    layout = chains([3, 2] * copies)
    node, edge = rng.normal(size=(3, 2)), rng.normal(size=(2, 2))
    edge[:, 1] -= scale - 1.0  # label 1 at a later step costs that much, and is paid back at its position
    node[1:, 1] += scale - 1.0
    flat = np.concatenate([node, node[:2]] * copies)
    packed = chain.sample(layout, flat[layout.packed], edge, rng)
    drawn = layout.split(packed[layout.flat])
    for offset, length in enumerate((3, 2)):
        cards, factors = enumeration.chain_factors(node[:length], edge)
        expected = enumeration.posterior(cards, factors) * copies
        powers = 2 ** np.arange(length)
        index = np.array(drawn[offset::2]) @ powers
        observed = np.bincount(index, minlength=2**length)
        assert expected.min() > 5
        statistic = ((observed - expected) ** 2 / expected).sum()
        assert statistic < chi2.ppf(1 - 1e-4, len(expected) - 1)


def test_samples_are_right_where_every_term_of_a_message_underflows() -> None:
    # label 1 at the second position is reached only through terms of e^-800, and pays them back there
    copies = 3000
    layout = chains([2] * copies)
    node = np.array([[0.0, -800.0], [0.0, 800.3]])
    edge = np.array([[0.0, -799.5], [0.0, 0.4]])
    packed = chain.sample(layout, np.tile(node, (copies, 1))[layout.packed], edge, np.random.default_rng(5))
    drawn = np.array(layout.split(packed[layout.flat]))
    expected = enumeration.posterior(*enumeration.chain_factors(node, edge)) * copies
    observed = np.bincount(drawn @ [1, 2], minlength=4)
    likely = expected > 5
    assert likely.tolist() == [True, False, True, True]
    assert observed[1] == 0
    assert ((observed - expected)[likely] ** 2 / expected[likely]).sum() < chi2.ppf(1 - 1e-4, 2)


@pytest.mark.parametrize("squares", [False, True])
def test_chains_of_one_position_need_no_pair_that_is_allowed(squares: bool) -> None:
    sums = chain.sum_product(chains([1, 1]), np.zeros((2, 2)), np.full((2, 2), -np.inf), squares=squares)
    np.testing.assert_allclose(sums.log_partition, np.log(2.0))
    np.testing.assert_allclose(sums.node, 0.5)
    assert not sums.edge.any()
    assert sums.edge_squared is None or not sums.edge_squared.any()


def test_forbidden_labels_are_never_drawn() -> None:
    layout = chains([4] * 50)
    node = np.zeros((200, 3))
    node[:, 2] = -np.inf
    edge = np.array([[0.0, 0.0, 0.0], [-np.inf, 0.0, 0.0], [0.0, 0.0, 0.0]])
    labels = np.array(layout.split(chain.sample(layout, node, edge, np.random.default_rng(0))[layout.flat]))
    assert labels.max() == 1
    assert not ((labels[:, :-1] == 1) & (labels[:, 1:] == 0)).any()
    assert len(np.unique(labels, axis=0)) == 5


def test_no_oracle_changes_its_input() -> None:
    for n_labels, lengths in itertools.product((1, 2), ([1], [3, 1])):
        layout = chains(lengths)
        node, edge = np.ones((layout.n_positions, n_labels)), np.full((n_labels, n_labels), 2.0)
        methods = (chain.sum_product, chain_terms.sums_by_terms, chain_log.log_messages, chain.rescaled)
        for oracle in (chain.viterbi, *methods, two_best):
            oracle(layout, node, edge)
        chain.sample(layout, node, edge, np.random.default_rng(0))
        assert (node == 1.0).all()
        assert (edge == 2.0).all()


@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize("wrong", ["a label", "a pair", "a chain of one"])
def test_a_chain_without_an_allowed_labelling_is_named(wrong: str, squares: bool) -> None:
    layout = chains(np.array([3, 1, 2]))
    node, edge = np.zeros((layout.n_positions, 2)), np.zeros((2, 2))
    if wrong == "a pair":
        edge[:] = -np.inf
    else:
        node[layout.flat[3 if wrong == "a chain of one" else 1]] = -np.inf
    named = 1 if wrong == "a chain of one" else 0
    with pytest.raises(ValueError, match=f"forbid every labelling of chain {named},"):
        chain.sum_product(layout, node, edge, squares=squares)
