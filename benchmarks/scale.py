"""One problem on each kind of executor: seconds, bytes that travel a round, and whether the bounds agree; and problems
whose examples lie in files: seconds and peak memory.

    python benchmarks/scale.py [--examples 20000] [--quick] [--json FILE]
    python benchmarks/scale.py --files 64 --examples 1000000 [--folder FOLDER]

A conditional random field on chains of 12 nodes, 8 labels and 30 features, drawn, with a table of pairs: LBFGS, 20
rounds, in one process, on threads, processes, and a Dask cluster of one and of two workers on this machine. Bytes are
those that workers sent, by their own counters (``transfer_outgoing_bytes_total``), to each other and to the client.

From the seconds of work and the bytes of a round the last table computes what n machines would take, with a network of
10 Gbit and two tree passes of |w|, log2(n) hops each; it is arithmetic, no measurement, and leaves out what a cluster's
scheduler takes.

With ``--files`` chains of the same sizes are written to so many files (3 KB a chain; kept where a folder is given), and
solved to `LOW`, each run in a process of its own: a conditional random field from a fifth of the files everywhere and
of the same chains in memory, from all files here and on two Dask workers, and a structural SVM from a fifth of the
files on two; a regularised risk of the nodes of a fifth as rows; and 20 iterations of Baum-Welch for a
hidden Markov model, from a fifth and from all of as many files of sequences of 30 symbols. Peaks are those of the
process that calls `solve`, and of the largest worker.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

import numpy as np

import convexstruct as cs
from benchmarks.measure import memory
from convexstruct.datasets.example_files import write_chains, write_hidden_markov
from convexstruct.inference.shards import sharded

#: The size of the examples, as in the docstring.
LENGTH, LABELS, FEATURES = 12, 8, 30
#: Rounds of a run, and of the part that is timed alone.
ROUNDS, TIMED = 20, 10
#: The arguments of problems from files. lam of the structural SVM: its optimum is below that of w = 0 by a tenth.
FILED: dict[str, dict[str, Any]] = {
    "ConditionalRandomField": {"C_mean": 1.0},
    "HiddenMarkov": {"n_states": LABELS},
    "RegularizedRisk": {"loss": "multiclass", "lam": 1e-2},
    "StructuredSVM": {"lam": 1e-2},
}
#: Bytes a second of a network of 10 Gbit.
NETWORK = 1.25e9


def drawn(n: int) -> cs.ConditionalRandomField:
    """``n`` chains whose labels depend on their features."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, LENGTH, FEATURES))
    truth = rng.normal(size=(FEATURES, LABELS))
    labels = (x @ truth + rng.gumbel(size=(n, LENGTH, LABELS))).argmax(axis=2)
    return cs.ConditionalRandomField.read(list(x), list(labels), LABELS, C_mean=1.0)


@contextmanager
def places(kind: str) -> Iterator[Any]:
    """An executor, a Dask client, or None."""
    if kind == "serial":
        yield None
    elif kind == "threads":
        with ThreadPoolExecutor(2) as threads:
            yield threads
    elif kind == "processes":
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as processes:
            yield processes
    else:
        import distributed

        options = {"n_workers": int(kind.split()[1]), "threads_per_worker": 1, "dashboard_address": ":0"}
        with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
            yield client


def sent(where: Any) -> int:
    """Bytes that the workers of a client have sent; 0 elsewhere."""
    if not hasattr(where, "nthreads"):
        return 0
    return sum(where.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def measured(problem: Any, kind: str) -> dict[str, Any]:
    """Seconds of a whole run, of a sum over the examples, and the bytes that it sends in units of |w| a worker."""
    with places(kind) as where:
        begin = time.perf_counter()
        found = cs.solve(problem, max_iterations=ROUNDS, tol=1e-9, executor=where)
        seconds = time.perf_counter() - begin
        placed = problem if where is None else sharded(problem, where)
        w = found.point["theta"]
        placed.value_and_gradient(w)
        before, begin = sent(where), time.perf_counter()
        for _ in range(TIMED):
            placed.value_and_gradient(w)
        each = (time.perf_counter() - begin) / TIMED
        workers = int(kind.split()[1]) if kind.startswith("dask") else 1
        moved = (sent(where) - before) / TIMED / w.nbytes / workers
    return {
        "kind": kind, "seconds": seconds, "round": each, "sent": moved,
        "primal": found.primal, "lower_bound": found.lower_bound,
    }  # fmt: skip


def from_files(family: str, paths: list[str], kind: str) -> dict[str, Any]:
    """A run to `LOW` on the chains of these files, in memory where the kind is "arrays"."""
    made = getattr(cs, family)
    problem = read(made, paths, FILED[family]) if kind == "arrays" else made.from_files(paths, **FILED[family])
    with places("serial" if kind == "arrays" else kind) as where:
        begin, before = time.perf_counter(), time.process_time()
        rounds = ROUNDS if family == "HiddenMarkov" else None
        found = cs.solve(problem, tol=cs.LOW, executor=where, max_iterations=rounds)
        seconds, own = time.perf_counter() - begin, time.process_time() - before
    workers, n = resource.getrusage(resource.RUSAGE_CHILDREN), sum(map(sequences, paths))  # workers have ended
    largest = memory() * workers.ru_maxrss / resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "family": family, "examples": n, "kind": kind, "seconds": seconds, "status": found.status.name,
        "primal": found.primal, "lower_bound": found.lower_bound, "own": own,
        "theirs": workers.ru_utime + workers.ru_stime, "peak": memory(), "workers": largest,
    }  # fmt: skip


