"""Each mechanism of the solvers of the kernel CRF, switched off on generated chains."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from benchmarks.ablation import Mechanism, Study
from convexstruct.families.gaussian_process import FunctionSpaceLBFGS, GaussianProcessSequences
from convexstruct.tolerances import HIGH

METHOD = "convexstruct.families.gaussian_process.solvers.function_space_lbfgs"


def _chains(sequences: int, labels: int, lam: float, eta: float, seed: int) -> GaussianProcessSequences:
    """Chains of 4 to 12 positions; inputs of 6 numbers around a centre for each label; kernel "rbf"."""
    rng = np.random.default_rng([95, seed])
    lengths = rng.integers(4, 13, size=sequences)
    truth = [rng.integers(0, labels, size=length) for length in lengths]
    centres = rng.normal(size=(labels, 6))
    inputs = [centres[one] + 0.5 * rng.normal(size=(len(one), 6)) for one in truth]
    return GaussianProcessSequences.read(inputs, truth, labels, kernel="rbf", eta=eta, lam=lam)


def _some(sequences: int, labels: int, lam: float, eta: float = 1.0) -> list[Callable[[], GaussianProcessSequences]]:
    return [functools.partial(_chains, sequences, labels, lam, eta, seed) for seed in (1, 2, 3)]


MECHANISMS = (
    Mechanism("L-BFGS (one pair kept)", {"memory": 1}),
    Mechanism("pairs beyond 20", {"memory": 20}),
    Mechanism("t afresh as the gap shrinks (REFRESH_FALL)", patches={f"{METHOD}:REFRESH_FALL": 0.0}),
    Mechanism("slope condition of a step (WOLFE)", patches={"convexstruct.core.quasi_newton:WOLFE": float("inf")}),
)

STUDIES = [
    Study("kernel-labels-26", _some(60, 26, 0.1), FunctionSpaceLBFGS(), HIGH.gap, MECHANISMS),
    Study("kernel-labels-5", _some(100, 5, 0.01), FunctionSpaceLBFGS(), HIGH.gap, MECHANISMS),
    Study("kernel-transitions", _some(20, 4, 1e-6, 1e4), FunctionSpaceLBFGS(), HIGH.gap, MECHANISMS),
]
