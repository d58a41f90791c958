"""Small convex energy networks for tests, and the least energy by enumeration of the faces of the cube."""

from __future__ import annotations

from itertools import product

import numpy as np

from convexstruct.arrays import Matrix, Point, Vector
from convexstruct.families.energy_network import ConvexEnergyNetwork


def small(
    seed: int, n: int = 5, d: int = 3, n_labels: int = 3, n_units: int = 0, lam: float = 0.5
) -> ConvexEnergyNetwork:
    rng = np.random.default_rng([7, seed])
    hidden = rng.normal(size=(n_units, n_labels + 1)) if n_units else None
    return ConvexEnergyNetwork(rng.normal(size=(n, d)), rng.integers(2, size=(n, n_labels)), lam, hidden)


def weights(
    problem: ConvexEnergyNetwork, rng: np.random.Generator, size: float = 1.0, rank: int = 2
) -> dict[str, Matrix]:
    """A feasible point: Q of a small rank."""
    b = rng.normal(size=(problem.T.shape[1], rank))
    found = {"U": size * rng.normal(size=problem.shapes["U"]), "Q": size * b @ b.T}
    return found if problem.hidden is None else {**found, "v": size * rng.uniform(size=problem.shapes["v"])}


def least_energy(q: Matrix, scores: Vector) -> float:
    """min over the cube of -scores'y + y'Qy/2, Q positive definite: on each of the 3^L faces the minimum of its affine
    hull, where it lies in the face."""
    best = np.inf
    for face in product((0.0, 1.0, np.nan), repeat=len(scores)):
        y = np.array(face)
        free = np.isnan(y)
        y[free] = np.linalg.solve(q[np.ix_(free, free)], scores[free] - q[np.ix_(free, ~free)] @ y[~free])
        if ((y >= -1e-12) & (y <= 1.0 + 1e-12)).all():
            best = min(best, float(0.5 * y @ q @ y - scores @ y))
    return best


def written_out(problem: ConvexEnergyNetwork, point: Point) -> float:
    """J of a quadratic energy, by `least_energy`; from the definition, example by example."""
    u, q, x = point["U"], point["Q"], np.asarray(problem.X)
    value = 0.5 * problem.lam * float((u**2).sum() + (q**2).sum())
    for row, t in zip(x, problem.T):
        energy = float(-t @ u @ row + 0.5 * t @ q @ t)
        value += energy + float(t.sum()) - least_energy(q, u @ row + 1.0 - 2.0 * t)
    return value
