"""Mistakes that are easily made with a kernel CRF: its prior, transitions, and what its coefficients are of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from convexstruct.arrays import Point, Vector
from convexstruct.core.slips import Slip, altered, moved
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences


def slips(problem: GaussianProcessSequences) -> Iterator[Slip]:
    lam, n = problem.lam, len(problem.lengths)
    yield altered("with twice the prior: is its 1/2 forgotten?", problem, lam=2.0 * lam)
    yield altered("with half the prior", problem, lam=0.5 * lam)
    if n > 1:
        said = "with lam N: is the likelihood a mean over the sequences, where a sum is wanted?"
        yield altered(said, problem, lam=lam * n)
    if n > 1 and problem.stationary:
        joined = np.array([problem.lengths.sum()])
        yield altered("of one long sequence: are the ends of the sequences forgotten?", problem, lengths=joined)

    def transitions(u: Vector) -> Vector:
        view = problem.split(u)[1]
        view[:] = view.swapaxes(-1, -2).copy()
        return u

    def counted_once(u: Vector) -> Vector:
        problem.split(u)[0][:] /= np.bincount(problem.rows, minlength=problem.n_inputs)[:, None]
        return u

    said = "with its transition table transposed it is optimal: is it [current, previous]?"
    yield moved(said, "u", transitions)
    said = "divided by how often each input occurs it is optimal: are repeats counted twice?"
    yield moved(said, "u", counted_once)
    yield Slip(
        "it is t = K u for the optimal u: are scores returned, not coefficients?", point=lambda at: _solved(problem, at)
    )


def _solved(problem: GaussianProcessSequences, point: Point) -> Point:
    """u with K u = the answer, by the columns of K."""
    matrix = np.column_stack([problem.multiply(unit) for unit in np.eye(problem.dimension)])
    return {"u": np.linalg.lstsq(matrix, point["u"])[0]}
