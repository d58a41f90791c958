"""Unsupervised max-margin networks (paper 3) in CVXPY: the builders of its formulations.

Some (losses of given labels, other relaxations, and the two halves of an alternation) have optima of their own and are
not in `FORMULATIONS`; import them from here.
"""

from convexstruct.models.unsupervised_margin.cuts import ConstraintGeneration, delta_cuts
from convexstruct.models.unsupervised_margin.labelling import labelled
from convexstruct.models.unsupervised_margin.margin_loss import indicators, margin_loss, relaxed_loss
from convexstruct.models.unsupervised_margin.relaxation import full, multiclass, reduced
from convexstruct.models.unsupervised_margin.tightened import keep_or_flip
from convexstruct.models.unsupervised_margin.two_class import (
    alternating_matrix,
    dual,
    primal,
    proposition_1,
    two_class,
    two_class_dual,
)

__all__ = [
    "ConstraintGeneration",
    "alternating_matrix",
    "delta_cuts",
    "dual",
    "full",
    "indicators",
    "keep_or_flip",
    "labelled",
    "margin_loss",
    "multiclass",
    "primal",
    "proposition_1",
    "reduced",
    "relaxed_loss",
    "two_class",
    "two_class_dual",
]
