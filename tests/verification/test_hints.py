"""A verdict names the mistake where that explains the answer to HIGH, and says nothing else."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.core.slips import Slip
from convexstruct.core.solution import Solution
from convexstruct.verification import Case, cases_for
from convexstruct.verification.hints import explains, hint
from convexstruct.verification.outcome import Reference
from convexstruct.verification.references import stored
from tests.families.test_cases import MUTANTS


def test_at_least_half_of_the_mutants_are_told_their_slip() -> None:
    every = [mutant for mutants in MUTANTS.values() for mutant in mutants]
    assert 2 * sum(mutant.explained for mutant in every) > len(every) >= 140
    above = [mutant for mutant in every if mutant.named == "above the optimum"]
    assert 2 * sum(bool(mutant.told) for mutant in above) > len(above)


def named(name: str) -> Case:
    return next(
        case for family in ("structured_svm", "regularized_risk") for case in cases_for(family) if case.name == name
    )


@cache
def solved(name: str) -> tuple[Any, Solution, Reference]:
    problem = named(name).build()
    reference = stored(named(name), problem)
    assert reference is not None
    return problem, cs.solve(problem, tol=1e-8), reference


def told(name: str, change: Any) -> str:
    problem, solution, reference = solved(name)
    return hint(problem, {key: change(value) for key, value in solution.point.items()}, reference)


@pytest.mark.parametrize("name", ["svm-enumerated", "risk-enumerated"])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_guessed_about_other_answers(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert told(name, lambda w: w + 0.1 * rng.normal(size=w.shape)) == ""
    assert told(name, lambda w: rng.normal(size=w.shape)) == ""
    assert told(name, lambda w: -w + 0.02 * rng.normal(size=w.shape)) == ""  # near the opposite is not near enough


def test_a_mistake_that_cannot_be_made_explains_nothing() -> None:
    problem, solution, reference = solved("svm-enumerated")

    def fails(_: Any) -> Any:
        raise ValueError("no such problem")

    with pytest.raises(ValueError, match="no such"):
        explains(Slip("it fails", fails), problem, solution.point, reference)
    assert hint(problem, {"w": np.full(problem.dimension, 1e300)}, reference) == ""


def test_a_point_that_is_optimal_only_once_it_is_repaired_explains_nothing() -> None:
    case = next(case for case in cases_for("projection") if case.name == "box-planted")
    problem, reference = case.build(), stored(case, case.build())
    assert reference is not None
    assert isinstance(problem, cs.BoxProjection)
    best = cs.solve(problem, tol=1e-9).point["a"]
    high = best >= np.broadcast_to(problem.upper, best.shape)
    assert high.any()
    outside = {"a": best + high}
    assert problem.repair(outside)["a"] == pytest.approx(best)
    assert explains(Slip("it is optimal"), problem, {"a": best}, reference)
    assert not explains(Slip("it is optimal"), problem, outside, reference)


@pytest.mark.parametrize(
    ("case", "wrong", "said"),
    [
        ("box-simplex", lambda problem: cs.solve(replace(problem, z=2.0)).point["a"], "normalised to another number"),
        ("box-simplex", lambda problem: 2.0 * cs.solve(problem).point["a"], "0.5 times it is optimal"),
        ("box-simplex", lambda problem: -cs.solve(problem).point["a"], "its opposite is optimal: is a sign wrong?"),
        ("tables-tree", lambda problem: 2.0 * cs.solve(problem).point["a"], "0.5 times it is optimal"),
    ],
)
def test_answers_that_are_not_feasible_are_told_their_slip(case: str, wrong: Any, said: str) -> None:
    found = next(each for each in cases_for("projection") if each.name == case)
    problem, reference = found.build(), stored(found, found.build())
    assert reference is not None
    assert said in hint(problem, problem.as_point(wrong(problem)), reference, feasible=False)
