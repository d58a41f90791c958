"""Workload `structured_svm_cuts`: minimum cuts of binary grids beside HiGHS and, where it is installed, PyMaxflow.

    python benchmarks/structured_svm_cuts.py [--quick] [--only NAME ...] [--seconds LIMIT] [--json FILE]

Best labellings of associative grids are what a structural SVM on images asks for in every iteration. HiGHS solves the
compact program min a'y + sum_e k_e (p_e + q_e), y_u - y_v = p_e - q_e, 0 <= y <= 1, in the form in which it is fastest,
until its time is up. Every run is a process of its own; short solves are repeated and the fastest counts, for all
alike. The labelling of each solver is scored from the tables, and its gap is against the bound that our flow proves.
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import LEFT_OUT, Launcher, Run, Session, cell, child, launch, memory, opened, options, within
from benchmarks.tables import new_table

# NumPy and the package are imported where they are needed: see `benchmarks.measure`.
if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from convexstruct.oracles.loopy.pairwise import Pairwise

CUT, HIGHS, MAXFLOW = "minimum cut", "HiGHS", "PyMaxflow"
#: Seconds given to each solver; HiGHS checks its limit only between steps, which may be long.
LIMITS = {CUT: 60.0, HIGHS: 120.0, MAXFLOW: 60.0}
BUDGET, QUICK_BUDGET, QUICK_LIMIT = 600.0, 40.0, 10.0
#: When each stops.
RULES = {
    CUT: "ends at the exact minimum cut; its own flow is the bound",
    HIGHS: "its own rule, at its default tolerances (1e-7); its labelling is scored from the tables",
    MAXFLOW: "ends at the exact minimum cut; its labelling is scored from the tables",
}
#: The minimum cut is to be this many times faster than HiGHS, on large "noise" and elsewhere, and than PyMaxflow.
RATIO_NOISE, RATIO, MAXFLOW_RATIO = 15.0, 10.0, 0.5
#: What bounds the minimum cut where it misses them.
BOUND = "SciPy's compiled maximum flow (Dinic) takes two thirds of the time at 100 x 100, five sixths at 500 x 500"
#: A solve is repeated until this many seconds have gone, and the fastest counts.
REPEAT = 0.3
#: Two optima agree within this, relative.
AGREE = 1e-6


@dataclass(frozen=True)
class CutWorkload:
    """A grid of side x side nodes and two labels.

    kind : "image", two regions under noise of 1.5 times their difference; "noise", no regions at all, the hard case.
    weight : score of each pair of neighbours that agree.
    """

    side: int = 100
    kind: str = "image"
    weight: float = 1.0
    tol: float = AGREE

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.side}"

    def tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evidence a (P,) against label 1, edges (Q, 2), weights (Q,)."""
        import numpy as np

        rng = np.random.default_rng(0)
        nodes = np.arange(self.side**2).reshape(self.side, self.side)
        across = np.column_stack((nodes[:, :-1].ravel(), nodes[:, 1:].ravel()))
        edges = np.concatenate((across, np.column_stack((nodes[:-1].ravel(), nodes[1:].ravel()))))
        a = rng.normal(size=self.side**2)
        if self.kind == "image":
            row, column = np.divmod(np.arange(self.side**2), self.side)
            inside = np.sin(9 * column / self.side) + np.cos(7 * row / self.side) > 0
            a = 1.5 * a + np.where(inside, -1.0, 1.0)
        return a, edges, np.full(len(edges), self.weight)


#: Small ones first: what is left out when time runs out is the largest.
WORKLOADS = [CutWorkload(side, kind) for side in (30, 100, 500) for kind in ("image", "noise")]
QUICK = ("image-30", "noise-30", "image-100", "noise-100")
START = functools.partial(launch, __file__)

# -- in the child ------------------------------------------------------------------------------------------------------


def measure(workload: CutWorkload, solver: str, limit: float) -> Iterator[dict[str, Any]]:
    """Solve; yield seconds, the score of the labelling found, and its gap to the bound that our flow proves."""
    import numpy as np

    from convexstruct.core.certificates import relative_gap
    from convexstruct.oracles.loopy.minimum_cut import minimum_cut
    from convexstruct.oracles.loopy.pairwise import pairwise

    a, edges, weight = workload.tables()
    node = (a[:, None] * [0.0, -1.0]).astype(float)
    solve = {CUT: _cut, HIGHS: _highs, MAXFLOW: _maxflow}[solver](a, edges, weight, limit)
    yield {"before": memory()}
    seconds, rounds, labels = math.inf, 0, None
    begin = time.perf_counter()
    while rounds == 0 or time.perf_counter() - begin < min(REPEAT, limit):
        started = time.perf_counter()
        labels = solve()
        seconds, rounds = min(seconds, time.perf_counter() - started), rounds + 1
        if labels is None:
            break
    yield {"seconds": seconds, "rounds": rounds, "peak": memory()}
    if labels is None:
        yield {"status": "TIME_LIMIT"}
        return
    scores: Pairwise = pairwise(node, edges, weight[:, None, None] * np.eye(2))
    value, upper = float(scores.score(labels)[0]), float(minimum_cut(scores).upper[0])
    gap = relative_gap(-value, -upper)
    yield from within(gap, seconds)
    yield {"gap": gap, "value": value, "status": "OPTIMAL" if gap <= workload.tol else "STOPPED"}


def _cut(a: np.ndarray, edges: np.ndarray, weight: np.ndarray, limit: float) -> Callable[[], np.ndarray | None]:
    import numpy as np

    from convexstruct.oracles.loopy.minimum_cut import minimum_cut
    from convexstruct.oracles.loopy.pairwise import pairwise

    node = a[:, None] * [0.0, -1.0]
    return lambda: minimum_cut(pairwise(node, edges, weight[:, None, None] * np.eye(2))).labels


