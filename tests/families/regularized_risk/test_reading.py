"""What the problem makes of labels, points and weights, and what it predicts; `refusals` has what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.families.regularized_risk import RegularizedRisk as RR
from convexstruct.tolerances import ROUNDING
from tests.families.regularized_risk.refusals import CODES, HAS, X, Y


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        ([1, 0, 1, 1, 0, 0], 1),
        ([True, False, True, True, False, False], True),
        (["yes", "no", "yes", "yes", "no", "no"], "yes"),
        ([3.5, -2.0, 3.5, 3.5, -2.0, -2.0], 3.5),
    ],
)
def test_any_two_values_serve_as_labels_and_come_back_as_predictions(labels: list[Any], positive: Any) -> None:
    problem = RR.binary(X, labels, 0.1)
    np.testing.assert_array_equal(problem.loss.labels, Y)
    w = np.array([1.0, -1.0, 0.5])
    assert [label == positive for label in problem.predict(w)] == (X @ w > 0).tolist()
    assert set(problem.predict(w)) <= set(labels)


def test_a_weight_counts_as_so_many_copies() -> None:
    twice = np.repeat(np.arange(6), [1, 2, 1, 3, 1, 1])
    w = np.random.default_rng(2).normal(size=(3, 3))
    for size in (1.0, 5.0):
        weighted = RR.multiclass(X, CODES, 0.1, weights=size * np.bincount(twice))
        assert weighted.value(w) == pytest.approx(RR.multiclass(X[twice], CODES[twice], 0.1).value(w), rel=ROUNDING)


def test_points_are_read_flat_in_shape_or_by_name_and_the_best_bias_is_filled_in() -> None:
    problem = RR.multiclass(X, CODES, 0.1)
    w = np.arange(9.0).reshape(3, 3)
    for given in (w, w.ravel(), w.tolist(), {"w": w}, {"w": w.ravel()}):
        np.testing.assert_array_equal(problem.as_point(given)["w"], w)
    biased = RR.binary(X, Y, 0.1, bias=True)
    point = biased.as_point([1.0, 2.0, 3.0])
    assert biased.primal(point) == pytest.approx(biased.value([1.0, 2.0, 3.0]), rel=1e-14)
    assert biased.primal(point) <= biased.primal(biased.as_point({"w": [1.0, 2.0, 3.0], "b": 0.3}))


def test_predictions_are_the_rules_written_out() -> None:
    rng = np.random.default_rng(3)
    other = rng.normal(size=(4, 3))
    classes = RR.multiclass(X, np.array(["a", "b", "c"])[CODES], 0.1)
    w = rng.normal(size=(3, 3))
    assert classes.predict(w, other) == [["a", "b", "c"][int(np.argmax(w @ x))] for x in other]
    assert classes.predict(w, sp.coo_matrix(other)) == classes.predict(w, other.tolist()) == classes.predict(w, other)
    levels = RR.ordinal(X, CODES * 10, 0.1)
    at = {"w": w[0], "b": np.array([-0.5, 0.5])}
    assert levels.predict(at, other) == [10 * int(sum(w[0] @ x > t for t in (-0.5, 0.5))) for x in other]
    fixed = RR.ordinal(X, CODES, 0.1, thresholds=[-0.5, 0.5])
    assert fixed.predict(w[0], other) == [int(sum(w[0] @ x > t for t in (-0.5, 0.5))) for x in other]
    biased = RR.binary(X, Y, 0.1, bias=True)
    assert biased.predict({"w": w[0], "b": 0.7}, other) == [1 if w[0] @ x > -0.7 else -1 for x in other]
    ranked = RR.multilabel(X, HAS, 0.1)
    np.testing.assert_allclose(ranked.predict(w, other), other @ w.T)


def test_free_thresholds_come_out_in_order() -> None:
    """Chu and Keerthi 2005, theorem 1: no constraint says so."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        problem = RR.ordinal(rng.normal(size=(12, 2)), rng.permutation(np.arange(12) % 4), 0.1)
        assert (np.diff(problem.best_bias(rng.normal(size=2))) >= 0).all()
