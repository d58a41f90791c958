"""Subgradient steps: their average is a dual point, and the averaged iterate obeys the rate of Lacoste-Julien et al."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.families.structured_svm.solvers.subgradient import Subgradient
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.families.structured_svm.solvers.references import optimum, radius, reference
from tests.models.structured_svm.instances import svm


@pytest.mark.parametrize("name", ["trees, weighted", "slack scaling, Hamming", "zero-one loss", "a kernel"])
def test_the_average_obeys_its_rate(name: str) -> None:
    """P(wbar_T) - p* <= 2 G^2 / (lam (T + 1)), and lam |w_t| and the psi_t are both at most c R."""
    problem, expected = reference(name)
    g = 2 * radius(problem) * float(problem.ceiling.sum())
    for t, iterate in enumerate(islice(Subgradient().iterate(problem), 100)):
        if t:
            assert iterate.primal - expected <= 2 * g * g / (problem.lam * (t + 1))


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    st.integers(0, 10_000), st.sampled_from(["margin", "slack"]), st.booleans(), st.sampled_from([1, 2, None]),
    st.integers(1, 6),
)  # fmt: skip
def test_the_average_of_subgradients_is_a_dual_point(
    seed: int, scaling: Any, associative: bool, block: int | None, passes: int
) -> None:
    problem = svm(seed, (1, 2, 3), 2, scaling=scaling, associative=associative, weighted=True)
    *_, last = islice(Subgradient(block=block, average=False).iterate(problem), passes + 1)
    assert callable(last.dual_point)
    witness = last.dual_point()
    psi, _ = problem.aggregate(witness)
    np.testing.assert_allclose(
        problem.project(psi) / problem.lam, last.point["w"], atol=ROUNDING * (1 + abs(psi).max())
    )
    certificate = certify(problem, last.point, witness)
    assert certificate.lower_bound >= last.lower_bound - ROUNDING * (1 + abs(last.lower_bound))
    expected = optimum(problem)
    assert last.lower_bound <= expected * (1 + HIGH.gap) + HIGH.gap


def test_whole_passes_are_the_steps_1_over_lam_t() -> None:
    problem, _ = reference("chains, weighted, a cost matrix, C_mean")
    w = np.zeros(problem.dimension)
    for t, iterate in enumerate(islice(Subgradient(average=False).iterate(problem), 6), start=1):
        np.testing.assert_allclose(iterate.point["w"], w, atol=ROUNDING * (1 + abs(w).max()))
        labels = problem.most_violated(w).labels
        minus = problem.truth_joint - problem.features.joint(labels, problem.ceiling)
        w = w - (problem.lam * w - minus) / (problem.lam * t)


def test_a_start_is_where_the_first_subgradient_is_taken() -> None:
    problem, _ = reference("trees, weighted")
    start = solve(problem, tol=LOW)
    first, second = islice(Subgradient(average=False).iterate(problem, start), 2)
    np.testing.assert_array_equal(first.point["w"], start.point["w"])
    labels = problem.most_violated(start.point["w"]).labels
    psi = problem.truth_joint - problem.features.joint(labels, problem.ceiling)
    np.testing.assert_allclose(second.point["w"], psi / problem.lam)
