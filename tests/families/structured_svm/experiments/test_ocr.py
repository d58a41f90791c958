"""The parts of the experiment on letters, on made-up words of three letters."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.solution import Status
from convexstruct.datasets.real.ocr_letters import N_FOLDS, Words
from convexstruct.families.structured_svm.experiments import ocr
from convexstruct.graphs import starts
from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise
from convexstruct.tolerances import ROUNDING


def made_up(n_words: int, seed: int, blurred: float = 0.0, longest: int = 5) -> Words:
    """Words of a, b, c in cyclic order. Each letter has 40 pixels of its own, all 0 with probability ``blurred``."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, longest + 1, n_words)
    labels = np.concatenate([(rng.integers(3) + np.arange(size)) % 3 for size in sizes])
    pixels = np.zeros((len(labels), 128), dtype=np.uint8)
    for place, label in enumerate(labels):
        pixels[place, 40 * label : 40 * label + 40] = rng.random() >= blurred
    return Words(pixels, labels.astype(np.int64), starts(sizes), np.arange(n_words) % N_FOLDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ocr.METHODS)
def test_every_method_learns_letters_that_can_be_seen(name: str) -> None:
    found = ocr.fit(ocr.METHODS[name], made_up(20, 0), made_up(30, 1), 10.0)
    assert found.solution.status is Status.OPTIMAL
    assert (found.letters, found.words) == (0.0, 0.0)


def test_chains_read_dark_letters_from_their_neighbours_and_single_letters_do_not() -> None:
    train, test = made_up(60, 2, blurred=0.3), made_up(60, 3, blurred=0.3)
    errors = {name: ocr.fit(method, train, test, 10.0).letters for name, method in ocr.METHODS.items()}
    assert errors["M3N, margin"] < 0.5 * errors["multiclass"]
    assert errors["M3N, slack"] < 0.5 * errors["multiclass"]


def test_errors_are_those_of_the_best_labellings_written_out() -> None:
    method = ocr.METHODS["M3N, margin"]
    train, test = made_up(12, 4, blurred=0.4), made_up(6, 5, blurred=0.4, longest=2)
    found = ocr.fit(method, train, test, 1.0)
    posed = ocr.problem(method, test, 1.0)
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


def test_the_table_of_transitions_shows_what_follows_what() -> None:
    method, words = ocr.METHODS["M3N, margin"], made_up(40, 7, blurred=0.5)
    table = ocr.transitions(ocr.problem(method, words, 10.0), ocr.fit(method, words, words, 10.0).solution)
    assert table.shape == (26, 26)
    assert table[:3, :3].argmax(axis=1).tolist() == [1, 2, 0]


def test_the_standard_error_is_that_of_a_mean() -> None:
    assert ocr.standard_error([0.25]) is None
    assert ocr.standard_error([0.1, 0.3]) == pytest.approx(0.1, rel=ROUNDING)


@pytest.mark.slow
def test_the_quick_run_says_what_it_left_out_and_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "ocr_letters", lambda: made_up(100, 8, blurred=0.1))
    result = ocr.run(quick=True)
    assert result.column("method") == list(ocr.METHODS)
    assert all(error is not None and 0 <= float(error) < 0.5 for error in result.column("letter error"))
    assert any(note.startswith("quick: one fold") for note in result.notes)
    assert len(result.figures) == 2
