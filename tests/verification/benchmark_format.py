"""A reader of the Conic Benchmark Format, written from its manual and not from our writer; and Clarabel on it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import clarabel
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Vector

#: Numbers on a line of each list of coordinates, after which the value comes.
COORDINATES = {"OBJACOORD": 1, "ACOORD": 2, "BCOORD": 1, "HCOORD": 4, "DCOORD": 3}


@dataclass
class File:
    """minimise or maximise a'x + constant, where g = A x + b stands in the cones and D + sum_j x_j H_j is semidefinite.

    cones : (name, rows) of CON. sizes : of PSDCON. lists : the lists of coordinates as (indices, value).
    """

    sense: str = ""
    n: int = 0
    cones: list[tuple[str, int]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    constant: float = 0.0
    lists: dict[str, list[tuple[tuple[int, ...], float]]] = field(default_factory=dict)


def read(text: str) -> File:
    lines = iter([line.strip() for line in text.splitlines() if not line.startswith("#")])
    found = File()

    def pair() -> tuple[str, int]:
        first, second = next(lines).split()
        return first, int(second)

    for keyword in lines:
        if keyword == "VER":
            assert next(lines) == "3"
        elif keyword == "OBJSENSE":
            found.sense = next(lines)
        elif keyword == "VAR":
            found.n = int(pair()[0])
            assert pair() == ("F", found.n)
        elif keyword == "PSDCON":
            found.sizes = [int(next(lines)) for _ in range(int(next(lines)))]
        elif keyword == "CON":
            rows, count = pair()
            found.cones = [pair() for _ in range(count)]
            assert sum(size for _, size in found.cones) == int(rows)
        elif keyword == "OBJBCOORD":
            found.constant = float(next(lines))
        elif keyword in COORDINATES:
            found.lists[keyword] = []
            for _ in range(int(next(lines))):
                *indices, value = next(lines).split()
                assert len(indices) == COORDINATES[keyword]
                found.lists[keyword].append((tuple(map(int, indices)), float(value)))
        else:
            assert keyword == "", f"unknown keyword {keyword!r}"
    return found


def solved(file: File) -> float:
    """The optimal value by Clarabel, which takes s = b - A x in a cone."""
    sign = 1.0 if file.sense == "MIN" else -1.0
    c = np.zeros(file.n)
    for (j,), value in file.lists["OBJACOORD"]:
        c[j] = sign * value
    rows = sum(size for _, size in file.cones)
    A, b = sp.lil_matrix((rows, file.n)), np.zeros(rows)
    for (i, j), value in file.lists.get("ACOORD", []):
        A[i, j] = value
    for (i,), value in file.lists.get("BCOORD", []):
        b[i] = value
    groups: dict[str, list[tuple[sp.csr_matrix, Vector]]] = {"L=": [], "L+": [], "Q": [], "S": [], "EXP": []}
    start, A = 0, A.tocsr()
    for name, size in file.cones:
        order = np.arange(start, start + size)[::-1] if name == "EXP" else np.arange(start, start + size)
        groups[name].append((A[order], b[order]))
        start += size
    groups["S"] = [semidefinite(file, number, n) for number, n in enumerate(file.sizes)]
    blocks = [block for name in groups for block in groups[name]]
    stacked, shift = sp.vstack([-block for block, _ in blocks]).tocsc(), np.concatenate([part for _, part in blocks])
    sizes = {name: [len(part) for _, part in found] for name, found in groups.items()}
    return sign * by_clarabel(stacked, shift, c, sizes, file.sizes) + file.constant


def semidefinite(file: File, number: int, n: int) -> tuple[sp.csr_matrix, Vector]:
    """The rows of one matrix: Clarabel takes the upper triangle column by column."""
    pairs = [(i, j) for j in range(n) for i in range(j + 1)]
    place = {(max(pair), min(pair)): row for row, pair in enumerate(pairs)}
    A, b = sp.lil_matrix((len(pairs), file.n)), np.zeros(len(pairs))
    for (which, j, k, l), value in file.lists.get("HCOORD", []):
        assert k >= l, "the lower triangle"
        if which == number:
            A[place[k, l], j] = value * (1.0 if k == l else math.sqrt(2.0))
    for (which, k, l), value in file.lists.get("DCOORD", []):
        if which == number:
            b[place[k, l]] = value * (1.0 if k == l else math.sqrt(2.0))
    return A.tocsr(), b


def by_clarabel(A: sp.csc_matrix, b: Vector, c: Vector, sizes: dict[str, list[int]], matrices: list[int]) -> float:
    cones = [clarabel.ZeroConeT(size) for size in sizes["L="]]
    cones += [clarabel.NonnegativeConeT(size) for size in sizes["L+"]]
    cones += [clarabel.SecondOrderConeT(size) for size in sizes["Q"]]
    cones += [clarabel.PSDTriangleConeT(n) for n in matrices]
    cones += [clarabel.ExponentialConeT() for _ in sizes["EXP"]]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = 1e-10
    empty = sp.csc_matrix((len(c), len(c)))
    return float(clarabel.DefaultSolver(empty, c, A, b, cones, settings).solve().obj_val)
