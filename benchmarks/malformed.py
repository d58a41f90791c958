"""Malformed input at every public door: each call ends in one sentence, or in a value; never in a crash.

    python benchmarks/malformed.py [--n 50000] [--seed 0]

Each trial takes a door with sound arguments, and spoils one of them with a value drawn from `spoilers` (or changes an
entry of the argument). Counted for each door: other exceptions than ValueError (`types`), sentences of more than 300
characters or more than one line (`long`), warnings, processes that died (`crashes`), and silent nonsense: an answer
where no answer was due (a spoiler that is never a value of that argument was taken). Batches run in processes of their
own, so that one that dies is counted.
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

import convexstruct as cs
from convexstruct import graphs, losses, solvers
from convexstruct.families.gaussian_process.kernels import Gram, Kernel
from convexstruct.features.counts.hmm_channels import ChannelCounts, window
from convexstruct.features.counts.network import deduplicate

#: Trials in one process.
BATCH = 2500
KINDS = ("types", "long", "warnings", "silent", "crashes")


class Hostile:
    """Foreign code: whatever is asked of it fails."""

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("hostile")

    __repr__ = __str__ = __len__ = __iter__ = __array__ = __index__ = __float__ = __getitem__ = __bool__ = _fail


class Endless:
    """A length beyond all memory, and an entry wherever one asks."""

    def __len__(self) -> int:
        return 2**62

    def __getitem__(self, at: Any) -> float:
        return 0.0


def broken_sparse(rng: np.random.Generator) -> Any:
    """A sparse matrix one of whose arrays was changed after it was made."""
    matrix = sp.random_array((6, 3), density=0.5, format=str(rng.choice(["csr", "csc", "coo"])), rng=rng)
    if matrix.format == "coo":
        matrix.row[0] = rng.choice([-1, 10**6])
    elif rng.random() < 0.5:
        matrix.indices[0] = rng.choice([-1, 10**6, 2**30])
    else:
        matrix.indptr[1] = rng.choice([-5, 10**8])
    return matrix


def spoilers(rng: np.random.Generator) -> Any:
    """A value that is sound at no door."""
    known = [
        Hostile(), Endless(), object(), object, 3j, "nonsense", "x" * 10_000, b"\xff\x00", 10**400, -(10**400), {1, 2},
        {"no": 1}, iter([1]), lambda: 0, NotImplemented, ..., np.nan, -np.inf, [], (), {}, [[]], [[1, 2], [3]],
        [None], [Hostile()], [["a"]], [1, "a"], [np.nan], [1j], [[[[1.0]]]], np.datetime64("2020"), np.zeros(0),
        np.zeros((0, 3)), np.zeros((2, 2, 2, 2)), np.array([1j, 2]), np.array([None, object()]), np.array("text"),
        np.array(["2020-01-01"], dtype="M8[D]"), np.array([1, 2], dtype="m8[s]"), np.full((6, 3), np.nan),
        np.ma.array([1.0, 2.0], mask=[False, True]), np.ma.masked, np.array([(1, 2.0)], dtype="i4,f8"),
        [2**70], np.broadcast_to(1.0, (10**12,)), nx.Graph, type, broken_sparse(rng), sp.coo_array((10**9, 10**9)),
    ]  # fmt: skip
    return known[rng.integers(len(known))]


def spoilt(value: Any, rng: np.random.Generator) -> Any:
    """A spoiler, or ``value`` with one entry that no door takes."""
    if isinstance(value, list) and value and rng.random() < 0.3:
        changed = list(value)
        changed[rng.integers(len(changed))] = spoilt(changed[0], rng)
        return changed
    if isinstance(value, np.ndarray) and value.dtype == float and rng.random() < 0.3:
        copied = value.copy()
        copied.flat[rng.integers(copied.size)] = rng.choice([np.nan, -np.inf])
        return copied
    return spoilers(rng)


def doors() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Each door with arguments that are sound."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])
    graph = graphs.chain_graph(3, 2)
    hmm = {"symbols": [[0, 1], [2]], "states": [[0, 1], [1]], "n_states": 2, "n_symbols": 3}
    svm = {"node_features": [X[:2], X[2:]], "labels": [[0, 1], [1, 0, 1, 0]], "n_labels": 2, "C": 1.0}
    chains = {"lengths": [2, 3], "edge": rng.normal(size=(3, 2, 2)), "node": rng.normal(size=(5, 2)), "n_labels": 2}
    svm |= {"edges": [[[0, 1]], [[0, 1], [1, 2]]], "loss": [[0.0, 1.0], [1.0, 0.0]], "weights": [1.0, 2.0]}
    risk = {"X": X, "lam": 0.1, "weights": np.ones(6)}
    found: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "GenerativeMargin.hmm": (cs.GenerativeMargin.hmm, {**hmm, "eta": 0.5, "weights": [1.0, 1.0]}),
        "GenerativeMargin.network": (
            cs.GenerativeMargin.network,
            {"graph": graph, "assignments": [[0, 1, 1], [1, 0, 0]], "hidden": [0, 2], "eta": 0.5},
        ),
        "StructuredSVM.read": (cs.StructuredSVM.read, svm),
        "RegularizedRisk.binary": (cs.RegularizedRisk.binary, {**risk, "y": y % 2, "bias": True}),
        "RegularizedRisk.multiclass": (cs.RegularizedRisk.multiclass, {**risk, "y": y, "n_classes": 3}),
        "RegularizedRisk.multilabel": (cs.RegularizedRisk.multilabel, {**risk, "Y": np.eye(3)[y]}),
        "RegularizedRisk.ordinal": (cs.RegularizedRisk.ordinal, {**risk, "y": y, "thresholds": [0.0, 1.0]}),
        "RegularizedRisk.pieces": (
            cs.RegularizedRisk.pieces,
            {"A": X, "b": np.zeros(6), "lam": 0.1, "example": [0, 0, 1, 1, 2, 2], "floor": True},
        ),
        "BoxProjection": (
            cs.BoxProjection,
            {"m": X[0], "lower": 0.0, "upper": 1.0, "s": np.ones(3), "z": 1.0, "d": 1.0},
        ),
        "BoxProjection.simplex": (cs.BoxProjection.simplex, {"m": X[0], "z": 1.0, "d": 1.0}),
        "MarginalProjection.graph": (
            cs.MarginalProjection.graph,
            {"cliques": [["a", "b"], ["b"]], "m": [np.ones((2, 2)), np.ones(2)], "d": 1.0, "scale": 1.0},
        ),
        "MarginalProjection.chains": (cs.MarginalProjection.chains, chains),
        "GaussianProcessSequences.read": (
            cs.GaussianProcessSequences.read,
            {"inputs": [X[:2], X[2:]], "labels": [[0, 1], [1, 0, 1, 0]], "n_labels": 2, "kernel": "rbf", "lam": 1.0},
        ),
        "GaussianProcessSequences.from_gram": (
            cs.GaussianProcessSequences.from_gram,
            {"gram": np.eye(6), "labels": [[0, 1], [1, 0, 1, 0]], "n_labels": 2, "eta": 1.0},
        ),
        "Gram": (Gram, {"matrix": np.eye(3)}),
        "Kernel": (Kernel, {"name": "rbf", "gamma": 1.0, "offset": 0.0, "degree": 2}),
        "ChannelCounts.read": (ChannelCounts.read, {**hmm, "symbols": [np.zeros((2, 2), int), np.zeros((1, 2), int)]}),
        "window": (window, {"sequences": [[0, 1], [1]], "n_symbols": 2, "radius": 1}),
        "deduplicate": (deduplicate, {"assignments": [[0, 1], [0, 1]], "weights": [1.0, 1.0]}),
        "chain_graph": (graphs.chain_graph, {"length": 3, "states": 2}),
        "tree_graph": (graphs.tree_graph, {"parents": [-1, 0], "states": 2}),
        "grid_graph": (graphs.grid_graph, {"rows": 2, "columns": 2, "states": 2}),
        "hmm_graph": (graphs.hmm_graph, {"n_states": 2, "n_symbols": 2, "length": 2}),
        "chains": (graphs.chains, {"lengths": [1, 2]}),
        "read_bayesian_network": (graphs.read_bayesian_network, {"graph": graph}),
        "cost_matrix": (losses.cost_matrix, {"cost": [[0.0, 1.0], [1.0, 0.0]], "n_labels": 2}),
        "losses.ring": (losses.ring, {"n_labels": 3}),
    }
    problems = {
        "generative_margin": cs.GenerativeMargin.hmm(**hmm, eta=0.5),  # type: ignore[arg-type]
        "structured_svm": cs.StructuredSVM.read(**svm),  # type: ignore[arg-type]
        "regularized_risk": cs.RegularizedRisk.binary(X, y % 2, 0.1, bias=True),
        "box": cs.BoxProjection.simplex(X[0]),
        "tables": cs.MarginalProjection.chains(**chains),  # type: ignore[arg-type]
        "gaussian_process": cs.GaussianProcessSequences.from_gram(np.eye(6), [[0, 1], [1, 0, 1, 0]], 2),
    }
    for name, problem in problems.items():
        first = cs.solve(problem, tol="LOW")  # type: ignore[arg-type]
        sound = {"problem": problem, "point": first.point, "dual_point": first.dual_point}
        found[f"certify {name}"] = (cs.certify, sound)
        for key, value in first.point.items():
            found[f"point {name} {key}"] = (_at(problem, first.point, key), {key: value})
        for key, value in (first.dual_point or {}).items():
            found[f"dual {name} {key}"] = (_dual_at(problem, first.dual_point, key), {key: value})
        limits = {"tol": "LOW", "max_iterations": 3, "time_limit": 5.0, "start": first, "progress": False}
        more = {"solver": None, "callback": lambda *_: None, "executor": None}
        found[f"solve {name}"] = (cs.solve, {"problem": problem, **limits, **more})
    for name in solvers.__all__:
        solver = getattr(solvers, name)
        options = getattr(solver, "__dataclass_fields__", None)
        if options and hasattr(solver, "iterate"):
            found[f"solvers.{name}"] = (solver, {key: field.default for key, field in options.items()})
    return found


def _at(problem: Any, point: Any, key: str) -> Callable[..., Any]:
    return lambda **given: problem.as_point({**point, key: given[key]})


def _dual_at(problem: Any, dual_point: Any, key: str) -> Callable[..., Any]:
    return lambda **given: problem.dual_residuals({**dual_point, key: given[key]})


#: What is sound after all: an empty mapping as dual point, functions as callbacks, non-finite points, and so on.
def excused(door: str, name: str, value: Any) -> bool:
    """Whether ``value`` may be an answer's argument at this door after all."""
    if door.startswith(("point", "dual")) or name in (
        "point",
        "dual_point",
        "lower",
        "edges",
        "y",
        "cliques",
        "states",
    ):
        return True  # non-finite entries certify nothing, and names of labels and variables are free
    return name in ("hidden", "progress", "assignments") and not isinstance(value, (Hostile, Endless))


