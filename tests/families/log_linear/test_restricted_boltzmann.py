"""Restricted Boltzmann machines against all joint states written out."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.log_linear.restricted_boltzmann import BoltzmannTraining, RestrictedBoltzmann
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.oracles.enumeration import labellings


def machine(seed: int, n: int = 4, m: int = 3) -> RestrictedBoltzmann:
    rng = np.random.default_rng(seed)
    return RestrictedBoltzmann(rng.normal(size=(n, m)), rng.normal(size=n), rng.normal(size=m))


@pytest.mark.parametrize(("n", "m"), [(4, 3), (2, 5), (3, 1)])
def test_free_energies_conditionals_and_ln_z_are_those_of_the_factors(n: int, m: int) -> None:
    one = machine(0, n, m)
    factors, theta = one.as_factors()
    every = labellings(factors.cards)
    scores = factors.scores(theta, every)
    assert one.log_partition() == pytest.approx(np.logaddexp.reduce(scores), abs=1e-12)
    assert FactorInference(factors).sums(factors.design @ theta).log_partition == pytest.approx(one.log_partition())
    for v in labellings([2] * n):
        given = scores[(every[:, :n] == v).all(axis=1)]
        states = every[(every[:, :n] == v).all(axis=1), n:]
        row = v[None].astype(float)
        assert -one.free_energy(row)[0] == pytest.approx(np.logaddexp.reduce(given), abs=1e-12)
        posterior = np.exp(given - np.logaddexp.reduce(given)) @ states
        np.testing.assert_allclose(one.hidden_given(row)[0], posterior, atol=1e-12)
    h = labellings([2] * m)[-1]
    given = (every[:, n:] == h).all(axis=1)
    p = np.exp(scores[given] - np.logaddexp.reduce(scores[given]))
    np.testing.assert_allclose(one.visible_given(h[None].astype(float))[0], p @ every[given, :n], atol=1e-12)


def test_clamped_less_unclamped_moments_are_the_gradient_of_the_likelihood() -> None:
    one, rng = machine(1), np.random.default_rng(2)
    data = rng.integers(2, size=(6, 4)).astype(float)
    gradient = one.moments(data).plus(-1.0, one.exact_moments())
    other = machine(3)
    slope = sum(float(np.vdot(getattr(gradient, k), getattr(other, k))) for k in ("weights", "visible", "hidden"))
    ends = [one.plus(step, other).log_likelihood(data) for step in (1e-5, -1e-5)]
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)


def test_a_chain_has_the_distribution_of_the_transition_matrix() -> None:
    one, n = machine(4, 3, 2), 20_000
    states, hidden = labellings([2] * 3).astype(float), labellings([2] * 2).astype(float)
    p, q = one.hidden_given(states), one.visible_given(hidden)
    up = np.prod(np.where(hidden[None] == 1, p[:, None], 1 - p[:, None]), axis=2)
    down = np.prod(np.where(states[None] == 1, q[:, None], 1 - q[:, None]), axis=2)
    wanted = np.linalg.matrix_power(up @ down, 2)[5]
    after = one.chain(np.repeat(states[5][None], n, axis=0), 2, np.random.default_rng(0))
    seen = np.bincount((after @ [1, 2, 4]).astype(int), minlength=8) / n
    assert (np.abs(seen - wanted) < 6 * np.sqrt(wanted * (1 - wanted) / n) + 1e-12).all()


def test_training_raises_the_likelihood_and_lowers_the_error() -> None:
    bars = np.repeat([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], [1, 1, 1, 1, 1, 1]], 25, axis=0)
    options = BoltzmannTraining(4, epochs=200, batch=20, step=0.2)
    epochs = list(options.train(bars.astype(float)))
    assert len(epochs) == 200
    assert epochs[-1].machine.log_likelihood(bars) > epochs[0].machine.log_likelihood(bars)
    assert epochs[-1].error < 0.5 * epochs[0].error
    assert epochs[-1].machine.log_likelihood(bars) < -np.log(4) + 1e-9  # that of the data's own distribution
