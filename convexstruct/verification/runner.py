"""The runs: every built-in case, reference against fast path; and anyone's own solver against the stored references."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Protocol

from convexstruct.solution import Solution
from convexstruct.solvers import solve
from convexstruct.tolerances import MID, Profile, met, profile
from convexstruct.verification.cases import Case, cases_for, families, select
from convexstruct.verification.isolation import FORKS, Entrant, SolverFunction
from convexstruct.verification.judge import judge
from convexstruct.verification.outcome import Fast, Outcome, Reference, Row, Verdict
from convexstruct.verification.references import compute, refresh, stored

#: Seconds a solver may take for one case unless told otherwise.
LIMIT = 60.0


class Steps(Protocol):
    """What is told how far a run has come."""

    def __call__(self, done: int, total: int, name: str) -> None: ...


def verify(
    solver: SolverFunction | str | None = None,
    on: str | None = None,
    *,
    tol: str | float | Profile = MID,
    quick: bool = False,
    seed: int = 0,
    limit: float = LIMIT,
    refresh_references: bool = False,
    progress: Steps | None = None,
) -> Outcome:
    """Check the built-in fast paths against their references or, if ``solver`` is given, that solver.

    Parameters
    ----------
    solver : a function problem -> array | mapping | Solution, or "FILE.py:NAME". A mapping is a point by names, or has
        the keys "point" and perhaps "dual_point", "primal", "lower_bound". Default: the package's own fast paths.
    on : a family, or the name of one case; default all.
    tol : a profile, its name, or a relative gap: what "verified" means.
    quick : only the small cases. seed : of the generated instances; references are stored for seed 0 only, others are
        computed on the way. limit : seconds a solver may take for one case.
    refresh_references : recompute and store the references first.
    progress : called with (cases done, cases in all, name of the next).

    Returns
    -------
    `Outcome`: ``.ok``, one row a case with verdict and reason, and what was left out. It goes on after every failure.

    Raises
    ------
    ValueError
        If an argument makes no sense, or a solver's file does not load.
    """
    wanted = profile(tol)
    if not limit > 0 or not math.isfinite(limit):
        raise ValueError(f"limit is {limit}, wanted a positive number of seconds")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed is {seed!r}, wanted a whole number of at least 0")
    cases = select(on, quick=quick, open_only=solver is not None)
    if solver is not None and len({case.family for case in cases}) > 1:
        raise ValueError(f"on is missing, wanted the family your solver is for: one of {', '.join(families())}")
    tell: Steps = progress if progress is not None else _silent
    if refresh_references:
        for family in dict.fromkeys(case.family for case in cases):
            total = len(cases_for(family, open_only=True))
            refresh(family, _counting(tell, total))
    skipped = [case for case in select(on, open_only=solver is not None) if case not in cases]
    left_out = [f"{case.name}: left out by --quick ({case.purpose})" for case in skipped]
    rows: list[Row] = []
    if solver is None:
        for done, case in enumerate(cases):
            tell(done, len(cases), case.name)
            rows.append(built_in(case, wanted, seed=seed, limit=limit))
        left_out += _real_data()
        title = "convexstruct verify"
    else:
        with Entrant(solver) as entrant:
            for done, case in enumerate(cases):
                tell(done, len(cases), case.name)
                rows.append(own(entrant, case, wanted, seed=seed, limit=limit))
            title = f"convexstruct verify {entrant.name}"
        large = [case.name for case in select(on) if not case.open]
        if large:
            left_out.append(f"too large to be stored: {', '.join(large)}")
        if not FORKS and not isinstance(solver, str):
            left_out.append("this system cannot fork: a solver that hangs was not to be interrupted")
    tell(len(cases), len(cases), "")
    return Outcome(rows, left_out, title)


def built_in(case: Case, wanted: Profile, *, seed: int = 0, limit: float = LIMIT) -> Row:
    """One case: its formulation in CVXPY against `solve`."""
    reference = Reference(case.formulation, case.formulation_solver, "not solved", math.nan, math.nan)
    try:
        reference = compute(case, seed)
    except Exception as error:
        reason = f"the reference raises {type(error).__name__}: {error}"
        return _row(case, reference, Fast("not run"), "unverified", reason)
    try:
        solution = solve(case.build(seed), case.solver, wanted, time_limit=limit)
    except Exception as error:
        return _row(case, reference, Fast("none"), "failed", f"the fast path raises {type(error).__name__}: {error}")
    fast = Fast(
        solution.solver, solution.primal, solution.lower_bound, solution.gap, solution.iterations, solution.seconds
    )
    verdict, note = compare(case, reference, solution, wanted)
    return _row(case, reference, fast, verdict, note, solution)


def compare(case: Case, reference: Reference, solution: Solution, wanted: Profile) -> tuple[Verdict, str]:
    """The verdict on a fast path: lower bound <= reference <= primal, and a gap within the profile."""
    if not reference.accurate:
        return "unverified", f"the reference is {reference.status}: it verifies nothing"
    value = reference.value
    slack = case.accuracy * max(1.0, abs(value))
    if not reference.lower_bound - slack <= value <= reference.upper_bound + slack:
        return "unverified", f"the reference misses the optimum known by construction, {reference.upper_bound:.9g}"
    if value > solution.primal + slack:
        return "failed", f"the reference {value:.9g} lies above the primal value by {value - solution.primal:.2g}"
    if value < solution.lower_bound - slack:
        return "failed", f"the reference {value:.9g} lies below the lower bound by {solution.lower_bound - value:.2g}"
    if not case.certified:
        return "unverified", "no certificate exists for this problem: nothing is claimed about optimality"
    infeasible = solution.certificate.infeasibility
    if infeasible > wanted.feasibility:
        return "failed", f"the point is infeasible by {infeasible:.2g}, wanted {wanted.feasibility:.0e}"
    if not wanted.met_by(solution.gap):
        return "failed", f"gap {solution.gap:.1e}, wanted {wanted.gap:.0e}: {solution.status.value}"
    return "verified", case.purpose


def own(entrant: Entrant, case: Case, wanted: Profile, *, seed: int = 0, limit: float = LIMIT) -> Row:
    """One case: anyone's solver against the stored reference."""
    problem = case.build(seed)
    reference = stored(case, problem)
    if reference is None:
        if seed == 0 and case.open:
            missing = Reference(case.formulation, case.formulation_solver, "not stored", math.nan, math.nan)
            reason = "no reference is stored for this data: run with --refresh"
            return _row(case, missing, Fast(entrant.name), "unverified", reason)
        from convexstruct.verification.references import bracketed

        reference = bracketed(case, seed)
    answer = entrant.answer(case, seed, limit)
    with warnings.catch_warnings():
        # A foreign point may overflow on the way to its verdict.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            fast, verdict, note, reaches = judge(problem, reference, answer, wanted, entrant.name)
        except Exception as error:
            note = f"returns a point that cannot be evaluated: {type(error).__name__}: {error}"
            return _row(case, reference, Fast(entrant.name, seconds=answer.seconds), "failed", note)
    return _row(case, reference, fast, verdict, note, reaches=reaches)


