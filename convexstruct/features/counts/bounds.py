r"""Feature maps for certificates: proved bounds on the best labelling, and moments of a distribution with their errors.

`best` and `expected` of a feature map have a rounding error without a proved bound. A certificate needs proved bounds;
two functions give them for each kind of feature map (a new kind registers its own):

    excess(features, theta)        at least max_s [score_k(s) - score_k(s*)] in real arithmetic, and a labelling near it
    moments(features, theta, B)    sum_k w_k E[counts_k - counts_k(s*)] and sum_k w_k E loss_k under some distribution q
                                   of labellings near e^score, with how far they may lie from the exact ones of q

Both compare labellings with the truth term by term, so that scores which both share cancel exactly and do not absorb
small differences, however large they are. q need not be the Gibbs distribution of the scores: by (9) of paper 0 every
distribution gives a member of script-D. q is defined by the floating-point numbers that are stored, so its moments are
sums of positive numbers, with a relative error of a few units of rounding a step (`near` of
`convexstruct.oracles.chain.enclosure`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import Group, NetworkCounts, _entries
from convexstruct.oracles.chain import bounds as chain_bounds
from convexstruct.oracles.chain.enclosure import near
from convexstruct.oracles.tree import junction_tree as trees
from convexstruct.rounding import TINY, UNIT, gamma

#: Bounds on what underflow takes from a probability, and from a sum of products; both far above what is possible.
PROBABILITY_UNDERFLOW = 1e-100
SUM_UNDERFLOW = 2.0**40 * TINY


@dataclass(frozen=True)
class Moments:
    """Moments of a distribution q of labellings, and how far the exact ones may lie from them.

    rise (d,) : sum_k w_k E[counts_k - counts_k(s*)]; exactly 0 where no labelling can differ from the truth.
    loss : sum_k w_k E loss_k. rise_error (d,), loss_error : bounds on the absolute errors of the two.
    """

    rise: Vector
    rise_error: Vector
    loss: float
    loss_error: float


@singledispatch
def excess(features: Counts, theta: Vector) -> tuple[Vector, Labels]:
    """(upper bounds (K,) on max_s [score_k(s) - score_k(s*)], a labelling (P,) whose excess is near them).

    theta : (d,), at most 1e300 in size or -inf, and finite where the truth uses it.
    """
    raise ValueError(f"features of type {type(features).__name__} have no bound on their best labelling")


@singledispatch
def moments(features: Counts, theta: Vector, loss_weight: float) -> Moments:
    """Moments of a distribution near e^score, with their errors; theta finite."""
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


# -- sums --------------------------------------------------------------------------------------------------------------


class Sums:
    """Sums of many non-negative terms by index, each almost as if it were rounded once.

    Every term is split in two at a fixed power of two: the upper halves add up without any error, the lower halves are
    too small for their errors to count (Rump, Ogita and Oishi, Accurate floating-point summation, part I).
    """

    def __init__(self, size: int, scale: float) -> None:
        """size : the number of sums. scale : the largest factor of a probability in any term."""
        self.total = np.zeros(size)
        self.error = np.zeros(size)
        self._underflow = PROBABILITY_UNDERFLOW * scale + SUM_UNDERFLOW

    def add(self, index: Index, terms: Vector, relative: float) -> None:
        """Add ``terms`` (n,), each wrong by at most ``relative`` of itself, at ``index`` (n,)."""
        n, size = terms.size, len(self.total)
        if not n:
            return
        most = float(terms.max())
        sigma = float(2.0 ** np.ceil(np.log2(n + 2.0))) * float(2.0 ** np.ceil(np.log2(max(most, 1e-290)) + 1.0))
        high = (terms + sigma) - sigma
        found = np.bincount(index, weights=high, minlength=size) + np.bincount(
            index, weights=terms - high, minlength=size
        )
        self.total += found
        lost = gamma(n) * n * UNIT * sigma + self._underflow
        self.error += (relative + 2 * UNIT) * found + 2 * UNIT * self.total + lost


def signed_sums(index: Index, values: Vector, size: int) -> tuple[Vector, Vector]:
    """Sums (size,) of ``values`` (n,) by ``index`` (n,), and bounds on their errors: 0 where the sum is 0 exactly.

    Values are split at powers of two: the upper parts add up without error; what is left after four splits is 0 or so
    small that its error hardly counts (Rump, Ogita and Oishi, Accurate floating-point summation, part I).
    """
    parts = []
    rest = values.copy()
    error = np.zeros(size)
    for _ in range(4):
        most = float(np.abs(rest).max(initial=0.0))
        if most == 0.0:
            break
        sigma = float(2.0 ** (np.ceil(np.log2(rest.size + 2.0)) + np.ceil(np.log2(most)) + 1.0))
        high = (rest + sigma) - sigma
        parts.append(np.bincount(index, weights=high, minlength=size))
        rest = rest - high
    if rest.any():
        parts.append(np.bincount(index, weights=rest, minlength=size))
        error += gamma(rest.size) * np.bincount(index, weights=np.abs(rest), minlength=size)
    if not parts:
        return np.zeros(size), error
    found = np.array([math.fsum(column) for column in np.array(parts).T.tolist()])
    return found, error + UNIT * np.abs(found)


def _sums(d: int, features: HMMCounts | NetworkCounts, costs: float) -> tuple[Sums, Sums, Sums]:
    """Empty sums of expected counts, of the truth's counts and of the loss; costs : the largest cost of a label."""
    heaviest = float(features.weights.max())
    return Sums(d, heaviest), Sums(d, 0.0), Sums(1, heaviest * costs)


