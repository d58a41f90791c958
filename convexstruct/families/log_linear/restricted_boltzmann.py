r"""Restricted Boltzmann machines: one layer of hidden variables, trained by contrastive divergence (paper 4, 20.6).

    p(v, h) = e^{v'W h + b'v + c'h} / Z,      p(h_j | v) = sigma((v'W + c)_j),      p(v_i | h) = sigma((W h + b)_i)
    -ln p(v) = F(v) + ln Z,                   F(v) = -b'v - sum_j ln(1 + e^{(v'W + c)_j})

with all variables 0 or 1. This is a log-linear model whose log-likelihood is not concave. Its gradient is the clamped
moments (hidden variables given the data) minus the unclamped ones (all variables), and the latter need Z. Contrastive
divergence replaces them by k steps of Gibbs sampling from the data (all hidden, then all visible variables at once),
with expectations of h where possible, as in the slides. Nothing is certified, and no bound is claimed; `log_partition`
is exact where one layer is small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import Matrix, Vector
from convexstruct.core.options import at_least, not_below, positive, read_options, seed
from convexstruct.features.graphs.factors import Factors, factors_of_features
from convexstruct.oracles.enumeration import labellings
from convexstruct.validation.arguments import sentence
from convexstruct.validation.arrays import real

#: The largest number of variables of a layer all of whose states are enumerated for an exact ln Z.
LARGEST_LAYER = 20


@dataclass(frozen=True, eq=False)
class RestrictedBoltzmann:
    """weights (V, H) : W. visible (V,) : b. hidden (H,) : c."""

    weights: Matrix
    visible: Vector
    hidden: Vector

    def hidden_given(self, v: Matrix) -> Matrix:
        """p(h = 1 | v) for each row of v (m, V); (m, H)."""
        return np.asarray(scipy.special.expit(v @ self.weights + self.hidden))

    def visible_given(self, h: Matrix) -> Matrix:
        """p(v = 1 | h) for each row of h (m, H); (m, V)."""
        return np.asarray(scipy.special.expit(h @ self.weights.T + self.visible))

    def reconstruction(self, v: Matrix) -> Matrix:
        """p(v' = 1 | E[h | v]): the reconstruction of each row of v (m, V); (m, V)."""
        return self.visible_given(self.hidden_given(v))

    def free_energy(self, v: Matrix) -> Vector:
        """F(v) for each row of v (m, V), -ln of the sum of e^score over h; (m,)."""
        return np.asarray(-(v @ self.visible) - np.logaddexp(0.0, v @ self.weights + self.hidden).sum(axis=1))

    def log_partition(self) -> float:
        """ln Z, by enumeration of the smaller layer.

        Raises
        ------
        ValueError
            If both layers have more than `LARGEST_LAYER` variables.
        """
        n_visible, n_hidden = self.weights.shape
        if min(n_visible, n_hidden) > LARGEST_LAYER:
            raise sentence(
                f"the smaller layer has {min(n_visible, n_hidden)} variables, wanted at most {LARGEST_LAYER} for an "
                "exact ln Z; estimate it by importance_log_partition of as_factors()"
            )
        turned = self if n_visible <= n_hidden else RestrictedBoltzmann(self.weights.T, self.hidden, self.visible)
        every = labellings([2] * min(n_visible, n_hidden)).astype(np.float64)
        return float(np.logaddexp.reduce(-turned.free_energy(every)))

    def log_likelihood(self, v: Matrix) -> float:
        """The mean of ln p(v) over the rows of v (m, V)."""
        return float(-self.free_energy(v).mean()) - self.log_partition()

    def moments(self, v: Matrix, shares: Vector | None = None) -> RestrictedBoltzmann:
        """E[v h'], E[v], E[h] with h given v, over the rows of v (m, V) or by ``shares`` (m,), laid out as the
        parameters; the gradient is a difference of two of these."""
        p = np.full(len(v), 1.0 / len(v)) if shares is None else shares
        h = self.hidden_given(v)
        return RestrictedBoltzmann(v.T @ (p[:, None] * h), p @ v, p @ h)

    def exact_moments(self) -> RestrictedBoltzmann:
        """E[v h'], E[v], E[h] under the machine itself, by enumeration of all visible states."""
        every = labellings([2] * len(self.visible)).astype(np.float64)
        logs = -self.free_energy(every)
        return self.moments(every, np.exp(logs - np.logaddexp.reduce(logs)))

    def plus(self, step: float, other: RestrictedBoltzmann) -> RestrictedBoltzmann:
        """These parameters + step times the other's."""
        return RestrictedBoltzmann(
            self.weights + step * other.weights,
            self.visible + step * other.visible,
            self.hidden + step * other.hidden,
        )

    def chain(self, v: Matrix, k: int, rng: np.random.Generator) -> Matrix:
        """Each row of v (m, V) after k steps of Gibbs sampling, hidden then visible."""
        for _ in range(k):
            deadline.check()
            h = (rng.random((len(v), len(self.hidden))) < self.hidden_given(v)).astype(np.float64)
            v = (rng.random(v.shape) < self.visible_given(h)).astype(np.float64)
        return v

    def as_factors(self) -> tuple[Factors, Vector]:
        """The same distribution as binary variables, visible ones first, with factors and theta = (W, b, c)."""
        n, m = self.weights.shape
        on, both = [0.0, 1.0], [[0.0, 0.0], [0.0, 1.0]]
        pairs: list[Any] = [[((i, n + j), both)] for i in range(n) for j in range(m)]
        single: list[Any] = [[((v,), on)] for v in range(n + m)]
        theta = np.concatenate((self.weights.ravel(), self.visible, self.hidden))
        return factors_of_features([2] * (n + m), pairs + single), theta


class Epoch(NamedTuple):
    """The machine after a pass over the data, and the mean squared error of its reconstructions of the data."""

    machine: RestrictedBoltzmann
    error: float


@dataclass(frozen=True)
class BoltzmannTraining:
    """Contrastive divergence for a restricted Boltzmann machine.

    n_hidden : H. k : Gibbs sampling steps from the data. epochs : passes over the data. batch : rows in a step. step :
    length of a step along the gradient of the mean log-likelihood of the rows. momentum : share of the last step that
    is repeated. decay : weight of |W|^2 / 2. seed : of the start and the chains.
    """

    n_hidden: int
    k: int = 1
    epochs: int = 50
    batch: int = 50
    step: float = 0.1
    momentum: float = 0.5
    decay: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(
            self, n_hidden=at_least(1), k=at_least(1), epochs=at_least(1), batch=at_least(1),
            step=positive, momentum=not_below(0.0), decay=not_below(0.0), seed=seed,
        )  # fmt: skip
        if self.momentum >= 1.0:
            raise sentence(f"momentum is {self.momentum:g}, wanted a number from 0 to below 1")

    def train(self, data: ArrayLike) -> Iterator[Epoch]:
        """Yield the machine after each epoch; data (m, V) are 0 and 1, or probabilities between.

        Raises
        ------
        ValueError
            If there are no data, or numbers outside 0 and 1.
        """
        v = real("data", data, ("rows", "visible variables"), least=0.0)
        if v.max() > 1.0:
            raise sentence(f"data holds {v.max():g}, wanted numbers from 0 to 1")
        rng = np.random.default_rng(self.seed)
        share = np.clip(v.mean(axis=0), 0.01, 0.99)
        weights = 0.01 * rng.normal(size=(v.shape[1], self.n_hidden))
        machine = RestrictedBoltzmann(weights, np.log(share / (1.0 - share)), np.zeros(self.n_hidden))
        speed = RestrictedBoltzmann(*(np.zeros_like(a) for a in (weights, machine.visible, machine.hidden)))
        still = speed
        for _ in range(self.epochs):
            order = rng.permutation(len(v))
            for low in range(0, len(v), self.batch):
                rows = v[order[low : low + self.batch]]
                gradient = machine.moments(rows).plus(-1.0, machine.moments(machine.chain(rows, self.k, rng)))
                shrink = RestrictedBoltzmann(machine.weights, still.visible, still.hidden)
                gradient = gradient.plus(-self.decay, shrink)
                speed = gradient.plus(self.momentum, speed)
                machine = machine.plus(self.step, speed)
            yield Epoch(machine, float(np.mean((v - machine.reconstruction(v)) ** 2)))
