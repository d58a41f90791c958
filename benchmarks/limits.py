"""Whether every solver of the registry keeps its `time_limit`, on instances that take it much longer: ties everywhere,
one example that is as large as a data set, an oracle that sleeps.

    python benchmarks/limits.py [--cases] [--limit 0.2 --limit 1] [--scale 1] [--on NAME] [--processor]

For each instance and limit: seconds that `solve` took, and what it returned. The limit counts as kept within 2 s or a
tenth of it, whichever is more, and a bound that a solver had while it ran must be in its solution; exit status 1 if
not. With --cases the cases of all families too. With --processor every clock is that of the processor, so that what
else runs on a machine makes no run late.
"""

from __future__ import annotations

import argparse
import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

import convexstruct as cs
from convexstruct.core import registry
from convexstruct.core.best_points import GRACE_SECONDS, GRACE_SHARE
from convexstruct.graphs import chain_graph


def table_of(kind: str, rows: int, columns: int) -> Any:
    """Features that are all 0, so that every labelling ties at any w, or random ones."""
    shape = (rows, columns)
    return np.zeros(shape) if kind == "ties" else np.random.default_rng(0).normal(size=shape)


def drawn(n_labels: int, n: int) -> Any:
    return np.random.default_rng(1).integers(n_labels, size=n)


def grid(side: int) -> Any:
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side))


def wait(seconds: float) -> None:
    """Return after so many seconds of the clock that the limits are measured by."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        if time.perf_counter is not time.process_time:  # which stands still in a sleep
            time.sleep(max(end - time.perf_counter(), 0.0))


def sleeper(kind: str, scale: float) -> Any:
    """Two labels an input; the oracle sleeps 20 ms a call."""
    X, y = table_of(kind, int(40 * scale) or 1, 3), drawn(2, int(40 * scale) or 1)

    def joint(x: Any, labels: Any) -> Any:
        return np.concatenate([x * (labels[0] == k) for k in range(2)])

    def best(x: Any, labels: Any, w: Any) -> Any:
        wait(0.02)
        return [int(np.argmax([joint(x, [k]) @ w + (labels is not None and k != labels[0]) for k in range(2)]))]

    examples = [(x, [label]) for x, label in zip(X, y)]
    return cs.StructuredSVM.from_oracle(joint, lambda y, p: float(y[0] != p[0]), best, examples, exact=True, C=1.0)


def chain(kind: str, scale: float, size: int = 20_000, **more: Any) -> Any:
    n = int(size * scale)
    return cs.StructuredSVM.read([table_of(kind, n, 10)], [drawn(10, n)], 10, C=1.0, **more)


def wide_grid(kind: str, scale: float) -> Any:
    """9 x 9 with three labels by its junction tree: the widest that takes long."""
    side = max(int(9 * scale**0.5), 2)
    return cs.StructuredSVM.read([table_of(kind, side**2, 3)], [drawn(3, side**2)], 3, edges=[grid(side)], C=1.0)


def relaxed_grid(kind: str, scale: float) -> Any:
    side = max(int(60 * scale**0.5), 2)
    labels, edges = [drawn(3, side**2)], [grid(side)]
    return cs.StructuredSVM.read([table_of(kind, side**2, 3)], labels, 3, edges=edges, inference="relaxed", C=1.0)


def one_sequence(kind: str, scale: float) -> Any:
    n = int(20_000 * scale)
    symbols = np.zeros(n, dtype=int) if kind == "ties" else drawn(20, n)
    return cs.GenerativeMargin.hmm([symbols], [drawn(10, n)], 10, 20, eta=0.1)


def one_conditional(kind: str, scale: float) -> Any:
    n = int(20_000 * scale)
    return cs.ConditionalRandomField.read([table_of(kind, n, 10)], [drawn(10, n)], 10, C=1.0)


def one_hidden(kind: str, scale: float) -> Any:
    n = int(10_000 * scale)
    labels = np.where(drawn(2, n) > 0, drawn(5, n), -1)
    return cs.HiddenField.conditional([table_of(kind, n, 10)], [labels], 5, lam=0.1)


def one_markov(kind: str, scale: float) -> Any:
    n = int(50_000 * scale)
    return cs.HiddenMarkov.read([np.zeros(n, dtype=int) if kind == "ties" else drawn(20, n)], 10, 20)


def field(kind: str, scale: float, reader: Any = cs.MarkovRandomField, side: int = 9, lam: float | None = 0.1) -> Any:
    side = max(int(side * scale**0.5), 2)
    factors = cs.tabular_factors(grid(side), 2)
    shape = (20, side**2)
    samples = np.zeros(shape, dtype=int) if kind == "ties" else np.random.default_rng(0).integers(2, size=shape)
    return reader.read(factors, samples, **({} if lam is None else {"lam": lam}))


def one_risk(kind: str, scale: float, bias: bool = True) -> Any:
    n = int(400_000 * scale)
    return cs.RegularizedRisk.binary(table_of(kind, n, 20), 2 * drawn(2, n) - 1, 1e-7, bias=bias)


def network(kind: str, scale: float) -> Any:
    n = int(4000 * scale)
    samples = np.zeros((n, 8), dtype=int) if kind == "ties" else np.random.default_rng(0).integers(3, size=(n, 8))
    return cs.GenerativeMargin.network(chain_graph(8, 3), samples, [0, 2, 4], eta=0.5)


def one_box(kind: str, scale: float) -> Any:
    n = int(10_000_000 * scale)
    m = np.zeros(n) if kind == "ties" else np.random.default_rng(0).normal(size=n)
    return cs.BoxProjection(m, 0.0, 1.0, np.ones(n), 0.3 * n, np.ones(n))


def one_table(kind: str, scale: float) -> Any:
    n, s = int(50_000 * scale), 10
    edge, node = table_of(kind, (n - 1) * s, s).reshape(n - 1, s, s), table_of(kind, n, s)
    return cs.MarginalProjection.chains([n], edge, node)


def one_kernel(kind: str, scale: float) -> Any:
    n = int(3000 * scale)
    return cs.GaussianProcessSequences.read([table_of(kind, n, 5)], [drawn(10, n)], 10, lam=1e-4)


def unlabelled(kind: str, scale: float) -> Any:
    n = max(int(120 * scale), 6)
    return cs.UnsupervisedMargin.multiclass(table_of(kind, n, 3), 3, 0.1, 0.5)


def one_labelling(kind: str, scale: float) -> Any:
    return cs.MarginLabelling(cs.UnsupervisedMargin.multiclass(table_of(kind, int(600 * scale), 3), 3, 0.1, 0.5))


def one_energy(kind: str, scale: float) -> Any:
    n = int(4000 * scale)
    return cs.ConvexEnergyNetwork(table_of(kind, n, 10), drawn(2, 6 * n).reshape(n, 6), 1.0)


def one_unrolled(kind: str, scale: float) -> Any:
    n = int(4000 * scale)
    return cs.UnrolledEnergyNetwork(table_of(kind, n, 10), drawn(2, 6 * n).reshape(n, 6), 1.0)


def one_inference(kind: str, scale: float) -> Any:
    return cs.EnergyInference(table_of(kind, int(100_000 * scale), 8), np.ones((8, 8)))


#: By name a problem of each kind of data ("ties", "one example"), of a size by ``scale``.
EVERY: dict[str, Callable[[str, float], Any]] = {
    made.__name__: made
    for made in (sleeper, chain, wide_grid, relaxed_grid, one_sequence, network, one_conditional, one_hidden,
                 one_markov, field, one_risk, one_box, one_table, one_kernel, one_energy,
                 one_inference, one_unrolled, unlabelled, one_labelling)
} | {
    "chain, slack": partial(chain, size=4000, scaling="slack"),
    "no bias": partial(one_risk, bias=False),
    "no penalty": partial(field, lam=None),
    "approximate, no penalty": partial(field, reader=cs.ApproximateField, lam=None),
    "pseudolikelihood": partial(field, reader=cs.PseudoLikelihood, side=60),
    "approximate field": partial(field, reader=cs.ApproximateField, side=60),
}  # fmt: skip


def late(seconds: float, limit: float) -> bool:
    """Whether a run was longer than its limit by more than it may be."""
    return seconds - limit > max(GRACE_SECONDS, GRACE_SHARE * limit)


def lost(found: Any) -> str:
    """The bound, if there is one, that the solver had while it ran and its solution has not; else ""."""
    here = {"lower bound": (found.trace.lower_bound, found.lower_bound), "primal": (found.trace.primal, found.primal)}
    return ", ".join(what for what, (seen, kept) in here.items() if math.isfinite(seen[-1]) > math.isfinite(kept))


def swept(problem: Any, limits: Sequence[float], names: Sequence[str] = ()) -> Iterator[tuple[str, float, float, Any]]:
    """(solver, limit, seconds, solution) of each solver of the problem's family that takes it."""
    for kind in registry.families()[problem.family].solvers:
        if names and kind.__name__ not in names:
            continue
        for limit in limits:
            begin = time.perf_counter()
            try:
                found = cs.solve(problem, kind(), tol=1e-12, time_limit=limit)
            except ValueError:  # it does not take this one, and says so: tests/families/test_solvers.py
                break
            yield kind.__name__, limit, time.perf_counter() - begin, found


