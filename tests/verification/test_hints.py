"""A verdict names the mistake where that explains the answer to HIGH, and says nothing else."""

from __future__ import annotations

import importlib
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
from convexstruct.verification.judge import in_words
from convexstruct.verification.outcome import Reference
from convexstruct.verification.references import stored
from tests.mutants import Mutant

LISTS = (
    "gaussian_process.mutants", "generative_margin.mutants", "log_linear.mutants",
    "projection.mutants", "regularized_risk.mutants", "structured_svm.mutants",
    "unsupervised_margin.mutants",
)  # fmt: skip


def mutants() -> list[Mutant]:
    found: list[Mutant] = []
    for name in LISTS:
        module = importlib.import_module(f"tests.families.{name}")
        found += next(value for key, value in vars(module).items() if key.endswith("MUTANTS"))
    return found


def test_at_least_half_of_the_mutants_are_told_their_slip() -> None:
    every = mutants()
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


@pytest.mark.parametrize("name", ["svm-enumerated", "risk-enumerated", "oracle-matching"])
def test_a_sign_and_a_scale_are_told(name: str) -> None:
    assert told(name, lambda w: -w) == "its opposite is optimal: is a sign wrong?"
    assert told(name, lambda w: 0.5 * w).startswith("2 times it is optimal: is it a scale")
    assert told(name, lambda w: 100.0 * w).startswith("0.01 times it is optimal")
    assert told(name, lambda w: -w / 3).startswith("-3 times it is optimal")


def test_what_is_shifted_or_transposed_is_told() -> None:
    assert "shifted by one entry it is optimal" in told("svm-enumerated", lambda w: np.roll(w, 1))
    problem, solution, reference = solved("svm-enumerated")
    node, edge = problem.features.split(solution.point["w"])
    rolled = np.concatenate((np.roll(node, 1, axis=0).ravel(), np.roll(edge, 1, axis=(1, 2)).ravel()))
    assert "do your labels begin at 1?" in hint(problem, {"w": rolled}, reference)


@pytest.mark.parametrize("name", ["svm-enumerated", "risk-enumerated"])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_guessed_about_other_answers(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert told(name, lambda w: w + 0.1 * rng.normal(size=w.shape)) == ""
    assert told(name, lambda w: rng.normal(size=w.shape)) == ""
    assert told(name, lambda w: -w + 0.02 * rng.normal(size=w.shape)) == ""  # near the opposite is not near enough


def test_a_mistake_that_cannot_be_made_explains_nothing() -> None:
    problem, solution, reference = solved("svm-enumerated")

    def fails() -> Any:
        raise ValueError("no such problem")

    with pytest.raises(ValueError, match="no such"):
        explains(Slip("it fails", fails), problem, solution.point, reference)
    assert hint(problem, {"w": np.full(problem.dimension, 1e300)}, reference) == ""


def test_an_answer_that_may_be_optimal_is_told_nothing() -> None:
    problem, solution, reference = solved("svm-enumerated")
    opposite = {"w": -solution.point["w"]}
    assert hint(problem, opposite, reference)
    assert hint(problem, opposite, replace(reference, upper_bound=float(problem.primal(opposite)))) == ""


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


def test_a_gap_is_said_in_numbers_that_differ() -> None:
    assert in_words(25.77, 1.925) == "your objective is 25.77, the optimum 1.925: 13 times"
    assert in_words(1.925001, 1.925) == "your objective is 1.925001, the optimum 1.925"
    assert in_words(-1.0, -2.0) == "your objective is -1, the optimum -2"
    assert in_words(2.0, 2.0) == ""
