"""Malformed input at every public door: each call ends in one sentence, or in a value; never in a crash.

    python benchmarks/malformed.py [--n 50000] [--seed 0]

A door is a public function, constructor or method. Each trial takes one of `benchmarks.malformed_doors` with valid
arguments, and replaces one of them by a value drawn from `spoilers` (or changes an entry of it). Counted for each door:
other exceptions than ValueError (`types`), messages of more than 300 characters or more than one line (`long`),
warnings, processes that died (`crashes`), and calls that returned although the argument was malformed (`silent`). A
value of `spoilers` may be valid after all, such as an empty list of edges; `excused` decides that from the value alone.
Every batch runs in a process of its own, so that one that dies is counted.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.malformed_doors import doors

#: Trials in one process.
BATCH = 2500
KINDS = ("types", "long", "warnings", "silent", "crashes")


class Hostile:
    """An object on which every operation raises a RuntimeError."""

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("hostile")

    __repr__ = __str__ = __len__ = __iter__ = __array__ = __index__ = __float__ = __getitem__ = __bool__ = _fail
    __eq__ = _fail
    __hash__ = object.__hash__


class Endless(Hostile):
    """A sequence that claims 2^62 entries, and has a 0 at every index."""

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
    """A value that hardly any argument may have; see `excused` for those that may."""
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
    if isinstance(value, np.ndarray) and value.size and value.dtype == float and rng.random() < 0.3:
        copied = value.copy()
        copied.flat[rng.integers(copied.size)] = rng.choice([np.nan, -np.inf])
        return copied
    return spoilers(rng)


#: Arguments that take functions; trials that put any other callable there are skipped.
FUNCTIONS: tuple[str, ...] = ("callback", "decided", "progress", "record", "solver")
FUNCTIONS += ("best", "dual_point", "features", "joint_feature", "loss")

#: What may be the name of a variable, besides strings and whole numbers: all that can be hashed.
NAMES = (bytes, object, Hostile, Endless, type, type(Ellipsis), type(NotImplemented), type(lambda: 0), complex, tuple)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of real numbers by an independent reading (int and float in lists, or in an array); None if it is
    anything else, or ragged."""
    if type(value) is np.ndarray:
        return value.shape if value.dtype.kind in "iuf" else None
    if isinstance(value, (list, tuple)):
        shapes = {shape_of(each) for each in value}
        inner = next(iter(shapes)) if len(shapes) == 1 else None
        return (0,) if not len(value) else None if inner is None else (len(value), *inner)
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return ()
    return None


def empty(value: Any) -> bool:
    """Whether it is a list, or an array, of nothing."""
    if type(value) is np.ndarray:
        return bool(value.shape[:1] == (0,))
    return isinstance(value, (list, tuple)) and not value


