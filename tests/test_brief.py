"""Problems, data sets and runs show their sizes and not their numbers, however large.

The problems of every case do in `tests/core/test_trivial.py`.
"""

from __future__ import annotations

import numpy as np

import convexstruct as cs
from convexstruct.core.trace import Trace
from convexstruct.families.generative_margin.constraints import Floor
from convexstruct.families.generative_margin.objectives import QuadraticPenalty
from tests.families.generative_margin.instances import small_hmm


def test_sizes_pieces_and_numbers_are_shown_and_what_is_none_is_not() -> None:
    problem = small_hmm(0)
    shown = repr(problem)
    assert "n_states 2" in shown
    assert f"c ({problem.dimension},), eta 0.3" in shown
    assert "workers" not in shown
    assert repr(Floor(-3.0)) == "Floor(at -3)"
    assert repr(QuadraticPenalty(np.ones(10_000), 0.5)) == "QuadraticPenalty(weight (10000,), centre 0.5)"


def test_data_sets_and_runs_are_shown_by_their_sizes() -> None:
    data = cs.datasets.random_chains(100, (20, 40), 5, 50, seed=0)
    nodes = len(data.labels)
    assert repr(data).startswith(f"LabelledGraphs(node_features ({nodes}, 50), edges ({nodes - 100}, 2), ")
    assert repr(cs.datasets.ring(20, length=12, n_states=5, seed=0)).startswith("Ring(symbols 20 entries of ndarray, ")
    trace = Trace()
    for round_ in range(10_000):
        trace.append(round_, 0.0, 1, 1.0, 0.0)
    assert repr(trace).startswith("Trace(iteration 10000 entries of int, seconds 10000 entries of float, ")
