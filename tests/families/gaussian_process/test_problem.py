"""(32): values, gradients, bounds and predictions, against the whole of K and every labelling written out.

Bounds at points of any size are in `benchmarks/exact.py`, in exact numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from convexstruct.core.driver import solve
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import DERIVATIVE, ROUNDING
from tests.families.gaussian_process.kernel_chains import every_kernel, optimum, small, spread, written_out

#: Whether scores are the same at all positions.
stationary_or_not = pytest.mark.parametrize("stationary", [True, False])


@every_kernel
@stationary_or_not
def test_both_bounds_and_the_gradient_are_those_of_k_and_every_labelling(kernel: Any, stationary: bool) -> None:
    problem = small(0, kernel, stationary=stationary)
    naive, rng = written_out(problem), np.random.default_rng(0)
    for scale in (0.0, 0.3, 3.0, 30.0):
        u, d = rng.normal(size=(2, problem.dimension)) * [[scale], [1.0]]
        value, bound, here = problem.primal({"u": u}), problem.dual({"u": u}), problem.at(u, problem.multiply(u))
        assert value == pytest.approx(naive.value(spread(problem, u)), rel=ROUNDING)
        assert here.value == pytest.approx(value, rel=ROUNDING)
        gibbs = [softmax(scores) for scores in naive.scores(spread(problem, u))]
        assert bound == pytest.approx(naive.dual(gibbs), rel=ROUNDING)
        rise = problem.primal({"u": u + 1e-6 * d}) - problem.primal({"u": u - 1e-6 * d})
        assert rise / 2e-6 == pytest.approx(problem.multiply(here.g) @ d, rel=DERIVATIVE)
        assert problem.dual({"u": d}) <= value
        half_square = here.g @ problem.multiply(here.g) / (2 * problem.lam)
        assert value - bound == pytest.approx(half_square, rel=ROUNDING)


def test_a_named_kernel_and_its_matrix_over_all_positions_are_one_problem() -> None:
    rng = np.random.default_rng(10)
    inputs = [rng.integers(2, size=(length, 2)).astype(float) for length in (3, 2)]
    labels = [rng.integers(2, size=length) for length in (3, 2)]
    named = GaussianProcessSequences.read(inputs, labels, 2, kernel=("rbf", {"gamma": 0.5}))
    assert named.n_inputs < 5  # inputs that repeat have one coefficient
    rows = np.concatenate(inputs)
    matrix = np.exp(-0.5 * ((rows[:, None] - rows) ** 2).sum(axis=2))
    whole = GaussianProcessSequences.from_gram(matrix, labels, 2)
    u = rng.normal(size=named.dimension)
    assert whole.primal({"u": spread(named, u)}) == pytest.approx(named.primal({"u": u}), rel=ROUNDING)


@stationary_or_not
def test_new_sequences_are_labelled_by_the_same_function(stationary: bool) -> None:
    problem = small(11, stationary=stationary)
    u, naive = np.random.default_rng(11).normal(size=problem.dimension), written_out(problem)
    assert problem.gram.inputs is not None
    again = problem.chains.split(problem.gram.inputs[problem.places])
    bare = replace(problem, gram=replace(problem.gram, kernel=None, inputs=None))
    rows = problem.chains.split(problem.gram.matrix[problem.places])
    labelled = zip(problem.predict(u), problem.predict(u, again), bare.predict(u, rows))
    posteriors = zip(problem.posteriors(u), problem.posteriors(u, again), naive.scores(spread(problem, u)))
    for found, (posterior, anew, scores) in zip(labelled, posteriors):
        every = labellings([3] * len(posterior))
        assert [part.tolist() for part in found] == [every[scores.argmax()].tolist()] * 3
        shares = [[softmax(scores)[column == label].sum() for label in range(3)] for column in every.T]
        assert posterior == pytest.approx(np.array(shares), rel=ROUNDING)
        assert anew == pytest.approx(posterior, rel=ROUNDING)


def test_each_position_has_coefficients_of_its_own_and_repeats_there_share_them() -> None:
    problem = GaussianProcessSequences.from_gram(
        [[2.0]], [[0, 1, 0], [1, 1]], 2, places=[[0, 0, 0], [0, 0]], stationary=False
    )
    assert problem.dimension == 3 * 2 + 2 * 4
    assert problem.split(problem.truth)[0].tolist() == [[1, 1], [0, 2], [1, 0]]
    assert problem.split(problem.truth)[1].tolist() == [[[0, 1], [0, 1]], [[0, 0], [1, 0]]]
    assert abs(optimum(problem) - optimum(replace(problem, stationary=True))) > 0.05


def test_positions_beyond_the_longest_sequence_have_no_scores() -> None:
    problem = small(7, lengths=(2, 1), stationary=False)
    u = np.random.default_rng(7).normal(size=problem.dimension)
    longer, shorter = (problem.posteriors(u, [np.zeros((length, 2))])[0] for length in (5, 2))
    assert longer == pytest.approx(np.concatenate((shorter, np.full((3, 3), 1.0 / 3.0))), rel=ROUNDING)
    assert len(problem.predict(u, [np.zeros((5, 2))])[0]) == 5


def test_the_allowance_of_the_dual_does_not_grow_as_labels_become_certain() -> None:
    """K (z - m) is lam t: large at the labels that are sure of themselves, where only the others can be wrong."""
    allowances = []
    for lam in (1e-2, 1e-4, 1e-6):
        problem = GaussianProcessSequences.from_gram(np.eye(12), [[0, 1, 2]] * 4, 3, lam=lam, eta=0.0)
        allowances.append(problem.dual(solve(problem).point).allowance)
    assert max(allowances) <= 2.0 * allowances[0]


def test_the_cause_of_rounding_is_named() -> None:
    """A time stamp under a linear kernel: inner products of 1e18, in which those of the other columns are lost."""
    rng = np.random.default_rng(0)
    inputs = [np.column_stack((1.7e9 + 60.0 * np.arange(4), rng.normal(size=4))) for _ in range(3)]
    problem = GaussianProcessSequences.read(inputs, [rng.integers(2, size=4) for _ in inputs], 2, kernel="linear")
    assert "reaches 1.7e+09" in solve(problem, time_limit=10).message
    assert "take a larger lam" in small(0).rounding_reason({}, None)