def _difference(plus: Sums, minus: Sums, loss: Sums) -> Moments:
    """The moments from expected counts ``plus``, the truth's counts ``minus``, and the loss."""
    used = (plus.total != 0) | (minus.total != 0)
    rise = plus.total - minus.total
    error = np.where(used, plus.error + minus.error + UNIT * np.abs(rise), 0.0)
    return Moments(rise, error, float(loss.total[0]), float(loss.error[0]))


# -- chains ------------------------------------------------------------------------------------------------------------


def _rise(features: HMMCounts, theta: Vector) -> Matrix:
    """Upper bounds on what each state scores above the true state of its position, without transitions; (P, S),
    packed."""
    true, s = features.states, features.n_states
    rise = features.loss_table[features.loss_row]
    emissions = theta[s + s * s :].reshape(features.n_channels, s, features.n_symbols)
    for scores, symbols in zip(emissions, features.channels.T):
        gain = chain_bounds.up(scores.T[symbols] - scores[true, symbols][:, None])
        rise = chain_bounds.up(rise + gain)
    initial, n = features.tables.tables(theta)["initial"], features.chains.n_chains
    rise[:n] = chain_bounds.up(rise[:n] + chain_bounds.up(initial - initial[true[:n]][:, None]))
    if len(features.observed):
        rise[features.observed] = -np.inf
        rise[features.observed, true[features.observed]] = 0.0
        first = features.observed[features.observed < n]
        rise[first, true[first]] = 0.0
    return rise


@excess.register
def _(features: HMMCounts, theta: Vector) -> tuple[Vector, Labels]:
    transition = features.tables.tables(theta)["transition"]
    values, labels = chain_bounds.excess(features.chains, _rise(features, theta), transition, features.states)
    return values, labels[features.chains.flat]


