r"""Instances of the reduced SDP built backwards from their optimum.

**From labels.** Choose a labelling y; M* = CC' and N* = DD' from its indicators are feasible where y is balanced.
Choose multipliers that vanish off the active constraints: W_kl = 1 of N <= M (current) where N*_kl = M*_kl (current),
else E - W of N <= M (previous), so that both sum to E; P <= 0 where M* is 0; and a semidefinite Z with Z C = 0, the
Laplacian of weights on pairs of rows of one label. Then

    K = Diag(d) - Z + P - B'W B - A'(E - W) A

makes M* and N* optimal, for any d; a large d makes K semidefinite. All numbers are integers, so the optimum is exact.

**From one number.** Where K is diagonal, constant, centred or 0, <K, M> or <E, N> is bounded by the diagonals, the rows
(9) or (10) alone, and a matrix with one value off its diagonal attains the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from convexstruct.arrays import Labels, Matrix, Vector
from convexstruct.core.cases import Instance
from convexstruct.families.unsupervised_margin.labelling import MarginLabelling
from convexstruct.families.unsupervised_margin.permutation_invariant import PermutationInvariantMargin
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin


def relations(problem: UnsupervisedMargin, labels: Any) -> tuple[Matrix, Matrix]:
    """(M, N) of a labelling (p1,): 1 where two rows have the same label, where two pairs have the same two."""
    y = np.asarray(labels)
    both = y[problem.pairs]
    m = (y[:, None] == y).astype(np.float64)
    return m, (both[:, None] == both).all(axis=2).astype(np.float64)


def exact(problem: UnsupervisedMargin, m: Matrix, n: Matrix) -> float:
    """omega(M, N), rounded once; K, M and N as they are stored."""

    def total(matrix: Matrix) -> Fraction:
        return sum(map(Fraction, matrix.ravel().tolist()), Fraction(0))

    k, p2 = Fraction(problem.n_labels), problem.n_pairs
    products = sum(
        (Fraction(a) * Fraction(b) for a, b in zip(problem.gram.ravel().tolist(), m.ravel().tolist())), Fraction(0)
    )
    gained = products + total(n) - total(problem.gram) / k - Fraction(p2**2) / k**2
    return float(problem.n_rows * (1 - 1 / k) - gained / (2 * Fraction(problem.beta)))


def by_kernel(
    kernel: Any, lengths: Sequence[int], n_labels: int, balances: tuple[float, float], beta: float, pairs: str = "chain"
) -> UnsupervisedMargin:
    """Examples by a kernel between their rows alone."""
    return UnsupervisedMargin.read(
        None, n_labels, beta=beta, label_balance=balances[0], pair_balance=balances[1], pairs=pairs, kernel=kernel,
        lengths=lengths,
    )  # fmt: skip


def plant_labels(
    rng: np.random.Generator,
    labels: Sequence[Labels],
    n_labels: int,
    *,
    beta: float = 1.0,
    balances: tuple[float, float] = (0.2, 0.4),
) -> Instance:
    """A kernel for which this labelling of the examples is an optimum."""
    y = np.concatenate(labels)
    n = len(y)
    lengths = [len(each) for each in labels]

    read = partial(by_kernel, lengths=lengths, n_labels=n_labels, balances=balances, beta=beta)
    blank = read(np.eye(n))
    m, pair_relation = relations(blank, y)
    weights = np.triu(rng.integers(1, 4, size=(n, n)) * (m > 0), 1)
    weights = weights + weights.T
    k = weights - np.diag(weights.sum(axis=1))  # minus the Laplacian
    away = np.triu(rng.integers(0, 3, size=(n, n)) * (m == 0), 1)
    k = k - (away + away.T)
    now, _ = blank.feasible.at_pairs(m)
    ties = np.where(pair_relation == now, 1.0, 0.0)
    for rows, part in ((blank.current, ties), (blank.previous, 1.0 - ties)):
        np.subtract.at(k, np.ix_(rows, rows), part)
    lifted = np.abs(k).sum(axis=1) + np.abs(np.diagonal(k))  # diagonally dominant
    problem = read(k + np.diag(lifted))
    return Instance(problem, exact(problem, m, pair_relation), {"M": m, "N": pair_relation})


def plant_diagonal(diagonal: Vector, n_labels: int, beta: float) -> Instance:
    """Orthogonal points: every M is optimal."""
    n = len(diagonal)
    problem = by_kernel(np.diag(diagonal), [1] * n, n_labels, (0.1, 1.0), beta)
    return Instance(problem, exact(problem, np.eye(n), np.zeros((0, 0))))


def plant_constant(size: float, n: int, n_labels: int, balance: float, beta: float) -> Instance:
    """One point n times: K = size 11', and <K, M> = size n^2 (1/kappa + eps1) at most."""
    problem = by_kernel(np.full((n, n), size), [1] * n, n_labels, (balance, 1.0), beta)
    gained = Fraction(size) * n**2 * Fraction(balance)
    return Instance(problem, float(n * (1 - Fraction(1, n_labels)) - gained / (2 * Fraction(beta))))


