"""SEARN: costs against rollouts written out, round one against the multiclass SVM on true histories, and learning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct.arrays import Matrix
from convexstruct.core.driver import solve
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers import searn
from convexstruct.families.structured_svm.solvers.searn import Searn, Sequences


def drawn(seed: int, lengths: tuple[int, ...] = (1, 3, 4, 2), n_labels: int = 3) -> tuple[list[Matrix], list[Any]]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 2)) for n in lengths], [rng.integers(n_labels, size=n) for n in lengths]


@pytest.mark.parametrize("seed", range(4))
def test_a_rollout_is_the_loss_of_the_label_and_of_what_the_policy_does_after_it(seed: int) -> None:
    x, labels = drawn(seed)
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(3, 2 + 3 + 1))
    data, truth = Sequences(np.concatenate(x), np.cumsum([0, *map(len, x)])), np.concatenate(labels)
    found = searn.rollouts(data, [searn._policy(w, data.x)], np.zeros(len(truth), dtype=int), truth, 3)
    at = 0
    for features, true in zip(x, labels):
        for t in range(len(true)):
            for a in range(3):
                cost, last = int(a != true[t]), a
                for later in range(t + 1, len(true)):
                    phi = np.concatenate([features[later], np.eye(3)[last], [1.0]])
                    last = int((w @ phi).argmax())
                    cost += last != true[later]
                assert found[at, a] == cost
            at += 1


def test_under_the_optimal_policy_a_wrong_label_costs_one_and_round_one_is_the_svm_on_true_histories() -> None:
    x, labels = drawn(7)
    data, truth = Sequences(np.concatenate(x), np.cumsum([0, *map(len, x)])), np.concatenate(labels)
    costs = searn.rollouts(data, [], np.zeros(len(truth), dtype=int), truth, 3)
    np.testing.assert_array_equal(costs, truth[:, None] != np.arange(3))
    before = np.concatenate([[3, *each[:-1]] for each in labels])
    phi = searn._phi(data.x, before, 3)
    plain = StructuredSVM.read([row[None] for row in phi], [[y] for y in truth], 3, edges="none", C=0.5)
    first = next(Searn(C=0.5, gap=1e-6).learn(x, labels, 3))
    assert first.round.primal == pytest.approx(solve(plain, tol=1e-8).primal, rel=1e-5)
    assert first.round.gap <= 1e-6


def test_shares_are_those_of_the_mixture_without_the_optimal_policy() -> None:
    x, labels = drawn(1)
    *_, last = Searn(rounds=3, beta=0.25).learn(x, labels, 3)
    np.testing.assert_allclose(last.shares, np.array([0.75**2, 0.75, 1.0]) / (0.75**2 + 0.75 + 1.0))
    *_, last = Searn(rounds=3, beta=1.0).learn(x, labels, 3)
    np.testing.assert_array_equal(last.shares, [0.0, 0.0, 1.0])


def test_it_learns_what_only_the_label_before_tells() -> None:
    """Labels alternate; x tells the first one alone."""
    rng = np.random.default_rng(0)
    labels = [(int(rng.integers(2)) + np.arange(5)) % 2 for _ in range(40)]
    x = [np.concatenate([[[2.0 * each[0] - 1.0]], np.zeros((4, 1))]) for each in labels]
    *_, last = Searn(C=1.0).learn(x[:20], labels[:20], 2)
    assert all(np.array_equal(got, each) for got, each in zip(last.predict(x[20:]), labels[20:]))