def _highs(a: np.ndarray, edges: np.ndarray, weight: np.ndarray, limit: float) -> Callable[[], np.ndarray | None]:
    import numpy as np
    import scipy.sparse as sp
    from scipy.optimize import linprog

    count = len(edges)
    entries = (np.tile([1.0, -1.0], count), (np.repeat(np.arange(count), 2), edges.ravel()))
    one = sp.eye_array(count)
    equations = sp.block_array([[sp.csr_array(entries, shape=(count, len(a))), -one, one]]).tocsr()
    objective = np.concatenate((a, weight, weight))

    def solve() -> np.ndarray | None:
        options = {"time_limit": limit}
        found = linprog(objective, A_eq=equations, b_eq=np.zeros(count), bounds=(0, 1), method="highs", options=options)
        return (found.x[: len(a)] > 0.5).astype(np.int64) if found.status == 0 else None

    return solve


def _maxflow(a: np.ndarray, edges: np.ndarray, weight: np.ndarray, limit: float) -> Callable[[], np.ndarray | None]:
    import numpy as np

    maxflow: Any = importlib.import_module("maxflow")  # optional, and it has no types
    nodes = np.arange(len(a))

    def solve() -> np.ndarray | None:
        graph = maxflow.GraphFloat(len(a), len(edges))
        graph.add_nodes(len(a))
        graph.add_edges(edges[:, 0], edges[:, 1], weight, weight)
        graph.add_grid_tedges(nodes, np.maximum(a, 0.0), np.maximum(-a, 0.0))
        graph.maxflow()
        return np.asarray(graph.get_grid_segments(nodes), dtype=np.int64)

    return solve


# -- in the parent -----------------------------------------------------------------------------------------------------


def peers() -> list[str]:
    """What is installed to compare with."""
    from importlib.util import find_spec

    return [HIGHS, *([MAXFLOW] if find_spec("maxflow") else [])]


def run_cuts(session: Session, workloads: Sequence[CutWorkload], console: Console) -> None:
    """Minimum cuts beside the peers, and whether they reach their goals (`_verdict`)."""
    table = new_table(
        "Best labellings of binary grids", "workload", "solver", "seconds", "ratio", "score", "gap to our bound",
        "peak MiB", "goal",
    )  # fmt: skip
    for workload in workloads:
        runs = {solver: session("cuts", workload, solver) for solver in (CUT, *peers())}
        ours = runs[CUT]
        for solver, run in runs.items():
            ended = math.isfinite(run.gap)
            mark = "" if ended else "> "
            ratio = math.nan if run is ours or run.trouble else run.seconds / ours.seconds
            table.add_row(
                workload.name if run is ours else "", solver, run.trouble or mark + cell(run.seconds, ".4f"),
                "" if run is ours else mark + cell(ratio, ".3g"), cell(run.value, ".6f"), cell(run.gap, ".1e"),
                cell(run.peak, ".0f"), _verdict(session, workload, runs) if run is ours else "",
            )  # fmt: skip
        table.add_section()
    console.print(table)


def _verdict(session: Session, workload: CutWorkload, runs: dict[str, Run]) -> str:
    """Faster than HiGHS by `RATIO` or, on large noise, `RATIO_NOISE`, and of one optimum with all that ended; HiGHS
    stopped early gives a bound. On large noise `MAXFLOW_RATIO` times as fast as PyMaxflow, where it is installed."""
    ours, highs, noise = runs[CUT], runs[HIGHS], workload.kind == "noise" and workload.side >= 100
    least, bound = (RATIO_NOISE, BOUND) if noise else (RATIO, "")
    values = [run.value for run in runs.values() if math.isfinite(run.value)]
    agree = max(values, default=0.0) - min(values, default=0.0) <= AGREE * max(1.0, abs(max(values, default=0.0)))
    # a process that had to be ended reports no seconds, but it ran longer than its limit
    needed = highs.limit if highs.trouble.startswith("ended ") else highs.seconds
    ratio = needed / ours.seconds
    reached: bool | None = ratio >= least and ours.to(AGREE) < math.inf and agree
    unfinished = LEFT_OUT in (ours.trouble, highs.trouble) or not math.isfinite(highs.gap)
    if agree and not ratio >= least and unfinished:
        reached = None
    goal = f"{least:g} times faster than HiGHS, one optimum"
    words = session.judge(workload, goal, reached, "", bound, ratio=ratio, seconds=ours.seconds)
    if MAXFLOW in runs and noise:
        ratio = runs[MAXFLOW].seconds / ours.seconds
        fast = ratio >= MAXFLOW_RATIO if math.isfinite(ratio) else None
        goal = f"{MAXFLOW_RATIO:g} times as fast as PyMaxflow"
        words += ", " + session.judge(workload, goal, fast, "", BOUND, ratio=ratio, seconds=ours.seconds)
    return words


def main(arguments: Sequence[str] | None = None, launcher: Launcher = START) -> int:
    named = {workload.name: workload for workload in WORKLOADS}
    chosen = options("Minimum cuts of binary grids, as ratios.", list(named), BUDGET, QUICK_BUDGET, arguments)
    wanted = [named[name] for name in chosen.only or (QUICK if chosen.quick else named)]
    with opened(chosen, launcher, LIMITS, QUICK_LIMIT, rules=RULES) as (session, console):
        run_cuts(session, wanted, console)
    return 0


if __name__ == "__main__":
    child(CutWorkload, measure)
    sys.exit(main())
