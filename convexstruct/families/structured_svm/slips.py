"""Mistakes that are easily made with a structural SVM: its scale, losses, weights, tables and edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from convexstruct.arrays import Point, Tensor, Vector
from convexstruct.core.scale import Scale
from convexstruct.core.slips import Slip, altered, conventions, moved, transposed, weights_forgotten
from convexstruct.families.structured_svm.latent import LatentSVM
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM


def slips(problem: StructuredSVM | OracleSVM | LatentSVM) -> Iterator[Slip]:
    if isinstance(problem, LatentSVM):
        yield from _of_latent(problem)
        return
    yield from conventions(problem, problem.n_examples)
    yield from weights_forgotten(problem)
    if isinstance(problem, OracleSVM):
        return
    other = {"margin": "slack", "slack": "margin"}[problem.scaling]
    yield altered(f"with {other} scaling: the problem has {problem.scaling} scaling", problem, scaling=other)
    if not problem.loss.zero_one:
        one = replace(problem.loss, zero_one=True)
        yield altered("with a margin of 1 for every wrong labelling: is the loss left out?", problem, loss=one)
        yield Slip(
            "it minimises the objective with the cost matrix transposed: is it cost[true, predicted]?",
            lambda _: replace(problem, loss=replace(problem.loss, costs=_transposed_costs(problem))),
        )
    yield Slip(
        "it minimises the objective without edges: are their scores left out?",
        lambda _: _alone(problem),
        lambda point: _without_edges(problem, point),
    )
    free = problem.features.n_node_weights
    table = (problem.features.n_labels, free // problem.features.n_labels)

    def edges(w: Vector, move: Any) -> Vector:
        return np.concatenate((w[:free], move(problem.features.split(w)[1]).ravel()))

    def nodes(w: Vector, move: Any) -> Vector:
        return np.concatenate((move(w[:free]).ravel(), w[free:]))

    def labels(w: Vector, by: int) -> Vector:
        edge = problem.features.split(w)[1]
        rolled: Tensor = np.roll(edge, by, axis=1 if edge.ndim == 2 else (1, 2))
        return np.concatenate((np.roll(w[:free].reshape(table), by, axis=0).ravel(), rolled.ravel()))

    said = "with its transitions transposed it is optimal: are they [current, previous]?"
    yield moved(said, "w", lambda w: edges(w, transposed))
    said = "with its node weights transposed it is optimal: are they (features, labels)?"
    yield moved(said, "w", lambda w: nodes(w, lambda part: part.reshape(table[::-1]).T))
    for by in (-1, 1):
        said = "with its labels shifted by one it is optimal: do your labels begin at 1?"
        yield moved(said, "w", partial(labels, by=by))


def _of_latent(problem: LatentSVM) -> Iterator[Slip]:
    model, first = problem.model, problem.known.argmax(axis=1)
    yield Slip(
        "it minimises the objective of the first allowed labels as if they were known: are labels completed?",
        lambda _: problem.machine(first),
    )
    every = replace(model.loss, costs=1.0 - np.eye(model.features.n_labels)[first], truth=first)
    yield Slip(
        "it minimises the objective with losses of latent labels too: is the loss 0 on every allowed label?",
        lambda _: replace(problem, model=replace(problem.machine(first), loss=every)),
    )


def _transposed_costs(problem: StructuredSVM) -> Any:
    """The costs of nodes if the matrix is read as [predicted, true], as far as the true labels show its rows."""
    size, loss = problem.features.n_labels, problem.loss
    matrix = np.zeros((size, size))
    matrix[loss.truth] = loss.costs
    if (matrix[loss.truth] != loss.costs).any() or (matrix == matrix.T).all():
        raise ValueError("the costs are of no matrix, or of a symmetric one")
    return matrix.T[loss.truth]


def _alone(problem: StructuredSVM) -> StructuredSVM:
    features = problem.features
    if not features.n_edges or problem.scaling != "margin" or problem.loss.zero_one:
        raise ValueError("there are no edges, or examples are no sums over nodes")
    alone = StructuredSVM.read(
        features.node_features, features.split_labels(features.truth), features.n_labels, edges="none",
        weights=problem.weights, C=1.0,
    )  # fmt: skip
    scale = Scale(problem.lam, problem.scale.C)
    return replace(alone, scale=scale, loss=replace(problem.loss, costs=problem.loss.costs))


def _without_edges(problem: StructuredSVM, point: Point) -> Point:
    free = problem.features.n_node_weights
    if point["w"][free:].any():
        raise ValueError("the edges have weights")
    return {"w": point["w"][:free]}
