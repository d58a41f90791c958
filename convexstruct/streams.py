"""Standard output and standard error of a command, either of which may be closed, or a full disk."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from convexstruct.validation.arguments import SENTENCE_CHARACTERS, cut


def mute(stream: TextIO) -> None:
    """``stream`` is closed or its disk is full: keep Python from reporting the same error again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def say(sentence: str, prefix: str = "convexstruct: ") -> None:
    """Print one line on standard error; where that cannot be written either, the exit status must do."""
    try:
        print(f"{prefix}{sentence}", file=sys.stderr, flush=True)
    except OSError:
        mute(sys.stderr)


def in_one_line(error: Exception) -> str:
    """What is wrong, in one line and without the number of the system's error."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename} " if error.filename is not None else ""
        return cut(f"{where}cannot be read or written: {error.strerror}", SENTENCE_CHARACTERS)
    return cut(" ".join(str(error).split()), SENTENCE_CHARACTERS)
