"""Workload `log_linear`: conditional random fields beside python-crfsuite, on the same features and objective.

    python benchmarks/log_linear.py [--quick] [--only NAME ...] [--json FILE]

Every run is a fresh process with one thread; seconds are of its processor. Both minimise
sum_i [ln Z_i - score of the truth] + beta/2 |theta|^2 over all pairs of a feature and a label (CRFsuite: c2 = beta/2,
possible states and transitions). The clock starts where each has its features in the form that it takes: a sparse
matrix, or lists of names; ours validates them in it, CRFsuite generates its features.

Ours ends at a certified gap of `GAP`, CRFsuite by its own rule: |gradient| <= `EPSILON` |theta|, or ten rounds that
lower the objective by less than `DELTA`, relative. The times that are compared are those at which each is first within
1e-8 of one value, the higher of the two final objectives; the whole runs are printed beside them. Decoding is timed on
the training examples. `conll`, all of CoNLL-2000, takes a quarter of an hour, nearly all of it CRFsuite's. `memory` is
our solver alone, to the same gap, and its peak.
`collinear` is our solver alone, without a penalty, on features whose columns are nearly collinear, offset and scaled,
beside the same features standardised: both bounds have to agree.
"""

from __future__ import annotations

import functools
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Launcher, Session, child, is_here, launch, memory, opened, options

if TYPE_CHECKING:
    from convexstruct.families.log_linear import ConditionalRandomField

OURS, CRFSUITE = "ours", "CRFsuite"
#: CRFsuite's tolerances: of the gradient, and of the decrease over ten rounds.
EPSILON, DELTA = 1e-7, 1e-9
#: Agreement of the two objectives, relative: 8 digits.
DIGITS = 1e-8
#: Ours ends at this gap, relative.
GAP = 2e-8
#: How many times faster than CRFsuite at least (the goals of this project), and the limit of memory in MiB.
RATIOS = dict.fromkeys(("labels-20", "labels-20-c2-1", "features-50000", "conll", "noisy"), 3.0)
RATIOS |= {"labels-50": 1.5, "quick": 1.0}
MEMORY = 2048.0
#: What bounds the ratio of a workload, as it was measured.
BOUNDS = {
    "features-50000": "23 of the 44 ms of a round under a profile pass over vectors as long as the 500,100 weights, "
    "81,830 of which are of features that never occur, and which CRFsuite leaves out; SciPy's two sparse products are "
    "11, sums over chains 5",
    "conll": "SciPy's two sparse products with 3.6 million entries and 22 labels take 130 of the 344 ms of a round "
    "under a profile, sums over 211,727 positions 130",
}
#: When each stops. C is 1 an example and beta is 1, ours by default; CRFsuite's c2 is beta / 2, and by default 1.
RULES = {
    OURS: f"stops at a certified gap of {GAP:g}",
    CRFSUITE: f"stops by its own rule, |gradient| <= {EPSILON:g} |theta| or ten rounds that gain less than {DELTA:g} "
    "(its defaults are 1e-5 for both); times count at which both are within 1e-8 of one value",
}
#: Seconds for everything, and with --quick.
BUDGET, QUICK_BUDGET = 1800.0, 55.0
START = functools.partial(launch, __file__)


@dataclass(frozen=True)
class Workload:
    """Tokens with as many features of 0 or 1 each, drawn by Zipf's law; conll : all of CoNLL-2000 instead. noisy : its
    first ``sequences`` with half of the words replaced by others that occur nowhere else.

    beta : of the penalty beta/2 |theta|^2.
    """

    name: str
    sequences: int = 600
    length: int = 23
    labels: int = 20
    features: int = 20_000
    each: int = 20
    conll: bool = False
    noisy: bool = False
    beta: float = 1.0

    def build(self) -> ConditionalRandomField:
        import numpy as np
        import scipy.sparse as sp

        from convexstruct.families.log_linear import ConditionalRandomField

        if self.noisy:
            from benchmarks.defaults import text

            found: ConditionalRandomField = text(1.0, True, self.sequences, random_field=True)
            return found
        if self.conll:
            from convexstruct.datasets import conll2000
            from convexstruct.families.log_linear.experiments.chunking import SIZES, Data

            return Data.of(conll2000("train"), conll2000("test").between(0, 1), SIZES[2]).problem
        rng = np.random.default_rng(0)
        lengths = np.maximum(1, rng.poisson(self.length, size=self.sequences))
        n, kinds = int(lengths.sum()), self.features // self.each
        odds = 1.0 / np.arange(1, kinds + 1) ** 0.9
        columns = rng.choice(kinds, size=(n, self.each), p=odds / odds.sum()) + kinds * np.arange(self.each)
        ends = np.arange(0, n * self.each + 1, self.each)
        x = sp.csr_array((np.ones(n * self.each), columns.ravel(), ends), shape=(n, self.features))
        scores = x @ (0.7 * rng.normal(size=(self.features, self.labels)))
        labels = (scores + 2.0 * rng.gumbel(size=scores.shape)).argmax(axis=1)
        return ConditionalRandomField.read(x, np.split(labels, np.cumsum(lengths)[:-1]), self.labels, beta=self.beta)


