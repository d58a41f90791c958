r"""Margins that a loss rescales: the rows of paper 0's (3) with A_k(s)'theta + 1 <= eps_k / b_k(s) in their place.

With A_k(s) = counts_k(s) - counts_k(s*) and b_k(s) = loss_k(s) > 0, such a row is b A'theta + b <= eps: one of (3) with
counts b A for A. `LossRescaled` is the feature map of these counts. A labelling without loss has counts of 0, so that
its row asks for nothing, as it should.

The best labelling is no longer a path of best steps, since b multiplies a sum:

    max_s b(s) (A(s)'theta + 1) = max over the losses l of l (1 + max { A(s)'theta : b(s) = l }),

one decoding for each value of the loss, all by one pass of `convexstruct.oracles.tree.loss_counter`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.brief import brief
from convexstruct.features.counts.bounds import _between, _moved, _true, excess, gained, shared_columns
from convexstruct.features.counts.counts import Counts, Examples, Expected
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts, _entries
from convexstruct.features.counts.part import part
from convexstruct.features.graphs.loss_steps import LossSteps, number_losses
from convexstruct.graphs import TableLayout
from convexstruct.oracles.tree.loss_counter import LossTable, by_loss, by_loss_on_tree, joined
from convexstruct.rounding import OUTWARD, RoundedArray, binned, exact, gamma

#: theta that stands for -inf: far below any score, and sums of it are still numbers.
LEAST = -1e150


@dataclass(frozen=True, eq=False)
class LossRescaled:
    """The counts b_k(s) (counts_k(s) - counts_k(s*)), with the loss b_k(s). features : the map that is rescaled."""

    features: Counts

    __repr__ = brief

    @property
    def tables(self) -> TableLayout:
        return self.features.tables

    @property
    def examples(self) -> Examples:
        return self.features.examples

    @cached_property
    def numbered(self) -> LossSteps:
        """The values that the loss takes, numbered. ValueError if there are too many."""
        costs, example = node_costs(self.features)
        return number_losses(costs, example, len(self.examples))

    def check(self) -> None:
        """ValueError as `numbered` says; its steps are made read-only."""
        self.numbered.steps.setflags(write=False)

    def best(self, theta: Vector, loss_weight: float = 1.0) -> tuple[Vector, Labels]:
        """max_s b(s) (A(s)'theta + loss_weight) of each example (K,), and a labelling that attains it (P,)."""
        if np.isnan(theta).any():
            return np.full(len(self.examples), np.nan), self.examples.truth
        table = differences(self.features, np.maximum(theta, LEAST), self.numbered.steps)
        has = table.scores > -np.inf
        values = np.where(has, self.numbered.values * (np.where(has, table.scores, 0.0) + loss_weight), -np.inf)
        return np.asarray(values.max(axis=1)), table.labels(values.argmax(axis=1))

    def expected(self, theta: Vector, loss_weight: float = 1.0, share: Vector | None = None) -> Expected:
        raise ValueError("features are rescaled by the loss, wanted others: no sums over labellings are known for them")

    def counts(self, labels: Labels, share: Vector | None = None) -> Vector:
        loss = self.loss(labels) if share is None else self.loss(labels) * share
        return self.features.counts(labels, loss) - self.features.counts(self.examples.truth, loss)

    def counts_each(self, labels: Labels) -> sp.csr_array:
        return sp.csr_array(self.differences_each(labels).multiply(self.loss(labels)[:, None]))

    def differences_each(self, labels: Labels) -> sp.csr_array:
        """counts_k(s) - counts_k(s*) of each example; sparse (K, d)."""
        return sp.csr_array(self.features.counts_each(labels) - self._truth)

    def loss(self, labels: Labels) -> Vector:
        return self.features.loss(labels)

    @cached_property
    def least_loss(self) -> float:
        """The least loss of a labelling other than the truth; inf if there is no other, 0 if one has no loss."""
        costs, cards = node_costs(self.features)[0], self.examples.cards
        costs = np.where(np.arange(costs.shape[1]) < cards[:, None], costs, np.inf)
        return float(np.min(np.sort(costs, axis=1)[:, 1:2], initial=np.inf))  # the truth has the first, 0

    @cached_property
    def _truth(self) -> sp.csr_array:
        return self.features.counts_each(self.examples.truth)


@part.register
def _(features: LossRescaled, low: int, high: int) -> Counts:
    return LossRescaled(part(features.features, low, high))


@shared_columns.register
def _(features: LossRescaled) -> Sequence[Index]:
    """Those of the map itself, whose counts less the truth's add up to 0; none where a labelling has no loss."""
    return shared_columns(features.features) if features.least_loss > 0 else ()


@gained.register
def _(features: LossRescaled, old: int, new: int) -> Iterator[Index]:
    """Those of the map itself: a b_k(s)-th of a labelling's counts and of its weight."""
    return gained(features.features, old, new)


@excess.register
def _(features: LossRescaled, theta: Vector) -> RoundedArray:
    """Between the best values at scores moved down and up by their rounding; the truth has 0."""
    theta, numbered = np.where(theta == -np.inf, LEAST, theta), features.numbered
    loss = RoundedArray(numbered.values, numbered.deviation * numbered.values)
    ends = []
    for side in (-1.0, 1.0):
        scores = differences(features.features, theta, numbered.steps, side).scores
        has = scores > -np.inf
        value = loss * (exact(np.where(has, scores, 0.0)) + 1.0)
        end = value.value + side * value.errors * OUTWARD
        ends.append(np.maximum(np.where(has, end, 0.0).max(axis=1), 0.0))
    return _between(*ends)


# -- the two kinds of feature maps -------------------------------------------------------------------------------------


@singledispatch
def node_costs(features: Counts) -> tuple[Matrix, Index]:
    """(the loss of each label of each hidden variable (P, S), its example (P,)), in the order in which `differences`
    takes steps."""
    raise ValueError(f"features of type {type(features).__name__} have no losses to count")


@singledispatch
def differences(features: Counts, theta: Vector, steps: Labels, side: float = 0.0) -> LossTable:
    """max { A_k(s)'theta : the steps of s add up to l } for each example k and total l.

    theta : (d,), finite. side : -1 or 1 for a bound below or above, which allows for rounding; 0 for the plain sums.
    """
    raise ValueError(f"features of type {type(features).__name__} have no losses to count")


@node_costs.register
def _(features: HMMCounts) -> tuple[Matrix, Index]:
    return features.loss_table[features.loss_row], features.chains.chain


@differences.register
def _(features: HMMCounts, theta: Vector, steps: Labels, side: float = 0.0) -> LossTable:
    chains, true, s = features.chains, features.states, features.n_states
    rows, tables = np.arange(chains.n_positions), features.tables.tables(theta)
    initial = np.zeros((chains.n_positions, s))
    initial[: chains.n_chains] = tables["initial"]
    emissions = theta[s + s * s :].reshape(features.n_channels, s, -1)
    rise: Any = exact(np.zeros((chains.n_positions, s)))
    for scores in (initial, *(each.T[symbols] for each, symbols in zip(emissions, features.channels.T))):
        rise = rise + (exact(scores) - scores[rows, true][:, None])
    rise.value[features.observed] = -np.inf
    rise.value[features.observed, true[features.observed]] = 0.0
    error = np.where(rise.value == -np.inf, 0.0, rise.errors * OUTWARD)
    share = side * 2.0 * gamma(2 * chains.n_steps + 4)
    node = _moved(rise.value, share) + side * error if side else rise.value
    edge = _moved(tables["transition"], share) if side else tables["transition"]
    found = by_loss(chains, node, np.ascontiguousarray(edge), steps)
    taken = exact(tables["transition"][true[chains.previous], true[chains.later]])
    own: Any = binned(taken, chains.chain[chains.later], chains.n_chains)
    scores = found.scores - own.value[:, None]
    if side:
        scores = scores + side * (own.errors[:, None] * OUTWARD + gamma(2) * np.abs(_finite(scores)))
    return LossTable(scores, lambda totals: found.labels(totals)[chains.flat])


def _finite(scores: Matrix) -> Matrix:
    return np.where(scores > -np.inf, scores, 0.0)


@node_costs.register
def _(features: NetworkCounts) -> tuple[Matrix, Index]:
    costs = np.zeros((len(features.example), max(cost.shape[1] for cost in features.costs.values())))
    for v, cost in features.costs.items():
        here = features.node == v
        costs[here, : cost.shape[1]] = cost[features.examples.truth[here]]
    return costs, features.example


@differences.register
def _(features: NetworkCounts, theta: Vector, steps: Labels, side: float = 0.0) -> LossTable:
    parts = []
    for group in features.groups:
        rows = slice(None)
        true = _true(features, group, rows)
        share = side * 2.0 * gamma(len(group.factors) + 2 * len(group.hidden) + 6)
        factors = []
        for factor in group.factors:
            own = theta[factor.base + factor.inner[tuple(true[:, j] for j in factor.scope)]]
            gain = (theta[_entries(factor, rows)] - own[:, None]).reshape(len(true), *factor.inner.shape)
            factors.append((factor.scope, _moved(gain, share) if side else gain))
        own_steps = steps[group.places][:, :, : max(group.tree.cards)]
        parts.append((group.examples, group.places, by_loss_on_tree(group.tree, factors, len(true), own_steps)))
    return joined(parts, len(features.weights), len(features.example))
