"""Gaussian process sequence labelling in CVXPY: every formulation by name in `ENTRIES`."""

from convexstruct.marginals.triplets import sums_by
from convexstruct.models.formulation import Entry
from convexstruct.models.gaussian_process import compact, enumerated
from convexstruct.models.gaussian_process.compact import Steps, compact_dual, compact_primal
from convexstruct.models.gaussian_process.enumerated import (
    FunctionValues,
    Labellings,
    dual,
    entry,
    primal,
    write_out,
)

#: Every formulation of the family.
ENTRIES: tuple[Entry, ...] = (
    *enumerated.ENTRIES,
    *compact.ENTRIES,
)

__all__ = [
    "ENTRIES",
    "FunctionValues",
    "Labellings",
    "Steps",
    "compact_dual",
    "compact_primal",
    "dual",
    "entry",
    "primal",
    "sums_by",
    "write_out",
]
