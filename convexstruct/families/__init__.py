"""What the papers are about: a folder a family, the same everywhere: problem, solvers, cases, experiments.

A family imports the ground, the machinery, and the public names of another family where the mathematics says so.
"""
