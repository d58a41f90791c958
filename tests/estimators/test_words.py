"""Sentences of words: their features, taggers that read them, and what these learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.estimators import ChainTagger, GenerativeTagger, word_features

WORDS = [text.split() for text in ("Ann sees Bob", "the dog sees the cat", "Bob sleeps", "Rome")]
KINDS = [["B-PER", "O", "B-PER"], ["O"] * 5, ["B-PER", "O"], ["B-LOC"]]
TAGGED = [[(word, "NNP" if word[0].isupper() else "OTHER") for word in words] for words in WORDS]


def test_the_features_of_a_sentence_by_hand() -> None:
    first, second = word_features([("Ann-7", "NNP"), ("is", "VB")])
    assert first == [
        "bias", "word=Ann-7", "prefix=a", "prefix=an", "prefix=ann", "prefix=ann-", "suffix=7", "suffix=-7",
        "suffix=n-7", "suffix=nn-7", "digits=ann-0", "lower=ann-7", "shape=Xx-d", "1=NNP", "+1:lower=is", "+1:shape=x",
        "+1:1=VB", "first", "+0:1=NNP|VB",
    ]  # fmt: skip
    assert second == [
        "bias", "word=is", "prefix=i", "prefix=is", "suffix=s", "suffix=is", "lower=is", "shape=x", "1=VB",
        "-1:lower=ann-7", "-1:shape=Xx-d", "-1:1=NNP", "last", "-1:1=NNP|VB",
    ]  # fmt: skip


def test_tuples_and_dicts_of_columns_have_the_same_features_and_a_single_word_no_neighbours() -> None:
    (only,) = word_features(["A"])
    assert {"first", "last", "word=A"} <= set(only)
    assert not [name for name in only if name[0] in "+-"]
    rows = [[{"word": word, "tag": tag} for word, tag in words] for words in TAGGED]
    assert [word_features(words) for words in TAGGED] == [word_features(words) for words in rows]
    neighbours = word_features(TAGGED[1])[2]
    assert {"-2:lower=the", "-1:lower=dog", "+1:lower=the", "+2:lower=cat", "-2:1=OTHER"} <= set(neighbours)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ([("a", 3)], "token 0 of a sentence is"),
        ([()], "token 0 of a sentence is an empty tuple"),
        (["a", ("b", "NN")], "token 1 of a sentence has 2 columns, wanted 1 as before"),
        ("words", "a sentence is 'words', wanted a list of words"),
    ],
)
def test_malformed_sentences_are_refused(tokens: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}"):
        word_features(tokens)


def test_a_tagger_of_words_is_one_of_their_features() -> None:
    tagger = ChainTagger("likelihood", features="words").fit(TAGGED, KINDS)
    names = [word_features(words) for words in TAGGED]
    dicts = [[dict.fromkeys(each, 1.0) for each in sentence] for sentence in names]
    for other, X in (
        (ChainTagger("likelihood"), names),
        (ChainTagger("likelihood"), dicts),
        (ChainTagger("likelihood", features=word_features), TAGGED),
    ):
        other.fit(X, KINDS)
        np.testing.assert_array_equal(other.coef_, tagger.coef_)
        for ours, theirs in zip(tagger.predict(TAGGED), other.predict(X)):
            np.testing.assert_array_equal(ours, theirs)
    assert [each.tolist() for each in tagger.predict(TAGGED)] == KINDS
    assert tagger.predict([[("Eve", "NNP")], []])[0].shape == (1,)
    for dtype in (object, str):
        y = [np.array(each, dtype=dtype) for each in KINDS]
        again = ChainTagger("likelihood", features="words").fit(TAGGED, y)
        np.testing.assert_array_equal(again.coef_, tagger.coef_)


def test_sentences_are_known_by_their_first_word_and_read_so_in_prediction_and_from_files(tmp_path: Path) -> None:
    for X in (WORDS, TAGGED, [[], *WORDS]):
        y = [[], *KINDS] if len(X) > len(KINDS) else KINDS
        plain, told = ChainTagger("likelihood").fit(X, y), ChainTagger("likelihood", features="words").fit(X, y)
        np.testing.assert_array_equal(plain.coef_, told.coef_)
        loaded = ChainTagger.load(plain.save(tmp_path / "tagger.npz"))
        assert [each.tolist() for each in loaded.predict(X)] == [each.tolist() for each in told.predict(X)] == y
    names = ChainTagger("likelihood").fit([[["a"], ["b"]]], [["A", "B"]])
    with pytest.raises(ValueError, match="wanted a feature dict or a list of names of features; features='words'"):
        names.predict(WORDS)  # which training did not see


def test_a_file_of_columns_is_tagged_in_a_few_lines(tmp_path: Path) -> None:
    lines = "\n\n".join(
        "\n".join(f"{word} {tag} {kind}" for (word, tag), kind in zip(sentence, kinds))
        for sentence, kinds in zip(TAGGED, KINDS)
    )
    (tmp_path / "train.txt").write_text(lines)
    X, y = cs.datasets.read_conll(tmp_path / "train.txt")
    tagger = ChainTagger("likelihood", features="words").fit(X, y)
    assert cs.entity_f1(y, tagger.predict(X), "IOB2") == 1.0
    loaded = ChainTagger.load(tagger.save(tmp_path / "tagger.npz"))
    assert [each.tolist() for each in loaded.predict(TAGGED)] == KINDS
    assert str(loaded.strongest()) == str(tagger.strongest())


def test_no_examples_have_no_predictions() -> None:
    for loss in ("likelihood", "margin"):
        tagger = ChainTagger(loss, features="words").fit(WORDS, KINDS)
        assert tagger.predict([]) == []
        with pytest.raises(ValueError, match="X and y have no position"):
            tagger.score([], [])
    states = GenerativeTagger().fit([["wet", "dry"], ["dry"]], [["rain", "sun"], ["sun"]])
    assert states.predict([]) == states.predict_marginals([]) == []


@pytest.mark.parametrize(
    ("features", "X", "text"),
    [
        (None, [[{"a": 1}, ("sees", "VB")]], "wanted a feature dict or a list of names of features; features="),
        (None, [[], ["Ann", 3]], "X[1]: token 1 of a sentence is 3, wanted a word"),
        (None, [[["a"], {"b": 1}, 3]], "X[0][2] is 3, wanted a feature dict or a list of names of features"),
        (None, [[["a"], ["b", 1]]], "X[0][1] is"),
        ("bigrams", [["Ann", "sees"]], "features is 'bigrams', wanted words"),
        ("words", [["Ann", 3]], "X[0]: token 1 of a sentence is 3, wanted a word"),
        (lambda words: [[word] for word in words[1:]], [["Ann", "sees"]], "features(X[0]) has 1 entries, wanted 2"),
        (lambda words: words, [["Ann", "sees"]], "X[0][0] is 'Ann', wanted a feature dict or a list of names"),
    ],
)
def test_malformed_features_are_refused(features: Any, X: Any, text: str) -> None:
    with pytest.raises(ValueError) as refused:
        ChainTagger("likelihood", features=features).fit(X, [["A", "B", "A"][: len(X[0])]])
    assert text in str(refused.value)


def test_the_strongest_weights_are_the_largest() -> None:
    tagger = ChainTagger("likelihood", features="words").fit(TAGGED, KINDS)
    learnt = tagger.strongest(3)
    assert [record["label"] for record in learnt.features] == ["B-LOC"] * 3 + ["B-PER"] * 3 + ["O"] * 3
    names = tagger.vectorizer_.get_feature_names_out().tolist()
    for k, label in enumerate(tagger.classes_.tolist()):
        best = sorted(np.abs(tagger.coef_[k]), reverse=True)[:3]
        found = [record for record in learnt.features if record["label"] == label]
        np.testing.assert_allclose([abs(record["weight"]) for record in found], best)
        assert all(tagger.coef_[k, names.index(record["feature"])] == record["weight"] for record in found)
    edge = learnt.edges[0]
    at = [tagger.classes_.tolist().index(edge[end]) for end in ("from", "to")]
    assert tagger.edge_coef_[0, at[0], at[1]] == edge["weight"]
    assert abs(edge["weight"]) == np.abs(tagger.edge_coef_).max()
    assert "label B-LOC\n" in str(learnt)
    figure = learnt.plot()
    assert [axes.get_title() for axes in figure.axes] == ["label B-LOC", "label B-PER", "label O", "edges", "", ""]
    with pytest.raises(ValueError, match="most is 0, wanted"):
        tagger.strongest(0)


@pytest.mark.parametrize("weights", ["balanced", {"O": 0.5, "B-PER": 3.0}])
def test_class_weights_multiply_the_cost_of_the_true_label(weights: Any) -> None:
    flat = np.array([label for each in KINDS for label in each])
    classes = np.unique(flat)
    counts = np.array([(flat == label).sum() for label in classes])
    table = len(flat) / (3 * counts) if weights == "balanced" else np.array([weights.get(k, 1.0) for k in classes])
    cost = (1.0 - np.eye(3)) * table[:, None]
    weighted = ChainTagger(features="words", class_weight=weights).fit(WORDS, KINDS)
    np.testing.assert_array_equal(weighted.coef_, ChainTagger(features="words", cost=cost).fit(WORDS, KINDS).coef_)
    both = ChainTagger(features="words", class_weight=weights, cost=cost).problem(WORDS, KINDS)
    assert isinstance(both, cs.StructuredSVM)
    np.testing.assert_allclose(both.loss.costs[0], (cost * table[:, None])[classes.tolist().index("B-PER")])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"loss": "likelihood", "class_weight": "balanced"}, "class_weight is 'balanced', wanted None with loss="),
        ({"class_weight": "balanced", "cost": "zero_one"}, "class_weight is given, wanted None with cost='zero_one'"),
        ({"class_weight": "even"}, "class_weight is 'even', wanted None, 'balanced' or a mapping"),
        ({"class_weight": {"O": -1.0}}, "class_weight holds -1, wanted numbers of at least 0"),
        ({"class_weight": {"NOUN": 1.0}}, "class_weight has 'NOUN', wanted labels of y: B-LOC, B-PER, O"),
    ],
)
def test_class_weights_that_do_not_fit_are_refused(given: Any, text: str) -> None:
    with pytest.raises(ValueError) as refused:
        ChainTagger(features="words", **given).fit(WORDS, KINDS)
    assert text in str(refused.value)
