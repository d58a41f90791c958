"""Mistakes that are easily made with a regularised risk: its scale, bias, costs, weights and tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.core.slips import Slip, altered, moved, weights_forgotten
from convexstruct.families.regularized_risk.problem import RegularizedRisk


def slips(problem: RegularizedRisk) -> Iterator[Slip]:
    lam, n, loss = problem.lam, problem.loss.n_groups, problem.loss
    yield altered("with lam / n: is the risk a sum over the examples, where a mean is wanted?", problem, lam=lam / n)
    yield altered("with lam n: is the mean divided by n twice?", problem, lam=lam * n)
    yield altered("with twice the penalty: is it lam |w|^2, where lam/2 |w|^2 is wanted?", problem, lam=2.0 * lam)
    yield altered("with half the penalty: is it lam/4 |w|^2?", problem, lam=0.5 * lam)
    yield from weights_forgotten(problem, (None,))
    if np.ptp(loss.offset) > 0:
        ones = replace(loss, offset=np.ones_like(loss.offset))
        yield altered("with costs of 1: is the cost matrix left out?", problem, loss=ones)
    if (np.diff(loss.start) > 1).any():
        first = loss.start[:-1]
        one = replace(
            loss, combine=sp.csr_array(loss.combine[first]), offset=loss.offset[first],
            start=np.arange(len(first) + 1),
        )  # fmt: skip
        yield altered("of the first piece of each example alone: are the other pieces lost?", problem, loss=one)
    yield Slip(
        "it minimises the objective of rows scaled to length 1: is w to be scaled back?", lambda _: _scaled(problem)
    )
    if loss.n_biases:
        free = _unbiased(problem)
        yield Slip(
            "it minimises the objective without a bias",
            lambda _: free,
            lambda point: {"w": _if(not point["b"].any(), point)},
        )
        yield Slip(
            "it minimises the objective with a penalty on the bias too: is it a column of ones?",
            lambda _: replace(free, X=np.column_stack((_dense(problem), np.ones(problem.X.shape[0])))),
            lambda point: np.append(point["w"], point["b"]),
        )
    said = "with its table transposed it is optimal: is w (classes, features)?"
    yield moved(said, "w", lambda w: w.reshape(w.shape[::-1]).T)
    for by in (-1, 1):
        said = "with its classes shifted by one it is optimal: do your classes begin at 1?"
        yield moved(said, "w", partial(np.roll, shift=by, axis=0))


def _if(holds: bool, point: Any) -> Any:
    if not holds:
        raise ValueError("the answer has a bias")
    return point["w"]


def _dense(problem: RegularizedRisk) -> Any:
    return problem.X.toarray() if sp.issparse(problem.X) else problem.X


def _unbiased(problem: RegularizedRisk) -> RegularizedRisk:
    none = np.zeros(0, dtype=np.intp)
    return replace(problem, loss=replace(problem.loss, n_biases=0, bias_of=none, bias_sign=np.zeros(0)))


def _scaled(problem: RegularizedRisk) -> RegularizedRisk:
    x = _dense(problem)
    length = np.sqrt((x * x).sum(axis=1, keepdims=True))
    if not length.all() or np.ptp(length) == 0:
        raise ValueError("a row is 0, or all are equally long")
    return replace(problem, X=x / length)
