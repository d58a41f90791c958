"""The theta that the decomposition methods start from where probabilities are 0, and labels in one byte."""

from __future__ import annotations

import numpy as np

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.datasets.generated.ring import EASY, ring
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.proximal_rsd import ProximalRSD
from tests.models.generative_margin.instances import hmm


def test_a_start_with_a_probability_of_zero_is_made_finite() -> None:
    """By LEAST_THETA of warm_start."""
    problem = hmm(0)
    theta = np.full(problem.dimension, -np.inf)
    theta[problem.layout.block_start] = 0.0
    start = Solution({"theta": theta}, None, certify(problem, theta), Status.STALLED, Trace())
    first = next(iter(ProximalRSD().iterate(problem, start)))
    assert np.isfinite(first.point["theta"]).all()
    assert np.isfinite(first.primal)


def test_labels_are_kept_in_one_byte_and_still_certify_with_many_states() -> None:
    """Indices computed from one-byte labels overflowed once 128 (state, symbol) pairs were reached."""
    data = ring(6, 8, 20, EASY, 0)
    problem = GenerativeMargin.hmm(data.symbols, data.states, 20, data.n_symbols, eta=0.1, loss="ring")
    solution = solve(problem, ProximalRSD(), tol=0.1, max_iterations=400)
    assert solution.dual_point is not None
    assert solution.dual_point["labels"].dtype == np.int8
    assert solution.status is Status.OPTIMAL, solution
