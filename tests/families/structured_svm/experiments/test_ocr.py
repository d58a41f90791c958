"""The parts of the experiment on letters, on made-up words of three letters."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.datasets.real.ocr_letters import Words
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.families.structured_svm.experiments import ocr
from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise
from convexstruct.tolerances import ROUNDING
from tests.families.quick_runs import words as made_up


def test_chains_read_dark_letters_from_their_neighbours_and_single_letters_do_not() -> None:
    train, test = made_up(60, 2, blurred=0.3), made_up(60, 3, blurred=0.3)
    errors = {name: ocr.fit(method, train, test, 10.0).letters for name, method in ocr.METHODS.items()}
    assert errors["M3N, margin"] < 0.5 * errors["multiclass"]
    assert errors["M3N, slack"] < 0.5 * errors["multiclass"]


def test_errors_are_those_of_the_best_labellings_written_out() -> None:
    method = ocr.METHODS["M3N, margin"]
    train, test = made_up(12, 4, blurred=0.4), made_up(6, 5, blurred=0.4, longest=2)
    found = ocr.fit(method, train, test, 1.0)
    posed = StructuredSVM.read(**ocr.chains(method, test).arguments, C_mean=1.0)
    every = enumerate_pairwise(posed.features, posed.loss)
    scores = -(every.difference @ found.solution.point["w"])
    losses = [every.loss[every.example == i][scores[every.example == i].argmax()] for i in range(test.n_words)]
    assert found.letters == pytest.approx(sum(losses) / len(test.labels), rel=ROUNDING)
    assert found.words == pytest.approx(np.mean(np.array(losses) > 0), rel=ROUNDING)


def test_no_word_is_both_learned_and_judged() -> None:
    words = made_up(50, 6)
    numbered = Words(words.pixels, words.labels, words.word_start, words.fold)
    for protocol, sizes in (("one", (5, 45)), ("nine", (45, 5))):
        train, test = ocr.split(numbered, protocol, 3)
        assert (train.n_words, test.n_words) == sizes
        assert not set(train.fold) & set(test.fold)
        kept, held = ocr.hold_out(train, protocol, 0)
        assert kept.n_words + held.n_words == train.n_words
        assert min(kept.n_words, held.n_words) > 0
    train, _ = ocr.split(numbered, "nine", 0)
    kept, held = ocr.hold_out(train, "nine", 0)
    assert (set(kept.fold.tolist()), set(held.fold.tolist())) == ({1, 2, 3, 4, 5, 6}, {7, 8, 9})
