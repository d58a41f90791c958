"""Constraints that cutting planes add: fewer than the theorems allow, and as many as in the restricted problems."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.experiment import Result
from convexstruct.families.structured_svm.experiments import cutting_planes
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers import n_slack, one_slack
from convexstruct.families.structured_svm.solvers.column_generation.restricted_master import PoolColumns, solve_pools
from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.quick_runs import quick as run_quick


@pytest.fixture(scope="module")
def quick() -> Result:
    return run_quick("cutting-planes").result


@pytest.mark.slow
def test_no_run_adds_more_than_its_theorem_allows(quick: Result) -> None:
    for row in quick.rows:
        cells = dict(zip(quick.columns, row))
        for name in cutting_planes.NAMES:
            added, bound = cells[name], cells[f"{name} bound"]
            assert isinstance(added, int)
            assert isinstance(bound, (int, float))
            assert 1 <= added <= bound


def test_what_is_left_between_the_bounds_is_c_eps_at_most(quick: Result) -> None:
    for row in quick.rows:
        cells = dict(zip(quick.columns, row))
        promised = cells["C eps"]
        assert isinstance(promised, float)
        for name in cutting_planes.NAMES:
            left = cells[f"P - D, {name}"]
            assert isinstance(left, float)
            assert -HIGH.gap <= left <= promised + HIGH.gap


def test_the_counts_are_those_of_the_restricted_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = cutting_planes.instance(4)
    sizes: list[int] = []

    def counted(columns: PoolColumns, *rest: object, **options: object) -> object:
        sizes.append(len(columns.b))
        return solve_pools(columns, *rest, **options)  # type: ignore[arg-type]  # passes on what came

    monkeypatch.setattr(n_slack, "solve_pools", counted)
    found = cutting_planes.count(problem, 0.1)
    assert found.at_once == max(sizes[found.n_slack :]) - problem.n_examples
    assert found.n_slack == len(sizes[: found.n_slack]) == max(sizes[: found.n_slack]) - problem.n_examples
    cuts: list[int] = []

    def cut(*rest: object, **options: object) -> object:
        cuts.append(1)
        return solve_pools(*rest, **options)  # type: ignore[arg-type]  # passes on what came

    monkeypatch.setattr(one_slack, "solve_pools", cut)
    solution = solve(problem, one_slack.OneSlack(eps=0.1, cache=0), tol=cutting_planes.NEVER)
    assert cutting_planes.added(solution) == found.one_slack == len(cuts)


def test_the_radius_is_the_longest_of_all_differences() -> None:
    for scaling in cutting_planes.SCALINGS:
        problem: StructuredSVM = cutting_planes.instance(2, scaling, seed=3)
        every = enumerate_pairwise(problem.features, problem.loss)
        rows = every.difference.toarray() * (every.loss if scaling == "slack" else np.ones_like(every.loss))[:, None]
        expected = np.linalg.norm(rows, axis=1).max()
        assert cutting_planes.radius(problem) == pytest.approx(expected, rel=ROUNDING)
