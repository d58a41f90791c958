"""UCI's text of Connect-4 from the numbers in which pmlb publishes the set; a download is stored as that text."""

from __future__ import annotations

#: The states of a square and the values of the game; each one's number is its place here.
SQUARES = ("b", "o", "x")
VALUES = ("draw", "loss", "win")


def from_codes(text: str) -> str:
    """UCI's text from pmlb's: a heading, then the same rows as tab-separated places in `SQUARES`, `VALUES`."""
    lines = []
    for line in text.splitlines()[1:]:
        codes = [int(code) for code in line.split("\t")]
        lines.append(",".join([*(SQUARES[code] for code in codes[:-1]), VALUES[codes[-1]]]))
    return "\n".join(lines) + "\n"