def run(n: int, seed: int, found: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """``n`` trials in this process: for each door the trials, what went wrong by kind, and an example of each."""
    found = doors() if found is None else found
    rng = np.random.default_rng(seed)
    names = sorted(found)
    table: dict[str, dict[str, Any]] = {name: {"trials": 0, "count": Counter(), "examples": {}} for name in names}
    for _ in range(n):
        name = names[rng.integers(len(names))]
        call, sound = found[name]
        argument = sorted(sound)[rng.integers(len(sound))]
        value = spoilt(sound[argument], rng)
        if argument in ("callback", "record") and callable(value):
            continue  # a function: what it does is its own affair
        row = table[name]
        row["trials"] += 1
        for kind, text in trial(call, {**sound, argument: value}, excused(name, argument, value)):
            row["count"][kind] += 1
            row["examples"].setdefault(kind, f"{argument}={type(value).__name__}: {text}"[:400])
    return table


def trial(call: Callable[..., Any], given: dict[str, Any], may_answer: bool) -> list[tuple[str, str]]:
    """What went wrong in one call, by kind."""
    wrong = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            call(**given)
            if not may_answer:
                wrong.append(("silent", "taken"))
        except ValueError as error:
            text = str(error)
            if type(error) is not ValueError:
                wrong.append(("types", type(error).__name__))
            if len(text) > 300 or "\n" in text:
                wrong.append(("long", text))
        except Exception as error:
            wrong.append(("types", f"{type(error).__name__}: {error}"[:300]))
    return wrong + [("warnings", str(each.message)) for each in told[:1]]


def main() -> int:
    """All batches in processes of their own, and a table; exit status 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", action="store_true", help="run here and print the table as JSON")
    asked = parser.parse_args()
    if asked.batch:
        print(json.dumps(run(asked.n, asked.seed)))
        return 0
    total: dict[str, dict[str, Any]] = {}
    done = 0
    while done < asked.n:
        size = min(BATCH, asked.n - done)
        command = [sys.executable, __file__, "--batch", "--n", str(size), "--seed", str(asked.seed + done)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        done += size
        if ended.returncode != 0:
            row = total.setdefault("(a batch)", {"trials": 0, "count": Counter(), "examples": {}})
            row["count"]["crashes"] += 1
            row["examples"]["crashes"] = f"status {ended.returncode}: {ended.stderr[-300:]}"
            continue
        for name, part in json.loads(ended.stdout.splitlines()[-1]).items():
            row = total.setdefault(name, {"trials": 0, "count": Counter(), "examples": {}})
            row["trials"] += part["trials"]
            row["count"].update(part["count"])
            row["examples"] = part["examples"] | row["examples"]
    print(f"{'door':40}{'trials':>8}" + "".join(f"{kind:>10}" for kind in KINDS))
    sums = copy.copy(Counter[str]())
    for name, row in sorted(total.items()):
        sums.update(row["count"])
        print(f"{name[:39]:40}{row['trials']:8}" + "".join(f"{row['count'][kind]:10}" for kind in KINDS))
        for kind, text in row["examples"].items():
            print(f"    {kind}: {text}")
    print(f"{'all':40}{done:8}" + "".join(f"{sums[kind]:10}" for kind in KINDS))
    return int(bool(sum(sums.values())))


if __name__ == "__main__":
    raise SystemExit(main())
