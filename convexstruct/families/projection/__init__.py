"""Projections onto boxes cut by one equality and onto local marginal polytopes (paper 2, appendices B and E.3)."""

from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.solvers.block_ascent import BlockAscent
from convexstruct.families.projection.solvers.breakpoint_search import BreakpointSearch
from convexstruct.families.projection.solvers.marginal_ascent import MarginalAscent
from convexstruct.families.projection.tables import MarginalProjection

__all__ = ["BlockAscent", "BoxProjection", "BreakpointSearch", "MarginalAscent", "MarginalProjection"]
