"""One problem on each kind of executor: seconds, bytes that travel a round, and whether the bounds agree; and problems
whose examples lie in files: seconds and peak memory.

    python benchmarks/scale.py [--examples 20000] [--quick] [--json FILE]
    python benchmarks/scale.py --files 64 --examples 1000000 [--folder FOLDER]
    python benchmarks/scale.py --speedup --files 16 --examples 100000 [--folder FOLDER]

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

With ``--speedup`` each of the four is solved from all files on one and on two workers in turn, `TURNS` times: the ratio
of the least seconds, which means something on two idle cores; and what seconds of a processor leave of it at worst, on
any machine: those of this process, as if no worker ever worked meanwhile, with those of the busiest worker.
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
from unittest.mock import patch

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

import numpy as np

import convexstruct as cs
from benchmarks.measure import memory
from convexstruct.datasets.example_files import write_chains, write_hidden_markov
from convexstruct.inference.cluster import Cluster
from convexstruct.inference.shards import sharded

#: The size of the examples, as in the docstring.
LENGTH, LABELS, FEATURES = 12, 8, 30
#: Rounds of a run, and of the part that is timed alone; runs of which the shortest counts.
ROUNDS, TIMED, TURNS = 20, 10, 2
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


def of_workers(where: Any, asked: Any) -> list[float]:
    """What the workers of a client answer; nothing elsewhere."""
    return list(where.run(asked).values()) if hasattr(where, "nthreads") else []


def sent(where: Any) -> float:
    """Bytes that the workers of a client have sent."""
    return sum(of_workers(where, lambda dask_worker: dask_worker.transfer_outgoing_bytes_total))


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
    answers, asked = Cluster.answers, []

    def counted(cluster: Cluster, method: str, *more: Any) -> list[Any]:
        asked.append(method)
        return answers(cluster, method, *more)

    with patch.object(Cluster, "answers", counted), places("serial" if kind == "arrays" else kind) as where:
        worked, moved = of_workers(where, time.process_time), sent(where)
        begin, before = time.perf_counter(), time.process_time()
        rounds = ROUNDS if family == "HiddenMarkov" else None
        found = cs.solve(problem, tol=cs.LOW, executor=where, max_iterations=rounds)
        seconds, own = time.perf_counter() - begin, time.process_time() - before
        worked = [after - each for after, each in zip(of_workers(where, time.process_time), worked)]
        moved = (sent(where) - moved) / sum(array.nbytes for array in found.point.values())
    workers, n = resource.getrusage(resource.RUSAGE_CHILDREN), sum(map(sequences, paths))  # workers have ended
    largest = memory() * workers.ru_maxrss / resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "family": family, "examples": n, "kind": kind, "seconds": seconds, "status": found.status.name,
        "primal": found.primal, "lower_bound": found.lower_bound, "own": own,
        "theirs": sum(worked) or workers.ru_utime + workers.ru_stime, "busiest": max(worked, default=0.0),
        "rounds": len(asked), "sent": moved / max(len(asked) * len(worked), 1), "peak": memory(), "workers": largest,
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


def filed(folder: Path, n_files: int, n_chains: int, quick: bool, speedup: bool) -> list[dict[str, Any]]:
    """The rows of runs from files in a folder, which are written if there are none."""
    paths = sorted(map(str, folder.glob("*.npz")))
    if not paths:
        sizes = {"length": LENGTH, "n_labels": LABELS, "n_features": FEATURES}
        paths = list(map(str, write_chains(folder, n_files, n_chains, **sizes)))
    symbols = sorted(map(str, (folder / "symbols").glob("*.npz")))
    if not symbols:
        symbols = list(map(str, write_hidden_markov(folder / "symbols", n_files, n_chains, length=LENGTH)))
    every = {family: symbols if family == "HiddenMarkov" else paths for family in FILED}
    fifth = {family: each[: max(len(each) // 5, 1)] for family, each in every.items()}
    if speedup:
        turns = [(family, kind) for family in FILED for _ in range(TURNS) for kind in ("dask 1", "dask 2")]
        return [shown(family, every[family], kind) for family, kind in turns]
    some = [("ConditionalRandomField", kind) for kind in ("arrays", "serial")]
    some += [("HiddenMarkov", "serial"), ("RegularizedRisk", "serial")]
    if not quick:
        some += [("ConditionalRandomField", kind) for kind in ("processes", "dask 1", "dask 2")]
        some += [("StructuredSVM", "dask 2"), ("HiddenMarkov", "dask 2")]
    rows = [shown(family, fifth[family], kind) for family, kind in some]
    if not quick:
        of_all = [
            (family, kind) for family in ("ConditionalRandomField", "HiddenMarkov") for kind in ("serial", "dask 2")
        ]
        rows += [shown(family, every[family], kind) for family, kind in of_all]
    return rows


def shown(family: str, paths: list[str], kind: str) -> dict[str, Any]:
    """The row of `from_files`, in a process of its own, which is printed."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as own:
        row = own.submit(from_files, family, paths, kind).result()
    moved = f", {row['rounds']} rounds, sent {row['sent']:.2f} |w| a worker" if row["rounds"] else ""
    print(
        f"{family:22} {row['examples']:8} chains {kind:10} {row['seconds']:6.1f} s"
        f" (of a processor {row['own']:6.1f}, workers' {row['theirs']:6.1f}) {row['status']}"
        f" {row['lower_bound']:.6g} to {row['primal']:.6g}"
        f"  peak {row['peak']:5.0f} MiB, of a worker {row['workers']:5.0f}{moved}",
        flush=True,
    )
    return row


def speedups(rows: list[dict[str, Any]]) -> None:
    """Print how much faster two workers are than one, by family."""
    for family in FILED:
        one, two = ([row for row in rows if (row["family"], row["kind"]) == (family, f"dask {k}")] for k in (1, 2))
        seconds = [min(row["seconds"] for row in some) for some in (one, two)]
        worst = [min(row["own"] + row["busiest"] for row in some) for some in (one, two)]
        print(f"{family:22} two workers: {seconds[0] / seconds[1]:.2f} times, at worst {worst[0] / worst[1]:.2f}")


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
    parser.add_argument("--speedup", action="store_true", help="of two workers, with --files")
    parser.add_argument("--folder", type=Path, help="where these files are, or shall stay")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    given = parser.parse_args()
    if given.files:
        with tempfile.TemporaryDirectory() as own:
            written = filed(given.folder or Path(own), given.files, given.examples, given.quick, given.speedup)
        if given.speedup:
            speedups(written)
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
