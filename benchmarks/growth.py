"""Workload `growth`: how the seconds of each family's default grow with the number of examples N, their length, labels
and features: the power of each, fitted to three sizes, in one table.

    python benchmarks/growth.py [--quick] [--only NAME ...] [--json FILE]

Each run is a fresh process with one thread: generated data at the defaults of `benchmarks.defaults`, C or lam fixed, to
the profile MID. Seconds are the processor's, from the problem to the certificate. The goal is about N alone: where more
examples are as hard as fewer, a round costs N and the rounds stay. The other powers are measured, without a goal.

What bounds `unsupervised_margin` stands beside it (`BOUND`): no method that writes its matrix is linear in N.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.defaults import Box, Ring, Risk, Symbols, chains, field, kernel, trees
from benchmarks.measure import CERTIFIED, Launcher, Session, cell, child, launch, opened, options
from benchmarks.tables import new_table, slope

DEFAULT, BOXES = "default", "of boxes"
#: Growth up to this power of N counts as linear.
LINEAR = 1.1
#: Seconds for a run, and for everything.
LIMIT, BUDGET, QUICK_LIMIT, QUICK_BUDGET = 120.0, 800.0, 20.0, 55.0
#: The accuracy, and its gap.
PROFILE, GAP = "MID", 1e-4
#: When each stops.
RULES = {DEFAULT: CERTIFIED, BOXES: "exact: stops where <s, a> is z up to rounding; certified then"}
START = functools.partial(launch, __file__)
#: The size that has the goal.
EXAMPLES = "N"
#: What bounds the unsupervised margin, by the mathematics.
BOUND = "its variable is a matrix of N T rows and columns, N sequences of length T: products of these grow by N^3"
#: By family and size that grows: three of it, and the problem of one.
SIZES: Mapping[str, Mapping[str, tuple[tuple[int, int, int], Callable[[int], Any]]]] = {
    "structured_svm": {
        EXAMPLES: ((125, 500, 2000), lambda n: chains(n, 20, 8)),
        "length": ((10, 40, 160), lambda n: chains(100, n, 8)),
        "labels": ((4, 12, 36), lambda n: chains(100, 10, n)),
        "features": ((15, 30, 60), lambda n: chains(100, 20, 8, n)),
        "N, trees": ((20, 80, 320), lambda n: trees(n, 12, 5)),
    },
    "generative_margin": {
        EXAMPLES: ((50, 200, 800), lambda n: Ring(n).build()),
        "length": ((25, 50, 100), lambda n: Ring(length=n).build()),
        "labels": ((5, 10, 20), lambda n: Ring(states=n).build()),
    },
    "regularized_risk": {
        EXAMPLES: ((5000, 20_000, 80_000), lambda n: Risk(n=n, d=50).build()),
        "features": ((50, 100, 200), lambda n: Risk(d=n).build()),
        "labels": ((5, 10, 20), lambda n: Risk(d=50, loss="multiclass", classes=n).build()),
    },
    "log_linear": {
        EXAMPLES: ((50, 200, 800), lambda n: field(n, 20, 8)),
        "length": ((5, 20, 80), lambda n: field(100, n, 8)),
        "labels": ((4, 12, 36), lambda n: field(100, 20, n)),
    },
    "gaussian_process": {
        EXAMPLES: ((10, 20, 40), lambda n: kernel(n, 20, 1.0)),
        "length": ((10, 20, 40), lambda n: kernel(20, n, 1.0)),
    },
    "projection": {
        EXAMPLES: ((10, 20, 40), lambda n: Box("chains", n, labels=10).chains()),
        "labels": ((5, 10, 20), lambda n: Box("chains", 20, labels=n).chains()),
        "N, boxes": ((100_000, 1_000_000, 10_000_000), lambda n: Box("bias", n).box()),
    },
    "unsupervised_margin": {
        EXAMPLES: ((5, 7, 10), lambda n: Symbols(n, 8).problem()),
        "labels": ((2, 3, 4), lambda n: Symbols(5, 8, n).problem()),
    },
}


@dataclass(frozen=True)
class Workload:
    """A family's problem of one size."""

    family: str
    grows: str
    size: int
    tol: float = GAP

    @property
    def name(self) -> str:
        return f"{self.family}, {self.grows} {self.size}"


def measure(workload: Workload, solver: str, limit: float) -> Iterator[dict[str, Any]]:
    """Processor seconds of the default to the profile; none where it ends otherwise."""
    import convexstruct as cs

    sizes, made = SIZES[workload.family][workload.grows]
    cs.solve(made(sizes[0]), tol=PROFILE, time_limit=limit)  # imports, and what libraries prepare, are not of the size
    problem = made(workload.size)
    begin = time.process_time()
    solution = cs.solve(problem, tol=PROFILE, time_limit=limit)
    seconds = time.process_time() - begin
    yield {"seconds": seconds, "gap": solution.gap, "status": solution.status.name, "rounds": solution.iterations}
    if solution.status.name == "OPTIMAL":
        yield {"reached": [GAP, seconds]}


def growth(session: Session, families: Sequence[str], quick: bool) -> Any:
    """The table: a row for each family and size that grows, with the verdict on N."""
    head = ("workload", "what grows", "sizes", "seconds", "rounds", "power", "goal")
    table = new_table("Seconds of the default to MID, and the power of what grows", *head)
    for family in families:
        for grows, (sizes, _) in SIZES[family].items():
            runs = [session(family, Workload(family, grows, n), DEFAULT) for n in (sizes[:2] if quick else sizes)]
            seconds = [run.to(GAP) for run in runs]
            power, words = slope([each.workload.size for each in runs], seconds), ""
            if grows.startswith(EXAMPLES):
                reached = None if quick or not all(map(math.isfinite, seconds)) else power <= LINEAR
                said = f"power of N at most {LINEAR:g}"
                bound = BOUND if family == "unsupervised_margin" else ""
                words = session.judge(Workload(family, grows, sizes[-1]), said, reached, "", bound, power=power)
            table.add_row(
                family, grows, ", ".join(f"{run.workload.size:g}" for run in runs),
                ", ".join(cell(each, ".3g") for each in seconds), ", ".join(str(run.rounds) for run in runs),
                cell(power, ".2f"), words,
            )  # fmt: skip
        table.add_section()
    return table


def main(arguments: Sequence[str] | None = None, launcher: Launcher = START) -> int:
    chosen = options("How the defaults grow.", tuple(SIZES), BUDGET, QUICK_BUDGET, arguments)
    with opened(chosen, launcher, {}, QUICK_LIMIT, (), LIMIT, rules=RULES, wall=False) as (session, console):
        console.print(growth(session, chosen.only or tuple(SIZES), chosen.quick))
    return 0


if __name__ == "__main__":
    child(Workload, measure)
    sys.exit(main())
