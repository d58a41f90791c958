"""The groups of tables of labelled graphs say what the convex program's variables say."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.features.graphs.pairwise import read_pairwise
from convexstruct.marginals.pairwise_polytope import adjoint_matrix
from convexstruct.marginals.pairwise_tables import PairwiseTables, clique_tables, node_and_edge_tables
from convexstruct.tolerances import ROUNDING

#: Graphs of several shapes in one batch: two triangles that share an edge, a lone node, a square, a path, two parts.
EDGES = [
    [(0, 1), (1, 2), (2, 0), (2, 3), (3, 1)],
    [],
    [(0, 1), (1, 2), (2, 3), (3, 0)],
    [(2, 1), (1, 0)],
    [(0, 1), (1, 2), (2, 0), (3, 4)],
]
SIZES = [4, 1, 4, 3, 5]


def batch(size: int = 2) -> PairwiseTables:
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(n, 2)) for n in SIZES]
    return clique_tables(read_pairwise(rows, [rng.integers(0, size, n) for n in SIZES], size, edges=EDGES))


def drawn(tables: PairwiseTables, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in tables.structure.shapes]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_scores_are_the_adjoint_of_marginals(size: int) -> None:
    tables, rng = batch(size), np.random.default_rng(1)
    features = tables.features
    some = drawn(tables, 2)
    node, edge = rng.normal(size=(features.n_nodes, size)), rng.normal(size=(features.n_edges, size, size))
    of_nodes, of_edges = tables.marginals(some)
    expected = np.vdot(node, of_nodes) + np.vdot(edge, of_edges)
    assert sum(np.vdot(x, y) for x, y in zip(tables.scores(node, edge), some)) == pytest.approx(expected, rel=ROUNDING)
    shared = tables.scores(node, edge[0])
    assert np.allclose(np.concatenate([x.ravel() for x in shared]), np.concatenate(
        [x.ravel() for x in tables.scores(node, np.broadcast_to(edge[0], edge.shape))]
    ))  # fmt: skip


def test_their_agreements_are_those_of_the_polytope() -> None:
    """Up to order and sign: the disagreement of any tables has the same entries in size."""
    tables = batch()
    some = drawn(tables, 3)
    assert tables.polytope is not None
    found = np.concatenate([np.abs(each).ravel() for each in tables.structure.disagreement(some)])
    wanted = np.abs(tables.polytope.agreement @ tables.flat(some))
    two_parts = wanted.size - found.size  # the empty separator's one equation, which the sums imply
    assert two_parts == 1
    assert np.setdiff1d(np.round(found, 9), np.round(wanted, 9)).size == 0


def test_the_tables_of_a_labelling_agree_and_have_its_features() -> None:
    rng = np.random.default_rng(4)
    rows, labels = [rng.normal(size=(n, 2)) for n in (3, 2)], [rng.integers(0, 3, n) for n in (3, 2)]
    features = read_pairwise(rows, labels, 3, edges=[[(2, 0), (0, 1)], [(1, 0)]])
    tables = node_and_edge_tables(features)
    y = features.truth
    node, edge = (
        np.eye(3)[y],
        np.eye(3)[y[features.edges[:, 0]]][:, :, None] * np.eye(3)[y[features.edges[:, 1]]][:, None],
    )
    assert all(not each.any() for each in tables.structure.disagreement([node, edge]))
    first, second = adjoint_matrix(features)
    assert first @ node.ravel() + second @ edge.ravel() == pytest.approx(features.joint(y), rel=ROUNDING)
