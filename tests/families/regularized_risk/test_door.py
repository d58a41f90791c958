"""The arguments of the problem: every form of data that is read, and the sentence with which each other is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from convexstruct.arrays import Vector
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.tolerances import ROUNDING

X: Vector = np.random.default_rng(0).normal(size=(6, 3))
Y = np.array([1, -1, 1, 1, -1, -1])
CODES = np.array([0, 1, 2, 1, 0, 2])
HAS = np.array([[1, 0, 0], [0, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 0, 1]])
RR = RegularizedRisk
BAD_X = np.where(np.arange(18).reshape(6, 3) == 4, np.nan, X)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    # features
    "one row of numbers": (lambda: RR.binary(X[0], Y, 1.0), r"X has shape \(3,\), wanted \(examples, features\)"),
    "no rows": (lambda: RR.binary(X[:0], [], 1.0), r"X is empty, of shape \(0, 3\), wanted \(examples, features\):"),
    "no columns": (lambda: RR.binary(X[:, :0], Y, 1.0), r"X is empty, of shape \(6, 0\), wanted \(examples,"),
    "NaN": (lambda: RR.binary(BAD_X, Y, 1.0), "X contains NaN or infinity, wanted finite features"),
    "NaN, sparse": (lambda: RR.binary(sp.csr_array(BAD_X), Y, 1.0), "X contains NaN or infinity"),
    "words": (lambda: RR.binary([["a", "b"]], [1], 1.0), "X holds strings, wanted real features"),
    "ragged": (lambda: RR.binary([[1, 2], [3]], [1, -1], 1.0), "X"),
    "pieces of NaN": (lambda: RR.pieces(BAD_X, np.zeros(6), 1.0), "A contains NaN or infinity"),
    # lam
    "lam of zero": (lambda: RR.binary(X, Y, 0.0), r"lam is 0\.0, wanted a positive number"),
    "lam that is no number": (lambda: RR.binary(X, Y, "1"), "lam is '1', wanted a positive number"),  # type: ignore[arg-type]  # wrong on purpose
    # labels of two classes
    "three values": (lambda: RR.binary(X, CODES, 1.0), r"y holds 3 values \(0, 1, 2\), wanted two values"),
    "one value": (lambda: RR.binary(X, [7] * 6, 1.0), r"y holds 1 value \(7\), wanted two values, such as -1 and \+1"),
    "one class with a bias": (lambda: RR.binary(X, [1] * 6, 1.0, bias=True), "y holds 1 alone, wanted both classes"),
    "too few labels": (lambda: RR.binary(X, Y[:-1], 1.0), r"y has shape \(5,\), wanted \(6,\): one label an example"),
    "a column of labels": (lambda: RR.binary(X, Y[:, None], 1.0), r"y has shape \(6, 1\), wanted \(6,\)"),
    "a label of NaN": (lambda: RR.binary(X, [1, -1, np.nan, 1, 1, 1], 1.0), "y contains NaN or infinity"),
    "mixed labels": (lambda: RR.binary(X, np.array([1, "a", 1, 1, 1, 1], dtype=object), 1.0), "y holds mixed objects"),
    # weights
    "a weight of zero": (lambda: RR.binary(X, Y, 1.0, weights=[1, 0, 1, 1, 1, 1]), "weights holds 0, wanted positive"),
    "a weight of NaN": (lambda: RR.multiclass(X, CODES, 1.0, weights=[np.nan] * 6), "weights contains NaN or"),
    "too few weights": (lambda: RR.ordinal(X, CODES, 1.0, weights=[1.0]), r"weights has shape \(1,\), wanted \(6,\)"),
    "weights of rows, not of examples": (
        lambda: RR.pieces(X, np.zeros(6), 1.0, example=[0, 0, 0, 1, 1, 1], weights=np.ones(6)),
        r"weights has shape \(6,\), wanted \(2,\): one an example",
    ),
    # several classes
    "one class": (lambda: RR.multiclass(X, [3] * 6, 1.0), r"y holds 1 value \(3\), wanted at least two classes"),
    "a class out of range": (lambda: RR.multiclass(X, CODES, 1.0, n_classes=2), r"y holds 2, wanted classes 0 \.\. 1"),
    "no number of classes": (lambda: RR.multiclass(X, CODES, 1.0, n_classes=1), "n_classes is 1, wanted a whole"),
    "cost of another shape": (lambda: RR.multiclass(X, CODES, 1.0, cost=np.eye(2)), r"cost has shape \(2, 2\), wanted"),
    "cost on the diagonal": (lambda: RR.multiclass(X, CODES, 1.0, cost=np.eye(3)), "with zeros on its diagonal"),
    "cost below zero": (lambda: RR.multiclass(X, CODES, 1.0, cost=np.eye(3) - 1), "cost holds -1, wanted costs of at"),
    # label sets
    "a set of labels": (lambda: RR.multilabel(X, CODES, 1.0), r"Y has shape \(6,\), wanted \(6, labels\)"),
    "one label": (lambda: RR.multilabel(X, HAS[:, :1], 1.0), "with at least two labels"),
    "a two": (lambda: RR.multilabel(X, HAS * 2, 1.0), "Y holds 2, wanted 0 and 1"),
    "nothing to rank": (lambda: RR.multilabel(X, np.ones((6, 2)), 1.0), "Y gives every example all labels or none"),
    # levels
    "one level": (lambda: RR.ordinal(X, [1] * 6, 1.0), r"y holds 1 value \(1\), wanted at least two levels"),
    "a level out of range": (
        lambda: RR.ordinal(X, CODES, 1.0, thresholds=[0.0]), r"y holds 3 values .* wanted levels 0 \.\. 1",
    ),
    "thresholds that fall": (lambda: RR.ordinal(X, CODES, 1.0, thresholds=[1.0, 0.0]), "in rising order"),
    "no thresholds": (lambda: RR.ordinal(X, CODES, 1.0, thresholds=[]), "at least one"),
    # pieces
    "too few offsets": (lambda: RR.pieces(X, [0.0], 1.0), r"b has shape \(1,\), wanted \(6,\): one offset a row of A"),
    "an offset of infinity": (lambda: RR.pieces(X, [np.inf] * 6, 1.0), "b contains NaN or infinity"),
    "examples out of order": (lambda: RR.pieces(X, np.zeros(6), 1.0, example=[1, 1, 0, 0, 2, 2]), "in rising order"),
    "an example left out": (lambda: RR.pieces(X, np.zeros(6), 1.0, example=[0, 0, 2, 2, 3, 3]), "0, 1, .. in rising"),
    "examples that are no numbers": (lambda: RR.pieces(X, np.zeros(6), 1.0, example=X[:, 0]), r"example\[0\] is"),
    "a floor that is none": (
        lambda: RR.pieces(X, np.zeros(6), 1.0, floor=3), "floor is 3, wanted True or False",  # type: ignore[arg-type]  # wrong on purpose
    ),
    # the bare constructor
    "a loss of other examples": (
        lambda: RR(X[:3], RR.binary(X, Y, 1.0).loss, 1.0), "loss is of 6 scores, wanted 3 x 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_clear_sentence(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as told:
        make()
    assert "\n" not in str(told.value)


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
    predicted = problem.predict(w)
    assert [label == positive for label in predicted] == (X @ w > 0).tolist()
    assert set(predicted) <= set(labels)


def test_one_class_without_a_bias_is_no_error() -> None:
    assert RR.binary(X, np.ones(6), 0.1).value(np.zeros(3)) == pytest.approx(1.0)
    assert RR.binary([[2.0]], [-1], 1.0).value([-0.5]) == pytest.approx(0.125)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_array, sp.coo_array, sp.lil_matrix])
def test_sparse_features_of_any_format_are_read_and_stay_sparse(kind: Any) -> None:
    sparse = RR.multiclass(kind(np.round(X)), CODES, 0.1)
    dense = RR.multiclass(np.round(X), CODES, 0.1)
    assert sp.issparse(sparse.X)
    w = np.random.default_rng(1).normal(size=dense.shape)
    assert sparse.value(w) == pytest.approx(dense.value(w), rel=ROUNDING)
    np.testing.assert_array_equal(sparse.predict(w), dense.predict(w))
    assert sp.issparse(sparse.matrix())


def test_features_of_whole_numbers_lists_and_fortran_order_are_read() -> None:
    rounded = np.round(X)
    want = RR.binary(rounded, Y, 0.1).value(np.ones(3))
    for given in (rounded.astype(np.int8), rounded.tolist(), np.asfortranarray(rounded), rounded.astype(np.float32)):
        assert RR.binary(given, Y, 0.1).value(np.ones(3)) == want


def test_a_weight_counts_as_so_many_copies() -> None:
    twice = np.repeat(np.arange(6), [1, 2, 1, 3, 1, 1])
    weights = np.bincount(twice)
    rng = np.random.default_rng(2)

    def made(kind: str, at: NDArray[np.intp], weights: Any) -> RegularizedRisk:
        if kind == "binary":
            return RR.binary(X[at], Y[at], 0.1, bias=True, weights=weights)
        if kind == "multiclass":
            return RR.multiclass(X[at], CODES[at], 0.1, weights=weights)
        if kind == "multilabel":
            return RR.multilabel(X[at], HAS[at], 0.1, weights=weights)
        return RR.ordinal(X[at], CODES[at], 0.1, weights=weights)

    for kind in ("binary", "multiclass", "multilabel", "ordinal"):
        weighted, copied = made(kind, np.arange(6), weights), made(kind, twice, None)
        scaled = made(kind, np.arange(6), 5.0 * weights)
        w = rng.normal(size=weighted.shape)
        assert weighted.value(w) == pytest.approx(copied.value(w), rel=ROUNDING)
        assert weighted.value(w) == pytest.approx(scaled.value(w), rel=ROUNDING)


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
    levels = RR.ordinal(X, CODES * 10, 0.1)
    at = {"w": w[0], "b": np.array([-0.5, 0.5])}
    assert levels.predict(at, other) == [10 * int(sum(w[0] @ x > t for t in (-0.5, 0.5))) for x in other]
    fixed = RR.ordinal(X, CODES, 0.1, thresholds=[-0.5, 0.5])
    assert fixed.predict(w[0], other) == [int(sum(w[0] @ x > t for t in (-0.5, 0.5))) for x in other]
    biased = RR.binary(X, Y, 0.1, bias=True)
    assert biased.predict({"w": w[0], "b": 0.7}, other) == [1 if w[0] @ x > -0.7 else -1 for x in other]
    ranked = RR.multilabel(X, HAS, 0.1)
    np.testing.assert_allclose(ranked.predict(w, other), other @ w.T)


def test_examples_to_predict_are_read_as_features_are() -> None:
    problem = RR.binary(X, Y, 0.1)
    w = np.array([1.0, -1.0, 0.5])
    for given in (X[:2], X[:2].tolist(), sp.coo_matrix(X[:2]), np.asfortranarray(X[:2])):
        np.testing.assert_array_equal(problem.predict(w, examples=given), problem.predict(w)[:2])
    assert problem.predict(w) == np.where(X @ w > 0, 1, -1).tolist()
    for bad, message in (
        (X[:, :2], r"examples has shape .*, wanted .*, 3\)"),
        (np.full((2, 3), np.nan), "examples"),
        (X[0], "examples"),
        ("rows", "examples"),
    ):
        with pytest.raises(ValueError, match=message):
            problem.predict(w, bad)


def test_free_thresholds_come_out_in_order() -> None:
    """Chu and Keerthi 2005, theorem 1: no constraint says so."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        problem = RR.ordinal(rng.normal(size=(12, 2)), rng.permutation(np.arange(12) % 4), 0.1)
        assert (np.diff(problem.best_bias(rng.normal(size=2))) >= 0).all()
