"""Files: written whole or not at all, and archives read under a cap.

`write_whole` writes beside its target and then renames, so that a reader sees the old file or the new one. It follows
symbolic links, writes nothing but regular files, and leaves nothing behind where the disk is full. A file that is read
may be hostile: `unpack` and `read_arrays` stop at a number of bytes, and no pickle is ever loaded.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import math
import os
import secrets
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from convexstruct.validation.arguments import path_of, sentence, whole

Made = TypeVar("Made")

#: Bytes that are read at a time.
PIECE = 1 << 18
#: Kinds of entries that an archive of arrays may hold: booleans, integers, floats, text. Objects would need pickle.
KINDS = "biufU"


def user_cache() -> Path:
    """The folder "convexstruct" in the place that the system has for caches; ``XDG_CACHE_HOME`` on Linux."""
    if sys.platform == "win32":
        cache = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    else:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "convexstruct"


def regular(path: str | os.PathLike[str], what: str) -> Path:
    """Where a file called ``path`` is to be written: the end of its links, a regular file or a name not yet taken.

    Parameters
    ----------
    path : a path as the user gave it. what : what it is for, the first word of a sentence ("report").

    Raises
    ------
    ValueError
        If there is something else of that name (a folder, a device, a pipe), or no folder to hold it.
    """
    given = f"{what} {os.fspath(path)!r}"
    try:
        # stat before the links are resolved: /dev/stdout leads to a pipe that no path names.
        mode: int | None = os.stat(path).st_mode
        target = Path(os.path.realpath(path))
    except FileNotFoundError:
        mode, target = None, Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        if isinstance(error, NotADirectoryError):
            raise ValueError(f"{given}: there is no folder {os.fspath(Path(path).parent)!r}") from None
        raise ValueError(f"{given} cannot be written: {getattr(error, 'strerror', None) or error}") from None
    if mode is not None and stat.S_ISDIR(mode):
        raise ValueError(f"{given} is a folder, wanted a file")
    if mode is not None and not stat.S_ISREG(mode):
        raise ValueError(f"{given} is a {_kind(mode)}, wanted a regular file")
    if not target.parent.is_dir():
        raise ValueError(f"{given}: there is no folder {os.fspath(target.parent)!r}")
    return target


def _kind(mode: int) -> str:
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "device"
    return "pipe" if stat.S_ISFIFO(mode) else "socket"


def check_writable(path: str | os.PathLike[str], what: str) -> None:
    """Try whether `write_whole` could write there now, and leave nothing behind. ValueError if it could not: the
    sentence says why."""
    target = regular(path, what)
    try:
        partial, file = _beside(target)
        file.close()
        partial.unlink()
    except OSError as error:
        raise ValueError(f"{what} {os.fspath(path)!r} cannot be written: {error.strerror}") from None


def write_whole(
    path: str | os.PathLike[str], content: bytes | str | Callable[[BinaryIO], object], what: str = "file"
) -> Path:
    """Write a file, whole or not at all.

    A new file has the rights that the umask leaves; one that is replaced keeps its own.

    Parameters
    ----------
    path : where; symbolic links are followed and stay what they are.
    content : bytes, text (stored as UTF-8), or a function that writes to the open file. what : as in `regular`.

    Returns
    -------
    The path as it was given.

    Raises
    ------
    ValueError
        If the path is a folder, a device or another thing that is no regular file, or its folder is missing.
    OSError
        If it cannot be written, for instance because the disk is full: then the old file is still there, and no other.
    """
    target = regular(path, what)
    encoded = content.encode("utf-8") if isinstance(content, str) else content
    partial, file = _beside(target)
    try:
        with file:
            if isinstance(encoded, bytes):
                file.write(encoded)
            else:
                encoded(file)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(partial, stat.S_IMODE(target.stat().st_mode))
        os.replace(partial, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, f"{what} {os.fspath(path)!r}") from error
        raise
    return Path(path)


def _beside(target: Path) -> tuple[Path, BinaryIO]:
    """A new file in the folder of ``target``; its rights are those that the umask leaves."""
    partial = target.parent / f".{secrets.token_hex(8)}.part"
    return partial, open(partial, "xb")


# -- reading files of unknown origin -----------------------------------------------------------------------------------


def sha256(path: Path) -> str:
    """The SHA-256 of a file, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(file: BinaryIO, largest: int) -> Iterator[bytes]:
    """The text inside a gzipped file, in pieces; the memory it takes does not grow with the text. ValueError if it is
    no gzipped file, is cut off, or unpacks to more than ``largest`` bytes."""
    total = 0
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as text:
            while piece := text.read(PIECE):
                total += len(piece)
                if total > largest:
                    raise ValueError(f"unpacks to more than {largest} bytes")
                yield piece
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"is no whole gzipped file: {error}") from None


