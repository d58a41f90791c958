"""Subgradient steps: their average is a dual point, and the averaged iterate obeys the rate of Lacoste-Julien et al."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from convexstruct.families.structured_svm.solvers.subgradient import Subgradient
from convexstruct.tolerances import ROUNDING
from tests.families.structured_svm.solvers.references import radius, reference


@pytest.mark.parametrize("name", ["trees, weighted", "slack scaling, Hamming", "zero-one loss", "a kernel"])
def test_the_average_obeys_its_rate(name: str) -> None:
    """P(wbar_T) - p* <= 2 G^2 / (lam (T + 1)), and lam |w_t| and the psi_t are both at most c R."""
    problem, expected = reference(name)
    g = 2 * radius(problem) * float(problem.ceiling.sum())
    for t, iterate in enumerate(islice(Subgradient().iterate(problem), 100)):
        if t:
            assert iterate.primal - expected <= 2 * g * g / (problem.lam * (t + 1))


def test_whole_passes_are_the_steps_1_over_lam_t() -> None:
    problem, _ = reference("chains, weighted, a cost matrix, C_mean")
    w = np.zeros(problem.dimension)
    for t, iterate in enumerate(islice(Subgradient(average=False).iterate(problem), 6), start=1):
        np.testing.assert_allclose(iterate.point["w"], w, atol=ROUNDING * (1 + abs(w).max()))
        labels = problem.most_violated(w).labels
        minus = problem.truth_joint - problem.features.joint(labels, problem.ceiling)
        w = w - (problem.lam * w - minus) / (problem.lam * t)