WORKLOADS = (
    Workload("labels-20"),
    Workload("labels-20-c2-1", beta=2.0),
    Workload("labels-50", sequences=300, labels=50, features=10_000),
    Workload("features-50000", labels=10, features=50_000),
    Workload("conll", conll=True),
    Workload("noisy", noisy=True),
)
QUICK = (Workload("quick", sequences=60, features=2_000, labels=8),)
LARGE = Workload("memory", sequences=8_700, labels=10, features=100_000)
COLLINEAR = Workload("collinear", sequences=300)


def collinear(seed: int) -> tuple[ConditionalRandomField, ConditionalRandomField]:
    """(a problem without a penalty, the same standardised): a bias and one to three features of 150 nodes, alone or in
    chains of 5, with two or three labels.

    Half of the features have an offset of 1 to 1e8, all a scale of 1e-8 to 1e8, and often two are twins, apart by 1e-10
    of themselves at least, and by no fewer than three digits of the 16 that they have. Standardised are the features
    that stand in double precision, by undoing all this in rational arithmetic: the same span, up to its last digits.
    """
    import numpy as np

    from benchmarks.exact import exactly
    from convexstruct.families.log_linear import ConditionalRandomField

    rng = np.random.default_rng(seed)
    k, size, length = int(rng.integers(1, 4)), int(rng.integers(2, 4)), int(rng.choice([1, 5]))
    x = rng.normal(size=(150, k))
    labels = (x @ rng.normal(size=(k, size)) + rng.gumbel(size=(150, size))).argmax(axis=1)
    offset, scale = 10.0 ** rng.uniform(0, 8, size=k) * (rng.random(k) < 0.5), 10.0 ** rng.uniform(-8, 8, size=k)
    apart = 0.0
    if k > 1 and rng.random() < 0.6:
        apart = max(10.0 ** rng.uniform(-10, 0), 1e-13 * offset[0])
        offset[1], x[:, 1] = offset[0], x[:, 0] + apart * x[:, 1]
    x = (x + offset) * scale
    even = exactly(x) / exactly(scale) - exactly(offset)
    if apart:
        even[:, 1] = (even[:, 1] - even[:, 0]) / apart
    standard = even.astype(float)

    def read(columns: Any) -> ConditionalRandomField:
        each = np.split(np.column_stack((np.ones(150), columns)), 150 // length)
        return ConditionalRandomField.read(each, np.split(labels, 150 // length), size)

    return read(x), read(standard / standard.std(axis=0))


def disagreements(seeds: Sequence[int]) -> tuple[list[int], list[int]]:
    """The seeds whose lower bound is above an upper one, and those whose bounds are wider than 1e-6 beside the
    standardised ones and not for a reason that the solution gives."""
    from convexstruct.core.driver import solve

    false, apart = [], []
    for seed in seeds:
        found, wanted = (solve(problem) for problem in collinear(seed))
        upper = min(found.primal, wanted.primal)
        if found.lower_bound > upper:
            false.append(seed)
        near = max(found.primal, wanted.primal) - min(found.lower_bound, wanted.lower_bound) <= 2e-6 * upper
        if not (wanted.status.solved and near and found.status.solved) and "rounding" not in found.message:
            apart.append(seed)
    return false, apart


def ours(workload: Workload) -> dict[str, Any]:
    """Solve and decode."""
    from convexstruct.core.driver import solve
    from convexstruct.families.log_linear import ConditionalRandomField

    given, path = workload.build().features, []
    labels = given.split_labels(given.truth)
    begin = time.process_time()

    def watch(iterate: Any, _: Any) -> None:
        path.append((time.process_time() - begin, iterate.primal))

    problem = ConditionalRandomField.read(given.node_features, labels, given.n_labels, beta=workload.beta)
    solution = solve(problem, tol=GAP, callback=watch)
    seconds = time.process_time() - begin
    peak = memory()
    begin = time.process_time()
    problem.predict(solution.point)
    decoding = time.process_time() - begin
    return {
        "seconds": seconds, "value": solution.primal, "lower": solution.lower_bound, "decoding": decoding,
        "rounds": solution.iterations, "peak": peak, "status": solution.status.name, "gap": solution.gap, "path": path,
    }  # fmt: skip


def crfsuite(workload: Workload) -> dict[str, Any]:
    """Train and decode by python-crfsuite."""
    import pycrfsuite

    path: list[tuple[float, float]] = []

    class Watched(pycrfsuite.Trainer):  # type: ignore[misc]  # it has no types
        """Notes the processor seconds and the objective of every round."""

        def message(self, message: str) -> None:
            if message.startswith("Loss: "):
                path.append((time.process_time() - begin, float(message.split()[1])))

    features = workload.build().features
    x, start = features.node_features, features.node_start
    items = [[str(j) for j in x.indices[x.indptr[p] : x.indptr[p + 1]]] for p in range(features.n_nodes)]
    sequences = [pycrfsuite.ItemSequence(items[low:high]) for low, high in pairwise(start)]
    trainer = Watched(algorithm="lbfgs", verbose=False)
    for sequence, labels in zip(sequences, features.split_labels(features.truth)):
        trainer.append(sequence, [str(label) for label in labels])
    every = {"feature.possible_states": 1, "feature.possible_transitions": 1, "max_iterations": 100_000}
    trainer.set_params({"c1": 0.0, "c2": 0.5 * workload.beta, "epsilon": EPSILON, "delta": DELTA, **every})
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "model")
        begin = time.process_time()
        trainer.train(model)
        tagger = pycrfsuite.Tagger()
        tagger.open(model)
        begin = time.process_time()
        for sequence in sequences:
            tagger.tag(sequence)
        decoding = time.process_time() - begin
    return {"seconds": path[-1][0], "value": path[-1][1], "decoding": decoding, "rounds": len(path), "path": path}


def reached(run: dict[str, Any], value: float) -> float:
    """Seconds until the objective of a run is first within `DIGITS` of ``value``."""
    return float(next(seconds for seconds, now in run["path"] if now <= value * (1.0 + DIGITS)))


def measure(workload: Workload, solver: str, limit: float) -> Iterator[dict[str, Any]]:
    """What the solver reports, as ``levels``."""
    found = ours(workload) if solver == OURS else crfsuite(workload)
    yield {"levels": {solver: found}, "seconds": found["seconds"]}


def told(session: Session, workload: Workload, solver: str) -> dict[str, Any]:
    """What a process of its own reports; RuntimeError where it failed."""
    run = session("likelihood", workload, solver)
    if run.trouble:
        raise RuntimeError(f"{workload.name}, {solver}: {run.trouble}")
    return run.levels[solver]


def measured(session: Session, workload: Workload) -> str:
    """The line that is printed of a workload; its verdict goes into ``session``."""
    if workload is LARGE:
        fast = told(session, workload, OURS)
        good = fast["peak"] <= MEMORY and fast["gap"] <= GAP
        session.judge(workload, f"{GAP:.0e}, peak below {MEMORY:g} MiB", good, peak=fast["peak"], gap=fast["gap"])
        return f"peak {fast['peak']:.0f} MiB, wanted at most {MEMORY:.0f}; {fast['rounds']} rounds to {fast['gap']:.0e}"
    if workload is COLLINEAR:
        false, apart = disagreements(range(workload.sequences))
        goal = "bounds of features as they are agree with those of standardised ones to 1e-6"
        session.judge(workload, goal, not false + apart, false=len(false), apart=len(apart))
        return f"{workload.sequences} sets of data: {len(false)} lower bounds too high, {len(apart)} further than 1e-6"
    fast, peer = (told(session, workload, solver) for solver in (OURS, CRFSUITE))
    wanted = RATIOS[workload.name]
    higher, apart = max(peer["value"], fast["value"]), abs(peer["value"] - fast["value"]) / fast["value"]
    times = [reached(run, higher) for run in (fast, peer)]
    ratio = times[1] / times[0]
    good = ratio >= wanted and apart <= DIGITS and fast["gap"] <= GAP
    goal = f"{wanted:g} times as fast as CRFsuite to one value"
    figures = {"ratio": ratio, "apart": apart, "seconds": times[0], "gap": fast["gap"]}
    session.judge(workload, goal, good, "", BOUNDS.get(workload.name, ""), **figures)
    return (
        f"{times[0]:.2f} s, CRFsuite {times[1]:.2f} s to one value: {ratio:.1f} times, wanted {wanted}; ends "
        f"{fast['value']:.6f}, certified from {fast['lower']:.6f} ({fast['rounds']} rounds, {fast['seconds']:.2f} s), "
        f"CRFsuite {peer['value']:.6f} ({peer['rounds']}, {peer['seconds']:.2f} s), {apart:.0e} apart; "
        f"decoding {fast['decoding']:.3f} s, CRFsuite {peer['decoding']:.3f} s"
    )


#: By name.
KNOWN = {each.name: each for each in (*QUICK, *WORKLOADS, LARGE, COLLINEAR)}


def main(arguments: Sequence[str] | None = None, launcher: Launcher = START) -> int:
    said = "Conditional random fields beside python-crfsuite."
    chosen = options(said, list(KNOWN), BUDGET, QUICK_BUDGET, arguments)
    wanted = [KNOWN[name] for name in chosen.only or KNOWN if chosen.only or (KNOWN[name] in QUICK) == chosen.quick]
    about = ("python-crfsuite",)
    with opened(chosen, launcher, {}, BUDGET, about, BUDGET, rules=RULES, wall=False) as (session, console):
        for workload in wanted if session.has("pycrfsuite", CRFSUITE) else ():
            if time.perf_counter() - session.begin > chosen.budget:
                session.without(workload.name, "out of time")
                continue
            if (workload.conll or workload.noisy) and not is_here("conll2000", session):
                continue
            console.print(f"{workload.name:<16} {measured(session, workload)}", highlight=False)
    return 0


if __name__ == "__main__":
    child(Workload, measure)
    sys.exit(main())
