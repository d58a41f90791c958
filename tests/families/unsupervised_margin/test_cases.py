"""The cases: what was planted is feasible and optimal, and generators heed their seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from convexstruct.core.cases import Case, Instance
from convexstruct.core.certificates import certify
from convexstruct.families.unsupervised_margin import UnsupervisedMargin, cases
from convexstruct.families.unsupervised_margin.planted import exact
from convexstruct.models import FORMULATIONS
from convexstruct.tolerances import HIGH, ROUNDING
from convexstruct.verification import cases_for
from convexstruct.verification.fingerprint import fingerprint
from convexstruct.verification.references import stored
from tests.reference import optimum

PLANTED = [
    cases.planted_chains, cases.planted_three, cases.planted_tree, cases.planted_points, cases.orthogonal,
    cases.repeated, cases.centred, cases.transitions,
]  # fmt: skip


@pytest.mark.parametrize("make", PLANTED)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_optimum_built_in_is_the_one_a_general_solver_finds(make: Callable[[int], Instance], seed: int) -> None:
    instance = make(seed)
    said = optimum(FORMULATIONS["unsupervised_margin.reduced"].builder(instance.problem))
    assert said.value == pytest.approx(instance.optimum, rel=HIGH.gap, abs=HIGH.gap)


@pytest.mark.parametrize("make", PLANTED[:4])
def test_the_labels_built_in_are_feasible_and_attain_the_optimum(make: Callable[[int], Instance]) -> None:
    for seed in range(5):
        instance = make(seed)
        problem = instance.problem
        assert isinstance(problem, UnsupervisedMargin)
        assert instance.point is not None
        assert max(problem.residuals(instance.point).values()) <= ROUNDING
        certificate = certify(problem, instance.point)
        assert certificate.primal == pytest.approx(instance.optimum, rel=ROUNDING)
        assert exact(problem, instance.point["M"], instance.point["N"]) == instance.optimum
        assert np.linalg.eigvalsh(problem.gram)[0] >= -ROUNDING * np.abs(problem.gram).max()


def test_there_are_at_least_twelve_cases_that_anyone_may_be_asked() -> None:
    assert sum(case.open for case in cases.CASES) >= 12


def test_every_generator_is_deterministic_and_heeds_its_seed() -> None:
    for case in cases.CASES:
        first, again, other = (fingerprint(case.make(seed).problem) for seed in (3, 3, 4))
        assert first == again
        assert first != other, case.name


@pytest.mark.parametrize("case", cases_for("unsupervised_margin"), ids=repr)
def test_the_stored_optimum_lies_in_its_proved_bracket(case: Case) -> None:
    kept = stored(case, case.build())
    assert kept is not None
    assert kept.lower_bound <= kept.value <= kept.upper_bound
