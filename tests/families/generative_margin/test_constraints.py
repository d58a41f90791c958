"""Limits of theta: points inside them, and proofs that there are none."""

from __future__ import annotations

import re

import cvxpy as cp
import numpy as np
import pytest

from convexstruct.families.generative_margin.constraints import (
    AffineRows,
    Ceiling,
    Constraint,
    Floor,
    KLBall,
    Tied,
    joined,
)
from convexstruct.families.generative_margin.objectives import uniform
from convexstruct.families.generative_margin.parameters import Parameters
from convexstruct.graphs import hmm_tables
from convexstruct.tolerances import MID

LAYOUT = hmm_tables(2, 3)
D = LAYOUT.dimension
ROW = np.ones((1, D))
FEASIBLE: list[list[Constraint]] = [
    [],
    [Floor(-2.0)],
    [Floor({"initial": [-1.0, -5.0], "transition": np.full((2, 2), -3.0), "emission": np.full((2, 3), -1.2)})],
    [Ceiling(-1.5)],
    [Floor(-3.0), Ceiling(-1.2), Tied([[0, 1], [1, 2]])],
    [KLBall(uniform(LAYOUT), 0.01), Tied([[2, 4]])],
    [AffineRows(ROW, [-30.0]), AffineRows(-ROW, [31.0])],
]
EMPTY: list[list[Constraint]] = [
    [Floor(-0.5)],
    [Floor(-1.0), Ceiling(-2.0)],
    [KLBall(None, 0.001), Ceiling(-1.5)],
    [AffineRows(-ROW, [5.0])],
    [Tied([[0, 6]]), Floor(np.where(np.arange(D) == 0, -0.6, -9.0)), Ceiling(np.where(np.arange(D) == 6, -1.0, 0.0))],
]


@pytest.mark.parametrize("pieces", FEASIBLE)
def test_the_interior_meets_every_limit_and_a_repair_of_any_point_does(pieces: list[Constraint]) -> None:
    parameters = Parameters(LAYOUT, None, joined(pieces, LAYOUT))
    assert parameters.violations(parameters.limits.interior).max() == 0.0
    rng = np.random.default_rng(0)
    near = [parameters.limits.interior + scale * rng.normal(size=D) for scale in (1e-9, 1.0, 1e8, 1e16, 1e299) * 5]
    for theta in (*near, np.full(D, -np.inf), np.zeros(D)):
        repaired = parameters.repair(theta)
        assert parameters.violations(repaired).max() == 0.0
        np.testing.assert_allclose(parameters.repair(repaired), repaired, atol=1e-15)


def test_a_repair_moves_by_no_more_than_the_violation_asks() -> None:
    parameters = Parameters(LAYOUT, None, joined([Floor(-3.0)], LAYOUT))
    theta = np.log(uniform(LAYOUT))
    assert np.abs(parameters.repair(theta + 1e-9) - theta).max() < 1e-8


@pytest.mark.parametrize("pieces", EMPTY)
def test_contradictions_are_refused_with_a_violation_that_is_true(pieces: list[Constraint]) -> None:
    limits = joined(pieces, LAYOUT)
    with pytest.raises(ValueError, match="constraints contradict each other or 1'e") as refusal:
        _ = limits.interior
    said = float(re.findall(r"at least ([\d.e+-]+) nats", str(refusal.value))[0])
    theta, worst = cp.Variable(D), cp.Variable()
    below, above = np.isfinite(limits.low), np.isfinite(limits.high)
    blocks = [np.flatnonzero(LAYOUT.block_of == i) for i in range(len(LAYOUT.block_sizes))]
    inside = [cp.sum(cp.exp(theta[block])) <= 1 for block in blocks]
    tied = [theta[j] == theta[i] for j, i in enumerate(limits.of) if i != j]
    bounds = [limits.low[below] - theta[below] <= worst, theta[above] - limits.high[above] <= worst]
    bounds += [limits.G @ theta - limits.g <= worst] if len(limits.g) else []
    least = cp.Problem(cp.Minimize(worst), [*inside, *tied, *(b for b in bounds if b.size)]).solve(solver="CLARABEL")
    assert 0 < said <= least + MID.gap
    assert said >= 0.9 * least
