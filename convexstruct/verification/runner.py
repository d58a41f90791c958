"""Runs of verification: each built-in case, reference against fast path; or a user's solver on stored references."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from convexstruct.core.cases import Case
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Steps
from convexstruct.core.registry import systems
from convexstruct.core.solution import Solution, Status
from convexstruct.processes import end
from convexstruct.tolerances import MID, Profile, met, profile
from convexstruct.validation.arguments import flag, function, number, refuse
from convexstruct.validation.arguments import seed as read_seed
from convexstruct.verification.answers import Folder, Program, is_command
from convexstruct.verification.answers_cones import holds_programs, judged, written
from convexstruct.verification.cases import cases_for, families, select
from convexstruct.verification.isolation import FORKS, Entrant, SolverFunction
from convexstruct.verification.judge import judge
from convexstruct.verification.outcome import NO_CERTIFICATE, Fast, Outcome, Reference, Row, Verdict
from convexstruct.verification.references import compute, refresh, stored, untouched

#: Seconds a solver may take for one case unless told otherwise.
TIME_LIMIT = 60.0
#: and at most: 116 days. Clocks of the system overflow at large numbers.
LONGEST_LIMIT = 1e7
#: Processes take longer to start than they save where there are no more cases.
FEW_CASES = 25
#: What a user's solver may be.
WANTED = 'a function of one problem, FILE.py:NAME, or "COMMAND {case} {answer}"'
#: What gives answers that are not ours.
Foreign = Entrant | Program | Folder


def verify(
    solver: SolverFunction | str | None = None,
    on: str | None = None,
    *,
    answers: str | os.PathLike[str] | None = None,
    tol: str | float | Profile = MID,
    quick: bool = False,
    seed: int = 0,
    limit: float = TIME_LIMIT,
    refresh_references: bool = False,
    progress: Steps | None = None,
    decided: Callable[[Row], None] | None = None,
    executor: Executor | None = None,
) -> Outcome:
    """Check the built-in fast paths against their references or, if ``solver`` is given, that solver, or ``answers``.

    Parameters
    ----------
    solver : a function problem -> array | mapping | Solution, "FILE.py:NAME", or "COMMAND {case} {answer}". A mapping
        is a point by names, or has the keys "point" and perhaps "dual_point", "primal", "lower_bound". A command is
        run on each case as `convexstruct.verification.answers` says. Default: the package's own fast paths.
    on : a family, one of its systems, or the name of one case; default all.
    answers : in place of a solver, a folder with the answers that a program wrote to exported cases or cone programs.
    tol : the accuracy that "verified" means: a profile, its name, or a relative gap.
    quick : only the small cases. seed : of the generated instances; references are stored for seed 0 only, those of
        other seeds are computed in the run; cone programs carry their own. limit : seconds a solver may take for one
        case; answers that stand in a folder take none.
    refresh_references : recompute and store the references first.
    progress : called with (cases done, cases in all, name of the next).
    decided : called with each row as soon as its verdict is known, in the order of the cases.
    executor : of processes that share the built-in fast paths' cases; one that is interrupted is ended. None: this
        process does all. Other solvers run one after the other.

    Returns
    -------
    `Outcome`: ``.ok``, one row a case with verdict and reason, and what was left out. It goes on after every failure;
    Ctrl-C ends it, and what was decided until then is returned (``.interrupted``).

    Raises
    ------
    ValueError
        If an argument makes no sense, or a solver's file does not load.
    """
    wanted = profile(tol)
    limit, seed = number("limit", limit, above=0, most=LONGEST_LIMIT), read_seed("seed", seed)
    quick, refresh_references = flag("quick", quick), flag("refresh_references", refresh_references)
    for name, told, of in (("progress", progress, "(done, total, name)"), ("decided", decided, "a row")):
        if told is not None:
            function(name, told, of)
    foreign = _foreign(solver, answers)
    cases = select(on, quick=quick, open_only=foreign is not None)
    if solver is not None and len({case.family for case in cases}) > 1:
        raise ValueError(f"on is missing, wanted the family your solver is for: one of {', '.join(families())}")
    tell: Steps = progress if progress is not None else lambda done, total, name: None
    if refresh_references:
        for family in dict.fromkeys(case.family for case in cases):
            refresh(family, _counting(tell, len(cases_for(family))))
    skipped = [case for case in select(on, open_only=foreign is not None) if case not in cases]
    left_out = [f"{case.name}: left out by --quick ({case.purpose})" for case in skipped]
    if foreign is None:
        left_out += _real_data(on)
        one = partial(built_in, wanted=wanted, seed=seed, limit=limit)
        if executor is not None and len(cases) > FEW_CASES:
            names = [executor.submit(by_name, case.name, wanted, seed, limit) for case in cases]
            one = partial(_awaited, dict(zip((case.name for case in cases), names)), one)
        outcome = _run(cases, one, tell, decided, left_out)
        if outcome.interrupted and executor is not None:
            end(executor)
        return outcome
    large = [case.name for case in select(on) if not case.open]
    if large:
        left_out.append(f"too large for a solver check: {', '.join(large)}")
    if isinstance(foreign, Folder) and holds_programs(foreign.folder):
        programs = written(foreign.folder, on, quick)
        judge_one = partial(judged, wanted=wanted, name=foreign.name)
        return _run(programs, judge_one, tell, decided, left_out, f"convexstruct verify {foreign.name}")
    if isinstance(foreign, Folder | Program):
        cases, missing = foreign.exported(cases)
        left_out += missing
    if not FORKS and not isinstance(foreign, Folder) and not isinstance(solver, str):
        left_out.append("this system cannot fork: a solver that hangs was not to be interrupted")
    with untouched({case.family for case in cases}) as changed, _started(foreign):
        one = partial(own, foreign, wanted=wanted, seed=seed, limit=limit)
        outcome = _run(cases, one, tell, decided, left_out, f"convexstruct verify {foreign.name}")
    return replace(outcome, left_out=[*outcome.left_out, *changed])


def _run(
    cases: Sequence[Any],
    one: Callable[[Any], Row],
    tell: Steps,
    decided: Callable[[Row], None] | None,
    left_out: list[str],
    title: str = "convexstruct verify",
) -> Outcome:
    """The rows of ``cases`` (or of cone programs), until the end or an interruption. one : verifies a case. The rest is
    as in `verify`."""
    rows: list[Row] = []
    try:
        for case in cases:
            tell(len(rows), len(cases), case.name)
            row = one(case)
            rows.append(row)
            if decided is not None:
                decided(row)
    except KeyboardInterrupt:
        missing = [case.name for case in cases[len(rows) :]]
        if missing:
            left_out = [*left_out, f"{len(missing)} of {len(cases)} cases, interrupted at {missing[0]}"]
        return Outcome(rows, left_out, title, interrupted=True)
    tell(len(cases), len(cases), "")
    return Outcome(rows, left_out, title)


def by_name(name: str, wanted: Profile, seed: int, limit: float) -> Row:
    """`built_in` of the case of this name, in another process: a case holds functions, which are not sent."""
    (case,) = select(name)
    return built_in(case, wanted, seed=seed, limit=limit)


def _awaited(futures: Mapping[str, Future[Row]], one: Callable[[Case], Row], case: Case) -> Row:
    """What a process found for the case; where the process died, what ``one`` finds here."""
    try:
        return futures[case.name].result()
    except BrokenExecutor:
        return one(case)


def built_in(case: Case, wanted: Profile, *, seed: int = 0, limit: float = TIME_LIMIT) -> Row:
    """One case: its formulation in CVXPY against `solve`."""
    try:
        reference = compute(case, seed)
    except Exception as error:
        blank = Reference(case.formulation, case.formulation_solver, "not solved", math.nan, math.nan)
        reason = f"the reference raises {type(error).__name__}: {error}"
        return _row(case, blank, Fast("not run"), "unverified", reason)
    try:
        solution = solve(case.build(seed), case.solver, wanted, time_limit=limit)
    except Exception as error:
        return _row(case, reference, Fast("none"), "failed", f"the fast path raises {type(error).__name__}: {error}")
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    fast = Fast(
        solution.solver, solution.primal, solution.lower_bound, solution.gap, solution.iterations, solution.seconds
    )
    verdict, note = compare(case, reference, solution, wanted)
    return _row(case, reference, fast, verdict, note, solution)


def compare(case: Case, reference: Reference, solution: Solution, wanted: Profile) -> tuple[Verdict, str]:
    """The verdict on a fast path: lower bound <= reference <= primal, and a gap within the profile.

    reference : from `references.compute`; where it is not from the case's own formulation by a solver that says
    "optimal", the reason ends with where it is from and why.
    """
    if not reference.accurate:
        return "unverified", f"no reference: {reference.trouble or 'it has no value'}"
    value = reference.value
    slack = case.accuracy * max(1.0, abs(value))
    if value > solution.primal + slack:
        return "failed", f"the reference {value:.9g} lies above the primal value by {value - solution.primal:.2g}"
    if value < solution.lower_bound - slack:
        return "failed", f"the reference {value:.9g} lies below the lower bound by {solution.lower_bound - value:.2g}"
    if not case.certified:
        return "unverified", NO_CERTIFICATE
    infeasible = solution.certificate.infeasibility
    if infeasible > wanted.feasibility:
        return "failed", f"the point is infeasible by {infeasible:.2g}, wanted {wanted.feasibility:.0e}"
    if not wanted.met_by(solution.gap):
        return "failed", f"gap {solution.gap:.1e}, wanted {wanted.gap:.0e}: {solution.status.value}"
    return "verified", case.purpose + (f"; reference {reference.note}" if reference.note else "")


def own(entrant: Foreign, case: Case, wanted: Profile, *, seed: int = 0, limit: float = TIME_LIMIT) -> Row:
    """One case: a user's solver against the stored reference."""
    problem = case.build(seed)
    reference = stored(case, problem)
    if reference is None:
        if seed == 0 and case.open:
            missing = Reference(case.formulation, case.formulation_solver, "not stored", math.nan, math.nan)
            reason = "no reference is stored for this data: run with --refresh"
            return _row(case, missing, Fast(entrant.name), "unverified", reason)
        reference = compute(case, seed)
    answer = entrant.answer(case, seed, limit)
    with warnings.catch_warnings():
        # The evaluation of a foreign point may overflow.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            fast, verdict, note, reaches = judge(problem, reference, answer, wanted, entrant.name)
        except Exception as error:
            note = f"returns a point that cannot be evaluated: {type(error).__name__}: {error}"
            return _row(case, reference, Fast(entrant.name, seconds=answer.seconds), "failed", note)
    return _row(case, reference, fast, verdict, note, reaches=reaches)


