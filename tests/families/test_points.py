"""What every kind of problem makes of points and dual points that are none, and of no time, over the registry."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import convexstruct as cs
from convexstruct import deadline
from convexstruct.core.certificates import certify
from tests.core.problems import KINDS, one_of_each
from tests.refusals import check_sentence

each_kind = pytest.mark.parametrize("kind", [kind.__name__ for kind in KINDS])
#: Problems whose lower bound is a constant, or none.
NOTHING_BELOW = ("ApproximateField", "HiddenMarkov", "UnrolledEnergyNetwork")


@cache
def witness(kind: str) -> dict[str, Any]:
    """The dual point of a short run, {} where the default solver gives none."""
    return dict(cs.solve(one_of_each()[kind], max_iterations=5).dual_point or {})


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


@each_kind
def test_what_is_no_point_is_refused_in_a_sentence_that_names_it(kind: str) -> None:
    problem = one_of_each()[kind]
    point = problem.as_point(problem.trivial()[0])
    for none in (None, "text", {}, {"nonsense": np.ones(3)}, [[1.0], [2.0, 3.0]], object()):
        refused(problem.as_point, none, "point", "wanted", *point)
    for key, value in point.items():
        for bad in (np.ones((2, *np.shape(value))), "text", None, [object()]):
            refused(problem.as_point, {**point, key: bad}, key)


@each_kind
def test_what_is_not_finite_has_no_value_and_certifies_nothing(kind: str) -> None:
    problem = one_of_each()[kind]
    point = problem.trivial()[0]
    for key, value in point.items():
        for entry in (np.nan, np.inf, -np.inf):
            if (bad := spoilt(value, entry)) is not None:
                certificate = certify(problem, {**point, key: bad})
                assert certificate.claimed == certificate.gap == np.inf  # it may be repaired


@each_kind
def test_what_is_no_dual_point_is_refused_or_proves_nothing(kind: str) -> None:
    problem, dual = one_of_each()[kind], witness(kind)
    if kind == "ApproximateField":
        return  # nothing bounds it from below
    for none in ("text", {"nonsense": np.ones(3)}, [1.0]):
        refused(problem.dual, none, "dual_point")
    for key, value in dual.items():
        refused(problem.dual, {**dual, key: np.ones((7, *np.shape(value), 3))}, key)
        for entry in (np.nan, np.inf, -np.inf):
            if (bad := spoilt(value, entry)) is not None:
                assert float(problem.dual({**dual, key: bad})) == -np.inf
                assert max(problem.dual_residuals({**dual, key: bad}).values(), default=np.inf) > 0
        if np.asarray(value).dtype.kind == "i":
            for bad in (value + 0.5, value.astype(np.int64) + 10**6, value.astype(np.int64) - 10**6):
                with pytest.raises(ValueError) as refusal:
                    problem.dual({**dual, key: bad})
                check_sentence(refusal.value)


@each_kind
def test_bounds_ask_for_the_deadline(kind: str) -> None:
    problem = one_of_each()[kind]
    point = problem.as_point(problem.trivial()[0])
    for bound, given in ((problem.primal, point), (problem.dual, witness(kind))):
        if bound == problem.primal or kind not in NOTHING_BELOW:
            with deadline.within(0.0), pytest.raises(deadline.DeadlinePassed):
                bound(given)
