"""What every registered solver does in a few rounds on its family's own cases, whatever its algorithm.

A solver is run for a few rounds on small cases of its family, and what it does not take it must refuse in one sentence;
of many solvers that take the same cases, each has its share of them. One case it solves to LOW; all cases are the
subject of `convexstruct verify`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np
import pytest
from numpy.typing import NDArray

import convexstruct as cs
from benchmarks.malformed import Hostile
from convexstruct.core import registry
from convexstruct.core.cases import Case
from convexstruct.core.certificates import certify
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.tolerances import HIGH, ROUNDING
from convexstruct.verification.references import stored
from tests.refusals import check_sentence

#: What no option of any solver takes.
NONSENSE: list[Any] = [object(), "nonsense", math.nan, math.inf, -3, 10**400, 3j, [], {}, [[]], np.ones(2), Hostile()]
#: Rounds of each run; some solvers end before.
ROUNDS = 3
#: Solvers that are run on a case besides its default, of those that take its class; the next case has the next ones.
TRIED = 2
#: Options of solvers whose one round is a whole run: a tenth of its 500 steps.
SHORT: dict[str, dict[str, Any]] = {"ContrastiveDivergence": {"steps": 50}}
#: The case that is solved where the first one takes a solver long.
SOLVED = {
    "Pegasos1": "risk-planted-pieces", "ProjectedGradient": "risk-planted-pieces",
    "Subgradient": "svm-planted-slack", "ImportanceSampling": "mrf-planted-free",
}  # fmt: skip
#: Solvers without a lower bound, or of another problem than that of their cases: their own tests have what they reach.
UNCERTIFIED = {
    "ContrastiveDivergence", "DoubleLoop", "MaximumLikelihood", "Mira", "OnlineWorkingSets", "Perceptron",
    "RelaxedMargin",
}  # fmt: skip
#: Their value is by the Bethe entropy, which bounds P from neither side: on mrf-border it is below in rounds 2 and 3.
NO_BOUND = {"DoubleLoop"}
#: Cases on which each solver is started again, and how many times wider its gap may be then.
RESTARTS, STEP_BACK = 2, 1.5

FAMILY = {solver: family for family in registry.families().values() for solver in family.solvers}


class Run(NamedTuple):
    """A few rounds on a case. value, accuracy : the case's stored optimum, NaN where there is none, and its error.
    yielded : copies of each iterate's point and dual point, made when it came."""

    case: Case
    problem: Any
    value: float
    accuracy: float
    iterates: list[Iterate]
    yielded: list[dict[str, NDArray[Any]]]
    solution: Solution


@pytest.fixture(scope="module", params=FAMILY, ids=lambda solver: solver.__name__)
def solver(request: pytest.FixtureRequest) -> Any:
    """All tests of a solver stand together, so that one process makes its runs, once."""
    return request.param


def made(solver: type) -> Any:
    return solver(**SHORT.get(solver.__name__, {}))


@functools.cache
def instances(family: str, quick: bool) -> list[tuple[Case, Any, float]]:
    cases = [case for case in registry.families()[family].cases if case.quick is quick and case.open]
    problems = [(case, case.build(0)) for case in cases]
    references = [stored(case, problem) for case, problem in problems]
    return [(*pair, math.nan if known is None else known.value) for pair, known in zip(problems, references)]


def takes(solver: Any, kind: type) -> bool:
    """By the annotation of ``iterate``."""
    wanted = get_type_hints(solver.iterate)["problem"]
    return kind in (get_args(wanted) or (wanted,))


def is_tried(solver: type, at: int, problem: Any) -> bool:
    """Whether the solver is run on this problem, of the case number ``at``: the default is."""
    every = [each for each in FAMILY[solver].solvers if takes(each, type(problem))]
    if solver not in every or isinstance(FAMILY[solver].best(problem, HIGH)[0], solver):
        return True
    return (every.index(solver) - at) % len(every) < TRIED


@functools.cache
def runs(solver: type) -> list[Run]:
    """The solver on its share of the small cases; where it takes none of them, on the others."""
    for small in (True, False):
        cases = instances(FAMILY[solver].name, small)
        tried = [given for at, given in enumerate(cases) if is_tried(solver, at, given[1])]
        found = [run for given in tried if (run := few_rounds(solver, *given)) is not None]
        if found:
            return found
    return []


def few_rounds(solver: type, case: Case, problem: Any, value: float) -> Run | None:
    """None where the solver refuses the problem."""
    iterates: list[Iterate] = []
    yielded: list[dict[str, NDArray[Any]]] = []

    def seen(iterate: Iterate, trace: Trace) -> None:
        iterates.append(iterate)
        yielded.append(points(iterate))

    try:
        solution = cs.solve(problem, made(solver), max_iterations=ROUNDS, callback=seen)
    except ValueError as refusal:
        check_sentence(refusal)
        return None
    return Run(case, problem, value, case.accuracy * max(1.0, abs(value)), iterates, yielded, solution)


def points(found: Iterate | Solution) -> dict[str, NDArray[Any]]:
    """Copies of a point and its dual point; without one that is only computed when it is asked for."""
    witness = None if callable(found.dual_point) else found.dual_point
    both = [*found.point.items(), *((f"dual {name}", value) for name, value in (witness or {}).items())]
    return {name: np.array(value) for name, value in both}


