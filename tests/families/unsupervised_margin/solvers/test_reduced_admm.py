"""ADMM on the reduced SDP: its operators, its certificates, and when it stops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct.families.unsupervised_margin.solvers import reduced_admm
from convexstruct.families.unsupervised_margin.solvers.splitting import Splitting
from convexstruct.tolerances import ROUNDING
from tests.families.unsupervised_margin.solvers.test_low_rank import problem


def test_the_projection_of_a_state_is_idempotent_and_leaves_feasible_copies_alone() -> None:
    made = problem(1)
    splitting = Splitting(made)
    safe = made.feasible.safe
    state = splitting.copies(safe["M"], safe["N"])
    np.testing.assert_allclose(splitting.project(state), state, atol=ROUNDING)
    rng = np.random.default_rng(0)
    once = splitting.project(state + rng.normal(size=state.shape))
    np.testing.assert_allclose(splitting.project(once), once, atol=ROUNDING)


def test_steps_that_depend_on_each_other_are_combined_by_a_regular_system() -> None:
    """`REGULARISATION`: the same change twice makes the matrix of inner products singular."""
    steps = reduced_admm._Combination(2, 3)
    for k in (3.0, 2.0):
        steps.next(np.full(3, k), np.full(3, k), False)
    found = steps.next(np.ones(3), np.ones(3), True)
    np.testing.assert_allclose(found, 0.0, atol=1e-6)  # the image where the residual would be 0


@pytest.mark.parametrize("changes", [{}, {"n_labels": 3}, {"pairs": "none"}])
def test_polishing_leaves_feasible_points_alone_and_brings_others_near_them(changes: dict[str, Any]) -> None:
    made = problem(1, **changes)
    splitting, safe = Splitting(made), made.feasible.safe
    for name, array in splitting.polished(safe).items():
        np.testing.assert_allclose(array, safe[name], atol=ROUNDING)
    noise = {name: np.random.default_rng(0).normal(size=x.shape) for name, x in safe.items()}
    outside = {name: safe[name] + 0.3 * (each + each.T) for name, each in noise.items()}
    near = splitting.polished(outside)
    assert max(made.residuals(near).values()) < 0.1 * max(made.residuals(outside).values())
