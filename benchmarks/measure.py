"""Shared by all benchmarks: runs in processes of their own, seconds to certified gaps, peak memory, verdicts.

A benchmark's file holds a frozen dataclass with ``name`` and ``tol`` (`Workload`), a function ``measure(workload,
solver, limit)`` that yields the fields of a `Run` as mappings, its goals, ``RULES`` (the stopping rule of each solver,
ours and the peers', and their C where there is one), and a `main`; `benchmarks/all.py` finds it by its RULES. It ends
with

    if __name__ == "__main__":
        child(MyWorkload, measure)
        sys.exit(main())

and starts its runs by ``functools.partial(launch, __file__)``. A time is the moment at which the bounds first met
within a gap; it counts only if `certify` confirms the bounds at the end. Where a process had to share its core, what it
took decides no goal, unless the goal was reached all the same.
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
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

# NumPy and the package are imported where they are needed: a child's ru_maxrss starts from the memory of
# its parent, so this process must stay smaller than any child.
if TYPE_CHECKING:
    from rich.console import Console

GAPS = (1e-2, 1e-3, 1e-4, 1e-6)
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
#: Seconds after its limit at which the process of a solver is ended: some solvers check their limit only once a round.
GRACE_SECONDS = 60.0
LEFT_OUT = "left out: out of time"
#: A process that had a smaller share of its core than this was disturbed: another one ran there too.
OWN_CORE = 0.9
#: Stopping rules that several benchmarks state in their RULES: of a solver run by `watched`, and of Clarabel by CVXPY.
CERTIFIED = "stops when its bounds meet within the workload's gap; what counts is the certificate at the end"
INTERIOR = "stops by its own rule (gap and residuals 1e-8, its default); what counts is the certificate at the end"
#: What NumPy and BLAS choose their code by, of the flags that the kernel lists.
CPU_FEATURES = ("sse4_2", "avx", "fma", "avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl", "asimd", "sve")


class Named(Protocol):
    @property
    def name(self) -> str: ...


class Workload(Named, Protocol):
    """A frozen dataclass of sizes and options: its name, and the gap at which runs may stop."""

    @property
    def tol(self) -> float: ...


@dataclass
class Run:
    """What one process reported.

    reached : seconds to each gap of `GAPS` that was reached. gap, status : by the certificate at the end. seconds : of
    the solve. peak, before : the most MiB in memory up to the end, and up to the solve (interpreter, imports, data).
    value : of the objective at the end, where a workload reports it. stated : that of its formulation in CVXPY at the
    same point, alike. yardstick : seconds of a fixed computation in the same process, where a
    workload has one. share : of its core, the part of the time that the process had it.
    levels : figures by level of accuracy, where a study has several. trouble : why there is no certificate, or "".
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
    share: float = 1.0
    levels: dict[str, dict[str, Any]] = field(default_factory=dict)
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


def watched(
    problem: Any, solver: Any, tol: float, limit: float, also: Callable[[Any], Mapping[str, Any]] = lambda _: {}
) -> Iterator[dict[str, Any]]:
    """Run `convexstruct.solve` (``solver`` None: the family's best). Each gap is printed as soon as the solver's bounds
    are within it, in case the process is ended; at the end gaps, the certificate's result, and ``also(solution)``."""
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
    yield {"gap": solution.gap, "status": solution.status.name, "seconds": solution.seconds}
    yield {"rounds": solution.iterations, **also(solution)}


def by_clarabel(formulation: str, problem: Any, tol: float, limit: float, compiled: bool) -> Iterator[dict[str, Any]]:
    """Clarabel by CVXPY on an entry of `FORMULATIONS`; seconds with building and compiling, or without."""
    from convexstruct.models import FORMULATIONS

    begin = time.perf_counter()
    built = FORMULATIONS[formulation].builder(problem)
    if compiled:
        built.problem.get_problem_data("CLARABEL")
    report({"build_seconds": time.perf_counter() - begin})
    begin = time.perf_counter() if compiled else begin
    solution = built.solve("CLARABEL", tol, time_limit=limit)
    seconds, gap = time.perf_counter() - begin, abs(solution.gap)
    yield {"gap": gap, "status": solution.status.name, "seconds": seconds, "rounds": 1}
    yield from within(gap, seconds)


def within(gap: float, seconds: float) -> Iterator[dict[str, Any]]:
    """Of a solver that has one time, that of its end: every gap that its answer is within."""
    yield from ({"reached": [each, seconds]} for each in GAPS if gap <= each)


Measure = Callable[[Any, str, float], Iterable[Mapping[str, Any]]]


def child(workload: Callable[..., Any], measure: Measure) -> None:
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


