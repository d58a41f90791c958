"""Workload `structured_svm`: the fast default beside Clarabel on the marginal QP and dlib's one-slack solver; text.

    python benchmarks/structured_svm.py [--quick] [--only NAME ...] [--seconds LIMIT] [--json FILE]

Every run is a fresh process with one thread, so its peak memory is its own. A time is the moment at which the bounds
first met within a gap; it counts only if `certify`, asked at the end, confirms the bounds. dlib computes no bound: it
is timed to its own stopping rule, and the fast default until its objective is at most the one that dlib ended with.
CRFsuite on `text` computes none either; goals there are shares of its seconds and memory, with C = 1 an example, and
its F1, with the default C of `ChainTagger`; and shares of its seconds on `noisy` text, which stands for short messages:
half of its words occur once.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import (
    CERTIFIED,
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
from benchmarks.tables import gap_rows, gap_table, new_table, shown

# NumPy and the package are imported where they are needed: see `benchmarks.measure`.
if TYPE_CHECKING:
    from rich.console import Console

    from convexstruct.families.structured_svm import StructuredSVM

FAST, CUTS, FRANK_WOLFE, CLARABEL, DLIB = "fast default", "n-slack", "block Frank-Wolfe", "marginals, Clarabel", "dlib"
CRFSUITE = "CRFsuite"
LIMITS = {FAST: 30.0, CUTS: 20.0, FRANK_WOLFE: 20.0, CLARABEL: 300.0, DLIB: 120.0, CRFSUITE: 1200.0}
#: When each stops. C is 1 an example, but beside dlib, which has no default: 0.1 there.
RULES = dict.fromkeys((FAST, CUTS, FRANK_WOLFE), CERTIFIED) | {
    CLARABEL: INTERIOR,
    DLIB: "stops when its cutting planes are within epsilon = 1e-3 (its default); ours when its objective is no higher",
    CRFSUITE: "L-BFGS at its default penalty (c2 = 1), by its own rule: |gradient| <= 1e-5 |w|, or ten rounds that "
    "lower its objective by less than 1e-5, relative; ours has C = 1 an example, for F1 the default of `ChainTagger`",
}
#: Seconds for everything; what is not started by then is reported as left out.
BUDGET = 3600.0
#: How many times faster than Clarabel, by gap. Than dlib: at least.
RATIOS = ((1e-3, 80.0), (1e-6, 200.0))
DLIB_RATIO = 4.0
#: What bounds the chains beside Clarabel, where they are missed.
BOUND = "34 factorisations of the restricted master take .14 of .56 s under a profile, 110 sums over chains .11"
#: On text, at most: times the seconds of CRFsuite by gap; MiB; F1 below CRFsuite's. Ours has `TEXT_LEAST` seconds at
#: least.
TEXT_TIMES, TEXT_MEMORY, TEXT_F1, TEXT_LEAST = ((1e-2, 1.0), (1e-3, 2.0), (1e-6, 6.0)), 700.0, 0.003, 60.0


@dataclass(frozen=True)
class Workload:
    """Chains drawn from planted weights: how many, how long, labels, features; beta/2 |w|^2 + C sum_i H_i.

    text : so many sentences of CoNLL-2000 in their place, with windows of words and tags that occur four times, and
    with ``C`` an example; C = 0 is the default of `ChainTagger`. noisy : half of the words are replaced by others, and
    all that occur count.
    """

    chains: int = 200
    length: int = 20
    labels: int = 8
    features: int = 30
    beta: float = 1.0
    text: int = 0
    noisy: bool = False
    C: float = 1.0
    tol: float = 1e-6

    @property
    def name(self) -> str:
        if self.text:
            return f"{'noisy' if self.noisy else 'conll2000'}-{self.text}-C-" + (f"{self.C:g}" if self.C else "default")
        beta = "" if self.beta == 1 else f"-{self.beta:g}"
        return f"chains-{self.chains}x{self.length}-{self.labels}-labels{beta}"

    def build(self) -> StructuredSVM:
        from convexstruct import datasets
        from convexstruct.families.structured_svm import StructuredSVM

        data = datasets.random_chains(self.chains, self.length, self.labels, self.features, seed=0)
        return StructuredSVM.read(data.node_features, data.labels_each, data.n_labels, beta=self.beta)


#: Against Clarabel; against dlib (C = 0.1 for each example, which is beta = 10 with C = 1).
WHOLE = Workload()
AGAINST_DLIB = Workload(chains=300, length=10, beta=10.0)
QUICK_LIMIT, QUICK_BUDGET = 5.0, 55.0
TEXT, QUICK_TEXT = Workload(text=8936), Workload(text=100, tol=1e-1)
NOISY = Workload(text=600, noisy=True)
SECTIONS = ("clarabel", "dlib", "text", "noisy")
START = functools.partial(launch, __file__)


# -- in the child ------------------------------------------------------------------------------------------------------


def measure(workload: Workload, solver: str, limit: float) -> Iterator[dict[str, Any]]:
    """Solve; yield what is known before, at each gap reached, and at the end. A process ended early loses no line."""
    if solver == CLARABEL:
        import convexstruct.models  # noqa: F401  its import is no part of the solve, nor is its memory
    if workload.text:
        yield from _text(workload, solver, limit)
        yield {"peak": memory()}
        return
    begin = time.perf_counter()
    problem = workload.build()
    yield {"before": memory(), "build_seconds": time.perf_counter() - begin}
    if solver == CLARABEL:
        yield from by_clarabel("structured_svm.marginals", problem, workload.tol, limit, compiled=False)
    elif solver == DLIB:
        yield from _dlib(problem)
    else:
        yield from _own(problem, solver, workload.tol, limit)
    yield {"peak": memory()}


def _own(problem: StructuredSVM, solver: str, tol: float, limit: float) -> Iterator[dict[str, Any]]:
    from convexstruct import solvers

    known = {FAST: None, CUTS: solvers.NSlack(), FRANK_WOLFE: solvers.BlockFrankWolfe()}
    target = float(os.environ.get("CONVEXSTRUCT_TARGET", "-inf"))
    if math.isfinite(target):
        yield from _to_target(problem, target, limit)
    else:
        yield from watched(problem, known[solver], tol, limit)


def _to_target(problem: StructuredSVM, target: float, limit: float) -> Iterator[dict[str, Any]]:
    """Seconds until the objective is at ``target`` or below."""
    from convexstruct.core.driver import solve

    solution = solve(problem, time_limit=limit, callback=lambda iterate, trace: trace.primal[-1] <= target)
    yield {"gap": solution.gap, "value": solution.primal, "seconds": solution.seconds, "rounds": solution.iterations}
    yield {"status": "OPTIMAL" if solution.primal <= target * (1 + 1e-12) else "TIME_LIMIT"}


def _dlib(problem: StructuredSVM) -> Iterator[dict[str, Any]]:
    """dlib's one-slack cutting planes, to its own stopping rule."""
    import dlib
    import numpy as np

    features = problem.features

    def rows(labels: Any) -> list[Any]:
        return [dlib.vector(row) for row in features.joint_each(labels).toarray().tolist()]

    class Separation:
        """What dlib asks: the loss-augmented argmax of one example at a w, for all examples at once here."""

        C = problem.n_examples * float(problem.ceiling[0]) / problem.lam
        num_samples, num_dimensions = problem.n_examples, problem.dimension
        be_verbose = False

        def __init__(self) -> None:
            self.truth, self.at = rows(features.truth), b""

        def get_truth_joint_feature_vector(self, i: int) -> Any:
            return self.truth[i]

        def separation_oracle(self, i: int, current: Any) -> tuple[float, Any]:
            w = np.array(current)
            if w.tobytes() != self.at:
                labels = problem.most_violated(w).labels
                self.at, self.loss, self.joint = w.tobytes(), problem.loss.of(labels), rows(labels)
            return float(self.loss[i]), self.joint[i]

    begin = time.perf_counter()
    w = np.array(dlib.solve_structural_svm_problem(Separation()))
    seconds = time.perf_counter() - begin
    yield {"value": problem.primal({"w": w}), "seconds": seconds, "status": "STOPPED"}


