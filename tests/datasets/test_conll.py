"""Files in columns become feature dicts and labels; what is no such file is one sentence."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

import convexstruct as cs

TEXT = "-DOCSTART- -X- O\n\nThe DT B-NP\n# # I-NP\n\n\nréd JJ B-NP\r\n\n"
X = [[{"0": "The", "1": "DT"}, {"0": "#", "1": "#"}], [{"0": "réd", "1": "JJ"}]]
Y = [["B-NP", "I-NP"], ["B-NP"]]


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "tagged.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_becomes_dicts_and_labels(tmp_path: Path) -> None:
    for text in (TEXT, "\ufeff" + TEXT, TEXT.rstrip(), "\n \n" + TEXT):
        assert cs.datasets.read_conll(written(tmp_path, text)) == (X, Y)


def test_columns_have_names_and_any_may_be_the_label(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT)
    assert cs.datasets.read_conll(path, ("word", "tag", "chunk")).X[1] == [{"word": "réd", "tag": "JJ"}]
    for label in ("tag", 1, -2):
        found = cs.datasets.read_conll(path, ("word", "tag", "chunk"), label)
        assert found.y == [["DT", "#"], ["JJ"]]
        assert found.X[1] == [{"word": "réd", "chunk": "B-NP"}]


def test_universal_dependencies_have_tabs_and_comments(tmp_path: Path) -> None:
    path = written(tmp_path, "# text = New York is\n1\tNew York\tPROPN\n2\tis\tVERB\n")
    found = cs.datasets.read_conll(path, ("id", "form", "upos"), delimiter="\t", comment="#")
    assert found == ([[{"id": "1", "form": "New York"}, {"id": "2", "form": "is"}]], [["PROPN", "VERB"]])


BAD: list[tuple[str | bytes, dict[str, Any], str]] = [
    ("", {}, "holds no token"),
    (TEXT, {"delimiter": ""}, "delimiter is '', wanted a text of at least one character"),
    (TEXT + "one two\n", {}, "line 9 of"),
    (TEXT, {"columns": ["a", "b"]}, "has 3 columns, wanted 2"),
    (TEXT, {"columns": ["a", "b", "a"]}, "columns names a column twice"),
    (TEXT, {"label": 3}, "label is 3, wanted a whole number from -3 to 2"),
    (TEXT, {"label": "chunk"}, "label is 'chunk', wanted the name or the number of a column"),
    (b"\xff\xfe", {}, "is no text in UTF-8"),
]


@pytest.mark.parametrize(("text", "given", "said"), BAD, ids=range(len(BAD)))
def test_what_is_malformed_is_one_sentence(tmp_path: Path, text: str | bytes, given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        cs.datasets.read_conll(written(tmp_path, text), **given)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cs.datasets.read_conll(tmp_path / "none.txt")
    with pytest.raises(ValueError, match="is a folder"):
        cs.datasets.read_conll(tmp_path)


def test_a_packed_file_is_read_and_a_broken_one_refused(tmp_path: Path) -> None:
    text = "the DET\ndog NOUN\n\nAnn NAME\n"
    (tmp_path / "plain.txt").write_text(text)
    with gzip.open(tmp_path / "packed.txt.gz", "wt", encoding="utf-8") as file:
        file.write(text)
    assert cs.datasets.read_conll(tmp_path / "packed.txt.gz") == cs.datasets.read_conll(tmp_path / "plain.txt")
    (tmp_path / "short.gz").write_bytes((tmp_path / "packed.txt.gz").read_bytes()[:-9])
    (tmp_path / "plain.gz").write_text(text)
    for name in ("short.gz", "plain.gz"):
        with pytest.raises(ValueError, match="is no whole gzip file, wanted one"):
            cs.datasets.read_conll(tmp_path / name)
