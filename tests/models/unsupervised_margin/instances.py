"""Unlabelled data small enough to try every labelling, and the margin loss of each of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import cache

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Vector
from convexstruct.families.unsupervised_margin import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.planted import relations
from convexstruct.models.formulation import Formulation, equation
from convexstruct.tolerances import ROUNDING
from tests.reference import optimum


def chains(
    seed: int,
    lengths: tuple[int, ...],
    n_labels: int = 2,
    beta: float = 0.5,
    balances: tuple[float, float] = (0.2, 0.4),
) -> UnsupervisedMargin:
    rng = np.random.default_rng(seed)
    tables = [rng.normal(size=(n, 2)) for n in lengths]
    return UnsupervisedMargin.read(
        tables, n_labels, beta=beta, label_balance=balances[0], pair_balance=balances[1]
    )  # fmt: skip


def kernel() -> UnsupervisedMargin:
    x = np.random.default_rng(8).normal(size=(4, 1))
    gram = np.exp(-0.5 * (x - x.T) ** 2)
    return UnsupervisedMargin.read(
        None, 2, kernel=gram, lengths=[2, 2], beta=0.2, label_balance=0.3, pair_balance=0.9
    )  # fmt: skip


def ties() -> UnsupervisedMargin:
    """Two equal sequences of symbols."""
    return UnsupervisedMargin.read([[0, 1], [0, 1]], 2, beta=0.4, label_balance=0.2, pair_balance=0.9)


def points(seed: int = 3, n: int = 4, n_labels: int = 2, beta: float = 0.5) -> UnsupervisedMargin:
    return UnsupervisedMargin.multiclass(np.random.default_rng(seed).normal(size=(n, 2)), n_labels, beta, 0.3)


INSTANCES: dict[str, Callable[[], UnsupervisedMargin]] = {
    "chains": lambda: chains(0, (3, 2)),
    "a small beta": lambda: chains(1, (4,), beta=0.01, balances=(0.3, 0.6)),
    "a large beta, a row alone": lambda: chains(6, (3, 1), beta=5.0, balances=(0.3, 0.6)),
    "three labels": lambda: chains(2, (2, 2), 3, balances=(0.3, 0.9)),
    "a kernel": kernel,
    "ties": ties,
    "points": points,
    "points, three labels": lambda: points(4, 4, 3),
}


def balanced(problem: UnsupervisedMargin, labels: ArrayLike) -> bool:
    """(9)."""
    kappa = problem.n_labels
    kinds = zip(relations(problem, labels), (1 / kappa, kappa**-2), (problem.label_balance, problem.pair_balance))
    return all((abs(m.sum(axis=1) / max(len(m), 1) - share) <= eps + ROUNDING).all() for m, share, eps in kinds)


def every_alternative(problem: UnsupervisedMargin) -> tuple[Formulation, Callable[[ArrayLike], None]]:
    """(4) with a row for each labelling of all rows together (maxima of components add up), for labels that the
    function sets: min beta/2 |w|^2 + xi, xi >= distance(u, y) - w'(f(y) - f(u)) for every u."""
    kappa, p1 = problem.n_labels, problem.n_rows
    values, vectors = np.linalg.eigh(problem.gram)
    x = vectors * np.sqrt(np.maximum(values, 0.0))
    every = np.array(list(itertools.product(range(kappa), repeat=p1)))

    def features(y: ArrayLike) -> Vector:
        labels = np.asarray(y)
        transitions = np.zeros((kappa, kappa))
        for u, v in problem.pairs:
            transitions[labels[u], labels[v]] += 1
        return np.concatenate([(x.T @ np.eye(kappa)[labels]).ravel(), transitions.ravel()])

    rows = np.array([features(y) for y in every])
    w, xi = cp.Variable(rows.shape[1], name="w"), cp.Variable(name="xi")
    true, distance = cp.Parameter(rows.shape[1], name="f"), cp.Parameter(len(rows), name="distance")
    formulation = Formulation(
        name="every alternative",
        objective=cp.Minimize(problem.beta / 2 * cp.sum_squares(w) + xi),
        objective_latex=r"\min\quad \tfrac{\beta}{2} \|w\|^2 + \xi",
        parts={"4": equation(distance - true @ w + rows @ w <= xi, "")},
        variables={"w": w, "xi": xi},
        parameters={"f": true, "distance": distance},
    )

    def put(labels: ArrayLike) -> None:
        true.value, distance.value = features(labels), (every != np.asarray(labels)).sum(axis=1)

    return formulation, put


@cache
def losses(name: str) -> Mapping[tuple[int, ...], float]:
    """omega of every balanced labelling of an instance, up to renaming of the labels."""
    problem = INSTANCES[name]()
    formulation, put = every_alternative(problem)
    found = {}
    for y in itertools.product(range(problem.n_labels), repeat=problem.n_rows):
        met = list(dict.fromkeys(y))  # labels in the order in which they first occur
        if met == list(range(len(met))) and balanced(problem, y):
            put(y)
            found[y] = optimum(formulation).value
    return found


def least(name: str) -> float:
    return min(losses(name).values())
