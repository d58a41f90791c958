r"""Forward-backward on tables of probabilities, for several models at a time: hidden Markov models.

    potential (R, S, P): how well each state explains each packed position, the start's probabilities multiplied in
    transition (R, S, S): [previous, current]; probabilities, or any weights >= 0

for R models, S states and P packed positions of `convexstruct.graphs.Chains`. With W = transition and e_t = potential,

    alpha_t = e_t (W' alpha_{t-1}) / z_t,    u_t = e_t beta_t / z_t,    beta_{t-1} = W u_t,

z_t such that alpha_t sums to 1; posteriors alpha_t beta_t, expected pairs W * sum_t alpha_{t-1} u_t', and the log
likelihood is sum_t ln z_t. Positions run along the last axis, so that every operation is a long row.

**Few long chains** are cut into pieces (`convexstruct.oracles.chain.pieces`); the forward messages that arrive at the
cuts are those of the round before. Measured by Hilbert's metric, d(a, b) = ln max_s a_s/b_s - ln min_s a_s/b_s, neither
W' nor a multiplication by e_t increases the distance of two messages (G. Birkhoff 1957). So where each piece began
within d of the message with which the piece before ended, no message in its chain is off by more than the sum of these
d; the same holds backwards. A round after the first ends where all its messages are within d of those of the round
before: what follows stands already. Where messages at the cuts still change by more than `AGREEMENT` after
`MOST_ROUNDS` rounds, or a round hardly lessens their change, as with states that are hardly ever left, the whole chains
are run over step by step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Index, Matrix, Tensor, Vector
from convexstruct.graphs import Chains
from convexstruct.oracles.chain.pieces import Pieces

#: Messages at a cut agree if no entry changes by more than this, relative: some thousand roundings. Hilbert's metric
#: between them is then at most twice this, up to terms of higher order.
AGREEMENT = 1e-12
#: The largest number of rounds over all pieces before the caller must run over the whole chains. Where messages agree
#: at all within a reasonable time they mostly do so within two to six rounds: their distance falls faster and faster.
MOST_ROUNDS = 6
#: Rounds also end where one leaves more than this share of the distance of the messages at the cuts from those of the
#: round before: such messages would take more than `MOST_ROUNDS` rounds.
SHARE_LEFT = 0.5
#: Steps between two comparisons of the messages with those of the round before; one takes about as long as a step.
STEPS_BETWEEN = 16


class Passed(NamedTuple):
    """The results of both passes. alpha, beta, message (R, S, P): alpha_t, beta_t, u_t. scale (R, P): z_t."""

    alpha: Tensor
    beta: Tensor
    message: Tensor
    scale: Matrix


@np.errstate(invalid="ignore", divide="ignore", under="ignore", over="ignore")
def forward_backward(
    layout: Chains, potential: Tensor, transition: Tensor, cut: Pieces | None = None, room: Tensor | None = None
) -> Passed | None:
    """Both passes over ``layout``, which is that of the pieces where ``cut`` is given; None where messages at the cuts
    do not agree within `MOST_ROUNDS` rounds.

    ``room`` (3, R, S, P) is an array for the results, reused where the passes are made many times: allocating new
    arrays takes longer than filling them. The caller must check that posteriors of first positions are numbers and sum
    to 1: where a model gives a sequence the probability 0, some z_t is 0, and where a message loses what the other
    keeps, their first sum is off.
    """
    none = np.zeros(0, dtype=np.intp)
    later, earlier = (none, none) if cut is None else (cut.later, cut.earlier)
    into = np.ascontiguousarray(transition.transpose(0, 2, 1))
    alpha, beta, message = np.empty((3, *potential.shape)) if room is None else room
    scale = np.empty((len(potential), layout.n_positions))
    arriving = np.full((*potential.shape[:2], len(later)), 1.0 / potential.shape[1])
    apart = np.inf
    for k in range(MOST_ROUNDS):
        _forward(layout, potential, into, alpha, scale, later, arriving, again=k > 0)
        before, arriving = arriving, alpha[:, :, earlier]
        if _agree(arriving, before):
            break
        apart, last = _apart(arriving, before), apart
        if not apart <= SHARE_LEFT * last:
            return None
    else:
        return None
    beta[:, :, layout.last] = 1.0
    ending, apart = np.ones_like(arriving), np.inf
    for k in range(MOST_ROUNDS):
        beta[:, :, earlier] = ending
        _backward(layout, potential, scale, transition, beta, message, int(earlier.min()) if k else -1)
        before, ending = ending, transition @ message[:, :, later]
        ending /= (arriving * ending).sum(axis=1, keepdims=True)
        if _agree(ending, before):
            return Passed(alpha, beta, message, scale)
        apart, last = _apart(ending, before), apart
        if not apart <= SHARE_LEFT * last:
            break
    return None


def pairs(layout: Chains, passed: Passed, cut: Pieces | None = None, share: Vector | None = None) -> Tensor:
    """sum_t alpha_{t-1} u_t' (R, S, S), the expected pairs once multiplied by the transitions, entry by entry.
    ``share`` (P,) : the weight of each position's term."""
    message = passed.message if share is None else passed.message * share
    total = np.zeros((len(message), *message.shape[1:2] * 2))
    t = 1
    while t < layout.n_steps:  # successive steps with the same number of chains are one product
        n = int(layout.active[t])
        alike = 1 if layout.active[t - 1] > n else int(np.searchsorted(-layout.active[t:], -n, side="right"))
        before, after = int(layout.start[t - 1]), int(layout.start[t])
        here = message[:, :, after : after + alike * n]
        total += passed.alpha[:, :, before : before + alike * n] @ here.transpose(0, 2, 1)
        t += alike
    if cut is not None:
        total += passed.alpha[:, :, cut.earlier] @ message[:, :, cut.later].transpose(0, 2, 1)
    return total