def read_saved(path: Any, largest: Any, kind: str, made: Callable[[dict[str, NDArray[Any]]], Made]) -> Made:
    """``made`` of the arrays in a file that the user names. ValueError if the file is none of this kind, or cut off.
    FileNotFoundError if there is no such file.

    kind : what the file should hold, for messages. made : what it raises is the rest of a sentence that begins with
    "it". largest : as in `read_arrays`.
    """
    named, largest = path_of("path", path), whole("largest", largest, least=1)
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise ValueError("is no regular file")
        with open(path, "rb") as file:
            return made(read_arrays(file, largest))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise sentence(f"path: {named} is not a saved {kind}: it {' '.join(str(error).split())}") from None


@contextlib.contextmanager
def _archive(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """The open archive; ValueError where it is none, or is damaged."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError) as error:
        raise ValueError(f"is no whole archive of arrays: {error}") from None


def read_arrays(file: BinaryIO, largest: int) -> dict[str, NDArray[Any]]:
    """The arrays of a ``.npz`` archive, by name.

    Parameters
    ----------
    file : the open archive. largest : bytes that all its arrays together may take when unpacked.

    Raises
    ------
    ValueError
        If it is no such archive, holds anything but arrays of numbers or text, or more than ``largest`` bytes: that is
        seen before anything is unpacked.
    """
    arrays: dict[str, NDArray[Any]] = {}
    with _archive(file) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > largest:
            raise ValueError(f"unpacks to {total} bytes, more than the {largest} allowed")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"holds two arrays called {name!r}")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"packs {name!r} in a way that NumPy does not write")
            with archive.open(member) as packed:
                arrays[name] = _array(name, packed, member.file_size)
    return arrays


class Heads(NamedTuple):
    """What is read of an archive of arrays without reading the arrays.

    shapes : by name. scalars : the arrays of one whole number, by name. n_bytes : what all arrays take when unpacked.
    check : a number that changes when an array does, made of their check sums (CRC-32).
    """

    shapes: dict[str, tuple[int, ...]]
    scalars: dict[str, int]
    n_bytes: int
    check: int


def read_heads(file: BinaryIO) -> Heads:
    """The `Heads` of a ``.npz`` archive. ValueError as `read_arrays` raises it, but for damage inside an array."""
    shapes: dict[str, tuple[int, ...]] = {}
    scalars: dict[str, int] = {}
    with _archive(file) as archive:
        members = archive.infolist()
        for member in members:
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as packed:
                shapes[name], _, dtype = _head(name, packed)
                if shapes[name] == () and dtype.kind in "iu":
                    scalars[name] = int(np.frombuffer(packed.read(dtype.itemsize), dtype)[0])
    sums = repr(sorted((member.filename, member.CRC) for member in members))
    return Heads(shapes, scalars, sum(member.file_size for member in members), zlib.crc32(sums.encode()))


def _array(name: str, file: IO[bytes], n_bytes: int) -> NDArray[Any]:
    """One ``.npy`` file of so many bytes. Its shape must account for all: no header can make us allocate more."""
    shape, fortran, dtype = _head(name, file)
    if dtype.kind not in KINDS or dtype.itemsize == 0:
        raise ValueError(f"holds {name!r} with entries of {dtype}, wanted numbers or text: nothing is unpickled")
    left, size = n_bytes - file.tell(), math.prod(shape)
    if min(shape, default=0) < 0 or size * dtype.itemsize != left:
        raise ValueError(f"holds {name!r} of shape {shape} in {left} bytes")
    array = np.empty(shape, dtype, order="F" if fortran else "C")
    at, entries = 0, array.reshape(-1, order="A").view(np.uint8)
    while piece := file.read(PIECE):  # to the end of the file, where its check sum is compared
        entries[at : (at := at + len(piece))] = np.frombuffer(piece, np.uint8)
    if at < left:
        raise ValueError(f"holds {name!r} of shape {shape} in {at} bytes")
    return array


def _head(name: str, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """(shape, whether in Fortran's order, type of an entry) of a ``.npy`` file, which is read up to its entries."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(file)
        return found
    except (ValueError, EOFError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"holds no array in {name!r}: {' '.join(str(error).split())}") from None
