"""The parser on small texts, and the real chains where they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convexstruct.datasets import protein
from convexstruct.datasets.real.protein import AMINO_ACIDS, STRUCTURES, parse

TEXT = """# a comment
# A h

<>
A _
C e
<>
<>
end
D h

E h
<end>
F _
end
"""


def test_terminators_in_a_row_count_once_and_comments_are_no_data() -> None:
    chains = parse(TEXT)
    assert [chain.tolist() for chain in chains.residues] == [[0, 1], [2, 3], [4]]
    assert [chain.tolist() for chain in chains.structures] == [[0, 1], [2, 2], [0]]
    assert (chains.n_chains, chains.n_residues) == (3, 5)
    assert [chain.tolist() for chain in parse("Y e\nW e").residues] == [[19, 18]]  # without a terminator


def test_the_real_chains_have_the_published_counts(present: Callable[[str], None]) -> None:
    present("protein")
    for part, n_chains, by_structure in (("train", 111, [9868, 3636, 4601]), ("test", 17, [1923, 748, 849])):
        chains = protein(part)
        assert chains.n_chains == n_chains
        assert np.bincount(np.concatenate(chains.structures)).tolist() == by_structure
        assert [len(r) for r in chains.residues] == [len(s) for s in chains.structures]


def test_some_chains_keep_their_structures() -> None:
    chains = parse("A _\n<>\nC e\nD h\nend").some([1, 0])
    assert [AMINO_ACIDS[each[0]] for each in chains.residues] == ["C", "A"]
    assert chains.structures[0].tolist() == [STRUCTURES.index("e"), STRUCTURES.index("h")]
