"""Projection onto the tetrahedron of (11) against the projection onto the hull of its corners."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from convexstruct.families.unsupervised_margin.solvers.tetrahedron import project_tetrahedron
from convexstruct.tolerances import ROUNDING

CORNERS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1]]).T


def hull(point: np.ndarray) -> np.ndarray:
    """The nearest point of the hull: nonnegative least squares with a heavy row that says the weights sum to 1."""
    heavy = 1e6
    weights, _ = nnls(np.vstack((CORNERS, heavy * np.ones(4))), np.append(point, heavy))
    return np.asarray(CORNERS @ weights)


@pytest.mark.parametrize("seed", range(2))
def test_it_is_the_nearest_point_of_the_hull_of_the_corners(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(3, 300)) * rng.choice([0.5, 1.0, 10.0], size=300) + 0.5
    found = project_tetrahedron(points)
    wanted = np.stack([hull(point) for point in points.T], axis=1)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    a, b, c = found
    assert min(c.min(), (a - c).min(), (b - c).min(), (c - a - b + 1).min()) >= -ROUNDING
    # no corner lies in the direction of the remainder: the condition of optimality, exact up to rounding
    rest = points - found
    for corner in CORNERS.T:
        assert ((corner[:, None] - found) * rest).sum(axis=0).max() <= ROUNDING * 10


def test_what_is_inside_stays_and_nothing_is_no_error() -> None:
    inside = np.array([[0.5, 1.0], [0.5, 1.0], [0.2, 1.0]])
    assert project_tetrahedron(inside).tolist() == inside.tolist()
    assert project_tetrahedron(np.zeros((3, 0))).shape == (3, 0)
