"""Workload `generative_margin`: the fast default, the paper's algorithm, the bundle and CVXPY in one run.

    python benchmarks/generative_margin.py [--quick] [--only NAME ...] [--seconds LIMIT] [--json FILE] [--plot FILE.png]

Every run is a fresh process with one thread, so its peak memory is its own. A time is the moment at which the bounds
first met within a gap; it counts only if `certify`, asked at the end, confirms the bounds. What is hit or missed is
printed either way. One run each: seeds are fixed and nothing is repeated until it looks good.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

# NumPy, matplotlib and the package are imported where they are needed: a child's ru_maxrss starts from what its parent
# had in memory, so this process stays smaller than any child.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from convexstruct.problems import GenerativeMargin

GAPS = (1e-2, 1e-3, 1e-4, 1e-6)
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
FAST, PAPER, BUNDLE, CUTS, COMPACT = "fast default", "paper 0", "bundle", "n-slack, Clarabel", "compact, Clarabel"
#: Seconds given to the fast default; to each of the paper's algorithm and the bundle; to a reference in CVXPY.
LIMITS = {FAST: 20.0, PAPER: 12.0, BUNDLE: 12.0, CUTS: 60.0, COMPACT: 20.0}
#: A solver looks at its limit between rounds only; beyond this many seconds more its process is ended.
GRACE = 60.0
#: Seconds for everything; what is not started by then is reported as left out.
BUDGET = 690.0
LEFT_OUT = "left out: out of time"


@dataclass(frozen=True)
class Workload:
    """A ring: K sequences of one length, S states, noise EASY or HARD, eta; the gap at which runs may stop."""

    sequences: int = 100
    length: int = 50
    states: int = 10
    noise: str = "HARD"
    eta: float = 0.1
    tol: float = 1e-4

    @property
    def name(self) -> str:
        size = f"-{self.states}-states" if self.states != 10 else ""
        size += f"-{self.sequences}" if self.sequences != 100 else ""
        size += f"-length-{self.length}" if self.length != 50 else ""
        return f"{self.noise.lower()}-{self.eta:g}{size}"

    def build(self) -> GenerativeMargin:
        from convexstruct.datasets.ring import EASY, HARD, ring
        from convexstruct.problems import GenerativeMargin

        noise = {"EASY": EASY, "HARD": HARD}[self.noise]
        data = ring(self.sequences, self.length, self.states, noise, seed=1)
        sizes = data.n_states, data.n_symbols
        return GenerativeMargin.hmm(data.symbols, data.states, *sizes, eta=self.eta, loss="ring")


@dataclass(frozen=True)
class Goal:
    """Certified within ``gap`` after ``seconds`` at most; ``memory`` in MiB where that is limited too."""

    workload: Workload
    gap: float
    seconds: float
    memory: float = math.inf


def both(*goals: tuple[float, float], memory: float = math.inf, **size: Any) -> list[Goal]:
    """The goals (gap, seconds) for EASY and for HARD."""
    return [
        Goal(Workload(noise=noise, **size), gap, seconds, memory)
        for noise in ("EASY", "HARD")
        for gap, seconds in goals
    ]


GOALS = [
    *both((1e-4, 1.5), (1e-6, 5.0), tol=1e-6),
    *both((1e-3, 3.0), (1e-4, 8.0), eta=1.0, tol=1e-6),
    *both((1e-4, 4.0), states=30),
    *both((1e-3, 12.0), states=30, sequences=1000),
    *both((1e-3, 10.0), states=100),
    *both((1e-3, 15.0), sequences=10_000, memory=1024.0),
]
#: The fast default is to be this many times faster than constraint generation, on this workload to this gap.
RATIO = Goal(Workload(noise="EASY", tol=1e-3), 1e-3, 50.0)
GROWTH: Mapping[str, Sequence[int]] = {
    "sequences": (30, 100, 300, 1000, 3000),
    "states": (5, 10, 20, 30, 40),
    "length": (10, 25, 50, 100, 200),
}
LADDER = (2, 5, 10, 20, 40, 80, 160, 320)
LADDER_GAP = 1e-3
QUICK_GROWTH: Mapping[str, Sequence[int]] = {"sequences": (10, 30, 100), "states": (5, 10), "length": (10, 25)}
QUICK_LADDER = (1, 2)
QUICK_WORKLOADS = ("easy-0.1", "hard-0.1")
#: With --quick every solver is given this long, and all of them together this long.
QUICK_LIMIT, QUICK_BUDGET = 4.0, 55.0
SECTIONS = ("ratio", "growth", "compact")


@dataclass
class Run:
    """What one process reported.

    reached : seconds to each gap of `GAPS` reached. gap, status : by the certificate at the end. seconds : of the
    solve. peak, before : MiB resident at most, at the end and before the solve (interpreter, imports, data).
    trouble : why there is no certificate, or "".
    """

    workload: Workload
    solver: str
    limit: float
    reached: dict[float, float] = field(default_factory=dict)
    gap: float = math.inf
    status: str = ""
    seconds: float = math.nan
    rounds: int = 0
    peak: float = math.nan
    before: float = math.nan
    build_seconds: float = math.nan
    trouble: str = ""

    def to(self, gap: float) -> float:
        """Seconds to ``gap``; inf if it was not reached or the certificate does not bear it out."""
        confirmed = not self.trouble and -1e-9 <= self.gap <= gap * (1 + 1e-3)
        return self.reached.get(gap, math.inf) if confirmed else math.inf


# -- in the child ------------------------------------------------------------------------------------------------------


def memory() -> float:
    """Peak resident memory of this process so far, in MiB."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def measure(workload: Workload, solver: str, limit: float) -> Iterator[dict[str, Any]]:
    """Solve; yield what is known before, at each gap reached, and at the end. A process ended early loses no line."""
    if solver in (CUTS, COMPACT):
        import convexstruct.models  # noqa: F401  its import is no part of the solve, nor is its memory
    begin = time.perf_counter()
    problem = workload.build()
    yield {"before": memory(), "build_seconds": time.perf_counter() - begin}
    run = {CUTS: _cuts, COMPACT: _compact}.get(solver)
    yield from run(problem, workload.tol, limit) if run else _solve(problem, solver, workload.tol, limit)
    yield {"peak": memory()}


