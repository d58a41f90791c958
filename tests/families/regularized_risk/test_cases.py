from __future__ import annotations

import numpy as np

from convexstruct.core.cases import Instance
from convexstruct.families.regularized_risk import cases
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.models import FORMULATIONS
from convexstruct.tolerances import HIGH, ROUNDING


def made(instance: Instance) -> RegularizedRisk:
    assert isinstance(instance.problem, RegularizedRisk)
    return instance.problem


def test_the_planted_machine_has_margins_of_every_kind() -> None:
    instance = cases.planted(0)
    assert instance.point is not None
    values = made(instance).values(instance.point["w"])
    assert (values < -HIGH.gap).any()
    assert (np.abs(values) < ROUNDING).sum() >= 2
    assert (values > HIGH.gap).any()


def test_several_pieces_tie_in_the_planted_groups() -> None:
    for make in (cases.planted_pieces, cases.planted_floor):
        instance = make(0)
        assert instance.point is not None
        problem = made(instance)
        values = problem.values(instance.point["w"])
        top = problem.losses(values)[problem.group]
        active = np.bincount(problem.group, np.abs(values - top) < ROUNDING)
        assert (active > 1).any()


def test_the_extreme_cases_are_what_they_say() -> None:
    hardly, strongly = made(cases.small_lam(0)), made(cases.large_lam(0))
    w = FORMULATIONS["regularized_risk.primal"].builder(hardly).solve().point["w"]
    assert np.linalg.norm(w) > 5
    dual = FORMULATIONS["regularized_risk.adjoint"].builder(strongly).solve().dual_point
    assert dual is not None
    np.testing.assert_allclose(dual["alpha"], 1 / 30, atol=HIGH.feasibility)
