"""Shared by all benchmarks: runs in processes of their own, seconds to certified gaps, peak memory, goals.

A benchmark's file holds a frozen dataclass with ``name`` and ``tol`` (`Workload`), a function ``measure(workload,
solver, limit)`` that yields the fields of a `Run` as mappings, its goals, and a `main`; it ends with

    if __name__ == "__main__":
        child(MyWorkload, measure)
        sys.exit(main())

and starts its runs by ``functools.partial(launch, __file__)``. A time is the moment at which the bounds first met
within a gap; it counts only if `certify` confirms the bounds at the end.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

# NumPy, matplotlib and the package are imported where they are needed: a child's ru_maxrss starts from the memory of
# its parent, so this process must stay smaller than any child.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

GAPS = (1e-2, 1e-3, 1e-4, 1e-6)
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
#: Seconds after its limit at which the process of a solver is ended: some solvers check their limit only once a round.
GRACE_SECONDS = 60.0
LEFT_OUT = "left out: out of time"
#: Columns that hold words; the others hold numbers.
WORDS = ("workload", "solver", "goal", "what grows")


class Workload(Protocol):
    """A frozen dataclass of sizes and options: its name, and the gap at which runs may stop."""

    @property
    def name(self) -> str: ...

    @property
    def tol(self) -> float: ...


@dataclass(frozen=True)
class Goal:
    """Certified within ``gap`` after ``seconds`` at most; ``memory`` in MiB where that is limited too."""

    workload: Workload
    gap: float
    seconds: float
    memory: float = math.inf


@dataclass
class Run:
    """What one process reported.

    reached : seconds to each gap of `GAPS` that was reached. gap, status : by the certificate at the end. seconds : of
    the solve. peak, before : the most MiB in memory up to the end, and up to the solve (interpreter, imports, data).
    value : of the objective at the end, where a workload reports it. stated : that of its formulation in CVXPY at the
    same point, alike. yardstick : seconds of a fixed computation in the
    same process, where a workload has one. trouble : why there is no certificate, or "".
    """

    workload: Any
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
    value: float = math.nan
    stated: float = math.nan
    yardstick: float = math.nan
    trouble: str = ""

    def to(self, gap: float) -> float:
        """Seconds to ``gap``; inf if it was not reached or the certificate does not confirm it."""
        confirmed = not self.trouble and -1e-9 <= self.gap <= gap * (1 + 1e-3)
        return self.reached.get(gap, math.inf) if confirmed else math.inf


Launcher = Callable[[Any, str, float], Run]

# -- in the child ------------------------------------------------------------------------------------------------------


def memory() -> float:
    """Peak resident memory of this process so far, in MiB."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def report(line: Mapping[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def watched(problem: Any, solver: Any, tol: float, limit: float) -> Iterator[dict[str, Any]]:
    """Run `convexstruct.solve` (``solver`` None: the family's best). Each gap is printed as soon as the solver's bounds
    are within it, in case the process is ended; at the end the gaps are yielded, and the certificate's result."""
    from convexstruct.core.certificates import relative_gap
    from convexstruct.core.driver import solve
    from convexstruct.core.iterate import Iterate

    left = list(GAPS)

    def tell(_: Iterate, trace: Any) -> None:
        gap = relative_gap(trace.primal[-1], trace.lower_bound[-1], trace.least)
        while left and gap <= left[0]:
            report({"reached": [left.pop(0), trace.seconds[-1]], "peak": memory()})

    solution = solve(problem, solver, tol, time_limit=limit, callback=tell)
    for gap in GAPS:
        if (first := solution.trace.first_within(gap)) is not None:
            yield {"reached": [gap, first[1]]}
    yield {
        "gap": solution.gap, "status": solution.status.name, "seconds": solution.seconds, "rounds": solution.iterations
    }  # fmt: skip


def child(
    workload: Callable[..., Any],
    measure: Callable[[Any, str, float], Iterable[Mapping[str, Any]]],
) -> None:
    """If this process was started by `launch`: do the run, print what `measure` yields line by line, and exit."""
    if sys.argv[1:2] != ["--child"]:
        return
    options, solver, limit = json.loads(sys.argv[2])
    for line in measure(workload(**options), solver, limit):
        report(line)
    sys.exit(0)


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


