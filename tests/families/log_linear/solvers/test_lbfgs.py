"""L-BFGS: zeros, metrics, single precision, and where they end; the rest is in `test_conformance`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear import (
    LBFGS,
    ConditionalRandomField,
)
from convexstruct.families.log_linear.solvers import lbfgs
from tests.families.log_linear.random_fields import field


@pytest.mark.parametrize("l1", [0.0, 0.5])
def test_pairs_in_single_precision_reach_the_same_gap(l1: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lbfgs, "SINGLE_FROM", 0)
    solution = solve(field(20, "chains", l1=l1), LBFGS(), tol=1e-10, max_iterations=2000)
    assert solution.status is Status.OPTIMAL, solution


def test_the_metric_follows_from_whether_features_occur_together() -> None:
    rng = np.random.default_rng(24)
    labels = rng.integers(3, size=(30, 10))
    apart = rng.normal(size=(300, 8)) + np.eye(3, 8)[labels.ravel()]
    together = np.tile(np.eye(5)[rng.integers(5, size=300)], 8)  # eight copies of five indicators
    for x, metric in ((apart, "diagonal"), (together, "scalar"), (sp.csr_array(together), "scalar")):
        problem = ConditionalRandomField.read(x, list(labels), 3, lam=1e-3)
        assert f"in a {metric} metric" in solve(problem).solver
        rounds = {each: solve(problem, LBFGS(metric=each), tol=1e-8).iterations for each in ("scalar", "diagonal")}
        assert min(rounds, key=lambda each: rounds[each]) == metric, rounds


@pytest.mark.parametrize(("labels", "C"), [(5, 100.0), (50, 100.0)])
def test_a_time_stamp_leaves_a_lower_bound(labels: int, C: float) -> None:
    """The default's forty pairs: with six the run ends at a gap of 1. What rounding may add to P is told by the P of
    the start: told by P itself, far less in the end, the second run ends at a gap of 1 as well."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200 if labels == 5 else 40, 6))
    y = (x @ rng.normal(size=(6, labels)) + 0.5 * rng.normal(size=(len(x), labels))).argmax(axis=1)
    x[:, 0] = 1.7e9 + 60 * np.arange(len(x))
    solution = solve(ConditionalRandomField.read(x, np.split(y, len(x) // 4), labels, C=C))
    assert solution.gap < 2e-5, solution


@pytest.mark.parametrize("seed", [0, 7])
def test_features_from_1e_8_to_1e8_leave_a_lower_bound(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """P has no digits left long before its slopes, which the bound asks for, have none: without `lbfgs.allowance` the
    gaps stay at .5 and more."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, size=10)
    x = rng.normal(size=(int(lengths.sum()), 4)) * 10.0 ** rng.integers(-8, 8, size=(len(lengths), 4)).repeat(
        lengths, axis=0
    )
    y = rng.integers(8, size=len(x))
    ends = lengths.cumsum()[:-1]
    problem = ConditionalRandomField.read(np.split(x, ends), np.split(y, ends), 8, C=1.0)
    assert solve(problem, max_iterations=3000).status is Status.OPTIMAL
    monkeypatch.setattr(lbfgs, "allowance", lambda problem, theta: 0.0)
    assert solve(problem, max_iterations=3000).gap > 0.1


@pytest.mark.parametrize(("kind", "seed"), [("sparse", 8), ("chains", 8), ("chains", 12), ("chains", 13)])
def test_the_diagonal_is_not_renewed_by_curvatures_that_vanish(kind: str, seed: int) -> None:
    """`lbfgs.LEAST_CURVATURE`: without a penalty or a maximum steps would get so long that the run ends at a P of 1 to
    1e37, far from the infimum 0."""
    assert solve(field(seed, kind, 4, C=None), LBFGS(), max_iterations=200).primal < 1e-6