def check(solver: SolverFunction | str, case: Case, tol: str | float | Profile = MID, limit: float = TIME_LIMIT) -> Row:
    """One case of one solver, for pytest: parametrise a test with `cases_for(family, open_only=True)`.

    Returns
    -------
    The `Row`: what was reached, against which reference.

    Raises
    ------
    AssertionError
        If the case is not verified: the message says in one sentence what is wrong.
    ValueError
        If an argument makes no sense, or a solver's file does not load.
    """
    if not isinstance(case, Case):
        refuse("case", case, "a case, such as cases_for(family) has")
    foreign = _foreign(solver)
    if foreign is None:
        refuse("solver", solver, WANTED)
    wanted, limit = profile(tol), number("limit", limit, above=0, most=LONGEST_LIMIT)
    with untouched([case.family]), _started(foreign):
        row = own(foreign, case, wanted, limit=limit)
    if row.verdict != "verified":
        raise AssertionError(f"{foreign.name} on {case.name}: {row.note}")
    return row


def _foreign(solver: Any, answers: Any = None) -> Foreign | None:
    """What gives the answers to be judged; None for our own fast paths. ValueError unless the arguments make sense."""
    if answers is not None:
        if solver is not None:
            raise ValueError("a solver and a folder of answers are given, wanted one of them")
        if not isinstance(answers, (str, os.PathLike)) or answers == "":
            refuse("answers", answers, "a folder with answers")
        return Folder(Path(answers))
    if solver is None:
        return None
    if isinstance(solver, type) or not (isinstance(solver, str) or callable(solver)):
        refuse("solver", solver, WANTED)
    return Program(solver) if is_command(solver) else Entrant(solver)


def _started(foreign: Foreign) -> AbstractContextManager[Any]:
    """An `Entrant` runs inside its own context; a `Program` and a `Folder` need none."""
    return foreign if isinstance(foreign, Entrant) else nullcontext()


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


def _real_data(on: str | None) -> list[str]:
    """One sentence that names the data sets, used by experiments of the families in question, that are not here."""
    from convexstruct.datasets.real.sources import available

    used = {name for system in systems() if on in (None, system.family) for name in system.experiments}
    missing = [each.source.name for each in available() if each.state != "here" and used & set(each.source.experiments)]
    if not missing:
        return []
    return [f"real data of {', '.join(missing)}: `convexstruct data` says where they come from"]


def _counting(tell: Steps, total: int) -> Callable[[Case], None]:
    count = iter(range(total + 1))

    def step(case: Case) -> None:
        tell(next(count), total, f"reference of {case.name}")

    return step
