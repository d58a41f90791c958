"""`GenerativeTagger`: the tables are those of generative_margin, predictions those of all labellings written out."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.estimators import GenerativeTagger

X = [["wet", "dry", "dry"], ["wet", "wet"], ["dry"], ["dry", "wet", "snow", "wet"]]
Y = [["rain", "sun", "sun"], ["rain", "rain"], ["sun"], ["sun", "rain", "sun", "rain"]]
SYMBOLS, STATES = ("dry", "snow", "wet"), ("rain", "sun")
SEEN = [[SYMBOLS.index(one) for one in each] for each in X]
TRUE = [[STATES.index(one) for one in each] for each in Y]


def tables(tagger: GenerativeTagger) -> np.ndarray[Any, Any]:
    parts = (tagger.log_initial_, tagger.log_transition_, tagger.log_emission_)
    return np.concatenate([part.ravel() for part in parts])


def test_likelihood_is_counting() -> None:
    tagger = GenerativeTagger(smoothing=0.5).fit(X, Y, sample_weight=[2, 1, 1, 1])
    np.testing.assert_allclose(np.exp(tagger.log_initial_), np.array([3.5, 2.5]) / 6.0)
    emitted = np.array([[0.0, 0.0, 6.0], [6.0, 1.0, 0.0]]) + 0.5  # of rain and of sun, the first sequence twice
    np.testing.assert_allclose(np.exp(tagger.log_emission_), emitted / emitted.sum(axis=1, keepdims=True))
    moved = np.array([[1.0, 3.0], [2.0, 2.0]]) + 0.5
    np.testing.assert_allclose(np.exp(tagger.log_transition_), moved / moved.sum(axis=1, keepdims=True))
    assert tagger.certificate_.lower_bound == -np.inf


def test_the_margin_has_the_solution_of_generative_margin() -> None:
    tagger = GenerativeTagger("margin", C=0.5, tol="MID").fit(X, Y)
    problem = cs.GenerativeMargin.hmm(SEEN, TRUE, 2, 3, eta=0.5)
    found = cs.solve(problem, tol="MID")
    np.testing.assert_array_equal(tables(tagger), found.point["theta"])
    assert tagger.certificate_ == found.certificate
    new = [[0, 0, 2], [1], [2, 1, 0, 2, 2]]
    for tags, codes in zip(
        tagger.predict([[SYMBOLS[s] for s in each] for each in new]), problem.predict(found.point, new)
    ):
        assert tags.tolist() == [STATES[code] for code in codes]
    again = tagger.set_params(warm_start=True).fit(X, Y)
    assert again.solution_.status.solved
    with pytest.raises(ValueError, match="warm_start is True, but X has other symbols"):
        again.fit([["wet", "dry"]], [["rain", "sun"]])


@pytest.mark.parametrize("observed", [["wet", "snow", "dry"], ["wet", "hail", "dry"], ["hail"]])
def test_marginals_and_predictions_are_those_of_all_labellings(observed: list[str]) -> None:
    tagger = GenerativeTagger().fit(X, Y)
    logs = {}
    for states in product(range(2), repeat=len(observed)):
        logs[states] = tagger.log_initial_[states[0]]
        logs[states] += sum(tagger.log_transition_[pair] for pair in pairwise(states))
        logs[states] += sum(tagger.log_emission_[s, SYMBOLS.index(x)] for s, x in zip(states, observed) if x in SYMBOLS)
    best = max(logs, key=lambda states: logs[states])
    assert tagger.predict([observed])[0].tolist() == [STATES[s] for s in best]
    total = sum(map(np.exp, logs.values()))
    expected = np.zeros((len(observed), 2))
    for states, log in logs.items():
        for t, s in enumerate(states):
            expected[t, s] += np.exp(log) / total
    np.testing.assert_allclose(tagger.predict_marginals([observed])[0], expected)


def test_empty_sequences_whole_numbers_and_files(tmp_path: Path) -> None:
    tagger = GenerativeTagger().fit([*SEEN, []], [*TRUE, []])
    loaded = GenerativeTagger.load(tagger.save(tmp_path / "tagger.npz"))
    for one in (tagger, loaded):
        assert [len(tags) for tags in one.predict([[], *SEEN])] == [0, 3, 2, 1, 4]
        assert [part.shape for part in one.predict_marginals([[]])] == [(0, 2)]
        assert one.score(SEEN, TRUE) == tagger.score(SEEN, TRUE)
    np.testing.assert_array_equal(tables(loaded), tables(tagger))
    assert loaded.symbols_.tolist() == [0, 1, 2]
