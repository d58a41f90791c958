"""The upper bound of `ApproximateField` on P, against the exact P on graphs where exact inference is possible."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.families.log_linear.approximate_field import ApproximateField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.features.graphs.factors import read_factors, tabular_factors


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_above_p_and_equal_to_it_on_trees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for graph, exact in ((nx.cycle_graph(5), False), (nx.path_graph(5), True)):
        factors = tabular_factors(graph, 3, tied=True)
        samples, weights = rng.integers(3, size=(7, 5)), rng.random(7) + 0.5
        options: dict[str, Any] = {"weights": weights, "C_mean": 3.0, "l1": 0.1}
        known = MarkovRandomField.read(factors, samples, **options)
        wide = ApproximateField.read(factors, samples, **options)
        for scale in (0.0, 0.5, 3.0):
            point = {"theta": scale * rng.normal(size=factors.dimension)}
            value, bound = known.primal(point), wide.primal(point)
            assert bound.upper >= value.lower
            assert bound.allowance < 1e-10 * (1 + abs(float(bound)))
            if exact or scale == 0.0:
                assert float(bound) == pytest.approx(float(value), rel=1e-9)
        assert wide.trivial_value == pytest.approx(known.trivial_value, rel=1e-12)


def test_nothing_bounds_it_from_below_and_factors_of_three_not_from_above() -> None:
    wide = ApproximateField.read(read_factors([2, 2, 2], [[0, 1, 2]]), [[0, 1, 1]])
    found = certify(wide, wide.trivial()[0], wide.trivial()[1])
    assert found.primal == np.inf
    assert found.lower_bound == -np.inf