def _text(workload: Workload, solver: str, limit: float) -> Iterator[dict[str, Any]]:
    """Chunking; ``value`` is F1 on the test part. The clock starts where each has its features in the form it takes."""
    from itertools import pairwise

    import numpy as np

    from benchmarks.defaults import sentences
    from convexstruct.datasets import conll2000
    from convexstruct.estimators.tagger import margin_C
    from convexstruct.families.log_linear.experiments.chunking import Data, f1, named, table

    test = conll2000("test").between(0, workload.text)
    data = Data.of(conll2000("train").between(0, workload.text), test, 4)
    if workload.noisy:
        data = sentences(workload.text, rare=True)._replace(test=test)
    cuts, right = list(pairwise(test.sentence_start)), np.split(test.labels, test.sentence_start[1:-1])

    def score(guessed: Sequence[Any]) -> float:
        return f1([data.used[labels] for labels in guessed], right)

    if solver == CRFSUITE:
        yield from _crfsuite(data, cuts, score)
        return
    problem = data.margin(workload.C or margin_C(table(data.rows, data.columns)))
    x = table(named(test), data.columns)
    data.rows.clear()  # names of features, no part of the solve
    data.columns.clear()
    yield {"before": memory()}

    def also(solution: Any) -> dict[str, Any]:
        return {"peak": memory(), "value": score(problem.predict(solution.point, [x[low:high] for low, high in cuts]))}

    yield from watched(problem, None, workload.tol, limit, also)


