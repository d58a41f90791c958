r"""Both bounds of the reduced SDP, with the allowances for the rounding of their own sums.

**Upper bound.** omega at a point X plus its rise up to a point that is feasible in exact arithmetic: omega is linear,
so at (1 - t) X + t (M0, N0) it is omega(X) + t (omega(M0, N0) - omega(X)).

**Lower bound** (Jansson, Chaykin, Keil: Rigorous error bounds for the optimal value in semidefinite programming). For
any symmetric P (p1, p1), W_current, W_previous, W_pair (p2, p2) and vectors u, v, y, z put

    M~ = K - P - (u1' + 1u')/2 - B'W_current B - A'W_previous A,        N~ = E - W_pair - (v1' + 1v')/2,

where B and A select the current and the previous rows. The terms that were subtracted contribute at most their support
function over the entries:

    sum_{i != j} max(0, P_ij) + sum_i max(high u_i, low u_i) + sum_k max(high v_k, low v_k)
    + sum_{k != l} max(0, w_current, w_previous, w_current + w_previous + w_pair)_kl      (the tetrahedron's corners)

(of siblings w_previous + max(0, w_current + w_pair)). M~ and N~ contribute at most

    1'M~1/kappa + (1 - 1/kappa) (1'y + p1 max eigenvalue of (M~ - Diag(y)))        and the like for N, kappa^2,

because M - 11'/kappa is semidefinite with the diagonal 1 - 1/kappa. So every finite witness bounds <K, M> + <E, N> from
above: the dual point is made feasible by a shift of its eigenvalues, for which `.eigenvalue` proves a bound.
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Flags, Matrix, Point, Vector
from convexstruct.families.unsupervised_margin.eigenvalue import least_eigenvalue
from convexstruct.families.unsupervised_margin.feasible import FeasibleSet
from convexstruct.features.graphs.feature_sizes import UNEVEN_RATIO
from convexstruct.rounding import TINY, UNIT, Rounded, gamma, summed, total
from convexstruct.tolerances import ROUNDING

#: At least the number of rounded operations in a product of a few of p1, p2, 1/kappa, eps.
OPERATIONS = 12


def gram_error(features: Matrix | None) -> float:
    """A bound on sum_ij |K_ij - (features features')_ij|, K as it was computed; 0 where no sum was rounded."""
    if features is None:
        return 0.0
    largest, (n, d) = float(np.abs(features).max(initial=0.0)), features.shape
    if (features == np.floor(features)).all() and largest**2 * d < 2.0**53:
        return 0.0
    with np.errstate(over="ignore"):
        columns = np.abs(features).sum(axis=0)
        size = float(columns @ columns)
    return gamma(d + n + 3) * size + float(n * n * d) * TINY


def reason(gram: Matrix, label_balance: float, pair_balance: float) -> str:
    """One sentence on what of the data makes the allowances large, and what to do about it; "" where nothing does.

    It names a row `UNEVEN_RATIO` times as large as the median row, since rounding then swamps the inner products of the
    others; and a balance that rounding alone may exceed.
    """
    sizes = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    at, half = int(sizes.argmax()), float(np.median(sizes))
    if sizes[at] > UNEVEN_RATIO * half:
        size = f"row {at} has size {sizes[at]:.1e}, half of the rows at most {half:.1e}"
        return f"{size}: scale the features to sizes near 1"
    for name, balance in (("label_balance", label_balance), ("pair_balance", pair_balance)):
        if balance <= ROUNDING:
            return f"{name} is {balance:.1e}, about what rows are out of balance by rounding: take a larger one"
    return ""


def objective(gram: Matrix, n_pairs: int, n_labels: int, beta: float, point: Point) -> Rounded:
    """The formula of omega(M, N) at a feasible or infeasible point; K is taken as exact."""
    n, kappa = len(gram), n_labels
    products = gram * (point["M"] - 1.0 / kappa)
    linear = summed(products, 4.0 * UNIT * float(np.abs(gram).sum()) * (1.0 + float(np.abs(point["M"]).max())))
    pairs = point["N"] - 1.0 / kappa**2
    tied = summed(pairs, 4.0 * UNIT * n_pairs**2 * (1.0 + float(np.abs(point["N"]).max(initial=0.0))))
    constant = n * (1.0 - 1.0 / kappa)
    gained = (float(linear) + float(tied)) / (2.0 * beta)
    value = constant - gained
    return Rounded.of(
        value,
        (linear.allowance + tied.allowance) / (2.0 * beta),
        OPERATIONS * UNIT * (constant + (abs(float(linear)) + abs(float(tied))) / (2.0 * beta) + abs(value)),
        n * n * TINY / beta,
    )


def upper_bound(feasible: FeasibleSet, gram: Matrix, n_labels: int, beta: float, point: Point, doubt: float) -> Rounded:
    """omega at the point, with an allowance up to omega at a feasible one near it; ``doubt`` is `gram_error`."""
    p2 = len(feasible.pairs)
    value = objective(gram, p2, n_labels, beta, point)
    near = feasible.entrywise(point)
    beside = objective(gram, p2, n_labels, beta, near)
    inside = objective(gram, p2, n_labels, beta, feasible.safe)
    t = feasible.share_inside(near)
    if not np.isfinite(t):
        return Rounded(np.inf)  # no point is known to be feasible in exact arithmetic
    reached = beside.upper + max(0.0, t * (inside.upper - beside.lower))
    return Rounded.of(
        float(value), value.allowance, max(0.0, reached - float(value)), doubt / beta, UNIT * OPERATIONS * abs(reached)
    )


def lower_bound(
    feasible: FeasibleSet, gram: Matrix, n_labels: int, beta: float, witness: Point, doubt: float
) -> Rounded:
    """The lower bound on omega that a witness proves; ``doubt`` is `gram_error`."""
    n, p2 = len(gram), len(feasible.pairs)
    found, known = largest(feasible, gram, np.ones((p2, p2)), witness), summed(gram)
    fixed = float(known) / n_labels + (p2 / n_labels) ** 2
    most = total([float(found), -fixed], found.allowance + known.allowance)
    constant = n * (1.0 - 1.0 / n_labels)
    value = constant - float(most) / (2.0 * beta)
    rounded = OPERATIONS * UNIT * (constant + abs(value) + (abs(float(most)) + abs(float(known)) + p2**2) / beta)
    return Rounded.of(value, most.allowance / (2.0 * beta), rounded, doubt / beta, TINY / beta)


def largest(feasible: FeasibleSet, costs: Matrix, pair_costs: Matrix, witness: Point) -> Rounded:
    """An upper bound on <costs, M> + <pair_costs, N> over feasible M and N, proved by a witness; both matrices
    symmetric."""
    n, p2, pairs, n_labels = len(costs), len(feasible.pairs), feasible.pairs, feasible.n_labels
    even = {name: 0.5 * (witness[name] + witness[name].T) for name in ("P", "W_current", "W_previous", "W_pair")}
    left, sizes = costs - even["P"], np.abs(costs) + np.abs(even["P"])
    for column, name in ((1, "W_current"), (0, "W_previous")):
        if p2:
            rows = np.ix_(pairs[:, column], pairs[:, column])
            np.subtract.at(left, rows, even[name])
            np.add.at(sizes, rows, np.abs(even[name]))
    terms = 2 + 2 * int(feasible.siblings.max(initial=1)) ** 2
    parts = [
        _of_cone(left, sizes, terms, witness["u"], witness["y"], n_labels),
        _of_rows(witness["u"], n, feasible.shares[0]),
        _of_entries(even["P"]),
    ]
    if p2:
        pair = even["W_pair"]
        parts += [
            _of_cone(pair_costs - pair, np.abs(pair_costs) + np.abs(pair), 2, witness["v"], witness["z"], n_labels**2),
            _of_rows(witness["v"], p2, feasible.shares[1]),
            _of_ties(even["W_current"], even["W_previous"], pair, feasible.tied),
        ]
    return total([*map(float, parts)], sum(part.allowance for part in parts))


def _of_cone(costs: Matrix, sizes: Matrix, terms: int, sums: Vector, diagonal: Vector, kappa: int) -> Rounded:
    """An upper bound on <costs - (sums 1' + 1 sums')/2, X> over X with diagonal 1 and semidefinite X - 11'/kappa.

    sizes : the sum of the absolute values that each entry of ``costs`` was summed from, ``terms`` of them at most.
    """
    n, rest = len(costs), 1.0 - 1.0 / kappa
    left = costs - 0.5 * (sums[:, None] + sums)
    errors = gamma(terms + 4) * (sizes + 0.5 * (np.abs(sums)[:, None] + np.abs(sums)))
    whole = summed(left, float(errors.sum()))
    errors += gamma(2) * np.abs(np.diag(diagonal))
    off = -left
    off[np.diag_indices(n)] += diagonal
    radius = float(errors.sum(axis=1).max()) + float(UNIT * np.abs(np.diagonal(off)).max())
    excess = -least_eigenvalue(0.5 * (off + off.T), radius + UNIT * n * float(np.abs(off).max()))
    held = summed(diagonal)
    value = float(whole) / kappa + rest * (float(held) + n * excess)
    size = abs(float(whole)) / kappa + abs(float(held)) + n * abs(excess) + abs(value)
    return Rounded.of(value, whole.allowance, held.allowance, OPERATIONS * UNIT * size)


def _of_rows(sums: Vector, n: int, band: tuple[float, float]) -> Rounded:
    """sum_i max(high u_i, low u_i), the most that u'X1 can be where rows are in balance."""
    share, balance = band
    found = summed(n * (share * sums + balance * np.abs(sums)))
    return Rounded.of(
        float(found), found.allowance, OPERATIONS * UNIT * n * (share + balance) * float(np.abs(sums).sum())
    )


def _of_entries(p: Matrix) -> Rounded:
    """sum_{i != j} max(0, P_ij) + sum_i P_ii, the most that <P, M> can be for entries in [0, 1] and a diagonal of 1."""
    most = np.maximum(p, 0.0)
    np.fill_diagonal(most, np.diagonal(p))
    return summed(most)


def _of_ties(current: Matrix, previous: Matrix, pair: Matrix, tied: Flags) -> Rounded:
    """The most that the weighted sum of all triples of (11) can be: the largest corner of each."""
    together = current + previous + pair
    most = np.maximum(np.maximum(current, previous), np.maximum(together, 0.0))
    most[tied] = np.maximum(together, previous)[tied]
    np.fill_diagonal(most, np.diagonal(together))
    errors = gamma(3) * float((np.abs(current) + np.abs(previous) + np.abs(pair)).sum())
    return summed(most, errors)
