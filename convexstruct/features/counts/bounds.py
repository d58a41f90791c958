r"""Feature maps for certificates: bounds on the best labelling, and moments of a distribution with their errors.

Two functions, for each kind of feature map (a new kind registers its own):

    excess(features, theta)           max_s [score_k(s) - score_k(s*)] of each example, with its error
    moments(features, theta, B, p)    sum_k p_k E[counts_k] and sum_k p_k E[loss_k] under some distribution q of
                                      labellings near e^score, less those of one labelling, with their errors

Both compare labellings term by term, so that scores which two labellings share cancel exactly and do not absorb small
differences, however large they are.

**Excess.** The oracle adds up scores x along each labelling, at most n roundings deep, and takes the largest sum. So at
scores x + 2 gamma(n) |x| it returns no less than the largest exact sum, and at x - 2 gamma(n) |x| no more.

**Moments.** q need not be the Gibbs distribution of the scores: by (9) of paper 0 every distribution gives a member of
script-D. q is defined by the floating-point numbers that are stored, so its marginals are sums of products of positive
numbers, with a relative error of a few units of rounding a step. Labels and pairs whose computed marginals are 0 have
probability 0: where they underflowed, q is the distribution given that none of them occurs, whose other marginals
differ by less than the error that allows for underflow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from convexstruct.arrays import Index, Labels, Matrix, Tensor, Vector
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import Group, NetworkCounts, _entries
from convexstruct.oracles.chain.chain import sum_product, viterbi
from convexstruct.oracles.tree import junction_tree as trees
from convexstruct.rounding import OUTWARD, TINY, UNIT, Rounded, RoundedArray, binned, exact, gamma, joined, summed


@dataclass(frozen=True)
class Moments:
    """Moments of a distribution q of labellings, beyond those of one labelling.

    base (P,) : that labelling. rise (d,) : sum_k p_k (E counts_k - counts_k(base)); exactly 0 where q uses an entry as
    often as ``base`` for certain. loss : sum_k p_k (E loss_k - loss_k(base)).
    """

    base: Labels
    rise: RoundedArray
    loss: Rounded


@singledispatch
def excess(features: Counts, theta: Vector) -> RoundedArray:
    """max_s [score_k(s) - score_k(s*)] of each example, loss included; (K,).

    theta : (d,), at most 1e300 in size or -inf, and finite where the truth uses it.
    """
    raise ValueError(f"features of type {type(features).__name__} have no bound on their best labelling")


@singledispatch
def moments(features: Counts, theta: Vector, loss_weight: float, weights: Vector) -> Moments:
    """Moments of a distribution near e^score; theta finite; weights (K,) >= 0: p."""
    raise ValueError(f"features of type {type(features).__name__} declare no distribution")


@singledispatch
def shared_columns(features: Counts) -> Sequence[Index]:
    """Sets of entries of theta, at least two in each, whose counts add up to the same number in every labelling."""
    return ()


@singledispatch
def gained(features: Counts, old: int, new: int) -> Iterator[Index]:
    """Labellings that use entry ``new`` of theta once more than the truth, and entry ``old`` once less.

    old, new : two entries of one set of `shared_columns`. Yields arrays (n, m): row i has the entries, other than
    ``new``, that the i-th such labelling uses once more than the truth.
    """
    return iter(())


@shared_columns.register
def _(features: HMMCounts) -> Sequence[Index]:
    """The entries that emit one symbol on one channel, one a state: whatever the states, it is emitted as often as it
    was observed."""
    s, m, channels = features.n_states, features.n_symbols, features.n_channels
    if s < 2:
        return []
    table = (s + s * s + np.arange(channels * s * m)).reshape(channels, s, m)
    return list(table.transpose(0, 2, 1).reshape(-1, s).astype(np.intp))


@gained.register
def _(features: HMMCounts, old: int, new: int) -> Iterator[Index]:
    """`gained` by labellings that differ from the truth at one position."""
    s, m, chains, true, symbols = (
        features.n_states, features.n_symbols, features.chains, features.states, features.channels
    )  # fmt: skip
    first = s + s * s
    channel, place = divmod(old - first, s * m)
    state, symbol = divmod(place, m)
    other = (new - first - channel * s * m) // m
    free = (true == state) & (symbols[:, channel] == symbol)
    free[features.observed] = False
    into = np.full(chains.n_positions, other)  # the initial entry, where no state comes before
    into[chains.later] = s + true[chains.previous] * s + other
    out = into.copy()
    out[chains.previous] = s + other * s + true[chains.later]
    emitted = [first + (o * s + other) * m + symbols[:, o] for o in range(symbols.shape[1]) if o != channel]
    yield np.asarray(np.stack((into, out, *emitted), axis=1)[free], dtype=np.intp)


@shared_columns.register
def _(features: NetworkCounts) -> Sequence[Index]:
    """The smallest sets of entries that each example uses equally often whatever its labelling."""
    return features.alternatives


@gained.register
def _(features: NetworkCounts, old: int, new: int) -> Iterator[Index]:
    """`gained` by labellings that give the hidden variables of one factor the values to which ``new`` belongs."""
    for group in features.groups:
        true = _true(features, group, slice(None))
        for factor in group.factors:
            inner = factor.inner.ravel()
            for base in np.intersect1d(np.intersect1d(old - inner, new - inner), factor.base):
                before, after = (
                    np.unravel_index(int(np.flatnonzero(inner == entry - base)[0]), factor.inner.shape)
                    for entry in (old, new)
                )
                scope = list(factor.scope)
                rows = (factor.base == base) & (true[:, scope] == np.array(before)).all(axis=1)
                labels = true[rows].copy()
                labels[:, scope] = after
                changed = {v for v, a, b in zip(scope, before, after) if a != b}
                used = [
                    each.base[rows] + each.inner[tuple(labels[:, v] for v in each.scope)]
                    for each in group.factors
                    if each is not factor and changed & set(each.scope)
                ]
                yield np.stack(used, axis=1) if used else np.zeros((int(rows.sum()), 0), dtype=np.intp)


# -- bounds ------------------------------------------------------------------------------------------------------------


def _moved(scores: Tensor, share: float) -> Tensor:
    """scores + share |scores|; -inf stays."""
    return np.asarray(scores * (1.0 + np.copysign(share, np.sign(share) * scores)))


def _between(low: Vector, high: Vector) -> RoundedArray:
    """Numbers between ``low`` and ``high``."""
    middle = low + 0.5 * (high - low)
    return RoundedArray(middle, np.maximum(high - middle, middle - low) * (1.0 + 4.0 * UNIT))


def _marginals(found: Tensor, relative: float, absolute: float) -> RoundedArray:
    """Probabilities, with an error where they are not 0."""
    return RoundedArray(found, np.where(found > 0, relative * found + absolute, 0.0))


def _sums(parts: Sequence[tuple[Index, RoundedArray]], size: int) -> RoundedArray:
    """Sums (size,), by index, of all entries of ``parts``: pairs (index, numbers), the index broadcast."""
    every = np.concatenate([np.broadcast_to(index, x.shape).ravel() for index, x in parts])
    found: RoundedArray = binned(joined(*(x for _, x in parts)), every, size)
    return found


@excess.register
def _(features: HMMCounts, theta: Vector) -> RoundedArray:
    chains, true, s = features.chains, features.states, features.n_states
    rows, tables = np.arange(chains.n_positions), features.tables.tables(theta)
    initial = np.zeros((chains.n_positions, s))
    initial[: chains.n_chains] = tables["initial"]
    emissions = theta[s + s * s :].reshape(features.n_channels, s, -1)
    rise: Any = exact(features.loss_table[features.loss_row])
    for scores in (initial, *(each.T[symbols] for each, symbols in zip(emissions, features.channels.T))):
        rise = rise + (exact(scores) - scores[rows, true][:, None])
    rise.value[features.observed] = -np.inf
    rise.value[features.observed, true[features.observed]] = 0.0
    error = np.where(rise.value == -np.inf, 0.0, rise.errors * OUTWARD)
    own = np.zeros(chains.n_positions)
    own[chains.later] = tables["transition"][true[chains.previous], true[chains.later]]
    share = 2.0 * gamma(2 * chains.n_steps + 4)

    def end(side: float) -> Vector:
        node = _moved(rise.value, side * share) + side * error
        return viterbi(chains, node, tables["transition"], lambda edge, at: _moved(edge - own[at], side * share))[0]

    return _between(end(-1.0), end(1.0))


@moments.register
def _(features: HMMCounts, theta: Vector, loss_weight: float, weights: Vector) -> Moments:
    """``base`` has the label of a position at which q has no other, else the true one; so the probabilities of all
    labels, and of pairs of such positions, are exactly those of ``base`` there."""
    chains, s, m, true = features.chains, features.n_states, features.n_symbols, features.states
    found = sum_product(chains, *features.scores(theta, loss_weight), weights, certain=True)
    known = (found.node > 0).sum(axis=1) == 1
    base = np.where(known, found.node.argmax(axis=1), true)
    free, states = np.flatnonzero(~known), np.arange(s)
    node: Any = _marginals(found.node[free], found.relative, found.absolute)
    node = (node - 1.0 * (states == true[free, None])) * weights[chains.chain[free], None]
    lost = found.absolute * (1.0 + float(weights.max()))
    first = s + s * s + (np.arange(features.n_channels)[:, None] * s + states)[:, None] * m
    parts = [(at + symbols[free, None], node) for at, symbols in zip(first, features.channels.T)]
    parts.append((states, node[free < chains.n_chains]))
    parts.append((s + np.arange(s * s), _marginals(found.edge.ravel(), found.relative, lost)))
    steps = ~(known[chains.previous] & known[chains.later])
    before, after = chains.previous[steps], chains.later[steps]
    parts.append((s + base[before] * s + base[after], exact(-weights[chains.chain[after]])))
    loss = summed(node * features.loss_table[features.loss_row[free]])
    return Moments(base[chains.flat], _sums(parts, theta.size), loss)


def _true(features: NetworkCounts, group: Group, rows: slice) -> Labels:
    """(n, hidden variables) of a group's examples."""
    return features.assignments[group.examples[rows]][:, list(group.hidden)]


