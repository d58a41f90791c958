"""A formulation as the cone program that CVXPY compiles it to, in two forms: arrays, and the Conic Benchmark Format.

**Arrays**, the form that Clarabel and SCS take:

    minimise    c'x + offset
    subject to  A x + s = b,    s in K = zero x nonnegative x second-order ... x semidefinite ... x exponential ...

in this order of rows. The formulation's own value is c'x + offset, or minus that where it is a maximisation.

    zero              s = 0
    nonnegative       s >= 0
    second-order      s_0 >= |(s_1, s_2, ..)|
    semidefinite      of an (n, n) matrix the upper triangle column by column, (0, 0), (0, 1), (1, 1), (0, 2) ..;
                      entries off the diagonal times sqrt 2 (Clarabel's order; SCS has the lower triangle's columns)
    exponential       (s_0, s_1, s_2) in the closure of s_1 > 0, s_1 e^(s_0 / s_1) <= s_2

A dual solution y lies in the dual cone of K, with A'y + c = 0.

All is as CVXPY compiles it for Clarabel, but for a quadratic objective x'P x / 2, which CVXPY leaves to Clarabel: with
P = F'F, one more variable t, the last, stands for it in the objective, and the last second-order cone holds
(t + 1/2, t - 1/2, F x), that is 2 t >= |F x|^2. CVXPY 1.9.3 makes no such cone here: told to (``use_quad_obj=False``),
it factors a dense P by LDL and drops pivots below 2e-10 of the largest, even if their columns have entries of 1e16, as
may be where P is singular. In the tests of this file are an integer matrix of rank 3 that it misses by 2 in an entry,
and a case whose optimum it makes over a quarter too small.

**Conic Benchmark Format**, version 3 (H. A. Friberg, CBLIB 2014: a benchmark library for conic mixed-integer and
continuous optimization, Math. Prog. Comp. 8, 2016; the exponential cone is in the manual that MOSEK keeps,
https://docs.mosek.com/latest/cmdtools/cbf-format.html). All x are free scalar variables; g = b - A x stands in ``CON``
(L=, L+, Q, EXP) or, for the semidefinite rows, in ``PSDCON``. Three things differ from the arrays:

    EXP               has its entries the other way round: g_0 >= g_1 e^(g_2 / g_1), so (s_2, s_1, s_0)
    PSDCON            matrices themselves, not scaled: the lower triangle in HCOORD (constraint, variable, row, column,
                      value: the coefficients of x) and DCOORD (constraint, row, column, value: the constants)
    OBJSENSE          MAX where the formulation is a maximisation, with its own signs: the objective is its value
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from convexstruct.arrays import Flags, Index, Matrix, Vector

#: Version of the format that files say they have: the first with exponential cones that other readers take.
VERSION = 3
#: Largest exponent whose exponential is finite in double precision, nearly.
LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class Cones:
    """The cones of K in the order of their rows. zero, nonnegative : rows. second_order : rows of each. semidefinite :
    n of each matrix. exponential : how many, of three rows each."""

    zero: int
    nonnegative: int
    second_order: tuple[int, ...]
    semidefinite: tuple[int, ...]
    exponential: int

    @cached_property
    def blocks(self) -> list[tuple[str, int, int]]:
        """(kind, rows, n) of each cone, n of the matrix where it is semidefinite; empty ones are left out."""
        found = [("zero", self.zero, 0), ("nonnegative", self.nonnegative, 0)]
        found += [("second-order", size, 0) for size in self.second_order]
        found += [("semidefinite", n * (n + 1) // 2, n) for n in self.semidefinite]
        found += [("exponential", 3, 0)] * self.exponential
        return [block for block in found if block[1]]

    def split(self, s: Vector) -> Iterator[tuple[str, int, Vector]]:
        """(kind, n, the entries of ``s``) of each cone."""
        start = 0
        for kind, rows, n in self.blocks:
            yield kind, n, s[start : start + rows]
            start += rows


@dataclass(frozen=True, eq=False)
class ConeProgram:
    """A compiled formulation. maximise : the sense of the formulation. formulation : it. The rest is as the head of
    this file says."""

    A: sp.csr_array
    b: Vector
    c: Vector
    offset: float
    cones: Cones
    maximise: bool
    formulation: Any
    _way_back: tuple[Any, Any, Flags]  # CVXPY's chain, its inverse data, and which rows are its own

    def value(self, x: Vector) -> float:
        """The objective of the formulation."""
        value = float(self.c @ x) + self.offset
        return -value if self.maximise else value

    def violation(self, x: Vector) -> tuple[str, float]:
        """(kind of the cone, how far b - A x lies outside it) where it is farthest, relative to max(1, |b|)."""
        s = self.b - self.A @ x
        scale = max(1.0, float(np.abs(self.b).max(initial=0.0)))
        far = [(outside(kind, n, part) / scale, kind) for kind, n, part in self.cones.split(s)]
        worst, kind = max(far, default=(0.0, ""))
        return kind, worst

    def recovered(self, x: Vector, y: Vector | None = None) -> Any:
        """What the formulation reads from x and the dual solution y (0 where it is None), as a `Recovered`; None if it
        can read nothing from them. CVXPY's own way back gives its variables and multipliers their values."""
        chain, inverse, own = self._way_back
        z = np.zeros(len(self.b)) if y is None else y
        answer = SimpleNamespace(
            status="Solved", x=x if own.all() else x[:-1], z=z[own], obj_val=float(self.c @ x), solve_time=0.0,
            iterations=0,
        )  # fmt: skip
        self.formulation.problem.unpack_results(answer, chain, inverse)
        try:
            return self.formulation.recover(self.formulation)
        except Exception:  # a formulation whose point is read from multipliers may fail in any way without them
            return None


