r"""Convex energy networks whose optimum is known.

**Training.** Orthogonal inputs of one length rho, x_i'x_k = rho^2 [i = k], and all labels equal:

* All t = 0. By symmetry y_i = tau 1; s_Q = N tau^2 11'/2 is semidefinite, and the slope of D vanishes where
  lam = rho^2 tau + N L tau^3 / 2. Then D = N L tau - (N L rho^2 tau^2 + (N L tau^2 / 2)^2) / (2 lam).
* All t = 1. y_i = (1 - r) 1 has s_Q <= 0, so Q = 0, and the labels fall apart: r = lam / rho^2, D = N L r / 2.

**Steps.** Labels that the inputs show, without a penalty: the local energy -2 y'(2t - 1) alone has
E(W, t) - E(W, y) + Delta = - |y - t|_1 <= 0 at every y in the cube, so J = 0, which no J is below.

**Inference.** Choose Y and slopes g that vanish off the faces, point outwards at 1 (g <= 0) and inwards at 0 (g >= 0);
scores = Y Q + sum_k v_k softplus'(...) a_k - g make Y a minimum.
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Matrix
from convexstruct.core.cases import Instance
from convexstruct.families.energy_network.energy import Energy
from convexstruct.families.energy_network.inference import EnergyInference
from convexstruct.families.energy_network.problem import ConvexEnergyNetwork
from convexstruct.families.energy_network.unrolled import UnrolledEnergyNetwork


def orthogonal(rng: np.random.Generator, n: int, rho: float) -> Matrix:
    """rho times a permutation of the unit vectors, with signs; (n, n + 1), a column of zeros among them."""
    columns = rng.permutation(n + 1)[:n]
    x = np.zeros((n, n + 1))
    x[np.arange(n), columns] = rho * rng.choice([-1.0, 1.0], size=n)
    return x


def plant_zeros(rng: np.random.Generator, n: int, n_labels: int) -> Instance:
    """All labels 0; tau and rho are drawn."""
    tau, rho = float(rng.integers(2, 8)) / 8.0, float(rng.integers(2, 9)) / 4.0
    size = n * n_labels
    lam = rho**2 * tau + 0.5 * size * tau**3
    x = orthogonal(rng, n, rho)
    problem = ConvexEnergyNetwork(x, np.zeros((n, n_labels), dtype=np.int64), lam)
    value = size * tau - (size * rho**2 * tau**2 + (0.5 * size * tau**2) ** 2) / (2.0 * lam)
    return Instance(problem, value, problem.weights(np.full((n, n_labels), tau)))


def plant_ones(rng: np.random.Generator, n: int, n_labels: int) -> Instance:
    """All labels 1; r and rho are drawn."""
    r, rho = float(rng.integers(1, 8)) / 8.0, float(rng.integers(2, 9)) / 4.0
    x = orthogonal(rng, n, rho)
    problem = ConvexEnergyNetwork(x, np.ones((n, n_labels), dtype=np.int64), r * rho**2)
    return Instance(problem, 0.5 * n * n_labels * r, problem.weights(np.full((n, n_labels), r)))


def plant_shown(rng: np.random.Generator, n: int, n_labels: int, kind: str) -> Instance:
    """Inputs 2t - 1, in another order of columns, and a column of ones."""
    labels, order = rng.integers(2, size=(n, n_labels)), rng.permutation(n_labels)
    x = np.column_stack((2.0 * labels[:, order] - 1.0, np.ones(n)))
    steps = np.ldexp(rng.integers(1, 4, size=3).astype(np.float64), -3)
    problem = UnrolledEnergyNetwork(x, labels, 0.0, 3, steps, kind)
    point = {name: np.zeros(shape) for name, shape in problem.shapes.items()}
    point["U"][order, np.arange(n_labels)] = 2.0
    return Instance(problem, 0.0, point)


def plant_inference(rng: np.random.Generator, n: int, n_labels: int, n_units: int, rank: int) -> Instance:
    """A minimum with entries at both faces and between."""
    b = rng.integers(-2, 3, size=(n_labels, rank)).astype(np.float64)
    hidden = rng.integers(-2, 3, size=(n_units, n_labels + 1)).astype(np.float64) if n_units else None
    v = rng.integers(1, 4, size=n_units).astype(np.float64) if n_units else None
    y = rng.integers(1, 4, size=(n, n_labels)) / 4.0
    kind = rng.integers(0, 3, size=y.shape)
    y = np.select([kind == 0, kind == 1], [0.0, 1.0], y)
    g = np.select([kind == 0, kind == 1], [1.0, -1.0], 0.0) * rng.integers(1, 4, size=y.shape)
    a, offsets = (np.zeros((0, n_labels)), np.zeros(0)) if hidden is None else (hidden[:, :-1], hidden[:, -1])
    energy = Energy(b @ b.T, np.zeros(0) if v is None else v, a, offsets)
    problem = EnergyInference(energy.gradient(np.zeros(y.shape), y) - g, energy.Q, hidden, v)
    return Instance(problem, float(problem.primal({"Y": y})), {"Y": y})


def plant_flat(rng: np.random.Generator, n: int, n_labels: int) -> Instance:
    """No curvature: each label by the sign of its score."""
    scores = rng.integers(-4, 5, size=(n, n_labels)).astype(np.float64)
    scores[0, 0] = 0.0  # a tie
    problem = EnergyInference(scores, np.zeros((n_labels, n_labels)))
    return Instance(problem, -float(np.maximum(scores, 0.0).sum()), {"Y": (scores > 0).astype(np.float64)})
