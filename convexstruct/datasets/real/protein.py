"""Secondary structure of globular proteins: N. Qian and T. Sejnowski 1988, UCI.

The text: lines that begin with ``#`` and empty lines are not data; a line ``<>``, ``end`` or ``<end>`` closes the
current chain (several in a row count once); any other line is ``residue label``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Labels
from convexstruct.brief import brief
from convexstruct.datasets.real.sources import read_part
from convexstruct.validation.arguments import sentence, text_of
from convexstruct.validation.arrays import chosen

#: The 20 amino acids by their letters; a residue's number is its place here.
AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
#: Coil, sheet, helix; a label's number is its place here.
STRUCTURES = "_eh"


@dataclass(frozen=True)
class Proteins:
    """Chains of residues with their structure.

    residues, structures : one integer array a chain, of equal lengths; places in `AMINO_ACIDS` and in `STRUCTURES`.
    """

    residues: list[Labels]
    structures: list[Labels]

    __repr__ = brief

    @property
    def n_chains(self) -> int:
        return len(self.residues)

    @property
    def lengths(self) -> list[int]:
        """Residues of each chain."""
        return [len(chain) for chain in self.residues]

    @property
    def n_residues(self) -> int:
        return sum(self.lengths)

    def some(self, chains: ArrayLike) -> Proteins:
        """Some of the chains: their numbers, or a mask (n_chains,); ValueError if they are neither."""
        wanted = chosen("chains", chains, self.n_chains)
        return Proteins([self.residues[i] for i in wanted], [self.structures[i] for i in wanted])


def parse(text: str) -> Proteins:
    """Read the text of a protein file. ValueError if there is no chain, or a line is neither a comment, nor closes a
    chain, nor is a known residue and label."""
    text = text_of("text", text)
    residues: list[Labels] = []
    structures: list[Labels] = []
    chain: list[tuple[int, int]] = []

    def close() -> None:
        if chain:
            residue, structure = np.array(chain, dtype=np.int64).T
            residues.append(residue)
            structures.append(structure)
            chain.clear()

    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if len(words) == 1 and words[0] in ("<>", "end", "<end>"):
            close()
            continue
        known = [len(words) == 2, *(len(word) == 1 for word in words)]
        if not all(known) or words[0] not in AMINO_ACIDS or words[1] not in STRUCTURES:
            raise sentence(
                f"line {number} of the protein text is {line[:60]!r}, wanted one of {AMINO_ACIDS}, a blank and one of "
                f"{', '.join(STRUCTURES)}"
            )
        chain.append((AMINO_ACIDS.index(words[0]), STRUCTURES.index(words[1])))
    close()
    if not residues:
        raise ValueError("the protein text holds no chain, wanted at least one residue")
    return Proteins(residues, structures)


def protein(part: str = "train") -> Proteins:
    """The 111 training chains (18,105 residues) or the 17 test chains (3,520 residues).

    Raises
    ------
    ValueError
        If ``part`` is neither "train" nor "test", or the set is not here (see `convexstruct.datasets.real.sources`).
    """
    return parse(read_part("protein", part))
