"""Models that cases and experiments share: grids, Ising models, and the triangle of (20.17)-(20.23)."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np

from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.features.graphs.factors import Factors, factors_of_features


def image(rows: int, columns: int) -> nx.Graph:
    """A grid, its nodes numbered row after row."""
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns))


def ising(graph: nx.Graph, tied: bool = False) -> Factors:
    """Agreement of each edge and label 1 of each node: a parameter each, or one for all edges and one for all nodes."""
    edges = [(edge, np.eye(2)) for edge in graph.edges]
    nodes = [((v,), [0.0, 1.0]) for v in graph.nodes]
    return factors_of_features([2] * len(graph), [edges, nodes] if tied else [[one] for one in edges + nodes])


def triangle(moments: Sequence[float]) -> MarkovRandomField:
    """Tied features 00 and 11 on the edges of a triangle, with these moments."""
    tables, edges = (np.diag([1.0, 0.0]), np.diag([0.0, 1.0])), ((0, 1), (1, 2), (0, 2))
    factors = factors_of_features([2, 2, 2], [[(edge, table) for edge in edges] for table in tables])
    return MarkovRandomField.read(factors, moments=moments)
