"""Every oracle over labelled graphs against all labellings: chains, forests level by level, junction trees."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.features.graphs.pairwise import PairwiseFeatures, read_pairwise
from convexstruct.inference.exact import (
    ChainInference,
    ForestInference,
    Inference,
    TreeInference,
    best_other,
    chain_inference,
    exact_inference,
    forest_inference,
    tree_inference,
)
from convexstruct.oracles import enumeration
from convexstruct.tolerances import ROUNDING
from tests.features.graphs.labelled_graphs import drawn_scores, labelled, labelled_graphs, truth_of
from tests.oracles.tree.test_junction_tree import score

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
SEEDS = st.integers(0, 2**32 - 1)


def oracles(features: PairwiseFeatures) -> list[Inference]:
    """All kinds of oracles that fit the graphs."""
    makers: list[Callable[[PairwiseFeatures], Inference]] = [exact_inference, tree_inference]
    if all(nx.is_forest(features.graph(i)) for i in range(features.n_examples)):
        makers.append(forest_inference)
    if features.is_chain and features.shared and features.n_edges:
        makers.append(chain_inference)
    return [make(features) for make in makers]


@given(labelled_graphs(), SEEDS, st.booleans())
@EXAMPLES
def test_the_best_labelling_and_the_best_other_than_any_one_are_those_of_all(
    features: PairwiseFeatures, seed: int, whole: bool
) -> None:
    rng = np.random.default_rng(seed)
    node, edge = drawn_scores(features, rng, whole)
    if whole and features.n_labels > 1:  # labels that are forbidden; the first is not
        node[:, 1:][rng.random((features.n_nodes, features.n_labels - 1)) < 0.3] = -np.inf
    for oracle in oracles(features):
        assert not oracle.relaxed
        best = oracle.best(node, edge)
        np.testing.assert_array_equal(best.upper, best.scores)
        for given_labels in (best.labels, features.truth):
            other = best_other(oracle, features, node, edge, given_labels)
            labels = zip(*(features.split_labels(each) for each in (best.labels, given_labels, other.labels)))
            for i, (first, than, second) in enumerate(labels):
                truth = truth_of(features, node, edge, i)
                every, values = enumeration.labellings(truth[0]), enumeration.scores(*truth)
                for value in (best.scores[i], score(first, *truth)):
                    assert value == pytest.approx(values.max(), rel=ROUNDING, abs=ROUNDING)
                greatest = values[(every != than).any(axis=1)].max(initial=-np.inf)
                assert other.scores[i] == other.upper[i]
                if np.isneginf(greatest):  # nothing else is allowed
                    assert np.isneginf(other.scores[i])
                    np.testing.assert_array_equal(second, than)
                    continue
                assert (second != than).any()
                for value in (other.scores[i], score(second, *truth)):
                    assert value == pytest.approx(greatest, rel=ROUNDING, abs=ROUNDING)


@given(labelled_graphs(), SEEDS)
@EXAMPLES
def test_sums_are_those_over_all_labellings(features: PairwiseFeatures, seed: int) -> None:
    rng = np.random.default_rng(seed)
    node, edge = drawn_scores(features, rng)
    share = rng.uniform(size=features.n_examples)
    for oracle in oracles(features):
        assert oracle.summable
        plain, weighted = oracle.sums(node, edge), oracle.sums(node, edge, share)
        posterior, pairs = np.zeros_like(node), np.zeros((features.n_edges, *edge.shape[-2:]))
        for i in range(features.n_examples):
            truth, first = truth_of(features, node, edge, i), int(features.node_start[i])
            assert plain.log_partition[i] == pytest.approx(enumeration.log_partition(*truth), rel=ROUNDING)
            for v in range(int(features.lengths[i])):
                posterior[first + v] = enumeration.marginal(*truth, [v])
            for e in np.flatnonzero(features.edge_example == i):
                pairs[e] = enumeration.marginal(*truth, (features.edges[e] - first).tolist())
        of_edges = share[features.edge_example][:, None, None]
        np.testing.assert_allclose(plain.node, posterior, atol=ROUNDING)
        np.testing.assert_allclose(weighted.node, posterior * share[features.example][:, None], atol=ROUNDING)
        for sums, wanted in ((plain, pairs), (weighted, pairs * of_edges)):
            np.testing.assert_allclose(sums.edge, wanted.sum(axis=0) if edge.ndim == 2 else wanted, atol=ROUNDING)


@given(labelled_graphs(), SEEDS, st.booleans())
@EXAMPLES
def test_the_best_labelling_of_each_loss_is_that_of_all_with_it(
    features: PairwiseFeatures, seed: int, whole: bool
) -> None:
    rng = np.random.default_rng(seed)
    node, edge = drawn_scores(features, rng, whole)
    steps = rng.integers(0, 3, size=node.shape)
    steps[np.arange(features.n_nodes), features.truth] = 0
    for oracle in oracles(features):
        table = oracle.by_loss(node, edge, steps)
        totals = np.zeros(features.n_examples, dtype=np.intp)
        for i in range(features.n_examples):
            truth, first = truth_of(features, node, edge, i), int(features.node_start[i])
            labels, scores = enumeration.labellings(truth[0]), enumeration.scores(*truth)
            loss = steps[first + np.arange(labels.shape[1]), labels].sum(axis=1)
            for total, value in enumerate(table.scores[i]):
                best = scores[loss == total].max(initial=-np.inf)
                assert value == pytest.approx(best, rel=ROUNDING, abs=ROUNDING) if np.isfinite(best) else value == best
            totals[i] = rng.choice(np.flatnonzero(np.isfinite(table.scores[i])))
        read = table.labels(totals)
        for i, y in enumerate(features.split_labels(read)):
            truth, first = truth_of(features, node, edge, i), int(features.node_start[i])
            assert steps[first + np.arange(len(y)), y].sum() == totals[i]
            assert score(y, *truth) == pytest.approx(table.scores[i, totals[i]], rel=ROUNDING, abs=ROUNDING)


@pytest.mark.parametrize("kind", ["chain", "forest", "graph"])
def test_samples_have_the_distribution_of_the_scores(kind: str) -> None:
    """1000 copies of one example, drawn at once: each labelling's share within five standard deviations."""
    one = labelled(np.random.default_rng(3), kind, n_examples=1, most=3, n_labels=2)
    many = one.some(np.zeros(1000, dtype=int))
    node, edge = drawn_scores(one, np.random.default_rng(4))
    wanted = enumeration.posterior(*truth_of(one, node, edge, 0))
    labels = enumeration.labellings([2] * one.n_nodes)
    for oracle in oracles(many):
        drawn = oracle.sample(np.tile(node, (1000, 1)), edge, np.random.default_rng(5)).reshape(1000, -1)
        shares = np.array([(drawn == y).all(axis=1).mean() for y in labels])
        assert (np.abs(shares - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / 1000) + 1e-3).all()


def test_the_oracle_that_fits_is_chosen() -> None:
    rng = np.random.default_rng(0)
    assert isinstance(exact_inference(labelled(rng, "chain", most=5)), ChainInference)
    assert isinstance(exact_inference(labelled(rng, "chain", n_edge_features=1)), ForestInference)
    assert isinstance(exact_inference(labelled(rng, "none")), ForestInference)
    triangle = read_pairwise(np.ones((3, 1)), [[0, 1, 0]], edges=[nx.cycle_graph(3)])
    oracle = exact_inference(triangle)
    assert isinstance(oracle, TreeInference)
    assert oracle.width == 2
    with pytest.raises(ValueError, match="cycle"):
        forest_inference(triangle)


def test_a_graph_too_wide_is_refused_by_its_width_and_sent_to_the_relaxation() -> None:
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 5))
    features = read_pairwise(
        [np.ones((1, 1)), np.ones((25, 1))], [[0], np.arange(25) % 11], edges=[nx.empty_graph(1), grid]
    )
    with pytest.raises(
        ValueError, match=r"graph of example 1, .*\(tree width 5 or more\).*use inference='relaxed'"
    ) as refused:
        exact_inference(features)
    assert "\n" not in str(refused.value)
