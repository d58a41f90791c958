"""(32) with a kernel that depends on the position: solved, predicted from, and not the stationary problem."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.gaussian_process.kernels import Kernel
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.inference.shards import sharded
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.gaussian_process.kernel_chains import every_kernel, optimum, small, spread, written_out


@every_kernel
@pytest.mark.parametrize(
    "changed", [{}, {"lam": 0.02}, {"eta": 0.0}, {"eta": 20.0}, {"lengths": (1, 1, 1)}, {"lengths": (4,)}], ids=str
)
def test_it_is_solved_to_the_optimum_of_every_labelling_written_out(kernel: Any, changed: dict[str, Any]) -> None:
    problem = small(3, kernel, stationary=False, **changed)
    solution = solve(problem, tol=HIGH)
    assert solution.status is Status.OPTIMAL
    least = optimum(problem)
    slack = HIGH.gap * max(1.0, least)
    assert solution.lower_bound - slack <= least <= solution.primal + slack


def test_each_position_has_coefficients_of_its_own_and_repeats_there_share_them() -> None:
    problem = GaussianProcessSequences.from_gram(
        [[2.0]], [[0, 1, 0], [1, 1]], 2, places=[[0, 0, 0], [0, 0]], stationary=False
    )
    assert problem.dimension == 3 * 2 + 2 * 4
    assert problem.split(problem.truth)[0].tolist() == [[1, 1], [0, 2], [1, 0]]
    assert problem.split(problem.truth)[1].tolist() == [[[0, 1], [0, 1]], [[0, 0], [1, 0]]]
    stationary = replace(problem, stationary=True)
    assert abs(optimum(problem) - optimum(stationary)) > 0.05


def test_sequences_of_one_position_are_the_stationary_problem() -> None:
    apart, whole = (small(5, lengths=(1,) * 6, stationary=stationary) for stationary in (False, True))
    assert solve(apart, tol=HIGH).primal == pytest.approx(solve(whole, tol=HIGH).primal, rel=HIGH.gap)


def test_new_sequences_are_labelled_by_the_functions_of_their_positions() -> None:
    problem = small(6, stationary=False)
    u = np.random.default_rng(6).normal(size=problem.dimension)
    assert problem.gram.inputs is not None
    again = problem.chains.split(problem.gram.inputs[problem.places])
    known = problem.predict(u)
    naive = written_out(problem)
    for part, scores in zip(known, naive.scores(spread(problem, u))):
        assert part.tolist() == labellings([3] * len(part))[scores.argmax()].tolist()
    assert [part.tolist() for part in problem.predict(u, again)] == [part.tolist() for part in known]
    for one, other in zip(problem.posteriors(u), problem.posteriors(u, again)):
        assert one == pytest.approx(other, rel=ROUNDING)
    bare = replace(problem, gram=replace(problem.gram, kernel=None, inputs=None))
    rows = problem.chains.split(problem.gram.matrix[problem.places])
    assert [part.tolist() for part in bare.predict(u, rows)] == [part.tolist() for part in known]


def test_positions_beyond_the_longest_sequence_have_no_scores() -> None:
    problem = small(7, lengths=(2, 1), stationary=False)
    u = np.random.default_rng(7).normal(size=problem.dimension)
    longer = problem.posteriors(u, [np.zeros((5, 2))])[0]
    shorter = problem.posteriors(u, [np.zeros((2, 2))])[0]
    assert longer[:2] == pytest.approx(shorter, rel=ROUNDING)
    assert longer[2:] == pytest.approx(1.0 / 3.0, rel=ROUNDING)
    assert len(problem.predict(u, [np.zeros((5, 2))])[0]) == 5


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_kernels_of_any_scale_are_bounded_on_both_sides(scale: float) -> None:
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(7, 3))
    problem = GaussianProcessSequences.from_gram(
        scale * rows @ rows.T, [[0, 1, 1, 0], [1, 0, 1]], 2, eta=scale, stationary=False
    )
    solution = solve(problem, max_iterations=200)
    assert solution.lower_bound <= solution.primal
    assert np.isfinite(solution.gap)


def test_it_is_the_same_in_shards() -> None:
    problem = small(10, lengths=(3, 1, 4, 2, 2), stationary=False)
    scores = np.random.default_rng(10).normal(size=problem.dimension)
    value, mean = problem.log_partition(scores)
    with ThreadPoolExecutor(2) as executor:
        other, sums = sharded(problem, executor, 3).log_partition(scores)
    assert value == pytest.approx(other, rel=ROUNDING)
    assert mean == pytest.approx(sums, rel=ROUNDING, abs=ROUNDING)


def test_more_tables_of_steps_than_fit_in_memory_are_refused() -> None:
    with pytest.raises(ValueError, match="n_labels is 3000"):
        GaussianProcessSequences.from_gram(
            [[1.0]], [np.zeros(40, int)], 3000, places=[np.zeros(40, int)], stationary=False
        )


@pytest.mark.parametrize("wrong", [None, "no", 2])
def test_stationary_is_true_or_false(wrong: Any) -> None:
    with pytest.raises(ValueError, match="stationary is"):
        GaussianProcessSequences.read([[0.0]], [[0]], 2, kernel=Kernel("rbf"), stationary=wrong)
