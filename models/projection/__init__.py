"""Projections in CVXPY: the builders of its formulations."""

from convexstruct.models.projection.boxes import box, box_dual
from convexstruct.models.projection.polytopes import labellings, tables, tables_dual, variables

__all__ = ["box", "box_dual", "labellings", "tables", "tables_dual", "variables"]
