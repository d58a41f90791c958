"""Paper 3, table 1: errors of the convex method and of EM: table 2 without the alternating methods."""

from __future__ import annotations

from convexstruct.core.experiment import Result, Steps
from convexstruct.families.unsupervised_margin.experiments.errors import GUARDED, PLAIN
from convexstruct.families.unsupervised_margin.experiments.table2 import METHODS, compare

NAME = "table1"
PAPER = "paper 3, table 1"
TITLE = "Unsupervised labels: error of the SDP and of EM, beside what explains them"


def run(quick: bool = False, seed: int = 0, progress: Steps | None = None) -> Result:
    """Every method on the same draws; ``seed`` draws them."""
    return compare(NAME, PAPER, [each for each in METHODS if each not in (PLAIN, GUARDED)], quick, seed, progress)
