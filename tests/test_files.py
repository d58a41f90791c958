"""Files are written whole or not at all, and regular files only; archives of unknown origin are read up to a size."""

from __future__ import annotations

import errno
import gzip
import io
import os
import socket
import stat
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from convexstruct.files import check_writable, read_arrays, regular, unpack, write_whole

MIB = 1 << 20


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- writing -----------------------------------------------------------------------------------------------------------


def test_writing_replaces_a_file_and_leaves_no_other(tmp_path: Path) -> None:
    check_writable(tmp_path / "page.html", "report")
    assert names(tmp_path) == []
    for path, words in (
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "page.html", "there is no folder"),
        (f"{tmp_path}/a\0b", "cannot be written: embedded null byte"),
    ):
        with pytest.raises(ValueError, match=f"^report '.*{words}"):
            check_writable(path, "report")
    write_whole(tmp_path / "page.html", "one")
    assert write_whole(tmp_path / "page.html", "two") == tmp_path / "page.html"
    assert names(tmp_path) == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "two"
    write_whole(tmp_path / ("n" * 255), b"three")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"three"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    write_whole(tmp_path / "page.html", "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "page.html", "new \ud800")
    for error in (RuntimeError("no"), KeyboardInterrupt()):

        def fails(file: BinaryIO, error: BaseException = error) -> None:
            file.write(b"new")
            raise error

        with pytest.raises(type(error)):
            write_whole(tmp_path / "page.html", fails)
    assert names(tmp_path) == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "old"


@pytest.mark.parametrize("call", ["write", "flush", "fsync", "close"])
def test_a_full_disk_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Any of the system calls may report it, and closing the file reports it again."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Full(io.FileIO):
        def write(self, content: object) -> int:
            if call in ("write", "flush"):
                raise full
            return super().write(content)  # type: ignore[arg-type]  # whatever the buffer hands down

        def close(self) -> None:
            super().close()
            if call == "close":
                raise full

    def fsync(number: int) -> None:
        if call == "fsync":
            raise full

    write_whole(tmp_path / "kept", b"old")
    monkeypatch.setattr("builtins.open", lambda path, mode: io.BufferedWriter(Full(path, mode.replace("b", ""))))
    monkeypatch.setattr(os, "fsync", fsync)
    size = MIB if call == "write" else 10
    with pytest.raises(OSError, match="No space left") as said:
        write_whole(tmp_path / "kept", b"n" * size, "report")
    assert said.value.filename == f"report {os.fspath(tmp_path / 'kept')!r}"
    assert names(tmp_path) == ["kept"]
    assert (tmp_path / "kept").read_bytes() == b"old"


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "page.html").write_text("old")
    (tmp_path / "near.html").symlink_to("far/page.html")
    (tmp_path / "next.html").symlink_to("far/not yet.html")
    for name, target in (("near.html", "page.html"), ("next.html", "not yet.html")):
        assert write_whole(tmp_path / name, "new") == tmp_path / name
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "far" / target).read_text() == "new"
    (tmp_path / "round.html").symlink_to("round.html")
    with pytest.raises(ValueError, match="cannot be written: Too many levels"):
        write_whole(tmp_path / "round.html", "new")


def test_only_regular_files_are_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "to the device").symlink_to(os.devnull)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path, kind in (
            (Path(os.devnull), "device"),
            (tmp_path / "to the device", "device"),
            (tmp_path / "fifo", "pipe"),
            (tmp_path / "socket", "socket"),
        ):
            with pytest.raises(ValueError, match=f"is a {kind}, wanted a regular file"):
                regular(path, "file")
            with pytest.raises(ValueError, match=f"is a {kind}, wanted a regular file"):
                write_whole(path, "text")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


