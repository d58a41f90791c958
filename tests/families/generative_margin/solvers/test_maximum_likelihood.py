"""Maximum likelihood against counts done by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.maximum_likelihood import MaximumLikelihood, maximum_likelihood

EVEN = [0.5, 0.5]
#: Nothing follows state 1, which never shows symbol 0.
C: dict[str, Any] = {"initial": EVEN, "transition": [EVEN, [0.9, 0.1]], "emission": [EVEN, [0.0, 1.0]]}


def counted(**more: Any) -> GenerativeMargin:
    return GenerativeMargin.hmm([[0, 1, 1], [1]], [[0, 0, 1], [1]], 2, 2, eta=0.5, **more)


@pytest.mark.parametrize(
    ("weights", "smoothing", "initial", "transition", "emission"),
    [
        (None, 0.0, EVEN, [EVEN, [0.9, 0.1]], [EVEN, [0.0, 1.0]]),
        (None, 1.0, EVEN, [EVEN, EVEN], [EVEN, [0.25, 0.75]]),
        ([1.0, 3.0], 1.0, [2 / 6, 4 / 6], [EVEN, EVEN], [EVEN, [1 / 6, 5 / 6]]),
    ],
    ids=["frequencies, and a prior", "smoothed", "weighted"],
)
def test_probabilities_are_the_counts_done_by_hand(
    weights: Any, smoothing: float, initial: Any, transition: Any, emission: Any
) -> None:
    problem = counted(weights=weights, c=C)
    found = problem.layout.tables(np.exp(maximum_likelihood(problem, smoothing)))
    np.testing.assert_allclose(found["initial"], initial)
    np.testing.assert_allclose(found["transition"], transition)
    np.testing.assert_allclose(found["emission"], emission)


def test_an_event_never_met_costs_everything_unless_the_prior_excludes_it_too_and_no_bound_is_claimed() -> None:
    assert solve(counted(), MaximumLikelihood()).primal == np.inf
    found = solve(counted(c=C), MaximumLikelihood())
    assert found.status is Status.UNCERTIFIED
    assert np.isfinite(found.primal)
    assert found.lower_bound == -np.inf