def _solve(problem: GenerativeMargin, solver: str, tol: float, limit: float) -> Iterator[dict[str, Any]]:
    from convexstruct.certificates import relative_gap
    from convexstruct.solvers import Iterate, solve
    from convexstruct.solvers.bundle import ProximalBundle
    from convexstruct.solvers.proximal_rsd import ProximalRSD

    known = {FAST: None, PAPER: ProximalRSD(joint=False), BUNDLE: ProximalBundle()}
    left = list(GAPS)

    def tell(_: Iterate, trace: Any) -> None:
        gap = relative_gap(trace.primal[-1], trace.lower_bound[-1])
        while left and gap <= left[0]:
            report({"reached": [left.pop(0), trace.seconds[-1]], "peak": memory()})

    solution = solve(problem, known[solver], tol, time_limit=limit, callback=tell)
    for gap in GAPS:
        if (first := solution.trace.first_within(gap)) is not None:
            yield {"reached": [gap, first[1]]}
    yield {
        "gap": solution.gap, "status": solution.status.name, "seconds": solution.seconds, "rounds": solution.iterations
    }  # fmt: skip


def _cuts(problem: GenerativeMargin, tol: float, limit: float) -> Iterator[dict[str, Any]]:
    from convexstruct.certificates import certify, relative_gap
    from convexstruct.models.generative_margin_cuts import n_slack

    generation = n_slack(problem)
    left, seconds, gap, rounds = list(GAPS), 0.0, math.inf, 0
    while gap > tol and seconds < limit and not generation.done:
        now = generation.step()
        seconds, gap, rounds = now.seconds, relative_gap(now.primal, now.lower_bound), now.number
        while left and gap <= left[0]:
            yield {"reached": [left.pop(0), seconds]}
        yield {"seconds": seconds, "rounds": rounds, "peak": memory()}
    certificate = certify(problem, {"theta": generation.theta}, generation.witness())
    yield {"gap": certificate.gap, "status": "OPTIMAL" if certificate.gap <= tol else "TIME_LIMIT"}