@excess.register
def _(features: NetworkCounts, theta: Vector) -> RoundedArray:
    ends = np.zeros((2, len(features.weights)))
    for group, rows in features._blocks():
        true = _true(features, group, rows)
        share = 2.0 * gamma(len(group.factors) + len(group.hidden) + 6)
        factors = []
        for factor in group.factors:
            own = theta[factor.base[rows] + factor.inner[tuple(true[:, j] for j in factor.scope)]]
            gain = theta[_entries(factor, rows)] - own[:, None]
            factors.append((factor.scope, gain.reshape(len(true), *factor.inner.shape)))
        factors += [((j,), features._loss_table(group, rows, j)) for j in range(len(group.hidden))]
        for found, side in zip(ends, (-share, share)):
            moved = [(scope, _moved(scores, side)) for scope, scores in factors]
            found[group.examples[rows]] = trees.best(group.tree, moved, len(true))[0]
    return _between(*ends)


@moments.register
def _(features: NetworkCounts, theta: Vector, loss_weight: float, weights: Vector) -> Moments:
    """``base`` is the truth."""
    rise, loss = exact(np.zeros(theta.size)), Rounded(0.0)
    for group, rows in features._blocks():
        scores = features._scores(group, rows, theta, loss_weight)
        more, lost = _of_block(features, group, rows, scores, weights[group.examples[rows], None])
        rise, loss = rise + more, loss + lost
    return Moments(features.examples.truth, rise, loss)


def _of_block(
    features: NetworkCounts, group: Group, rows: slice, scores: list[trees.Factor], weights: Matrix
) -> tuple[RoundedArray, Rounded]:
    """The rise and loss of some examples of a group."""
    true = _true(features, group, rows)
    sums = trees.sum_product(group.tree, scores, len(true))
    steps = (group.tree.n_cliques + 1) * (2 * max(table[0].size for table in sums.cliques) + 6) + 2

    def beyond(scope: tuple[int, ...]) -> Any:
        """p times (q less 1 at the true labels) of the variables in ``scope``; (n, joint labels)."""
        q: Any = _marginals(sums.marginal(scope).reshape(len(true), -1), gamma(steps), steps * TINY)
        return (q - 1.0 * (np.arange(q.shape[1]) == trees.joint(true, scope, group.tree.cards)[:, None])) * weights

    rise = _sums([(_entries(each, rows), beyond(each.scope)) for each in group.factors], features.tables.dimension)
    lost = [summed(beyond((j,)) * features._loss_table(group, rows, j)) for j in range(len(group.hidden))]
    return rise, sum(lost, Rounded(0.0))