def launch(script: str, workload: Any, solver: str, limit: float, grace: float | None = None) -> Run:
    """Run ``script`` --child in a fresh process with one thread; if it fails, the `Run` says so in ``trouble``. It is
    ended ``grace`` seconds after its limit (`GRACE_SECONDS`)."""
    grace = GRACE_SECONDS if grace is None else grace
    run = Run(workload, solver, limit)
    task = json.dumps([asdict(workload), solver, limit])
    command = [sys.executable, os.path.abspath(script), "--child", task]
    begin, spent = time.perf_counter(), _spent()
    try:
        given: dict[str, Any] = {"env": os.environ | THREADS, "capture_output": True, "text": True, "check": False}
        ended = subprocess.run(command, timeout=limit + grace, **given)
    except subprocess.TimeoutExpired as late:
        out = late.stdout or b""
        understand(run, (out.decode() if isinstance(out, bytes) else out).splitlines())
        run.trouble = f"ended {grace:g} s after its limit"
        return run
    finally:
        run.share = (_spent() - spent) / (time.perf_counter() - begin)
    understand(run, ended.stdout.splitlines())
    if ended.returncode:
        run.trouble = (ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
    return run


def _spent() -> float:
    """Processor seconds of all processes that this one started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@dataclass
class Session:
    """Launches runs, one after the other, while the budget lasts; keeps them all, and the verdicts.

    limit : the seconds for a solver by its name. budget : seconds for everything; runs that have not started by then
    are left out, with `LEFT_OUT` as their trouble. file : where everything is written after each run and verdict, so
    that what an interrupted benchmark found is not lost. about, rules : of the machine; when each solver stops.
    wall : whether goals are about seconds of the clock, and not of the processor.
    """

    limit: Callable[[str], float]
    budget: float
    launcher: Launcher | None
    file: Path | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    wall: bool = True
    begin: float = field(default_factory=time.perf_counter)
    runs: list[tuple[str, Run]] = field(default_factory=list)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    _judged: list[int] = field(default_factory=lambda: [0, 0])

    def __call__(self, section: str, workload: Any, solver: str, limit: float | None = None) -> Run:
        limit = limit or self.limit(solver)
        if time.perf_counter() - self.begin >= self.budget:
            run = Run(workload, solver, limit, trouble=LEFT_OUT)
        else:
            print(f"{section}: {workload.name}, {solver} ...", end=" ", file=sys.stderr, flush=True)
            assert self.launcher is not None, "this benchmark starts its processes itself"
            run = self.launcher(workload, solver, limit)
            print(run.trouble or f"{run.seconds:.2f} s, gap {run.gap:.1e}", file=sys.stderr)
        self.runs.append((section, run))
        self.save()
        return run

    def judge(
        self, workload: Named, goal: str, reached: bool | None, short: str = "", bound: str = "", /,
        **figures: float | None,
    ) -> str:  # fmt: skip
        """Keep a verdict on the runs since the last one, undecided if one of them had to share its core, and say it, of
        the goal or of ``short``; figures that are not finite are null. ``bound`` : what bounds a goal that is missed,
        as it was measured; a table shows it beside MISSED alone."""
        if len(self.runs) > self._judged[1]:
            self._judged = [self._judged[1], len(self.runs)]
        share = min((run.share for _, run in self.runs[slice(*self._judged)]), default=1.0)
        plain = reached and figures.keys() <= {"seconds", "peak", "f1", "crfsuite_f1"}  # met on a busy core: idle too
        why = f"a process had {share:.0%} of its core" if self.wall and share < OWN_CORE and not plain else ""
        known = {name: None if value is None else finite(value) for name, value in figures.items()}
        told = {"workload": workload.name, "goal": goal, "reached": None if why else reached, **known}
        told |= {"why": why} if why and reached is not None else {}
        self.verdicts.append(told | ({"bound": bound} if bound and told["reached"] is False else {}))
        self.save()
        return judged(short or goal, reached)

    def without(self, what: str, why: str) -> None:
        """Keep, and say, that goals beside ``what`` are undecided for a reason: it is not installed, or not here."""
        print(f"{what} {why}: left out", file=sys.stderr)
        self.verdicts.append({"workload": what, "goal": "", "reached": None, "why": why})
        self.save()

    def has(self, module: str, peer: str) -> bool:
        """Whether a peer's package is installed; its goals are undecided if not."""
        here = find_spec(module) is not None
        if not here:
            self.without(peer, "is not installed")
        return here

    def save(self) -> None:
        if self.file:
            runs = [{"section": section, **described(run)} for section, run in self.runs]
            told: dict[str, Any] = {"machine": self.about, "rules": self.rules, "goals": self.verdicts, "runs": runs}
            told |= {"seconds": time.perf_counter() - self.begin}
            write(self.file, json.dumps(told, indent=1, allow_nan=False))

    def finish(self, console: Console) -> None:
        """Count what was reached, and say what was undecided because the machine was busy."""
        reached = sum(bool(said["reached"]) for said in self.verdicts)
        busy = [said for said in self.verdicts if "core" in said.get("why", "")]
        for said in busy:
            console.print(f"{said['workload']}: {said['goal']}: undecided, {said['why']}")
        seconds = time.perf_counter() - self.begin
        console.print(f"{reached} of {len(self.verdicts)} goals reached; {seconds:.0f} s in all")
        self.save()


def write(path: Path, text: str) -> None:
    """Write the file and rename it, so that a reader sees the old file or the new one, whole."""
    part = path.with_name(path.name + ".part")
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)


