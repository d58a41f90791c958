"""Each mechanism of the solvers of the kernel CRF, switched off on generated chains."""

from __future__ import annotations

import numpy as np

from benchmarks.ablation import Study, numbers, options, seeds
from convexstruct.families.gaussian_process import FunctionSpaceLBFGS, GaussianProcessSequences
from convexstruct.tolerances import HIGH


def _chains(sequences: int, labels: int, lam: float, seed: int, eta: float = 1.0) -> GaussianProcessSequences:
    """Chains of 4 to 12 positions; inputs of 6 numbers around a centre for each label; kernel "rbf"."""
    rng = np.random.default_rng([95, seed])
    lengths = rng.integers(4, 13, size=sequences)
    truth = [rng.integers(0, labels, size=length) for length in lengths]
    centres = rng.normal(size=(labels, 6))
    inputs = [centres[one] + 0.5 * rng.normal(size=(len(one), 6)) for one in truth]
    return GaussianProcessSequences.read(inputs, truth, labels, kernel="rbf", eta=eta, lam=lam)


MECHANISMS = (
    *options(memory=(1, 20)),
    *numbers("function_space_lbfgs", REFRESH_FALL=(0.0,)),
    *numbers("quasi_newton", WOLFE=(float("inf"),)),
)

STUDIES = [
    Study("kernel-labels-26", seeds(_chains, 60, 26, 0.1), FunctionSpaceLBFGS(), HIGH.gap, MECHANISMS),
    Study("kernel-labels-5", seeds(_chains, 100, 5, 0.01), FunctionSpaceLBFGS(), HIGH.gap, MECHANISMS),
    Study("kernel-transitions", seeds(_chains, 20, 4, 1e-6, eta=1e4), FunctionSpaceLBFGS(), HIGH.gap, MECHANISMS),
]
