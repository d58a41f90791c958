"""Workload `projection`: boxes with one equality beside one `numpy.partition`, and certified solves beside the
projection alone; growth.

    python benchmarks/projection.py [--quick] [--only NAME ...] [--seconds LIMIT] [--json FILE]

Every run is a fresh process with one thread, so that its peak memory is its own. The projection onto a box is timed in
processor seconds, the best of several calls, and so are, in the same process, one partition of n numbers at their
median, whose ratio is the goal, and one `numpy.sort` of them. How fast NumPy sorts depends on its version and on the
processor, whose features are printed: by vector instructions (AVX-512, AVX2) a sort takes about as long as a
projection. The solver "sorting" is slower than that, because it needs the order of pairs. Every answer is certified;
Clarabel's time is that of its solve without compilation.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import (
    CERTIFIED,
    GAPS,
    INTERIOR,
    LEFT_OUT,
    Launcher,
    Run,
    Session,
    by_clarabel,
    cell,
    child,
    judged,
    launch,
    memory,
    opened,
    options,
)
from benchmarks.tables import new_table, slope

# NumPy and the package are imported where they are needed: see `benchmarks.measure`.
if TYPE_CHECKING:
    from rich.console import Console

    from convexstruct.families.projection import BoxProjection, MarginalProjection

BRACKET, MEDIANS, SORTING, CLARABEL = "bracket", "medians", "sorting", "Clarabel"
SOLVE = "solve"
LIMITS = {CLARABEL: 120.0}
LIMIT = 30.0
#: When each stops.
RULES = dict.fromkeys((BRACKET, MEDIANS, SORTING), "exact: stops where <s, a> is z up to rounding; certified then") | {
    SOLVE: CERTIFIED,
    CLARABEL: INTERIOR,
}
#: Seconds for all runs; a run that has not started by then is reported as left out.
BUDGET = 600.0
QUICK_LIMIT, QUICK_BUDGET = 5.0, 55.0
#: The goal: a projection of MILLION entries takes at most the time of PARTITIONS partitions of as many numbers, of
#: WEIGHTED with weights. Growth up to the power LINEAR of n counts as linear.
MILLION, PARTITIONS, WEIGHTED, LINEAR = 1_000_000, 10.0, 7.0, 1.15
#: The goal of `cs.solve`, which certifies: at most TIMES the time of the projection alone, SMALL_TIMES below MILLION
#: entries, and beside the data at most ARRAYS numbers an entry, one of them the answer; with weights one more, s / d^2.
TIMES, SMALL_TIMES, ARRAYS = 1.5, 1.2, 1.25
#: What bounds them where they are missed, as it was measured.
BOUND_WEIGHTED = "three passes over five arrays, and s / d^2: 200 MB, for which a plain copy takes 6 partitions"
BOUND_SMALL = (
    "some 1,400 calls of the interpreter, half of them of the certificate: 0.4 ms and more beside the projection"
)
#: Calls, of which the fastest counts, are made until so many seconds are spent, and at most so many.
SPENT, CALLS = 1.0, 25


@dataclass(frozen=True)
class Workload:
    """A projection.

    kind : "simplex" (z = 1), "capped" (0 <= a <= 1, sum n/5), "bias" (0 <= a <= 1, <y, a> = 0), "weighted" (arrays for
        both bounds, signs and d), each with n entries; or "chains" (`chains`): n chains of ``length``, nodes and edges,
        summing to 1/n, tables of size ``spread``.
    """

    kind: str = "bias"
    n: int = 1_000_000
    length: int = 8
    labels: int = 26
    spread: float = 0.05
    tol: float = 1e-6

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.n}" + (f"x{self.length}-{self.labels}-labels" if self.kind == "chains" else "")

    def box(self) -> BoxProjection:
        import numpy as np

        from convexstruct.families.projection import BoxProjection

        rng = np.random.default_rng([91, self.n])
        m = rng.normal(size=self.n)
        if self.kind == "simplex":
            return BoxProjection.simplex(m)
        if self.kind == "capped":
            return BoxProjection.capped_simplex(m, z=self.n / 5)
        y = np.where(rng.random(self.n) < 0.2, 1.0, -1.0)
        if self.kind == "bias":
            return BoxProjection(m, 0.0, 1.0, y, 0.0)
        return BoxProjection(m, -rng.random(self.n), rng.random(self.n), y, 0.0, rng.uniform(0.5, 2.0, size=self.n))

    def chains(self) -> MarginalProjection:
        """What `defaults` and the ablations solve."""
        import numpy as np

        from convexstruct.families.projection import MarginalProjection

        rng = np.random.default_rng([92, self.n, self.labels])
        lengths = rng.integers(self.length // 2, self.length + self.length // 2 + 1, size=self.n)
        p, s = int(lengths.sum()), self.labels
        edge, node = (self.spread * rng.normal(size=shape) for shape in ((p - self.n, s, s), (p, s)))
        return MarginalProjection.chains(lengths, edge, node, scale=1.0 / self.n)


BOXES = tuple(Workload(kind) for kind in ("simplex", "capped", "bias", "weighted"))
GROWTH = tuple(Workload("bias", 10**k) for k in (5, 6, 7))
LARGE_BOXES = tuple(replace(workload, n=10 * MILLION) for workload in BOXES)
SMALL_BOXES = tuple(replace(workload, n=100_000) for workload in BOXES)
SMALL_SOLVES = tuple(Workload("bias", n) for n in (1000, 100_000))
SMALL_GROWTH = tuple(Workload("bias", 10**k) for k in (3, 4, 5))
SECTIONS = ("boxes", "solve", "growth")
START = functools.partial(launch, __file__)


# -- in the child ------------------------------------------------------------------------------------------------------


def measure(workload: Workload, solver: str, limit: float) -> Iterator[dict[str, Any]]:
    """Project; yield memory and times, before and after. ``value``, ``yardstick`` : seconds of a partition and a sort,
    or, of "solve", ``value`` : seconds of the projection alone."""
    if solver == CLARABEL:
        import convexstruct.models  # noqa: F401  imported before time and memory are measured
    begin = time.perf_counter()
    problem = workload.box()
    yield {"before": memory(), "build_seconds": time.perf_counter() - begin}
    if solver == CLARABEL:
        yield from by_clarabel("projection.box", problem, workload.tol, limit, compiled=True)
        yield {"peak": memory()}
    else:
        yield from (_solve(problem) if solver == SOLVE else _search(problem, solver))


def _search(problem: BoxProjection, solver: Any) -> Iterator[dict[str, Any]]:
    import numpy as np

    from convexstruct.core.certificates import certify
    from convexstruct.oracles.box.projection import project_with_multiplier

    def project() -> tuple[Any, float]:
        return project_with_multiplier(problem.m, problem.lower, problem.upper, problem.s, problem.z, problem.d, solver)

    a, rho = project()
    yield {"peak": memory()}
    seconds = best(project)
    yield {"seconds": seconds, "value": best(lambda: np.partition(problem.m, problem.n // 2))}
    yield {"yardstick": best(lambda: np.sort(problem.m))}
    gap = abs(certify(problem, a, {"rho": np.array(rho)}).gap)
    yield {"gap": gap, "status": "OPTIMAL", "rounds": 1, "reached": [GAPS[-1], seconds]}


def _solve(problem: BoxProjection) -> Iterator[dict[str, Any]]:
    """`cs.solve` of problems that nothing has been computed of before, and the projection alone, in turn. The memory is
    that of the arrays made by one solve: making the data has taken more before."""
    import tracemalloc

    import convexstruct as cs
    from convexstruct.families.projection import BoxProjection
    from convexstruct.oracles.box.projection import project_with_multiplier

    data = problem.m, problem.lower, problem.upper, problem.s, problem.z, problem.d
    tracemalloc.start()
    solution = cs.solve(problem)
    yield {"before": 0.0, "peak": tracemalloc.get_traced_memory()[1] / 2**20}
    tracemalloc.stop()
    alone: list[float] = []
    whole: list[float] = []
    while len(whole) < 3 or (sum(whole) < 3 * SPENT and len(whole) < CALLS):
        fresh = BoxProjection(*data)
        for call, found in ((lambda: project_with_multiplier(*data), alone), (lambda: cs.solve(fresh), whole)):  # noqa: B023  # called at once
            begin = time.process_time()
            call()
            found.append(time.process_time() - begin)
    yield {"seconds": min(whole), "value": min(alone), "gap": solution.gap, "status": solution.status.name, "rounds": 1}
    yield {"reached": [GAPS[-1], min(whole)]}


def best(call: Callable[[], object]) -> float:
    """Processor seconds of the fastest of several calls, which other work of the machine disturbs least."""
    found: list[float] = []
    while len(found) < 3 or (sum(found) < SPENT and len(found) < CALLS):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return min(found)


# -- in the parent -----------------------------------------------------------------------------------------------------


def ratio(run: Run) -> float:
    """The time of one projection over that of one partition of n numbers, or of one solve over one projection."""
    return run.seconds / run.value if not run.trouble else math.nan


def run_boxes(session: Session, workloads: Sequence[Workload], console: Console) -> None:
    """Every search on every kind of box; the bracket against the goal."""
    table = new_table(
        "Milliseconds (best of several calls), and partitions and sorts of as many numbers",
        "workload", "solver", "ms", "partitions", "sorts", "goal", "certified gap", "MiB above before",
    )  # fmt: skip
    for workload in workloads:
        for solver in (BRACKET, MEDIANS, SORTING):
            run = session("boxes", workload, solver)
            words = ""
            if solver == BRACKET:
                most, bound = (WEIGHTED, BOUND_WEIGHTED) if workload.kind == "weighted" else (PARTITIONS, "")
                said = f"{most:g} partitions at {MILLION} entries"
                too_few = run.trouble == LEFT_OUT or workload.n < MILLION
                reached = None if too_few else ratio(run) <= most
                words = session.judge(workload, said, reached, "", bound, ratio=ratio(run), seconds=run.seconds)
            table.add_row(
                workload.name if solver == BRACKET else "", solver, cell(1e3 * run.seconds, ".2f"),
                cell(ratio(run), ".1f"), cell(run.seconds / run.yardstick, ".1f"), run.trouble or words,
                cell(run.gap, ".1e"), cell(run.peak - run.before, ".0f"),
            )  # fmt: skip
        table.add_section()
    console.print(table)


def run_solve(session: Session, workloads: Sequence[Workload], console: Console) -> None:
    """`cs.solve` beside the projection that it certifies."""
    table = new_table(
        "Certified solves beside the projection alone",
        "workload", "ms", "alone", "times", "at most", "", "arrays", "at most", "", "gap",
    )  # fmt: skip
    for workload in workloads:
        run = session("solve", workload, SOLVE)
        arrays = run.peak * 2**20 / (8 * workload.n)
        most, large = ARRAYS + (workload.kind == "weighted"), workload.n >= MILLION
        times, bound = (TIMES, "") if large else (SMALL_TIMES, BOUND_SMALL)
        fast = None if run.trouble else ratio(run) <= times
        said = f"solved in {times:g} times the projection alone"
        session.judge(workload, said, fast, "", bound, ratio=ratio(run), seconds=run.seconds)
        small = arrays <= most if large and not run.trouble else None
        if large:
            session.judge(workload, f"memory of {most:g} numbers an entry", small, peak=run.peak)
        verdicts = [judged("", reached).removeprefix(": ") for reached in (fast, small)]
        table.add_row(
            workload.name, cell(1e3 * run.seconds, ".2f"), cell(1e3 * run.value, ".2f"), cell(ratio(run), ".2f"),
            f"{times:g}", run.trouble or verdicts[0], cell(arrays, ".2f"), f"{most:g}", verdicts[1] if large else "",
            cell(run.gap, ".1e"),
        )  # fmt: skip
    console.print(table)


def run_box_growth(session: Session, workloads: Sequence[Workload], console: Console) -> None:
    """The search "bracket" as n grows, the other searches, and Clarabel up to the n that it can solve."""
    table = new_table(
        "Milliseconds as n grows", "solver", *(str(workload.n) for workload in workloads), "power", "goal"
    )
    for solver in (BRACKET, MEDIANS, SORTING, CLARABEL):
        some = [w for w in workloads if w.n <= {SORTING: 1_000_000, CLARABEL: 100_000}.get(solver, w.n)]
        runs = [session("growth", workload, solver) for workload in some]
        power = slope([run.workload.n for run in runs], [run.seconds for run in runs])
        words = ""
        if solver == BRACKET:
            reached = None if any(run.trouble == LEFT_OUT for run in runs) else power <= LINEAR
            goal, said = f"power of n at most {LINEAR:g}", f"power at most {LINEAR:g}"
            words = session.judge(workloads[-1], goal, reached, said, power=power)
        cells = [cell(1e3 * run.seconds, ".2f") for run in runs] + [""] * (len(workloads) - len(runs))
        table.add_row(solver, *cells, cell(power, ".2f"), words)
    console.print(table)


def main(arguments: Sequence[str] | None = None, launcher: Launcher = START) -> int:
    chosen = options("Speed and memory of projections, as ratios.", SECTIONS, BUDGET, QUICK_BUDGET, arguments)
    wanted = chosen.only or SECTIONS
    about = ("cvxpy", "clarabel")
    with opened(chosen, launcher, LIMITS, QUICK_LIMIT, about, LIMIT, rules=RULES, wall=False) as (session, console):
        if "boxes" in wanted:
            run_boxes(session, SMALL_BOXES if chosen.quick else BOXES, console)
        if "solve" in wanted:
            run_solve(session, SMALL_SOLVES if chosen.quick else (*SMALL_SOLVES, *LARGE_BOXES), console)
        if "growth" in wanted:
            run_box_growth(session, SMALL_GROWTH if chosen.quick else GROWTH, console)
    return 0


if __name__ == "__main__":
    child(Workload, measure)
    sys.exit(main())
