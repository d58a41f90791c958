r"""Both bounds of the reduced SDP: its formulas on numbers that carry their error (`convexstruct.rounding`).

**Upper bound.** omega at a point X plus its rise up to a point that is feasible in exact arithmetic: omega is linear,
so at (1 - t) X + t (M0, N0) it is omega(X) + t (omega(M0, N0) - omega(X)).

**Lower bound** (Jansson, Chaykin, Keil: Rigorous error bounds for the optimal value in semidefinite programming). For
any symmetric P (p1, p1), W_current, W_previous, W_pair (p2, p2) and vectors u, v, y, z put

    M~ = K - P - (u1' + 1u')/2 - B'W_current B - A'W_previous A,        N~ = E - W_pair - (v1' + 1v')/2,

where B and A select the current and the previous rows. The terms that were subtracted contribute at most their support
function over the entries:

    sum_{i != j} max(0, P_ij) + sum_i max(high u_i, low u_i) + sum_k max(high v_k, low v_k)
    + sum_{k != l} max(0, w_current, w_previous, w_current + w_previous + w_pair)_kl      (the tetrahedron's corners)

M~ and N~ contribute at most

    1'M~1/kappa + (1 - 1/kappa) (1'y + p1 max eigenvalue of (M~ - Diag(y)))        and the like for N, kappa^2,

because M - 11'/kappa is semidefinite with the diagonal 1 - 1/kappa. So every finite witness bounds <K, M> + <E, N> from
above: the dual point is made feasible by a shift of its eigenvalues, which `rounding.least_eigenvalue` bounds.
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Matrix, Point, Vector
from convexstruct.families.unsupervised_margin.feasible import FeasibleSet
from convexstruct.rounding import Rounded, RoundedArray, exact, least_eigenvalue, maximum, summed


def objective(gram: RoundedArray, n_labels: int, beta: float, point: Point) -> Rounded:
    """The formula of omega(M, N) at a feasible or infeasible point."""
    share = Rounded(1.0) / n_labels
    gained = summed(gram * (point["M"] - share)) + summed(point["N"] - share * share)
    value: Rounded = len(gram.value) * (1.0 - share) - gained / (2.0 * beta)
    return value


def upper_bound(feasible: FeasibleSet, gram: RoundedArray, beta: float, point: Point) -> Rounded:
    """omega at the point, with an allowance up to omega at a feasible one near it."""
    near = feasible.entrywise(point)
    value, beside, inside = (objective(gram, feasible.n_labels, beta, at) for at in (point, near, feasible.safe))
    t = feasible.share_inside(near)
    if not np.isfinite(t):
        return Rounded(np.inf)  # no point is known to be feasible in exact arithmetic
    reached = beside + t * (inside - beside)
    return Rounded.of(float(value), max(value.allowance, reached.upper - float(value)))


def lower_bound(feasible: FeasibleSet, gram: RoundedArray, beta: float, witness: Point) -> Rounded:
    """The lower bound on omega that a witness proves."""
    p2, (share, _) = len(feasible.pairs), feasible.rounded_shares[0]
    most = largest(feasible, gram, exact(np.ones((p2, p2))), witness)
    known = share * summed(gram) + p2**2 * (share * share)
    value: Rounded = len(gram.value) * (1.0 - share) - (most - known) / (2.0 * beta)
    return value


def largest(feasible: FeasibleSet, costs: RoundedArray, pair_costs: RoundedArray, witness: Point) -> Rounded:
    """An upper bound on <costs, M> + <pair_costs, N> over feasible M and N, proved by a witness; both matrices
    symmetric."""
    of_rows, of_pairs = feasible.rounded_shares
    p, current, previous, pair = (
        0.5 * (witness[name] + witness[name].T) for name in ("P", "W_current", "W_previous", "W_pair")
    )
    left = costs - p - feasible.spread(exact(current), 1) - feasible.spread(exact(previous), 0)
    most: Rounded = (
        _of_cone(left, witness["u"], witness["y"], of_rows[0]) + _of_rows(witness["u"], *of_rows) + _of_entries(p)
    )
    if len(pair):
        most = most + _of_cone(pair_costs - pair, witness["v"], witness["z"], of_pairs[0])
        most = most + _of_rows(witness["v"], *of_pairs) + _of_ties(current, previous, pair)
    return most


def _of_cone(costs: RoundedArray, sums: Vector, diagonal: Vector, share: Rounded) -> Rounded:
    """An upper bound on <costs - (sums 1' + 1 sums')/2, X> over X with diagonal 1 and semidefinite X - share 11'."""
    left = costs - 0.5 * (exact(sums)[:, None] + sums)
    excess = -least_eigenvalue(np.diag(diagonal) - left)
    found: Rounded = share * summed(left) + (1.0 - share) * (summed(diagonal) + Rounded(excess) * len(sums))
    return found


def _of_rows(sums: Vector, share: Rounded, balance: float) -> Rounded:
    """sum_i max(high u_i, low u_i), the most that u'X1 can be where rows are in balance."""
    found: Rounded = len(sums) * summed(share * sums + balance * exact(np.abs(sums)))
    return found


def _of_entries(p: Matrix) -> Rounded:
    """sum_{i != j} max(0, P_ij) + sum_i P_ii, the most that <P, M> can be for entries in [0, 1] and a diagonal of 1."""
    most = np.maximum(p, 0.0)
    np.fill_diagonal(most, np.diagonal(p))
    return summed(most)


def _of_ties(current: Matrix, previous: Matrix, pair: Matrix) -> Rounded:
    """The most that the weighted sum of all triples of (11) can be: the largest corner of each."""
    together = exact(current) + previous + pair
    same = np.eye(len(pair), dtype=bool)
    corners = maximum(np.maximum(np.maximum(current, previous), 0.0)[~same], together[~same])
    found: Rounded = summed(corners) + summed(together[same])
    return found