def outside(kind: str, n: int, s: Vector) -> float:
    """How far the entries ``s`` lie outside their cone, absolute, at least 0. n : of the matrix if semidefinite."""
    if not np.isfinite(s).all():
        return math.inf
    if kind == "zero":
        return float(np.abs(s).max())
    if kind == "nonnegative":
        return float(max(0.0, -s.min()))
    if kind == "second-order":
        return float(max(0.0, np.linalg.norm(s[1:]) - s[0]))
    if kind == "semidefinite":
        return float(max(0.0, -np.linalg.eigvalsh(matrix(s, n))[0]))
    x, y, z = s
    face = max(abs(y), x, -z, 0.0)  # to the part of the cone where y = 0, x <= 0, z >= 0
    if y <= 0:
        return float(face)
    above = y * math.exp(min(x / y, LARGEST_EXPONENT)) - z
    before = x - y * math.log(z / y) if z > 0 else math.inf
    return float(max(0.0, min(above, before, face)))


def triangle(n: int) -> tuple[Index, Index]:
    """(row, column) of each entry of the upper triangle of an (n, n) matrix, column by column."""
    column, row = np.tril_indices(n)
    return row, column


def matrix(s: Vector, n: int) -> Matrix:
    """The symmetric (n, n) matrix whose upper triangle, scaled, is ``s``."""
    row, column = triangle(n)
    found = np.zeros((n, n))
    found[row, column] = found[column, row] = np.where(row == column, s, s / math.sqrt(2.0))
    return found


def compiled(formulation: Any) -> ConeProgram:
    """The cone program of ``formulation``, a `convexstruct.models.Formulation`. ValueError if it has a power cone,
    which this form lacks."""
    import cvxpy as cp

    data, chain, inverse = formulation.problem.get_problem_data(cp.CLARABEL, solver_opts={})
    dims = data["dims"]
    if dims.p3d:
        raise ValueError(f"{formulation.name} has power cones, which are not exported")
    cones = Cones(int(dims.zero), int(dims.nonneg), _sizes(dims.soc), _sizes(dims.psd), int(dims.exp))
    A = sp.csr_array(data["A"])
    b, c = np.asarray(data["b"], dtype=np.float64), np.asarray(data["c"], dtype=np.float64)
    own = np.ones(len(b), dtype=np.bool_)
    if data.get("P") is not None and data["P"].nnz:
        F = factor(sp.csr_array(data["P"]))
        n, rows = len(c), 2 + F.shape[0]
        at = cones.zero + cones.nonnegative + sum(cones.second_order)
        cone = sp.block_array([[sp.csr_array((2, n)), -np.ones((2, 1))], [-F, None]], format="csr")
        A = sp.hstack([A, sp.csr_array((len(b), 1))], format="csr")
        A = sp.vstack([A[:at], cone, A[at:]], format="csr")
        b, own = np.insert(b, at, [0.5, -0.5, *[0.0] * (rows - 2)]), np.insert(own, at, [False] * rows)
        c = np.append(c, 1.0)
        cones = replace(cones, second_order=(*cones.second_order, rows))
    A.eliminate_zeros()
    A.sort_indices()
    maximise = isinstance(formulation.problem.objective, cp.Maximize)
    offset = float(inverse[-1][cp.settings.OFFSET])
    return ConeProgram(A, b, c, offset, cones, maximise, formulation, (chain, inverse, own))


