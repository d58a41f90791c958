"""What every kind of problem makes of points and dual points that are none, over the registry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.families.log_linear import ApproximateField
from tests.core.problems import one_of_each
from tests.refusals import check_sentence

each_problem = pytest.mark.parametrize("problem", one_of_each().values(), ids=lambda one: type(one).__name__)


def refused(read: Any, given: Any, *words: str) -> None:
    with pytest.raises(ValueError) as refusal:
        read(given)
    check_sentence(refusal.value)
    assert any(word in str(refusal.value) for word in words), refusal.value


def spoilt(value: Any, entry: float) -> Any:
    """The first entry is replaced; None where ``value`` holds no floats."""
    array = np.array(value)
    if array.dtype != float or not array.size:
        return None
    array.flat[0] = entry
    return array


@each_problem
def test_what_is_no_point_is_refused_in_a_sentence_that_names_it(problem: Any) -> None:
    point = problem.as_point(problem.trivial()[0])
    for none in (None, "text", {}, {"nonsense": np.ones(3)}, [[1.0], [2.0, 3.0]], object()):
        refused(problem.as_point, none, "point", "wanted", *point)
    for key, value in point.items():
        for bad in (np.ones((2, *np.shape(value))), "text", None, [object()]):
            refused(problem.as_point, {**point, key: bad}, key)


@each_problem
def test_what_is_not_finite_has_no_value_and_certifies_nothing(problem: Any) -> None:
    point = problem.trivial()[0]
    for key, value in point.items():
        for entry in (np.nan, np.inf, -np.inf):
            if (bad := spoilt(value, entry)) is not None:
                certificate = certify(problem, {**point, key: bad})
                assert certificate.claimed == certificate.gap == np.inf  # it may be repaired


@each_problem
def test_what_is_no_dual_point_is_refused_or_proves_nothing(problem: Any) -> None:
    dual = problem.trivial()[1]
    if isinstance(problem, ApproximateField):
        return  # nothing bounds it from below
    for none in ("text", {"nonsense": np.ones(3)}, [1.0]):
        refused(problem.dual, none, "dual_point")
    for key, value in dual.items():
        refused(problem.dual, {**dual, key: np.ones((7, *np.shape(value), 3))}, key)
        for entry in (np.nan, np.inf, -np.inf):
            if (bad := spoilt(value, entry)) is not None:
                assert float(problem.dual({**dual, key: bad})) == -np.inf
