"""Discriminative training of generative models in CVXPY: every formulation by name in `ENTRIES`."""

from convexstruct.marginals.triplets import sums_by
from convexstruct.models.formulation import Entry
from convexstruct.models.generative_margin import compact, cuts, enumerated, proximal_point
from convexstruct.models.generative_margin.compact import compact_dual
from convexstruct.models.generative_margin.cuts import ConstraintGeneration, Round, n_slack, one_slack, valid_floor
from convexstruct.models.generative_margin.enumerated import (
    DualSet,
    MarginRows,
    at_parameters,
    block_entropy,
    block_sums,
    dual,
    dual_beta,
    entropy_dual,
    entry,
    eta_parameter,
    primal,
    within_domain,
)
from convexstruct.models.generative_margin.proximal_point import ProximalMargin, proximal, proximal_dual

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
    "DualSet",
    "MarginRows",
    "ProximalMargin",
    "Round",
    "at_parameters",
    "block_entropy",
    "block_sums",
    "compact_dual",
    "dual",
    "dual_beta",
    "entropy_dual",
    "entry",
    "eta_parameter",
    "n_slack",
    "one_slack",
    "primal",
    "proximal",
    "proximal_dual",
    "sums_by",
    "valid_floor",
    "within_domain",
]