def factor(P: sp.csr_array) -> sp.csr_array:
    """F with F'F = P, of a positive semidefinite P: by the eigenvectors of each block of variables that P joins.

    Eigenvalues below rounding, n 2^-52 times the block's largest, are taken for 0.
    """
    count, label = connected_components(P, directed=False)
    parts, rows, columns, start = [], [], [], 0
    order = np.argsort(label, kind="stable")
    for block in np.split(order, np.cumsum(np.bincount(label, minlength=count))[:-1]):
        values, vectors = np.linalg.eigh(P[block][:, block].toarray())
        kept = values > len(block) * np.finfo(np.float64).eps * max(values[-1], 0.0)
        part = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
        parts.append(part.ravel())
        rows.append(np.repeat(np.arange(start, start + len(part)), len(block)))
        columns.append(np.tile(block, len(part)))
        start += len(part)
    entries = (np.concatenate(rows), np.concatenate(columns))
    return sp.csr_array(sp.coo_array((np.concatenate(parts), entries), shape=(start, P.shape[0])))


def _sizes(sizes: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(size) for size in sizes)


# -- the Conic Benchmark Format ----------------------------------------------------------------------------------------

#: Names of the cones there.
NAMES = {"zero": "L=", "nonnegative": "L+", "second-order": "Q", "exponential": "EXP"}


def benchmark_format(program: ConeProgram, comments: Sequence[str] = ()) -> str:
    """``program`` as a file of the Conic Benchmark Format; ``comments`` stand at its head, a line each."""
    sign = -1.0 if program.maximise else 1.0
    scalar: list[Any] = []  # the cones of CON and their rows
    where: list[tuple[int, int]] = []  # the first row in A of each semidefinite cone, and n
    entries: list[Any] = []
    constants: list[Any] = []
    row, start = 0, 0
    place = np.full(len(program.b), -1)  # the row of CON in which each row of A stands, -1 if it is semidefinite
    for kind, rows, n in program.cones.blocks:
        if kind == "semidefinite":
            where.append((start, n))
        else:
            inside = np.arange(rows)[::-1] if kind == "exponential" else np.arange(rows)
            place[start : start + rows] = row + inside
            scalar.append((NAMES[kind] if (kind, rows) != ("second-order", 1) else "L+", rows))
            row += rows
        start += rows
    for number, (first, n) in enumerate(where):
        less, more = triangle(n)
        scale = np.where(less == more, 1.0, math.sqrt(2.0))
        part, constant = sp.coo_array(program.A[first : first + len(less)]), program.b[first : first + len(less)]
        entries += [(number, j, more[r], less[r], -v / scale[r]) for r, j, v in zip(*part.coords, part.data)]
        constants += [(number, more[r], less[r], constant[r] / scale[r]) for r in np.flatnonzero(constant)]
    A = sp.coo_array(program.A)
    kept = place[A.coords[0]] >= 0
    coefficients = zip(place[A.coords[0][kept]], A.coords[1][kept], -A.data[kept])
    shifts = [(place[r], program.b[r]) for r in np.flatnonzero(program.b) if place[r] >= 0]
    objective = [(j, sign * program.c[j]) for j in np.flatnonzero(program.c)]
    blocks: Mapping[str, list[Any]] = {
        "VER": [(VERSION,)],
        "OBJSENSE": [("MAX" if program.maximise else "MIN",)],
        "VAR": [(len(program.c), 1), ("F", len(program.c))],
        "PSDCON": _counted([(n,) for _, n in where]),
        "CON": [(row, len(scalar)), *scalar] if scalar else [],
        "OBJACOORD": _counted(objective),
        "OBJBCOORD": [(sign * program.offset,)] if program.offset else [],
        "ACOORD": _counted(sorted(coefficients)),
        "BCOORD": _counted(sorted(shifts)),
        "HCOORD": _counted(entries),
        "DCOORD": _counted(constants),
    }
    text = [f"# {line}" for line in comments]
    for keyword, rows_of in blocks.items():
        if rows_of:
            text += ["", keyword, *(" ".join(_word(word) for word in words) for words in rows_of)]
    return "\n".join(text).lstrip("\n") + "\n"


def _counted(rows: Sequence[Any]) -> list[Any]:
    """The rows after their number; nothing where there are none."""
    return [(len(rows),), *rows] if rows else []


def _word(value: Any) -> str:
    return repr(float(value)) if isinstance(value, (float, np.floating)) else str(value)
