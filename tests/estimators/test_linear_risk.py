"""`LinearRisk`: scikit-learn's checks, and the weights and bounds of regularized_risk."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import SkipTestWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

import convexstruct as cs
from convexstruct.estimators import LinearRisk

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
LEVELS = np.digitize(X @ [1.0, -1.0, 0.5] + 0.3 * RNG.normal(size=30), [-0.5, 0.5])
NAMES = np.array(["low", "middle", "top"])[LEVELS]
TABLE = (X + 0.3 * RNG.normal(size=(30, 3)) > 0).astype(int)
OMEGA = RNG.integers(1, 3, size=30).astype(float)

#: scikit-learn's checks that fail, and why.
EXPECTED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "the optimum is certified to a gap of 1e-6, which leaves the "
    "scores a few digits fewer than the 1e-7 asked for"
    for kind in ("dense", "sparse")
}


@pytest.mark.slow
def test_it_passes_the_checks_of_scikit_learn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)  # what is not installed: pandas, array API
        check_estimator(LinearRisk(), expected_failed_checks=EXPECTED)


def problems(kind: str, C: float) -> tuple[Any, cs.RegularizedRisk]:
    """Labels, and the problem that scikit-learn's convention for C makes of them."""
    lam, wide = 1.0 / (C * OMEGA.sum()), np.column_stack((X, np.ones(30)))
    if kind == "binary":
        y = NAMES == "top"
        return y, cs.RegularizedRisk.binary(X, y.astype(int), lam, True, OMEGA)
    if kind == "ordinal":
        return NAMES, cs.RegularizedRisk.ordinal(X, LEVELS, lam, weights=OMEGA)
    if kind == "multilabel":
        return TABLE, cs.RegularizedRisk.multilabel(wide, TABLE, lam, OMEGA)
    return NAMES, cs.RegularizedRisk.multiclass(wide, LEVELS, lam, weights=OMEGA)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "ordinal"])
def test_it_has_the_solution_and_predictions_of_regularized_risk(kind: str) -> None:
    y, problem = problems(kind, 2.0)
    model = LinearRisk(kind, C=2.0).fit(X, y, sample_weight=OMEGA)
    found = cs.solve(problem)
    assert model.certificate_ == found.certificate
    assert found.status.solved
    np.testing.assert_array_equal(model.coef_, np.atleast_2d(found.point["w"])[:, :3])
    if kind == "multilabel":
        scores = problem.scores(found.point["w"])
        assert np.ptp(scores - model.decision_function(X)) < 1e-12
        best = min(OMEGA @ ((scores > t) != TABLE).sum(axis=1) for t in [-np.inf, *scores.ravel()])
        assert OMEGA @ (model.predict(X) != TABLE).sum(axis=1) == best
    else:
        codes = np.array(problem.predict(found.point))
        classes = model.classes_[(codes > 0).astype(int) if kind == "binary" else codes]
        np.testing.assert_array_equal(model.predict(X), classes)
        assert model.score(X, y, OMEGA) == OMEGA[classes == y].sum() / OMEGA.sum()


@pytest.mark.parametrize(("y", "kind"), [(LEVELS > 0, "binary"), (NAMES, "multiclass"), (TABLE, "multilabel")])
def test_auto_sees_the_kind_from_the_labels(y: Any, kind: str) -> None:
    model = LinearRisk().fit(X, y)
    assert model.kind_ == kind
    np.testing.assert_array_equal(LinearRisk(kind).fit(sp.csr_array(X), y).predict(X), model.predict(X))


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "ordinal"])
@pytest.mark.parametrize("objects", [False, True])
def test_a_loaded_model_predicts_the_same(tmp_path: Path, kind: str, objects: bool) -> None:
    y = problems(kind, 1.0)[0]
    y = y.astype(object) if objects and kind in ("multiclass", "ordinal") else y
    model = LinearRisk(kind, tol="LOW").fit(X, y)
    loaded = LinearRisk.load(model.save(tmp_path / "model.npz"))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.classes_.dtype == model.classes_.dtype