def launch(script: str, workload: Any, solver: str, limit: float) -> Run:
    """Run ``script`` --child in a fresh process with one thread; if it fails, the `Run` says so in ``trouble``."""
    run = Run(workload, solver, limit)
    task = json.dumps([asdict(workload), solver, limit])
    command = [sys.executable, os.path.abspath(script), "--child", task]
    try:
        ended = subprocess.run(
            command,
            env=os.environ | THREADS,
            capture_output=True,
            text=True,
            timeout=limit + GRACE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        out = late.stdout or b""
        understand(run, (out.decode() if isinstance(out, bytes) else out).splitlines())
        run.trouble = f"ended {GRACE_SECONDS:g} s after its limit"
        return run
    understand(run, ended.stdout.splitlines())
    if ended.returncode:
        run.trouble = (ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
    return run


@dataclass
class Session:
    """Launches runs, one after the other, while the budget lasts; keeps them all, and the verdicts.

    limit : the seconds for a solver by its name. budget : seconds for everything; runs that have not started by then
    are left out, with `LEFT_OUT` as their trouble.
    """

    limit: Callable[[str], float]
    budget: float
    launcher: Launcher
    begin: float = field(default_factory=time.perf_counter)
    runs: list[tuple[str, Run]] = field(default_factory=list)
    verdicts: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, section: str, workload: Any, solver: str, limit: float | None = None) -> Run:
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

    def finish(self, console: Console, about: Mapping[str, Any], file: Path | None) -> None:
        """Count what was reached; write everything to ``file`` as JSON."""
        seconds = time.perf_counter() - self.begin
        reached = sum(bool(said["reached"]) for said in self.verdicts)
        console.print(f"{reached} of {len(self.verdicts)} goals reached; {seconds:.0f} s in all")
        if file:
            runs = [{"section": section, **described(run)} for section, run in self.runs]
            everything = {"machine": about, "goals": self.verdicts, "runs": runs, "seconds": seconds}
            file.write_text(json.dumps(everything, indent=1, allow_nan=False) + "\n")


def verdicts(goal: Goal, run: Run) -> Iterator[tuple[str, bool | None]]:
    """Each part of a goal in words, and whether it was reached; None where a limit ended the run too early to say."""
    reached = run.to(goal.gap) <= goal.seconds
    early = run.trouble == LEFT_OUT or (run.status == "TIME_LIMIT" and run.seconds < goal.seconds)
    yield f"{goal.gap:.0e} in {goal.seconds:g} s", None if early and not reached else reached
    if math.isfinite(goal.memory):
        yield f"peak below {goal.memory:g} MiB", None if run.trouble == LEFT_OUT else run.peak <= goal.memory


def run_goals(
    session: Session, goals: Sequence[Goal], workloads: Sequence[Any], fast: str, peers: Sequence[str], console: Console
) -> None:
    """The fast path and its peers on each workload, against the goals; peers as multiples of the fast path."""
    head = ["workload", "solver", *(f"{gap:.0e}" for gap in GAPS), "goal", "final gap", "peak MiB", "before"]
    table = new_table(f"Seconds to a certified gap (times the {fast}'s)", *head)
    for workload in workloads:
        first, *others = (session("goals", workload, solver) for solver in (fast, *peers))
        words = [first.trouble] if first.trouble else []
        for goal in (goal for goal in goals if goal.workload == workload):
            for said, reached in verdicts(goal, first):
                words.append(judged(said, reached))
                session.judge(workload, said, reached, seconds=finite(first.to(goal.gap)), peak=finite(first.peak))
        for run in (first, *others):
            cells = [shown(run, gap, None if run is first else first) for gap in GAPS]
            tail = [cell(run.gap, ".1e"), cell(run.peak, ".0f"), cell(run.before, ".0f")]
            name, note = (workload.name, "\n".join(words)) if run is first else ("", run.trouble)
            table.add_row(name, run.solver, *cells, note, *tail)
        table.add_section()
    console.print(table)


def shown(run: Run, gap: float, fast: Run | None = None) -> str:
    """Seconds to ``gap``, and their ratio to those of the fast path; "> s" if a run of s seconds did not reach it."""
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
        table.add_column(column, justify="left" if column in WORDS else "right", no_wrap=True)
    return table


def judged(goal: str, reached: bool | None) -> str:
    if reached is None:
        return f"{goal}: undecided"
    return f"{goal}: " + ("[green]reached[/]" if reached else "[bold red]MISSED[/]")


def cell(value: float, style: str) -> str:
    return format(value, style) if math.isfinite(value) else "?"


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """p of seconds = a size^p, by least squares in logarithms over the finite entries; NaN with fewer than two."""
    kept = [(size, value) for size, value in zip(sizes, seconds) if math.isfinite(value)]
    if len(kept) < 2:
        return math.nan
    x, y = [math.log(size) for size, _ in kept], [math.log(value) for _, value in kept]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - middle_x) * (a - middle_x) for a in x)
    return sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y)) / spread


def described(run: Run) -> dict[str, Any]:
    """A run for JSON, in which infinity and NaN are null."""
    flat = asdict(run) | {"reached": {f"{gap:.0e}": seconds for gap, seconds in run.reached.items()}}
    return {name: finite(value) if isinstance(value, float) else value for name, value in flat.items()}


def machine(console: Console, *packages: str) -> dict[str, Any]:
    """The system, the versions and the load of this machine, printed and returned; warns if the machine is busy."""
    from importlib.metadata import version

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    versions = {name: version(name) for name in ("numpy", "scipy", *packages)}
    about = {"system": platform.platform(), "python": platform.python_version(), **versions, "load": round(load, 2)}
    console.print("  ".join(f"{name} {value}" for name, value in about.items()) + "  threads 1")
    if load > 0.5:
        console.print("[bold red]the machine is busy: these times are not the ones that count[/]")
    return about


