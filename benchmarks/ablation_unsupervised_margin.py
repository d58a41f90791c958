"""Each mechanism of the solvers of the reduced SDP, switched off on chains as in `benchmarks/unsupervised_margin.py`;
and those of two of their parts: the best diagonal, and the semidefinite half of section 5's alternation.

The seeds differ from that of the benchmark.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.ablation import Mechanism, Oracle, Study
from benchmarks.unsupervised_margin import GAP, Workload
from convexstruct.arrays import Matrix, Vector
from convexstruct.core.certificates import relative_gap
from convexstruct.families.unsupervised_margin import LowRank, ReducedADMM, UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.alternating import quadratic_half, semidefinite_half
from convexstruct.families.unsupervised_margin.solvers.diagonal import best_diagonal
from convexstruct.tolerances import HIGH

HOME = "convexstruct.families.unsupervised_margin.solvers"
FACTORS, SPLITTING, ADMM = f"{HOME}.low_rank", f"{HOME}.splitting", f"{HOME}.reduced_admm"
DIAGONAL, ALTERNATING = f"{HOME}.diagonal", f"{HOME}.alternating"


def _some(sequences: int, length: int, labels: int = 2) -> list[Callable[[], Any]]:
    return [Workload(sequences, length, labels, seed).problem for seed in (1, 2, 3)]


def _diagonal(n: int, rank: int, off: float, seed: int) -> tuple[Matrix, Vector, float]:
    """(A, a start, the least 1'y): A = Diag(y) - Z with Z V = 0 for V of rank ``rank`` and rows of length 1; the start
    is y with normal noise of standard deviation ``off``."""
    rng = np.random.default_rng(seed)
    v = rng.normal(size=(n, rank))
    rest = np.linalg.qr(v / np.linalg.norm(v, axis=1)[:, None], mode="complete")[0][:, rank:]
    y = rng.normal(size=n)
    costs = np.diag(y) - (rest * rng.uniform(0.1, 1.0, size=n - rank)) @ rest.T
    return costs, y + off * rng.normal(size=n), float(y.sum())


def _found(given: tuple[Matrix, Vector, float]) -> tuple[int, float]:
    """The error is the mean excess of an entry over the least, once Z is feasible."""
    costs, start, least = given
    y = best_diagonal(costs, start)
    lift = max(0.0, -float(np.linalg.eigvalsh(np.diag(y) - costs)[0]))
    return 1, (float(y.sum()) - least) / len(y) + lift


def _half(rows: int, beta: float, lam: float, seed: int) -> tuple[UnsupervisedMargin, Vector]:
    """Normal points in the plane, and multipliers from 0 to 2 ``lam``."""
    rng = np.random.default_rng(seed)
    problem = UnsupervisedMargin.multiclass(rng.normal(size=(rows, 2)), 2, beta, 0.3)
    return problem, 2.0 * lam * rng.random(rows)


def _solved(given: tuple[UnsupervisedMargin, Vector]) -> tuple[int, float]:
    problem, lam = given
    half = semidefinite_half(problem, lam, GAP, problem.trivial()[0]["M"])
    return 1, relative_gap(half.value, half.lower)


def _relation(rows: int, beta: float, seed: int) -> tuple[UnsupervisedMargin, Matrix]:
    """Normal points in the plane, and M of random labels."""
    rng = np.random.default_rng(seed)
    problem = UnsupervisedMargin.multiclass(rng.normal(size=(rows, 2)), 2, beta, 0.3)
    labels = np.where(rng.random(rows) < 0.5, 1.0, -1.0)
    return problem, (np.outer(labels, labels) + 1.0) / 2.0


def _ascended(given: tuple[UnsupervisedMargin, Matrix]) -> tuple[int, float]:
    problem, m = given
    half = quadratic_half(problem, m, GAP, np.full(problem.n_rows, 0.5))
    return 1, relative_gap(half.value, half.lower)


def _given(costs: Any, y: Any) -> Any:
    """Replaces `best_diagonal`: keeps the multipliers of the diagonal that the solver found."""
    return y


def _as_found(splitting: Any, point: Any) -> Any:
    """Replaces `Splitting.polished`: keeps the point that the solver found."""
    return point


BOUNDS = (
    Mechanism("polishing before the repair", patches={f"{SPLITTING}:Splitting.polished": _as_found}),
    Mechanism("many steps of polishing (POLISHING)", patches={f"{SPLITTING}:POLISHING": 3}),
    Mechanism("few steps of polishing (POLISHING)", patches={f"{SPLITTING}:POLISHING": 30}),
    Mechanism(
        "best diagonal (best_diagonal)",
        patches={f"{SPLITTING}:best_diagonal": _given, f"{FACTORS}:best_diagonal": _given},
    ),
)
OF_FACTORS = (
    *BOUNDS,
    Mechanism("penalty that is changed (PENALTY_FACTOR)", patches={f"{FACTORS}:PENALTY_FACTOR": 1.0}),
    Mechanism("penalty that is raised (VIOLATION_FALL)", patches={f"{FACTORS}:VIOLATION_FALL": math.inf}),
    Mechanism("sharper stages (GRADIENT_FACTOR)", patches={f"{FACTORS}:GRADIENT_FACTOR": 1.0}),
    Mechanism("columns beside the square root (EXTRA_COLUMNS)", patches={f"{FACTORS}:EXTRA_COLUMNS": 0}),
    Mechanism("L-BFGS (one pair kept)", {"memory": 1}),
    Mechanism("ADMM going on (ROWS_A_STAGE)", patches={f"{FACTORS}:ROWS_A_STAGE": 1e-6}),
    Mechanism("patience by rows (ROWS_A_STAGE)", patches={f"{FACTORS}:ROWS_A_STAGE": 1e6}),
    Mechanism("ADMM's high penalty (ADMM_PENALTY)", patches={f"{FACTORS}:ADMM_PENALTY": 3.0}),
    Mechanism("ADMM's penalty not higher (ADMM_PENALTY)", patches={f"{FACTORS}:ADMM_PENALTY": 45.0}),
    Mechanism("bounds that are compared (BOUND_RATIO)", patches={f"{FACTORS}:BOUND_RATIO": math.inf}),
)
OF_ADMM = (
    *BOUNDS,
    Mechanism("Anderson acceleration", {"memory": 0}),
    Mechanism("over-relaxation", {"relaxation": 1.0}),
    Mechanism("penalty that is changed", {"changes": 0}),
    Mechanism("a combination every fifth step only", {"every": 1}),
    Mechanism("bounds that are compared (BOUND_RATIO)", patches={f"{ADMM}:BOUND_RATIO": math.inf}),
    Mechanism("no change where they are near (BOUND_RATIO)", patches={f"{ADMM}:BOUND_RATIO": 1.0}),
)
OF_DIAGONAL = (
    Mechanism("fast fall of t (BARRIER_FALL)", patches={f"{DIAGONAL}:BARRIER_FALL": 0.5}),
    Mechanism("last t (LAST_BARRIER)", patches={f"{DIAGONAL}:LAST_BARRIER": 1e-7}),
    Mechanism("last t no smaller (LAST_BARRIER)", patches={f"{DIAGONAL}:LAST_BARRIER": 1e-10}),
    Mechanism("start well inside (LEAST_EIGENVALUE)", patches={f"{DIAGONAL}:LEAST_EIGENVALUE": 1e-8}),
    Mechanism("start not deeper inside (LEAST_EIGENVALUE)", patches={f"{DIAGONAL}:LEAST_EIGENVALUE": 0.1}),
)
OF_HALVES = (
    Mechanism("small penalty (PENALTY)", patches={f"{ALTERNATING}:PENALTY": 1.0}),
    Mechanism("penalty not smaller (PENALTY)", patches={f"{ALTERNATING}:PENALTY": 0.1}),
    Mechanism("over-relaxation (RELAXATION)", patches={f"{ALTERNATING}:RELAXATION": 1.0}),
    Mechanism("bounds after many steps (STEPS)", patches={f"{ALTERNATING}:STEPS": 5, f"{ALTERNATING}:BRACKETS": 2000}),
    Mechanism("bounds after few steps (STEPS)", patches={f"{ALTERNATING}:STEPS": 500}),
)
OF_ASCENT = (
    Mechanism("several sweeps (SWEEPS)", patches={f"{ALTERNATING}:SWEEPS": 1}),
    Mechanism("more than a few sweeps (SWEEPS)", patches={f"{ALTERNATING}:SWEEPS": 2}),
    Mechanism("few sweeps (SWEEPS)", patches={f"{ALTERNATING}:SWEEPS": 15}),
)
DIAGONALS = [functools.partial(_diagonal, 30, 5, off, seed) for off in (1e-3, 1.0) for seed in (1, 2)]
HALVES = [functools.partial(_half, n, beta, 0.3, 1) for n in (6, 20) for beta in (0.01, 0.5, 50.0)]
RELATIONS = [functools.partial(_relation, n, beta, seed) for n in (20, 100) for beta in (0.5, 50.0) for seed in (1, 2)]

STUDIES = [
    Study("factors-80", _some(10, 8), LowRank(), GAP, OF_FACTORS),
    Study("factors-80-labels-3", _some(10, 8, 3), LowRank(), GAP, OF_FACTORS),
    Study("factors-160", _some(10, 16)[:2], LowRank(), GAP, OF_FACTORS),
    Study("admm-80", _some(10, 8), ReducedADMM(), GAP, OF_ADMM),
    Study("admm-20-labels-3", _some(4, 5, 3), ReducedADMM(), GAP, OF_ADMM),
    Study("admm-20-accurate", _some(4, 5), ReducedADMM(), HIGH.gap, OF_ADMM),
    Study("best diagonal", DIAGONALS, Oracle(_found), 1e-8, OF_DIAGONAL),
    Study("alternation, semidefinite half", HALVES, Oracle(_solved, calls=2), GAP, OF_HALVES),
    Study("alternation, quadratic half", RELATIONS, Oracle(_ascended), GAP, OF_ASCENT),
]