def judged(goal: str, reached: bool | None) -> str:
    if reached is None:
        return f"{goal}: undecided"
    return f"{goal}: " + ("[green]reached[/]" if reached else "[bold red]MISSED[/]")


def cell(value: float, style: str) -> str:
    return format(value, style) if math.isfinite(value) else "?"


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def described(run: Run) -> dict[str, Any]:
    """A run for JSON, in which infinity and NaN are null."""
    flat = asdict(run) | {"reached": {f"{gap:.0e}": seconds for gap, seconds in run.reached.items()}}
    return {name: finite(value) if isinstance(value, float) else value for name, value in flat.items()}


def processor() -> tuple[str, list[str]]:
    """The model of the processor, and which of `CPU_FEATURES` it has; as far as the system tells."""
    try:
        lines = dict(line.partition(":")[::2] for line in Path("/proc/cpuinfo").read_text().splitlines())
    except OSError:
        return platform.processor(), []
    told = {key.strip(): value.strip() for key, value in lines.items()}
    flags = (told.get("flags") or told.get("Features") or "").split()
    return told.get("model name", platform.machine()), [name for name in CPU_FEATURES if name in flags]


def machine(console: Console, *packages: str) -> dict[str, Any]:
    """System, processor, versions and load of this machine, printed and returned; warns if the machine is busy."""

    def installed(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "none"

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    versions = {name: installed(name) for name in ("numpy", "scipy", *packages)}
    model, features = processor()
    about = {
        "system": platform.platform(), "processor": model, "cores": os.cpu_count(), "features": " ".join(features),
        "python": platform.python_version(), **versions, "load": round(load, 2), "threads": 1,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }  # fmt: skip
    console.print("  ".join(f"{name} {value}" for name, value in about.items()))
    if load > 0.5:
        console.print("[bold red]the machine is busy: these times are not the ones that count[/]")
    return about


def stops(rules: Mapping[str, str]) -> list[str]:
    """When each solver stops, a line a rule."""
    kinds = {rule: [name for name in rules if rules[name] == rule] for rule in rules.values()}
    return [f"{', '.join(names)}: {rule}" for rule, names in kinds.items()]


def new_console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 170)


def options(
    description: str, names: Sequence[str], budget: float, quick_budget: float, arguments: Sequence[str] | None
) -> argparse.Namespace:
    """The command line of a benchmark, read and checked; ``budget`` is filled in."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes and limits, within a minute")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--seconds", type=float, help="limit for each solver in place of its own")
    said = f"limit for everything (default {budget:g} s, {quick_budget:g} s with --quick)"
    parser.add_argument("--budget", type=float, help=said)
    parser.add_argument("--json", type=Path, help="write all runs to this file")
    chosen = parser.parse_args(arguments)
    for name in ("seconds", "budget"):
        value = getattr(chosen, name)
        if value is not None and not value > 0:
            parser.error(f"--{name} is {value:g}, wanted a positive number")
    if chosen.json and (chosen.json.is_dir() or not chosen.json.absolute().parent.is_dir()):
        # said now, not when the runs have ended and their results would be lost
        parser.error(f"--json is {chosen.json}, wanted a file in a directory that exists")
    chosen.budget = chosen.budget or (quick_budget if chosen.quick else budget)
    return chosen


@contextmanager
def opened(
    chosen: argparse.Namespace,
    launcher: Launcher | None,
    limits: Mapping[str, float],
    quick_limit: float,
    packages: Sequence[str] = (),
    otherwise: float = 60.0,
    *,
    rules: Mapping[str, str],
    wall: bool = True,
) -> Iterator[tuple[Session, Console]]:
    """The session of a benchmark and its console: machine and stopping rules first, goals counted at the end.

    chosen : from `options`. limits : seconds for each solver; ``otherwise`` for those not named, ``quick_limit`` with
    --quick. packages : whose versions are printed. rules, wall : as in `Session`.
    """

    def limit(solver: str) -> float:
        return float(chosen.seconds or (quick_limit if chosen.quick else limits.get(solver, otherwise)))

    console = new_console()
    session = Session(limit, chosen.budget, launcher, chosen.json, machine(console, *packages), rules, wall)
    for line in stops(rules):
        console.print(line, highlight=False)
    yield session, console
    session.finish(console)


def is_here(source: str, session: Session) -> bool:
    """Whether the data set ``source`` is on this machine; goals on it are undecided if not."""
    from convexstruct.datasets import available

    here = any(presence.source.name == source and presence.state == "here" for presence in available())
    if not here:
        session.without(source, "is not on this machine (CONVEXSTRUCT_DATA)")
    return here
