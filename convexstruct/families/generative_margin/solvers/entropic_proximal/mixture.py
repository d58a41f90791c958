r"""The best mixture of the last iterates of a stage, as a dual point.

(mu, omega) bounds nothing while an entry of v = c - mu is below 0; t (mu, omega), with the largest t for which v >= 0,
loses as much as its worst entry is off. Steps of L-BFGS overshoot, in other entries each time, and script-D is convex:
so a mixture of the last iterates is off by far less. The one that is best for the Lagrangian at theta solves a linear
program in as many variables as iterates,

    maximise sum_i a_i (omega_i + mu_i'theta)   subject to   sum_i a_i mu_i <= c,   sum_i a_i <= 1,   a >= 0.

Of its d rows few bind: they are added where they are violated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.optimize

from convexstruct.arrays import Index, Matrix, Vector
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.entropic_proximal.stage import Value

#: Rows added to the program in a round, those violated most; and rounds at most: scaling removes what is left then.
ROWS, ROUNDS = 50, 10
#: What an answer of the program may violate a row by, relative to it, before rows are added: rounding.
VIOLATED = 1e-9


def best_mixture(c: Vector, mu: Matrix, gain: Vector) -> Vector:
    """Shares a (m,) of the points mu (m, d), which gain as much each (m,), with a'mu <= c, for c > 0; zeros where the
    program fails."""
    ratio, rows = mu / c, np.zeros(0, dtype=np.intp)
    for _ in range(ROUNDS):
        left = np.vstack((np.ones(len(gain)), ratio[:, rows].T))
        found = scipy.optimize.linprog(-gain, left, np.ones(len(left)), method="highs-ds")
        if found.status != 0:
            return np.zeros(len(gain))
        over = found.x @ ratio
        if over.max() <= 1.0 + VIOLATED:
            break
        worst: Index = np.argsort(over)[-ROWS:]
        rows = np.union1d(rows, worst[over[worst] > 1.0])
    return np.asarray(found.x / max(float(over.max()), 1.0))


def mixed(problem: GenerativeMargin, values: Sequence[Value]) -> tuple[float, Vector]:
    """The duality gap of the stage at the last of ``values`` with the best mixture of all as the dual point, and its
    shares (m,).

    With s = F + v'theta, which is omega less tau times the divergence from the stage's measure, a mixture has at least
    the mixture of s. The divergence of what a share leaves out counts as that of the last iterate, as in `stage_gap`.
    """
    last = values[-1]
    theta, mu = last.theta, np.stack([each.mu for each in values])
    s = np.array([each.f + each.v @ each.theta for each in values])
    s += last.omega - s[-1]
    shares = best_mixture(problem.c, mu, s + mu @ theta)
    bound = problem.dual_value(np.minimum(shares @ mu, problem.c), float(shares @ s))
    return float(last.omega + (last.mu - problem.c) @ theta - bound), shares
