"""The smoothed risk: what is held, and the offsets that minimise it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.semismooth_newton.smoothed_risk import SmoothedRisk
from convexstruct.tolerances import ROUNDING
from tests.families.regularized_risk.solvers.semismooth_newton.instances import KINDS, at_some_point, random_problem

pytestmark = pytest.mark.usefixtures("written_out")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_held_keeps_the_dual_value_and_the_primal_of_groups_that_are_linear(kind: str) -> None:
    problem = random_problem(kind, 24, 4, 0.05, 1.0, 3)
    whole, w, b, _, _ = at_some_point(problem, 4)
    v = whole.forward(w) + whole.offset + whole.lift(b)
    a = problem.best_alpha(v) / whole.share if not problem.n_biases else (v > 0).astype(float)
    near = whole.near(v, a, 0.5)
    assert 0 < near.sum() < len(near)
    part, pieces = whole.restrict(near, a, whole.adjoint(whole.share * a))
    mixed = a.copy()
    mixed[pieces] *= 0.5
    total = whole.adjoint(whole.share * mixed)
    again = part.adjoint(part.share * mixed[pieces]) + part.fixed
    np.testing.assert_allclose(again, total, atol=ROUNDING)
    assert part.dual(mixed[pieces], again) == pytest.approx(problem.dual_value(whole.share * mixed), rel=ROUNDING)
    assert part.primal(w, b, v[pieces]) == pytest.approx(problem.value(w, b if len(b) else None), rel=ROUNDING)
    moved = w + 1e-4 * np.random.default_rng(0).normal(size=len(w))  # within the margin they stay linear
    values = part.forward(moved) + part.offset + part.lift(b)
    assert part.primal(moved, b, values) == pytest.approx(problem.value(moved, b if len(b) else None), rel=ROUNDING)


def test_a_piece_at_its_vertex_near_the_floor_is_not_held() -> None:
    """0 is one more piece of a group: a piece that leads the others alone may still be near the kink with it."""
    whole = replace(SmoothedRisk.whole(random_problem("multiclass", 4, 2, 0.05, 1.0, 0)), floor=True)
    first = whole.group == 0
    v, a = np.where(first, -9.0, 5.0), np.zeros(len(first))
    v[np.argmax(first)], a[np.argmax(first)] = 0.5, 1.0
    assert whole.near(v, a, 1.0)[first].sum() == 1
    assert not whole.near(v, a, 0.2)[first].any()


@pytest.mark.parametrize("kind", ["multiclass", "pieces", "binary"])
def test_only_pieces_below_the_margin_and_groups_that_lead_by_it_are_held(kind: str) -> None:
    problem = random_problem(kind, 40, 4, 0.05, 1.0, 5)
    whole = SmoothedRisk.whole(problem)
    v = whole.forward(np.random.default_rng(1).normal(size=problem.dimension)) + whole.offset
    a = problem.best_alpha(v) / whole.share
    for margin in (0.1, 1.0, 3.0):
        near = whole.near(v, a, margin)
        for i, j in pairwise(problem.loss.start):
            levels = np.append(v[i:j], 0.0) if problem.loss.floor else v[i:j]
            within = v[i:j] >= levels.max() - margin
            many = np.count_nonzero(levels >= levels.max() - margin) > 1
            np.testing.assert_array_equal(near[i:j], within & many)
    inside = whole.near(v, 0.5 * a + 0.25 / np.diff(problem.loss.start)[problem.group], 0.1)
    assert inside.all()


def test_offsets_of_scores_that_no_float_balances_end() -> None:
    """Between neighbouring floats near 1e20 a piece goes from one end of its range to the other: no shift is exact, and
    without SCALAR_STEPS of the smoothed_risk the bisection has no end."""
    y, weights = np.array([1, 1, -1]), np.array([1, 2, 1])
    risk = SmoothedRisk.whole(RegularizedRisk.binary(np.zeros((3, 2)), y, 0.1, bias=True, weights=weights))
    assert risk.best_lift(np.array([1e20, 3e20, 2e20]), 1.0) == pytest.approx(3e20)
