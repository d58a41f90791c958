"""The family's solvers, one algorithm in each file."""
