"""Unsupervised max-margin learning by semidefinite programming (paper 3)."""

from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin

__all__ = ["UnsupervisedMargin"]
