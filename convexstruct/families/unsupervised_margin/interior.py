r"""A point strictly inside the feasible set of the reduced SDP, and the tightest balances that have one.

    M0 = (1 - m) I + m 11',        N0 = 1 on the diagonal, m where two pairs share their previous row, n elsewhere

Two such pairs are children of one parent. There (11) says N = M, whose entries are m. Chains have no such pairs.

* M0 - 11'/kappa is positive semidefinite iff m >= (p1/kappa - 1) / (p1 - 1); there M0 1 = (p1/kappa) 1, so every
  label balance above 0 has points inside, if kappa <= p1.
* N0 - 11'/kappa^2 is positive semidefinite iff (1/kappa^2 - n) sum_g s_g / (1 - m + (m - n) s_g) <= 1, where g runs
  over the parents and s_g is the number of children of g. For chains: n >= (p2/kappa^2 - 1) / (p2 - 1).
* The row of N0 for a pair with s - 1 siblings sums to 1 + (s - 1) m + (p2 - s) n.

For chains the smallest pair balance is max(0, 1/p2 - 1/kappa^2), and no other point does better: rows of N sum to at
least 1. For trees the smallest balance that is reported is that of points of this form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Index

#: Halvings of an interval: more than enough to find a double in [0, 1].
HALVINGS = 60
#: Position of n between its least (0) and its largest value (1; n = m for chains). Solvers leave N a little above M,
#: and the farther n is below m the shorter is the step that repairs this.
N_POSITION = 0.2


@dataclass(frozen=True)
class Interior:
    """m and n of M0 and N0; ``least`` is the smallest pair balance that has points of this form, for any m."""

    m: float
    n: float
    least: float


def interior(n_rows: int, siblings: Index, n_labels: int, label_balance: float, pair_balance: float) -> Interior | None:
    """m and n strictly inside what the balances allow; None where the pair balance is at most `least_pair_balance`.

    siblings : (p2,) for each pair the number of pairs with its previous row, itself among them.
    """
    lowest = _lowest_m(n_rows, n_labels)
    highest = min(1.0 / n_labels, (n_rows * (1.0 / n_labels + label_balance) - 1.0) / (n_rows - 1))
    least = least_pair_balance(n_rows, siblings, n_labels)
    if not pair_balance > least:
        return None
    share = 1.0
    for _ in range(HALVINGS):
        share *= 0.5
        m = lowest + share * (highest - lowest)
        low, high = _allowed_n(siblings, n_labels, m, pair_balance)
        if low < high:
            return Interior(m, low + N_POSITION * (high - low), least)
    return None


def least_pair_balance(n_rows: int, siblings: Index, n_labels: int) -> float:
    """The smallest eps2 for which some N0 is feasible, whatever eps1 > 0; 0 where there are no pairs."""
    if not len(siblings):
        return 0.0
    m, p2, share = _lowest_m(n_rows, n_labels), len(siblings), 1.0 / n_labels**2
    most, fewest = int(siblings.max()), int(siblings.min())
    # a row with s siblings is above the share by (1 + (s - 1) m + (p2 - s) n) / p2 - share: the largest s is the most
    # above and the smallest the most below; the larger of the two is least where they are equal
    wanted = 2.0 * share * p2 - 2.0 - (most + fewest - 2) * m
    equal = wanted / (2 * p2 - most - fewest) if most + fewest < 2 * p2 else 0.0
    n = min(max(equal, _lowest_n(siblings, n_labels, m)), m)
    sums = [1.0 + (s - 1) * m + (p2 - s) * n for s in (most, fewest)]
    return max(0.0, sums[0] / p2 - share, share - sums[1] / p2)


def _lowest_m(n_rows: int, n_labels: int) -> float:
    return max(0.0, (n_rows / n_labels - 1.0) / (n_rows - 1))


def _lowest_n(siblings: Index, n_labels: int, m: float) -> float:
    """The smallest n >= 0 for which N0 - 11'/kappa^2 is positive semidefinite; at most m."""
    share = 1.0 / n_labels**2

    def semidefinite(n: float) -> bool:
        # the sum over parents of s_g / (..) is the sum over pairs of 1 / (..)
        return n >= share or (share - n) * float((1.0 / (1.0 - m + (m - n) * siblings)).sum()) <= 1.0

    if semidefinite(0.0):
        return 0.0
    low, high = 0.0, m
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if semidefinite(middle) else (middle, high)
    return high


def _allowed_n(siblings: Index, n_labels: int, m: float, balance: float) -> tuple[float, float]:
    """The least and the largest n of a feasible N0, where there is one; (0, m) where no entry of N0 is n."""
    low, high = _lowest_n(siblings, n_labels, m) if len(siblings) else 0.0, m
    p2, share = len(siblings), 1.0 / n_labels**2
    for s in np.unique(siblings).tolist():
        fixed, others = 1.0 + (s - 1) * m, p2 - s
        if others:
            low = max(low, ((share - balance) * p2 - fixed) / others)
            high = min(high, ((share + balance) * p2 - fixed) / others)
        elif not (share - balance) * p2 < fixed < (share + balance) * p2:
            return 1.0, 0.0
    return low, high
