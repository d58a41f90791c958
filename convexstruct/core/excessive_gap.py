"""Nesterov's excessive gap technique (paper 2, algorithm 1) where L, the Lipschitz constant of the dual's gradient, is
found by backtracking: what its solvers share."""

from __future__ import annotations

import math

#: The first guess of L, as a share of |features|_F^2 / lam, and the factor on L after a step that was accepted. The
#: guess is low, because an L that is too small is doubled within the round; one too large falls by a tenth a round.
FIRST_GUESS, GUESS_FALL = 1e-3, 0.9


def step_share(ratio: float) -> float:
    """tau of the next step, the root in (0, 1) of tau^2 / (1 - tau) = ``ratio``, for the ratio mu / L."""
    return 2.0 * ratio / (ratio + math.sqrt(ratio * ratio + 4.0 * ratio))
