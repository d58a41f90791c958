"""One contract of prediction in every family: ``problem.predict(point, examples=None)`` returns a list."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from convexstruct.core.registry import families
from convexstruct.verification.cases import select

KINDS = [kind for family in families().values() for kind in family.problems]
CASES = select(None, quick=True)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_a_prediction_takes_a_point_and_perhaps_examples(kind: Any) -> None:
    parameters = inspect.signature(kind.predict).parameters
    assert list(parameters) == ["self", "point", "examples"]
    assert parameters["examples"].default is None


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_problems_own_examples_are_predicted_as_a_list_or_prediction_is_refused(case: Any) -> None:
    problem = case.build(0)
    point, _ = problem.trivial()
    if case.family == "projection":  # it learns nothing from examples
        with pytest.raises(ValueError, match="has no prediction"):
            problem.predict(point)
        return
    found = problem.predict(point)
    assert isinstance(found, list)
    assert len(found) > 0
