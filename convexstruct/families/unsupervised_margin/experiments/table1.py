"""Paper 3, table 1: errors of the convex method and of EM: table 2 without the alternating methods."""

from __future__ import annotations

from convexstruct.families.unsupervised_margin.experiments import table2
from convexstruct.families.unsupervised_margin.experiments.errors import GUARDED, PLAIN

NAME = "table1"
PAPER = "paper 3, table 1"
TITLE = "Unsupervised labels: error of the SDP and of EM, beside what explains them"
COLUMNS = tuple(each for each in table2.COLUMNS if each not in (PLAIN, GUARDED))
PUBLISHED, run = table2.PUBLISHED, table2.run
