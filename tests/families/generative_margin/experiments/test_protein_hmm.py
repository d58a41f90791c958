"""The parts of the protein experiment, on made-up chains."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.solution import Status
from convexstruct.families.generative_margin.experiments import protein_hmm
from convexstruct.families.generative_margin.experiments.protein_hmm import Choice
from tests.families.quick_runs import proteins as made_up


def test_folds_hold_every_chain_once() -> None:
    folds = protein_hmm.deal(11, 3, seed=2)
    assert sorted(np.concatenate(folds).tolist()) == list(range(11))
    assert [len(fold) for fold in folds] == [4, 4, 3]


@pytest.mark.parametrize("radius", [0, 2])
def test_both_trainings_learn_what_shows(radius: int) -> None:
    train, test = made_up(40, 0), made_up(10, 1)
    ml = protein_hmm.add_one(train, radius)
    assert protein_hmm.right(test, radius, ml).mean() > 0.8
    for c in protein_hmm.C:
        solution = protein_hmm.discriminative(train, radius, Choice(0.1, c))
        assert solution.status is Status.OPTIMAL
        assert protein_hmm.right(test, radius, solution.point["theta"]).mean() > 0.8


def test_without_the_chain_a_residue_is_judged_by_itself() -> None:
    chains = made_up(20, 3)
    ml = protein_hmm.add_one(chains, 0)
    theta = protein_hmm.without_chain(chains, 0, ml)
    emission = np.exp(protein_hmm.problem(chains, 0).layout.tables(ml)["emission"])
    share = np.bincount(np.concatenate(chains.structures)) / chains.n_residues
    seen = np.concatenate(chains.residues)
    expected = (share[:, None] * emission)[:, seen].argmax(axis=0) == np.concatenate(chains.structures)
    assert np.array_equal(protein_hmm.right(chains, 0, theta), expected)
