"""Unsupervised max-margin networks (paper 3) in CVXPY: the formulations of the problem's own optimum in `ENTRIES`.

The other builders (losses of given labels, other relaxations, and the two halves of an alternation) have optima of
their own and are not in `ENTRIES`; import them from here.
"""

from convexstruct.models.formulation import Entry
from convexstruct.models.unsupervised_margin import cuts, relaxation
from convexstruct.models.unsupervised_margin.cuts import ConstraintGeneration, delta_cuts
from convexstruct.models.unsupervised_margin.margin_loss import indicators, margin_loss, relaxed_loss
from convexstruct.models.unsupervised_margin.relaxation import full, multiclass, reduced
from convexstruct.models.unsupervised_margin.tightened import keep_or_flip
from convexstruct.models.unsupervised_margin.two_class import (
    alternating_matrix,
    dual,
    primal,
    proposition_1,
    two_class,
)

#: Formulations of the problem's own optimum.
ENTRIES: tuple[Entry, ...] = (*relaxation.ENTRIES, *cuts.ENTRIES)

__all__ = [
    "ENTRIES",
    "ConstraintGeneration",
    "alternating_matrix",
    "delta_cuts",
    "dual",
    "full",
    "indicators",
    "keep_or_flip",
    "margin_loss",
    "multiclass",
    "primal",
    "proposition_1",
    "reduced",
    "relaxed_loss",
    "two_class",
]