def test_grid_search_weights_of_0_warm_starts_and_no_intercept() -> None:
    for y in (LEVELS > 0, NAMES):
        assert not LinearRisk(fit_intercept=False).fit(X, y).intercept_.any()
    search = GridSearchCV(LinearRisk(), {"C": [0.1, 10.0]}, cv=3).fit(X, NAMES)
    assert search.best_score_ > 0.5
    omega = np.r_[np.ones(20), np.zeros(10)]
    model = LinearRisk(warm_start=True).fit(X, NAMES, omega)
    np.testing.assert_array_equal(model.coef_, LinearRisk().fit(X[:20], NAMES[:20], omega[:20]).coef_)
    first = model.solution_.iterations
    assert model.fit(X, NAMES, omega).solution_.iterations < first
    assert model.fit(X, NAMES).solution_.status.solved  # another dual point's shape: only the weights are taken over


def test_a_damaged_sparse_matrix_is_refused_at_every_door() -> None:
    """SciPy's and scikit-learn's code reads foreign memory then; kinds of damage are in `tests/validation`."""
    model, damaged, labels = LinearRisk().fit(X, NAMES), sp.csr_array(X), sp.csr_array(TABLE)
    damaged.indices[0] = labels.indices[0] = 10**8
    for call in (model.predict, model.decision_function, lambda bad: model.score(bad, NAMES),
                 lambda bad: LinearRisk().fit(bad, NAMES), lambda bad: LinearRisk().problem(bad, NAMES)):  # fmt: skip
        with pytest.raises(ValueError, match="X is no valid sparse matrix"):
            call(damaged)
    with pytest.raises(ValueError, match="y is no valid sparse matrix"):
        LinearRisk("multilabel").fit(X, labels)


def test_calibration_reads_ordinal_and_two_class_scores() -> None:
    """scikit-learn expects (n,) scores of two classes and (n, K) of more, the largest of which is predicted."""
    rng = np.random.default_rng(1)
    wide = rng.normal(size=(300, 3))
    levels = np.digitize(wide @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=300), [-0.5, 0.5])
    for kind, y in (("ordinal", levels), ("ordinal", levels > 0), ("multiclass", levels > 0)):
        model = LinearRisk(kind).fit(wide, y)
        scores = model.decision_function(wide)
        several = len(model.classes_) > 2
        assert scores.shape == ((300, 3) if several else (300,))
        at = scores.argmax(axis=1) if several else (scores > 0).astype(int)
        np.testing.assert_array_equal(model.predict(wide), model.classes_[at])
        calibrated = CalibratedClassifierCV(LinearRisk(kind, tol="LOW"), cv=3).fit(wide, y)
        assert calibrated.score(wide, y) > model.score(wide, y) - 0.05 > 0.8
        if not several:
            assert roc_auc_score(y, scores) > 0.9


def test_class_weights_are_weights_of_examples() -> None:
    weights = {"low": 3.0, "top": 0.5}
    for given, each in (
        (weights, np.array([weights.get(name, 1.0) for name in NAMES])),
        ("balanced", 30 / (3 * np.array([(name == NAMES).sum() for name in NAMES]))),
    ):
        weighted = LinearRisk(class_weight=given).fit(X, NAMES)
        np.testing.assert_array_equal(weighted.coef_, LinearRisk().fit(X, NAMES, each).coef_)
        both = LinearRisk(class_weight=given).fit(X, NAMES, OMEGA)
        np.testing.assert_array_equal(both.coef_, LinearRisk().fit(X, NAMES, each * OMEGA).coef_)
    with pytest.raises(ValueError, match="class_weight is given, wanted None with the loss 'multilabel'"):
        LinearRisk(class_weight="balanced").fit(X, TABLE)
