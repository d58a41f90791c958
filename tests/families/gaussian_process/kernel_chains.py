"""Small kernel CRFs, and (32) written out: the whole matrix K over all positions, and z_y of every labelling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from convexstruct.arrays import Vector
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.oracles.enumeration import labellings

KERNELS = [("rbf", {"gamma": 0.4}), ("linear", {"offset": 0.3}), ("polynomial", {"gamma": 0.5, "offset": 1.0})]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=[name for name, _ in KERNELS])


def small(
    seed: int,
    kernel: tuple[str, dict[str, float]] = KERNELS[0],
    lengths: tuple[int, ...] = (3, 1, 4, 2),
    n_labels: int = 3,
    eta: float = 0.7,
    lam: float = 1.3,
    stationary: bool = True,
) -> GaussianProcessSequences:
    """Random sequences of two features, rounded so that some inputs repeat."""
    rng = np.random.default_rng(seed)
    inputs = [np.round(rng.normal(size=(length, 2))) for length in lengths]
    labels = [rng.integers(n_labels, size=length) for length in lengths]
    return GaussianProcessSequences.read(
        inputs, labels, n_labels, kernel=kernel, eta=eta, lam=lam, stationary=stationary
    )


@dataclass(frozen=True)
class Naive:
    """(32) as it stands: K over (position, label) and (previous, label), z_y (labellings, P S + S^2) by sequence."""

    kernel: Vector
    each: list[Vector]
    z: Vector
    lam: float

    def scores(self, u: Vector) -> list[Vector]:
        return [rows @ (self.kernel @ u) for rows in self.each]

    def value(self, u: Vector) -> float:
        partition = sum(float(logsumexp(scores)) for scores in self.scores(u))
        return float(0.5 * self.lam * u @ self.kernel @ u - self.z @ self.kernel @ u + partition)

    def dual(self, distributions: list[Vector]) -> float:
        """sum_i H(beta_i) - (z - E z_y)'K(z - E z_y) / (2 lam) for a distribution over the labellings of each."""
        mean = sum((beta @ rows for beta, rows in zip(distributions, self.each)), np.zeros_like(self.z))
        entropy = -sum(float(beta[beta > 0] @ np.log(beta[beta > 0])) for beta in distributions)
        return entropy - float((self.z - mean) @ self.kernel @ (self.z - mean)) / (2 * self.lam)


def written_out(problem: GaussianProcessSequences) -> Naive:
    s, n = problem.n_labels, len(problem.places)
    step = np.concatenate([np.arange(length) for length in problem.lengths])
    tables = 1 if problem.stationary else max(int(problem.lengths.max()) - 1, 1)
    size = n * s + tables * s * s
    kernel = np.zeros((size, size))
    for p in range(n):
        for q in range(n):
            if not problem.stationary and step[p] != step[q]:
                continue
            for label in range(s):
                kernel[p * s + label, q * s + label] = problem.gram.matrix[problem.places[p], problem.places[q]]
    kernel[n * s :, n * s :] = problem.eta * np.eye(tables * s * s)
    each, z, start = [], np.zeros(size), 0
    for length in problem.lengths:
        several = labellings([s] * int(length))
        rows = np.zeros((len(several), size))
        for t in range(int(length)):
            rows[np.arange(len(rows)), (start + t) * s + several[:, t]] += 1
            if t:
                table = n * s + (0 if problem.stationary else t - 1) * s * s
                rows[np.arange(len(rows)), table + several[:, t - 1] * s + several[:, t]] += 1
        each.append(rows)
        truth = problem.labels[start : start + int(length)]
        z += rows[np.flatnonzero((several == truth).all(axis=1))[0]]
        start += int(length)
    return Naive(kernel, each, z, problem.lam)


def spread(problem: GaussianProcessSequences, u: Vector) -> Vector:
    """A coefficient for every position that gives the same function as u, one a distinct input."""
    label, transition = problem.split(u)
    shared = np.bincount(problem.rows, minlength=problem.n_inputs)
    return np.concatenate(((label / shared[:, None])[problem.rows].ravel(), transition.ravel()))


def optimum(problem: GaussianProcessSequences) -> float:
    """The least value of (32), every labelling written out: SciPy's BFGS over w = R u with K = R'R."""
    naive = written_out(problem)
    values, vectors = np.linalg.eigh(naive.kernel)
    root = vectors * np.sqrt(np.maximum(values, 0.0))  # K = root root', t = root w

    def objective(w: Vector) -> tuple[float, Vector]:
        t = root @ w
        value = 0.5 * naive.lam * float(w @ w) - float(naive.z @ t)
        slope = naive.lam * w - root.T @ naive.z
        for rows in naive.each:
            scores = rows @ t
            value += float(logsumexp(scores))
            slope = slope + root.T @ (rows.T @ softmax(scores))
        return value, slope

    found = minimize(objective, np.zeros(len(root)), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000})
    return float(found.fun)
