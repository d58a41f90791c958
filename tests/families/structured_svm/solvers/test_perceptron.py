"""The perceptron: Novikoff's bound on its updates, no bound claimed on P, and that MAP training collapses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.column_generation.column_generation import ColumnGeneration
from convexstruct.families.structured_svm.solvers.perceptron import Perceptron
from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise
from convexstruct.tolerances import LOW, ROUNDING
from tests.families.structured_svm.solvers.references import optimum, radius
from tests.models.structured_svm.instances import svm


def map_objective(problem: StructuredSVM, w: Vector) -> float:
    """l(w), the likelihood of paper 4 with the best labelling in place of the partition function; <= 0, and 0 at 0."""
    node, edge = problem.scores(w)
    return float(problem.weights @ (problem.truth_scores(node, edge) - problem.oracle.best(node, edge).scores))


def margin(problem: StructuredSVM, u: Any) -> float:
    """min <u, df_i(y)> over the labellings that are not the truth, for u / |u|."""
    every = enumerate_pairwise(problem.features, problem.loss)
    scores = every.difference @ (u / np.linalg.norm(u))
    return float(np.delete(scores, every.truth).min())


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from([1, 2]))
def test_the_updates_stay_below_novikoffs_bound(seed: int, n_labels: int) -> None:
    problem = svm(seed, (1, 2, 3, 2), n_labels + 1, n_features=6, noise=0.1, C=1e3)
    u = solve(problem, ColumnGeneration(), tol=LOW).point["w"]  # any u that separates will do
    found = margin(problem, u)
    if found <= 0:
        return
    limit = (radius(problem) / found) ** 2
    walked = list(Perceptron(passes=int(limit) + 2, seed=seed).walk(problem, np.zeros(problem.dimension)))
    assert sum(each.mistakes for each in walked) <= limit
    assert walked[-1].mistakes == 0
    np.testing.assert_array_equal(problem.decode(walked[-1].w), problem.features.truth)


def test_the_average_is_over_all_visits() -> None:
    problem = svm(4, lengths=(2, 3, 2, 3), n_labels=2)
    seen = []
    w = np.zeros(problem.dimension)
    rng = np.random.default_rng(7)
    order = rng.permutation(4)
    for _ in range(3):
        for at in rng.permutation(4):
            i = int(order[at])
            labels = problem.decode(w)
            joint = problem.features.joint_each
            w = w + (joint(problem.features.truth) - joint(labels))[[i]].toarray()[0]
            seen.append(w)
    *_, last = Perceptron(passes=3, seed=7).walk(problem, np.zeros(problem.dimension))
    if last.mistakes:
        np.testing.assert_allclose(last.w, w, atol=ROUNDING)
        np.testing.assert_allclose(last.mean, np.mean(seen, axis=0), atol=ROUNDING)
    assert last.mistakes  # else nothing was compared


def test_map_training_collapses_and_the_margin_prevents_it() -> None:
    """Paper 4: l(w) <= 0 = l(0), and l(t w) = t l(w), so w = 0 is among the best. P's optimum is elsewhere."""
    problem = svm(0)
    rng = np.random.default_rng(0)
    assert map_objective(problem, np.zeros(problem.dimension)) == 0.0
    for _ in range(20):
        w = rng.normal(size=problem.dimension)
        value = map_objective(problem, w)
        assert value < 0
        assert map_objective(problem, 3.0 * w) == pytest.approx(3.0 * value)
    at_0 = problem.primal({"w": np.zeros(problem.dimension)})
    assert optimum(problem) < at_0 * (1 - LOW.gap)
