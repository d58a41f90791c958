"""Workload `unsupervised_margin`: the fast default beside ADMM, Clarabel and SCS on the reduced SDP; growth; small
random problems, and the two-class SDP (3), beside Clarabel and SCS.

    python benchmarks/unsupervised_margin.py [--quick] [--only NAME ...] [--seconds LIMIT] [--json FILE]

Sequences of symbols from a hidden Markov model that changes its state with probability `CHANGE` and shows the symbol of
its state with the same probability, as in the synthetic sets of paper 3. Every run is a fresh process with one thread,
so its peak memory is its own. The time of the fast default and of ADMM is the moment at which the proved bounds first
met within a gap. A reference (Clarabel, SCS) is timed for one solve, without compilation, of the objective scaled to
entries near 1; its answer is repaired and certified, and the times are compared at that certified gap. If its limit
ended it, its time is a lower bound.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    cell,
    child,
    launch,
    memory,
    opened,
    options,
    watched,
    within,
)
from benchmarks.tables import growth_rows, new_table, shown

if TYPE_CHECKING:
    from rich.console import Console

    from convexstruct.families.unsupervised_margin import PermutationInvariantMargin, UnsupervisedMargin

FAST, ADMM, CLARABEL, SCS = "fast default", "ADMM", "Clarabel", "SCS"
LIMITS = {FAST: 150.0, ADMM: 60.0, CLARABEL: 240.0, SCS: 60.0}
BUDGET, QUICK_BUDGET, QUICK_LIMIT = 900.0, 50.0, 10.0
#: How many times faster than either reference the fast default is wanted to be; and the seconds of the largest.
GOALS, LARGEST_SECONDS = {CLARABEL: 100.0, SCS: 10.0}, 20.0
#: The same for the two-class SDP of 100 points: building, compiling and solving in CVXPY against our whole solve; and
#: how close the two values are wanted to be, relative.
TWO_CLASS_GOAL, ONE_VALUE = 10.0, 1e-6
#: The relative gap that is wanted, and SCS's tolerance, absolute and relative.
GAP, SCS_ACCURACY = 1e-4, 1e-5
#: Probability that the state changes, and that the symbol shown is that of the state.
CHANGE = 0.95
#: Seconds that a small random problem may take.
SMALL_SECONDS = 10.0
#: beta of the problem, and the one that references are given: 1 / (2 beta) is a factor of the objective, 1 for these.
BETA, SCALED = 0.01, 0.5
#: What bounds them, as it was measured.
STEPS_BOUND = (
    "700 steps of ADMM, whose number no penalty, memory or relaxation that was tried lowers by a tenth; their 1,840 "
    "eigendecompositions of 80 and 70 rows are 1.0 of 3.6 s under a profile, the rest 700,000 calls of Python and "
    "NumPy on arrays of 40 to 60 kB"
)
EVALUATIONS_BOUND = (
    "3,051 evaluations of the augmented Lagrangian are 24 of 50 s under a profile, 15 of these gather and scatter the "
    "entries of 72,010 triples in tables of 1.2 MB; the best diagonals are 9.6 s, eigendecompositions 4"
)
#: When each stops.
RULES = dict.fromkeys((FAST, ADMM), CERTIFIED) | {
    CLARABEL: INTERIOR,
    SCS: f"stops at residuals and gap of {SCS_ACCURACY:g}, in (3) of a tenth of the gap wanted; "
    "its answer is repaired, and certified at the end",
}


@dataclass(frozen=True)
class Workload:
    """Sequences of one length."""

    sequences: int
    length: int
    labels: int = 2
    seed: int = 0
    tol: float = GAP

    @property
    def name(self) -> str:
        rows = f"{self.sequences * self.length}/{self.sequences * (self.length - 1)}"
        return rows + ("" if self.labels == 2 else f", {self.labels} labels")

    def problem(self) -> UnsupervisedMargin:
        import numpy as np

        from convexstruct.families.unsupervised_margin import UnsupervisedMargin

        kappa, rng, seen = self.labels, np.random.default_rng(self.seed), []
        for _ in range(self.sequences):
            state = int(rng.integers(kappa))
            row = []
            for _ in range(self.length):
                row.append(state if rng.random() < CHANGE else (state + int(rng.integers(1, kappa))) % kappa)
                state = (state + int(rng.integers(1, kappa))) % kappa if rng.random() < CHANGE else state
            seen.append(row)
        balances: dict[str, Any] = {"label_balance": 0.1, "pair_balance": 0.25}
        return UnsupervisedMargin.read(seen, kappa, beta=BETA, n_symbols=kappa, **balances)


@dataclass(frozen=True)
class Draws:
    """Small random problems, numbers ``first`` to ``first + count - 1``: 2 to 12 rows, 2 to 4 labels, chains or
    points, kernels of every rank and of sizes over six decades, and balances from next to the smallest to 1."""

    count: int
    first: int = 0
    tol: float = GAP

    @property
    def name(self) -> str:
        return f"{self.count} small random problems"

    def problems(self) -> Iterator[UnsupervisedMargin]:
        return map(drawn, range(self.first, self.first + self.count))


@dataclass(frozen=True)
class Points:
    """The two-class SDP (3) of ``n`` normal points in space around two centres."""

    n: int
    beta: float = 2.0
    seed: int = 0
    tol: float = 1e-6

    @property
    def name(self) -> str:
        return f"two classes, {self.n} points"

    def problem(self) -> PermutationInvariantMargin:
        import numpy as np

        from convexstruct.families.unsupervised_margin import PermutationInvariantMargin, UnsupervisedMargin

        x = np.random.default_rng(self.seed).normal(size=(self.n, 3))
        x[:, 0] += np.where(np.arange(self.n) < self.n // 2, 1.0, -1.0)
        return PermutationInvariantMargin(UnsupervisedMargin.multiclass(np.round(x, 3), 2, self.beta, 0.1))


def drawn(number: int) -> UnsupervisedMargin:
    """One of `Draws`."""
    import numpy as np

    from convexstruct.families.unsupervised_margin import UnsupervisedMargin
    from convexstruct.families.unsupervised_margin.interior import least_pair_balance

    rng = np.random.default_rng([29, number])
    n = int(rng.integers(2, 13))
    kappa = int(rng.integers(2, min(n, 4) + 1))
    lengths: list[int] = []
    while sum(lengths) < n:
        lengths.append(int(rng.integers(1, n - sum(lengths) + 1)))
    pairs = str(rng.choice(["chain", "none"], p=[0.8, 0.2]))
    x = rng.normal(size=(n, int(rng.integers(1, n + 1))))
    if rng.random() < 0.3:  # ties
        x = np.sign(x)
    kernel = 10.0 ** rng.uniform(-3, 3) * (x @ x.T)

    def balance(least: float) -> float:
        shares = (1.0, rng.random(), 10.0 ** rng.uniform(-9, 0), 10.0 ** rng.uniform(-9, 0))
        return float(least + (1.0 - least) * rng.choice(shares))

    def read(pair_balance: float) -> UnsupervisedMargin:
        return UnsupervisedMargin.read(
            None, kappa, beta=beta, label_balance=label_balance, pair_balance=pair_balance, pairs=pairs, kernel=kernel,
            lengths=lengths,
        )  # fmt: skip

    beta, label_balance = 10.0 ** rng.uniform(-3, 1), balance(0.0)
    return read(balance(least_pair_balance(read(1.0).n_pairs, kappa)))


#: The rows of the paper's synthetic sets; fewer, with --quick; what grows.
PAPER, SMALL = Workload(10, 8), Workload(3, 6)
LARGER = (PAPER, Workload(10, 16), Workload(20, 20))
LABELS = (Workload(10, 8, 3),)
SMALL_RANDOM = Draws(300)
TWO_CLASSES = (Points(40), Points(60), Points(100))
SECTIONS = ("references", "growth", "small", "two classes")
START = functools.partial(launch, __file__)


# -- in the child ------------------------------------------------------------------------------------------------------


def measure(workload: Workload | Draws | Points, solver: str, limit: float) -> Iterator[dict[str, Any]]:
    """Solve; yield what is known before, and at the end."""
    if isinstance(workload, Draws):
        yield from _compared(workload, limit)
        return
    if solver not in (FAST, ADMM):
        import convexstruct.models  # noqa: F401  its import is no part of the solve, nor is its memory
    if isinstance(workload, Points):
        yield {"before": memory()}
        yield from _two_classes(workload, solver, limit)
        yield {"peak": memory()}
        return
    problem = workload.problem()
    yield {"before": memory()}
    if solver in (FAST, ADMM):
        from convexstruct.families.unsupervised_margin.solvers.reduced_admm import ReducedADMM

        yield from watched(problem, None if solver == FAST else ReducedADMM(), workload.tol, limit)
    else:
        yield from _reference(problem, solver, limit)
    yield {"peak": memory()}


def _compared(draws: Draws, limit: float) -> Iterator[dict[str, Any]]:
    """The fast default on each problem, and Clarabel: how many are not OPTIMAL within ``limit`` seconds, how many of
    the two brackets have nothing in common, how many Clarabel does not solve; processor seconds of each."""
    from convexstruct.core.driver import solve
    from convexstruct.models import FORMULATIONS
    from convexstruct.tolerances import ROUNDING

    told = {FAST: 0, "apart": 0, CLARABEL: 0, "longest": 0.0, "seconds": 0.0, "Clarabel's seconds": 0.0}
    for problem in draws.problems():
        begin = time.process_time()
        own = solve(problem, tol=draws.tol, time_limit=limit)
        spent = time.process_time() - begin
        begin = time.process_time()
        try:
            other = FORMULATIONS["unsupervised_margin.reduced"].builder(problem).solve("CLARABEL", draws.tol)
            bracket, known = (other.lower_bound, other.primal), other.status.name == "OPTIMAL"
        except BaseException as panic:  # where an eigenvalue fails, Clarabel raises what is no Exception
            if "Panic" not in type(panic).__name__:
                raise
            bracket, known = (-math.inf, math.inf), False
        told["Clarabel's seconds"] += time.process_time() - begin
        told["seconds"], told["longest"] = told["seconds"] + spent, max(told["longest"], spent)
        told[FAST] += own.status.name != "OPTIMAL" or spent > limit
        told[CLARABEL] += not known
        slack = ROUNDING * max(1.0, abs(own.primal))
        told["apart"] += max(own.lower_bound, bracket[0]) > min(own.primal, bracket[1]) + slack
    yield {"levels": {"small": told}, "seconds": told["seconds"], "status": "OPTIMAL", "peak": memory()}


def _two_classes(workload: Points, solver: str, limit: float) -> Iterator[dict[str, Any]]:
    """Processor seconds of the whole, with building the program; value, gap and, of peers, what their limit ended."""
    from convexstruct.core.driver import solve
    from convexstruct.models import FORMULATIONS

    begin, problem = time.process_time(), workload.problem()
    if solver == FAST:
        found: Any = solve(problem, tol=workload.tol, time_limit=limit)
    else:
        formulation = FORMULATIONS["unsupervised_margin.two_class_dual"].builder(problem)
        accuracy = 0.1 * workload.tol
        given: dict[str, Any] = {"time_limit": limit}
        if solver == SCS:
            given = {"time_limit_secs": limit, "eps_abs": accuracy, "eps_rel": accuracy, "max_iters": 10**6}
        found = formulation.solve(solver.upper(), workload.tol, **given)
    seconds = time.process_time() - begin
    late = solver != FAST and seconds >= limit
    status = "TIME_LIMIT" if late else found.status.name
    yield {"seconds": seconds, "status": status, "gap": found.gap, "value": found.primal}
    yield from within(found.gap, seconds)


def _reference(problem: UnsupervisedMargin, solver: str, limit: float) -> Iterator[dict[str, Any]]:
    from dataclasses import replace

    from convexstruct.core.certificates import certify
    from convexstruct.models import FORMULATIONS

    formulation = FORMULATIONS["unsupervised_margin.reduced"].builder(replace(problem, beta=SCALED))
    inner, name = formulation.problem, "SCS" if solver == SCS else "CLARABEL"
    begin = time.perf_counter()
    inner.get_problem_data(name)  # compiled, and cached
    yield {"build_seconds": time.perf_counter() - begin}
    given: dict[str, Any] = {"time_limit": limit}
    if solver == SCS:
        given = {"time_limit_secs": limit, "eps_abs": SCS_ACCURACY, "eps_rel": SCS_ACCURACY, "max_iters": 10**6}
    begin = time.perf_counter()
    try:
        inner.solve(solver=name, **given)
    except Exception as error:  # what a solver raises where its limit ended it differs from one to the next
        yield {"seconds": time.perf_counter() - begin, "status": "TIME_LIMIT", "trouble": f"{error}"[:60]}
        return
    seconds = time.perf_counter() - begin
    late = seconds >= limit
    yield {"seconds": seconds, "status": "TIME_LIMIT" if late else inner.status.upper(), "rounds": 1}
    if any(variable.value is None for variable in inner.variables()):
        yield {"trouble": f"no answer: {inner.status}"}
        return
    found = formulation.recover(formulation)
    gap = certify(problem, problem.repair(found.point), found.dual_point).gap
    yield {"gap": gap}
    yield from within(gap, seconds)


# -- in the parent -----------------------------------------------------------------------------------------------------


def times(fast: Run, other: Run) -> tuple[float, bool]:
    """How many times as long the reference took as ``fast`` did to its gap or less, and whether its limit ended it."""
    wanted = [gap for gap in GAPS if gap <= max(other.gap, GAP)] if math.isfinite(other.gap) else [GAP]
    seconds = fast.to(wanted[0])
    return (other.seconds / seconds if math.isfinite(seconds) else math.nan), other.status == "TIME_LIMIT"


def run_references(session: Session, workload: Workload, console: Console) -> None:
    table = new_table(
        "Seconds to a certified gap; references: of one solve, its gap after repair, and how many times the fast "
        "default's to that gap", "solver", *(f"{gap:.0e}" for gap in GAPS[:3]), "seconds", "gap", "times", "goal",
        "peak MiB",
    )  # fmt: skip
    fast = session("references", workload, FAST)
    reached = None if fast.trouble == LEFT_OUT else fast.to(workload.tol) < math.inf
    goal, short = f"certified {workload.tol:.0e}", f"{workload.tol:.0e}"
    said = session.judge(workload, goal, reached, short, seconds=fast.to(workload.tol))
    for run in (fast, *(session("references", workload, solver) for solver in (ADMM, *GOALS))):
        ratio, late = times(fast, run)
        said = said if run is fast else ""
        if run.solver in GOALS and workload == PAPER:  # the goals are those of its size
            least = GOALS[run.solver]
            met = None if math.isnan(ratio) or (late and ratio < least) else ratio >= least
            goal = f"{least:g} times faster than {run.solver}"
            said = session.judge(workload, goal, met, f"{least:g}", STEPS_BOUND, ratio=ratio)
        own = run.solver not in GOALS
        known = "" if own or math.isnan(ratio) else f"{'> ' if late else ''}{ratio:.1f}"
        cells = [shown(run, gap) if own else "" for gap in GAPS[:3]]
        table.add_row(
            run.solver, *cells, cell(run.seconds, ".2f"), cell(run.gap, ".1e"), known, said, cell(run.peak, ".0f")
        )
    console.print(table)


def run_growth(session: Session, workloads: Sequence[Workload], more: Sequence[Workload], console: Console) -> None:
    table = new_table(
        f"Growth: seconds of the {FAST}", "what grows", "size", *(f"{g:.0e}" for g in GAPS[:3]), "peak MiB"
    )
    runs = [session("growth", workload, FAST) for workload in workloads]
    growth_rows(table, "rows", [each.sequences * each.length for each in workloads], runs, GAPS[:3])
    runs = [session("growth", workload, FAST) for workload in more]
    growth_rows(table, "labels", [each.labels for each in more], runs, GAPS[:3])
    console.print(table)
    for _, run in session.runs[-len(workloads) - len(more) :]:
        early = run.trouble == LEFT_OUT or run.status == "TIME_LIMIT"
        met = True if run.to(GAP) < math.inf else None if early else False
        words = session.judge(run.workload, f"certified {GAP:.0e}", met, seconds=run.to(GAP), peak=run.peak)
        console.print(f"{run.workload.name}: {words}")
        if run.workload == LARGER[-1]:
            goal, soon = f"certified {GAP:.0e} in {LARGEST_SECONDS:g} s", met and run.to(GAP) <= LARGEST_SECONDS
            words = session.judge(run.workload, goal, soon, "", EVALUATIONS_BOUND, seconds=run.to(GAP))
            console.print(f"{run.workload.name}: {words}")


def run_small(session: Session, draws: Draws, console: Console) -> None:
    """All OPTIMAL within `SMALL_SECONDS` each, in brackets with Clarabel, and not slower on the whole."""
    told = session("small", draws, FAST, SMALL_SECONDS).levels.get("small")
    if told is None:
        session.judge(draws, "solved", None)
        return
    session.judge(draws, "all OPTIMAL, in brackets with Clarabel", told[FAST] == told["apart"] == 0)
    session.judge(draws, "no slower than Clarabel", told["seconds"] <= told["Clarabel's seconds"])
    console.print(f"{draws.name}: " + ", ".join(f"{name} {value:.3g}" for name, value in told.items()))


def run_two_classes(session: Session, workloads: Sequence[Points], console: Console) -> None:
    """(3) by the interior point method on its dual, and by Clarabel and SCS on the same dual in CVXPY, from which they
    are faster and closer than from (3) as it is printed."""
    columns = [column for peer in GOALS for column in (peer, "gap", "apart", "times")]
    table = new_table("Two-class SDP: processor seconds with building", "points", FAST, "gap", *columns)
    for workload in workloads:
        fast = session("two classes", workload, FAST)
        reached = None if fast.trouble == LEFT_OUT else fast.gap <= workload.tol
        session.judge(workload, f"certified {workload.tol:.0e}", reached, seconds=fast.seconds)
        cells = [str(workload.n), cell(fast.seconds, ".2f"), cell(fast.gap, ".1e")]
        for peer in GOALS:
            other = session("two classes", workload, peer)
            ratio, late = other.seconds / fast.seconds, other.status == "TIME_LIMIT"
            met = None if math.isnan(ratio) or (late and ratio < TWO_CLASS_GOAL) else ratio >= TWO_CLASS_GOAL
            if workload == TWO_CLASSES[-1]:
                session.judge(workload, f"{TWO_CLASS_GOAL:g} times faster than {peer}", met, ratio=ratio)
            apart = abs(other.value - fast.value) / max(1.0, abs(fast.value))
            if peer == CLARABEL:
                one = None if late or math.isnan(apart) else apart <= ONE_VALUE
                session.judge(workload, f"the value of {peer} to {ONE_VALUE:g}", one, apart=apart)
            cells += [cell(other.seconds, ".2f"), cell(other.gap, ".1e"), cell(apart, ".1e")]
            cells.append(("> " if late else "") + cell(ratio, ".0f"))
        table.add_row(*cells)
    console.print(table)


def main(arguments: Sequence[str] | None = None, launcher: Launcher = START) -> int:
    said = "The reduced SDP: fast default, ADMM, references, growth, small ones."
    chosen = options(said, SECTIONS, BUDGET, QUICK_BUDGET, arguments)
    wanted, quick = chosen.only or SECTIONS, chosen.quick
    with opened(chosen, launcher, LIMITS, QUICK_LIMIT, ("cvxpy", "clarabel", "scs"), rules=RULES) as (session, console):
        if "references" in wanted:
            run_references(session, SMALL if quick else PAPER, console)
        if "growth" in wanted:
            larger = (Workload(3, 4), Workload(3, 8)) if quick else LARGER
            run_growth(session, larger, (Workload(3, 4, 3),) if quick else LABELS, console)
        if "two classes" in wanted:
            run_two_classes(session, TWO_CLASSES[:1] if quick else TWO_CLASSES, console)
        if "small" in wanted:
            run_small(session, Draws(20) if quick else SMALL_RANDOM, console)
    return 0


if __name__ == "__main__":
    child(lambda **given: (Draws if "count" in given else Points if "n" in given else Workload)(**given), measure)
    sys.exit(main())
