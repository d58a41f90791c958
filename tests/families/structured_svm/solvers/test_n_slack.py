"""Cutting planes with one slack an example: the optimum, and the bound of Tsochantaridis et al. on their number."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.families.structured_svm.solvers import n_slack
from convexstruct.families.structured_svm.solvers.n_slack import NSlack
from tests.families.structured_svm.solvers.references import ends_within, optimum, radius
from tests.models.structured_svm.instances import svm


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    st.integers(0, 10_000), st.sampled_from(["margin", "slack"]), st.sampled_from(["hamming", "zero_one"]),
    st.sampled_from([0.5, 0.05, 0.005]), st.sampled_from([0.1, 1.0, 10.0]), st.booleans(),
)  # fmt: skip
def test_the_labellings_added_stay_below_the_bound(
    seed: int, scaling: Any, loss: str, eps: float, scale: float, weighted: bool
) -> None:
    options: dict[str, Any] = {"C_mean": scale} if seed % 2 else {"lam": scale}
    problem = svm(seed, (1, 2, 3), 2, scaling=scaling, loss=loss, weighted=weighted, **options)
    *_, last = NSlack(eps=eps, block=1, inner=0.0).iterate(problem)
    added, solved = (int(last.message.split()[at]) for at in (0, 4))
    assert added == solved <= n_slack.n_slack_bound(problem, eps, radius(problem))  # one at a time
    ends_within(problem, last, eps)


def test_the_bound_in_the_scale_of_paper_1_is_that_of_the_theorem() -> None:
    problem = svm(1, C_mean=3.0)
    eps, r, most = 0.1, radius(problem), float(problem.loss.most.max())
    stated = max(2 * 4 * most / eps, 8 * 3.0 * most * r**2 / eps**2)
    assert n_slack.n_slack_bound(problem, eps, r) <= stated
    alike = svm(1, lengths=(2, 2, 2, 2), C_mean=3.0)
    r, most = radius(alike), float(alike.loss.most.max())
    for eps in (1e-3, 1e3):
        stated = max(2 * 4 * most / eps, 8 * 3.0 * most * r**2 / eps**2)
        assert n_slack.n_slack_bound(alike, eps, r) == pytest.approx(stated)


def test_a_master_with_few_constraints_bounds_from_below_and_not_above_as_printed_in_paper_4() -> None:
    problem = svm(3, lam=0.1)
    bounds = [iterate.lower_bound for iterate in NSlack().iterate(problem)]
    assert bounds[0] == 0.0 < 0.9 * optimum(problem)
    assert max(bounds) <= optimum(problem) + 1e-7
    assert bounds[-1] == pytest.approx(optimum(problem), rel=1e-5)


def test_the_test_of_paper_4_on_probabilities_passes_a_margin_of_a_fiftieth() -> None:
    truth, other = 100.0, 98.0
    assert truth > other + 1  # as printed: "all constraints for m'th case are ok"
    assert math.log(truth) - math.log(other) < 0.03  # the constraint wants 1
