"""A structural SVM with each connected component of its examples as an example of its own.

Under margin scaling with node losses the hinge of an example is the sum of the hinges of its connected components, so
the problem of the components, weighted as their examples are, has the same value at every w. It needs far smaller
pools: the labellings of an example are all combinations of those of its components.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from convexstruct.arrays import Point
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.inference.exact import ForestInference


def by_component(problem: StructuredSVM) -> StructuredSVM | None:
    """The problem of the components; None if every example is connected, or the problem cannot be split: under slack
    scaling or the zero-one loss, or if nodes or edges are not ordered by component, or graphs are not forests.

    Only forests are split, because there marginals of the components are a witness of the whole.
    """
    oracle, features = problem.oracle, problem.features
    if problem.scaling != "margin" or problem.loss.zero_one or not isinstance(oracle, ForestInference):
        return None
    layout = oracle.layout
    if layout.n_trees == features.n_examples or (np.diff(layout.tree) < 0).any():
        return None
    split = replace(features, node_start=np.concatenate(([0], layout.roots + 1)).astype(np.intp))
    if (np.diff(split.edge_example) < 0).any():
        return None
    loss = replace(problem.loss, example=split.example, n_examples=split.n_examples)
    weights = problem.weights[features.example[layout.roots]]
    return replace(problem, features=split, loss=loss, weights=weights)


def witness_of_whole(problem: StructuredSVM, split: StructuredSVM, witness: Point | Callable[[], Point]) -> Point:
    """A dual witness of the components, ``split``, as one of ``problem``: Gibbs measures stay, since they are products
    over components; mixtures of labellings become the marginals of the product over components."""
    if callable(witness):
        witness = witness()
    if "gibbs" in witness:
        shares = witness["gibbs_shares"][:, [0]]  # one share for all examples
        return {**witness, "gibbs_shares": np.repeat(shares, problem.n_examples, axis=1)}
    features = split.features
    node = np.zeros((features.n_nodes, features.n_labels))
    edge = np.zeros((features.n_edges, features.n_labels, features.n_labels))
    labels, shares = witness["labels"], witness.get("label_shares", np.zeros((0, split.n_examples)))
    rest = np.maximum(1.0 - shares.sum(axis=0), 0.0)
    for row, share in [*zip(labels.astype(np.int64), shares), (features.truth, rest)]:
        node[np.arange(features.n_nodes), row] += share[features.example]
        if features.n_edges:
            u, v = row[features.edges[:, 0]], row[features.edges[:, 1]]
            edge[np.arange(features.n_edges), u, v] += share[features.edge_example]
    return {"node_marginals": node, "edge_marginals": edge}
