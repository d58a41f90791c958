"""A saved estimator predicts as before, from one file without training data; any other file is one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer, FeatureHasher

from convexstruct.estimators import ChainTagger
from tests.estimators.test_chain_tagger import NUMBERS, TABLES, X, Y

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.mark.parametrize(
    ("vectorizer", "data", "labels"),
    [
        (None, X, Y),
        (DictVectorizer(separator=":", sparse=False, sort=False, dtype=np.float32), X, Y),
        (FeatureHasher(32, alternate_sign=False), X, Y),
        (None, TABLES, NUMBERS),
    ],
    ids=["dicts", "options", "hashed", "tables"],
)
def test_what_is_loaded_predicts_as_what_was_saved(tmp_path: Path, vectorizer: Any, data: Any, labels: Any) -> None:
    tagger = ChainTagger("likelihood", C=0.5, tol="MID", vectorizer=vectorizer).fit(data, labels)
    path = tagger.save(tmp_path / "tagger.npz")
    loaded = ChainTagger.load(path)
    assert loaded.get_params()["C"] == 0.5
    assert loaded.classes_.dtype == tagger.classes_.dtype
    for ours, theirs in zip(loaded.predict(data), tagger.predict(data), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(loaded.predict_marginals(data), tagger.predict_marginals(data), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert not hasattr(loaded, "solution_")
    assert loaded.set_params(warm_start=True).fit(data, labels).solution_.iterations == 1
    with open(path, "rb") as file:
        assert set(np.load(file, allow_pickle=False).files) == {"head", "coef_", "edge_coef_"}


def test_parameters_that_json_cannot_hold_are_left_out(tmp_path: Path) -> None:
    costs = np.array([[0.0, 1.0], [2.0, 0.0]])
    tagger = ChainTagger(cost=costs, progress=False, tol="LOW").fit(TABLES, NUMBERS)
    tagger.set_params(progress=print)
    loaded = ChainTagger.load(tagger.save(tmp_path / "tagger.npz"))
    assert loaded.progress is None
    assert loaded.cost == costs.tolist()
    assert loaded.score(TABLES, NUMBERS) == tagger.score(TABLES, NUMBERS)


def _head(**changes: Any) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        head = {**json.loads(arrays["head"].tobytes()), **changes}
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)

    return change


def _array(name: str, value: Any) -> Callable[[Arrays], None]:
    return lambda arrays: arrays.update({name: np.asarray(value)})


CHANGES: list[tuple[Callable[[Arrays], Any], str]] = [
    (_head(format=2, convexstruct="9.9"), "it has the format 2, from version '9.9'; this version reads 1"),
    (_head(format=True), "it has a head without a format"),
    (_head(estimator="GraphTagger"), "it holds a GraphTagger, wanted a ChainTagger"),
    (_head(params={"__class__": 1}), "it has the parameter '__class__', which is unknown"),
    (_head(names={}), "it has other names than classes_"),
    (_head(words={"kind_": "binary"}), "it has other words than reads_"),
    (_head(names={"classes_": {"dtype": "<U4", "values": ["A"]}}), "it has no list 'classes_' of at least 2"),
    (_head(names={"classes_": {"dtype": "|V8", "values": ["A", "B"]}}), "it has 'classes_' of the type"),
    (_head(names={"classes_": {"dtype": "<U4", "values": [["A"], {}]}}), "it has 'classes_' that are neither"),
    (_head(names={"classes_": {"dtype": "<i8", "values": [1.2, 1.7, 2, 3]}}), "it has 'classes_' that are not of the"),
    (
        _head(names={"classes_": {"dtype": "<U4", "values": [1, "A", "B", "C"]}}),
        "it has 'classes_' that are not of the",
    ),
    (_head(n_features=4), "it names"),
    (_head(vectorizer={"name": "Popen", "params": {}, "features": []}), "it has the vectorizer 'Popen'"),
    (_head(vectorizer={"name": "DictVectorizer", "params": {"dtype": "O"}, "features": [1]}), "it has no list of"),
    (_head(vectorizer={"name": "FeatureHasher", "params": {"dtype": "f8", "n_features": 3}}), "it hashes to 3"),
    (lambda arrays: arrays.pop("head"), "it has no head"),
    (_array("head", np.frombuffer(b"{", dtype=np.uint8)), "it Expecting"),
    (_array("extra", 1.0), "it holds other arrays than coef_, edge_coef_"),
    (_array("coef_", np.ones((2, 2))), "it holds weights that do not fit its labels and features"),
    (_array("coef_", np.full((4, 9), np.nan)), "it holds 'coef_' with entries that are no finite numbers"),
    (_array("edge_coef_", np.ones((1, 4, 4), dtype=int)), "it holds 'edge_coef_' with entries"),
]


@pytest.mark.parametrize(("change", "said"), CHANGES, ids=range(len(CHANGES)))
def test_a_file_that_was_changed_is_refused_in_one_sentence(tmp_path: Path, change: Any, said: str) -> None:
    tagger = ChainTagger("likelihood", tol="LOW").fit(X, Y)
    with open(tagger.save(tmp_path / "tagger.npz"), "rb") as file:
        arrays = dict(np.load(file, allow_pickle=False))
    change(arrays)
    np.savez(tmp_path / "changed.npz", **arrays)
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        ChainTagger.load(tmp_path / "changed.npz")
    assert len(str(caught.value)) <= 300


def test_what_is_not_fitted_or_cut_off_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        ChainTagger().save(tmp_path / "tagger.npz")
    whole = ChainTagger("likelihood", tol="LOW").fit(X, Y).save(tmp_path / "tagger.npz").read_bytes()
    path = tmp_path / "other.npz"
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="is not a saved ChainTagger: it is no whole archive"):
            ChainTagger.load(path)
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="more than the 10 allowed"):
        ChainTagger.load(path, largest=10)
