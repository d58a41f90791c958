"""Enumeration and local polytopes as sparse rows: what models/ state, and how marginals become labellings."""
