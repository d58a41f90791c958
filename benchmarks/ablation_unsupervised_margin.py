"""Each mechanism of the solvers of the reduced SDP, switched off on chains as in `benchmarks/unsupervised_margin.py`.

The seeds differ from that of the benchmark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.ablation import Mechanism, Study
from benchmarks.unsupervised_margin import GAP, Workload
from convexstruct.families.unsupervised_margin import LowRank, ReducedADMM
from convexstruct.tolerances import HIGH

HOME = "convexstruct.families.unsupervised_margin.solvers"
FACTORS, SPLITTING = f"{HOME}.low_rank", f"{HOME}.splitting"


def _some(sequences: int, length: int, labels: int = 2) -> list[Callable[[], Any]]:
    return [Workload(sequences, length, labels, seed).problem for seed in (1, 2, 3)]


def _given(costs: Any, y: Any) -> Any:
    """Replaces `best_diagonal`: keeps the multipliers of the diagonal that the solver found."""
    return y


def _as_found(splitting: Any, point: Any) -> Any:
    """Replaces `Splitting.polished`: keeps the point that the solver found."""
    return point


BOUNDS = (
    Mechanism("polishing before the repair", patches={f"{SPLITTING}:Splitting.polished": _as_found}),
    Mechanism(
        "best diagonal (best_diagonal)",
        patches={f"{SPLITTING}:best_diagonal": _given, f"{FACTORS}:best_diagonal": _given},
    ),
)
OF_FACTORS = (
    *BOUNDS,
    Mechanism("penalty that is changed (PENALTY_FACTOR)", patches={f"{FACTORS}:PENALTY_FACTOR": 1.0}),
    Mechanism("sharper stages (GRADIENT_FACTOR)", patches={f"{FACTORS}:GRADIENT_FACTOR": 1.0}),
    Mechanism("columns beside the square root (EXTRA_COLUMNS)", patches={f"{FACTORS}:EXTRA_COLUMNS": 0}),
    Mechanism("L-BFGS (one pair kept)", {"memory": 1}),
    Mechanism("ADMM going on (ROWS_A_STAGE)", patches={f"{FACTORS}:ROWS_A_STAGE": 1e-6}),
    Mechanism("patience by rows (ROWS_A_STAGE)", patches={f"{FACTORS}:ROWS_A_STAGE": 1e6}),
)
OF_ADMM = (
    *BOUNDS,
    Mechanism("Anderson acceleration", {"memory": 0}),
    Mechanism("over-relaxation", {"relaxation": 1.0}),
    Mechanism("penalty that is changed", {"changes": 0}),
    Mechanism("a combination every fifth step only", {"every": 1}),
)

STUDIES = [
    Study("factors-80", _some(10, 8), LowRank(), GAP, OF_FACTORS),
    Study("factors-80-labels-3", _some(10, 8, 3), LowRank(), GAP, OF_FACTORS),
    Study("factors-160", _some(10, 16)[:2], LowRank(), GAP, OF_FACTORS),
    Study("admm-80", _some(10, 8), ReducedADMM(), GAP, OF_ADMM),
    Study("admm-20-labels-3", _some(4, 5, 3), ReducedADMM(), GAP, OF_ADMM),
    Study("admm-20-accurate", _some(4, 5), ReducedADMM(), HIGH.gap, OF_ADMM),
]