def check_unchanged(before: dict[str, NDArray[Any]], found: Iterate | Solution) -> None:
    after = points(found)
    assert {name: value.tobytes() for name, value in before.items()} == {k: v.tobytes() for k, v in after.items()}


def test_it_takes_a_case_of_its_family(solver: type) -> None:
    assert runs(solver)


def test_it_solves_a_case_and_its_bounds_enclose_the_stored_optimum(solver: type) -> None:
    if solver.__name__ in UNCERTIFIED:
        return
    easy = SOLVED.get(solver.__name__, runs(solver)[0].case.name)
    case, problem, value = next(each for each in instances(FAMILY[solver].name, True) if each[0].name == easy)
    found = cs.solve(problem, made(solver), tol="LOW", time_limit=60.0)
    assert found.status is Status.OPTIMAL, found
    accuracy = case.accuracy * max(1.0, abs(value))
    assert not found.lower_bound > value + accuracy  # of an optimum that is not stored it is NaN
    assert not found.primal < value - accuracy


def test_what_it_yielded_is_unchanged_at_the_end(solver: type) -> None:
    """It is the driver's: no solver writes into it afterwards."""
    for run in runs(solver):
        for before, iterate in zip(run.yielded, run.iterates, strict=True):
            check_unchanged(before, iterate)


def test_what_it_claims_in_any_round_and_at_the_end_encloses_the_optimum(solver: type) -> None:
    """An approximation (without a lower bound) claims nothing in its rounds, only its points have a value."""
    for run in runs(solver):
        bounds = [(run.solution.lower_bound, run.solution.primal)]
        bounds += [(each.lower_bound, each.primal) for each in run.iterates if math.isfinite(each.lower_bound)]
        for lower, primal in bounds:
            assert not (lower > run.value + run.accuracy), run.case
            assert not (primal < run.value - run.accuracy), run.case
            assert not (lower > primal + run.accuracy), run.case


def test_what_it_claims_is_what_its_points_are_worth(solver: type) -> None:
    """P of its last point, above it where an approximation can only bound P, and no more than D of its dual point."""
    for run in runs(solver)[:RESTARTS]:
        last = run.iterates[-1]
        witness = last.dual_point() if callable(last.dual_point) else last.dual_point
        shown = certify(run.problem, last.point, witness)
        near = ROUNDING * max(1.0, abs(shown.primal))
        assert solver.__name__ in NO_BOUND or not (shown.primal > last.primal + near), run.case
        if math.isfinite(last.lower_bound) and math.isfinite(last.primal):
            assert shown.primal >= last.primal - near, run.case
        assert not (last.lower_bound > shown.lower_bound + near), run.case


def test_a_second_run_is_the_same(solver: type) -> None:
    first = runs(solver)[0]
    again = few_rounds(solver, first.case, first.case.build(0), first.value)
    assert again is not None
    for one, other in zip(first.yielded, again.yielded, strict=True):
        for name, value in one.items():
            np.testing.assert_array_equal(value, other[name])


def test_bounds_never_loosen_and_no_number_is_nan(solver: type) -> None:
    for run in runs(solver):
        trace = run.solution.trace
        for better, bound in ((np.less_equal, trace.primal), (np.greater_equal, trace.lower_bound)):
            assert better(bound[1:], bound[:-1]).all(), run.case
        for point in (run.solution.point, run.solution.dual_point or {}):
            assert not any(np.isnan(np.asarray(value)).any() for value in point.values()), run.case


def test_limits_are_kept(solver: type) -> None:
    """After no time at all the run returns a point and bounds that hold."""
    for run in runs(solver):
        assert 1 <= run.solution.iterations <= ROUNDS
        assert (run.solution.status is not Status.ITERATION_LIMIT) or run.solution.iterations == ROUNDS
    run = runs(solver)[0]
    late = cs.solve(run.problem, made(solver), tol=1e-15, time_limit=1e-9)
    assert late.iterations <= 1
    assert not (late.lower_bound > run.value + run.accuracy)
    assert not (late.primal < run.value - run.accuracy)


def test_a_run_goes_on_from_its_solution(solver: type) -> None:
    """What is optimal stays so, and the start as it was. Stochastic methods may step back a little, and approximations
    have no gap."""
    for run in runs(solver)[:RESTARTS]:
        before = points(run.solution)
        again = cs.solve(run.problem, made(solver), start=run.solution, max_iterations=ROUNDS)
        assert again.status is Status.OPTIMAL or run.solution.status is not Status.OPTIMAL, run.case
        assert again.gap <= STEP_BACK * run.solution.gap + HIGH.gap, run.case
        check_unchanged(before, run.solution)


def test_its_options_refuse_nonsense_and_show_themselves(solver: Any) -> None:
    options = solver()
    assert repr(options).startswith(f"{solver.__name__}(")
    for field in dataclasses.fields(solver):
        for value in NONSENSE:
            with pytest.raises(ValueError, match=field.name) as refusal:
                dataclasses.replace(options, **{field.name: value})
            check_sentence(refusal.value)
