"""Directions without end of small conditional random fields, against a linear program over all labellings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from convexstruct.arrays import Matrix
from convexstruct.families.log_linear import ConditionalRandomField

EDGES: dict[int, list[list[tuple[int, int]]]] = {
    1: [[]],
    2: [[(0, 1)]],
    3: [[(0, 1), (1, 2)], [(0, 1), (1, 2), (0, 2)]],
}


def small(seed: int) -> ConditionalRandomField:
    """Four to eight examples of up to three nodes with a feature of -1, 0 or 1; now and then a forbidden pair."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4, size=rng.integers(4, 9)).tolist()
    edges = [np.array(EDGES[n][rng.integers(len(EDGES[n]))], dtype=np.int64).reshape(-1, 2) for n in lengths]
    x = [rng.integers(-1, 2, size=(n, 1)).astype(float) for n in lengths]
    labels = [rng.integers(2, size=n) for n in lengths]
    pairs = {(int(y[a]), int(y[b])) for y, part in zip(labels, edges) for a, b in part}
    free = [pair for pair in itertools.product(range(2), repeat=2) if pair not in pairs]
    forbidden = None
    if free and rng.random() < 0.5:
        forbidden = np.zeros((2, 2), dtype=bool)
        forbidden[free[0]] = True
    return ConditionalRandomField.read(x, labels, 2, edges=edges, forbidden=forbidden)


def differences(problem: ConditionalRandomField) -> Matrix:
    """f(x_i, y_i) - f(x_i, y) of every example and labelling without a forbidden pair."""
    features, rows = problem.features, []
    for i in range(problem.n_examples):
        own = features.some(np.array([i]))
        for y in itertools.product(range(features.n_labels), repeat=own.n_nodes):
            labels = np.array(y)
            first, second = labels[own.edges].T
            if problem.forbidden is None or not problem.forbidden[first, second].any():
                apart = own.joint(own.truth, np.ones(1)) - own.joint(labels, np.ones(1))
                rows.append(np.append(apart, np.zeros(features.dimension - len(apart))))
    return np.array(rows)


def exists(rows: Matrix) -> bool:
    """Whether a d with rows d >= 0, not all 0, exists: the largest sum of gains of at most 1 each."""
    n, d = rows.shape
    cost = np.append(np.zeros(d), -np.ones(n))
    above = np.hstack([-rows, np.eye(n)])
    found = linprog(cost, above, np.zeros(n), bounds=[(None, None)] * d + [(0, 1)] * n, method="highs")
    return bool(-found.fun > 0.5)  # the gains can be scaled: it is 0, or at least 1


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_a_direction_is_found_if_and_only_if_there_is_one(seed: int) -> None:
    problem = small(seed)
    rows = differences(problem)
    d = problem.runaway()
    assert (d is not None) == exists(rows)
    if d is not None:
        gains = rows @ d / np.abs(d).max()
        assert gains.min() > -1e-6
        assert gains.max() > 1e-6


@pytest.mark.parametrize("small", [1e-3, 1e-7, 1e-9, 1e-11])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_small_difference_is_a_difference(small: float, sign: float) -> None:
    """One feature, -1, -1 and a small number, all of label 0: separable if and only if this number is negative too."""
    problem = ConditionalRandomField.read([[[-1.0]], [[-1.0]], [[sign * small]]], [[0], [0], [0]], 2)
    found = problem.runaway()
    assert (found is not None) == (sign < 0)
    if found is not None:
        assert (differences(problem) @ found).min() >= 0


@pytest.mark.parametrize("label", [0, 1])
def test_what_rounding_leaves_of_equal_sums_is_no_difference(label: int) -> None:
    """The two labellings of a star whose neighbours differ have features 0.1 + 0.2 and 0.3, the same but for rounding;
    so a single node decides the direction, whichever sign it asks for."""
    x, edges = [[[0.1], [0.2], [0.3]], [[1.0]]], [[[0, 2], [1, 2]], np.zeros((0, 2), dtype=np.int64)]
    problem = ConditionalRandomField.read(
        x, [[0, 0, 1], [label]], 2, edges=edges, edge_features=[np.zeros((2, 1)), np.zeros((0, 1))],
        forbidden=np.eye(2, dtype=bool),
    )  # fmt: skip
    found = problem.runaway()
    assert found is not None
    assert (found[0] - found[1]) * (1 - 2 * label) > 0


def test_features_below_the_normal_numbers_are_no_error() -> None:
    """Single labels that the features do not tell apart, at any size: no direction."""
    labels = list(np.random.default_rng(1).integers(2, size=(20, 1)))
    for size in (1.0, 1e-310):
        inputs = list(size * np.random.default_rng(0).normal(size=(20, 1, 2)))
        assert ConditionalRandomField.read(inputs, labels, 2).runaway() is None
