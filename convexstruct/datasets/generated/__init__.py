"""Seeded generators: plain arrays and graphs from a seed."""
