"""The local marginal polytope of chains and junction trees against all labellings written out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import linprog

from convexstruct.features.counts.counts import Counts
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.marginals.polytope import local_polytope
from convexstruct.tolerances import ROUNDING
from tests.features.counts.test_counts import every_map


@every_map
@pytest.mark.parametrize("seed", range(3))
def test_a_linear_function_has_the_same_maximum_as_over_all_labellings(
    make: Callable[[int], Counts], seed: int
) -> None:
    """No equality follows from the others."""
    features = make(seed)
    theta = np.random.default_rng(100 + seed).normal(size=features.tables.dimension)
    polytope, table = local_polytope(features), enumerate_counts(features)
    cost = polytope.counts.T @ theta + polytope.loss
    result = linprog(-cost, A_eq=polytope.equality, b_eq=polytope.rhs, bounds=(0, None))
    best = np.full(len(features.examples), -np.inf)
    np.maximum.at(best, table.example, table.counts @ theta + table.loss)
    assert -result.fun == pytest.approx(features.examples.weights @ best, rel=ROUNDING)
    assert np.linalg.matrix_rank(polytope.equality.toarray()) == len(polytope.rhs)
