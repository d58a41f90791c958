r"""Labels kept or exchanged: what row i and pair k add to the difference of marginals, and all their inner products.

Row i keeps its label, whose indicator is c_i in R^kappa, with probability 1 - lambda_i; with probability lambda_i it is
exchanged for another one, each equally likely, c'_i = (e - c_i) / (kappa - 1). Both rows of pair k are exchanged with
probability delta_k. With g = c - c', and a (x) b the table of the products of their entries,

    C - mu = diag(lambda) g,
    (D - nu)_k = lambda_c(k) g_c(k) (x) c_p(k) + lambda_p(k) c_c(k) (x) g_p(k) - delta_k g_c(k) (x) g_p(k).

So each entry of x = (lambda, delta) multiplies a vector, and G(M, N) is the Gram matrix of these. A table's inner
product is that at the current rows times that at the previous rows, and

    c_i'c_j = M_ij,     c_i'g_j = (kappa M_ij - 1) / (kappa - 1),     g_i'g_j = (kappa^2 M_ij - kappa) / (kappa - 1)^2,

with N in place of the product of an entry of M at the current rows and one at the previous rows: G is affine in (M, N).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Matrix, Vector
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.marginals.triplets import picks

#: The three tables of a pair, by what stands at its current and at its previous row; and the factor of each.
TABLES = ("gc", "cg", "gg")
FACTOR = {"gc": 1.0, "cg": 1.0, "gg": -1.0}


def polytope(problem: UnsupervisedMargin) -> tuple[sp.csr_array, Vector]:
    """A (2 p1 + 4 p2, p1 + p2) and r of A x <= r, the marginal polytope of two-valued forests:

    0 <= lambda <= 1,  delta_k >= 0,  delta_k <= lambda_c(k),  delta_k <= lambda_p(k),
    lambda_c(k) + lambda_p(k) - delta_k <= 1.
    """
    p1, p2 = problem.n_rows, problem.n_pairs
    each, pair, none = sp.eye_array(p1), sp.eye_array(p2), sp.csr_array((p1, p2))
    current, previous = (picks(rows, p1) for rows in (problem.current, problem.previous))
    blocks = [
        [each, none], [-each, none], [sp.csr_array((p2, p1)), -pair], [-current, pair], [-previous, pair],
        [current + previous, -pair],
    ]  # fmt: skip
    r = np.concatenate([np.ones(p1), np.zeros(p1 + 3 * p2), np.ones(p2)])
    return sp.csr_array(sp.block_array(blocks)), r


def product(one: str, other: str, n_labels: int) -> tuple[float, float]:
    """The slope and the constant of an inner product of c or g of row i and c or g of row j, as a function of M_ij."""
    if one == other == "c":
        return 1.0, 0.0
    share = n_labels / (n_labels - 1.0)
    slope = share**2 if one == other else share
    return slope, -slope / n_labels


def table_products(n_labels: int) -> dict[tuple[str, str], tuple[float, float, float, float]]:
    """For any two of `TABLES`, the coefficients of N, M (current), M (previous) and 1 in their inner product."""
    found = {}
    for one in TABLES:
        for other in TABLES:
            (a, b), (c, d) = (product(x, y, n_labels) for x, y in zip(one, other))
            sign = FACTOR[one] * FACTOR[other]
            found[one, other] = sign * a * c, sign * a * d, sign * b * c, sign * b * d
    return found


def places(problem: UnsupervisedMargin) -> dict[str, sp.csr_array]:
    """For each of `TABLES` the matrix (p2, p1 + p2) that picks the entries of x that multiply it."""
    p1, size = problem.n_rows, problem.n_rows + problem.n_pairs
    at = (problem.current, problem.previous, np.arange(p1, size))
    return {name: picks(rows, size) for name, rows in zip(TABLES, at)}


def gram(problem: UnsupervisedMargin, m: Any, n: Any, of: Any = np.asarray, multiply: Any = np.multiply) -> Any:
    """G (p1 + p2, p1 + p2) of M and N, numbers or, with ``multiply`` = cp.multiply, CVXPY's expressions; ``of`` is
    applied to K and to all coefficients: np.abs gives the sums of the magnitudes."""
    rows, at = sp.eye_array(problem.n_rows, problem.n_rows + problem.n_pairs, format="csr"), places(problem)
    slope, constant = product("g", "g", problem.n_labels)
    total = rows.T @ multiply(of(problem.gram), of(slope) * m + of(constant)) @ rows
    if problem.n_pairs:
        now, before = (m[each][:, each] for each in (problem.current, problem.previous))
        for (one, other), (a, b, c, d) in table_products(problem.n_labels).items():
            total = total + at[one].T @ (of(a) * n + of(b) * now + of(c) * before + of(d)) @ at[other]
    return total


def adjoint(problem: UnsupervisedMargin, w: Matrix, of: Any = np.asarray) -> tuple[Matrix, Matrix, list[Matrix]]:
    """The coefficients of M and of N in <W, G(M, N)>, and matrices whose entries sum to its constant; ``of`` as in
    `gram`."""
    p1, p2 = problem.n_rows, problem.n_pairs
    slope, constant = product("g", "g", problem.n_labels)
    known = of(problem.gram) * w[:p1, :p1]
    costs, at = of(slope) * known, places(problem)
    of_n, of_now, of_before, rest = np.zeros((4, p2, p2))
    for (one, other), coefficients in table_products(problem.n_labels).items():
        here = at[one] @ w @ at[other].T
        for total, coefficient in zip((of_n, of_now, of_before, rest), coefficients):
            total += of(coefficient) * here
    np.add.at(costs, np.ix_(problem.current, problem.current), of_now)
    np.add.at(costs, np.ix_(problem.previous, problem.previous), of_before)
    return costs, of_n, [of(constant) * known, rest]


def roundings(problem: UnsupervisedMargin) -> int:
    """Roundings behind an entry of G, or behind a coefficient of M or N in <W, G>, at most: 9 in a coefficient of
    `table_products`, 4 in a table's product, 9 in the sum over pairs of tables, and one for each pair of siblings."""
    return 24 + 4 * int(problem.feasible.siblings.max(initial=1)) ** 2
