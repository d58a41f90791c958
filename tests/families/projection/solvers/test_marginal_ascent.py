"""Accelerated ascent as a solver: certified to every profile, warm starts, blocks, and the end at rounding."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.solvers import marginal_ascent
from convexstruct.families.projection.solvers.marginal_ascent import MarginalAscent
from convexstruct.families.projection.tables import MarginalProjection
from convexstruct.oracles.polytope import clique_tables
from convexstruct.tolerances import HIGH, LOW, MID, ROUNDING, Profile


def chains(seed: int, lengths: tuple[int, ...] = (4, 1, 6), s: int = 3, scale: float = 1.0) -> MarginalProjection:
    rng = np.random.default_rng(seed)
    p, n = sum(lengths), len(lengths)
    return MarginalProjection.chains(
        lengths, rng.normal(size=(p - n, s, s)), rng.normal(size=(p, s)), scale=scale * rng.uniform(0.5, 2.0, size=n)
    )


@pytest.mark.parametrize("wanted", [LOW, MID, HIGH])
def test_every_profile_is_reached_and_certified(wanted: Profile) -> None:
    solution = cs.solve(chains(0), tol=wanted)
    assert solution.status is cs.Status.OPTIMAL
    assert solution.gap >= -ROUNDING
    assert solution.gap <= wanted.gap


def test_bounds_enclose_from_the_first_round_on() -> None:
    problem = chains(1)
    iterates = MarginalAscent().iterate(problem)
    seen = [next(iterates) for _ in range(4)]
    optimum = cs.solve(problem, tol=1e-9)
    for iterate in seen:
        assert iterate.lower_bound <= optimum.primal + HIGH.gap
        assert iterate.primal >= optimum.lower_bound - HIGH.gap


def test_many_blocks_are_certified_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clique_tables, "BLOCK", 1 << 10)
    problem = chains(2, lengths=(12,) * 30, s=5)
    assert len(problem.structure.blocks) > 5
    assert cs.solve(problem, tol=MID).status is cs.Status.OPTIMAL


def test_a_solution_starts_the_next_solve() -> None:
    problem = chains(3, lengths=(9, 9, 9))
    first = cs.solve(problem, tol=HIGH)
    again = cs.solve(problem, tol=HIGH, start=first)
    assert again.trace.oracle_calls[-1] < first.trace.oracle_calls[-1] / 3


def test_a_graph_without_agreements_is_solved_at_once() -> None:
    problem = MarginalProjection.graph([("a",), ("b",)], [[3.0, 1.0], [0.0, 0.5]])
    solution = cs.solve(problem)
    np.testing.assert_allclose(solution.point["a"], [1.0, 0.0, 0.25, 0.75])


def test_it_stops_where_rounding_lets_nothing_be_gained() -> None:
    solution = cs.solve(chains(4, scale=1e-12), MarginalAscent(), tol=1e-16)
    assert solution.status in (cs.Status.STALLED, cs.Status.OPTIMAL, cs.Status.ROUNDING)
    assert solution.gap <= HIGH.gap


@pytest.mark.parametrize("options", [{"steps": 0}, {"last": -1.0}])
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="wanted"):
        MarginalAscent(**options)  # type: ignore[arg-type]  # wrong on purpose


def test_another_problem_is_refused() -> None:
    with pytest.raises(ValueError, match="wanted a MarginalProjection"):
        cs.solve(BoxProjection(np.array([1.0, 2.0])), MarginalAscent())


def test_a_run_ends_where_the_tables_agree_no_better(monkeypatch: pytest.MonkeyPatch) -> None:
    solver, problem = MarginalAscent(last=1e-18), chains(0)
    done = [iterate.done for iterate in islice(solver.iterate(problem), 150)]
    assert any(done)
    monkeypatch.setattr(marginal_ascent, "PATIENCE", 10**9)
    assert not any(iterate.done for iterate in islice(solver.iterate(problem), 150))
