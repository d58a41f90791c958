"""The effect of each mechanism of a solver: it is switched off, and CPU time and rounds are compared.

    python benchmarks/ablation.py [--only STUDY ...] [--mechanism NAME ...] [--repeats 1] [--seconds 20] [--json FILE]

Each family has a file beside this one, `ablation_<family>.py`, with one list, ``STUDIES``, and so have the oracles that
families share. A `Study` names instances and a solver; its mechanisms say how each is switched off: by other `options`
of the solver, by other `numbers` of a module, whose comments there say what they are, or by another function in place
of one. A study has several instances of one kind, each from its own seed (`seeds`), because a single run is partly
chance; their figures are added. Time is process CPU time, the best of the repeats, and counts only if the certificate
meets the gap wanted. Ratios are to the solver as it is: 1.2 says that without the mechanism it takes 20% longer. A
mechanism that changes neither time nor rounds nor oracle calls by `MATTERS` in any study shown is named at the end, and
so is one without which every study is faster: either should be removed unless other instances need it.
An `Oracle` may stand in place of a solver: the fastest of several calls counts, and its gap is the error it reports.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

#: A mechanism matters if switching it off changes time, rounds or oracle calls by this share.
MATTERS = 0.1
#: Runs of each variant; the fastest counts.
REPEATS = 1
#: Limit of one run in seconds of wall-clock time: what takes longer is reported as not solved.
SECONDS = 20.0
#: The `Figures` that are added over instances and compared.
ADDED = ("seconds", "rounds", "calls")


@dataclass(frozen=True)
class Mechanism:
    """One idea of a solver, and how to do without it.

    name : in a few words. options : fields of the solver's dataclass that are replaced. patches : "module:name" or
    "module:Class.name" to the value that stands in its place while the run lasts, module as a `place` is called.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    patches: Mapping[str, Any] = field(default_factory=dict)


def numbers(module: str, **tried: Sequence[Any]) -> tuple[Mechanism, ...]:
    """A mechanism for each value that is ``tried`` of a number with a name in a `place`: one at which it has no
    effect, or one that shows whether more or less of it would do as well."""
    stem = module.rpartition(".")[2]
    return tuple(
        Mechanism(f"{stem}.{name} = {value}", patches={f"{module}:{name}": value})
        for name, values in tried.items()
        for value in values
    )


def options(**tried: Sequence[Any]) -> tuple[Mechanism, ...]:
    """The same of the solver's options."""
    return tuple(Mechanism(f"{name} = {value}", {name: value}) for name, values in tried.items() for value in values)


def seeds(make: Callable[..., Any], *sizes: Any, n: int = 3, **more: Any) -> list[Callable[[], Any]]:
    """``make`` of these sizes with seed=1, 2, ..., n."""
    return [partial(make, *sizes, seed=seed, **more) for seed in range(1, n + 1)]


def sizes(make: Callable[..., Any], *each: Sequence[Any], **more: Any) -> list[Callable[[], Any]]:
    """``make`` of each of some sizes."""
    return [partial(make, *given, **more) for given in each]


@dataclass(frozen=True)
class Figures:
    """Of one variant, added over the instances: CPU seconds (inf where the gap was not met), rounds, calls of the
    oracle; the largest certified gap, and the status of the instance that it belongs to."""

    seconds: float
    rounds: int
    calls: int
    gap: float
    status: str


@dataclass(frozen=True)
class Oracle:
    """What is timed in place of a solver: calls of a function, of which the fastest counts.

    call : of what a build makes; returns the rounds that it took, 1 where it has none, and the error of its result, NaN
    where that is not known. calls : how many are made.
    """

    call: Callable[[Any], tuple[int, float]]
    calls: int = 5

    def measure(self, instance: Any, tol: float) -> Figures:
        runs = []
        for _ in range(self.calls):
            begin = time.process_time()
            rounds, error = self.call(instance)
            seconds = time.process_time() - begin
            missed = error > tol  # False of NaN
            status = "MISSED" if missed else "CALLED"
            runs.append(Figures(math.inf if missed else seconds, rounds, self.calls, error, status))
        return min(runs, key=lambda figures: figures.seconds)


