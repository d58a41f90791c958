r"""A point strictly inside the feasible set of the reduced SDP, and the tightest balances that have one.

    M0 = (1 - m) I + m 11',        N0 = (1 - n) I + n 11'

* M0 - 11'/kappa is positive semidefinite iff m >= (p1/kappa - 1) / (p1 - 1); there M0 1 = (p1/kappa) 1, so every
  label balance above 0 has points inside, if kappa <= p1.
* N0 - 11'/kappa^2 is positive semidefinite iff n >= (p2/kappa^2 - 1) / (p2 - 1), which is less.
* Rows of N0 sum to 1 + (p2 - 1) n.

The smallest pair balance is max(0, 1/p2 - 1/kappa^2), and no other point does better: rows of N sum to at least 1.
"""

from __future__ import annotations

#: Position of n between its least (0) and its largest value (1; n = m). Solvers leave N a little above M, and the
#: farther n is below m the shorter is the step that repairs this.
N_POSITION = 0.2


def interior(
    n_rows: int, n_pairs: int, n_labels: int, label_balance: float, pair_balance: float
) -> tuple[float, float] | None:
    """m and n strictly inside what the balances allow; None where these leave none."""
    lowest = max(0.0, (n_rows / n_labels - 1.0) / (n_rows - 1))
    highest = min(1.0 / n_labels, (n_rows * (1.0 / n_labels + label_balance) - 1.0) / (n_rows - 1))
    m = 0.5 * (lowest + highest)
    low, high = 0.0, m
    if n_pairs > 1:
        low = max(0.0, (n_pairs / n_labels**2 - 1.0) / (n_pairs - 1))
        high = min(m, (n_pairs * (1.0 / n_labels**2 + pair_balance) - 1.0) / (n_pairs - 1))
    if not (pair_balance > least_pair_balance(n_pairs, n_labels) and low < high):
        return None
    return m, low + N_POSITION * (high - low)


def least_pair_balance(n_pairs: int, n_labels: int) -> float:
    """The smallest eps2 for which some N is feasible, whatever eps1 > 0; 0 where there are no pairs."""
    return max(0.0, 1.0 / n_pairs - 1.0 / n_labels**2) if n_pairs else 0.0
