"""Projection onto a box cut by one equality."""
