"""Contrastive divergence against the exact expectation of its own steps, and against the maximum of the likelihood."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.families.log_linear.approximate_field import ApproximateField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.solvers.contrastive_divergence import ContrastiveDivergence, first_steps
from convexstruct.features.graphs.factors import factors_of_features
from convexstruct.oracles.enumeration import labellings
from tests.inference.test_gibbs import transition

GRAPH = nx.cycle_graph(4)
ISING = factors_of_features([2] * 4, [[((v,), [0.0, 1.0])] for v in range(4)] + [[(e, np.eye(2)) for e in GRAPH.edges]])
THETA = np.array([0.5, -0.5, 0.3, 0.0, 0.8])


@pytest.mark.parametrize("k", [1, 3])
def test_a_step_is_in_the_mean_that_of_the_transition_matrix(k: int) -> None:
    """40,000 samples: one step against its mean by the k-th power of the transition matrix, to six errors."""
    every = labellings(ISING.cards)
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(len(every)))
    n = 40_000
    samples = every[rng.choice(len(every), size=n, p=p)]
    problem = ApproximateField.read(ISING, samples)
    radix = 2 ** np.arange(4)
    begin = np.bincount(samples @ radix, minlength=16) / n
    after = begin @ np.linalg.matrix_power(transition(ISING, ISING.design @ THETA), k)
    features = ISING.joint_each(every).toarray()
    wanted = begin @ features - after @ features
    step = next(ContrastiveDivergence(k=k, step=1.0, steps=1).walk(problem, THETA))
    error = np.sqrt((after @ features**2 - (after @ features) ** 2) / n)
    assert (np.abs(step.theta - THETA - wanted) <= 6 * error + 1e-12).all()
    assert np.abs(wanted).max() > 20 * error.max()


def test_many_sweeps_come_near_the_maximum_of_the_likelihood() -> None:
    rng = np.random.default_rng(1)
    every = labellings(ISING.cards)
    scores = ISING.scores(THETA, every)
    p = np.exp(scores - np.logaddexp.reduce(scores))
    samples = every[rng.choice(len(every), size=1000, p=p)]
    exact = MarkovRandomField.read(ISING, samples, lam=0.01)
    found = solve(exact, ContrastiveDivergence(k=3, steps=200))
    gradient = exact.penalty.gradient(found.point["theta"], exact.value_and_gradient(found.point["theta"])[1])
    assert np.abs(gradient).max() < 0.03  # lam: per sample


def test_l1_sets_parameters_to_zero_and_weights_count() -> None:
    rng = np.random.default_rng(2)
    samples = rng.integers(2, size=(50, 4))
    options = ContrastiveDivergence(steps=50)
    strong = solve(ApproximateField.read(ISING, samples, l1=500.0), options)
    assert (strong.point["theta"] == 0).all()
    weights = np.where(samples[:, 0] == 1, 50.0, 1.0)
    tilted = solve(ApproximateField.read(ISING, samples, weights=weights, lam=0.1), options)
    plain = solve(ApproximateField.read(ISING, samples, lam=0.1), options)
    assert tilted.point["theta"][0] > plain.point["theta"][0] + 0.5


def test_the_default_steps_are_1_over_the_largest_eigenvalue_in_units_of_the_features() -> None:
    """Whatever is larger, the data's or that of uniform labels, as POWER_STEPS of contrastive_divergence find it; and 1
    for a feature that does not vary, whose variance is rounding, 3e-13."""
    constant = factors_of_features(
        ISING.cards,
        [[((v,), [0.0, 10.0])] for v in range(4)] + [[(e, np.eye(2)) for e in GRAPH.edges], [((0,), [0.3, 0.3])]],
    )
    samples = np.tile((np.random.default_rng(0).random((20_000, 2)) < [0.5, 0.1]).astype(int), 2)
    each = [np.cov(constant.joint_each(y).toarray().T, bias=True) for y in (samples, labellings(constant.cards))]
    spread = np.maximum(*(np.diagonal(one) for one in each))[:-1]
    scaled = [one[:-1, :-1] / np.sqrt(np.outer(spread, spread)) for one in each]
    largest = max(np.linalg.eigvalsh(one)[-1] for one in scaled)
    found = first_steps(constant, samples, np.full(20_000, 1 / 20_000))
    np.testing.assert_allclose(found, np.append(1 / (largest * spread), 1.0), rtol=0.01)
