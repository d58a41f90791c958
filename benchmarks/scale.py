"""One problem on each kind of executor: seconds, bytes that travel a round, and whether the bounds agree.

    python benchmarks/scale.py [--examples 20000] [--quick] [--json FILE]

A conditional random field on chains of 12 nodes, 8 labels and 30 features, drawn, with a table of pairs: LBFGS, 20
rounds, in one process, on threads, processes, and a Dask cluster of one and of two workers on this machine. Bytes are
those that workers sent, by their own counters (``transfer_outgoing_bytes_total``), to each other and to the client.

From the seconds of work and the bytes of a round the last table computes what n machines would take, with a network of
10 Gbit and two tree passes of |w|, log2(n) hops each; it is arithmetic, no measurement, and leaves out what a cluster's
scheduler takes.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
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
from convexstruct.inference.shards import sharded

#: The size of the examples, as in the docstring.
LENGTH, LABELS, FEATURES = 12, 8, 30
#: Rounds of a run, and of the part that is timed alone.
ROUNDS, TIMED = 20, 10
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


def computed(work: float, n_bytes: int) -> list[dict[str, float]]:
    """Seconds of a round of ``work`` seconds on so many machines, and the share of it that is sums of w."""
    rows = []
    for n in (1, 10, 100, 1000):
        travel = 2 * math.ceil(math.log2(n)) * n_bytes / NETWORK
        rows.append({"machines": n, "round": work / n + travel, "share": travel / (work / n + travel)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="One problem on each kind of executor.")
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="200 examples, without a cluster")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    given = parser.parse_args()
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
    table = computed(rows[0]["round"], 8 * problem.dimension)
    for line in table:
        print(
            f"{line['machines']:5.0f} machines: {1e3 * line['round']:9.4f} ms a round, {line['share']:.1%} of it travel"
        )
    if given.json:
        given.json.write_text(json.dumps({"rows": rows, "computed": table}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
