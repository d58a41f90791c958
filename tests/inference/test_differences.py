"""Psi from marginals that are wrong by as much as is said of them."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.inference.differences import Marginals
from tests.features.graphs.labelled_graphs import labelled

#: The relative error of each marginal, far above the rounding of any sum.
RELATIVE = 1e-6


@pytest.mark.parametrize("n_edge_features", [0, 2], ids=["shared", "features"])
@pytest.mark.parametrize("seed", range(10))
def test_psi_is_right_to_its_error_where_every_marginal_is_off(seed: int, n_edge_features: int) -> None:
    rng = np.random.default_rng(seed)
    features = labelled(rng, "graph", n_edge_features=n_edge_features, sparse=bool(seed % 2))
    size, (s, t) = features.n_labels, features.truth[features.edges].T
    node = rng.dirichlet(np.ones(size), size=features.n_nodes)
    edge = rng.dirichlet(np.ones(size * size), size=features.n_edges).reshape(-1, size, size)
    off_node, off_edge = (part * (1 + RELATIVE * rng.choice([-1, 1], size=part.shape)) for part in (node, edge))
    mixed = Marginals.none(features)
    mixed.add_tables(off_node, off_edge, np.ones(features.n_examples), 1.001 * RELATIVE)
    found = mixed.psi(mixed.differences())
    true_node, true_edge = np.zeros_like(node), np.zeros_like(edge)
    true_node[np.arange(features.n_nodes), features.truth] = 1.0
    true_edge[np.arange(features.n_edges), s, t] = 1.0
    apart = np.abs(features.adjoint(true_node - node, true_edge - edge) - found.value)
    assert (apart <= found.errors + 1e-13).all()
    assert apart.max() > 0.01 * found.errors.max()


@pytest.mark.parametrize("n_edge_features", [0, 2], ids=["shared", "features"])
def test_the_gain_is_right_to_its_error_where_every_marginal_is_off(n_edge_features: int) -> None:
    """Scores of nodes alone, then of edges alone; the mixture is added to an empty one."""
    reached = np.zeros(2)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        features = labelled(rng, "graph", n_edge_features=n_edge_features)
        size, share = features.n_labels, np.ones(features.n_examples)
        tables = [rng.dirichlet(np.ones(k), size=n) for k, n in ((size, features.n_nodes), (size**2, features.n_edges))]
        tables[1] = tables[1].reshape(-1, size, size)
        off = [part * (1 + RELATIVE * rng.choice([-1, 1], size=part.shape)) for part in tables]
        scores = (
            rng.normal(size=(features.n_nodes, size)),
            rng.normal(size=(size, size) if features.shared else off[1].shape),
        )
        for k in range(2):
            node, edge = (each * (k == i) for i, each in enumerate(scores))
            found = []
            for given, relative in ((tables, 0.0), (off, 1.001 * RELATIVE)):
                part, mixed = Marginals.none(features), Marginals.none(features)
                part.add_tables(given[0], given[1], share, relative)
                mixed.add(part)
                found.append(mixed.gain(node, edge))
            apart = abs(float(found[1]) - float(found[0]))
            assert apart <= found[1].allowance + found[0].allowance
            reached[k] = max(reached[k], apart / found[1].allowance)
    assert reached.min() > 0.02
