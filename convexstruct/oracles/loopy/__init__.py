"""Graphs with cycles: minimum cuts, the linear relaxation, belief propagation."""
