"""Made-up proteins in place of the stored ones, to test the experiments where these are not on the machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from convexstruct.datasets.real.protein import AMINO_ACIDS, STRUCTURES, Proteins, protein
from convexstruct.datasets.real.sources import data_root
from convexstruct.families.unsupervised_margin.experiments import draws


def made_up() -> Proteins:
    """111 chains of 20 to 60 residues, which determine the structure."""
    rng = np.random.default_rng(0)
    kinds = len(STRUCTURES)
    structures = [np.repeat(rng.integers(0, kinds, n), 4) for n in rng.integers(5, 16, size=111)]
    return Proteins([s + kinds * rng.integers(0, len(AMINO_ACIDS) // kinds, len(s)) for s in structures], structures)


@pytest.fixture
def _made_up_proteins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the present folder of data gives `made_up`; any other folder is read as ever."""
    here, chains = data_root(), made_up()

    def read(root: Path) -> Proteins:
        return chains if root == here else protein("train")

    monkeypatch.setattr(draws, "_proteins", read)
