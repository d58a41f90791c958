"""Cutting planes with one slack in all: the optimum, the cache, and the bound of Joachims, Finley and Yu."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.structured_svm.solvers import one_slack
from convexstruct.families.structured_svm.solvers.one_slack import OneSlack
from tests.families.structured_svm.solvers.references import ends_within, radius
from tests.models.structured_svm.instances import svm


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    st.integers(0, 10_000), st.sampled_from(["margin", "slack"]), st.sampled_from(["hamming", "zero_one"]),
    st.sampled_from([0.5, 0.05, 0.005]), st.sampled_from([0.1, 1.0, 10.0]), st.sampled_from([0, 3]),
)  # fmt: skip
def test_the_cuts_stay_below_the_bound(
    seed: int, scaling: Any, loss: str, eps: float, scale: float, cache: int
) -> None:
    options: dict[str, Any] = {"C_mean": scale} if seed % 2 else {"lam": scale}
    problem = svm(seed, (1, 2, 3), 2, scaling=scaling, loss=loss, weighted=seed % 3 == 0, **options)
    *_, last = OneSlack(eps=eps, cache=cache).iterate(problem)
    assert int(last.message.split()[0]) <= one_slack.one_slack_bound(problem, eps, radius(problem))
    ends_within(problem, last, eps)


def test_the_bound_in_the_scale_of_the_paper_is_that_of_the_theorem() -> None:
    problem = svm(0, C_mean=1e-3, noise=0.1)
    r, most = radius(problem), float(problem.loss.most.max())
    first, second = math.ceil(math.log2(most / (4 * r**2 * 1e-3))), math.ceil(16 * r**2 * 1e-3 / 1e-4)
    assert first > 0
    assert one_slack.one_slack_bound(problem, 1e-4, r) == first + second


def test_the_cache_saves_calls_of_the_oracle() -> None:
    problem = svm(3, lengths=(4,) * 20, C=1.0)
    without, with_cache = (solve(problem, OneSlack(cache=cache)) for cache in (0, 5))
    assert with_cache.trace.oracle_calls[-1] < without.trace.oracle_calls[-1]
    assert with_cache.status is without.status is Status.OPTIMAL