def new_console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 170)


def options(
    description: str,
    names: Sequence[str],
    budget: float,
    quick_budget: float,
    arguments: Sequence[str] | None,
    plot: bool = False,
) -> argparse.Namespace:
    """The command line of a benchmark, read and checked; ``budget`` is filled in. plot : whether it can draw growth."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes and limits, within a minute")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--seconds", type=float, help="limit for each solver in place of its own")
    said = f"limit for everything (default {budget:g} s, {quick_budget:g} s with --quick)"
    parser.add_argument("--budget", type=float, help=said)
    parser.add_argument("--json", type=Path, help="write all runs to this file")
    if plot:
        parser.add_argument("--plot", type=Path, help="draw the growth to this file, a PNG")
    chosen = parser.parse_args(arguments)
    for name in ("seconds", "budget"):
        value = getattr(chosen, name)
        if value is not None and not value > 0:
            parser.error(f"--{name} is {value:g}, wanted a positive number")
    for name, path in vars(chosen).items():  # checked now, not when the runs have ended and their results would be lost
        if isinstance(path, Path) and (path.is_dir() or not path.absolute().parent.is_dir()):
            parser.error(f"--{name} is {path}, wanted a file in a directory that exists")
    if plot and chosen.plot and chosen.only and "growth" not in chosen.only:
        parser.error("--plot draws the growth, which --only leaves out")
    chosen.budget = chosen.budget or (quick_budget if chosen.quick else budget)
    return chosen


@contextmanager
def opened(
    chosen: argparse.Namespace,
    launcher: Launcher,
    limits: Mapping[str, float],
    quick_limit: float,
    packages: Sequence[str] = (),
    otherwise: float = 60.0,
) -> Iterator[tuple[Session, Console]]:
    """The session of a benchmark and its console: the machine is printed first, the goals are counted at the end.

    chosen : from `options`. limits : seconds for each solver; ``otherwise`` for those not named, ``quick_limit`` with
    --quick. packages : whose versions are printed.
    """

    def limit(solver: str) -> float:
        return float(chosen.seconds or (quick_limit if chosen.quick else limits.get(solver, otherwise)))

    session = Session(limit, chosen.budget, launcher)
    console = new_console()
    about = machine(console, *packages)
    yield session, console
    session.finish(console, about, chosen.json)


def is_here(source: str, console: Console, left_out: str) -> bool:
    """Whether the data set ``source`` is on this machine; if not, the console is told what is ``left_out``."""
    from convexstruct.datasets import available

    here = any(presence.source.name == source and presence.state == "here" for presence in available())
    if not here:
        console.print(f"{source} is not on this machine (CONVEXSTRUCT_DATA): {left_out} is left out")
    return here


def growth_rows(table: Table, what: str, sizes: Sequence[float], runs: Sequence[Run], gaps: Sequence[float]) -> None:
    """A row for each size of ``what``: seconds to each gap, peak memory; then the fitted powers."""
    for size, run in zip(sizes, runs):
        table.add_row(what, f"{size:g}", *(shown(run, gap) for gap in gaps), cell(run.peak, ".0f"))
    powers = [cell(slope(sizes, [run.to(gap) for run in runs]), ".2f") for gap in gaps]
    table.add_row("  fitted power", "", *powers, "")
    table.add_section()


def draw_growth(found: Mapping[str, Sequence[Run]], gaps: tuple[float, float], title: str, path: Path) -> None:
    """A panel for each size that grows, log-log: seconds to two gaps, with the fitted powers; a cross where a run was
    stopped before the smaller gap."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    figure = Figure(figsize=(3.3 * len(found), 3.6), layout="constrained")
    for axes, (what, runs) in zip(figure.subplots(1, len(found), sharey=True, squeeze=False)[0], found.items()):
        sizes = [getattr(run.workload, what) for run in runs]
        axes.set(xscale="log", yscale="log", xlabel=what)
        for gap, colour in zip(gaps, ("#2c6fb3", "#b3452c")):
            seconds = [run.to(gap) for run in runs]
            power = slope(sizes, seconds)
            label = f"to {gap:.0e}" + (f": power {power:.2f}" if math.isfinite(power) else "")
            axes.plot(sizes, [finite(value) or math.nan for value in seconds], "o-", color=colour, ms=4, label=label)
        late = [(size, run.seconds) for size, run in zip(sizes, runs) if not math.isfinite(run.to(gaps[-1]))]
        if late:
            axes.plot(*zip(*late), "x", color="#777777", label=f"stopped before {gaps[-1]:.0e}")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid(color="#dddddd", lw=0.6)
        axes.legend(frameon=False, fontsize="small")
    figure.axes[0].set_ylabel("seconds to a certified gap")
    figure.suptitle(title, fontsize="medium")
    figure.savefig(path, dpi=140)
