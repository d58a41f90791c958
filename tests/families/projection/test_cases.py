from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.projection import cases
from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.tables import MarginalProjection
from convexstruct.models import FORMULATIONS

TABLES = [cases.planted_tree, cases.planted_loop, cases.planted_edges]


def test_a_third_of_the_planted_entries_stands_at_each_bound() -> None:
    instance = cases.planted_many(0)
    problem = instance.problem
    assert isinstance(problem, BoxProjection)
    assert instance.point is not None
    for bound in (problem.lower, problem.upper):
        assert 0.3 < np.mean(instance.point["a"] == bound) < 0.4


def test_the_root_of_the_kink_is_a_breakpoint() -> None:
    problem = cases.kink(0).problem
    assert isinstance(problem, BoxProjection)
    below, at, above = (problem.total(problem.at(rho)) - problem.z for rho in (1 - 1e-3, 1.0, 1 + 1e-3))
    assert at == 0
    assert below == pytest.approx(16e-3)
    assert above == pytest.approx(-8e-3)


def test_the_planted_loop_belongs_to_no_distribution() -> None:
    with pytest.raises(ValueError, match="form no junction tree"):
        FORMULATIONS["projection.labellings"].builder(cases.planted_loop(0).problem)


def test_the_planted_tables_have_entries_at_zero() -> None:
    for make in TABLES:
        instance = make(0)
        assert instance.point is not None
        assert (instance.point["a"] == 0).mean() > 0.3


def test_every_example_of_the_margins_sums_to_its_share() -> None:
    problem = cases.margins(0).problem
    assert isinstance(problem, MarginalProjection)
    assert set(problem.scale) == {1 / 60}
