"""Completions of samples against all joint labels written out."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

import convexstruct as cs
from convexstruct.oracles.enumeration import labellings

FACTORS = cs.tabular_factors(nx.cycle_graph(4), [2, 3, 2, 3])
SAMPLES = np.random.default_rng(0).integers(2, size=(30, 4))
KINDS: list[Any] = [cs.MarkovRandomField, cs.PseudoLikelihood, cs.ApproximateField]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_hidden_labels_are_filled_in_by_the_most_probable_ones(kind: Any) -> None:
    problem = kind.read(FACTORS, SAMPLES, lam=0.1)
    rng = np.random.default_rng(1)
    theta, every = rng.normal(size=FACTORS.dimension), labellings(FACTORS.cards)
    scores = FACTORS.scores(theta, every)
    examples = np.array([[-1, 2, -1, 0], [1, -1, -1, -1], [0, 1, 1, 2]])
    for found, row in zip(problem.predict(theta, examples), examples, strict=True):
        fits = ((row < 0) | (every == row)).all(axis=1)
        np.testing.assert_array_equal(found, every[fits][scores[fits].argmax()])
    (whole,) = problem.predict({"theta": theta})
    np.testing.assert_array_equal(whole, every[scores.argmax()])
