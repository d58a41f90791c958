"""Latent structural SVMs against all labellings written out and all completions solved."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct.arrays import Labels, Vector
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.structured_svm import ConcaveConvex, LatentSVM
from convexstruct.tolerances import HIGH, ROUNDING

COSTS = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 1.0, 0.0]])


def made(seed: int, lengths: tuple[int, ...], size: int, share: float = 0.5, **options: Any) -> LatentSVM:
    """Normal features of two dimensions; a ``share`` of the nodes of all examples but the first is not known."""
    rng = np.random.default_rng(seed)
    known = [np.eye(size, dtype=bool)[rng.integers(size, size=n)] for n in lengths]
    for table in known[1:]:
        table |= (rng.random(table.shape) < 0.5) & (rng.random((len(table), 1)) < share)
    given: dict[str, Any] = options if {"C", "C_mean", "lam"} & set(options) else {"C": 1.0, **options}
    return LatentSVM.read([rng.normal(size=(n, 2)) for n in lengths], known, **given)


def tied() -> LatentSVM:
    """Equal examples: every completion of a node ties at w = 0."""
    return LatentSVM.read([np.ones((2, 1))] * 2, [[-1, 0], [1, -1]], 2, C=2.0)


SMALL: dict[str, LatentSVM] = {
    "chains": made(0, (3, 1, 3), 3),
    "costs and weights": made(1, (2, 3, 1), 3, loss=COSTS, weights=[0.5, 2.0, 1.0], lam=0.1),
    "nothing whole": made(2, (2, 2), 2, share=1.0, C=3.0),
    "cycles": made(3, (3, 4), 2, edges=[nx.cycle_graph(3), nx.cycle_graph(4)]),
    "associative": made(4, (3, 3, 2), 2, associative=True, C_mean=4.0),
    "length 1": made(5, (1,) * 5, 3),
    "one label": LatentSVM.read([np.ones((2, 1))], [np.ones((2, 1), dtype=bool)], C=1.0),
    "ties": tied(),
}  # fmt: skip
each_small = pytest.mark.parametrize("name", SMALL)


def in_sets(problem: LatentSVM) -> list[Labels]:
    """All completions, (P,) each."""
    return [np.array(h) for h in itertools.product(*(np.flatnonzero(row) for row in problem.known))]


def objective(problem: LatentSVM, w: Vector, costs: Any) -> float:
    """P(w) by its formula: every labelling of each example, f by the feature map, E by the table of costs."""
    model, features = problem.model, problem.model.features
    total = 0.5 * model.lam * float(w @ w)
    for i, omega in enumerate(model.ceiling):
        at = np.flatnonzero(features.example == i)
        one, first, best, clamped = np.eye(model.n_examples)[i], features.truth.copy(), -np.inf, -np.inf
        for y in itertools.product(range(features.n_labels), repeat=len(at)):
            first[at] = y
            score = float(w @ features.joint(first, one))
            near = [min(costs[a, s] for a in np.flatnonzero(problem.known[v])) for v, s in zip(at, y)]
            best = max(best, score + sum(near))
            if problem.known[at, list(y)].all():
                clamped = max(clamped, score)
        total += omega * (best - clamped)
    return total


@cache
def least(name: str) -> tuple[float, float]:
    """A bracket of the least P: the least optimum over all completions."""
    found = [solve(SMALL[name].machine(h), tol=HIGH) for h in in_sets(SMALL[name])]
    return min(each.lower_bound for each in found), min(each.primal for each in found)


@each_small
def test_the_objective_is_its_formula_over_all_labellings_and_lies_below_every_completions(name: str) -> None:
    problem, rng = SMALL[name], np.random.default_rng(9)
    costs = COSTS if "costs" in name else 1.0 - np.eye(problem.known.shape[1])
    for size in (0.0, 0.3, 10.0):
        w = problem.repair({"w": size * rng.normal(size=problem.dimension)})["w"]
        value, exact = problem.primal({"w": w}), objective(problem, w, costs)
        assert abs(value - exact) <= value.allowance + 1e-12 * (1.0 + abs(exact))
        bounds = [problem.machine(h).primal({"w": w}).upper for h in in_sets(problem)]
        assert min(bounds) == pytest.approx(exact, rel=1e-9, abs=1e-9)


@each_small
def test_a_run_never_rises_and_ends_at_a_stationary_point_between_the_bound_and_all_starts(name: str) -> None:
    problem = SMALL[name]
    values: list[float] = []
    found = solve(problem, callback=lambda iterate, _: values.append(iterate.primal))
    assert (np.diff(values) <= ROUNDING * problem.trivial_value).all()
    assert found.status in (Status.STATIONARY, Status.OPTIMAL)
    assert found.certificate == certify(problem, found.point, found.dual_point)
    assert found.lower_bound <= least(name)[1]
    assert found.primal >= least(name)[0]
    w = found.point["w"]
    h = problem.completed(w)
    machine = problem.machine(h)  # no completion is better at w, and w is the best of this completion
    assert machine.primal({"w": w}).upper == pytest.approx(found.primal, rel=1e-9, abs=1e-9)
    assert found.primal <= solve(machine, tol=HIGH).primal + 3 * HIGH.gap * problem.trivial_value


@each_small
def test_of_the_starts_at_every_completion_the_best_is_the_least_of_all(name: str) -> None:
    problem = SMALL[name]
    ends = []
    for h in in_sets(problem):
        start = replace(solve(problem.machine(h), tol=HIGH), dual_point=None)
        ends.append(solve(problem, start=start).primal)
        assert ends[-1] <= start.primal * (1 + HIGH.gap) + ROUNDING
    assert least(name)[0] <= min(ends) <= least(name)[1] + HIGH.gap * problem.trivial_value


def test_more_starts_never_end_worse() -> None:
    problem = made(6, (4, 4, 4, 4), 3)
    one, many = (solve(problem, ConcaveConvex(restarts=n)) for n in (1, 6))
    assert 0 < one.lower_bound < many.primal <= one.primal


def test_with_all_labels_known_it_is_the_structural_svm_and_with_none_it_is_0() -> None:
    problem = made(7, (3, 4, 1), 3, share=0.0)
    assert problem.complete is problem.model
    found = solve(problem)
    assert found.status is Status.OPTIMAL
    assert found.primal == pytest.approx(solve(problem.model, tol=HIGH).primal, rel=ROUNDING)
    nothing = LatentSVM.read([np.ones((2, 1))], [[-1, -1]], 2, C=1.0)
    assert solve(nothing).primal == 0.0
    assert nothing.complete is None


def test_completions_are_those_of_the_sets_and_predictions_of_all_labels() -> None:
    problem = SMALL["chains"]
    w = np.random.default_rng(3).normal(size=problem.dimension)
    completed = problem.completions(w)
    assert [len(each) for each in completed] == [3, 1, 3]
    assert problem.known[np.arange(7), np.concatenate(completed)].all()
    assert [y.tolist() for y in problem.predict(w)] == [y.tolist() for y in problem.model.predict(w)]
