"""A mixture of labellings that grows step by step, against the same distribution over all labellings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.families.structured_svm.solvers import labelling_mixture
from convexstruct.families.structured_svm.solvers.labelling_mixture import LabellingMixture
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import ROUNDING
from tests.models.structured_svm.instances import svm


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(0, 40), st.sampled_from([1e-100, 0.5]))
def test_the_witness_is_the_distribution_that_the_steps_lead_to(seed: int, n_steps: int, small: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            labelling_mixture, "LEAST_FACTOR", small
        )  # at 0.5 the common factor is multiplied out all the time
        _walk(seed, n_steps)


def _walk(seed: int, n_steps: int) -> None:
    problem = svm(seed % 7, (2, 1, 3), 2, scaling="slack")
    rng = np.random.default_rng(seed)
    every = [labellings([2] * int(n)) for n in problem.features.lengths]
    parts = np.split(problem.features.truth, problem.features.node_start[1:-1])
    q = [(rows == part).all(axis=1).astype(np.float64) for rows, part in zip(every, parts)]
    mixture = LabellingMixture(problem)
    for _ in range(n_steps):
        i = int(rng.integers(3))
        at, step = int(rng.integers(len(every[i]))), float(rng.choice([0.0, 0.1, 0.7, 1.0, rng.random()]))
        mixture.move(i, every[i][at], step)
        q[i] = (1 - step) * q[i] + step * np.eye(len(q[i]))[at]
    witness = mixture.witness()
    assert problem.dual_residuals(witness)["shares outside the simplex"] <= ROUNDING
    psi, loss = problem.aggregate(witness)
    expected, lost = np.zeros(problem.dimension), 0.0
    for i in range(3):
        for row, share in zip(every[i], q[i]):
            flat = problem.features.truth.copy()
            flat[problem.features.node_start[i] : problem.features.node_start[i + 1]] = row
            weight = np.zeros(3)
            weight[i] = problem.ceiling[i] * share
            each = problem.loss.of(flat)
            difference = problem.features.joint(problem.features.truth, weight * each)
            expected += difference - problem.features.joint(flat, weight * each)
            lost += float(weight @ each)
    np.testing.assert_allclose(psi, expected, atol=ROUNDING)
    assert loss == pytest.approx(lost)


def test_at_first_all_lies_on_the_truth() -> None:
    problem = svm(0)
    psi, loss = problem.aggregate(LabellingMixture(problem).witness())
    assert not psi.any()
    assert loss == 0.0
