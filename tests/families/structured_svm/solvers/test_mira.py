"""MIRA: each step is the smallest that has the margin, and no bound is claimed."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Vector
from convexstruct.families.structured_svm.solvers import mira
from convexstruct.families.structured_svm.solvers.example_blocks import example_blocks
from convexstruct.families.structured_svm.solvers.mira import Mira
from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise
from convexstruct.tolerances import HIGH
from tests.models.structured_svm.instances import svm


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from([0.01, 1.0, 100.0]), st.booleans(), st.sampled_from([1, 2]))
def test_a_step_minimises_the_update_problem(seed: int, longest: float, augmented: bool, k: int) -> None:
    """1/2 |v - w|^2 + C max(0, max [E - <v, df>]): convex, so no worse than 300 points around is a strong test."""
    problem = svm(seed, (3,), 2)
    rng = np.random.default_rng(seed)
    w = rng.normal(size=problem.dimension)
    options = Mira(C=longest, augmented=augmented and k == 1, k=k)
    (block,) = example_blocks(problem, 1)
    best = options._best(block, w)
    rows = np.concatenate([block.differences(labels).toarray() for labels in best])
    losses = np.array([problem.loss.of(labels)[0] for labels in best])

    def value(v: Vector) -> float:
        return 0.5 * float((v - w) @ (v - w)) + longest * max(0.0, float((losses - rows @ v).max()))

    by = mira.step(block, best, w, longest)
    v = w if by is None else w + by
    least = value(v)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(50):
            direction = rng.normal(size=len(rows)) @ rows + 0.1 * rng.normal(size=len(w))
            assert value(v + size * direction) >= least - HIGH.gap * max(1.0, least)


def test_the_k_best_are_the_best_of_all_labellings() -> None:
    problem = svm(6, (3,), 3)
    w = np.random.default_rng(1).normal(size=problem.dimension)
    (block,) = example_blocks(problem, 1)
    every = enumerate_pairwise(problem.features, problem.loss)
    ranked = np.argsort(-(every.joint @ w))
    for k in (1, 2):
        for labels, row in zip(Mira(k=k)._best(block, w), ranked[:k], strict=True):
            np.testing.assert_array_equal(labels, every.labels[row])


def test_it_learns_what_can_be_separated_and_then_stops() -> None:
    problem = svm(3, (1, 2, 3, 2), 2, n_features=6, noise=0.1)
    for options in ({}, {"k": 2}, {"augmented": True}):
        *_, last = Mira(C=10.0, passes=200, **options).walk(problem, np.zeros(problem.dimension))
        assert last.mistakes == 0
        np.testing.assert_array_equal(problem.decode(last.w), problem.features.truth)
