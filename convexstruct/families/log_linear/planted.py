r"""Conditional random fields built backwards from their optimum.

theta is optimal where the residual g = C sum_i omega_i (f(x_i, y_i) - E_theta f) is lam theta + l1 s with s in the sign
of theta. Take one input, every labelling of it once as an example, and weights

    omega(y) = p_theta(y) (1 + <v, f(y) - E f>),     Cov_theta(f) v = g / C,

whose sum is 1 and under which f has the mean E f + Cov v = E f + g / C. They are positive for g small enough, and the
optimum is P(theta) = C (ln Z - <theta, E f + g / C>) + R(theta).
"""

from __future__ import annotations

import numpy as np

from convexstruct.core.cases import Instance
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.oracles.enumeration import labellings


def planted(n_labels: int, length: int, beta: float, l1: float, zeros: int, seed: int) -> Instance:
    """One input of ``length`` positions with two features, in all labellings; ``zeros`` : features whose weights are 0.

    Node weights sum to 0 over the labels and edge weights over all pairs, as g must. With three positions or fewer
    there would be more directions along which all labellings have the same score.
    """
    rng = np.random.default_rng([41, n_labels, seed])
    every = labellings([n_labels] * length)
    x = rng.normal(size=(length, 2))
    plain = ConditionalRandomField.read([x] * len(every), list(every), n_labels)
    joint = plain.features.joint_each(plain.features.truth).toarray()
    while True:
        centre = np.eye(n_labels) - 1.0 / n_labels
        node = centre @ rng.normal(size=(n_labels, 2))
        node[:, :zeros] = 0.0
        edge = centre @ np.diag(rng.uniform(0.3, 0.6, n_labels).mean() * np.ones(n_labels)) @ centre
        theta = np.concatenate((node.ravel(), edge.ravel()))
        sign = np.sign(theta)
        inside = centre @ rng.uniform(-0.4, 0.4, size=(n_labels, 2))
        g_node = np.where(node != 0, sign[: node.size].reshape(node.shape), inside) * l1 + beta * node
        g = np.concatenate((g_node.ravel(), l1 * sign[node.size :] + beta * edge.ravel()))
        scores = joint @ theta
        p = np.exp(scores - scores.max())
        p /= p.sum()
        away = joint - p @ joint
        v, *_ = np.linalg.lstsq((away * p[:, None]).T @ away, g, rcond=1e-10)
        weights = p * (1.0 + away @ v)
        fits = np.allclose((away * p[:, None]).T @ (away @ v), g, atol=1e-13, rtol=0.0)
        if fits and weights.min() > 0:
            break
    problem = ConditionalRandomField.read([x] * len(every), list(every), n_labels, weights=weights, l1=l1, beta=beta)
    point = {"theta": theta}
    return Instance(problem, float(problem.primal(point)), point)


def planted_ridge(seed: int) -> Instance:
    return planted(3, 4, 0.02, 0.0, 0, seed)


def planted_lasso(seed: int) -> Instance:
    return planted(2, 4, 1e-3, 0.01, 1, seed)


def flat(seed: int) -> Instance:
    """Every labelling of two inputs once: by symmetry theta = 0 is optimal, and P = C sum_i n_i ln S."""
    rng = np.random.default_rng([42, seed])
    every = labellings([3, 3])
    inputs = [x for x in rng.normal(size=(2, 2, 2)) for _ in every]
    problem = ConditionalRandomField.read(inputs, [*every, *every], 3, C=0.5)
    return Instance(problem, len(every) * 2 * float(np.log(3.0)), {"theta": np.zeros(problem.dimension)})
