"""The labelling of least margin loss, against all labellings written out, each with its network trained."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from convexstruct.arrays import Labels
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.unsupervised_margin import InteriorPoint, MarginLabelling, Relabelling, UnsupervisedMargin
from convexstruct.tolerances import HIGH, LOW, MID, ROUNDING


def made(seed: int, lengths: tuple[int, ...], n_labels: int, beta: float, balance: float = 1.0) -> MarginLabelling:
    rng = np.random.default_rng(seed)
    tables = [np.round(rng.normal(size=(n, 2)), 3) for n in lengths]
    return MarginLabelling(UnsupervisedMargin.read(tables, n_labels, beta=beta, label_balance=balance))


#: Lengths with 1 among them, one sequence, rows without neighbours, three labels, a balance that binds.
SMALL: dict[str, MarginLabelling] = {
    "two sequences": made(0, (3, 2), 2, 0.5),
    "one sequence": made(1, (5,), 2, 0.3),
    "a sequence of one row": made(2, (1, 3, 1), 2, 1.0),
    "no pairs": made(3, (1,) * 5, 3, 0.5, 0.2),
    "three labels": made(4, (2, 2), 3, 2.0, 0.3),
    "in balance": made(5, (4, 2), 2, 0.1, 0.1),
    "a large beta": made(6, (3, 3), 2, 50.0),
    "ties": MarginLabelling(UnsupervisedMargin.read([[0, 1, 0], [0, 1, 0]], 2, beta=0.5, label_balance=1.0)),
}
each_small = pytest.mark.parametrize("name", SMALL)


def balanced(problem: MarginLabelling) -> list[Labels]:
    """Every labelling within the balance, one of those that differ in names alone."""
    data, found = problem.data, []
    for y in itertools.product(range(data.n_labels), repeat=data.n_rows):
        first = list(dict.fromkeys(y))
        counts = np.bincount(y, minlength=data.n_labels)
        within = abs(counts / data.n_rows - 1 / data.n_labels).max() <= data.label_balance + 1e-12
        if first == sorted(first) and within:
            found.append(np.array(y))
    return found


@cache
def brackets(name: str) -> list[tuple[float, float]]:
    """Of every labelling in balance."""
    return [loss(SMALL[name], labels) for labels in balanced(SMALL[name])]


def loss(problem: MarginLabelling, labels: Labels) -> tuple[float, float]:
    """A certified bracket of omega(labels)."""
    found = solve(problem.machine(labels), tol=MID)
    return found.lower_bound, found.primal


@each_small
def test_the_bound_is_below_the_loss_of_every_labelling_above_0_and_above_the_relaxations(name: str) -> None:
    problem = SMALL[name]
    least = min(upper for _, upper in brackets(name))
    for witness in ({}, solve(problem.data, InteriorPoint(), tol=HIGH).dual_point or {}):
        bound = problem.dual(witness)
        assert 0.0 < bound.lower <= least
        assert bound >= problem.data.dual(witness) - ROUNDING * problem.trivial_value


@each_small
def test_a_run_ends_where_no_prediction_and_no_single_label_lowers_the_loss_between_the_bound_and_the_best(
    name: str,
) -> None:
    problem = SMALL[name]
    found = solve(problem, Relabelling(restarts=2))
    assert found.status in (Status.STATIONARY, Status.OPTIMAL)
    assert found.certificate == certify(problem, found.point, found.dual_point)
    assert found.certificate.infeasibility == 0.0
    assert found.lower_bound <= min(upper for _, upper in brackets(name))
    assert found.primal >= min(lower for lower, _ in brackets(name))
    labels, w = found.point["labels"], found.point["w"]
    assert found.primal <= loss(problem, labels)[1] * (1 + MID.gap)  # w is the labels' best
    for i, u in itertools.product(range(problem.data.n_rows), range(problem.data.n_labels)):
        other = labels.copy()
        other[i] = u
        if max(problem.residuals({"labels": other, "w": w}).values()) == 0.0:
            assert problem.primal({"labels": other, "w": w}) >= found.primal * (1 - HIGH.gap) - ROUNDING


@each_small
def test_the_loss_never_rises_from_one_training_to_the_next_of_a_start(name: str) -> None:
    problem = SMALL[name]
    values = [iterate.primal for iterate in Relabelling(most_rows=0).iterate(problem)]
    assert (np.diff(values) <= 0).all()


def test_of_random_starts_it_says_how_many_end_with_one_label() -> None:
    problem = MarginLabelling(UnsupervisedMargin.read([[0, 0, 0, 0], [0, 0]], 2, beta=1.0, label_balance=1.0))
    found = solve(problem, Relabelling(restarts=4, most_rows=0))
    assert found.status is Status.STATIONARY
    assert "of 4 starts end with one label for all rows" in found.message
    assert "0 of 4" not in found.message
    assert "not solved, by its largest eigenvalues alone" in found.message
    assert len(set(found.point["labels"].tolist())) == 1


def test_labels_out_of_balance_are_repaired_and_their_certificate_is_that_of_the_repair() -> None:
    problem = SMALL["in balance"]
    point = {"labels": np.zeros(6, dtype=int), "w": problem.trivial()[0]["w"]}
    found = certify(problem, point, {})
    assert found.infeasibility == pytest.approx(0.5)
    repaired = problem.repair(problem.as_point(point))
    assert max(problem.residuals(repaired).values()) == 0.0
    assert found.primal >= problem.primal(repaired)


def test_new_sequences_are_labelled_by_the_network() -> None:
    problem = SMALL["two sequences"]
    found = solve(problem, tol=LOW)
    own = problem.predict(found.point)
    assert [len(one) for one in own] == [3, 2]
    np.testing.assert_array_equal(np.concatenate(own), found.point["labels"])
    assert [len(one) for one in problem.predict(found.point, [np.ones((4, 2))])] == [4]