def _forward(
    layout: Chains, potential: Tensor, into: Tensor, alpha: Tensor, scale: Matrix, later: Index, arriving: Tensor,
    *, again: bool,
) -> None:  # fmt: skip
    """Fill ``alpha`` and ``scale``; ``arriving`` (R, S, K) are the alphas before the rows ``later``.

    again : both are those of the round before. They stay so from the first step on at which the alphas agree.
    """
    alpha[:, :, layout.rows(0)] = 1.0
    alpha[:, :, later] = into @ arriving
    for t in range(layout.n_steps):
        rows = layout.rows(t)
        here, total = alpha[:, :, rows], scale[:, rows]
        old = here.copy() if again and t % STEPS_BETWEEN == STEPS_BETWEEN - 1 else None
        if t:
            before = int(layout.start[t - 1])
            np.matmul(into, alpha[:, :, before : before + int(layout.active[t])], out=here)
        here *= potential[:, :, rows]
        np.add.reduce(here, axis=1, out=total)
        here *= 1.0 / total[:, None]
        if old is not None and _agree(here, old):
            return


def _backward(
    layout: Chains, potential: Tensor, scale: Matrix, transition: Tensor, beta: Tensor, message: Tensor, first_end: int
) -> None:
    """Fill ``beta``, whose last rows of chains are given, and ``message``.

    first_end : the first row whose beta has changed since the round before. What stands before a step at which the
    messages of the two rounds agree, and after which no row has changed, stays as it is. -1 in the first round.
    """
    for t in range(layout.n_steps - 1, -1, -1):
        rows = layout.rows(t)
        old = message[:, :, rows].copy() if rows.start <= first_end and t % STEPS_BETWEEN == 0 else None
        here = np.multiply(potential[:, :, rows], beta[:, :, rows], out=message[:, :, rows])
        here *= 1.0 / scale[:, None, rows]
        if t:
            before = int(layout.start[t - 1])
            np.matmul(transition, here, out=beta[:, :, before : before + int(layout.active[t])])
        if old is not None and _agree(here, old):
            return


def _agree(new: Tensor, old: Tensor) -> bool:
    """Whether no entry has changed by more than `AGREEMENT`, relative."""
    return bool((np.abs(new - old) <= AGREEMENT * old).all())


def _apart(new: Tensor, old: Tensor) -> float:
    """The largest distance of two messages in Hilbert's metric; NaN where an entry is not a number."""
    ratio = np.divide(new, old, out=np.ones_like(new), where=new != old)
    return float((np.log(ratio.max(axis=1)) - np.log(ratio.min(axis=1))).max(initial=0.0))
