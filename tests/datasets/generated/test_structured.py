"""Generated structured sets against enumeration: the labels that are planted, and their frequencies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from convexstruct.arrays import Vector
from convexstruct.datasets.generated.structured import noisy_images, random_chains, random_graphs, random_trees
from convexstruct.datasets.labelled import LabelledGraphs
from convexstruct.tolerances import ROUNDING

Make = Callable[..., LabelledGraphs]
MAKERS: list[Make] = [random_chains, random_trees, random_graphs]


def weights(graphs: LabelledGraphs) -> Vector:
    assert graphs.planted is not None
    return graphs.planted


def joint(features: Any, edges: NDArray[np.intp], n_labels: int, labellings: NDArray[np.int64]) -> Vector:
    """f(x_i, y) of each row of ``labellings`` (m, n), node weights before edge weights, from the definition."""
    table = features.toarray() if sp.issparse(features) else features
    of = np.eye(n_labels)[labellings]
    node = np.einsum("mns,nf->msf", of, table)
    edge = np.einsum("mqs,mqt->mst", of[:, edges[:, 0]], of[:, edges[:, 1]])
    return np.concatenate((node.reshape(len(of), -1), edge.reshape(len(of), -1)), axis=1)


def examples(graphs: LabelledGraphs) -> Iterator[tuple[NDArray[np.int64], Callable[[Any], Vector]]]:
    """The labels of each example, and its joint features as a function of labellings (m, n)."""
    for i, (labels, edges) in enumerate(zip(graphs.labels_each, graphs.edges_each)):
        features = graphs.node_features[graphs.node_start[i] : graphs.node_start[i + 1]]
        yield labels, partial(joint, features, edges, graphs.n_labels)


def every(n: int, n_labels: int) -> NDArray[np.int64]:
    """All labellings of n nodes."""
    return np.array(list(itertools.product(range(n_labels), repeat=n)))


@pytest.mark.parametrize("make", MAKERS)
def test_graphs_are_of_the_kind_and_sizes_asked_for(make: Make) -> None:
    assert make(2, 3, 1, 1, active=1, noise=0.0).labels.tolist() == [0] * 6
    graphs = make(40, (1, 7), 3, 4, seed=0)
    sizes = np.diff(graphs.node_start)
    assert set(sizes) == set(range(1, 8))
    for n, edges in zip(sizes, graphs.edges_each):
        graph: nx.Graph = nx.empty_graph(int(n))
        graph.add_edges_from(edges.tolist())
        assert nx.is_connected(graph)
        assert graph.number_of_edges() == len(edges)
        wanted = n - 1 if make is not random_graphs else min(n - 1 + 5, n * (n - 1) // 2)
        assert len(edges) == wanted
        if make is random_chains:
            assert edges.tolist() == [[t, t + 1] for t in range(n - 1)]


@pytest.mark.parametrize("make", [random_chains, random_trees])
@pytest.mark.parametrize("active", [None, 2])
def test_without_noise_the_labels_have_the_highest_planted_score(make: Make, active: int | None) -> None:
    graphs = make(60, (1, 5), 3, 4, active=active, signal=0.5, coupling=0.5, noise=0.0, seed=3)
    for labels, counts in examples(graphs):
        scores = counts(every(len(labels), 3)) @ weights(graphs)
        own = counts(labels[None]) @ weights(graphs)
        assert own[0] == pytest.approx(scores.max(), rel=ROUNDING, abs=ROUNDING)


def test_without_noise_changing_one_label_of_a_loopy_graph_gains_nothing() -> None:
    graphs = random_graphs(15, (1, 8), 3, 4, coupling=3.0, noise=0.0, seed=3)
    for labels, counts in examples(graphs):
        changed = np.array([labels, *labels[None].repeat(3 * len(labels), axis=0)])
        v, label = np.divmod(np.arange(3 * len(labels)), 3)
        changed[1 + np.arange(len(v)), v] = label
        scores = counts(changed) @ weights(graphs)
        assert scores.max() <= scores[0] + ROUNDING


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("noise", [0.5, 1.5])
def test_the_labels_are_drawn_from_the_planted_distribution(make: Make, noise: float) -> None:
    graphs = make(2000, (3, 4), 2, 2, signal=0.7, coupling=0.6, noise=noise, seed=5)
    surplus, variance = np.zeros((2, len(weights(graphs))))
    for labels, counts in examples(graphs):
        features = counts(every(len(labels), 2))
        scores = features @ weights(graphs) / noise
        probability = np.exp(scores - scores.max())
        probability /= probability.sum()
        mean = probability @ features
        surplus += counts(labels[None])[0] - mean
        variance += probability @ (features - mean) ** 2
    assert variance.min() > 25
    assert (np.abs(surplus) < 4.5 * np.sqrt(variance)).all()


def test_sparse_features_are_one_attribute_in_each_block() -> None:
    graphs = random_chains(10, 6, 3, 10, active=3, seed=0)
    features: Any = graphs.node_features
    assert isinstance(features, sp.csr_array)
    assert features.has_canonical_format
    table = features.toarray()
    assert set(np.unique(table)) == {0.0, 1.0}
    for block in (slice(0, 3), slice(3, 6), slice(6, 10)):
        assert (table[:, block].sum(axis=1) == 1).all()
        assert (table[:, block].sum(axis=0) > 0).all()


def test_images_are_grids_that_are_half_of_either_label() -> None:
    images = noisy_images(10, 8, (4, 6), noise=0.5, seed=0)
    assert images.n_examples == 10
    for labels in images.labels_each:
        assert labels.mean() == pytest.approx(0.5, abs=0.05)
    assert set(np.diff(images.node_start)) == {32, 40, 48}
    np.testing.assert_array_equal(images.node_features[:, 0], 1.0)
    surplus = images.node_features[:, 1] - (2 * images.labels - 1)
    assert surplus.std() == pytest.approx(0.5, rel=0.15)
    single = noisy_images(2, 1, 1, noise=0.0)
    assert single.edges.shape == (0, 2)
    np.testing.assert_array_equal(single.node_features[:, 1], 2 * single.labels - 1)


def test_smooth_images_agree_along_edges_and_the_contrast_sees_the_borders() -> None:
    def agreeing(images: LabelledGraphs) -> NDArray[np.bool_]:
        return np.asarray(np.equal(*images.labels[images.edges].T))

    smooth, rough = (noisy_images(10, noise=0.3, smoothness=s, seed=1) for s in (2.0, 0.0))
    assert agreeing(smooth).mean() > 0.8
    assert agreeing(rough).mean() == pytest.approx(0.5, abs=0.03)
    assert smooth.edge_features is not None
    contrast, same = smooth.edge_features[:, 1], agreeing(smooth)
    assert contrast[same].mean() > 2 * contrast[~same].mean()
