"""Small Markov random fields, and their P with all joint labels written out."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from convexstruct.arrays import Labels, Vector
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.features.graphs.factors import Factors, tabular_factors
from convexstruct.oracles.enumeration import labellings

#: Moments of the triangle of (20.17)-(20.23): as printed, by the three rows of the slide, and inside the polytope.
CAMEL = {"printed": (2.0, 0.0), "rows": (5 / 3, 0.0), "inside": (1.5, 0.3)}
GRAPHS = {
    "path": nx.path_graph(4),
    "tree": nx.star_graph(3),
    "cycle": nx.cycle_graph(4),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(2, 3)),
    "two parts": nx.Graph([(0, 2), (1, 3)]),
}


def drawn(name: str = "cycle", seed: int = 0, n: int = 60, **options: Any) -> MarkovRandomField:
    """Tables on a graph's edges and nodes and samples of a random field; ``options`` as `MarkovRandomField.read` has
    them, ``tied`` and ``n_labels`` beside."""
    rng = np.random.default_rng(seed)
    graph, size, tied = GRAPHS[name], options.pop("n_labels", 2), options.pop("tied", False)
    factors = tabular_factors(graph, size, tied=tied)
    every = labellings(factors.cards)
    scores = factors.scores(rng.normal(size=factors.dimension), every)
    shares = np.exp(scores - np.logaddexp.reduce(scores))
    samples = every[rng.choice(len(every), size=n, p=shares / shares.sum())]
    return MarkovRandomField.read(factors, samples, **options)


def random_samples(factors: Factors, seed: int, n: int = 60) -> Labels:
    """Labels that depend on nothing (n, variables)."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(card, size=n) for card in factors.cards])


def value(problem: MarkovRandomField, theta: Vector) -> float:
    """P(theta), every joint label written out."""
    factors, scale = problem.factors, problem.scale
    scores = factors.joint_each(labellings(factors.cards)) @ theta
    fit = problem.mass * np.logaddexp.reduce(scores) - theta @ problem.sums
    return float(scale.C * fit + 0.5 * scale.lam * theta @ theta + problem.l1 * np.abs(theta).sum())
