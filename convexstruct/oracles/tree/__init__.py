"""Forests and junction trees: best, max-marginals, best by loss, sums, samples."""
