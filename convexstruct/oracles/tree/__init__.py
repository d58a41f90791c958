"""Forests and junction trees: best, two best, best by loss, sums, samples."""
