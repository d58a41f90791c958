"""The one driver: `solve` owns the loop, so that no solver writes a loop's bookkeeping again.

A solver is a frozen dataclass of options with one generator,

    iterate(problem, start=None) -> Iterator[Iterate]

that yields after each round a point, a dual point and the bounds it believes in. The driver owns limits, progress,
trace, interruption and non-finite values, keeps the best of what was yielded, and at the end asks `certify` for the
bounds: what a solver believes is used to stop, never to report.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from convexstruct.certificates import Certificate, Problem, certify, relative_gap
from convexstruct.progress import Progress, reporter
from convexstruct.solution import Point, Solution, Status, Trace
from convexstruct.tolerances import HIGH, Profile, profile

#: A chunk of memory in bytes, just below the largest that glibc takes as a hint (32 MiB).
CHUNK = 31 * 2**20


@dataclass(frozen=True, eq=False)
class Iterate:
    """What a solver yields each round.

    point : the primal point reached (need not be the best so far; need not be feasible: certify repairs it).
    dual_point : its dual witness, a function that makes it (called only if this iterate is kept), or None.
    primal, lower_bound : the bounds the solver computed for them, inf and -inf where it has none.
    oracle_calls : how often the oracle ran over the whole batch so far.
    parts : seconds spent so far by subroutine, if the solver measures them.
    done : the solver has nothing left to try; the driver stops after this iterate.
    message : one sentence worth keeping, e.g. which branch the solver took.
    """

    point: Point
    dual_point: Point | Callable[[], Point] | None
    primal: float
    lower_bound: float
    oracle_calls: int = 0
    parts: Mapping[str, float] = field(default_factory=dict)
    done: bool = False
    message: str = ""


class Solver(Protocol):
    """A frozen dataclass of options; its class name is the solver's name."""

    def iterate(self, problem: Any, start: Solution | None = None) -> Iterator[Iterate]: ...


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

    Parameters
    ----------
    problem : any problem of the package.
    solver : a solver's options; by default the best known for the problem (`Solution.solver` says which, and why).
    tol : a profile (LOW 1e-3, MID 1e-4, HIGH 1e-6), its name, or a relative gap.
    start : an earlier solution to go on from.
    max_iterations, time_limit : limits in rounds and in seconds; none by default.
    callback : called with (iterate, trace) each round; a true answer stops the run.
    progress : True for a bar on standard error, or an object with ``update``; default none.
    executor : any ``concurrent.futures.Executor``; solvers that map over shards of examples use it.

    Returns
    -------
    Solution with the certificate of the best points met. Ctrl-C returns it too, with status INTERRUPTED.

    Raises
    ------
    ValueError
        If an argument makes no sense, or no solver is known for the problem.
    """
    wanted = profile(tol)
    if max_iterations is not None and max_iterations < 1:
        raise ValueError(f"max_iterations is {max_iterations}, wanted at least 1")
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time_limit is {time_limit}, wanted a positive number of seconds")
    why = ""
    if solver is None:
        from convexstruct.solvers import choose

        solver, why = choose(problem, wanted)
    if executor is not None:
        from convexstruct.parallel import sharded

        problem = sharded(problem, executor)
    name = type(solver).__name__ + (f" ({why})" if why else "")
    keeper = _Keeper()
    trace = Trace()
    status = Status.STALLED
    show = reporter(progress, name, wanted)
    _keep_freed_memory()
    begin = time.perf_counter()
    message = ""
    try:
        iterates = solver.iterate(problem, start)
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
            if relative_gap(keeper.primal, keeper.lower_bound) <= wanted.gap:
                status = Status.OPTIMAL
                break
            if iterate.done:
                status = Status.STALLED if math.isfinite(keeper.lower_bound) else Status.UNCERTIFIED
                break
            if max_iterations is not None and iteration >= max_iterations:
                status = Status.ITERATION_LIMIT
                break
            if time_limit is not None and seconds >= time_limit:
                status = Status.TIME_LIMIT
                break
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    finally:
        show.close()
    if keeper.point is None:
        if status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        raise ValueError(f"{name} stopped before its first iterate{': ' + message if message else ''}")
    dual_point = keeper.dual_point() if callable(keeper.dual_point) else keeper.dual_point
    certificate = certify(problem, keeper.point, dual_point)
    if status is Status.OPTIMAL and not _confirms(certificate, wanted):
        status = Status.INACCURATE
        message = f"claimed {keeper.lower_bound:.10g} <= optimum <= {keeper.primal:.10g}; " + message
    return Solution(keeper.point, dual_point, certificate, status, trace, name, message)


def _confirms(certificate: Certificate, wanted: Profile) -> bool:
    """Whether the certificate bears a claim out; a bracket upside down by more than rounding confirms nothing."""
    return -wanted.gap * 1e-3 - 1e-9 <= certificate.gap <= wanted.gap * (1 + 1e-3) + 1e-12


class _Keeper:
    """The best primal point and the best dual point met so far; they need not come from one iterate."""

    def __init__(self) -> None:
        self.point: Point | None = None
        self.dual_point: Point | Callable[[], Point] | None = None
        self.primal = math.inf
        self.lower_bound = -math.inf

    def keep(self, iterate: Iterate) -> bool:
        """Take what is better; False if the iterate is not a number."""
        finite = not any(np.isnan(value).any() for value in iterate.point.values())
        if not finite or math.isnan(iterate.primal) or math.isnan(iterate.lower_bound):
            return False
        if self.point is None or iterate.primal < self.primal:
            self.point, self.primal = iterate.point, iterate.primal
        if iterate.dual_point is not None and (self.dual_point is None or iterate.lower_bound > self.lower_bound):
            self.dual_point, self.lower_bound = iterate.dual_point, iterate.lower_bound
        return True


def _keep_freed_memory() -> None:
    """Let glibc keep up to 64 MiB of freed memory in the process, for the arrays of the next round.

    By default every array of a few megabytes is returned to the kernel when freed and faulted in anew, page by page,
    when one like it is made: up to half the time of a round. Freeing one large chunk raises that threshold (mallopt(3),
    "dynamic mmap threshold"). Elsewhere it does nothing; the chunk is never touched, so it costs no memory.
    """
    np.empty(CHUNK, dtype=np.uint8)