def plant_centred(size: float, n: int, n_labels: int, balance: float, beta: float) -> Instance:
    """Corners of a simplex around 0: K = size (n I - 11'), and <K, M> = size (n^2 - 1'M1) is at most size n^2 (1 -
    1/kappa), for M - 11'/kappa is semidefinite. Attained by labels in equal numbers; n is a multiple of kappa."""
    problem = by_kernel(size * (n * np.eye(n) - 1.0), [1] * n, n_labels, (balance, 1.0), beta)
    m, _ = relations(problem, np.arange(n) % n_labels)
    return Instance(problem, exact(problem, m, np.zeros((0, 0))), {"M": m, "N": np.zeros((0, 0))})


def plant_points(
    rng: np.random.Generator, n_points: int, copies: int, n_labels: int, balance: float, size: float, beta: float
) -> Instance:
    """Orthogonal points of size^2, each so many times, and labels that are the same for all copies of a point.

    omega of such labels is a sum over points. A row keeps its label with probability 1 - s and has each other one with
    s/(kappa - 1), so that a point costs m s - (size m s)^2 kappa / (2 beta (kappa - 1)) for m copies, largest at s =
    min(1, beta (kappa - 1) / (kappa size^2 m)). The bound of `MarginLabelling` is the same, as <K, M> <= points (size
    m)^2 and the s are those of t = s kappa / (kappa - 1); so these labels are the best.
    """
    point = rng.permutation(np.repeat(np.arange(n_points), copies))
    rows, labels = size * np.eye(n_points)[point], rng.permutation(np.arange(n_points) % n_labels)
    s = min(1.0, beta * (n_labels - 1) / (n_labels * size**2 * copies))
    away = s * (np.eye(n_labels) - 1.0 / n_labels) * n_labels / (n_labels - 1)  # indicators less marginals, by label
    w = (size * copies / beta * away[labels]).T
    each = copies * s - (size * copies * s) ** 2 * n_labels / (2.0 * beta * (n_labels - 1))
    problem = MarginLabelling(UnsupervisedMargin.multiclass(rows, n_labels, beta, balance))
    return Instance(problem, n_points * each, {"labels": labels[point], "w": w.ravel()})


def two_class_optimum(kernel: Matrix, balance: float, beta: float) -> Fraction:
    """(3) where it is known, entries of M from -1 to 1. K = Diag(k): every M is optimal, and row i costs the most
    lambda - lambda^2 k_i / beta. K = a I + b 11': all lambda are equal, and <K, M> is largest, which is
    n (a + b min(n, 2 n eps1)) where b > 0 and, with M1 = 0, n a where b < 0."""
    diagonal, off, n = [Fraction(k) for k in np.diagonal(kernel).tolist()], Fraction(float(kernel[0, 1])), len(kernel)
    if off:
        sums = min(Fraction(n), 2 * n * Fraction(balance)) if off > 0 else Fraction(0)
        diagonal = [diagonal[0] - off + off * sums] * n
    lam = [min(Fraction(1), Fraction(beta) / (2 * k)) if k else Fraction(1) for k in diagonal]
    return sum((each - each**2 * k / Fraction(beta) for each, k in zip(lam, diagonal)), Fraction(0))


def plant_two_classes(kernel: Matrix, balance: float, beta: float) -> Instance:
    """A kernel of which `two_class_optimum` knows the optimum of (3)."""
    problem = PermutationInvariantMargin(by_kernel(kernel, [1] * len(kernel), 2, (balance, 1.0), beta))
    return Instance(problem, float(two_class_optimum(kernel, balance, beta)))


def plant_transitions(lengths: Sequence[int], n_labels: int, balances: tuple[float, float], beta: float) -> Instance:
    """Chains without features: K = 0, and <E, N> = p2^2 (1/kappa^2 + eps2) at most, attained where eps1 allows it."""
    n = sum(lengths)
    problem = by_kernel(np.zeros((n, n)), lengths, n_labels, balances, beta)
    gained = Fraction(problem.n_pairs) ** 2 * Fraction(balances[1])
    return Instance(problem, float(n * (1 - Fraction(1, n_labels)) - gained / (2 * Fraction(beta))))