def test_a_new_file_has_the_rights_of_the_umask_and_an_old_one_keeps_its_own(
    tmp_path: Path, umask: Callable[[int], int]
) -> None:
    for mask, wanted in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        umask(mask)
        write_whole(tmp_path / oct(mask), "text")
        assert rights(tmp_path / oct(mask)) == wanted
    (tmp_path / "0o22").chmod(0o600)
    umask(0o022)
    write_whole(tmp_path / "0o22", "mine alone")
    assert rights(tmp_path / "0o22") == 0o600


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_gzipped_file_comes_in_pieces_and_a_bomb_stops_at_the_cap(tmp_path: Path) -> None:
    text = b"0123456789" * 100_000
    assert b"".join(unpack(io.BytesIO(gzip.compress(text)), len(text))) == text
    with pytest.raises(ValueError, match="unpacks to more than 999999 bytes"):
        list(unpack(io.BytesIO(gzip.compress(text)), len(text) - 1))
    bomb = gzip.compress(bytes(256 * MIB), 9)
    assert len(bomb) < MIB
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than"):
            for _ in unpack(io.BytesIO(bomb), 64 * MIB):
                pass
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "content", [b"", b"plain text", gzip.compress(b"0" * 1000, mtime=0)[:-9], b"\x1f\x8b\x08\x00garbage"]
)
def test_what_is_no_whole_gzipped_file_is_named(content: bytes) -> None:
    if content:
        with pytest.raises(ValueError, match="is no whole gzipped file"):
            list(unpack(io.BytesIO(content), MIB))
    else:
        assert list(unpack(io.BytesIO(content), MIB)) == []


def packed(**arrays: object) -> io.BytesIO:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # NumPy types every keyword as allow_pickle
    return file


def zipped(name: str, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(name, content)
    return file


def test_arrays_come_back_as_they_were_and_a_bomb_is_refused_before_it_is_unpacked() -> None:
    one = {
        "x": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "text": np.array("a"),
        "big": np.arange(3, dtype=">i4"),
    }
    for name, array in read_arrays(packed(**one), MIB).items():
        np.testing.assert_array_equal(array, one[name])
        assert array.dtype == one[name].dtype
    bomb = packed(x=np.zeros(32 * MIB))
    assert len(bomb.getvalue()) < MIB
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="unpacks to 268435584 bytes, more than the 67108864 allowed"):
            read_arrays(bomb, 64 * MIB)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def header(shape: str, dtype: str = "'<f8'") -> bytes:
    text = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (packed(x=np.array([{}, 1], dtype=object)), "entries of object, wanted numbers or text: nothing is unpickled"),
        (packed(x=np.zeros(2, dtype=complex)), "entries of complex128"),
        (zipped("x.npy", header("(1000000000000,)")), "of shape .1000000000000,. in 0 bytes"),
        (zipped("x.npy", header("(2,)") + bytes(17)), "of shape .2,. in 17 bytes"),
        (zipped("x.npy", header("(-1,)") + bytes(8)), "holds"),
        (zipped("x.npy", header("(2, 'a')")), "holds no array in 'x'"),
        (zipped("x.npy", header("(1,)", "'<U0'")), "wanted numbers or text"),
        (zipped("x.npy", b""), "holds no array in 'x'"),
        (zipped("x.npy", header("(1,)") + bytes(8), zipfile.ZIP_BZIP2), "in a way that NumPy does not write"),
        (io.BytesIO(b"not an archive"), "is no whole archive"),
        (io.BytesIO(packed(x=np.arange(99)).getvalue()[:-30]), "is no whole archive"),
    ],
)
def test_an_archive_with_anything_else_is_refused_in_one_sentence(file: BinaryIO, words: str) -> None:
    with pytest.raises(ValueError, match=words) as said:
        read_arrays(file, MIB)
    assert "\n" not in str(said.value)


def test_an_archive_that_lies_about_its_sizes_yields_no_more_than_it_said() -> None:
    """The directory claims 136 bytes for a member that unpacks to a thousand times as much."""
    content = zipped("x.npy", header("(1,)") + bytes(8 + 200_000)).getvalue()
    size = len(header("(1,)")) + 8 + 200_000
    lying = content.replace(size.to_bytes(4, "little"), (size - 200_000).to_bytes(4, "little"))
    assert lying != content
    with pytest.raises(ValueError, match="is no whole archive"):
        read_arrays(io.BytesIO(lying), 1000)


def test_an_archive_that_says_an_array_is_longer_than_its_bytes_is_refused() -> None:
    """Else the rest of the array would be whatever lay in memory."""
    whole = io.BytesIO()
    np.save(whole, np.ones(8))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", whole.getvalue()[:-32])
    raw = bytearray(file.getvalue())
    at = raw.index(b"PK\x01\x02") + 24  # the length in the directory of the archive
    raw[at : at + 4] = len(whole.getvalue()).to_bytes(4, "little")
    with pytest.raises(ValueError, match=r"holds 'x' of shape \(8,\) in 32 bytes"):
        read_arrays(io.BytesIO(bytes(raw)), 1 << 20)
