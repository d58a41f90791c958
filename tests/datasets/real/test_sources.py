"""The registry of real sets: sets are found, checked, and downloaded whole or not at all."""

from __future__ import annotations

import gzip
import hashlib
import inspect
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from convexstruct import datasets
from convexstruct.datasets.real import sources
from convexstruct.datasets.real.connect4 import NAMES
from convexstruct.datasets.real.sources import SOURCES, VARIABLE, File, Source, available, fetch


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def total(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def register(monkeypatch: pytest.MonkeyPatch, *files: File, name: str = "tiny") -> None:
    monkeypatch.setitem(SOURCES, name, Source(name, "a tiny set", files, "a drawer", "none"))


def test_every_set_has_a_loader_of_its_name_that_explains_its_absence(root: Path) -> None:
    for name, row in zip(SOURCES, (each.row() for each in available()), strict=True):
        assert (row["name"], row["state"]) == (name, "missing")
        assert SOURCES[name].origin in row["detail"]
        assert name in datasets.__all__
        with pytest.raises(ValueError, match=f"the data set '{name}' is not here"):
            getattr(datasets, name)()


def test_a_part_that_a_set_does_not_have_is_refused() -> None:
    loaders = [loader for name in SOURCES if "part" in inspect.signature(loader := getattr(datasets, name)).parameters]
    assert len(loaders) > 3
    for loader in loaders:
        with pytest.raises(ValueError, match="part is 'validation', wanted one of train, test"):
            loader("validation")


@pytest.mark.parametrize("name", SOURCES)
def test_a_file_that_was_changed_is_not_used(root: Path, name: str) -> None:
    for file in SOURCES[name].files:
        path = root / file.path
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(b"another text") if path.suffix == ".gz" else b"another file")
    with pytest.raises(ValueError, match="does not have the SHA-256"):
        getattr(datasets, name)()


def test_a_file_is_right_by_its_own_sum_or_by_that_of_the_text_inside(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"0 1\n" * 50
    register(monkeypatch, File("tiny.gz", total(b"another packing"), total(text)))
    (root / "tiny.gz").write_bytes(gzip.compress(text, compresslevel=1))
    assert sources.read("tiny") == text
    assert available()[-1].state == "here"
    (root / "tiny.gz").write_bytes(gzip.compress(text + b"1"))
    assert available()[-1].state == "damaged"
    (root / "tiny.gz").write_bytes(gzip.compress(text)[:-9])
    with pytest.raises(ValueError, match="does not have the SHA-256"):
        sources.read("tiny")


def look() -> None:
    found = available()[-1]
    if found.state == "damaged":
        raise ValueError(found.detail)


@pytest.mark.parametrize("call", [look, lambda: sources.read("tiny"), lambda: fetch("tiny")])
def test_a_bomb_is_found_out_in_little_memory(
    root: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]
) -> None:
    """A file of 81 kB unpacks to 80 MB: `available`, `read` and `fetch` refuse it without unpacking it whole."""
    monkeypatch.setitem(sys.modules, "pooch", None)
    register(monkeypatch, File("tiny.gz", "0" * 64, total(b"text"), "https://example.org/tiny", total(b"text")))
    with gzip.open(root / "tiny.gz", "wb") as file:
        for _ in range(80):
            file.write(bytes(1_000_000))
    assert (root / "tiny.gz").stat().st_size < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"does not have the SHA-256|needs pooch"):
            call()
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_a_set_without_an_address_says_where_to_get_it(root: Path) -> None:
    with pytest.raises(ValueError, match=rf"no direct address.*CoNLL-2000.*{VARIABLE}"):
        fetch("conll2000")


def test_without_pooch_the_sentence_says_what_to_install(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ValueError, match=r"pip install convexstruct\[data\]"):
        fetch("protein")


def test_what_is_downloaded_is_kept_packed_and_not_fetched_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"A _\n"
    register(monkeypatch, File("set/tiny.gz", "0" * 64, total(text), "https://example.org/tiny", total(text)))
    asked: list[str] = []

    def download(address: str, known: str) -> bytes:
        asked.append(address)
        assert known == total(text)
        return text

    assert fetch("tiny", download) == fetch("tiny", download) == [root / "set/tiny.gz"]
    assert asked == ["https://example.org/tiny"]
    assert sources.read("tiny") == text


def test_a_download_that_has_changed_leaves_nothing_behind(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, File("tiny.gz", "0" * 64, total(b"text"), "https://example.org/tiny", total(b"text")))
    with pytest.raises(ValueError, match="has changed"):
        fetch("tiny", lambda address, known: b"a page that says sorry")
    assert list(root.iterdir()) == []


def test_the_published_copy_of_connect4_is_turned_back_into_letters(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blank = ["b"] * 40
    text = (",".join(["x", "o", *blank, "loss"]) + "\n").encode()
    codes = "\t".join(["2", "1", *["0"] * 40, "1"])
    came = gzip.compress(f"{chr(9).join([*NAMES, 'target'])}\n{codes}\n".encode())
    file = File("connect4/connect-4.data.gz", "0" * 64, total(text), "https://example.org/c4", total(came))
    register(monkeypatch, file, name="connect4")
    fetch("connect4", lambda address, known: came)
    assert sources.read("connect4") == text


def test_an_archive_that_needs_pickle_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(root / "plain.npz", a=np.arange(3))
    np.savez(root / "objects.npz", a=np.array([{}, 1], dtype=object))
    for name in ("plain", "objects"):
        register(monkeypatch, File(f"{name}.npz", total((root / f"{name}.npz").read_bytes())), name=name)
    assert sources.read_arrays("plain")["a"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"the data set 'objects': holds 'a' with entries of object.*unpickled"):
        sources.read_arrays("objects")
