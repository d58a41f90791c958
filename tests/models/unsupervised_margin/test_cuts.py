"""(12): one cut at the uniform point ends it, from other cuts the bounds close in; both are the problem's own."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.solution import Status
from convexstruct.models.unsupervised_margin import delta_cuts, reduced
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.models.unsupervised_margin.instances import INSTANCES
from tests.reference import optimum


@pytest.mark.parametrize("name", ["chains", "three labels", "points"])
def test_one_uniform_cut_ends_it_in_one_round(name: str) -> None:
    problem = INSTANCES[name]()
    run = delta_cuts(problem)
    solution = run.run()
    assert solution.status is Status.OPTIMAL, solution.message
    assert len(run.rounds) == 1
    expected = optimum(reduced(problem)).value
    assert solution.primal == pytest.approx(expected, rel=HIGH.gap)
    assert run.violations[0] <= LOW.gap * max(1.0, abs(expected))


def test_from_a_random_labelling_it_takes_rounds_and_every_bound_is_one() -> None:
    problem = INSTANCES["chains"]()
    expected = optimum(reduced(problem)).value
    run = delta_cuts(problem, first="random", seed=1)
    before = -np.inf
    for _ in range(5):
        now = run.step()
        slack = HIGH.gap * abs(expected)
        assert now.lower_bound <= expected + slack
        assert now.primal >= expected - slack
        assert now.master >= before - slack  # a cut more
        assert now.master <= expected + slack
        before = now.master
    assert now.violation > LOW.gap * abs(expected)
    assert len(run.cuts) == 6
    for mu, nu in run.cuts:
        np.testing.assert_allclose(mu.sum(axis=1), 1.0, atol=HIGH.feasibility)
        tables = nu.reshape(-1, 2, 2)
        np.testing.assert_allclose(tables.sum(axis=2), mu[problem.previous], atol=HIGH.feasibility)
        np.testing.assert_allclose(tables.sum(axis=1), mu[problem.current], atol=HIGH.feasibility)


def test_a_cut_of_given_labels_is_the_first_one() -> None:
    problem = INSTANCES["ties"]()
    run = delta_cuts(problem, first=[0, 1, 0, 1])
    np.testing.assert_array_equal(run.cuts[0][0].argmax(axis=1), [0, 1, 0, 1])
    assert run.step().master < optimum(reduced(problem)).value + ROUNDING
