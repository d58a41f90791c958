"""One file per table or figure of a paper: `EXPERIMENTS` by name, each with ``run(quick, seed, progress)``."""

from __future__ import annotations

from convexstruct.experiments import connect4, online_variant, protein_hmm, tracking
from convexstruct.experiments.experiment import Cell, Experiment, Result, Run, Steps

__all__ = ["EXPERIMENTS", "Cell", "Experiment", "Result", "Run", "Steps"]

EXPERIMENTS: dict[str, Experiment] = {
    module.NAME: Experiment(module.NAME, "generative_margin", module.PAPER, module.TITLE, module.run)
    for module in (tracking, protein_hmm, online_variant, connect4)
}
