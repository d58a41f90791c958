"""Solvers of problem (P), one algorithm a file."""
