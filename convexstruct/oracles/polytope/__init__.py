"""Projection onto the local marginal polytope of tables over cliques."""