@moments.register
def _(features: HMMCounts, theta: Vector, loss_weight: float) -> Moments:
    """Positions at which one state alone is possible ("known") are counted apart from the others, without any error."""
    chains, s, m, true, symbols = (
        features.chains, features.n_states, features.n_symbols, features.states, features.channels
    )  # fmt: skip
    d, scores = theta.size, features.scores(theta, loss_weight)
    found = near(chains, *scores, features.weights, certain=True)
    known, labels = found.known, found.possible.argmax(axis=1)
    weight = features.weights[chains.chain]
    plus, minus, loss = _sums(d, features, float(features.loss_table.max()))
    free = np.flatnonzero(~known)
    node = found.node[free] * weight[free, None]
    relative = found.relative + UNIT
    states = np.arange(s)
    for channel in range(symbols.shape[1]):
        base = s + s * s + channel * s * m
        plus.add((base + states * m + symbols[free, channel][:, None]).ravel(), node.ravel(), relative)
        minus.add(base + true[free] * m + symbols[free, channel], weight[free], 0.0)
    first = free < chains.n_chains
    plus.add(np.tile(states, int(first.sum())), node[first].ravel(), relative)
    minus.add(true[free[first]], weight[free[first]], 0.0)
    plus.add(np.arange(s, s + s * s), found.edge.ravel(), relative)
    steps = ~(known[chains.previous] & known[chains.later])
    before, after = chains.previous[steps], chains.later[steps]
    minus.add(s + true[before] * s + true[after], weight[before], 0.0)
    lost = (node * features.loss_table[features.loss_row[free]]).ravel()
    loss.add(np.zeros(lost.size, dtype=np.intp), lost, relative + UNIT)
    # where one label only is possible and it is not the true one, its uses and the truth's cancel without any error
    other = np.flatnonzero(known & (labels != true))
    begin = other[other < chains.n_chains]
    ends = ~steps
    before, after = chains.previous[ends], chains.later[ends]
    moved = (labels[before] != true[before]) | (labels[after] != true[after])
    before, after = before[moved], after[moved]
    emission = s + s * s + np.arange(symbols.shape[1])[:, None] * s * m + symbols[other].T  # of state 0
    new = [labels[begin], s + labels[before] * s + labels[after], (emission + labels[other] * m).ravel()]
    old = [true[begin], s + true[before] * s + true[after], (emission + true[other] * m).ravel()]
    each = np.concatenate([weight[begin], weight[before], np.tile(weight[other], symbols.shape[1])])
    exact, error = signed_sums(np.concatenate((*new, *old)).astype(np.intp), np.concatenate((each, -each)), d)
    lost = weight[other] * features.loss_table[features.loss_row[other], labels[other]]
    loss.add(np.zeros(lost.size, dtype=np.intp), lost, UNIT)
    rest = _difference(plus, minus, loss)
    rise = rest.rise + exact
    error = rest.rise_error + error + np.where((rest.rise != 0) & (exact != 0), UNIT * np.abs(rise), 0.0)
    return Moments(rise, error, rest.loss, rest.loss_error)


# -- networks ----------------------------------------------------------------------------------------------------------


def _true(features: NetworkCounts, group: Group, rows: slice) -> Labels:
    """(n, hidden variables) of a group's examples."""
    return features.assignments[group.examples[rows]][:, list(group.hidden)]


@excess.register
def _(features: NetworkCounts, theta: Vector) -> tuple[Vector, Labels]:
    values = np.zeros(len(features.weights))
    labels = np.empty(len(features.example), dtype=np.int64)
    for group, rows in features._blocks():
        true = _true(features, group, rows)
        n, share = len(true), 2.0 * gamma(len(group.factors) + len(group.hidden) + 6)
        factors: list[trees.Factor] = []
        for factor in group.factors:
            own = theta[factor.base[rows] + factor.inner[tuple(true[:, j] for j in factor.scope)]]
            gain = theta[_entries(factor, rows)] - own[:, None]
            wide = np.maximum(gain * (1.0 + share), gain * (1.0 - share))  # makes up for the rounding of the oracle
            factors.append((factor.scope, wide.reshape(n, *factor.inner.shape)))
        factors += [((j,), (1.0 + share) * features._loss_table(group, rows, j)) for j in range(len(group.hidden))]
        value, found = trees.best(group.tree, factors, n)
        values[group.examples[rows]] = value
        labels[group.places[rows]] = found
    return values, labels


@moments.register
def _(features: NetworkCounts, theta: Vector, loss_weight: float) -> Moments:
    plus, minus, loss = _sums(theta.size, features, max(float(cost.max()) for cost in features.costs.values()))
    for group, rows in features._blocks():
        true = _true(features, group, rows)
        weights = features.weights[group.examples[rows]]
        sums = trees.sum_product(group.tree, features._scores(group, rows, theta, loss_weight), len(true))
        entries = max(table[0].size for table in sums.cliques)
        relative = gamma((group.tree.n_cliques + 1) * (2 * entries + 6) + 2)
        for factor in group.factors:
            used = _entries(factor, rows)
            share = sums.marginal(factor.scope).reshape(len(true), -1) * weights[:, None]
            plus.add(used.ravel(), share.ravel(), relative)
            own = factor.base[rows] + factor.inner[tuple(true[:, j] for j in factor.scope)]
            minus.add(own, weights, 0.0)
        for j in range(len(group.hidden)):
            lost = (sums.marginal((j,)) * features._loss_table(group, rows, j) * weights[:, None]).ravel()
            loss.add(np.zeros(lost.size, dtype=np.intp), lost, relative + 2 * UNIT)
    return _difference(plus, minus, loss)
