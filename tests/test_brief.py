"""Problems show their sizes and not their numbers, those of every family and however large."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core import registry
from convexstruct.core.cases import Case
from convexstruct.families.generative_margin.constraints import Floor
from convexstruct.families.generative_margin.objectives import QuadraticPenalty
from tests.families.generative_margin.instances import small_hmm

CASES = [case for family in registry.families().values() for case in family.cases if case.quick]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_problem_of_every_case_is_shown_in_a_few_lines(case: Case) -> None:
    problem = case.build(0)
    assert repr(problem).startswith(f"{type(problem).__name__}(")
    assert len(repr(problem)) < 500
    assert "array(" not in repr(problem)


def test_sizes_pieces_and_numbers_are_shown_and_what_is_none_is_not() -> None:
    problem = small_hmm(0)
    shown = repr(problem)
    assert "n_states 2" in shown
    assert f"c ({problem.dimension},), eta 0.3" in shown
    assert "workers" not in shown
    assert repr(Floor(-3.0)) == "Floor(at -3)"
    assert repr(QuadraticPenalty(np.ones(10_000), 0.5)) == "QuadraticPenalty(weight (10000,), centre 0.5)"
