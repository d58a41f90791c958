"""Mutants: solvers that are wrong on purpose, each by one plausible mistake; here is the part that all families share.

Verification must fail every mutant. Each is our own solver with one change, either in the problem that it solves or in
what it returns. `honest` is the solver unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from convexstruct.core.driver import solve
from convexstruct.core.solution import Solution
from convexstruct.tolerances import HIGH, LOW, Profile
from convexstruct.verification import verify
from convexstruct.verification.fingerprint import fingerprint
from convexstruct.verification.outcome import Outcome
from tests.verification.rows import told

ABOVE, TOO_GOOD = "above the optimum", "too good to be true"


@dataclass(frozen=True)
class Mutant:
    """A wrong solver. slip : its mistake. case : a case that must fail it. named : words of that verdict's note. told :
    words of the note that name the slip where the point alone shows it; "" where the note must not guess at any; with
    ``may`` the note has these words or guesses at none."""

    name: str
    slip: str
    solver: Callable[[Any], Any]
    case: str
    named: str
    told: str = ""
    may: bool = False

    @property
    def explained(self) -> bool:
        """Whether a reader of the verdict learns what the slip is."""
        return bool(self.told) or self.named != ABOVE


def honest(problem: Any, tol: Profile = HIGH) -> Solution:
    """Our own solver, unchanged, asked once for the same data; to HIGH, since a slip is told only where it explains the
    answer to HIGH."""
    data = fingerprint(problem, exact=True), tol
    if data not in _solved:
        _solved[data] = solve(problem, tol=tol)
    return deepcopy(_solved[data])


_solved: dict[tuple[str, Profile], Solution] = {}


def of_changed(**fields: Any) -> Callable[[Any], Any]:
    """The solver of a problem of which some fields are others."""
    return lambda problem: honest(replace(problem, **fields)).point


def loosened_bound(problem: Any) -> Any:
    solution = honest(problem)
    raised = solution.lower_bound + 0.01 * abs(solution.lower_bound)
    return replace(solution, certificate=replace(solution.certificate, lower_bound=raised))


def flattered_value(problem: Any) -> Any:
    solution = honest(problem)
    lowered = solution.primal - 0.01 * abs(solution.primal)
    return replace(solution, certificate=replace(solution.certificate, primal=lowered))


def shares_above_one(problem: Any) -> Any:
    """The shares of a dual witness that is a mixture sum to 1.01."""
    solution = honest(problem)
    assert solution.dual_point is not None
    raised = {k: 1.01 * v if k.endswith("shares") else v for k, v in solution.dual_point.items()}
    return replace(solution, dual_point=raised)


def instead(**changes: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Solves another problem: each named field is replaced by its function of the problem."""
    return lambda problem: honest(replace(problem, **{name: made(problem) for name, made in changes.items()})).point


def stops_early(problem: Any) -> Any:
    """After three rounds."""
    return solve(problem, tol=HIGH, max_iterations=3).point


def borrowed_bound(problem: Any) -> Any:
    """Claims the optimal bound, with a witness that proves less."""
    return replace(honest(problem), dual_point=solve(problem, tol=LOW, max_iterations=1).dual_point)


def not_a_number(problem: Any) -> Any:
    """The last entry of the point's first array is NaN."""
    name, array = next(iter(honest(problem).point.items()))
    array = array.copy()
    array.flat[-1] = np.nan
    return {name: array}


def writes_to(array: Callable[[Any], NDArray[Any]]) -> Callable[[Any], Any]:
    """Changes an array of its input in place, although it is read-only: a solver can set it writeable."""

    def solver(problem: Any) -> Any:
        changed = array(problem)
        changed.setflags(write=True)
        changed[:] = changed * 0.999
        return honest(problem).point

    return solver


#: Mistakes of any solver, by name: what is wrong, the solver, and words of the verdict.
COMMON: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "loosened_bound": ("the lower bound is raised by 1%", loosened_bound, TOO_GOOD),
    "flattered_value": ("the value is lowered by 1%", flattered_value, TOO_GOOD),
    "borrowed_bound": ("the witness proves less", borrowed_bound, "proves only"),
    "shares_above_one": ("the dual shares sum to 1.01", shares_above_one, "proves nothing"),
    "stops_early": ("it stops after three rounds", stops_early, ABOVE),
    "not_a_number": ("one entry is NaN", not_a_number, "NaN"),
}


def common(**cases: str) -> Iterator[Mutant]:
    """The mutants of `COMMON` that are named, each with the case that fails it."""
    for name, case in cases.items():
        slip, solver, named = COMMON[name]
        yield Mutant(name, slip, solver, case, named)


def judged(solver: Callable[[Any], Any], on: str) -> Outcome:
    """The outcome of verifying a solver, with an empty cache of references.

    In this process, as where none can be forked: forks took half of the time, and `tests/verification` has them.
    """
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVEXSTRUCT_CACHE", folder)
        patch.setattr("convexstruct.verification.isolation.FORKS", False)
        return verify(solver, on=on)


def assert_fails(mutant: Mutant) -> None:
    """The mutant fails its case, and the note names its mistake."""
    outcome = judged(mutant.solver, mutant.case)
    assert [row.verdict for row in outcome] == ["failed"], told(outcome)
    note = outcome.rows[0].note
    assert mutant.named in note
    before = "is infeasible" if "is infeasible" in note else "your objective is"
    hint = note.partition(before)[2].partition("; ")[2]
    assert (mutant.told in hint if mutant.told else not hint) or (mutant.may and not hint), note
    assert not outcome.ok, told(outcome)
