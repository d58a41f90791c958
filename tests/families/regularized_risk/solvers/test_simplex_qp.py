"""The inner problem against trying every support, also with planes that repeat or are linearly dependent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Vector
from convexstruct.deadline import within
from convexstruct.families.regularized_risk.solvers.simplex_qp import maximise
from convexstruct.tolerances import ROUNDING


def value(gram: Vector, b: Vector, lam: float, beta: Vector) -> float:
    return float(b @ beta - beta @ gram @ beta / (2 * lam))


def by_supports(gram: Vector, b: Vector, lam: float) -> float:
    """The largest value at a stationary point, over all supports, that lies in the simplex."""
    best = max(value(gram, b, lam, e) for e in np.eye(len(b)))
    for support in range(1, 2 ** len(b)):
        on = np.flatnonzero([support >> j & 1 for j in range(len(b))])
        size = len(on)
        system = np.block([[gram[np.ix_(on, on)] / lam, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
        found = np.linalg.lstsq(system, np.append(b[on], 1.0), rcond=None)[0][:size]
        if found.min() >= -ROUNDING and abs(found.sum() - 1) < ROUNDING:
            beta = np.zeros(len(b))
            beta[on] = found
            best = max(best, value(gram, b, lam, beta))
    return best


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 7), st.integers(1, 5), st.sampled_from([1e-3, 1.0, 100.0]), st.integers(0, 10_000))
def test_the_maximum_is_that_of_the_best_support(t: int, d: int, lam: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    planes, b = np.round(rng.normal(size=(t, d)), 1), np.round(rng.normal(size=t), 1)
    gram = planes @ planes.T  # singular where t > d, and where rows repeat
    warm = rng.random(t)
    for start in (np.eye(t)[0], warm / warm.sum()):
        beta = maximise(gram, b, lam, start)
        assert beta.min() >= 0
        assert beta.sum() == pytest.approx(1.0, abs=ROUNDING)
        best = by_supports(gram, b, lam)
        assert value(gram, b, lam, beta) == pytest.approx(best, abs=ROUNDING * (1 + abs(best) + 1 / lam))


@pytest.mark.parametrize(
    ("planes", "b", "start"),
    [
        (np.ones((4, 1)), [0.5, 0.5, 0.5, 0.1], [0.0, 0.0, 0.0, 1.0]),
        (np.zeros((3, 1)), [1.0, 3.0, 2.0], [1.0, 0.0, 0.0]),
        ([[3.0, 1.0], [3.0, 1.0], [0.0, 2.0]], [1.0, 1.0, 0.0], [0.5, 0.5, 0.0]),
    ],
    ids=["equal", "zero", "repeated"],
)
def test_planes_that_repeat_or_vanish_have_the_maximum_of_the_best_support(planes: Any, b: Any, start: Any) -> None:
    """By the RIDGE of the simplex_qp: without it the last matrix is factored for ever."""
    gram = np.asarray(planes) @ np.transpose(planes)
    with within(10.0):
        found = value(gram, np.array(b), 1.0, maximise(gram, np.array(b), 1.0, np.array(start)))
    assert found == pytest.approx(by_supports(gram, np.array(b), 1.0), abs=ROUNDING)


def test_supports_that_rounding_repeats_without_end_are_left() -> None:
    """Planes of lengths that differ by up to 1e6 and a small lam: without EXCHANGES of the simplex_qp the same supports
    come again and again."""
    rng = np.random.default_rng(566)
    t, d = int(rng.integers(1, 40)), int(rng.integers(1, 12))
    planes = np.round(rng.normal(size=(t, d)), 1) * 10.0 ** rng.uniform(-3, 3, size=(t, 1))
    b, lam = np.round(rng.normal(size=t), 1), 10.0 ** rng.uniform(-6, 3)
    gram = planes @ planes.T
    with within(10.0):
        beta = maximise(gram, b, lam, np.eye(t)[0])
    assert value(gram, b, lam, beta) >= max(value(gram, b, lam, e) for e in np.eye(t))
