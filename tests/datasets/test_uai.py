"""The UAI format: what is written is read back, and what is no such file is one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.datasets import read_uai, write_uai

TEXT = """MARKOV
3
2 2 3
4
1 0
2 0 1
0
2 1 2

2
 0.436 0.564
4
 0.128 0.872
 0.920 0.080
1 7
6
 0.210 0.333 0.457
 0.811 0.000 0.189
"""


def test_the_example_of_the_format_is_read(tmp_path: Path) -> None:
    (tmp_path / "model.uai").write_text(TEXT)
    factors, theta = read_uai(tmp_path / "model.uai")
    assert (factors.cards, factors.scopes) == ((2, 2, 3), ((0,), (0, 1), (1, 2)))
    np.testing.assert_allclose(np.exp(factors.tables(theta)[2]), [[0.21, 0.333, 0.457], [0.811, 0.0, 0.189]])
    assert factors.scores(theta, np.array([[0, 1, 1]])) == -np.inf
    found = cs.best_labelling(factors, theta)
    np.testing.assert_array_equal(found.labels, [0, 1, 0])
    assert found.score == pytest.approx(np.log(0.436 * 0.872 * 0.811))
    problem = cs.MarkovRandomField.read(factors, [[0, 1, 0], [1, 0, 2]], C=1.0)
    assert cs.solve(problem).status.solved


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    factors = cs.read_factors([2, 3, 1, 4], [[0, 1], [3], [3, 0, 2]])
    theta = rng.normal(scale=30.0, size=factors.dimension)
    again, scores = read_uai(write_uai(tmp_path / "model.uai", factors, theta))
    assert (again.cards, again.scopes, again.forbidden) == (factors.cards, factors.scopes, None)
    np.testing.assert_allclose(scores, theta, rtol=1e-13, atol=1e-13)
    (tmp_path / "zeros.uai").write_text(TEXT)
    first = read_uai(tmp_path / "zeros.uai")
    second = read_uai(write_uai(tmp_path / "again.uai", *first))
    np.testing.assert_array_equal(first.factors.forbidden, second.factors.forbidden)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "begins with '', wanted MARKOV or BAYES"),
        ("MARKOV 1 2", "ends where the number of factors was wanted"),
        ("MARKOV 0", "has '0' for variables, wanted a whole number of at least 1"),
        ("MARKOV 1 2 1 1 1 2 1 1", "names variable 1, wanted variables from 0 to 0"),
        ("MARKOV 1 2 1 1 0 3 1 1 1", "has a table with other than 2 entries for the variables [0]"),
        ("MARKOV 1 2 1 1 0 2 1 -1", "has the potential '-1', wanted a number of at least 0"),
        ("MARKOV 1 2 1 1 0 2 1 nan", "has the potential 'nan'"),
        ("MARKOV 1 2 1 1 0 2 1 1 1", "goes on with '1' after the last table"),
        ("MARKOV 1 2 1 1 0 2 1", "ends where the number of entries of a table was wanted"),
        ("MARKOV 2 2 2 1 2 0 0 4 1 1 1 1", "scopes[0] names a variable twice"),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "model.uai").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError) as refused:
        read_uai(tmp_path / "model.uai")
    assert said in str(refused.value)


def test_bytes_folders_and_scores_without_potentials_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.uai").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is no text in UTF-8"):
        read_uai(tmp_path / "model.uai")
    with pytest.raises(ValueError, match="is a folder, wanted a file"):
        read_uai(tmp_path)
    factors = cs.read_factors([2], [[0]])
    for score in (800.0, -800.0):
        with pytest.raises(ValueError, match="wanted scores whose potential"):
            write_uai(tmp_path / "model.uai", factors, [0.0, score])
    with pytest.raises(ValueError, match="factors is 3, wanted Factors"):
        write_uai(tmp_path / "model.uai", 3, [0.0])  # type: ignore[arg-type]
