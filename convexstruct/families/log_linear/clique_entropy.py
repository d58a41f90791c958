r"""A distribution over joint labels by its clique tables: marginals, entropy, and bounds on the rounding of both.

Any tables z >= 0 are read as conditionals, root first: q_c = z_c / (its sums over the variables that clique c adds),
uniform where that sum is 0, and the distribution is q(x) = prod_c q_c. So every z stands for some distribution, and the
lower bound at it is valid for any z. All of this is inside the polytope's support: forbidden labels have probability 0.

**Rounding.** q_c is a quotient of sums of numbers >= 0, so its relative error is gamma(k + 2), k the entries of a
row; the posteriors multiply and sum such numbers from the root down, so their error is gamma of the number of
operations on the longest path, `relative` below. Every term of H = sum_c sum posterior_c (-ln q_c) is >= 0; if a number
has the relative error r, its ln has the absolute error r and one of FUNCTION units in the last place. So the error of H
is (relative + units) H plus gamma(k + 2) for each clique.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, lsqr

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.marginals.factor_polytope import FactorPolytope
from convexstruct.oracles.tree.junction_tree import downward
from convexstruct.rounding import EPS, FUNCTION, Rounded, gamma, summed

#: Systems with at most so many unknowns times equations are solved densely (32 MB), larger ones by iteration.
LARGEST_DENSE = 4_000_000
#: An iteration gets this share of the time that is left: what is not restored makes a bound lower, and not invalid.
TIME_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class CliqueDistribution:
    """z (n,) : the clique tables, posteriors of one distribution. entropy : in nats. relative : a bound on the relative
    error of each entry of z."""

    z: Vector
    entropy: Rounded
    relative: float


def distribution(polytope: FactorPolytope, z: Vector) -> CliqueDistribution:
    """The distribution with the conditionals of the clique tables ``z`` (n,); negative entries, and those outside the
    support, count as 0."""
    tree, start = polytope.tree, polytope.start
    conditionals, logs, steps, most = [], [], [0] * tree.n_cliques, 0
    for c, shape in enumerate(tree.shapes):
        deadline.check()
        inside = polytope.support[start[c] : start[c + 1]].reshape(shape)
        table = np.where(inside, np.maximum(z[start[c] : start[c + 1]].reshape(shape), 0.0), 0.0)
        table = table / (table.max() or 1.0)  # sums of large numbers stay finite, those of small ones do not vanish
        sums = table.sum(axis=1, keepdims=True)
        uniform = inside / np.maximum(inside.sum(axis=1, keepdims=True), 1)
        q = np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), uniform)
        above = 0 if c == 0 else steps[tree.parent[c]] + int(np.prod(tree.shapes[tree.parent[c]]))
        steps[c], most = above + shape[1] + 6, max(most, shape[1])
        logs.append(-np.log(np.where(q > 0, q, 1.0)).ravel())
        conditionals.append(q[None].copy())
    posteriors = np.concatenate([table.ravel() for table in downward(tree, conditionals)])
    relative = gamma(max(steps))
    each = posteriors * np.concatenate(logs)
    # |p ln p| is below 1e-300 for products p of probabilities that underflow the normal numbers
    value = summed(each, len(each) * 1e-300, 2, positive=True)
    errors = (relative + (FUNCTION + 2) * EPS) * float(value), tree.n_cliques * 1.01 * gamma(most + 8)
    return CliqueDistribution(posteriors, Rounded.of(float(value), value.allowance, *errors), relative)


def restored(polytope: FactorPolytope, z: Vector, moments: Vector) -> Vector:
    """Clique tables near the posteriors ``z`` (n,) whose expected features are ``moments`` (d,): the change dz of least
    sum dz^2 / z that restores the moments and keeps the tables in agreement.

    Near an optimum no entry becomes negative; elsewhere negative entries are set to 0, and the moments corrected again.
    Where time is short, they are restored in part or not at all.
    """
    rows = sp.csr_array(sp.vstack([polytope.features, polytope.agreement, polytope.totals]))
    right = np.concatenate((moments, np.zeros(polytope.agreement.shape[0]), [1.0]))
    size = float(np.abs(right).max())
    dense = rows.toarray() if rows.shape[0] * rows.shape[1] <= LARGEST_DENSE else None
    best, least = z, np.inf
    for _ in range(8):
        deadline.check()
        away = right - rows @ z
        worst = float(np.abs(away).max())
        if worst < least:
            best, least = z, worst
        if worst <= 1e-15 * size:  # rounding
            break
        root = np.sqrt(z)
        if dense is not None:
            change = np.linalg.lstsq(dense * root, away, rcond=None)[0]
        else:
            try:
                with deadline.within(TIME_SHARE * deadline.left()):
                    change = _least_squares(sp.csr_array(rows @ sp.diags_array(root)), away)
            except deadline.DeadlinePassed:
                break
        z = np.maximum(z + root * change, 0.0)
    return best


def _least_squares(rows: sp.csr_array, right: Vector) -> Vector:
    """x of least norm with rows x = right, or nearest to it, by iteration; the deadline is checked in each."""

    def product(x: Vector) -> Vector:
        deadline.check()
        return np.asarray(rows @ x)

    operator = LinearOperator(rows.shape, product, lambda y: rows.T @ y, dtype=np.float64)
    return np.asarray(lsqr(operator, right, atol=1e-15, btol=1e-15, iter_lim=4 * rows.shape[0])[0])
