"""Cutting planes with one slack in all: the optimum, the cache, and the bound of Joachims, Finley and Yu."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.structured_svm.solvers import one_slack
from convexstruct.families.structured_svm.solvers.column_generation.restricted_master import solve_pools
from convexstruct.families.structured_svm.solvers.one_slack import OneSlack
from convexstruct.tolerances import HIGH
from tests.families.structured_svm.solvers.references import holds, optimum, radius, reference
from tests.models.structured_svm.instances import INSTANCES, svm


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
    solutions: list[Any] = []

    def counted(*given: Any) -> Any:
        solutions.append(given)
        return solve_pools(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_slack, "solve_pools", counted)
        *_, last = OneSlack(eps=eps, cache=cache).iterate(problem)
    assert last.done
    assert len(solutions) <= one_slack.one_slack_bound(problem, eps, radius(problem))
    slack = float(problem.ceiling.sum()) * eps
    assert last.primal - last.lower_bound <= slack + HIGH.gap * max(1.0, last.primal)
    assert last.lower_bound - HIGH.gap <= optimum(problem) <= last.primal + HIGH.gap


def test_one_cut_whose_rise_rounding_hides_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, expected = reference(next(iter(INSTANCES)))
    add, hidden = one_slack.Cuts.add, iter([True, False, False, True, False])

    def rounded(self: one_slack.Cuts, *given: Any) -> bool:
        rose = add(self, *given)
        return rose and next(hidden, True)

    monkeypatch.setattr(one_slack.Cuts, "add", rounded)
    solution = solve(problem, OneSlack(cache=0))
    assert next(hidden, None) is None
    assert solution.status is Status.OPTIMAL
    holds(solution, expected)


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


def test_the_cache_never_makes_a_cut_above_the_oracles() -> None:
    problem, _ = reference("slack scaling, weighted, a cost matrix")
    rng = np.random.default_rng(0)
    cuts = one_slack.Cuts(problem, rng.normal(size=problem.dimension), 50)
    kept = [problem.most_violated(rng.normal(size=problem.dimension)).labels for _ in range(4)]
    kept = [labels for labels in kept if problem.loss.of(labels).any()]
    labels = one_slack.cached(problem, cuts, deque(kept), 0.0)
    assert labels is not None
    node, edge = problem.scores(cuts.w)

    def violation(of: Any) -> Any:
        return problem.loss.of(of) * (1 - problem.truth_scores(node, edge) + problem.score(node, edge, of))

    each = np.array([violation(of) for of in [problem.features.truth, *kept]])
    np.testing.assert_allclose(violation(labels), each.max(axis=0))
    assert (violation(labels) <= problem.most_violated(cuts.w).violation + HIGH.gap).all()


def test_cuts_long_out_of_use_are_dropped_and_the_optimum_stays() -> None:
    problem, expected = reference("zero-one loss")
    holds(solve(problem, OneSlack(forget=2)), expected)
