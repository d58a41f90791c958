"""Chain oracles against brute force over all labellings."""

from __future__ import annotations

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
from convexstruct.oracles.chain.log_sums import REACH, log_messages
from convexstruct.oracles.chain.sums import DROPPED_GAIN, ChainSums
from convexstruct.oracles.chain.terms import sums_by_terms
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
def batches(draw: st.DrawFn, integers: bool = False, forbid: bool = True, steps: bool = False) -> Batch:
    """Unequal lengths (1 among them), 1 to 3 labels; integer scores make ties; label 0 is never forbidden.

    steps : every step has an edge table of its own, and there are some for steps that no chain reaches.
    """
    n_labels = draw(st.integers(1, 3))
    layout = chains(draw(st.lists(st.integers(1, 5), min_size=1, max_size=5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tables = (layout.n_steps + draw(st.integers(0, 2)),) if steps else ()
    shapes = [(layout.n_positions, n_labels), (*tables, n_labels, n_labels)]
    if integers:
        node, edge = (rng.integers(-1, 2, size=shape).astype(float) for shape in shapes)
    else:
        node, edge = (rng.normal(size=shape) * draw(st.sampled_from([0.1, 1.0, 10.0])) for shape in shapes)
    if forbid and draw(st.booleans()):
        node[:, 1:][rng.random(node[:, 1:].shape) < 0.3] = -np.inf
        keep = edge[..., 0, 0].copy()
        edge[rng.random(edge.shape) < 0.3] = -np.inf
        edge[..., 0, 0] = keep
    return Batch(layout, node, edge)


@given(batches(integers=True) | batches() | batches(steps=True) | batches(integers=True, steps=True))
@EXAMPLES
def test_the_best_labelling_is_the_colexicographically_smallest(batch: Batch) -> None:
    given_node, given_edge = batch.node.copy(), batch.edge.copy()
    scores, labels = chain.viterbi(*batch)
    for k in range(batch.layout.n_chains):
        value, labelling = enumeration.best(*batch.truth(k))
        assert scores[k] == pytest.approx(value, rel=ROUNDING, abs=ROUNDING)
        np.testing.assert_array_equal(batch.of(k, labels), labelling)
    np.testing.assert_array_equal(batch.node, given_node)
    np.testing.assert_array_equal(batch.edge, given_edge)


def test_batches_that_are_worked_on_in_blocks_give_what_each_chain_gives_alone() -> None:
    """With 50 labels a block has 52 chains."""
    rng = np.random.default_rng(3)
    lengths, edge = rng.integers(1, 5, size=90), 20 * rng.normal(size=(50, 50))
    layout = chains(lengths)
    node = rng.normal(size=(layout.n_positions, 50))
    edge[rng.random(edge.shape) < 0.1] = -np.inf
    best = chain.viterbi(layout, node, edge)[1]
    sums = sums_by_terms(layout, node, edge)
    pairs = np.zeros((50, 50))
    for k, rows in enumerate(layout.split(layout.flat)):
        alone = chains([len(rows)])
        np.testing.assert_array_equal(chain.viterbi(alone, node[rows], edge)[1], best[rows])
        own = sums_by_terms(alone, node[rows], edge)
        assert own.log_partition[0] == pytest.approx(sums.log_partition[k], rel=ROUNDING)
        np.testing.assert_allclose(own.node, sums.node[rows], atol=ROUNDING)
        pairs += own.edge
    np.testing.assert_allclose(sums.edge, pairs, atol=ROUNDING)


def assert_sums(batch: Batch, sums: ChainSums, weights: Tensor, scale: float = 1.0) -> None:
    """log Z, posteriors and expected pairs are those of brute force; ``scale`` is the size of the scores."""
    close = ROUNDING * max(1.0, 1e-5 * scale)
    pairs, squared = np.zeros_like(batch.edge), np.zeros_like(batch.edge)
    posteriors = batch.layout.split(sums.node[batch.layout.flat])
    for k in range(batch.layout.n_chains):
        truth = batch.truth(k)
        assert sums.log_partition[k] == pytest.approx(enumeration.log_partition(*truth), rel=ROUNDING, abs=ROUNDING)
        for t in range(len(posteriors[k])):
            np.testing.assert_allclose(posteriors[k][t], enumeration.marginal(*truth, [t]), atol=close)
            if t:
                at = ... if batch.edge.ndim == 2 else t - 1
                pair = enumeration.marginal(*truth, [t - 1, t])
                pairs[at] += weights[k] * pair
                squared[at] += weights[k] * pair**2
    np.testing.assert_allclose(sums.edge, pairs, atol=close * max(1.0, batch.layout.n_positions))
    if sums.edge_squared is not None:
        np.testing.assert_allclose(sums.edge_squared, squared, atol=close * max(1.0, batch.layout.n_positions))


@given(batches() | batches(steps=True), st.booleans())
@EXAMPLES
def test_forward_backward_sums_over_all_labellings(batch: Batch, weighted: bool) -> None:
    given_node, given_edge = batch.node.copy(), batch.edge.copy()
    weights = np.linspace(0.0, 2.0, batch.layout.n_chains)
    given_weights, used = (weights, weights) if weighted else (None, np.ones(len(weights)))
    every_method = (chain.sum_product, sums_by_terms, chain.rescaled)
    for oracle in every_method if batch.edge.ndim == 2 else every_method[:2]:
        sums = oracle(*batch, given_weights, squares=True)
        assert sums is not None
        assert_sums(batch, sums, used)
    np.testing.assert_array_equal(batch.node, given_node)
    np.testing.assert_array_equal(batch.edge, given_edge)


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
def test_log_messages_are_exact_up_to_their_reach_and_rescaled_ones_up_to_theirs(batch: Batch, weighted: bool) -> None:
    weights = np.array([0.0, 1.0, 2.0])[: batch.layout.n_chains] if weighted else None
    used = np.ones(batch.layout.n_chains) if weights is None else weights
    given_node, given_edge = batch.node.copy(), batch.edge.copy()
    every = [log_messages(*batch, weights), chain.sum_product(*batch, weights)]
    if np.ptp(batch.edge) <= DROPPED_GAIN:
        every.append(chain.rescaled(*batch, weights))
    for found in every:
        assert found is not None
        assert_sums(batch, found, used, float(np.abs(batch.node).max()))
    np.testing.assert_array_equal(batch.node, given_node)
    np.testing.assert_array_equal(batch.edge, given_edge)


@pytest.mark.parametrize("range_of_edges", [REACH + 1.0, 20_000.0, np.inf])
def test_log_messages_are_not_used_beyond_their_reach(range_of_edges: float) -> None:
    # label 1 at the second position is reached from label 0 alone, at this cost, and pays it back there
    node, edge = np.array([[0.0, -1e6], [0.0, range_of_edges + 0.5]]), np.array([[0.0, -range_of_edges], [0.0, 0.0]])
    if not np.isfinite(range_of_edges):
        node[1, 1] = 0.5
    batch = Batch(chains([2]), node, edge)
    assert log_messages(*batch) is None
    assert_sums(batch, chain.sum_product(*batch), np.ones(1), 1e6)


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


@pytest.mark.parametrize("seed", [858, 1224])  # of 4000: there v^2 and the shares' squares leave the numbers
def test_squares_that_overflow_are_summed_a_position_at_a_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_labels, layout = int(rng.integers(2, 5)), chains(rng.integers(1, 8, size=4))
    scale, shapes = rng.uniform(100, 640), [(layout.n_positions, n_labels), (n_labels, n_labels)]
    node = -rng.uniform(0, scale, size=shapes[0]) * (rng.random(shapes[0]) < 0.5)
    edge = -rng.uniform(0, scale, size=shapes[1]) * (rng.random(shapes[1]) < 0.6)
    sums = chain.rescaled(layout, node, edge, squares=True)
    assert sums is not None
    assert_sums(Batch(layout, node, edge), sums, np.ones(4), scale)


_drawn = np.random.default_rng(11)
#: Node (T, S) and edge scores: ordinary ones; a label that costs 300 nats and pays them back at its position, or 800,
#: where every term of a message underflows; forbidden labels and pairs.
SAMPLED = {
    "ordinary": (_drawn.normal(size=(3, 2)), _drawn.normal(size=(2, 2))),
    "far apart": (np.array([[0.2, 0.1], [0.0, 299.0], [0.3, 299.0]]), np.array([[0.0, -299.5], [0.4, -298.0]])),
    "underflow": (np.array([[0.0, -800.0], [0.0, 800.3]]), np.array([[0.0, -799.5], [0.0, 0.4]])),
    "forbidden": (
        np.array([[0.0, 0.0, -np.inf]] * 4),
        np.array([[0.0, 0.0, 0.0], [-np.inf, 0.0, 0.0], [0.0, 0.0, 0.0]]),
    ),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_come_with_the_frequencies_of_the_gibbs_distribution(name: str) -> None:
    """By chi-squared, chains of the whole length and of one step less; what is impossible is never drawn."""
    (node, edge), copies = SAMPLED[name], 6000
    lengths = (len(node), len(node) - 1)
    layout = chains(lengths * copies)
    flat = np.concatenate([node, node[:-1]] * copies)
    packed = chain.sample(layout, flat[layout.packed], edge, np.random.default_rng(5))
    drawn = layout.split(packed[layout.flat])
    for offset, length in enumerate(lengths):
        cards, factors = enumeration.chain_factors(node[:length], edge)
        expected = enumeration.posterior(cards, factors) * copies
        observed = np.bincount(np.array(drawn[offset::2]) @ cards[0] ** np.arange(length), minlength=len(expected))
        likely = expected > 5
        assert not observed[expected < 1e-9].any()
        statistic = ((observed - expected)[likely] ** 2 / expected[likely]).sum()
        assert statistic < chi2.ppf(1 - 1e-4, max(int(likely.sum()) - 1, 1))


@pytest.mark.parametrize("squares", [False, True])
def test_chains_of_one_position_need_no_pair_that_is_allowed(squares: bool) -> None:
    sums = chain.sum_product(chains([1, 1]), np.zeros((2, 2)), np.full((2, 2), -np.inf), squares=squares)
    np.testing.assert_allclose(sums.log_partition, np.log(2.0))
    np.testing.assert_allclose(sums.node, 0.5)
    assert not sums.edge.any()


@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize(("wrong", "named"), [("a label", 0), ("a pair", 0), ("a chain of one", 1)])
def test_a_chain_without_an_allowed_labelling_is_named(wrong: str, named: int, squares: bool) -> None:
    layout = chains(np.array([3, 1, 2]))
    node, edge = np.zeros((layout.n_positions, 2)), np.zeros((2, 2))
    if wrong == "a pair":
        edge[:] = -np.inf
    else:
        node[layout.flat[3 if named else 1]] = -np.inf
    with pytest.raises(ValueError, match=f"forbid every labelling of chain {named},"):
        chain.sum_product(layout, node, edge, squares=squares)
    low = np.full((layout.n_positions, 2), -1.7e308)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="scores overflow on chain 0"):
        chain.sum_product(layout, low, np.zeros((2, 2)), squares=squares)


def test_messages_by_terms_are_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of two chains: each position's message is the log-sum over all labellings that end there."""
    rng = np.random.default_rng(0)
    layout = chains([3, 1, 4, 3, 2])
    node, edge = rng.normal(size=(layout.n_positions, 3)), 30.0 * rng.normal(size=(3, 3))
    monkeypatch.setattr(chain, "BLOCK", 2 * edge.size)
    found = layout.split(chain._messages_by_terms(layout, node, edge)[layout.flat])
    for scores, messages in zip(layout.split(node[layout.flat]), found, strict=True):
        for t, message in enumerate(messages):
            every = enumeration.labellings([3] * (t + 1))
            value = scores[np.arange(t + 1), every].sum(axis=1) + edge[every[:, :-1], every[:, 1:]].sum(axis=1)
            truth = [np.logaddexp.reduce(value[every[:, -1] == s]) for s in range(3)]
            np.testing.assert_allclose(message, truth, rtol=ROUNDING)
