r"""How far the problem in computed features lies from that of the given kernel K: part of the allowances.

`convexstruct.features.graphs.gram` factors K; its features have Phi Phi' = K' with |K - K'|_pq <= eps s_p s_q, where
s_p = sqrt(K_pp) and eps is ``dropped``. Certificates are about K, so both bounds allow for the difference.

Lower bound. D depends on K through -1/(2 lam) sum_pq K_pq <d_p, d_q> alone, with d_p (S,) the differences of node p
(`dual`), so that

    D_K(alpha) >= D_K'(alpha) - eps / (2 lam) (sum_p s_p |d_p|)^2.

Upper bound. No dual point has |d_p| above sqrt(2) C omega_i e_i, with e_i = 1 under margin scaling and max E_i under
slack scaling, so that

    min P_K <= min P_K' + eps / lam (sum_p s_p C omega_i e_i)^2.

For the given w, with coefficients a (P, S) and delta_s = |Phi'a_s - w_s|, A_s = sum_p s_p |a_ps|: the function of
K with these coefficients has scores that differ by s_p (eps A_s + delta_s) at most, and a squared norm that differs by
eps A_s^2 + delta_s (2 |w_s| + delta_s):

    P_K(a) <= P_K'(w) + 2 max_s (eps A_s + delta_s) sum_p s_p C omega_i e_i + lam/2 sum_s (what the norms differ by).

The allowance is the smaller of the two. Where the K_pp are of very different sizes only the second is small.
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.families.structured_svm.witness import Posed
from convexstruct.features.graphs.gram import GramFeatures
from convexstruct.rounding import gamma


def of_upper_bound(problem: Posed, kernel: GramFeatures, lam: float, w: Vector) -> float:
    """A proved absolute bound r: min P_K <= P_K'(w) + r."""
    features, s, eps = problem.features, kernel.sizes, kernel.dropped
    each = problem.ceiling
    if problem.scaling == "slack" or problem.loss.zero_one:
        each = each * problem.loss.most
    reach = float(s @ each[features.example])
    n, rank = kernel.features.shape
    w_node = features.split(w)[0].T  # (r, S)
    a = kernel.inverse @ w_node
    widths = s @ np.abs(a)
    apart = np.abs(kernel.features.T @ a - w_node) + gamma(n + 4) * np.abs(w_node)
    delta = np.sqrt((apart * apart).sum(axis=0)) + gamma(n + 4) * widths
    norms = np.sqrt((w_node * w_node).sum(axis=0))
    of_scores = 2.0 * reach * float((eps * widths + delta).max())
    of_norms = 0.5 * lam * float((eps * widths * widths + delta * (2.0 * norms + delta)).sum())
    return (1.0 + gamma(2 * n + 4 * rank + 32)) * min(eps * reach / lam * reach, of_scores + of_norms)


def of_lower_bound(kernel: GramFeatures, lam: float, t: float, spread: float) -> float:
    """A proved absolute bound r: D_K >= D_K' - r at t times a dual point with sum_p s_p |d_p| = ``spread``."""
    moved = t * spread
    return (1.0 + gamma(16)) * 0.5 * kernel.dropped * (moved / lam) * moved