def _compact(problem: GenerativeMargin, tol: float, limit: float) -> Iterator[dict[str, Any]]:
    from convexstruct.models.generative_margin_compact import compact_dual

    begin = time.perf_counter()
    solution = compact_dual(problem).solve("CLARABEL", tol, time_limit=limit)
    seconds = time.perf_counter() - begin
    for gap in GAPS:
        if solution.gap <= gap:
            yield {"reached": [gap, seconds]}
    yield {"gap": solution.gap, "status": solution.status.name, "seconds": seconds, "rounds": 1}


def report(line: Mapping[str, Any]) -> None:
    print(json.dumps(line), flush=True)


# -- in the parent -----------------------------------------------------------------------------------------------------


def understand(run: Run, lines: Sequence[str]) -> Run:
    """Fill in ``run`` from what its process printed."""
    for line in lines:
        try:
            said = json.loads(line)
        except json.JSONDecodeError:  # the last line of a process that was ended
            continue
        for name, value in said.items():
            if name == "reached":
                run.reached[value[0]] = value[1]
            else:
                setattr(run, name, value)
    return run


def launch(workload: Workload, solver: str, limit: float) -> Run:
    """Run `measure` in a fresh process; whatever happens there, a `Run` comes back."""
    run = Run(workload, solver, limit)
    task = json.dumps([asdict(workload), solver, limit])
    command = [sys.executable, os.path.abspath(__file__), "--child", task]
    try:
        ended = subprocess.run(
            command, env={**os.environ, **THREADS}, capture_output=True, text=True, timeout=limit + GRACE, check=False
        )
    except subprocess.TimeoutExpired as late:
        out = late.stdout or b""
        understand(run, (out.decode() if isinstance(out, bytes) else out).splitlines())
        run.trouble = f"ended {GRACE:g} s after its limit"
        return run
    understand(run, ended.stdout.splitlines())
    if ended.returncode:
        run.trouble = (ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
    return run


@dataclass
class Session:
    """Launches runs, one after the other, while the budget lasts; keeps them all, and the verdicts."""

    seconds: float | None
    quick: bool
    budget: float
    launcher: Callable[[Workload, str, float], Run] = launch
    begin: float = field(default_factory=time.perf_counter)
    runs: list[tuple[str, Run]] = field(default_factory=list)
    verdicts: list[dict[str, Any]] = field(default_factory=list)

    def limit(self, solver: str) -> float:
        return self.seconds or (QUICK_LIMIT if self.quick else LIMITS[solver])

    def __call__(self, section: str, workload: Workload, solver: str, limit: float | None = None) -> Run:
        limit = limit or self.limit(solver)
        if time.perf_counter() - self.begin >= self.budget:
            run = Run(workload, solver, limit, trouble=LEFT_OUT)
        else:
            print(f"{section}: {workload.name}, {solver} ...", end=" ", file=sys.stderr, flush=True)
            run = self.launcher(workload, solver, limit)
            print(run.trouble or f"{run.seconds:.2f} s, gap {run.gap:.1e}", file=sys.stderr)
        self.runs.append((section, run))
        return run

    def judge(self, workload: Workload, goal: str, reached: bool | None, **figures: float | None) -> None:
        self.verdicts.append({"workload": workload.name, "goal": goal, "reached": reached, **figures})


def verdicts(goal: Goal, run: Run) -> Iterator[tuple[str, bool | None]]:
    """Each part of a goal in words, and whether it was reached; None where a limit ended the run too early to say."""
    reached = run.to(goal.gap) <= goal.seconds
    early = run.trouble == LEFT_OUT or (run.status == "TIME_LIMIT" and run.seconds < goal.seconds)
    yield f"{goal.gap:.0e} in {goal.seconds:g} s", None if early and not reached else reached
    if math.isfinite(goal.memory):
        yield f"peak below {goal.memory:g} MiB", None if run.trouble == LEFT_OUT else run.peak <= goal.memory


def shown(run: Run, gap: float, fast: Run | None = None) -> str:
    """Seconds to ``gap``, and how many times the fast default's; what is not known is not shown."""
    seconds = run.to(gap)
    if math.isfinite(seconds):
        ratio = seconds / fast.to(gap) if fast is not None else 0.0
        return f"{seconds:.2f}" + (f" ({ratio:.{0 if ratio >= 9.5 else 1}f}x)" if ratio else "")
    if run.trouble:
        return "?"
    return "" if run.gap <= run.workload.tol else f"> {run.seconds:.3g}"


def new_table(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        words = column in ("workload", "solver", "goal", "what grows")
        table.add_column(column, justify="left" if words else "right", no_wrap=True)
    return table


def judged(goal: str, reached: bool | None) -> str:
    if reached is None:
        return f"{goal}: undecided"
    return f"{goal}: " + ("[green]reached[/]" if reached else "[bold red]MISSED[/]")


def cell(value: float, style: str) -> str:
    return format(value, style) if math.isfinite(value) else "?"


def run_goals(session: Session, workloads: Sequence[Workload], console: Console) -> None:
    """Fast default, paper's algorithm and bundle on each workload, against the goals."""
    head = ["workload", "solver", *(f"{gap:.0e}" for gap in GAPS), "goal", "final gap", "peak MiB", "before"]
    table = new_table("Seconds to a certified gap (times the fast default's)", *head)
    for workload in workloads:
        fast, *peers = (session("goals", workload, solver) for solver in (FAST, PAPER, BUNDLE))
        words = [fast.trouble] if fast.trouble else []
        for goal in (goal for goal in GOALS if goal.workload == workload):
            for said, reached in verdicts(goal, fast):
                words.append(judged(said, reached))
                session.judge(workload, said, reached, seconds=finite(fast.to(goal.gap)), peak=finite(fast.peak))
        for run in (fast, *peers):
            cells = [shown(run, gap, None if run is fast else fast) for gap in GAPS]
            tail = [cell(run.gap, ".1e"), cell(run.peak, ".0f"), cell(run.before, ".0f")]
            name, note = (workload.name, "\n".join(words)) if run is fast else ("", run.trouble)
            table.add_row(name, run.solver, *cells, note, *tail)
        table.add_section()
    console.print(table)


def run_ratio(session: Session, console: Console) -> None:
    """Constraint generation with Clarabel beside the fast default, on one workload to one gap."""
    fast, cuts = (session("ratio", RATIO.workload, solver) for solver in (FAST, CUTS))
    # cuts that were stopped need more than the seconds they had: the ratio is a bound, and may decide nothing
    ended = math.isfinite(cuts.to(RATIO.gap))
    ratio = (cuts.to(RATIO.gap) if ended else cuts.seconds) / fast.to(RATIO.gap)
    reached: bool | None = ratio >= RATIO.seconds
    if not reached and not ended and (math.isfinite(fast.to(RATIO.gap)) or fast.trouble == LEFT_OUT):
        reached = None
    table = new_table("Against constraint generation", "workload", "solver", f"{RATIO.gap:.0e}", "rounds", "peak MiB")
    for run in (fast, cuts):
        seconds = run.trouble or shown(run, RATIO.gap)
        table.add_row(run.workload.name, run.solver, seconds, str(run.rounds), cell(run.peak, ".0f"))
    console.print(table)
    goal = f"{RATIO.seconds:g} times faster to {RATIO.gap:.0e}"
    console.print(f"{'' if ended else 'more than '}{cell(ratio, '.3g')} times faster; " + judged(goal, reached))
    session.judge(RATIO.workload, goal, reached, ratio=finite(ratio))


def run_compact(session: Session, ladder: Sequence[int], console: Console) -> None:
    """The compact dual and constraint generation over growing samples, each until it is no longer practical."""
    limit = session.limit(COMPACT)
    title = f"EASY, eta 0.1: seconds to a certified {LADDER_GAP:.0e}; none is asked again after more than {limit:g} s"
    table = new_table(title, "sequences", COMPACT, "final gap", "peak MiB", CUTS, "final gap", "peak MiB", FAST)
    practical = {COMPACT: 0, CUTS: 0}
    going, stopped = list(practical), dict[str, str]()
    for sequences in ladder:
        if not going:
            break
        workload = Workload(sequences=sequences, noise="EASY", tol=LADDER_GAP)
        fast = session("compact", workload, FAST)
        cells = []
        for solver in practical:
            if solver not in going:
                cells += ["", "", ""]
                continue
            run = session("compact", workload, solver, limit)
            cells += [run.trouble or shown(run, LADDER_GAP, fast), cell(run.gap, ".1e"), cell(run.peak, ".0f")]
            if run.to(LADDER_GAP) <= limit:
                practical[solver] = sequences
            else:
                going.remove(solver)
                stopped[solver] = run.trouble or f"at {sequences} it is not"
        table.add_row(str(sequences), *cells, fast.trouble or shown(fast, LADDER_GAP))
    console.print(table)
    for solver, sequences in practical.items():
        console.print(f"{solver}: practical up to {sequences} sequences; {stopped.get(solver, 'more were not tried')}")


def grown(what: str, size: int) -> Workload:
    """The default workload with one of its sizes changed."""
    sizes = {"sequences": 100, "states": 10, "length": 50} | {what: size}
    return Workload(sizes["sequences"], sizes["length"], sizes["states"])


def run_growth(session: Session, growth: Mapping[str, Sequence[int]], console: Console, plot: Path | None) -> None:
    """The fast default where one of sequences, states, length grows and the others stay at 100, 10, 50."""
    head = ["what grows", "to", *(f"{gap:.0e}" for gap in GAPS[:3]), "peak MiB"]
    table = new_table("Growth of the fast default, HARD, eta 0.1", *head)
    found: dict[str, list[Run]] = {}
    seen: dict[Workload, Run] = {}
    for what, sizes in growth.items():
        for workload in (grown(what, size) for size in sizes):
            if workload not in seen:
                seen[workload] = session("growth", workload, FAST)
        found[what] = [seen[grown(what, size)] for size in sizes]
        for size, run in zip(sizes, found[what]):
            table.add_row(what, str(size), *(shown(run, gap) for gap in GAPS[:3]), cell(run.peak, ".0f"))
        powers = [f"{slope(sizes, [run.to(gap) for run in found[what]]):.2f}" for gap in GAPS[:3]]
        table.add_row("  fitted power", "", *powers, "")
        table.add_section()
    console.print(table)
    if plot:
        draw(found, plot)


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """p of seconds = a size^p, by least squares in logarithms over the finite entries; NaN with fewer than two."""
    kept = [(size, value) for size, value in zip(sizes, seconds) if math.isfinite(value)]
    if len(kept) < 2:
        return math.nan
    x, y = [math.log(size) for size, _ in kept], [math.log(value) for _, value in kept]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - middle_x) * (a - middle_x) for a in x)
    return sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y)) / spread


