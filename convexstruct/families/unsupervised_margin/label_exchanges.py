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

import operator
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Vector
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.marginals.triplets import picks
from convexstruct.rounding import Rounded, RoundedArray, summed

#: Whether g stands at the current and at the previous row of the three tables of a pair, and the factor of each.
CURRENT, PREVIOUS, FACTOR = np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, -1.0])


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


def products(g: Vector, kappa: Any) -> tuple[Any, Any]:
    """Inner products of vectors of rows i and j, which are g where the flags g (n,) are 1 and c where they are 0, as
    functions of M_ij: slopes (n, n) and constants (n, n)."""
    size = (1.0 - g) + g * (kappa / (kappa - 1.0))
    slope = size[:, None] * size
    return slope, -slope / kappa * (1.0 - np.outer(1.0 - g, 1.0 - g))


def table_products(kappa: Any) -> tuple[Any, Any, Any, Any]:
    """The coefficients of N, M (current), M (previous) and 1 in the inner products of any two tables; (3, 3) each."""
    (a, b), (c, d) = products(CURRENT, kappa), products(PREVIOUS, kappa)
    signs = np.outer(FACTOR, FACTOR)
    return signs * a * c, signs * a * d, signs * b * c, signs * b * d


def tables(problem: UnsupervisedMargin) -> sp.csr_array:
    """(3 p2, p1 + p2) the entry of x that multiplies each table, first of all pairs the first."""
    size = problem.n_rows + problem.n_pairs
    return picks(np.concatenate((problem.current, problem.previous, np.arange(problem.n_rows, size))), size)


def kron(a: Any, x: Any) -> Any:
    """The blocks a_ij x."""
    k, n = len(FACTOR), x.shape[0]
    return (a[:, None, :, None] * x[None, :, None, :]).reshape(k * n, k * n)


def gram(problem: UnsupervisedMargin, m: Any, n: Any, multiply: Any = operator.mul, kron: Any = kron) -> Any:
    """G (p1 + p2, p1 + p2) of M and N: arrays, arrays with errors (`rounding`), or, with ``multiply`` = cp.multiply and
    ``kron`` = cp.kron, CVXPY's expressions."""
    rounded = isinstance(m, RoundedArray)
    kernel, kappa = (problem.rounded_gram, Rounded(problem.n_labels)) if rounded else (problem.gram, problem.n_labels)
    rows, of_pairs = sp.eye_array(problem.n_rows, problem.n_rows + problem.n_pairs, format="csr"), tables(problem)
    slope, constant = products(np.ones(1), kappa)
    total = rows.T @ multiply(kernel, slope[0, 0] * m + constant[0, 0]) @ rows
    if problem.n_pairs:
        now, before = (m[each][:, each] for each in (problem.current, problem.previous))
        parts = zip(table_products(kappa), (n, now, before, np.ones((problem.n_pairs,) * 2)))
        total = total + of_pairs.T @ sum(kron(a, x) for a, x in parts) @ of_pairs
    return total


def adjoint(problem: UnsupervisedMargin, w: RoundedArray) -> tuple[RoundedArray, RoundedArray, Rounded]:
    """The coefficients of M and of N in <W, G(M, N)>, and its constant."""
    p1, p2, kappa, of_pairs = problem.n_rows, problem.n_pairs, Rounded(problem.n_labels), tables(problem)
    slope, constant = products(np.ones(1), kappa)
    known = problem.rounded_gram * w[:p1, :p1]
    here = (of_pairs @ w @ of_pairs.T).reshape(3, p2, 3, p2)
    of_n, of_now, of_before, rest = (
        (a[:, None, :, None] * here).sum(axis=2).sum(axis=0) for a in table_products(kappa)
    )
    spread = problem.feasible.spread
    costs = known * slope + spread(of_now, 1) + spread(of_before, 0)
    return costs, of_n, summed(known * constant) + summed(rest)