def timed(call: Callable[..., Any], calls: int = 5) -> Oracle:
    """An `Oracle` without rounds whose error is not known; its builds make the arguments of ``call``."""

    def told(instance: Any) -> tuple[int, float]:
        call(*instance)
        return 1, math.nan

    return Oracle(told, calls)


@dataclass(frozen=True)
class Study:
    """A solver, or an `Oracle`, on some instances of one kind, to the relative gap ``tol``; each of ``builds`` makes a
    problem, or what the oracle is called with."""

    name: str
    builds: Sequence[Callable[[], Any]]
    solver: Any
    tol: float
    mechanisms: Sequence[Mechanism]


def studies() -> list[Study]:
    """Those of every file `ablation_<family>.py`, in alphabetical order of the files."""
    names = sorted(file.stem for file in Path(__file__).parent.glob("ablation_*.py"))
    return [study for name in names for study in importlib.import_module(f"benchmarks.{name}").STUDIES]


@cache
def place(name: str) -> ModuleType:
    """The module of convexstruct that is the only one whose dotted name ends so; ValueError if there is no such."""
    package = Path(__file__).resolve().parents[1] / "convexstruct"
    found = sorted(package.rglob("*" + name.replace(".", "/") + ".py"))
    found = [file for file in found if f".{'.'.join(file.with_suffix('').parts)}".endswith(f".{name}")]
    if len(found) != 1:
        raise ValueError(f"{len(found)} modules are called {name!r}, wanted one")
    return importlib.import_module(".".join(("convexstruct", *found[0].relative_to(package).with_suffix("").parts)))


@contextmanager
def patched(patches: Mapping[str, Any]) -> Iterator[None]:
    """Replace the values of names, and restore them at the end; an unknown name raises an AttributeError."""
    before = []
    try:
        for path, value in patches.items():
            module, name = path.split(":")
            *owners, last = name.split(".")
            owner: Any = place(module)
            for each in owners:
                owner = getattr(owner, each)
            before.append((owner, last, getattr(owner, last)))
            setattr(owner, last, value)
        yield
    finally:
        for owner, last, value in reversed(before):
            setattr(owner, last, value)


def measure(study: Study, mechanism: Mechanism | None, repeats: int, limit: float) -> Figures:
    """The study without ``mechanism`` (None: as it is): the best of ``repeats`` runs of each instance, added."""
    each = [_measure(build, study, mechanism, repeats, limit) for build in study.builds]
    worst = max(each, key=lambda figures: figures.gap)
    seconds, rounds, calls = (sum(getattr(one, name) for one in each) for name in ADDED)
    return Figures(seconds, rounds, calls, worst.gap, worst.status)


def _measure(build: Callable[[], Any], study: Study, without: Mechanism | None, repeats: int, limit: float) -> Figures:
    import convexstruct as cs

    without, runs = without or Mechanism(""), []
    for _ in range(repeats):
        problem = build()  # anew: what a run leaves cached on a problem would help the next
        solver = replace(study.solver, **without.options)
        with patched(without.patches):
            if isinstance(solver, Oracle):
                runs.append(solver.measure(problem, study.tol))
                continue
            begin = time.process_time()
            solution = cs.solve(problem, solver, study.tol, time_limit=limit)
            seconds = time.process_time() - begin
        calls = solution.trace.oracle_calls[-1] if solution.trace.oracle_calls else 0
        status = solution.status.name
        seconds = seconds if status == "OPTIMAL" else math.inf
        runs.append(Figures(seconds, solution.iterations, calls, solution.gap, status))
        if math.isinf(seconds):
            break  # another run would most likely take the whole limit too
    return min(runs, key=lambda figures: figures.seconds)


def ratio(without: float, as_is: float) -> float:
    return without / as_is if as_is else math.nan


