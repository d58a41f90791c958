"""Pegasos: its steps in a plain loop, its bound, and the dual points of its iterates."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.pegasos import Pegasos1, PegasosN, radius
from convexstruct.families.regularized_risk.solvers.semismooth_newton.proximal_point import SemismoothNewton
from convexstruct.tolerances import HIGH, ROUNDING
from tests.models.regularized_risk.risks import INSTANCES

FIXED = [name for name, make in INSTANCES.items() if not make().n_biases]


def excess_at_most(lam: float, longest: float, ball: float, steps: int) -> float:
    """The bound of `pegasos` on the mean of J less its optimum; ``longest`` is G, ``ball`` r."""
    return (longest + lam * ball) ** 2 * (1.0 + math.log(steps)) / (2.0 * lam * steps)


@pytest.mark.parametrize("name", INSTANCES)
def test_steps_of_the_whole_risk_are_those_written_out(name: str) -> None:
    problem = INSTANCES[name]()
    lam, ball = problem.lam, radius(problem)
    w = problem.primal_of(problem.feasible(np.zeros(problem.n_pieces)))
    for t, iterate in enumerate(islice(PegasosN().iterate(problem), 30), start=1):
        np.testing.assert_allclose(iterate.point["w"], w, atol=ROUNDING * (1 + np.abs(w).max()))
        assert iterate.primal == pytest.approx(problem.value(w), rel=ROUNDING)
        w = (1 - 1 / t) * w - problem.subgradient(iterate.point["w"]).a / (lam * t)
        w = w * min(1.0, ball / max(float(np.linalg.norm(w)), 1e-300))


@pytest.mark.parametrize("name", [name for name in INSTANCES if INSTANCES[name]().loss.floor])
def test_the_average_of_the_values_stays_within_the_bound_and_the_ball_holds_the_optimum(name: str) -> None:
    problem = INSTANCES[name]()
    exact = solve(problem, SemismoothNewton(), HIGH)
    ball = radius(problem)
    assert np.linalg.norm(exact.point["w"]) <= ball + ROUNDING
    values, longest = [], 0.0
    for iterate in islice(PegasosN().iterate(problem), 300):
        values.append(iterate.primal)
        longest = max(longest, float(np.linalg.norm(problem.subgradient(iterate.point["w"]).a)))
        assert np.linalg.norm(iterate.point["w"]) <= ball * (1 + ROUNDING)
        steps = len(values)
        assert np.mean(values) - exact.primal <= excess_at_most(problem.lam, longest, ball, steps) + HIGH.gap


@pytest.mark.parametrize("name", FIXED)
def test_single_examples_move_by_their_own_subgradient(name: str) -> None:
    """With one step an iterate, w changes by the subgradient of one group, with the mass of all groups."""
    problem = INSTANCES[name]()
    lam, ball, mass = problem.lam, radius(problem), float(problem.shares.sum())
    before = np.zeros(problem.shape)
    if not problem.loss.floor:
        before = problem.primal_of(problem.feasible(np.zeros(problem.n_pieces)))
    for t, iterate in enumerate(islice(Pegasos1(steps=1).iterate(problem), 25), start=1):
        values = problem.values(before if t > 1 else np.zeros(problem.shape))
        nexts = []
        for g in range(problem.loss.n_groups):
            alpha = np.zeros(problem.n_pieces)
            first, last = problem.loss.start[g], problem.loss.start[g + 1]
            worst = first + int(values[first:last].argmax())
            if values[worst] > 0 or not problem.loss.floor:
                alpha[worst] = mass
            w = (1 - 1 / t) * before - problem.adjoint(alpha) / (lam * t)
            nexts.append(w * min(1.0, ball / max(float(np.linalg.norm(w)), 1e-300)))
        now = iterate.point["w"]
        assert min(np.abs(now - w).max() for w in nexts) <= ROUNDING * (1 + np.abs(now).max())
        before = now


def test_heavier_examples_are_drawn_more_often() -> None:
    X = np.eye(2)
    problem = RegularizedRisk.binary(X, [1, 1], 1.0, weights=[9.0, 1.0])
    last = list(islice(Pegasos1(steps=4000).iterate(problem), 1))[-1]
    exact = solve(problem, SemismoothNewton(), HIGH)
    np.testing.assert_allclose(last.point["w"], exact.point["w"], atol=0.05)
