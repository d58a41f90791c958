"""Discriminative training of generative models in CVXPY: every formulation by name in `ENTRIES`."""

from convexstruct.models.formulation import Entry
from convexstruct.models.generative_margin import compact, cuts, enumerated, proximal_point
from convexstruct.models.generative_margin.compact import compact_dual
from convexstruct.models.generative_margin.cuts import ConstraintGeneration, n_slack, one_slack
from convexstruct.models.generative_margin.enumerated import MarginRows, dual, dual_beta, entropy_dual, primal
from convexstruct.models.generative_margin.proximal_point import proximal, proximal_dual

#: Every formulation of the family.
ENTRIES: tuple[Entry, ...] = (
    *enumerated.ENTRIES,
    *cuts.ENTRIES,
    *proximal_point.ENTRIES,
    *compact.ENTRIES,
)

__all__ = [
    "ENTRIES",
    "ConstraintGeneration",
    "MarginRows",
    "compact_dual",
    "dual",
    "dual_beta",
    "entropy_dual",
    "n_slack",
    "one_slack",
    "primal",
    "proximal",
    "proximal_dual",
]