def sequences(path: str) -> int:
    """How many a file has."""
    with np.load(path) as file:
        n: int = np.size(file["lengths"])
    return n


def read(made: Any, paths: list[str], scale: dict[str, float]) -> Any:
    """The problem of the same chains in memory."""
    x: list[Any] = []
    labels: list[Any] = []
    for path in paths:
        with np.load(path) as file:
            x.extend(file["node_features"].reshape(-1, LENGTH, FEATURES))
            labels.extend(file["labels"].reshape(-1, LENGTH))
    return made.read(x, labels, LABELS, **scale)


def filed(folder: Path, n_files: int, n_chains: int, quick: bool) -> list[dict[str, Any]]:
    """The rows of runs from files in a folder, which are written if there are none."""
    paths = sorted(map(str, folder.glob("*.npz")))
    if not paths:
        sizes = {"length": LENGTH, "n_labels": LABELS, "n_features": FEATURES}
        paths = list(map(str, write_chains(folder, n_files, n_chains, **sizes)))
    symbols = sorted(map(str, (folder / "symbols").glob("*.npz")))
    if not symbols:
        symbols = list(map(str, write_hidden_markov(folder / "symbols", n_files, n_chains, length=LENGTH)))
    some, fifth = symbols[: max(len(symbols) // 5, 1)], paths[: max(len(paths) // 5, 1)]
    runs = [("ConditionalRandomField", fifth, kind) for kind in ("arrays", "serial")]
    runs += [("HiddenMarkov", some, "serial"), ("RegularizedRisk", fifth, "serial")]
    if not quick:
        runs += [("ConditionalRandomField", fifth, kind) for kind in ("processes", "dask 1", "dask 2")]
        runs += [("ConditionalRandomField", paths, kind) for kind in ("serial", "dask 2")]
        runs += [("StructuredSVM", fifth, "dask 2")]
        runs += [("HiddenMarkov", some, "dask 2")]
        runs += [("HiddenMarkov", symbols, kind) for kind in ("serial", "dask 2")]
    rows = []
    for run in runs:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as own:
            rows.append(row := own.submit(from_files, *run).result())
        print(
            f"{row['family']:22} {row['examples']:8} chains {row['kind']:10} {row['seconds']:6.1f} s"
            f" (of a processor {row['own']:6.1f}, workers' {row['theirs']:6.1f}) {row['status']}"
            f" {row['lower_bound']:.6g} to {row['primal']:.6g}"
            f"  peak {row['peak']:5.0f} MiB, of a worker {row['workers']:5.0f}",
            flush=True,
        )
    return rows


def computed(work: float, n_bytes: int) -> list[dict[str, float]]:
    """Seconds of a round of ``work`` seconds on so many machines, and the share of it that is sums of w."""
    rows = []
    for n in (1, 10, 100, 1000):
        took = travel(n, n_bytes)
        rows.append({"machines": n, "round": work / n + took, "share": took / (work / n + took)})
    return rows


def travel(n: int, n_bytes: int) -> float:
    """Seconds that a w of so many bytes is on its way to n machines and back."""
    return 2 * math.ceil(math.log2(n)) * n_bytes / NETWORK


def half(work: float, n_bytes: int) -> int:
    """The least power of 2 of machines with which sums of w take half of a round or more."""
    return next(n for n in (2**k for k in range(1, 64)) if travel(n, n_bytes) >= work / n)


def main() -> None:
    parser = argparse.ArgumentParser(description="One problem on each kind of executor.")
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="200 examples, without a cluster")
    parser.add_argument("--files", type=int, help="examples in so many files instead")
    parser.add_argument("--folder", type=Path, help="where these files are, or shall stay")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    given = parser.parse_args()
    if given.files:
        with tempfile.TemporaryDirectory() as own:
            written = filed(given.folder or Path(own), given.files, given.examples, given.quick)
        if given.json:
            given.json.write_text(json.dumps({"files": written}, indent=1), encoding="utf-8")
        return
    problem = drawn(200 if given.quick else given.examples)
    rows, kinds = [], ["serial", "threads", "processes", "dask 1", "dask 2"]
    print(problem)
    for kind in kinds[:2] if given.quick else kinds:
        rows.append(row := measured(problem, kind))
        apart = max(abs(row[name] / rows[0][name] - 1.0) for name in ("primal", "lower_bound"))
        row["apart"] = apart
        print(
            f"{kind:10} {row['seconds']:7.2f} s  a sum {1e3 * row['round']:7.1f} ms  sent {row['sent']:.2f} |w|"
            f" a worker  bounds {apart:.1e} from the serial ones",
            flush=True,
        )
    work, table = rows[0]["round"], computed(rows[0]["round"], 8 * problem.dimension)
    for line in table:
        print(
            f"{line['machines']:5.0f} machines: {1e3 * line['round']:9.4f} ms a round, {line['share']:.1%} of it travel"
        )
    for size in (problem.dimension, 10**6, 10**7):
        print(f"{size:8} weights: half of a round is travel from {half(work, 8 * size)} machines on")
    if given.json:
        given.json.write_text(json.dumps({"rows": rows, "computed": table}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