def sweep(limits: Sequence[float], scale: float, on: Sequence[str], cases: bool) -> int:
    """Every solver on `EVERY`, of both kinds, and perhaps the cases; how many runs were late or lost a bound."""
    made: dict[str, Callable[[], Any]] = {
        f"{name}: {kind}": partial(build, kind, scale)
        for name, build in EVERY.items()
        for kind in ("ties", "one example")
    }
    if cases:
        made |= {case.name: case.build for each in registry.families().values() for case in each.cases}
    bad, ran = 0, set()
    for name, build in made.items():
        if on and not any(name.startswith(each) for each in on):
            continue
        for solver, limit, seconds, found in swept(build(), limits):
            wrong = ", ".join(
                filter(None, ("LATE" if late(seconds, limit) else "", lost(found) and f"LOST {lost(found)}"))
            )
            bad += bool(wrong)
            ran.add(solver)
            print(f"{name:28}{solver:24}{limit:6.1f}{seconds:8.2f}  [{found.lower_bound:.6g}, {found.primal:.6g}] "
                  f"{found.status.name} {wrong} {found.message[:80] if wrong else ''}", flush=True)  # fmt: skip
        gc.collect()
    never = {kind.__name__ for each in registry.families().values() for kind in each.solvers} - ran
    print(f"{bad} runs were late or lost a bound; not run: {', '.join(sorted(never)) or 'none'}")
    return bad


def main() -> int:
    """A row for each instance, solver and limit; exit status 1 if a limit is not kept or a bound is lost."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--on", action="append", help="instances whose names begin so (again for more); default all")
    parser.add_argument("--limit", type=float, action="append", help="seconds that each solver gets (again for more)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of examples")
    parser.add_argument("--cases", action="store_true", help="the cases of all families too")
    parser.add_argument("--processor", action="store_true", help="seconds are those of the processor")
    asked = parser.parse_args()
    if asked.processor:
        time.perf_counter = time.process_time
    return int(sweep(asked.limit or [0.2, 1.0, 3.0], asked.scale, asked.on or [], asked.cases) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
