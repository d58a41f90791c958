"""Projections onto a box cut by one equality, and onto products of simplices."""
