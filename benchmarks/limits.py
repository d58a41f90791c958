"""Whether `time_limit` is kept: every family's best solver on an instance that takes it much longer.

    python benchmarks/limits.py [--limit 3] [--scale 1] [--on NAME]

For each instance: seconds that `solve` took, by how much that exceeds the limit, and what it returned. The limit counts
as kept within 2 s or a tenth of it, whichever is more; exit status 1 if one is not.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import convexstruct as cs
from convexstruct.core.best_points import GRACE_SECONDS, GRACE_SHARE


def hmm(scale: float) -> Any:
    data = cs.datasets.ring(int(2000 * scale), length=100, n_states=20, seed=0)
    return cs.GenerativeMargin.hmm(data.symbols, data.states, 20, data.n_symbols, eta=0.1)


def chains(scale: float) -> Any:
    """Chains with 100,000 sparse features, 10 of them active at each node."""
    data = cs.datasets.random_chains(int(3000 * scale), 20, 10, 20, noise=1.0, seed=0)
    rng, nodes = np.random.default_rng(0), len(data.labels)
    triple = (np.ones(10 * nodes), (np.repeat(np.arange(nodes), 10), rng.integers(100_000, size=10 * nodes)))
    features = sp.csr_array(sp.coo_array(triple, shape=(nodes, 100_000)))
    return cs.StructuredSVM.read(features, data.labels_each, 10, C=10.0)


def slack(scale: float) -> Any:
    data = cs.datasets.random_chains(int(1000 * scale), 20, 10, 20, noise=1.0, seed=0)
    return cs.StructuredSVM.read(data.node_features, data.labels_each, 10, C=10.0, scaling="slack")


def grids(scale: float) -> Any:
    data = cs.datasets.noisy_images(int(200 * scale), 40, 40, noise=1.0, seed=0)
    return cs.StructuredSVM.read(
        data.node_features, data.labels_each, 2, edges=data.edges_each, associative=True, inference="minimum_cut", C=1.0
    )


def table(scale: float, d: int, classes: int) -> tuple[Any, Any]:
    """Dense random features and random labels, which no plane separates."""
    rng, n = np.random.default_rng(0), int(200_000 * scale)
    return rng.normal(size=(n, d)), rng.integers(classes, size=n)


def binary(scale: float) -> Any:
    return cs.RegularizedRisk.binary(*table(scale, 200, 2), 1e-7, bias=True)


def multiclass(scale: float) -> Any:
    return cs.RegularizedRisk.multiclass(*table(scale, 50, 20), 1e-7)


def ordinal(scale: float) -> Any:
    return cs.RegularizedRisk.ordinal(*table(scale, 100, 6), 1e-7)


def box(scale: float) -> Any:
    rng, n = np.random.default_rng(0), int(20_000_000 * scale)
    return cs.BoxProjection(rng.normal(size=n), 0.0, 1.0, rng.normal(size=n), 1.0, rng.uniform(0.1, 1.0, size=n))


def tables(scale: float) -> Any:
    rng, n, s = np.random.default_rng(0), int(200_000 * scale), 10
    edge, node = rng.normal(size=(n - n // 20, s, s)), rng.normal(size=(n, s))
    return cs.MarginalProjection.chains([20] * (n // 20), edge, node)


def kernel(scale: float) -> Any:
    rng, n = np.random.default_rng(0), int(6000 * scale)
    inputs, labels = rng.normal(size=(n, 5)), rng.integers(10, size=n)
    return cs.GaussianProcessSequences.read(np.split(inputs, n // 20), np.split(labels, n // 20), 10, lam=1e-4)


INSTANCES: dict[str, Callable[[float], Any]] = {
    made.__name__: made
    for made in (hmm, chains, slack, grids, binary, multiclass, ordinal, box, tables, kernel)
}  # fmt: skip


def main() -> int:
    """A row for each instance; exit status 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--on", action="append", choices=INSTANCES, help="one instance (again for more); default all")
    parser.add_argument("--limit", type=float, default=3.0, help="seconds that each solver gets")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of examples")
    asked = parser.parse_args()
    print(f"{'instance':12}{'built':>8}{'solve':>8}{'beyond':>8}  gap, status and solver")
    late = 0
    for name in asked.on or INSTANCES:
        begin = time.perf_counter()
        problem = INSTANCES[name](asked.scale)
        built = time.perf_counter() - begin
        begin = time.perf_counter()
        found = cs.solve(problem, tol=1e-12, time_limit=asked.limit)
        taken = time.perf_counter() - begin
        late += taken - asked.limit > max(GRACE_SECONDS, GRACE_SHARE * asked.limit)
        print(f"{name:12}{built:8.1f}{taken:8.1f}{taken - asked.limit:8.1f}  {found.gap:.1e} {found.status.name} "
              f"{found.solver[:60]} {found.message[:60]}", flush=True)  # fmt: skip
        del problem, found
        gc.collect()
    return int(late > 0)


if __name__ == "__main__":
    raise SystemExit(main())
