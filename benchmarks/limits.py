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
from dataclasses import dataclass
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


def whole(X: Any, n_labels: int, shape: Any) -> Any:
    """Whole numbers below ``n_labels``, random ones, or all 0 where the features are."""
    return np.random.default_rng(0).integers(n_labels, size=shape) if X.any() else np.zeros(shape, dtype=int)


def sleeper(X: Any, y: Any) -> Any:
    """Two labels an input; the oracle sleeps 20 ms a call."""

    def joint(x: Any, labels: Any) -> Any:
        return np.concatenate([x * (labels[0] == k) for k in range(2)])

    def best(x: Any, labels: Any, w: Any) -> Any:
        wait(0.02)
        return [int(np.argmax([joint(x, [k]) @ w + (labels is not None and k != labels[0]) for k in range(2)]))]

    examples = [(x, [label]) for x, label in zip(X, y)]
    return cs.StructuredSVM.from_oracle(joint, lambda y, p: float(y[0] != p[0]), best, examples, exact=True, C=1.0)


def chain(X: Any, y: Any, **more: Any) -> Any:
    return cs.StructuredSVM.read([X], [y], 10, C=1.0, **more)


def labelled_grid(X: Any, y: Any, **more: Any) -> Any:
    """Three labels; by its junction tree 9 x 9 is the widest that takes long."""
    return cs.StructuredSVM.read([X], [y], 3, edges=[grid(math.isqrt(len(y)))], C=1.0, **more)


def sequence(X: Any, y: Any) -> Any:
    return cs.GenerativeMargin.hmm([whole(X, 20, len(y))], [y], 10, 20, eta=0.1)


def network(X: Any, y: Any) -> Any:
    return cs.GenerativeMargin.network(chain_graph(8, 3), whole(X, 3, (len(y), 8)), [0, 2, 4], eta=0.5)


def hidden(X: Any, y: Any) -> Any:
    """Half of the labels are not known."""
    return cs.HiddenField.conditional([X], [np.where(drawn(2, len(y)) > 0, y, -1)], 5, lam=0.1)


def field(X: Any, y: Any, reader: Any = cs.MarkovRandomField, lam: float | None = 0.1) -> Any:
    """A grid of two labels with 20 samples."""
    factors = cs.tabular_factors(grid(math.isqrt(len(y))), 2)
    return reader.read(factors, whole(X, 2, (20, len(y))), **({} if lam is None else {"lam": lam}))


def risk(X: Any, y: Any, bias: bool = True) -> Any:
    return cs.RegularizedRisk.binary(X, 2 * y - 1, 1e-7, bias=bias)


def box(X: Any, y: Any) -> Any:
    return cs.BoxProjection(X[:, 0], 0.0, 1.0, np.ones(len(X)), 0.3 * len(X), np.ones(len(X)))


def tables(X: Any, y: Any) -> Any:
    return cs.MarginalProjection.chains([len(X)], X[:-1, :, None] * X[1:, None, :], X)


def energies(X: Any, y: Any, kind: Any = cs.ConvexEnergyNetwork) -> Any:
    return kind(X, drawn(2, 6 * len(X)).reshape(-1, 6), 1.0)


def clusters(X: Any, y: Any) -> Any:
    return cs.UnsupervisedMargin.multiclass(X, 3, 0.1, 0.5)


@dataclass(frozen=True)
class Instance:
    """One example, or a set, of ``n`` nodes with features and labels; make : (features (n, f), labels (n,)) -> the
    problem. square : whether the nodes are those of a square grid."""

    n: int
    n_features: int
    n_labels: int
    make: Callable[[Any, Any], Any]
    square: bool = False

    def __call__(self, kind: str, scale: float) -> Any:
        """The problem on data of a kind, "ties" or "one example", of a size by ``scale``."""
        n = max(math.isqrt(int(self.n * scale)), 2) ** 2 if self.square else max(int(self.n * scale), 6)
        return self.make(table_of(kind, n, self.n_features), drawn(self.n_labels, n))


EVERY = {
    "sleeper": Instance(40, 3, 2, sleeper),
    "chain": Instance(20_000, 10, 10, chain),
    "chain, slack": Instance(4000, 10, 10, partial(chain, scaling="slack")),
    "wide grid": Instance(81, 3, 3, labelled_grid, square=True),
    "relaxed grid": Instance(3600, 3, 3, partial(labelled_grid, inference="relaxed"), square=True),
    "sequence": Instance(20_000, 1, 10, sequence),
    "network": Instance(4000, 1, 3, network),
    "conditional": Instance(20_000, 10, 10, lambda X, y: cs.ConditionalRandomField.read([X], [y], 10, C=1.0)),
    "hidden": Instance(10_000, 10, 5, hidden),
    "hidden Markov": Instance(50_000, 1, 2, lambda X, y: cs.HiddenMarkov.read([whole(X, 20, len(y))], 10, 20)),
    "field": Instance(81, 1, 2, field, square=True),
    "no penalty": Instance(81, 1, 2, partial(field, lam=None), square=True),
    "approximate, no penalty": Instance(81, 1, 2, partial(field, reader=cs.ApproximateField, lam=None), square=True),
    "approximate field": Instance(3600, 1, 2, partial(field, reader=cs.ApproximateField), square=True),
    "pseudolikelihood": Instance(3600, 1, 2, partial(field, reader=cs.PseudoLikelihood), square=True),
    "risk": Instance(400_000, 20, 2, risk),
    "no bias": Instance(400_000, 20, 2, partial(risk, bias=False)),
    "box": Instance(10_000_000, 1, 2, box),
    "tables": Instance(50_000, 10, 2, tables),
    "kernel": Instance(3000, 5, 10, lambda X, y: cs.GaussianProcessSequences.read([X], [y], 10, lam=1e-4)),
    "energies": Instance(4000, 10, 2, energies),
    "unrolled": Instance(4000, 10, 2, partial(energies, kind=cs.UnrolledEnergyNetwork)),
    "inference": Instance(100_000, 8, 2, lambda X, y: cs.EnergyInference(X, np.ones((8, 8)))),
    "clusters": Instance(120, 3, 3, clusters),
    "labelling": Instance(600, 3, 3, lambda X, y: cs.MarginLabelling(clusters(X, y))),
}


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
