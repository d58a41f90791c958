from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.certificates import certify, relative_gap
from convexstruct.tolerances import HIGH
from convexstruct.verification.generative_margin import enumerated, hidden_masks
from tests.verification.toy import BEST, COSTS, OPTIMUM, Box


def test_the_gap_is_relative_to_the_largest_of_one_and_both_bounds() -> None:
    assert relative_gap(10.0, 9.0) == pytest.approx(0.1)
    assert relative_gap(0.5, 0.25) == pytest.approx(0.25)
    assert relative_gap(-100.0, -200.0) == pytest.approx(0.5)


def test_a_lower_bound_above_the_primal_value_stays_visible() -> None:
    assert relative_gap(9.0, 10.0) == pytest.approx(-0.1)


@pytest.mark.parametrize(("primal", "lower"), [(math.inf, 0.0), (0.0, -math.inf), (math.nan, 0.0)])
def test_what_is_undefined_has_an_infinite_gap(primal: float, lower: float) -> None:
    assert relative_gap(primal, lower) == math.inf


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    st.lists(st.floats(0, 3), min_size=3, max_size=3),
)
def test_every_point_and_every_witness_bracket_the_optimum(x: list[float], above: list[float]) -> None:
    problem = Box(COSTS)
    certificate = certify(problem, x, {"q": np.maximum(COSTS, 0.0) + above})
    assert certificate.lower_bound <= OPTIMUM <= certificate.primal
    assert certificate.gap >= 0


def test_an_infeasible_point_is_repaired_before_it_counts_and_its_claim_is_kept() -> None:
    certificate = certify(Box(COSTS), 2 * BEST, {"q": np.maximum(COSTS, 0.0)})
    assert certificate.claimed == 2 * OPTIMUM
    assert certificate.primal == OPTIMUM
    assert certificate.infeasibility == 1.0
    assert certificate.gap == 0.0
    assert certificate.profile is None


def test_optimal_and_feasible_meets_the_strictest_profile() -> None:
    assert certify(Box(COSTS), BEST, {"q": np.maximum(COSTS, 0.0)}).profile == HIGH.name


def test_without_a_witness_nothing_is_claimed() -> None:
    certificate = certify(Box(COSTS), BEST)
    assert certificate.lower_bound == -math.inf
    assert certificate.gap == math.inf


def test_a_witness_that_is_not_dual_feasible_certifies_nothing() -> None:
    certificate = certify(Box(COSTS), BEST, {"q": np.zeros(3)})
    assert certificate.lower_bound == -math.inf
    assert certificate.dual_residuals == {"q below max(c, 0)": 3.0}


def test_a_point_with_nan_certifies_nothing_and_is_no_error() -> None:
    certificate = certify(Box(COSTS), [np.nan, 0.0, 0.0])
    assert certificate.primal == math.inf
    assert certificate.infeasibility == math.inf


def test_the_wrong_shape_is_an_error_that_says_what_was_wanted() -> None:
    with pytest.raises(ValueError, match=r"wanted \(3,\)"):
        certify(Box(COSTS), [1.0])


def test_a_witness_may_not_change_what_is_observed() -> None:
    """Flipping an observed state costs nothing in the loss: accepted, it would give bounds above the optimum."""
    problem = hidden_masks(0).problem
    labels = problem.features.truth.copy()  # type: ignore[attr-defined]  # a generative margin problem
    observed = np.flatnonzero(~problem.features.free)  # type: ignore[attr-defined]  # as above
    labels[observed[0]] = (labels[observed[0]] + 1) % 3
    with pytest.raises(ValueError, match="observed"):
        certify(problem, np.full(24, -1.5), {"labels": labels[None], "label_shares": np.ones((1, 4))})


def test_shares_above_one_certify_nothing() -> None:
    problem = enumerated(0).problem
    truth = problem.features.truth  # type: ignore[attr-defined]  # a generative margin problem
    theta = problem.uniform()  # type: ignore[attr-defined]  # as above
    good = certify(problem, theta, {"labels": truth[None], "label_shares": np.ones((1, 4))})
    bad = certify(problem, theta, {"labels": truth[None], "label_shares": np.full((1, 4), 1.01)})
    assert math.isfinite(good.lower_bound)
    assert bad.lower_bound == -math.inf
    assert bad.dual_residuals["shares outside the simplex"] == pytest.approx(0.01)