def _crfsuite(data: Any, cuts: Sequence[tuple[int, int]], score: Any) -> Iterator[dict[str, Any]]:
    """python-crfsuite on the same features, to its own stopping rule."""
    import tempfile

    import numpy as np
    import pycrfsuite

    from convexstruct.families.log_linear.experiments.chunking import named

    def items(rows: Sequence[Sequence[str]]) -> list[list[str]]:
        return [[name for name in row if name in data.columns] for row in rows]

    trainer, at = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False), 0
    for labels in data.labels:
        trainer.append(items(data.rows[at : at + len(labels)]), [str(label) for label in labels])
        at += len(labels)
    every = {"feature.possible_states": 1, "feature.possible_transitions": 1}
    trainer.set_params({"c1": 0.0, "c2": 1.0, "max_iterations": 100_000, **every})
    yield {"before": memory()}
    rows = items(named(data.test))
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        trainer.train(str(Path(folder) / "model"))
        seconds = time.perf_counter() - begin
        tagger = pycrfsuite.Tagger()
        tagger.open(str(Path(folder) / "model"))
        guessed = [np.array([int(label) for label in tagger.tag(rows[low:high])]) for low, high in cuts]
    rounds = len(trainer.logparser.iterations)
    yield {"value": score(guessed), "seconds": seconds, "rounds": rounds, "status": "STOPPED"}


# -- in the parent -----------------------------------------------------------------------------------------------------


def run_clarabel(session: Session, workload: Workload, console: Console) -> None:
    """The fast default, classic solvers, and Clarabel on the marginal QP."""
    names = (FAST, CUTS, FRANK_WOLFE, CLARABEL)
    runs = {solver: session("clarabel", workload, solver) for solver in names}
    fast, reference = runs[FAST], runs[CLARABEL]
    table = gap_table("Seconds to a certified gap (times the fast default's)")
    gap_rows(table, list(runs.values()))
    console.print(table)
    # an interior point method has one time, that of its end; one that was stopped took at least that long
    ended = reference.seconds if math.isfinite(reference.seconds) else reference.limit
    for gap, wanted in RATIOS:
        ratio = ended / fast.to(gap)
        decided = None if LEFT_OUT in (fast.trouble, reference.trouble) else ratio >= wanted
        goal = f"{wanted:g} times faster than Clarabel to {gap:.0e}"
        words = session.judge(workload, goal, decided, "", BOUND, ratio=ratio)
        console.print(f"{cell(ratio, '.3g')} times faster; {words}")


