"""The driver `solve`, which runs the loop of every solver.

A solver is a frozen dataclass of options with one generator,

    iterate(problem, start=None) -> Iterator[Iterate]

that yields after each round a point, a dual point and the bounds that the solver computed for them. The driver handles
limits, progress, the trace, interruptions and non-finite values, keeps the best points yielded, and calls `certify` on
them at the end. A solver's own bounds decide when to stop; the bounds of the returned solution are those of `certify`.

A time limit acts inside a round too: the driver sets a deadline (`convexstruct.deadline`), and a solver's inner loops
check it. If the last certificate is interrupted, the run returns the latest intermediate certificate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from convexstruct.arrays import Point
from convexstruct.core.certificates import (
    Certificate,
    ExplainsRounding,
    Problem,
    certify,
    check_problem,
    has_nan,
    least_unit,
    relative_gap,
)
from convexstruct.core.iterate import Iterate, Solver
from convexstruct.core.progress import Progress, reporter
from convexstruct.core.registry import check_family, choose, family_of
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.deadline import DeadlinePassed, left, within, without
from convexstruct.inference.shards import sharded
from convexstruct.tolerances import HIGH, Profile, profile, upside_down
from convexstruct.validation.arguments import number, refuse, sentence, whole

#: A run ends when the solver's own gap is below this share of the gap wanted. The certificate sums in another order and
#: so rounds differently; with this margin its gap is usually small enough too.
OWN_GAP_SHARE = 1 - 1e-3
#: Intermediate certificates are made so that one can be returned where the last certificate is interrupted: the largest
#: share of the run's time spent on them, and the seconds before the first.
CERTIFYING_SHARE, FIRST_CERTIFICATE = 0.02, 5.0
#: The last certificate ends within so many seconds of the time limit, or within this share of it if that is more. It is
#: given up after the share `FIRST_TRY_SHARE` of these seconds; in the rest the upper bound alone is certified.
GRACE_SECONDS, GRACE_SHARE, FIRST_TRY_SHARE = 2.0, 0.1, 0.6
#: Freed blocks of up to this many bytes are kept by the process; just under the largest value that glibc accepts (32
#: MiB). Without, large structural SVMs, random fields and generative margins take 10 to 25% longer.
KEPT_MEMORY = 31 * 2**20


def solve(
    problem: Problem,
    solver: Solver | None = None,
    tol: str | float | Profile = HIGH,
    *,
    start: Solution | None = None,
    max_iterations: int | None = None,
    time_limit: float | None = None,
    callback: Callable[[Iterate, Trace], bool | None] | None = None,
    progress: Progress | bool | None = None,
    executor: Executor | None = None,
) -> Solution:
    """Minimise ``problem`` until the certified relative gap is within ``tol``.

    The status OPTIMAL means that the certificate meets ``tol``: its gap, (primal - lower bound) / max(|primal|, |lower
    bound|, floor * the objective at the trivial point), is at most the gap wanted and not below 0 by more than
    rounding, and the returned point is feasible to the profile's tolerance. ROUNDING means that the allowances for the
    rounding of the bounds alone exceed the gap wanted.

    Parameters
    ----------
    problem : any problem of the package.
    solver : a solver with its options; by default the best known for the problem (`Solution.solver` says which, and
        why).
    tol : a profile (LOW 1e-3, MID 1e-4, HIGH 1e-6), its name, or a relative gap.
    start : an earlier solution to continue from.
    max_iterations, time_limit : limits in rounds and in seconds; none by default. The time limit acts inside rounds
        too. The last certificate may take 2 s or a tenth of the limit, whichever is more, beyond it. If it is not done
        by then, the points certified last during the run are returned, or else the best point without a lower bound.
    callback : called with (iterate, trace) each round; a true return value stops the run.
    progress : True for a bar on standard error, or an object with ``update``; default none.
    executor : any ``concurrent.futures.Executor``; solvers that map over shards of examples use it.

    Returns
    -------
    Solution with the best points found and their certificate. Ctrl-C returns it too, with status INTERRUPTED. A run
    stopped before its first iterate returns ``start``, or else the problem's trivial point. A second Ctrl-C, during the
    last certificate, returns the points certified earlier, or, where there are none, the best point with infinite
    bounds.

    Raises
    ------
    ValueError
        If an argument makes no sense, or no solver is known for the problem.
    """
    check_problem(problem)
    wanted = profile(tol)
    max_iterations, time_limit = _limits(max_iterations, time_limit)
    _check(problem, solver, start, callback, progress, executor)
    why = ""
    if solver is None:
        solver, why = choose(problem, wanted)
    whole = problem
    if executor is not None:
        problem = sharded(problem, executor)
    name = type(solver).__name__ + (f" ({why})" if why else "")
    keeper, earlier = _Keeper(), _Earlier(problem, wanted)
    trace = Trace()
    status = Status.STALLED
    least = least_unit(problem, wanted.floor)
    trace.least = least
    show = reporter(progress, name, wanted, least)
    _keep_freed_memory()
    begin = time.perf_counter()
    message = ""
    try:
        with within(time_limit), np.errstate(all="ignore"):  # an overflow shows in the bounds and in the status
            iterates = solver.iterate(problem, start)
            if not isinstance(iterates, Iterable):
                refuse(f"what {name}.iterate returns", iterates, "a generator of iterates")
            for iteration, iterate in enumerate(iterates, start=1):
                seconds = time.perf_counter() - begin
                if not keeper.keep(iterate):
                    status, message = Status.FAILED, f"iteration {iteration} produced a value that is not finite"
                    break
                trace.append(iteration, seconds, iterate.oracle_calls, keeper.primal, keeper.lower_bound)
                trace.parts = dict(iterate.parts)
                message = iterate.message or message
                show.update(iteration, keeper.primal, keeper.lower_bound, seconds)
                if callback is not None and callback(iterate, trace):
                    status = Status.INTERRUPTED
                    break
                if relative_gap(keeper.primal, keeper.lower_bound, least) <= OWN_GAP_SHARE * wanted.gap:
                    status = Status.OPTIMAL
                    break
                if iterate.done:
                    status = Status.STALLED if math.isfinite(keeper.lower_bound) else Status.UNCERTIFIED
                    break
                if max_iterations is not None and iteration >= max_iterations:
                    status = Status.ITERATION_LIMIT
                    break
                if time_limit is not None and seconds >= time_limit - earlier.room(time_limit):
                    status = Status.TIME_LIMIT
                    break
                earlier.look(keeper, seconds)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    except DeadlinePassed:
        status = Status.TIME_LIMIT
    finally:
        show.close()
    if keeper.point is None:
        if status not in (Status.INTERRUPTED, Status.TIME_LIMIT):
            raise ValueError(f"{name} stopped before its first iterate{': ' + message if message else ''}")
        keeper.point, keeper.dual_point = problem.trivial() if start is None else (start.point, start.dual_point)
        message = f"stopped before its first iterate: this is {'the trivial point' if start is None else 'the start'}"
    try:
        room = None if time_limit is None else max(time_limit - (time.perf_counter() - begin), 0.0)
        found = _last(problem, whole, keeper, wanted, room, FIRST_TRY_SHARE * _grace(time_limit))
        if found is None:
            status = Status.TIME_LIMIT
            found, message = earlier.found, "the last certificate took too long: these points were certified before it"
        if found is None:
            found = _Found(keeper.point, None, certify(whole, keeper.point, None, wanted.floor))
            message = "no time was left to certify a lower bound: raise time_limit"
    except KeyboardInterrupt:
        found = earlier.found or _Found(keeper.point, None, Certificate(math.inf, -math.inf, math.inf, math.inf))
        status = Status.INTERRUPTED
        message = "interrupted again during the last certificate: "
        message += "the points certified before it" if earlier.found else "no certificate was made, nothing is claimed"
    point, dual_point, certificate = found
    if not len(trace):
        trace.append(0, time.perf_counter() - begin, 0, certificate.primal, certificate.lower_bound)
    if status is Status.UNCERTIFIED and math.isfinite(certificate.lower_bound):
        status = Status.STALLED  # the solver left its values to the certificate, which is judged below
        trace.fill_last(certificate.primal, certificate.lower_bound)
    if status in (Status.OPTIMAL, Status.STALLED):
        claimed = (keeper.lower_bound, keeper.primal) if status is Status.OPTIMAL else None
        status, said = judged(problem, point, dual_point, certificate, wanted, claimed, keeper.last)
        message = "; ".join(part for part in (said, message) if part)
    if certificate.assumes:
        message = "; ".join(part for part in (message, f"the upper bound assumes {certificate.assumes}") if part)
    return Solution(point, dual_point, certificate, status, trace, name, message)


class _Found(NamedTuple):
    """Points and their certificate."""

    point: Point
    dual_point: Point | None
    certificate: Certificate


def _certified(problem: Problem, keeper: _Keeper, wanted: Profile) -> _Found:
    assert keeper.point is not None
    with np.errstate(all="ignore"):
        dual_point = keeper.dual_point() if callable(keeper.dual_point) else keeper.dual_point
        return _Found(keeper.point, dual_point, certify(problem, keeper.point, dual_point, wanted.floor))


def _grace(time_limit: float | None) -> float:
    """Seconds by which the last certificate may exceed the limit."""
    return math.inf if time_limit is None else max(GRACE_SECONDS, GRACE_SHARE * time_limit)


def _last(
    problem: Problem, whole: Problem, keeper: _Keeper, wanted: Profile, room: float | None, grace: float
) -> _Found | None:
    """The last certificate: computed by the executor within ``room`` seconds, or, where no time is left or a worker
    does not answer in time, in this process; None if it is not done ``grace`` seconds after ``room``."""
    if problem is not whole and room != 0:
        try:
            with within(room):
                return _certified(problem, keeper, wanted)
        except DeadlinePassed:
            pass
    try:
        with without(), within(None if room is None else room + grace):
            return _certified(whole, keeper, wanted)
    except DeadlinePassed:
        return None


@dataclass
class _Earlier:
    """The latest intermediate certificate, returned where none can be made at the end. spent, longest : seconds that
    all of them and the longest one took."""

    problem: Problem
    wanted: Profile
    found: _Found | None = None
    spent: float = 0.0
    longest: float = 0.0

    def room(self, time_limit: float) -> float:
        """How many seconds before the limit a run should end, so that a certificate that takes as long as the longest
        one is done in time."""
        return max(self.longest - _grace(time_limit), 0.0)

    def look(self, keeper: _Keeper, seconds: float) -> None:
        """Certify the points kept so far, if the run has lasted long enough and enough time is left before the
        limit."""
        room = left()
        if (
            seconds < FIRST_CERTIFICATE
            or self.spent > CERTIFYING_SHARE * seconds
            or room < (2 * self.longest if self.spent else seconds)
        ):
            return
        begin = time.perf_counter()
        self.found = _certified(self.problem, keeper, self.wanted)
        taken = time.perf_counter() - begin
        self.spent, self.longest = self.spent + taken, max(self.longest, taken)


def judged(
    problem: Problem,
    point: Point,
    dual_point: Point | None,
    certificate: Certificate,
    wanted: Profile,
    claimed: tuple[float, float] | None,
    last: Point | Callable[[], Point] | None = None,
) -> tuple[Status, str]:
    """The status of a run that ended by itself, from its certificate, and a message with the reason.

    claimed : the solver's own (lower bound, primal), if their gap was within the tolerance. last : the dual point of
    the last iterate, whose rounding is examined too: ``dual_point`` may be that of the start, whose bound is poor but
    has almost no rounding.
    """
    if wanted.met_by(certificate.gap, certificate.infeasibility):
        return Status.OPTIMAL, ""
    if certificate.infeasibility > wanted.feasibility:
        worst = max(certificate.residuals, key=lambda name: certificate.residuals[name])
        far = certificate.residuals[worst]
        return Status.INACCURATE, f"the point is infeasible: {worst} by {far:.2g}, allowed {wanted.feasibility:.0e}"
    if upside_down(certificate.gap):
        found = f"lower bound {certificate.lower_bound:.10g} above the primal value {certificate.primal:.10g}"
        return Status.INACCURATE, f"the certificate is upside down, so it proves nothing: {found}"
    said = _lost(certificate, wanted)
    if not said and claimed is None and last is not None and isinstance(problem, ExplainsRounding):
        said = _lost(certify(problem, point, last() if callable(last) else last, wanted.floor), wanted)
    if said:
        reason = problem.rounding_reason(point, dual_point) if isinstance(problem, ExplainsRounding) else ""
        return Status.ROUNDING, f"{said}; {reason}" if reason else said
    if claimed is None:
        return Status.STALLED, ""
    return Status.INACCURATE, f"claimed {claimed[0]:.10g} <= optimum <= {claimed[1]:.10g}"


def _lost(certificate: Certificate, wanted: Profile) -> str:
    """A message if the rounding of the bounds exceeds the gap wanted or the sums of the lower bound overflow; else
    ""."""
    if certificate.rounding > wanted.gap:
        return f"rounding may amount to {certificate.rounding:.1e} (relative), the gap wanted is {wanted.gap:.0e}"
    off = certificate.dual_residuals.values()
    if off and math.isfinite(max(off)) and certificate.lower_bound == -math.inf:
        return "the sums of the lower bound overflow"
    return ""


def _limits(max_iterations: Any, time_limit: Any) -> tuple[int | None, float | None]:
    """Both limits as numbers, or None."""
    return (
        None if max_iterations is None else whole("max_iterations", max_iterations, least=1),
        None if time_limit is None else number("time_limit", time_limit, above=0),
    )


def _check(problem: Problem, solver: Any, start: Any, callback: Any, progress: Any, executor: Any) -> None:
    """ValueError unless each argument of `solve` has the right kind and fits the problem."""
    if callback is not None and not callable(callback):
        refuse("callback", callback, "a function of an iterate and the trace")
    shows = not isinstance(progress, type) and all(callable(getattr(progress, n, None)) for n in ("update", "close"))
    if not (progress is None or isinstance(progress, bool) or shows):
        refuse("progress", progress, "True, False, or an object with update and close")
    if executor is not None and not isinstance(executor, Executor):
        refuse("executor", executor, "a concurrent.futures.Executor")
    if solver is not None:
        if isinstance(solver, type) or not callable(getattr(solver, "iterate", None)):
            known = family_of(problem) is not None
            such = f", such as cs.solvers.{type(choose(problem, HIGH)[0]).__name__}()" if known else ""
            refuse("solver", solver, f"a solver's options{such}; CVXPY's solvers solve formulations (cs.models)")
        check_family(type(solver).__name__, type(solver).iterate, problem)
    if start is not None:
        _check_start(problem, start)


def _check_start(problem: Problem, start: Any) -> None:
    """ValueError unless ``start`` is a solution whose points ``problem`` can read."""
    if not isinstance(start, Solution):
        refuse("start", start, "an earlier Solution of this problem or one like it")
    try:
        problem.as_point(start.point)
        if start.dual_point is not None:
            problem.dual_residuals(start.dual_point)
    except ValueError as error:
        raise sentence(f"start does not fit the problem: {error}") from error


class _Keeper:
    """The best primal point and the best dual point so far, which need not come from one iterate, and the dual point of
    the last iterate."""

    def __init__(self) -> None:
        self.point: Point | None = None
        self.dual_point: Point | Callable[[], Point] | None = None
        self.last: Point | Callable[[], Point] | None = None
        self.primal = math.inf
        self.lower_bound = -math.inf

    def keep(self, iterate: Iterate) -> bool:
        """Keep the points that are better, of points without bounds the last; False if the iterate's point or bounds
        contain NaN. ValueError if it is no `Iterate`, or an array of its point does not hold real numbers."""
        if not isinstance(iterate, Iterate):
            refuse("what the solver yields", iterate, "an Iterate")
        for key, value in iterate.point.items():
            if np.asarray(value).dtype.kind not in "biuf":
                refuse(f"point[{key!r:.40}] of an iterate", value, "an array of real numbers")
        if has_nan(iterate.point) or math.isnan(iterate.primal) or math.isnan(iterate.lower_bound):
            return False
        self.last = iterate.dual_point
        if self.point is None or iterate.primal < self.primal or iterate.primal == self.primal == math.inf:
            self.point, self.primal = iterate.point, iterate.primal
        higher = iterate.lower_bound > self.lower_bound or iterate.lower_bound == self.lower_bound == -math.inf
        if iterate.dual_point is not None and (self.dual_point is None or higher):
            self.dual_point, self.lower_bound = iterate.dual_point, iterate.lower_bound
        return True


def _keep_freed_memory() -> None:
    """Let glibc keep up to 64 MiB of freed memory in the process, for the arrays of the next round.

    By default the memory of an array of a few megabytes is returned to the kernel when the array is freed, and mapped
    again page by page when the next such array is made; this takes up to half the time of a round. Freeing one large
    chunk raises the size from which this happens (mallopt(3), "dynamic mmap threshold"). With other allocators this
    function has no effect. The chunk is never written to, so it takes no memory.
    """
    np.empty(KEPT_MEMORY, dtype=np.uint8)
