"""The driver `solve`, which runs the loop of every solver.

A solver is a frozen dataclass of options with one generator,

    iterate(problem, start=None) -> Iterator[Iterate]

that yields after each round a point, a dual point and the bounds that the solver computed for them. The driver handles
limits, progress, the trace, interruptions and non-finite values, keeps the best points yielded
(`convexstruct.core.best_points`), and calls `certify` on them at the end. A solver's own bounds decide when to stop;
the bounds of the returned solution are those of `certify`, and decide its status (`convexstruct.core.judgement`).

A time limit acts inside a round too: the driver sets a deadline (`convexstruct.deadline`), and a solver's inner loops
check it. If the last certificate is interrupted, the run returns the latest intermediate certificate.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from convexstruct.core.best_points import BestPoints, Certified
from convexstruct.core.certificates import Certificate, Problem, check_problem, least_unit, relative_gap
from convexstruct.core.iterate import Iterate, Solver
from convexstruct.core.judgement import judged, remaining
from convexstruct.core.progress import Progress, reporter
from convexstruct.core.registry import check_family, choose, family_of
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.deadline import DeadlinePassed, within
from convexstruct.files import check_writable
from convexstruct.inference.shards import read_executor, sharded
from convexstruct.memory import keep_freed
from convexstruct.tolerances import HIGH, Profile, profile
from convexstruct.validation.arguments import number, path_of, refuse, sentence, whole

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger(__name__)

#: A run ends when the solver's own gap is below this share of the gap wanted. The certificate sums in another order and
#: so rounds differently; with this margin its gap is usually small enough too.
OWN_GAP_SHARE = 1 - 1e-3


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
    executor: Executor | Client | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = 60.0,
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
    start : an earlier solution to continue from; where its bounds are better than those reached, they are kept.
    max_iterations, time_limit : limits in rounds and in seconds; none by default. The time limit acts inside rounds
        too. The last certificate may take 2 s or a tenth of the limit, whichever is more, beyond it. If it is not done
        by then, the points certified last during the run are returned, or else the best ones with the bounds that are
        done.
    callback : called with (iterate, trace) each round; a true return value stops the run.
    progress : True for a bar on standard error, or an object with ``update``; default none.
    executor : any ``concurrent.futures.Executor``, or a Dask client: examples lie in shards on its workers, and sums
        over examples are theirs.
    checkpoint : a file for the best points so far, written whole every so many seconds, ``every``. `Solution.load`
        certifies them, and ``start=`` goes on from them. Where it cannot be written, as on a full disk, the one before
        is kept, with a warning in the log.

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
    begin = time.perf_counter()
    keep_freed()
    check_problem(problem)
    wanted = profile(tol)
    max_iterations, time_limit = _limits(max_iterations, time_limit)
    _check(problem, solver, start, callback, progress, executor)
    every = number("every", every, above=0)
    if checkpoint is not None:
        check_writable(path_of("checkpoint", checkpoint), "checkpoint")
    why = ""
    if solver is None:
        solver, why = choose(problem, wanted)
    name = type(solver).__name__ + (f" ({why})" if why else "")
    placed = problem if executor is None else sharded(problem, executor)
    try:
        with within(time_limit):
            least = least_unit(placed, wanted.floor)
    except DeadlinePassed:
        least = wanted.floor
    points, trace = BestPoints(placed, problem, wanted), Trace(least=least)
    show = reporter(progress, name, wanted, least)
    run = _Run(name, points, trace, show, callback, max_iterations, time_limit, begin, checkpoint, every)
    try:
        run.follow(solver, start)
        found = run.certified(start)
        while run.falls_short(found):
            run.follow(solver, start)
            found = run.certified(start)
    finally:
        show.close()
    return run.solution(found)


@dataclass
class _Run:
    """A run of the solver called ``name``: what it has yielded, and how it ended.

    The limits are in rounds and in seconds. checkpoint, every : as in `solve`. saved : the second at which the file was
    written. begin : when it began, by `time.perf_counter`. rounds : those to come, each
    with its number. done : whether the last one said so. target : the run ends when the solver's own gap, ``own``, is
    at most this.
    """

    name: str
    points: BestPoints
    trace: Trace
    show: Progress
    callback: Callable[[Iterate, Trace], bool | None] | None
    max_iterations: int | None
    time_limit: float | None
    begin: float
    checkpoint: str | os.PathLike[str] | None
    every: float
    saved: float = 0.0
    status: Status = Status.STALLED
    message: str = ""
    rounds: Iterator[tuple[int, Iterate]] | None = None
    own: float = math.inf
    done: bool = False
    target: float = field(init=False)

    def __post_init__(self) -> None:
        self.target = OWN_GAP_SHARE * self.points.wanted.gap

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begin

    def follow(self, solver: Solver, start: Solution | None) -> None:
        """Take the solver's rounds, from where they were left, until one of them is the last."""
        self.status = Status.STALLED
        try:
            left = None if self.time_limit is None else self.time_limit - self.seconds
            with within(left), np.errstate(all="ignore"):  # an overflow shows in the bounds and the status
                if self.rounds is None:
                    iterates = solver.iterate(self.points.problem, start)
                    if not isinstance(iterates, Iterable):
                        refuse(f"what {self.name}.iterate returns", iterates, "a generator of iterates")
                    self.rounds = enumerate(iterates, start=1)
                for iteration, iterate in self.rounds:
                    ended = self._take(iteration, iterate)
                    if ended is not None:
                        self.status = ended
                        break
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED
        except DeadlinePassed:
            self.status = Status.TIME_LIMIT

    def falls_short(self, found: Certified) -> bool:
        """Whether the run stopped at its own gap, and goes on with a smaller target because the certificate, by what
        its bounds lost to rounding, misses the gap wanted."""
        certificate, wanted = found.certificate, self.points.wanted
        if self.status is not Status.OPTIMAL or wanted.met_by(certificate.gap, certificate.infeasibility):
            return False
        over = self.done or (self.time_limit is not None and self.seconds >= self.time_limit)
        over = over or (self.max_iterations is not None and self.trace.iteration[-1] >= self.max_iterations)
        self.target = min(self.target / 2, OWN_GAP_SHARE * (wanted.gap - (certificate.gap - self.own)))
        return self.target > 0 and certificate.infeasibility <= wanted.feasibility and not over

    def _take(self, iteration: int, iterate: Iterate) -> Status | None:
        """Keep what a round yielded; the run's status if it was the last."""
        seconds, points, trace = self.seconds, self.points, self.trace
        if not points.keep(iterate):
            self.message = f"iteration {iteration} produced a value that is not finite"
            return Status.FAILED
        took = seconds - (trace.seconds[-1] if len(trace) else 0.0)
        trace.append(iteration, seconds, iterate.oracle_calls, points.primal, points.lower_bound)
        trace.parts = dict(iterate.parts)
        self.message = iterate.message or self.message
        self.show.update(iteration, points.primal, points.lower_bound, seconds)
        if self.callback is not None and self.callback(iterate, trace):
            return Status.INTERRUPTED
        self.own, self.done = relative_gap(points.primal, points.lower_bound, trace.least), iterate.done
        if self.own <= self.target:
            return Status.OPTIMAL
        if iterate.done and iterate.stationary:
            return Status.STATIONARY
        if iterate.done:
            return Status.STALLED if math.isfinite(points.lower_bound) else Status.UNCERTIFIED
        if self.max_iterations is not None and iteration >= self.max_iterations:
            return Status.ITERATION_LIMIT
        if self.time_limit is not None and seconds >= self.time_limit - points.room(self.time_limit):
            return Status.TIME_LIMIT
        points.certify_early(seconds, took, self.time_limit)
        self._save()
        return None

    def _save(self) -> None:
        """Write the checkpoint, if it is time to."""
        if self.checkpoint is None or self.seconds < self.saved + self.every:
            return
        unknown = Certificate(math.inf, -math.inf, math.inf, math.inf)
        found = self.points.earlier or Certified(self.points.point or {}, self.points.made(), unknown)
        said = f"checkpoint after {self.trace.iteration[-1]} rounds"
        try:
            Solution(*found, Status.INTERRUPTED, self.trace, self.name, said).save(self.checkpoint)
        except OSError as error:
            logger.warning("the checkpoint was not written: %s", error)
        self.saved = self.seconds

    def certified(self, start: Solution | None) -> Certified:
        """The points that the run returns with their certificate: the best ones, or, where the last certificate is not
        done in time or is interrupted, those certified before."""
        points, whole = self.points, self.points.whole
        if points.point is None:
            if self.status not in (Status.INTERRUPTED, Status.TIME_LIMIT):
                raise ValueError(f"{self.name} stopped before its first iterate{self.message and ': ' + self.message}")
            points.point, points.dual_point = whole.trivial() if start is None else (start.point, start.dual_point)
            what = "the trivial point" if start is None else "the start"
            self.message = f"stopped before its first iterate: this is {what}"
        try:
            found, missed = points.certify_last(self.time_limit, self.seconds)
            if missed:
                self.status = Status.TIME_LIMIT
                self.message = f"no time was left to certify {' or '.join(missed)}: raise time_limit"
                if points.earlier is not None:
                    found = points.earlier
                    self.message = "the last certificate took too long: these points were certified before it"
            if start is not None and points.point is not start.point:
                begun = Certified(start.point, start.dual_point, start.certificate)
                found = points.or_start(found, begun, self.time_limit, self.seconds)
        except KeyboardInterrupt:
            kept, said = points.earlier, "the points certified before it"
            if kept is None:
                kept = Certified(points.point, None, Certificate(math.inf, -math.inf, math.inf, math.inf))
                said = "no certificate was made, nothing is claimed"
            self.status, found = Status.INTERRUPTED, kept
            self.message = f"interrupted again during the last certificate: {said}"
        return found

    def solution(self, found: Certified) -> Solution:
        """The solution, with its status by the certificate where the run ended by itself."""
        points, certificate, status, message = self.points, found.certificate, self.status, self.message
        if not len(self.trace):
            self.trace.append(0, self.seconds, 0, certificate.primal, certificate.lower_bound)
        if status is Status.UNCERTIFIED and math.isfinite(certificate.lower_bound):
            status = Status.STALLED  # the solver left its values to the certificate, which is judged below
            self.trace.fill_last(certificate.primal, certificate.lower_bound)
        if status in (Status.OPTIMAL, Status.STALLED, Status.STATIONARY):
            claimed = (points.lower_bound, points.primal) if status is Status.OPTIMAL else None
            judgement, said = judged(points.problem, *found, points.wanted, claimed, points.last)
            status = status if status is Status.STATIONARY and judgement is Status.STALLED else judgement
            message = "; ".join(part for part in (said, message) if part)
        assumes = f"the upper bound assumes {certificate.assumes}" if certificate.assumes else ""
        message = "; ".join(filter(None, (certificate.beyond, message, assumes)))
        if status is not Status.OPTIMAL and not message:
            message = remaining(certificate, points.wanted)
        return Solution(found.point, found.dual_point, certificate, status, self.trace, self.name, message)


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
    if executor is not None:
        read_executor(executor)
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
