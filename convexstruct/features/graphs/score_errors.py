"""How large the scores of an example may be, and how far computed ones lie from the exact."""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.rounding import TINY, gamma, longest_row, magnitudes


def score_errors(features: PairwiseFeatures, w: Vector) -> tuple[Vector, Vector]:
    """(size, error) at weights w (d,): of each example at least the sum over its nodes of the largest |score| of any
    label, and of the largest error of such a score, and the same of its edges; (2, N) each.

    A maximum over labellings moves by no more than the errors' sum, and so does a logarithm of a sum over them. With
    W_f = max_s |w_node[s, f]| one product |X| W serves all labels.
    """
    node, edge = (np.abs(part) for part in features.split(w))
    of_nodes = magnitudes(features.node_features, node.max(axis=0))
    table = edge.max(axis=tuple(range(1, edge.ndim)), initial=0.0)
    if features.edge_features is None:
        of_edges = np.full(features.n_edges, float(table.sum()))
    else:
        of_edges = magnitudes(features.edge_features, table)
    n = features.n_examples
    size = np.zeros((2, n))
    size[0] = np.bincount(features.example, weights=of_nodes, minlength=n)
    size[1] = np.bincount(features.edge_example, weights=of_edges, minlength=n)
    terms = longest_row(features.node_features) + features.n_edge_features
    lost = 2.0 * TINY * terms * (features.n_nodes + features.n_edges) if w.any() else 0.0
    return size, gamma(terms + 2) * size + lost
