"""Labels from M, and the best names for them, against all maps written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.families.unsupervised_margin.labels_from_gram import best_names, k_means, labels_from_gram
from convexstruct.tolerances import ROUNDING

SEEDS = st.integers(0, 2**32 - 1)


def same_partition(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(((one[:, None] == one) == (other[:, None] == other)).all())


@given(SEEDS, st.integers(2, 4))
@settings(max_examples=40, deadline=None)
def test_noise_that_is_small_beside_the_blocks_does_not_matter(seed: int, kappa: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(kappa), 5))
    noise = float(rng.choice([0.0, 0.1])) * rng.uniform(-1.0, 1.0, size=(len(y), len(y)))
    assert same_partition(labels_from_gram((y[:, None] == y) + noise + noise.T, kappa), y)


@pytest.mark.parametrize("kappa", [2, 3])
def test_m_whose_largest_eigenvalue_is_multiple_has_labels_too(kappa: int) -> None:
    labels = labels_from_gram(np.full((14, 14), 25 / 52) + 27 / 52 * np.eye(14), kappa)
    assert labels.shape == (14,)
    assert set(labels.tolist()) <= set(range(kappa))


def test_k_means_leaves_no_point_nearer_to_another_groups_centre() -> None:
    points = np.random.default_rng(0).normal(size=(60, 2))
    groups = k_means(points, 3)
    centres = np.array([points[groups == g].mean(axis=0) for g in range(3)])
    away = ((points[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_allclose(away[np.arange(60), groups], away.min(axis=1), atol=ROUNDING)


@given(SEEDS, st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_the_best_names_are_those_of_all_maps(seed: int, n_predicted: int, n_true: int) -> None:
    rng = np.random.default_rng(seed)
    predicted, true = rng.integers(0, n_predicted, size=20), rng.integers(0, n_true, size=20)
    named = best_names(predicted, true)
    size = max(n_predicted, n_true)
    every = [float((np.array(names)[predicted] != true).mean()) for names in itertools.permutations(range(size))]
    assert named.error == pytest.approx(min(every), abs=ROUNDING)
    assert float((named.names[predicted] != true).mean()) == pytest.approx(named.error, abs=ROUNDING)
    shared = best_names(predicted, true, shared=True)
    anything = [
        float((np.array(names)[predicted] != true).mean())
        for names in itertools.product(range(n_true), repeat=n_predicted)
    ]
    assert shared.error == pytest.approx(min(anything), abs=ROUNDING)


def test_one_map_serves_all_sequences() -> None:
    predicted = [np.array([0, 0, 1]), np.array([1, 0])]
    true = [np.array([1, 1, 0]), np.array([1, 0])]  # the second one would like the other map
    assert best_names(predicted, true).error == pytest.approx(0.4)
