"""What a solver has yielded is the driver's: no solver writes into it afterwards, and none into its start."""

from __future__ import annotations

import itertools
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from numpy.typing import NDArray

from convexstruct.arrays import Point
from convexstruct.core import registry
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from tests.core.problems import small_problems

#: So many rounds of each run are recorded, and so many problems are tried that a solver takes.
ROUNDS, TRIED = 8, 2
#: All solvers, by name.
SOLVERS: dict[str, Any] = registry.solvers()
#: Solvers whose test takes more than 3 s.
SLOW = {"ContrastiveDivergence", "ExcessiveGap"}


def copied(point: Point) -> dict[str, NDArray[Any]]:
    return {name: np.array(value) for name, value in point.items()}


def unchanged(before: Point, after: Point) -> bool:
    return set(before) == set(after) and all(
        np.asarray(after[name]).tobytes() == np.asarray(value).tobytes() for name, value in before.items()
    )


def check(iterates: Any, start: Solution | None) -> int:
    """Record every iterate as it comes, and look at all of them at the end; how many came."""
    begin = None if start is None else (copied(start.point), copied(start.dual_point or {}))
    kept: list[tuple[Iterate, dict[str, NDArray[Any]], dict[str, NDArray[Any]]]] = []
    for iterate in itertools.islice(iterates, ROUNDS):
        witness = iterate.dual_point() if callable(iterate.dual_point) else iterate.dual_point
        kept.append((iterate, copied(iterate.point), copied(witness or {})))
        if iterate.done:
            break
    for at, (iterate, point, dual_point) in enumerate(kept, start=1):
        witness = iterate.dual_point() if callable(iterate.dual_point) else iterate.dual_point
        assert unchanged(point, iterate.point), f"the point of round {at} of {len(kept)} was written into"
        assert unchanged(dual_point, witness or {}), f"the dual point of round {at} of {len(kept)} was written into"
    if start is not None and begin is not None:
        assert unchanged(begin[0], start.point), "the start's point was written into"
        assert unchanged(begin[1], start.dual_point or {}), "the start's dual point was written into"
    return len(kept)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SOLVERS])
def test_what_a_solver_yielded_is_unchanged_at_the_end(name: str) -> None:
    solver, rounds, taken = SOLVERS[name](), 0, 0
    wanted = get_type_hints(SOLVERS[name].iterate)["problem"]
    for problem in small_problems(get_args(wanted) or (wanted,)):
        try:
            rounds += check(solver.iterate(problem), None)
        except ValueError:  # a kind of problem that this solver is not for
            continue
        start = solve(problem, solver, max_iterations=3)
        rounds += check(solver.iterate(problem, start), start)
        taken += 1
        if taken == TRIED:
            break
    assert rounds >= 2, f"{name} took none of the cases"
