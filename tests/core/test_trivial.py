"""Every family's trivial point: feasible, certified, and of the value that gaps near 0 are measured against; and what
else every case's problem does: it shows its sizes and not its numbers, and predicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct.core.certificates import certify, least_unit
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.projection import BoxProjection
from convexstruct.families.regularized_risk import RegularizedRisk
from convexstruct.tolerances import FLOOR, HIGH, ROUNDING
from convexstruct.verification.cases import select

CASES = select(None, quick=True)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_problem_is_shown_in_a_few_lines_and_its_trivial_point_is_certified_and_predicts(case: Any) -> None:
    """The trivial point is feasible, and its bounds enclose the optimum; projections learn nothing from examples."""
    problem = case.build(0)
    assert repr(problem).startswith(f"{type(problem).__name__}(")
    assert len(repr(problem)) < 500
    assert "array(" not in repr(problem)
    point, dual_point = problem.trivial()
    certificate = certify(problem, point, dual_point)
    assert certificate.infeasibility <= ROUNDING
    assert np.isfinite(certificate.primal)
    assert certificate.gap > -ROUNDING
    assert certificate.lower_bound > -np.inf or not case.certified
    assert problem.trivial_value > 0
    if problem.family in ("structured_svm", "gaussian_process", "regularized_risk"):
        upper = certificate.primal  # no case of these has J(0) = 0 but those whose pieces have no offset
        assert problem.trivial_value >= abs(upper) * (1 - HIGH.gap)
    if case.family == "projection":
        with pytest.raises(ValueError, match="has no prediction"):
            problem.predict(point)
        return
    found = problem.predict(point)
    assert isinstance(found, list)
    assert len(found) > 0


def test_a_risk_that_is_0_at_the_trivial_point_is_measured_by_what_it_may_fall_from_there() -> None:
    rows = np.array([[3.0, 4.0], [3.0, 4.0]])
    problem = RegularizedRisk.pieces(rows, np.zeros(2), 0.5)
    assert problem.trivial_value == pytest.approx(25.0)  # |a|^2 / (2 lam)
    assert solve(problem).primal == pytest.approx(-25.0)


def test_a_projection_of_a_feasible_point_has_a_scale_though_its_optimum_is_0() -> None:
    inside = BoxProjection.simplex(np.array([0.25, 0.75]))
    assert inside.trivial_value == pytest.approx(0.5 * (0.0625 + 0.5625 + 0.5))
    solution = solve(inside)
    assert solution.status is Status.OPTIMAL
    assert solution.primal <= HIGH.gap * FLOOR


def test_a_separable_set_at_a_huge_c_is_called_optimal_only_where_it_is() -> None:
    """J* is 1e-10 of J(0): a gap that is absolute below 1 would accept twice the optimum and other predictions."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 20))
    y = np.sign(X @ rng.normal(size=20))
    problem = RegularizedRisk.binary(X, y, 1.0 / (1e8 * 200))
    assert least_unit(problem) == pytest.approx(FLOOR)
    solution = solve(problem, time_limit=60)
    assert solution.primal < 1e-6 * problem.trivial_value
    far = certify(problem, {"w": 1.5 * solution.point["w"]}, solution.dual_point)
    assert far.primal > 2 * solution.primal * (1 - HIGH.gap)
    assert far.profile is None


@pytest.mark.parametrize("case", CASES[::3], ids=[case.name for case in CASES[::3]])
def test_points_whose_sums_overflow_certify_no_bound_that_is_wrong_and_are_no_error(case: Any) -> None:
    problem = case.build(0)
    point, dual_point = problem.trivial()
    trivial = certify(problem, point, dual_point)
    for size in (1e157, -1e308):
        if not any(np.asarray(array).dtype.kind in "iu" for array in point.values()):  # labels cannot be moved
            far = certify(problem, {name: array + size for name, array in point.items()}, dual_point)
            assert far.primal >= trivial.lower_bound
        moved = {name: np.asarray(array, dtype=float) + size for name, array in dual_point.items()}
        assert certify(problem, point, moved).lower_bound <= trivial.primal
