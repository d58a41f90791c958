"""Projections onto Q: their optimality conditions."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.risk_projection import onto_q
from convexstruct.tolerances import ROUNDING


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.integers(0, 10_000), st.sampled_from(["box", "bias", "levels", "classes"]))
def test_the_member_of_q_found_is_no_further_than_any_other(n: int, seed: int, kind: str) -> None:
    """<alpha - p, q - p> <= 0 for every q in Q says that p is the projection."""
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(n, 2)), rng.random(n) + 0.5
    problem = {
        "box": lambda: RegularizedRisk.binary(X, np.where(np.arange(n) % 2, 1, -1), 0.1, weights=weights),
        "bias": lambda: RegularizedRisk.binary(X, np.where(np.arange(n) % 2, 1, -1), 0.1, bias=True, weights=weights),
        "levels": lambda: RegularizedRisk.ordinal(X, np.arange(n) % 3, 0.1),
        "classes": lambda: RegularizedRisk.multiclass(X, np.arange(n) % 2, 0.1, n_classes=3, weights=weights),
    }[kind]()
    alpha = rng.normal(size=problem.n_pieces) * rng.choice([0.1, 1.0])
    nearest_one = onto_q(problem, alpha)
    assert max(problem.dual_residuals({"alpha": nearest_one}).values()) <= ROUNDING
    for _ in range(10):
        other = problem.feasible(rng.random(problem.n_pieces))
        assert (alpha - nearest_one) @ (other - nearest_one) <= ROUNDING
        corner = problem.best_alpha(rng.normal(size=problem.n_pieces))
        assert (alpha - nearest_one) @ (corner - nearest_one) <= ROUNDING
