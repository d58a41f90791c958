"""Hidden variables and partial labels: the observed case, and what is claimed where P goes to 0; `combinations` has
the values by all labellings written out."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear.hidden import HiddenField
from convexstruct.features.graphs.factors import tabular_factors


@pytest.mark.parametrize("tol", ["LOW", "HIGH"])
def test_where_p_goes_to_0_no_more_is_claimed_than_rounding_lets_a_certificate_prove(tol: str) -> None:
    """Without a penalty: the data are separable, and at P near 0 rounding decides how small the gap is."""
    for seed in range(0, 6, 2):
        rng = np.random.default_rng(seed)
        n = 2 + seed
        inputs = [rng.normal(size=(3, 6)) for _ in range(n)]
        allowed = [np.where(rng.random(3) < 0.4, -1, rng.integers(2, size=3)) for _ in range(n)]
        samples = np.where(rng.random((n, 4)) < 0.4, -1, rng.integers(2, size=4))
        for problem in (
            HiddenField.conditional(inputs, allowed, 2),
            HiddenField.unconditional(tabular_factors(nx.path_graph(4), 2), samples),
        ):
            assert solve(problem, tol=tol, max_iterations=100).status is not Status.INACCURATE
