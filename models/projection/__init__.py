"""Projections in CVXPY: every formulation by name in `ENTRIES`."""

from convexstruct.models.formulation import Entry
from convexstruct.models.projection import boxes, polytopes
from convexstruct.models.projection.boxes import Entries, box, box_dual
from convexstruct.models.projection.polytopes import (
    Rows,
    agreements,
    corners,
    entry,
    junction_tree,
    labellings,
    tables,
    tables_dual,
    variables,
)

#: Every formulation of the family.
ENTRIES: tuple[Entry, ...] = (
    *boxes.ENTRIES,
    *polytopes.ENTRIES,
)

__all__ = [
    "ENTRIES",
    "Entries",
    "Rows",
    "agreements",
    "box",
    "box_dual",
    "corners",
    "entry",
    "junction_tree",
    "labellings",
    "tables",
    "tables_dual",
    "variables",
]