def draw(found: Mapping[str, Sequence[Run]], path: Path) -> None:
    """Three panels, log-log: seconds to 1e-3 and 1e-4 against what grows, with the fitted powers."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    for axes, (what, runs) in zip(figure.subplots(1, len(found), sharey=True, squeeze=False)[0], found.items()):
        sizes = [getattr(run.workload, what) for run in runs]
        axes.set(xscale="log", yscale="log", xlabel=what, title="")
        for gap, colour in ((1e-3, "#2c6fb3"), (1e-4, "#b3452c")):
            seconds = [run.to(gap) for run in runs]
            power = slope(sizes, seconds)
            label = f"to {gap:.0e}" + (f": power {power:.2f}" if math.isfinite(power) else "")
            axes.plot(sizes, [finite(value) or math.nan for value in seconds], "o-", color=colour, ms=4, label=label)
        late = [(size, run.seconds) for size, run in zip(sizes, runs) if not math.isfinite(run.to(1e-4))]
        if late:
            axes.plot(*zip(*late), "x", color="#777777", label="stopped before 1e-04")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid(color="#dddddd", lw=0.6)
        axes.legend(frameon=False, fontsize="small")
    figure.axes[0].set_ylabel("seconds to a certified gap")
    figure.suptitle("HARD ring, eta 0.1; the others stay at 100 sequences, 10 states, length 50", fontsize="medium")
    figure.savefig(path, dpi=140)


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def machine() -> dict[str, Any]:
    from importlib.metadata import version

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    packages = {name: version(name) for name in ("numpy", "scipy", "cvxpy", "clarabel")}
    return {"system": platform.platform(), "python": platform.python_version(), **packages, "load": round(load, 2)}


def read_arguments(arguments: Sequence[str] | None, names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speed and memory of the generative_margin solvers, as ratios.")
    parser.add_argument("--quick", action="store_true", help="small sizes and limits, within a minute")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--seconds", type=float, help="limit for each solver in place of its own")
    said = f"limit for everything (default {BUDGET:g} s, {QUICK_BUDGET:g} s with --quick)"
    parser.add_argument("--budget", type=float, help=said)
    parser.add_argument("--json", type=Path, help="write all runs to this file")
    parser.add_argument("--plot", type=Path, help="draw the growth to this file, a PNG")
    chosen = parser.parse_args(arguments)
    for name in ("seconds", "budget"):
        value = getattr(chosen, name)
        if value is not None and not value > 0:
            parser.error(f"--{name} is {value:g}, wanted a positive number")
    for name in ("json", "plot"):  # said now, not after twelve minutes
        path = getattr(chosen, name)
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            parser.error(f"--{name} is {path}, wanted a file in a directory that exists")
    if chosen.plot and chosen.only and "growth" not in chosen.only:
        parser.error("--plot draws the growth, which --only leaves out")
    return chosen


def main(arguments: Sequence[str] | None = None, launcher: Callable[[Workload, str, float], Run] = launch) -> int:
    from rich.console import Console

    workloads = {goal.workload.name: goal.workload for goal in GOALS}
    chosen = read_arguments(arguments, [*workloads, *SECTIONS])
    wanted = chosen.only or [*(QUICK_WORKLOADS if chosen.quick else workloads), *SECTIONS]
    session = Session(
        chosen.seconds, chosen.quick, chosen.budget or (QUICK_BUDGET if chosen.quick else BUDGET), launcher
    )
    console = Console(width=None if sys.stdout.isatty() else 170)
    about = machine()
    console.print("  ".join(f"{name} {value}" for name, value in about.items()) + "  threads 1")
    if about["load"] > 0.5:
        console.print("[bold red]the machine is busy: these times are not the ones that count[/]")
    if some := [workload for name, workload in workloads.items() if name in wanted]:
        run_goals(session, some, console)
    if "ratio" in wanted:
        run_ratio(session, console)
    if "growth" in wanted:
        run_growth(session, QUICK_GROWTH if chosen.quick else GROWTH, console, chosen.plot)
    if "compact" in wanted:
        run_compact(session, QUICK_LADDER if chosen.quick else LADDER, console)
    seconds = time.perf_counter() - session.begin
    reached = sum(bool(said["reached"]) for said in session.verdicts)
    console.print(f"{reached} of {len(session.verdicts)} goals reached; {seconds:.0f} s in all")
    if chosen.json:
        runs = [{"section": section, **described(run)} for section, run in session.runs]
        everything = {"machine": about, "goals": session.verdicts, "runs": runs, "seconds": seconds}
        chosen.json.write_text(json.dumps(everything, indent=1, allow_nan=False) + "\n")
    return 0


def described(run: Run) -> dict[str, Any]:
    """A run for JSON, which knows neither inf nor NaN: they are null."""
    flat = asdict(run) | {"reached": {f"{gap:.0e}": seconds for gap, seconds in run.reached.items()}}
    return {name: finite(value) if isinstance(value, float) else value for name, value in flat.items()}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        workload, solver, limit = json.loads(sys.argv[2])
        for line in measure(Workload(**workload), solver, limit):
            report(line)
        sys.exit(0)
    sys.exit(main())
