"""Text of a formulation as LaTeX: tags of equations, and CVXPY's own text for equations that were given no LaTeX."""

from __future__ import annotations

import re


def tag(label: str) -> str:
    r"""The number of an equation as a LaTeX ``\tag``; "" without a number."""
    return rf" \tag{{{escaped(label)}}}" if label else ""


def plain(text: str) -> str:
    """CVXPY's own text, as LaTeX on one line; a long array of numbers is shown by its first and its last number."""
    short = _LONG_ARRAY.sub(_ends, text)
    return rf"\texttt{{{escaped(' '.join(short.split()))}}}"


#: A printed array of numbers, too long to show.
_LONG_ARRAY = re.compile(r"\[(?=[^\]]*\d)[-+.\deE\s\[\]]{25,}\]")


def _ends(array: re.Match[str]) -> str:
    numbers = re.findall(r"[-+.\deE]+", array.group())
    return f"[{numbers[0]} ... {numbers[-1]}]"


def escaped(text: str) -> str:
    """Text with the special characters of LaTeX's text mode escaped."""
    special = {"\\": r"\textbackslash ", "_": r"\_", "&": r"\&", "%": r"\%", "#": r"\#", "{": r"\{", "}": r"\}"}
    special |= {"^": r"\^{}", "~": r"\~{}", "$": r"\$"}
    return "".join(special.get(character, character) for character in text)
