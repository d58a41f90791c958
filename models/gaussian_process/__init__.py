"""Gaussian process sequence labelling in CVXPY: every formulation by name in `ENTRIES`."""

from convexstruct.models.formulation import Entry
from convexstruct.models.gaussian_process import compact, enumerated
from convexstruct.models.gaussian_process.compact import compact_dual, compact_primal
from convexstruct.models.gaussian_process.enumerated import dual, primal

#: Every formulation of the family.
ENTRIES: tuple[Entry, ...] = (
    *enumerated.ENTRIES,
    *compact.ENTRIES,
)

__all__ = ["ENTRIES", "compact_dual", "compact_primal", "dual", "primal"]
