"""Plausible mistakes of a solver's author: a wrong answer is tested against them, so that its verdict can name one.

A family lists its own in ``slips.py`` of its folder, as a function ``slips(problem)``;
`convexstruct.verification.hints` tests them, and the few that every family has in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexstruct.arrays import Point, Tensor
from convexstruct.core.scale import Scale


@dataclass(frozen=True, eq=False)
class Slip:
    """One mistake.

    said : what is true of the answer if this is the mistake, and the question that follows from it.
    problem : makes the problem that was solved by mistake, perhaps of the answer; None: the problem itself.
    point : turns the answer into a point of that problem; None: it is one as it is.

    Either may raise ValueError where the mistake cannot be made with this problem or this answer.
    """

    said: str
    problem: Callable[[Point], Any] | None = None
    point: Callable[[Point], Any] | None = None


def altered(said: str, problem: Any, **changes: Any) -> Slip:
    """The answer minimises ``problem`` with some of its data changed."""
    return Slip(f"it minimises the objective {said}", lambda _: replace(problem, **changes))


def moved(said: str, name: str, move: Callable[[Tensor], Tensor]) -> Slip:
    """The answer is optimal once its array ``name`` is moved."""
    return Slip(said, point=lambda point: {**point, name: np.asarray(move(point[name].copy()))})


def weights_forgotten(problem: Any, none: Any = None) -> Iterator[Slip]:
    """All weights 1, where they are not; ``none`` : what stands for that, ones by default."""
    weights = problem.weights
    if weights is not None and np.ptp(weights) > 0:
        ones = np.ones_like(weights) if none is None else none[0]
        yield altered("with weights of 1: are the examples' weights left out?", problem, weights=ones)


def conventions(problem: Any, n: int) -> Iterator[Slip]:
    """The conventions of lam and C that are easily mixed up (`Scale`), with ``n`` examples."""
    lam, C = problem.scale.lam, problem.scale.C
    told = (
        ("with C / N: is the loss a mean over the examples, where a sum is wanted?", Scale(lam, C / n)),
        ("with C N: is the loss a sum over the examples, where a mean is wanted?", Scale(lam, C * n)),
        ("with twice the penalty: is it lam |w|^2, where lam/2 |w|^2 is wanted?", Scale(2.0 * lam, C)),
        ("with half the penalty: is it lam/4 |w|^2, or C twice as large?", Scale(0.5 * lam, C)),
        ("with lam and C exchanged", Scale(C, lam)),
    )
    for said, scale in told:
        if scale.lam > 0 and scale.lam * C != lam * scale.C:
            yield altered(said, problem, scale=scale)


def transposed(table: Tensor) -> Tensor:
    """The last two axes exchanged; ValueError unless they are equally long."""
    if table.shape[-1] != table.shape[-2]:
        raise ValueError("the tables are not square")
    return np.swapaxes(table, -1, -2)