def check(solver: SolverFunction | str, case: Case, tol: str | float | Profile = MID, limit: float = LIMIT) -> Row:
    """One case of one solver, for pytest: parametrise a test with `cases_for(family, open_only=True)`.

    Returns
    -------
    The `Row`: what was reached, against which reference.

    Raises
    ------
    AssertionError
        If the case is not verified: the message says in one sentence what is wrong.
    """
    with Entrant(solver) as entrant:
        row = own(entrant, case, profile(tol), limit=limit)
    if row.verdict != "verified":
        raise AssertionError(f"{entrant.name} on {case.name}: {row.note}")
    return row


def _row(
    case: Case,
    reference: Reference,
    fast: Fast,
    verdict: Verdict,
    note: str,
    solution: Solution | None = None,
    reaches: str | None = None,
) -> Row:
    if solution is not None:
        reaches = met(solution.gap, solution.certificate.infeasibility)
    trace = solution.trace if solution is not None else None
    return Row(
        case.family, case.system, case.name, case.paper, case.equations, reference, fast, verdict, note, reaches, trace
    )


def _real_data() -> list[str]:
    """Which real data sets are not on this machine, and so played no part."""
    try:
        from convexstruct.datasets import sources
    except ImportError:
        return []
    return sources.left_out()


def _silent(done: int, total: int, name: str) -> None:
    pass


def _counting(tell: Steps, total: int) -> Callable[[Case], None]:
    count = iter(range(total + 1))

    def step(case: Case) -> None:
        tell(next(count), total, f"reference of {case.name}")

    return step
