"""Constraint generation in every family: bounds with an inaccurate solver, one slack, limits, continued runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from convexstruct.core.solution import Status
from convexstruct.models.constraint_generation import ConstraintGeneration, Round
from convexstruct.models.formulation import Formulation
from convexstruct.models.generative_margin import cuts as generative_margin
from convexstruct.models.generative_margin.enumerated import primal
from convexstruct.models.structured_svm import cuts as structured_svm
from convexstruct.models.structured_svm.enumerated import n_slack
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.models.generative_margin.instances import hmm
from tests.models.structured_svm.instances import svm

Run = ConstraintGeneration[Any]
#: A run with a slack for each example ("n") or one in all ("one"), by family.
RUNS: dict[str, Callable[..., Run]] = {
    "generative_margin": lambda slack: generative_margin.ConstraintGeneration(hmm(0), slack == "one"),
    "structured_svm": lambda slack: structured_svm.ConstraintGeneration(svm(0), slack),
}
WRITTEN_OUT: dict[str, Callable[[Any], Formulation]] = {"generative_margin": primal, "structured_svm": n_slack}
every_family = pytest.mark.parametrize("family", list(RUNS))


def bounds_hold(run: Run, expected: float, gap: float = 10 * ROUNDING) -> None:
    """Every round's bounds enclose the optimum, and never get worse."""
    slack = gap * max(1.0, abs(expected))
    lower, upper = -np.inf, np.inf
    for step in run.rounds:
        assert lower <= step.lower_bound <= expected + slack
        assert upper >= step.primal >= expected - slack
        lower, upper = step.lower_bound, step.primal


@pytest.mark.parametrize("slack", ["n", "one"])
@every_family
def test_the_bounds_are_valid_though_the_solver_is_sloppy(family: str, slack: str) -> None:
    run = RUNS[family](slack)
    run.solver, run.options = "SCS", {"eps_abs": LOW.gap, "eps_rel": LOW.gap}
    tight = WRITTEN_OUT[family](run.problem).solve("SCS")
    solution = run.run(HIGH, max_rounds=12)
    assert abs(tight.gap) < ROUNDING * 100
    bounds_hold(run, 0.5 * (tight.primal + tight.lower_bound))
    assert max(run.problem.residuals(solution.point).values(), default=0.0) < ROUNDING


@pytest.mark.parametrize(
    ("family", "rows", "least", "upper"),
    [
        ("generative_margin", "3", -hmm(0).c @ np.log(hmm(0).c), np.inf),  # the entropy of c, where no margin is asked
        ("structured_svm", "margin", 0.0, float(svm(0).features.lengths.sum())),  # every label may be wrong
    ],
)
def test_a_step_says_what_it_added_and_the_next_master_holds_it(
    family: str, rows: str, least: float, upper: float
) -> None:
    run = RUNS[family]("n")
    first = run.step()
    assert (first.number, first.status) == (1, "optimal")
    assert first.lower_bound == pytest.approx(least, rel=ROUNDING)
    assert upper == np.inf or first.primal == pytest.approx(upper, rel=HIGH.gap)
    assert first.violation > 0
    assert 0 < first.added <= 4
    assert run.master is not None
    assert rows not in run.master.equations
    assert re.match(rf"ConstraintGeneration\(n_slack\w*: 1 rounds, {first.added} constraints, ", repr(run))
    second = run.step()
    assert run.master.equations[rows][0].shape == (first.added,)
    assert second.lower_bound > first.lower_bound
    assert rf"\tag{{{rows}}}" in run.master.latex


@every_family
def test_a_run_of_one_slack_stops_at_its_limits_and_goes_on_from_there(family: str) -> None:
    run = RUNS[family]("one")
    for limit in ({"max_rounds": 0}, {"time_limit": -1.0}):
        with pytest.raises(ValueError, match=next(iter(limit))):
            run.run(**limit)
    assert run.rounds == []
    stopped = run.run(HIGH, max_rounds=2)
    assert stopped.status is Status.ITERATION_LIMIT
    assert stopped.gap > LOW.gap
    timed = run.run(HIGH, time_limit=1e-9)
    assert timed.status is Status.TIME_LIMIT
    assert timed.iterations == 2  # no round is begun
    finished = run.run(HIGH)
    assert finished.status is Status.OPTIMAL
    assert finished.trace.iteration == list(range(1, finished.iterations + 1))
    assert finished.iterations > 2
    assert {step.added for step in run.rounds} <= {0, 1}
    assert run.master is not None
    assert run.master.variables["xi"].size == 1


@every_family
def test_a_master_that_fails_ends_the_run_with_the_bounds_so_far(family: str) -> None:
    run = RUNS[family]("n")
    before = run.step()
    run.options = {"max_iter": 1}
    solution = run.run(HIGH)
    assert solution.status is not Status.OPTIMAL
    assert solution.primal <= before.primal * (1 + ROUNDING)  # the certificate adds its allowance for rounding
    assert not run.reference().accurate


@every_family
def test_an_interrupted_run_returns_what_it_has_and_an_interrupted_reference_is_none(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, step = RUNS[family]("n"), ConstraintGeneration.step

    def interrupted(self: Run) -> Round:
        if len(self.rounds) == 2:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(ConstraintGeneration, "step", interrupted)
    solution = run.run(HIGH)
    assert solution.status is Status.INTERRUPTED
    assert solution.iterations == 2
    assert np.isfinite([solution.primal, solution.lower_bound]).all()
    with pytest.raises(KeyboardInterrupt):
        run.reference()
