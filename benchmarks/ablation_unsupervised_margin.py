"""Each mechanism of the solvers of the reduced SDP, switched off on chains as in `benchmarks/unsupervised_margin.py`;
and those of two of their parts: the best diagonal, and the semidefinite half of section 5's alternation.

The seeds differ from that of the benchmark.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.ablation import Mechanism, Oracle, Study, numbers, options
from benchmarks.unsupervised_margin import GAP, Points, Workload, drawn
from convexstruct.arrays import Matrix, Vector
from convexstruct.core.certificates import relative_gap
from convexstruct.families.unsupervised_margin import InteriorPoint, LowRank, UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.alternating import semidefinite_half
from convexstruct.families.unsupervised_margin.solvers.diagonal import best_diagonal
from convexstruct.families.unsupervised_margin.solvers.reduced_admm import ReducedADMM
from convexstruct.tolerances import HIGH


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


def _given(costs: Any, y: Any) -> Any:
    """Replaces `best_diagonal`: keeps the multipliers of the diagonal that the solver found."""
    return y


def _as_found(splitting: Any, point: Any) -> Any:
    """Replaces `Splitting.polished`: keeps the point that the solver found."""
    return point


BOUNDS = (
    Mechanism("polishing before the repair", patches={"splitting:Splitting.polished": _as_found}),
    *numbers("splitting", POLISHING=(3, 30)),
    Mechanism(
        "best diagonal (best_diagonal)",
        patches={f"{each}:best_diagonal": _given for each in ("splitting", "low_rank")},
    ),
)
OF_FACTORS = (
    *BOUNDS,
    *options(memory=(1,)),
    *numbers("low_rank", PENALTY_FACTOR=(1.0,), VIOLATION_FALL=(math.inf,), GRADIENT_FACTOR=(1.0,), EXTRA_COLUMNS=(0,)),
    *numbers("low_rank", ROWS_A_STAGE=(1e-6, 1e6), ADMM_PENALTY=(3.0, 45.0), BOUND_RATIO=(math.inf,)),
)
OF_ADMM = (
    *BOUNDS,
    *options(memory=(0,), relaxation=(1.0,), changes=(0,), every=(1,)),
    *numbers("reduced_admm", BOUND_RATIO=(1.0, math.inf), CHANGE=(1.2, 4.0)),
)
OF_PATH = numbers("central_path", SHORT_OF_BORDER=(0.7, 0.999), LEAST_FALL=(0.0, 0.05, 0.5))
OF_INTERIOR = (*options(barrier=(1e-3, 10.0)), *OF_PATH, *numbers("central_path", BLOCK=(8, 10**6)))
OF_DIAGONAL = numbers("solvers.diagonal", BARRIER_FALL=(0.5,), LAST_BARRIER=(1e-10, 1e-7), LEAST_EIGENVALUE=(1e-8, 0.1))
OF_HALVES = (
    *numbers("alternating", PENALTY=(0.1, 1.0), RELAXATION=(1.0,), STEPS=(500,)),
    Mechanism(
        "bounds after many steps (STEPS)",
        patches={"alternating:STEPS": 5, "alternating:BRACKETS": 2000},
    ),
)
DIAGONALS = [partial(_diagonal, 30, 5, off, seed) for off in (1e-3, 1.0) for seed in (1, 2)]
HALVES = [partial(_half, n, beta, 0.3, 1) for n in (6, 20) for beta in (0.01, 0.5, 50.0)]

#: Of (3): points in space without active rows; and with a small beta, where the optimum is far below the rows' number.
TWO_CLASSES = [Points(n, beta=beta, seed=1).problem for n, beta in ((30, 2.0), (60, 2.0), (30, 0.01))]

STUDIES = [
    Study("interior-18", _some(3, 6), InteriorPoint(), HIGH.gap, OF_INTERIOR),
    Study("interior-small", [partial(drawn, number) for number in range(40)], InteriorPoint(), GAP, OF_INTERIOR),
    Study("two-classes", TWO_CLASSES, InteriorPoint(), HIGH.gap, OF_PATH),
    Study("factors-80", _some(10, 8), LowRank(), GAP, OF_FACTORS),
    Study("factors-80-labels-3", _some(10, 8, 3), LowRank(), GAP, OF_FACTORS),
    Study("factors-160", _some(10, 16)[:2], LowRank(), GAP, OF_FACTORS),
    Study("admm-80", _some(10, 8), ReducedADMM(), GAP, OF_ADMM),
    Study("admm-20-labels-3", _some(4, 5, 3), ReducedADMM(), GAP, OF_ADMM),
    Study("admm-20-accurate", _some(4, 5), ReducedADMM(), HIGH.gap, OF_ADMM),
    Study("best diagonal", DIAGONALS, Oracle(_found), 1e-8, OF_DIAGONAL),
    Study("alternation, semidefinite half", HALVES, Oracle(_solved, calls=2), GAP, OF_HALVES),
]
