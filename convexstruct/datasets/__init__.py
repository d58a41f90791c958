"""Seeded generators and loaders; every one returns plain arrays and graphs."""
