"""The time that the allowance for rounding takes: bounds with it beside the same formulas without it.

    python benchmarks/allowance.py [--quick] [--only NAME ...] [--repeats 5]

For each instance, all in one process with one thread, in process CPU time, the best of several: the solve by the
default solver to the default accuracy (a fresh problem each time, so that what is computed once counts); P and D as the
problem evaluates them, allowance included; and P and D by the same formulas without one (`PLAIN`). The
difference, times how often a solve asks for P and for D, is the cost of the allowance, as a share of the solve:

    (first P - plain P + (asked - 1) (next P - plain P) + the same of D) / solve            goal: at most `GOAL`

"first" is on a problem that has evaluated the plain formula only, so that what the allowance keeps for later counts
once. Both evaluations must agree to `AGREE`. Exit status 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from benchmarks.measure import THREADS

    if any(os.environ.get(name) != number for name, number in THREADS.items()):  # read when NumPy is imported
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **THREADS})

import numpy as np
import scipy.linalg

import convexstruct as cs
from benchmarks import generative_margin, projection, regularized_risk, structured_svm
from benchmarks.ablation_gaussian_process import _chains as kernel_chains
from benchmarks.ablation_structured_svm import _image as image
from convexstruct.arrays import Point, Vector
from convexstruct.datasets import available
from convexstruct.families.regularized_risk.bounds import member
from convexstruct.oracles.polytope.local_polytope import evaluate, unknown
from convexstruct.oracles.polytope.table_columns import Columns
from convexstruct.rounding import Rounded

#: The share of a solve that the allowance may cost.
GOAL = 0.05
#: Relative to P: how far a bound and the plain value may differ (their operations on the witness differ in order).
AGREE = 1e-9
#: Evaluations are timed until so many seconds are spent, and so many times at most; solves up to `REPEATS` times.
SPENT, EVALUATIONS, REPEATS = 1.0, 25, 5

# -- the same formulas without an allowance ----------------------------------------------------------------------------


def plain_generative(problem: Any, point: Point, dual: Point) -> tuple[Callable[[], float], Callable[[], float]]:
    features, c, theta = problem.features, problem.c, point["theta"]

    def primal() -> float:
        slack = np.maximum(features.best(theta, 1.0)[0] - problem.truth_each @ theta, 0.0)
        return float(-c[c > 0] @ theta[c > 0] + problem.eta * (features.weights @ slack))

    return primal, lambda: problem.best_on_segment(*problem.aggregate(dual))[1]


def plain_structured(problem: Any, point: Point, dual: Point) -> tuple[Callable[[], float], Callable[[], float]]:
    features, w, every = problem.features, point["w"], np.arange(problem.features.n_nodes)
    s, t = features.truth[features.edges].T

    def primal() -> float:
        if "shifts" in point:
            node, edge = problem.scores(w)
            best = problem.forests.upper(node + problem.loss.costs, edge, point["shifts"])
        else:
            node, edge = problem.scores(w)
            best = problem.oracle.best(node + problem.loss.costs, edge).upper
        hinge = np.maximum(best - problem.truth_scores(node, edge), 0.0)
        return float(0.5 * problem.lam * (w @ w) + problem.ceiling @ hinge)

    def lower() -> float:
        node = np.zeros((features.n_nodes, features.n_labels))
        edge = np.zeros((features.n_labels,) * 2 if features.shared else (features.n_edges, *(features.n_labels,) * 2))
        total = np.zeros(features.n_examples)
        for labels, share in zip(dual.get("labels", ()), dual.get("label_shares", ())):
            mass = problem.ceiling * share
            node[every, labels] += mass[features.example]
            pairs(edge, labels[features.edges[:, 0]], labels[features.edges[:, 1]], mass)
            total += mass
        for theta, b, share in zip(*(dual.get(name, ()) for name in ("gibbs", "gibbs_loss", "gibbs_shares"))):
            mass = problem.ceiling * share
            scores = features.node_scores(theta) + b * problem.loss.costs, features.edge_scores(theta)
            sums = problem.oracle.sums(*scores, mass)
            node, edge, total = node + sums.node, edge + sums.edge, total + mass
        if "node_marginals" in dual:
            mass = problem.ceiling * dual.get("marginal_shares", 1.0)
            node += dual["node_marginals"] * mass[features.example][:, None]
            weighted = dual["edge_marginals"] * mass[features.edge_example][:, None, None]
            edge, total = edge + (weighted.sum(axis=0) if features.shared else weighted), total + mass
        lost = float(np.vdot(node, problem.loss.costs))
        node, edge = -node, -edge
        node[every, features.truth] += total[features.example]
        pairs(edge, s, t, total)
        return float(problem.best_on_ray(features.adjoint(node, edge), lost))

    def pairs(edge: Vector, first: Vector, second: Vector, mass: Vector) -> None:
        mass = mass[features.edge_example]
        if features.shared:
            size = features.n_labels
            edge += np.bincount(first * size + second, mass, size * size).reshape(size, size)
        else:
            edge[np.arange(features.n_edges), first, second] += mass

    return primal, lower


def plain_risk(problem: Any, point: Point, dual: Point) -> tuple[Callable[[], float], Callable[[], float]]:
    def lower() -> float:
        alpha = member(problem, dual["alpha"])
        a = problem.adjoint(alpha)
        return float(problem.loss.offset @ alpha - 0.5 / problem.lam * np.vdot(a, a))

    return lambda: problem.value(point["w"], point.get("b")), lower


def plain_kernel(problem: Any, point: Point, dual: Point) -> tuple[Callable[[], float], Callable[[], float]]:
    u, truth = point["u"], problem.truth

    def log_partition(scores: Vector) -> float:
        """Forwards alone, by products with e^transition."""
        chains = problem.chains
        label, transition = problem.split(scores)
        node = label[problem.packed_places]
        step, top = np.exp(transition - transition.max()), node.max(axis=1)
        weight = np.exp(node - top[:, None])
        value, alpha = float(top.sum()) + float(transition.max()) * len(chains.later), weight[chains.rows(0)]
        for t in range(chains.n_steps):
            rows = chains.rows(t)
            if t:
                alpha = alpha[: rows.stop - rows.start] @ step * weight[rows]
            sums = alpha.sum(axis=1)
            value, alpha = value + float(np.log(sums).sum()), alpha / sums[:, None]
        return value

    def primal() -> float:
        scores = problem.multiply(u)
        return float(0.5 * problem.lam * (u @ scores) - truth @ scores + log_partition(scores))

    def lower() -> float:
        scores = problem.multiply(dual["u"])
        value, mean = problem.log_partition(scores)
        rest = truth - mean
        return float(value - mean @ scores - rest @ problem.multiply(rest) / (2.0 * problem.lam))

    return primal, lower


def plain_box(problem: Any, point: Point, dual: Point) -> tuple[Callable[[], float], Callable[[], float]]:
    def value(a: Vector) -> float:
        off = problem.d * (a - problem.m)
        return 0.5 * float(off @ off)

    def lower() -> float:
        rho = float(dual["rho"])
        a = np.clip(problem.m - rho * (problem.s / problem.weight), problem.lower, problem.upper)
        return value(a) + rho * float(problem.total(a) - problem.z)

    def primal() -> float:
        """Infinite outside the box, as P is."""
        low = point["a"].min() if np.ndim(problem.lower) == 0 else point["a"]
        high = point["a"].max() if np.ndim(problem.upper) == 0 else point["a"]
        inside = np.all(low >= problem.lower) and np.all(high <= problem.upper)
        return value(point["a"]) if inside else math.inf

    return primal, lower


def plain_tables(problem: Any, point: Point, dual: Point) -> tuple[Callable[[], float], Callable[[], float]]:
    structure, weights = problem.structure, problem.weights

    def size(tables: Sequence[Vector]) -> float:
        return sum(
            0.5 * float(square @ np.einsum("ij,ij->i", *(table.reshape(len(table), -1),) * 2))
            for square, table in zip(weights.square, tables)
        )

    def lower() -> float:
        layout = Columns(structure)
        cells = layout.cells(structure.split_multipliers(dual["xi"]))
        found = evaluate(layout, layout.tables(problem.groups), weights, cells, unknown(structure))[1]
        return float(found.sum()) + size(problem.groups)

    return lambda: size([a - m for a, m in zip(structure.split(point["a"]), problem.groups)]), lower


def plain_unsupervised(problem: Any, point: Point, dual: Point) -> tuple[Callable[[], float], Callable[[], float]]:
    n, p2, kappa, gram = problem.n_rows, problem.n_pairs, problem.n_labels, problem.gram
    fixed = float(gram.sum()) / kappa + (p2 / kappa) ** 2

    def of_cone(costs: Vector, sums: Vector, diagonal: Vector, kappa: int) -> float:
        left = costs - 0.5 * (sums[:, None] + sums)
        excess = float(scipy.linalg.eigvalsh(left - np.diag(diagonal), subset_by_index=[len(left) - 1] * 2)[0])
        return float(left.sum()) / kappa + (1.0 - 1.0 / kappa) * (float(diagonal.sum()) + len(left) * excess)

    def primal() -> float:
        gained = float(np.vdot(gram, point["M"])) + float(point["N"].sum()) - fixed
        return float(n * (1.0 - 1.0 / kappa) - gained / (2.0 * problem.beta))

    def lower() -> float:
        even = {name: 0.5 * (dual[name] + dual[name].T) for name in ("P", "W_current", "W_previous", "W_pair")}
        costs, p = gram - even["P"], np.maximum(even["P"], 0.0)
        np.fill_diagonal(p, np.diagonal(even["P"]))
        for column, name in ((1, "W_current"), (0, "W_previous")):
            np.subtract.at(costs, np.ix_(problem.pairs[:, column], problem.pairs[:, column]), even[name])
        now, before, pair = even["W_current"], even["W_previous"], even["W_pair"]
        most = np.maximum(np.maximum(now, before), np.maximum(now + before + pair, 0.0))
        most[problem.feasible.tied] = np.maximum(now + pair, 0.0)[problem.feasible.tied] + before[problem.feasible.tied]
        np.fill_diagonal(most, np.diagonal(now + before + pair))
        rows = [
            size * (share * float(sums.sum()) + balance * float(np.abs(sums).sum()))
            for size, sums, (share, balance) in zip((n, p2), (dual["u"], dual["v"]), problem.feasible.shares)
        ]
        found = of_cone(costs, dual["u"], dual["y"], kappa) + of_cone(1.0 - pair, dual["v"], dual["z"], kappa**2)
        gained = found + sum(rows) + float(p.sum()) + float(most.sum()) - fixed
        return float(n * (1.0 - 1.0 / kappa) - gained / (2.0 * problem.beta))

    return primal, lower


PLAIN: dict[str, Callable[[Any, Point, Point], tuple[Callable[[], float], Callable[[], float]]]] = {
    "GenerativeMargin": plain_generative, "StructuredSVM": plain_structured, "RegularizedRisk": plain_risk,
    "GaussianProcessSequences": plain_kernel, "BoxProjection": plain_box, "MarginalProjection": plain_tables,
    "UnsupervisedMargin": plain_unsupervised,
}  # fmt: skip

# -- instances ---------------------------------------------------------------------------------------------------------


def sparse_chains(chains: int, features: int) -> Any:
    """Chains with so many features, 5 of them active at each node."""
    data = cs.datasets.random_chains(chains, 10, 5, features, active=5, seed=0)
    return cs.StructuredSVM.read(data.node_features, data.labels_each, 5, beta=1.0)


def cycle(n: int) -> Any:
    """Tables on the four edges of a cycle of four variables with 8 labels, for n examples."""
    rng = np.random.default_rng(0)
    edges = [(0, 1), (1, 2), (2, 3), (3, 0)]
    return cs.MarginalProjection.graph(edges, [0.1 * rng.normal(size=(n, 8, 8)) for _ in edges])


def unsupervised(rows: int) -> Any:
    """Sequences of ten rows of three features around one of two centres."""
    rng = np.random.default_rng(0)
    centre = np.where(rng.random(rows) < 0.5, -1.0, 1.0)
    each = np.split(centre[:, None] + rng.normal(size=(rows, 3)), rows // 10)
    return cs.UnsupervisedMargin.read(each, 2, beta=1.0, label_balance=0.1, pair_balance=0.25)


def _risk(**size: Any) -> Callable[[], Any]:
    return regularized_risk.Workload(**size).build


def _box(kind: str, n: int = 1_000_000) -> Callable[[], Any]:
    return projection.Workload(kind, n).box


def instances(quick: bool) -> dict[str, Callable[[], Any]]:
    """What is measured, by name; ``quick``: instances too small for their ratios to be judged."""
    hmm, svm = generative_margin.Workload, structured_svm.Workload
    if quick:
        return {
            "hmm-10": hmm(10, 10).build,
            "svm-chains": svm(20, 8, 4, 10).build, "svm-sparse": lambda: sparse_chains(10, 40),
            "svm-grid": lambda: image(2, 4, 1, {}), "kernel": lambda: kernel_chains(6, 4, 0.1, 1.0, 1),
            "risk-dense": _risk(n=300, d=20), "risk-sparse": _risk(data="sparse", n=300, d=100, words=10),
            **{f"box-{kind}": _box(kind, 1000) for kind in ("simplex", "capped", "bias", "weighted")},
            "tables-chains": projection.Workload("chains", 5, 4, 4).chains, "tables-cycle": lambda: cycle(3),
            "unsupervised-20": lambda: unsupervised(20),
        }  # fmt: skip
    found: dict[str, Callable[[], Any]] = {
        "hmm-easy-10": hmm(noise="EASY").build, "hmm-hard-10": hmm().build,
        "hmm-easy-30": hmm(states=30, noise="EASY").build, "svm-chains": svm().build,
        "svm-sparse": lambda: sparse_chains(100, 300),
        "svm-grid": lambda: image(10, 20, 1, {"associative": True, "inference": "minimum_cut"}),
        "kernel-26": lambda: kernel_chains(60, 26, 0.1, 1.0, 1),
    }  # fmt: skip
    found |= {f"risk-32kx{d}-C{C:g}": _risk(n=32_000, d=d, C=C) for d in (123, 200) for C in (1.0, 10.0)}
    found["risk-sparse-C1"] = _risk(data="sparse", n=20_000)
    found["risk-sparse-wide-C1"] = _risk(data="sparse", n=20_000, d=5000)
    if any(presence.source.name == "a9a" and presence.state == "here" for presence in available()):
        found["risk-a9a-C1"] = _risk(data="a9a", n=32_561, d=123)
    found |= {f"box-{kind}": _box(kind) for kind in ("simplex", "capped", "bias", "weighted")}
    found |= {"tables-chains": projection.LETTERS.chains, "tables-cycle": lambda: cycle(300)}
    return found | {f"unsupervised-{rows}": lambda rows=rows: unsupervised(rows) for rows in (20, 40)}


# -- times -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """Seconds of P or of D: plain; with the allowance, first and next time. asked : how often one solve asks for it."""

    plain: float
    first: float
    again: float
    asked: int

    @property
    def seconds(self) -> float:
        """What the allowance takes of a solve."""
        return max(0.0, self.first - self.plain + (self.asked - 1) * (self.again - self.plain)) if self.asked else 0.0


@dataclass(frozen=True)
class Row:
    """One instance. allowance : the larger one of the two bounds, relative to P. solve : seconds."""

    name: str
    solve: float
    primal: Cost
    dual: Cost
    allowance: float

    @property
    def share(self) -> float:
        return (self.primal.seconds + self.dual.seconds) / self.solve


def timed(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


@contextmanager
def counted(kind: type) -> Iterator[Counter[str]]:
    """How often P and D of ``kind`` are asked for inside, by themselves or together (`examined`)."""
    calls: Counter[str] = Counter()
    own = {name: getattr(kind, name) for name in ("examined" if hasattr(kind, "examined") else "primal", "dual")}

    def counting(name: str) -> Callable[..., Any]:
        def call(self: Any, point: Point, *dual_point: Point | None) -> Any:
            calls["dual" if name == "dual" else "primal"] += 1
            calls["dual"] += dual_point not in ((), (None,))
            return own[name](self, point, *dual_point)

        return call

    for name in own:
        setattr(kind, name, counting(name))
    try:
        yield calls
    finally:
        for name, method in own.items():
            setattr(kind, name, method)


def measure(name: str, build: Callable[[], Any], repeats: int = REPEATS) -> Row:
    """Solve ``repeats`` times, fewer where it takes seconds; evaluate both bounds at the end, with and without."""
    problem = build()
    begin = time.process_time()
    with counted(type(problem)) as asked:
        solution = cs.solve(problem)
    solve = spent = time.process_time() - begin
    for _ in range(repeats - 1):
        if spent > 5 * SPENT:
            break
        taken = timed(partial(cs.solve, replace(problem)))
        solve, spent = min(solve, taken), spent + taken
    point, dual = problem.as_point(solution.point), solution.dual_point or {}

    def bound_of(problem: Any) -> dict[str, Callable[[], Rounded]]:
        def dual_of() -> Rounded:
            problem.__dict__.pop("_last", None)  # kept for `certify`, which asks twice; here it is to be computed
            return problem.dual(dual)  # type: ignore[no-any-return]

        return {"primal": lambda: problem.primal(point), "dual": dual_of}

    costs: dict[str, Cost] = {}
    allowance = 0.0
    with np.errstate(all="ignore"):
        plain, first, again = [dict.fromkeys(("primal", "dual"), math.inf) for _ in range(3)]
        begin = time.process_time()
        for _ in range(EVALUATIONS):
            fresh = replace(problem)
            plainly = dict(zip(plain, PLAIN[type(problem).__name__](fresh, point, dual)))
            values = {side: call() for side, call in plainly.items()}
            for least, calls in ((plain, plainly), (first, bound_of(fresh)), (again, bound_of(fresh))):
                for side, call in calls.items():
                    least[side] = min(least[side], timed(call))
            if time.process_time() - begin > SPENT:
                break
        for side, bounding in bound_of(fresh).items():
            bound = bounding()
            if not abs(values[side] - bound) <= AGREE * abs(float(solution.primal)):
                raise ArithmeticError(f"{name}: {side} is {bound!r}, plainly {values[side]!r}")
            allowance = max(allowance, bound.allowance)
            costs[side] = Cost(plain[side], first[side], again[side], asked[side])
    return Row(name, solve, costs["primal"], costs["dual"], allowance / (abs(float(solution.primal)) or 1.0))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What the allowance for rounding costs.")
    parser.add_argument("--quick", action="store_true", help="small instances, whose ratios say little")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="instances whose names begin so")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"solves of each (default {REPEATS})")
    chosen = parser.parse_args(arguments)
    known = instances(chosen.quick)
    names = [name for name in known if chosen.only is None or name.startswith(tuple(chosen.only))]
    if not names or chosen.repeats < 1:
        parser.error(f"nothing to measure: instances are {', '.join(known)}; --repeats at least 1")
    print(f"{'milliseconds':21}{'solve':>9}  {'P: asked, plain, first, again':>34}  {'D':>34}{'width':>9}{'cost':>7}")
    judged, missed = not chosen.quick, 0
    for name in names:
        row = measure(name, known[name], chosen.repeats)
        cells = [
            f"{each.asked:>7}{1e3 * each.plain:9.2f}{1e3 * each.first:9.2f}{1e3 * each.again:9.2f}"
            for each in (row.primal, row.dual)
        ]
        print(f"{name:21}{1e3 * row.solve:9.1f}  {cells[0]}  {cells[1]}{row.allowance:9.1e}{row.share:7.1%}"
              f"{'  MISSED' if judged and row.share > GOAL else ''}", flush=True)  # fmt: skip
        missed += judged and row.share > GOAL
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
