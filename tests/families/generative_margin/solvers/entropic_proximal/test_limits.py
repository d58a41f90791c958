"""What limits of the entropic proximal method are for: dense metrics, and labels that no labelling may have."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.families.generative_margin.solvers.entropic_proximal import EntropicProximal, method
from convexstruct.families.generative_margin.solvers.entropic_proximal.method import Run
from convexstruct.families.generative_margin.solvers.inner_approximation import ALL_EXAMPLES, Sources
from tests.models.generative_margin.instances import hmm


def test_no_dense_matrix_of_more_parameters_than_the_limit_is_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`LARGEST_DENSE`: its memory grows with the square, its factor with the cube of their number."""
    problem = hmm(0)
    for limit, formed in ((problem.dimension, True), (problem.dimension - 1, False)):
        monkeypatch.setattr(method, "LARGEST_DENSE", limit)
        run = Run(EntropicProximal(), problem, None)
        assert (run._covariance is not None) == formed


def test_blocks_without_missing_mass_are_left() -> None:
    """By FIRST_DELTA: the barrier on the missing mass is infinite where that is 0, as at uniform distributions."""
    assert solve(hmm(0), EntropicProximal(), tol=1e-6).certificate.gap <= 1e-6


def test_the_first_subset_holds_all_examples() -> None:
    np.testing.assert_array_equal(Sources(hmm(0)).subsets[ALL_EXAMPLES], 1.0)
