"""Connect-4's text from the numbers in which pmlb publishes it: what a download is kept as."""

from __future__ import annotations

#: A square's number is its place here; so is a value's.
SQUARES = ("b", "o", "x")
VALUES = ("draw", "loss", "win")


def from_codes(text: str) -> str:
    """UCI's text from pmlb's: a heading, then the same rows as tab-separated places in `SQUARES`, `VALUES`."""
    lines = []
    for line in text.splitlines()[1:]:
        codes = [int(code) for code in line.split("\t")]
        lines.append(",".join([*(SQUARES[code] for code in codes[:-1]), VALUES[codes[-1]]]))
    return "\n".join(lines) + "\n"
