"""One file per table or figure of a paper: `EXPERIMENTS` by name, each with ``run(quick, seed, progress)``."""

from __future__ import annotations

from convexstruct.core.experiment import Cell, Experiment, Result, Run, Steps
from convexstruct.families.gaussian_process.experiments import gp_sequence
from convexstruct.families.generative_margin.experiments import connect4, online_variant, protein_hmm, tracking
from convexstruct.families.projection.experiments import projection
from convexstruct.families.regularized_risk.experiments import hadamard, svm_solvers
from convexstruct.families.structured_svm.experiments import cutting_planes, ocr, scene, snakes, surrogates

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