def moved(without: Figures, as_is: Figures) -> bool:
    """Whether the mechanism changes time, rounds or calls by `MATTERS`, or whether the gap is met at all."""
    ratios = (ratio(getattr(without, name), getattr(as_is, name)) for name in ADDED)
    return any(not 1 - MATTERS < each < 1 + MATTERS for each in ratios)


def run(study: Study, only: Sequence[str] | None, repeats: int, limit: float) -> dict[str, Figures]:
    """Print a row a variant as it is measured; figures by mechanism, "" is the solver as it is."""
    print(f"\n{study.name}: {type(study.solver).__name__} to {study.tol:.0e}")
    print(f"{'without':<44}{'CPU s':>8}{'ratio':>7}{'rounds':>8}{'ratio':>7}{'calls':>8}{'ratio':>7}{'gap':>9}  status")
    _measure(study.builds[0], study, None, 1, limit)  # warm: imports and caches
    found: dict[str, Figures] = {}
    for mechanism in (None, *(each for each in study.mechanisms if not only or each.name in only)):
        figures = measure(study, mechanism, repeats, limit)
        name = "" if mechanism is None else mechanism.name
        found[name] = figures
        first = found[""]
        print(
            f"{name or 'nothing (as it is)':<44}{figures.seconds:>8.2f}{ratio(figures.seconds, first.seconds):>7.2f}"
            f"{figures.rounds:>8}{ratio(figures.rounds, first.rounds):>7.2f}"
            f"{figures.calls:>8}{ratio(figures.calls, first.calls):>7.2f}{figures.gap:>9.1e}  {figures.status}",
            flush=True,
        )
    return found


def verdicts(found: Mapping[str, Mapping[str, Figures]]) -> tuple[list[str], list[str]]:
    """The mechanisms that move nothing in any study, and those without which every study takes less time and calls."""
    pairs: dict[str, list[tuple[Figures, Figures]]] = {}
    for figures in found.values():
        for name, without in figures.items():
            if name:
                pairs.setdefault(name, []).append((without, figures[""]))
    idle = [name for name, each in pairs.items() if not any(moved(*pair) for pair in each)]
    harmful = [
        name
        for name, each in pairs.items()
        if name not in idle and all(a.seconds < b.seconds and a.calls < b.calls for a, b in each)
    ]
    return idle, harmful


def main(arguments: Sequence[str] | None = None, known: Sequence[Study] | None = None) -> int:
    known = studies() if known is None else known
    names = [study.name for study in known]
    parser = argparse.ArgumentParser(description="Each mechanism of a solver switched off.")
    parser.add_argument("--only", nargs="+", choices=names, metavar="STUDY", help=f"some of: {', '.join(names)}")
    parser.add_argument("--mechanism", nargs="+", metavar="NAME", help="some mechanisms, by their names in the table")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"runs of each; default {REPEATS}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"limit of one run; default {SECONDS:g}")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    chosen = parser.parse_args(arguments)
    if chosen.repeats < 1 or not chosen.seconds > 0:
        parser.error("--repeats and --seconds are wanted above 0")
    every = {mechanism.name for study in known for mechanism in study.mechanisms}
    for name in chosen.mechanism or ():
        if name not in every:
            parser.error(f"no mechanism is called {name!r}, wanted some of: {', '.join(sorted(every))}")
    found = {
        study.name: run(study, chosen.mechanism, chosen.repeats, chosen.seconds)
        for study in known
        if not chosen.only or study.name in chosen.only
    }
    idle, harmful = verdicts(found)
    print(f"\nmoves nothing by {MATTERS:.0%} here: {', '.join(idle) or 'none'}")
    print(f"every study is faster without: {', '.join(harmful) or 'none'}")
    if chosen.json:
        rows = [
            {"study": study, "without": name, **{key: _finite(value) for key, value in vars(each).items()}}
            for study, figures in found.items()
            for name, each in figures.items()
        ]
        chosen.json.write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n")
    return 0


def _finite(value: Any) -> Any:
    """``value`` for JSON, in which inf and NaN are null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    from benchmarks import ablation  # under its own name: its classes are those of the studies

    raise SystemExit(ablation.main())
