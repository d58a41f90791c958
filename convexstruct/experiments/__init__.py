"""One file per table or figure of a paper: `EXPERIMENTS` by name, each with ``run(quick, seed, progress)``."""

from __future__ import annotations

from convexstruct.experiments import (
    connect4,
    cutting_planes,
    gp_sequence,
    hadamard,
    ocr,
    online_variant,
    projection,
    protein_hmm,
    scene,
    snakes,
    surrogates,
    svm_solvers,
    tracking,
)
from convexstruct.experiments.experiment import Cell, Experiment, Result, Run, Steps

__all__ = ["EXPERIMENTS", "Cell", "Experiment", "Result", "Run", "Steps"]

#: The experiments of each family.
_MODULES = {
    "generative_margin": (tracking, protein_hmm, online_variant, connect4),
    "regularized_risk": (hadamard, svm_solvers),
    "gaussian_process": (gp_sequence,),
    "projection": (projection,),
    "structured_svm": (surrogates, cutting_planes, ocr, scene, snakes),
}

EXPERIMENTS: dict[str, Experiment] = {
    module.NAME: Experiment(module.NAME, family, module.PAPER, module.TITLE, module.run)
    for family, modules in _MODULES.items()
    for module in modules
}
