"""Solvers of structural SVMs, one algorithm a file."""