def excused(door: str, name: str, value: Any, sound: Any) -> bool:
    """Whether ``value`` is a valid argument ``name`` at this door after all; ``sound`` is one that certainly is."""
    if door.startswith(("point", "dual ")) or name == "point" or door == "MarginLabelling.as_point":
        # what is not finite is a point too, it certifies nothing; a point of one array may come without its name
        given = next(iter(sound.values())) if isinstance(sound, dict) and len(sound) == 1 else sound
        shape = shape_of(value)
        if shape is not None and math.prod(shape) == np.size(given):
            return True
    if name in ("dual_point", "class_weight"):
        return type(value) is dict and not value  # a witness that is the truth alone; no class has a weight
    if name in ("latex", "comment") or (name == "name" and door in ("Profile", "Formulation.adding")):
        return isinstance(value, str)
    if door in ("plots.traces", "LabelledGraphs.some", "PairwiseFeatures.some", "Words.some") or name == "constraints":
        return empty(value)  # pictures of no rows, none of the examples, nothing forbidden
    if name == "options":
        return type(value) is dict  # the solver reads them
    if door == "plots.gap":
        return type(value) is dict and not value  # pictures of no runs
    if door == "BoxProjection" and name == "lower":
        return isinstance(value, float) and value == -math.inf  # no bound
    if name == "forbidden":
        return isinstance(value, (list, tuple)) and not value  # nothing is forbidden
    if name == "hidden":
        return type(value) is set and value <= {0, 1, 2}  # nodes of the graph
    if name == "columns":
        return type(value) is list and len(value) == 3 and all(type(each) is str for each in value)
    if door.endswith("Tagger.predict"):
        # sequences without positions, or of other symbols
        whole = type(value) is list and all(type(x) is int for each in value if type(each) is list for x in each)
        some = type(value) is list and (any(map(empty, value)) or (door.startswith("Generative") and whole))
        return some or empty(value)
    if name == "labellings":
        return type(value) is list and len(value) == len(sound)  # an example that has no other labelling
    if name == "examples" and door.startswith("predict"):
        return value == [[1, 2], [3]] if type(value) is list and len(value) == 2 else False  # sequences of symbols
    if name == "edges":
        return type(value) is type(sound) is list and len(value) == len(sound) and any(map(empty, value))  # no edges
    return name == "cliques" and renamed(value, sound)


def renamed(value: Any, sound: Any) -> bool:
    """Whether the cliques have as many variables as the sound ones, each called by a name that can be hashed."""
    if type(value) is not list or [type(each) for each in value] != [list] * len(sound):
        return False
    names = [each for clique in value for each in clique]
    alike = [len(clique) for clique in value] == [len(clique) for clique in sound]
    return alike and all(isinstance(each, (str, int)) or type(each) in NAMES for each in names)


def blank() -> dict[str, Any]:
    """What is said of a door that was not tried."""
    return {"trials": 0, "count": Counter(), "examples": {}}


def run(n: int, seed: int, found: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """``n`` trials in this process: for each door the trials, what went wrong by kind, and an example of each."""
    found = doors() if found is None else found
    rng = np.random.default_rng(seed)
    names = sorted(found)
    table = {name: blank() for name in names}
    for _ in range(n):
        name = names[rng.integers(len(names))]
        call, sound = found[name]
        argument = sorted(sound)[rng.integers(len(sound))]
        value = spoilt(sound[argument], rng)
        if (argument in FUNCTIONS and callable(value)) or (argument == "path" and isinstance(value, (str, bytes))):
            continue  # a function, or a place for a file
        row = table[name]
        row["trials"] += 1
        for kind, text in trial(call, {**sound, argument: value}, excused(name, argument, value, sound[argument])):
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
    total, done = defaultdict[str, dict[str, Any]](blank), 0
    while done < asked.n:
        size = min(BATCH, asked.n - done)
        command = [sys.executable, __file__, "--batch", "--n", str(size), "--seed", str(asked.seed + done)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        done += size
        if ended.returncode != 0:
            total["(a batch)"]["count"]["crashes"] += 1
            total["(a batch)"]["examples"]["crashes"] = f"status {ended.returncode}: {ended.stderr[-300:]}"
            continue
        for name, part in json.loads(ended.stdout.splitlines()[-1]).items():
            row = total[name]
            row["trials"] += part["trials"]
            row["count"].update(part["count"])
            row["examples"] = part["examples"] | row["examples"]
    print(f"{'door':40}{'trials':>8}" + "".join(f"{kind:>10}" for kind in KINDS))
    sums = Counter[str]()
    for name, row in sorted(total.items()):
        sums.update(row["count"])
        print(f"{name[:39]:40}{row['trials']:8}" + "".join(f"{row['count'][kind]:10}" for kind in KINDS))
        for kind, text in row["examples"].items():
            print(f"    {kind}: {text}")
    print(f"{'all':40}{done:8}" + "".join(f"{sums[kind]:10}" for kind in KINDS))
    return int(bool(sum(sums.values())))


if __name__ == "__main__":
    raise SystemExit(main())
