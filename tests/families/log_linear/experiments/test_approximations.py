"""The experiments of 20.5-20.6 at small sizes: their results, and their notes."""

from __future__ import annotations

import sys
from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct.families.log_linear.experiments import collapse, contrastive_divergence, pseudolikelihood
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from convexstruct.features.graphs.factors import tabular_factors
from tests.families.quick_runs import quick, run
from tests.inference import test_gibbs as gibbs


def test_both_errors_fall_with_the_samples_and_every_fit_is_certified() -> None:
    few, many = (pseudolikelihood.consistency(size, 2, 0) for size in (100, 3000))
    for before, after in ((few.likelihood, many.likelihood), (few.pseudo, many.pseudo)):
        assert after.mean() < 0.5 * before.mean()
    assert max(few.gap, many.gap) <= 1e-6


def test_a_strong_tie_misleads_pseudolikelihood_more_than_likelihood() -> None:
    loose, tied = (pseudolikelihood.misled(tie, 4, 0) for tie in (0.0, 8.0))
    assert np.abs(loose.pseudo - loose.likelihood).max() < 0.01
    assert (tied.likelihood - tied.pseudo > 0.02).all()
    assert max(loose.gap, tied.gap) <= 1e-6


def test_the_merged_variable_has_the_likelihood_of_both_given_the_third() -> None:
    """p(x1, x2 | y) written out, against the pseudolikelihood of the pair as one target."""
    rng = np.random.default_rng(0)
    theta, factors = rng.normal(size=3), pseudolikelihood.tied_pair()
    for x in np.ndindex(2, 2, 2):
        scores = [factors.scores(theta, np.array([[a, b, x[2]]]))[0] for a in (0, 1) for b in (0, 1)]
        wanted = np.logaddexp.reduce(scores) - scores[2 * x[0] + x[1]]
        merged = pseudolikelihood.merged()
        one = PseudoLikelihood.read(merged, [[2 * x[0] + x[1], x[2]]], targets=[0])
        assert one.value_and_gradient(theta)[0] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.slow
def test_the_mean_step_near_the_maximum_is_biased_and_less_so_for_larger_k(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contrastive_divergence, "PATH", (0, 100))
    monkeypatch.setattr(contrastive_divergence, "IMPORTANCE", (250, 4000))
    ising = contrastive_divergence.on_ising(0, 10, 1)
    few, many = ising.sampled
    assert (
        few > 4 * many > 0
    )  # what the importance-sampled likelihood misses falls with the samples: in theory 16 times
    for each in (ising, contrastive_divergence.on_machine(0, 3)):
        assert (np.diff(each.cosine[-1]) > -1e-6).all()
        assert each.cosine[-1, 0] < each.cosine[-1, -1]
        assert each.cosine[-1, -1] > 0.99
        assert (each.reached <= each.best + 1e-9).all()


def test_the_transition_matrix_is_that_of_the_sampler() -> None:
    factors = tabular_factors(nx.cycle_graph(3), [2, 3, 2])
    flat = np.random.default_rng(0).normal(size=factors.n_entries)
    np.testing.assert_allclose(contrastive_divergence.transition(factors, flat), gibbs.transition(factors, flat))


def test_without_scikit_learn_the_digits_are_left_out_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    found = run("contrastive-divergence").result
    assert any("scikit-learn, which is not installed" in note for note in found.notes)
    assert len(found.figures) == 1


def test_the_map_approximation_is_best_at_nothing_and_the_margin_is_not() -> None:
    grid = collapse.on_grid(0)
    assert grid.mapped[0] == 0
    assert (grid.mapped <= 1e-9).all()
    assert (grid.exact < 0).all()
    assert grid.exact.argmax() > 0
    assert grid.margin.argmax() > 0
    assert (grid.margin <= grid.mapped + 1e-9).all()


def test_the_optimum_of_the_map_approximation_is_proved_to_be_nothing() -> None:
    rows: dict[Any, Any] = {row[0]: row for row in quick("collapse").result.rows}
    assert rows["MAP approximation"][1:4] == [0, 0, 0]
    assert rows["margin, Hamming loss"][3] > 0.1
    assert rows["margin, Hamming loss"][4] < rows["MAP approximation"][4]
