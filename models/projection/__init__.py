"""Projections in CVXPY: every formulation by name in `ENTRIES`."""

from convexstruct.models.formulation import Entry
from convexstruct.models.projection import boxes, polytopes
from convexstruct.models.projection.boxes import box, box_dual
from convexstruct.models.projection.polytopes import labellings, tables, tables_dual, variables

#: Every formulation of the family.
ENTRIES: tuple[Entry, ...] = (
    *boxes.ENTRIES,
    *polytopes.ENTRIES,
)

__all__ = ["ENTRIES", "box", "box_dual", "labellings", "tables", "tables_dual", "variables"]
