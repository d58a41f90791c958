"""Workload `regularized_risk`: the fast default, liblinear and Clarabel in one run.

    python benchmarks/regularized_risk.py [--quick] [--only NAME ...] [--seconds LIMIT] [--json FILE]

Every run is a fresh process with one thread. Each solver first solves a small problem, so that imports and the first
calls of BLAS are not timed. Ours are timed to a certified gap. liblinear (scikit-learn's LinearSVC, if it is installed)
returns neither a certificate nor the history of its objective, so two ratios are printed. The goal is a ratio to the
run that its own stopping rule ends at tol=1e-3, as its users run it. The other is to its best: it is run anew with
more and more iterations allowed, the objective of each run is compared with the lower bound that the fast default has
certified, and its time to a gap is that of its fastest run within it, as if the right number of iterations were known
beforehand. C is that of liblinear: lam = 1 / (C n), by default 1. Paper 2 takes the lam with the best accuracy on
validation rows, so each set is also solved at that.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks import liblinear
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
    is_here,
    launch,
    memory,
    opened,
    options,
    watched,
)
from benchmarks.tables import gap_table, new_table

if TYPE_CHECKING:
    from rich.console import Console

    from convexstruct.families.regularized_risk import RegularizedRisk

FAST, LIBLINEAR, OWN, CLARABEL = "fast default", "liblinear", "liblinear, tol=1e-3", "Clarabel"
#: Seconds given to each.
LIMITS = {FAST: 20.0, LIBLINEAR: 30.0, OWN: 30.0, CLARABEL: 120.0}
#: When each stops. C is 1 (liblinear's default and ours), 10, 100, and the one of best accuracy on validation rows.
RULES = {
    FAST: CERTIFIED,
    OWN: "stops by its own rule, at tol=1e-3 (LinearSVC's default is 1e-4), and counts as that far",
    LIBLINEAR: "stopped after 1, 2, 5, ... iterations; its fastest run within a gap of our certified bound counts",
    CLARABEL: INTERIOR,
}
BUDGET = 780.0
QUICK_LIMIT, QUICK_BUDGET = 4.0, 55.0
#: liblinear's time to 1e-3 over ours to 1e-6; Clarabel's over ours to 1e-6.
LIBLINEAR_RATIO, CLARABEL_RATIO = 4.0, 25.0
#: With 50 classes: liblinear's time to 1e-6 over ours; with others, and on wide and on many short rows.
CLASSES_RATIO, SOONER_RATIO = 3.0, 1.0
#: On sparse sets: ours to 1e-3 over liblinear's to 1e-3, and seconds to 1e-6.
SPARSE_RATIO, SPARSE_SECONDS = 5.0, 2.0
SECTIONS = ("liblinear", "sparse", "classes", "wide", "clarabel")


#: Sets that are not generated: their sizes are their own.
REAL_DATA = ("a9a", "digits", "scaled-digits")


@dataclass(frozen=True)
class Workload:
    """A generated or real set, its loss, and C.

    data : "dense" (n x d, decaying spectrum), "sparse" (n rows of some ``words`` of d), "a9a" (32,561 x 123), "digits"
    (scikit-learn's 1,797 pictures of 8 x 8, pixels of 0 to 16) or "scaled-digits" (pixels of mean 0 and variance 1).
    loss : "binary", "bias", "multiclass", "multilabel" or "ordinal"; the last three of labels drawn from a planted w.
    """

    data: str = "dense"
    n: int = 5000
    d: int = 200
    C: float = 1.0
    loss: str = "binary"
    words: int = 60
    classes: int = 5
    tol: float = 1e-6

    @property
    def name(self) -> str:
        size = "" if self.data in REAL_DATA else f"-{self.n}x{self.d}"
        size += "" if self.classes == 5 or self.data in REAL_DATA else f"x{self.classes}"
        return f"{self.data}{size}-C{self.C:.3g}" + ("" if self.loss == "binary" else f"-{self.loss}")

    def rows(self) -> tuple[Any, Any]:
        """(X, y), y the classes for "multiclass", else -1 and +1."""
        from convexstruct import datasets
        from convexstruct.datasets.generated.margins import dense_margins, sparse_margins

        if self.data == "a9a":
            people = datasets.a9a()
            return people.features, people.labels
        if self.data.endswith("digits"):
            return liblinear.digits(scaled=self.data == "scaled-digits")
        if self.data == "sparse":
            made = sparse_margins(self.n, self.d, words=self.words)
        else:
            made = dense_margins(self.n, self.d)
        if self.loss == "multiclass":
            return made.features, self._scores(made.features).argmax(axis=1)
        return made.features, made.labels

    def _scores(self, X: Any) -> Any:
        """(n, classes) those of a planted w, with noise."""
        import numpy as np

        rng = np.random.default_rng(1)
        scores = np.asarray(X @ rng.normal(size=(X.shape[1], self.classes)))
        return scores + 0.3 * scores.std() * rng.normal(size=scores.shape)

    def build(self) -> RegularizedRisk:
        import numpy as np

        from convexstruct.families.regularized_risk import RegularizedRisk

        X, y = self.rows()
        lam = 1.0 / (self.C * X.shape[0])
        if self.loss in ("binary", "bias"):
            return RegularizedRisk.binary(X, y, lam, bias=self.loss == "bias")
        if self.loss == "multiclass":
            return RegularizedRisk.multiclass(X, y, lam)
        scores = self._scores(X)
        if self.loss == "multilabel":
            return RegularizedRisk.multilabel(X, scores > 0, lam)
        levels = np.digitize(scores[:, 0], np.quantile(scores[:, 0], (0.2, 0.4, 0.6, 0.8)))
        return RegularizedRisk.ordinal(X, levels, lam)


DENSE, REAL, SPARSE = Workload(), Workload("a9a", 32_561, 123), Workload("sparse", 20_000, 5000)
STRENGTHS = (1.0, 10.0, 100.0)
AGAINST_LIBLINEAR = [replace(work, C=C) for work in (DENSE, REAL) for C in STRENGTHS]
AT_DEFAULT = (DENSE, REAL)
#: What the ablations solve too.
LOSSES = [replace(DENSE, loss=loss) for loss in ("bias", "multiclass", "multilabel", "ordinal")]
#: Crammer and Singer's loss with many classes.
CLASSES = replace(DENSE, d=50, loss="multiclass", classes=50)
#: Nearly separable real classes.
DIGITS = [Workload(data, 1797, 64, loss="multiclass", classes=10) for data in ("digits", "scaled-digits")]
#: More features than examples, 320 MB; and many short rows.
WIDE = (replace(DENSE, n=2000, d=20_000), Workload("sparse", 200_000, 50_000, words=20))
#: What bounds the ratio of a workload, as it was measured: milliseconds of the processor.
BOUNDS = {
    DENSE.name: "22 Newton directions in BLAS and LAPACK take 17 of 37 ms, and 35 products with all of X, 8 MB, 10; "
    "liblinear's own run takes 80, so that 20 are left for all of it",
    REAL.name: "34 Newton directions, SciPy's sparse products and one Cholesky factor each, take 67 of 122 ms, and 33 "
    "products with all of X 20; liblinear's own run takes 165, so that 41 are left for all of it",
    CLASSES.name: "44 Newton directions by 541 steps of conjugate gradients take 500 of 940 ms, each step a "
    "product of BLAS with the rows of each class, forward and back; 215 projections onto 5,000 simplices take a sixth",
}
START = functools.partial(launch, __file__)


# -- in the child ------------------------------------------------------------------------------------------------------


def measure(workload: Workload, solver: str, limit: float) -> Iterator[dict[str, Any]]:
    """Solve; yield figures before, at each gap reached, and at the end. A process that is ended early loses no line."""
    warm_up(solver)
    begin = time.perf_counter()
    if solver in (LIBLINEAR, OWN):
        X, y = workload.rows()
        yield {"before": memory(), "build_seconds": time.perf_counter() - begin}
        ladder = liblinear.LADDER if solver == LIBLINEAR else (liblinear.OWN_MOST,)
        yield from liblinear.runs(X, y, workload.C, limit, ladder, 1e-12 if solver == LIBLINEAR else liblinear.OWN_TOL)
    else:
        problem = workload.build()
        yield {"before": memory(), "build_seconds": time.perf_counter() - begin}
        yield from (
            by_clarabel("regularized_risk.primal", problem, workload.tol, limit, compiled=True)
            if solver == CLARABEL
            else _own(problem, workload.tol, limit)
        )
    yield {"peak": memory()}


def warm_up(solver: str) -> None:
    """Import what the solver needs, and solve something small with it."""
    small = replace(DENSE, n=1000, d=100)
    if solver in (LIBLINEAR, OWN):
        for _ in liblinear.runs(*small.rows(), 1.0, 1.0, (1, 2), 1e-3):
            pass
    elif solver == CLARABEL:
        from convexstruct.models.regularized_risk.risk import primal

        primal(small.build()).solve("CLARABEL", 1e-2, time_limit=5.0)
    else:
        from convexstruct.core.driver import solve

        solve(small.build(), None, 1e-6, time_limit=5.0)


def _own(problem: RegularizedRisk, tol: float, limit: float) -> Iterator[dict[str, Any]]:
    """The fast default; then the reference for liblinear, a bound ten times finer than asked for."""
    from convexstruct.core.driver import solve

    yield from watched(problem, None, tol, limit)
    yield {"value": solve(problem, None, 0.1 * tol, time_limit=limit).lower_bound}


# -- in the parent -----------------------------------------------------------------------------------------------------


def against_liblinear(session: Session, section: str, workload: Workload, *peers: str) -> tuple[Run, ...]:
    """The fast default, then liblinear, in the ways of ``peers``, against the bound that it certified."""
    fast = session(section, workload, FAST)
    os.environ["CONVEXSTRUCT_OPTIMUM"] = repr(fast.value)
    try:
        return fast, *(session(section, workload, peer) for peer in peers)
    finally:
        del os.environ["CONVEXSTRUCT_OPTIMUM"]


def time_of(peer: Run, gap: float) -> tuple[float, bool]:
    """(seconds to ``gap``, whether it was reached); not reached: the seconds of the longest run that did not."""
    seconds = peer.reached.get(gap, math.inf)
    return (seconds, True) if math.isfinite(seconds) else (peer.seconds, False)


def validated(workload: Workload) -> float:
    """The C that paper 2's rule gives: 1 / (lam n), lam that of the best accuracy on validation rows."""
    from convexstruct.families.regularized_risk.experiments.svm_paths import HeldOut
    from convexstruct.families.regularized_risk.experiments.svm_solvers import Split, choose_lam

    X, y = workload.rows()
    lam, _ = choose_lam(Split(workload.name, X, y, HeldOut(X[:0], y[:0])), seed=0)
    return 1.0 / (lam * float(X.shape[0]))


def at_validated(workloads: Sequence[Workload]) -> list[Workload]:
    """The same with those C, found in a process of its own: this one's peak memory is part of its children's."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return [replace(work, C=C) for work, C in zip(workloads, pool.map(validated, workloads))]


def run_liblinear(session: Session, workloads: Sequence[Workload], console: Console) -> None:
    """Dense sets and a9a: liblinear to its own 1e-3, and at best, beside the fast default to a certified 1e-6."""
    table = gap_table("Seconds to a gap: certified (fast default), of the objective (liblinear)", "goal")
    goal = f"1e-6 {LIBLINEAR_RATIO:g}x sooner than its 1e-3"
    for workload in workloads:
        fast, own, peer = against_liblinear(session, "liblinear", workload, OWN, LIBLINEAR)
        seconds, ended = time_of(peer, 1e-3)
        best, ratio = seconds / fast.to(1e-6), own.seconds / fast.to(1e-6)
        reached = None if fast.trouble or own.trouble else ratio >= LIBLINEAR_RATIO
        bound = BOUNDS.get(workload.name, "")
        words = session.judge(workload, goal, reached, "", bound, ratio=ratio, best=best, liblinear_never=peer.gap)
        said = f"{cell(ratio, '.3g')}x; {words}\nat its best {'' if ended else '> '}{cell(best, '.3g')}x"
        _rows(table, workload, fast, own, peer, said=said)
    console.print(table)


def run_sparse(session: Session, workloads: Sequence[Workload], console: Console) -> None:
    """Sparse sets: within a factor of liblinear to 1e-3, and a certified 1e-6 within seconds."""
    table = gap_table("Seconds to a gap on sparse sets", "goal")
    for workload in workloads:
        fast, peer = against_liblinear(session, "sparse", workload, LIBLINEAR)
        seconds, ended = time_of(peer, 1e-3)
        ratio = fast.to(1e-3) / seconds
        known = not (fast.trouble or peer.trouble)
        first = (ratio <= SPARSE_RATIO or (None if not ended else False)) if known else None
        near = session.judge(workload, f"1e-3 within {SPARSE_RATIO:g}x its time", first, ratio=ratio)
        second = None if fast.trouble else fast.to(1e-6) <= SPARSE_SECONDS
        fine = session.judge(workload, f"1e-6 in {SPARSE_SECONDS:g} s", second, seconds=fast.to(1e-6))
        said = f"{cell(ratio, '.2g')}x; {near}\n{fine}"
        _rows(table, workload, fast, peer, said=said)
    console.print(table)


def run_sooner(session: Session, section: str, workloads: Sequence[Workload], console: Console) -> None:
    """Many classes, more features than examples, and many short rows: a certified 1e-6 sooner than liblinear's
    objective is within 1e-6 of the bound. With many classes liblinear is Crammer and Singer's, by falling tol."""
    table = gap_table(f"Seconds to a gap: {section}", "goal")
    for workload in workloads:
        wanted = CLASSES_RATIO if workload == CLASSES else SOONER_RATIO
        goal = "1e-6 sooner than liblinear" if wanted == 1.0 else f"1e-6 {wanted:g}x sooner than liblinear"
        fast, peer = against_liblinear(session, section, workload, LIBLINEAR)
        seconds, ended = time_of(peer, 1e-6)
        ratio = seconds / fast.to(1e-6)
        reached = None if fast.trouble or peer.trouble or not (ratio >= wanted or ended) else ratio >= wanted
        said = session.judge(workload, goal, reached, "", BOUNDS.get(workload.name, ""), ratio=ratio)
        _rows(table, workload, fast, peer, said=said)
    console.print(table)


def _rows(table: Any, workload: Workload, fast: Run, *peers: Run, said: str) -> None:
    for run in (fast, *peers):
        cells = [
            run.trouble or (f"{run.reached[gap]:.3f}" if gap in run.reached else f"> {cell(run.seconds, '.3g')}")
            for gap in GAPS
        ]
        tail = [cell(run.gap, ".1e"), cell(run.peak, ".0f"), cell(run.before, ".0f")]
        table.add_row(workload.name if run is fast else "", run.solver, *cells, said if run is fast else "", *tail)
    table.add_section()


def run_clarabel(session: Session, workloads: Sequence[Workload], console: Console) -> None:
    """Clarabel, through CVXPY on the primal, beside the fast default; its compilation is not counted."""
    table = new_table("Against Clarabel, to 1e-6", "workload", "solver", "1e-06", "final gap", "peak MiB", "before")
    goal = f"{CLARABEL_RATIO:g} times faster than Clarabel to 1e-6"
    lines = []
    for workload in workloads:
        fast, peer = session("clarabel", workload, FAST), session("clarabel", workload, CLARABEL)
        for run in (fast, peer):
            time_ = run.trouble or (f"{run.to(1e-6):.4f}" if math.isfinite(run.to(1e-6)) else f"> {run.seconds:.3g}")
            tail = [cell(run.gap, ".1e"), cell(run.peak, ".0f"), cell(run.before, ".0f")]
            table.add_row(workload.name if run is fast else "", run.solver, time_, *tail)
        ended = math.isfinite(peer.seconds)
        ratio = (peer.seconds if ended else peer.limit) / fast.to(1e-6)
        reached = None if LEFT_OUT in (fast.trouble, peer.trouble) else ratio >= CLARABEL_RATIO
        words = session.judge(workload, goal, reached, ratio=ratio)
        lines.append(f"{workload.name}: {cell(ratio, '.3g')} times faster; {words}")
    console.print(table)
    for line in lines:
        console.print(line)


def main(arguments: Sequence[str] | None = None, launcher: Launcher = START) -> int:
    said = "Speed and memory of the regularized_risk solvers, as ratios."
    chosen = options(said, SECTIONS, BUDGET, QUICK_BUDGET, arguments)
    wanted = chosen.only or SECTIONS
    about = ("cvxpy", "clarabel")
    with opened(chosen, launcher, LIMITS, QUICK_LIMIT, about, rules=RULES) as (session, console):
        real = is_here("a9a", session)

        def fitting(workloads: Sequence[Workload]) -> list[Workload]:
            """Those whose data are here; small ones with --quick."""
            kept = [work for work in workloads if real or work.data != "a9a"]
            if not chosen.quick:
                return kept
            small = (
                replace(work, n=min(work.n, 1000), d=min(work.d, 50)) for work in kept if work.data not in REAL_DATA
            )
            return list(dict.fromkeys(small))[:1]

        if {"liblinear", "sparse", "classes", "wide"} & set(wanted) and session.has("sklearn", LIBLINEAR):
            if "liblinear" in wanted:
                works = fitting(AGAINST_LIBLINEAR)
                works += [] if chosen.quick else at_validated(fitting(AT_DEFAULT))
                run_liblinear(session, works, console)
            if "sparse" in wanted:
                run_sparse(session, fitting([replace(SPARSE, C=C) for C in STRENGTHS]), console)
            if "classes" in wanted:
                run_sooner(session, "classes", fitting([CLASSES, *DIGITS]), console)
            if "wide" in wanted:
                run_sooner(session, "wide", fitting(WIDE), console)
        if "clarabel" in wanted:
            run_clarabel(session, fitting(AT_DEFAULT), console)
    return 0


if __name__ == "__main__":
    child(Workload, measure)
    sys.exit(main())
