"""Relabelling and retraining, against all labellings: where Proposition 2 holds, where not, and the guard's effect."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.relabelling import relabel
from convexstruct.families.unsupervised_margin.supervised import supervised
from convexstruct.tolerances import HIGH, ROUNDING

SEEDS = st.integers(0, 2**32 - 1)


def unbalanced(observations: list[np.ndarray], beta: float, n_labels: int = 2) -> UnsupervisedMargin:
    """The data of a problem; no balance matters here."""
    return UnsupervisedMargin.read(observations, n_labels, beta=beta, label_balance=1.0)


def joint(rows: Vector, y: tuple[int, ...], n_labels: int) -> Vector:
    """phi(x, y) of a chain, written out: features by label, then pairs of labels [previous, current]."""
    node, edge = np.zeros((n_labels, rows.shape[1])), np.zeros((n_labels, n_labels))
    for t, label in enumerate(y):
        node[label] += rows[t]
        if t:
            edge[y[t - 1], label] += 1.0
    return np.concatenate((node.ravel(), edge.ravel()))


def hinge(rows: Vector, y: tuple[int, ...], w: Vector, n_labels: int) -> float:
    """H(w; y) over all labellings."""
    every = itertools.product(range(n_labels), repeat=len(y))
    worst = max(sum(a != b for a, b in zip(u, y)) + float(w @ joint(rows, u, n_labels)) for u in every)
    return worst - float(w @ joint(rows, y, n_labels))


@given(SEEDS, st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(2, 3))
@settings(max_examples=15, deadline=None)
def test_the_supervised_network_has_the_margin_loss_of_all_labellings(
    seed: int, lengths: list[int], kappa: int
) -> None:
    rng = np.random.default_rng(seed)
    tables = [rng.normal(size=(n, 2)) for n in lengths]
    y = rng.integers(0, kappa, size=sum(lengths))
    if len(y) < kappa:
        return
    problem = unbalanced(tables, beta=0.7, n_labels=kappa)
    machine = supervised(problem, y)
    w = rng.normal(size=machine.dimension)
    each = [tuple(one.tolist()) for one in np.split(y, np.cumsum(lengths)[:-1])]
    pairs = kappa * kappa if problem.n_pairs else 0
    padded = w if pairs else np.concatenate((w, np.zeros(kappa * kappa)))
    losses = [hinge(table, labels, padded, kappa) for table, labels in zip(tables, each)]
    assert machine.most_violated(w).value == pytest.approx(0.35 * w @ w + sum(losses), rel=ROUNDING)


def test_a_prediction_is_not_the_labelling_of_least_loss() -> None:
    rows = np.zeros((2, 1))  # one sequence of two positions with features 0: transitions alone have scores
    w = np.array([0.0, 0.0, 0.0, -0.25, -1.0, -0.25])
    scores = {y: float(w @ joint(rows, y, 2)) for y in itertools.product(range(2), repeat=2)}
    assert max(scores, key=lambda y: scores[y]) == (0, 0)
    assert sorted(scores.values())[-2] == -0.25  # and by no tie
    assert hinge(rows, (0, 0), w, 2) == 1.75
    assert hinge(rows, (0, 1), w, 2) == 1.25
    problem = unbalanced([rows], beta=1.0)
    for y, loss in (((0, 0), 1.75), ((0, 1), 1.25)):
        machine = supervised(problem, y)
        np.testing.assert_array_equal(machine.decode(w), [0, 0])
        assert machine.most_violated(w).hinge[0] == loss


def test_plain_relabelling_raises_the_loss_of_two_short_sequences_and_the_guard_does_not_let_it() -> None:
    shown, beta = [np.array([0, 1, 0, 0]), np.array([1, 0, 0, 1])], 0.5
    before, after = [(1, 1, 1, 0), (1, 0, 0, 0)], [(1, 1, 0, 0), (1, 0, 1, 0)]
    problem = unbalanced(shown, beta)
    plain = relabel(problem, np.concatenate(before), guarded=False, tol=HIGH, max_rounds=2)
    np.testing.assert_array_equal(plain.labellings, [np.concatenate(before), np.concatenate(after)])
    assert plain.rises == 1
    tables = [np.eye(2)[one] for one in shown]
    trained = [solve(supervised(problem, np.concatenate(labels)), tol=HIGH) for labels in (before, after)]
    for at, (labels, machine) in enumerate(zip((before, after), trained)):
        w = machine.point["w"]  # a point of all labellings written out: the loss is no larger
        loss = 0.5 * beta * float(w @ w) + sum(hinge(rows, y, w, 2) for rows, y in zip(tables, labels))
        assert plain.lower[at] <= loss == pytest.approx(plain.loss[at], rel=HIGH.gap)
    assert plain.lower[1] > plain.loss[0] + 0.3
    guarded = relabel(problem, np.concatenate(before), tol=HIGH)
    assert guarded.rises == 0
    assert guarded.loss[-1] <= guarded.loss[0]


@given(SEEDS, st.integers(2, 4))
@settings(max_examples=40, deadline=None)
def test_of_one_position_at_a_time_the_prediction_costs_least(seed: int, kappa: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(1, 3))
    w = np.concatenate((rng.normal(size=3 * kappa), np.zeros(kappa * kappa)))
    scores = [float(w @ joint(rows, (u,), kappa)) for u in range(kappa)]
    costs = [hinge(rows, (u,), w, kappa) for u in range(kappa)]
    assert costs[int(np.argmax(scores))] <= min(costs) + ROUNDING


def test_with_lambda_fixed_the_prediction_is_not_the_labelling_of_least_loss_even_of_two_points() -> None:
    x, y = np.array([-2.0, -1.0]), np.array([-1.0, 1.0])
    lam = np.array([0.75, 1.0])

    def loss(labels: Vector) -> float:  # of Proposition 1, beta = 1, xi at its least
        w = float((lam * labels) @ x)
        return 0.5 * w * w + float(np.maximum(0.0, 1.0 - labels * x * w).sum())

    w = float((lam * y) @ x)
    assert w == 0.5
    margins = y * x * w  # 1 and -1/2: lambda is optimal for y, as 0 < 3/4 < 1 at a margin of 1 and 1 below it
    np.testing.assert_array_equal(margins, [1.0, -0.5])
    predicted = np.sign(x * w)
    np.testing.assert_array_equal(predicted, [-1.0, -1.0])
    every = {labels: loss(np.array(labels)) for labels in itertools.product((-1.0, 1.0), repeat=2)}
    assert every[tuple(predicted.tolist())] == 3.125
    assert min(every.values()) == every[tuple(y.tolist())] == 1.625


@given(SEEDS, st.integers(2, 3), st.sampled_from([0.05, 0.3, 1.0]))
@settings(max_examples=6, deadline=None)
def test_guarded_relabelling_never_raises_the_loss_and_settles(seed: int, kappa: int, beta: float) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, size=4)
    problem = unbalanced([rng.integers(0, 3, size=n) for n in lengths], beta, kappa) if lengths.sum() >= kappa else None
    if problem is None:
        return
    found = relabel(problem, rng.integers(0, kappa, size=problem.n_rows))
    assert found.settled
    assert found.rises == 0
    assert (np.diff(found.loss) <= ROUNDING * (1.0 + found.loss[:-1])).all()
    assert (found.lower <= found.loss).all()
    np.testing.assert_array_equal(found.labellings[-1], found.labels)


def test_one_label_everywhere_is_a_fixed_point_and_coming_to_it_is_called_a_collapse() -> None:
    problem = unbalanced([np.array([0, 1, 0, 0]), np.array([0, 0])], beta=0.01)
    still = relabel(problem, np.zeros(6, dtype=int))
    assert still.settled
    assert len(still.loss) == 1
    assert not still.collapsed  # it was there from the start
    assert still.loss[0] < 0.1  # and costs next to nothing
    heavy = unbalanced([np.array([0, 0, 0, 0]), np.array([0, 0])], beta=1.0)
    fallen = relabel(heavy, np.array([0, 0, 0, 0, 0, 1]))
    assert fallen.collapsed
    assert len(set(fallen.labels.tolist())) == 1
