"""Likelihood training of log-linear models (paper 4)."""
