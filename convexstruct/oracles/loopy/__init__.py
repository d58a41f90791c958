"""Graphs with cycles: minimum cuts, alpha-expansion, the linear relaxation."""
