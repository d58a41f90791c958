"""Importance-sampled ln Z against junction trees, and its own standard error against repeated estimates."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.families.log_linear.importance import importance_log_partition
from convexstruct.features.graphs.factors import tabular_factors
from convexstruct.features.graphs.forbidden import forbid
from convexstruct.inference.factor_graphs import FactorInference

FACTORS = tabular_factors(nx.cycle_graph(5), 3, tied=True)
THETA = np.random.default_rng(0).normal(size=FACTORS.dimension)
EXACT = FactorInference(FACTORS).sums(FACTORS.design @ THETA).log_partition


@pytest.mark.parametrize("options", [{}, {"theta_0": 0.7 * THETA}, {"temperatures": 10}], ids=["0", "near", "annealed"])
def test_the_mean_of_z_is_z_and_the_standard_error_is_that_of_repetitions(options: dict[str, Any]) -> None:
    found = [importance_log_partition(FACTORS, THETA, 400, seed, **options) for seed in range(60)]
    ratio = np.exp(np.array([each.value for each in found]) - EXACT)
    error = float(np.mean([each.standard_error for each in found]))
    assert abs(ratio.mean() - 1) < 5 * error / 60**0.5
    assert 0.6 < ratio.std() / error < 1.5
    assert all(1 <= each.effective <= 400 for each in found)


@pytest.mark.parametrize("theta", [np.zeros(FACTORS.dimension), THETA], ids=["0", "theta"])
def test_the_standard_error_counts_the_share_of_samples_without_forbidden_labels(theta: Vector) -> None:
    bound = forbid(FACTORS, np.triu(np.ones((3, 3), dtype=bool), 1))
    found = [importance_log_partition(bound, theta, 200, seed) for seed in range(60)]
    away = np.array([each.value for each in found]) - FactorInference(bound).sums(bound.design @ theta).log_partition
    error = float(np.mean([each.standard_error for each in found]))
    assert abs(away.mean()) < 5 * error / 60**0.5
    assert 0.6 < away.std() / error < 1.5


def test_a_nearer_start_and_more_temperatures_are_worth_more_samples() -> None:
    effective = [
        importance_log_partition(FACTORS, THETA, 1000, **options).effective
        for options in ({}, {"temperatures": 20}, {"theta_0": THETA})
    ]
    assert effective[0] < effective[1] < effective[2]
    assert effective[2] == pytest.approx(1000)
    same = importance_log_partition(FACTORS, THETA, 10, theta_0=THETA)
    assert same.value == pytest.approx(EXACT, abs=1e-10)
    assert same.standard_error < 1e-12


def test_a_graph_too_wide_for_exact_samples_starts_from_zero_only() -> None:
    factors = tabular_factors(nx.complete_graph(9), 9, tied=True)
    theta = 0.1 * np.random.default_rng(0).normal(size=factors.dimension)
    assert np.isfinite(importance_log_partition(factors, theta, 5, temperatures=2).value)
    with pytest.raises(ValueError, match="exact inference is out of reach"):
        importance_log_partition(factors, theta, 5, theta_0=theta)
