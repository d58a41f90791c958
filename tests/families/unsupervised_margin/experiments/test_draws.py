"""The sets of paper 3: sizes as printed, segments that are pieces of chains, windows that look beyond their ends."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.datasets.real.protein import AMINO_ACIDS
from convexstruct.families.unsupervised_margin.experiments.draws import SETTINGS, proteins
from tests.families.quick_runs import READER, long_proteins


@pytest.fixture
def _made_up_proteins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(READER, long_proteins)


@pytest.mark.usefixtures("_made_up_proteins")
@pytest.mark.parametrize(("name", "places"), [("PROT1", 1), ("PROT2", 3)])
def test_protein_segments_are_pieces_of_chains_with_their_neighbours(name: str, places: int) -> None:
    setting = SETTINGS[name]
    draw = setting.draw(1)
    problem = setting.problem(draw)
    assert (problem.n_rows, problem.n_pairs, problem.n_labels, problem.beta) == (100, 90, 3, 1.0)
    np.testing.assert_array_equal(problem.gram.diagonal(), places)
    seen = np.concatenate(draw.rows).reshape(100, places, len(AMINO_ACIDS) + 1).argmax(axis=2)
    np.testing.assert_array_equal(draw.observed.symbols[draw.observed.chains.flat], seen)
    chains = list(zip(proteins().residues, proteins().structures))
    for residues, structures in zip(seen[:, places // 2].reshape(10, 10), draw.truth.reshape(10, 10)):
        assert any(
            (np.lib.stride_tricks.sliding_window_view(chain, 10) == residues).all(axis=1)[at]
            for chain, labels in chains
            if len(chain) >= 10
            for at in np.flatnonzero((np.lib.stride_tricks.sliding_window_view(labels, 10) == structures).all(axis=1))
        )
