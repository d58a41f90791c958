"""Mistakes that are easily made with a log-linear model: its penalties, weights and tables of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.slips import Slip, altered, conventions, moved, transposed, weights_forgotten
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood


def slips(problem: Any) -> Iterator[Slip]:
    if isinstance(problem, ConditionalRandomField):
        yield from conventions(problem, problem.n_examples)
        yield from weights_forgotten(problem)
        if problem.forbidden is not None:
            yield altered("with forbidden pairs summed over", problem, forbidden=None)

        def edges(theta: Vector) -> Vector:
            view = problem.features.split(theta)[1]
            view[:] = transposed(view).copy()
            return theta

        yield moved("with its tables of pairs transposed it is optimal: are they [current, previous]?", "theta", edges)
    elif isinstance(problem, (MarkovRandomField, PseudoLikelihood)):
        yield from conventions(problem, 1 if problem.samples is None else len(problem.samples))
        yield moved(
            "with its tables of pairs transposed it is optimal", "theta", lambda theta: _swapped(problem, theta)
        )
        if problem.factors.forbidden is not None:
            free = replace(problem.factors, forbidden=None)
            yield altered("with forbidden labels summed over", problem, factors=free)
    if isinstance(problem, MarkovRandomField) and problem.samples is not None and problem.weights is not None:
        alike = MarkovRandomField.read(problem.factors, problem.samples)
        said = "with weights of 1: are the samples' weights left out?"
        yield altered(said, alike, scale=problem.scale, l1=problem.l1)
    if isinstance(problem, PseudoLikelihood):
        yield from weights_forgotten(problem)
        every = tuple(range(problem.factors.n_variables))
        if problem.targets != every:
            yield altered("with inputs predicted too", problem, targets=every)
        for target in problem.targets:
            rest = tuple(each for each in problem.targets if each != target)
            yield altered(f"without the conditional of variable {target}", problem, targets=rest)
    l1 = getattr(problem, "l1", 0.0)
    if l1:
        yield altered("with half the L1 penalty: is it l1/2 |theta|_1?", problem, l1=0.5 * l1)
        yield altered("with twice the L1 penalty", problem, l1=2.0 * l1)
        ridge = replace(problem.scale, lam=l1)
        yield altered("with an L2 penalty in place of the L1 penalty", problem, l1=0.0, scale=ridge)


def _swapped(problem: MarkovRandomField | PseudoLikelihood, theta: Vector) -> Vector:
    factors = problem.factors
    for shape, first, last in zip(factors.shapes, factors.start, factors.start[1:]):
        if len(shape) == 2 and shape[0] == shape[1]:
            theta[first:last] = np.swapaxes(theta[first:last].reshape(shape), 0, 1).ravel()
    return theta