def run_dlib(session: Session, workload: Workload, console: Console) -> None:
    """dlib to its own end, the fast default to the objective it ended with."""
    if not session.has("dlib", DLIB):
        return
    peer = session("dlib", workload, DLIB)
    if not math.isfinite(peer.value):
        console.print(f"dlib: {peer.trouble or 'no objective'}")
        return
    os.environ["CONVEXSTRUCT_TARGET"] = repr(peer.value)
    fast = session("dlib", workload, FAST)
    del os.environ["CONVEXSTRUCT_TARGET"]
    whole = session("dlib", replace(workload, tol=1e-6), FAST)
    table = new_table("Against dlib, to its final objective", "workload", "solver", "seconds", "objective", "peak MiB")
    for run, name in ((peer, DLIB), (fast, FAST), (whole, f"{FAST}, to 1e-06")):
        table.add_row(workload.name, name, cell(run.seconds, ".3f"), cell(run.value, ".6f"), cell(run.peak, ".0f"))
    console.print(table)
    ratio = peer.seconds / fast.seconds
    reached = None if fast.trouble == LEFT_OUT else ratio >= DLIB_RATIO and fast.status == "OPTIMAL"
    goal = f"{DLIB_RATIO:g} times faster than dlib to its final objective"
    words = session.judge(workload, goal, reached, ratio=ratio)
    console.print(f"{cell(ratio, '.3g')} times faster; {words}")


def run_text(session: Session, workload: Workload, console: Console) -> None:
    """Chunking by the fast default with C = 1, and by CRFsuite, each by its own rule: seconds, and of plain text memory
    and F1 too, the latter with the default C of `ChainTagger`, which is solved to 1e-3."""
    peer = session("text", workload, CRFSUITE)
    most = max(times for _, times in TEXT_TIMES) * (peer.seconds if math.isfinite(peer.seconds) else peer.limit)
    posed = [workload] if workload.noisy else [workload, replace(workload, C=0.0, tol=max(workload.tol, 1e-3))]
    runs = [session("text", each, FAST, max(most, TEXT_LEAST)) for each in posed]
    within = [f"{gap:.0e}" for gap, _ in TEXT_TIMES]
    table = new_table("Chunking", "workload", "solver", *within, "seconds", "F1", "peak MiB", "before")
    for run in (*runs, peer):
        cells = [""] * len(within) if run is peer else [run.trouble or shown(run, gap) for gap, _ in TEXT_TIMES]
        tail = [cell(run.seconds, ".1f"), cell(run.value, ".4f"), cell(run.peak, ".0f"), cell(run.before, ".0f")]
        table.add_row("" if run is peer else run.workload.name, run.solver, *cells, *tail)
    console.print(table)

    def judge(run: Run, words: str, reached: bool, bound: str, **figures: float) -> None:
        known = not (run.trouble or peer.trouble)
        said = session.judge(run.workload, words, reached if known else None, "", bound, **figures)
        console.print(f"{run.workload.name}: {said}")

    fast = runs[0]
    for gap, times in TEXT_TIMES:
        words = f"certified {gap:.0e} within {times:g} times the seconds of CRFsuite"
        ratio = fast.to(gap) / peer.seconds
        judge(fast, words, ratio <= times, "", ratio=ratio)
    if workload.noisy:
        return
    words, scored = f"F1 within {TEXT_F1:g} of CRFsuite's", runs[1]
    before = f"{fast.before:.0f} MiB of them before the solve: what is imported, the sentences and their features"
    judge(fast, f"peak of at most {TEXT_MEMORY:g} MiB", fast.peak <= TEXT_MEMORY, before, peak=fast.peak)
    judge(scored, words, scored.value >= peer.value - TEXT_F1, "", f1=scored.value, crfsuite_f1=peer.value)


def main(arguments: Sequence[str] | None = None, launcher: Launcher = START) -> int:
    said = "Speed and memory of the structured_svm solvers, as ratios."
    chosen = options(said, SECTIONS, BUDGET, QUICK_BUDGET, arguments)
    wanted = chosen.only or SECTIONS
    about = ("cvxpy", "clarabel")
    with opened(chosen, launcher, LIMITS, QUICK_LIMIT, about, LIMITS[FAST], rules=RULES) as (session, console):
        if "clarabel" in wanted:
            run_clarabel(session, replace(WHOLE, chains=20) if chosen.quick else WHOLE, console)
        if "dlib" in wanted:
            run_dlib(session, replace(AGAINST_DLIB, chains=50) if chosen.quick else AGAINST_DLIB, console)
        for section, posed in (("text", TEXT), ("noisy", NOISY)):
            if section in wanted and is_here("conll2000", session) and session.has("pycrfsuite", CRFSUITE):
                run_text(session, replace(QUICK_TEXT, noisy=posed.noisy) if chosen.quick else posed, console)
    return 0


if __name__ == "__main__":
    child(Workload, measure)
    sys.exit(main())
