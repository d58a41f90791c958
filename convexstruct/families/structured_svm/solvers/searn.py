r"""SEARN, search-based structured prediction (Daume, Langford, Marcu 2009; named in paper 1): the labels of a sequence
are chosen one after the other by a policy, which is learnt by cost-sensitive classification.

A state is (x, t, y_{t-1}), an action the label a of position t; a policy scores it by <w_a, phi>, phi = x_t, the label
chosen before (one of S indicators, all 0 at the start) and a constant. At first the policy is the optimal one, which
chooses the true label. Each round

    runs the current policy, and takes the states that it meets
    finds the cost of every action in each: the loss (Hamming) of the sequence's rest if the action is taken and the
        current policy goes on (a *rollout*), less the least of them, c_n(a)
    learns  min_w  1/2 |w|^2 + C sum_n max_a [c_n(a) + <w_a - w_{a*}, phi_n>],   a* the cheapest action: a structural
        SVM of single nodes, solved to a certified gap
    mixes   policy <- (1 - beta) policy + beta (the new one): each decision is made by one of them, drawn at random

At the end the optimal policy, which a test has not, is left out of the mixture. Each round is convex and certified; the
whole minimises no stated problem.

With the optimal policy a wrong label costs 1 whatever came before it, since the rest is then right:
c_n(a) = [a != y_t], and round one is the multiclass SVM on true histories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.core.driver import solve
from convexstruct.core.options import at_least, positive, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.tolerances import LOW
from convexstruct.validation.arguments import number


class Sequences(NamedTuple):
    """Node features x (P, d), dense, of all sequences one after the other, and where each starts and ends, (N + 1,)."""

    x: Matrix
    start: Index

    @property
    def ends(self) -> Index:
        """For each node the node after the last of its sequence; (P,)."""
        return np.repeat(self.start[1:], np.diff(self.start))


class Policy(NamedTuple):
    """own : (P, S) scores of the labels from x_t and the constant. after : (S + 1, S) from the label before, the last
    row that of a start."""

    own: Matrix
    after: Matrix


class Learned(NamedTuple):
    """weights : w (S, d + S + 1) of each round's policy. shares : of each in the mixture, (rounds,), sum 1. round : the
    solution of the last round's structural SVM."""

    weights: list[Matrix]
    shares: Vector
    round: Solution

    def predict(self, x: Sequence[Matrix], seed: int = 0) -> list[Labels]:
        """The labels of sequences of node features (n_i, d), chosen from left to right; ``seed`` draws who decides."""
        data = Sequences(np.concatenate(x), np.cumsum([0, *map(len, x)]))
        policies = [_policy(w, data.x) for w in self.weights]
        who = _deciders(len(data.x), self.shares, np.random.default_rng(seed))
        return np.split(_run(data, policies, who, None), data.start[1:-1])


@dataclass(frozen=True)
class Searn:
    """Options.

    rounds : policies that are learnt. beta : the new policy's share of the mixture, above 0 and at most 1; with 1 it
    replaces all before it. C : as above. gap : to which each round is solved. seed : of the draws.
    """

    rounds: int = 5
    beta: float = 0.3
    C: float = 0.01
    gap: float = LOW.gap
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", number("beta", self.beta, above=0, most=1))
        read_options(self, rounds=at_least(1), C=positive, gap=positive, seed=seed)

    def learn(self, x: Sequence[Matrix], labels: Sequence[Labels], n_labels: int) -> Iterator[Learned]:
        """What is learnt after each round, from node features (n_i, d) and labels (n_i,) of each sequence."""
        rng = np.random.default_rng(self.seed)
        data, truth = Sequences(np.concatenate(x), np.cumsum([0, *map(len, x)])), np.concatenate(labels)
        weights: list[Matrix] = []
        shares = np.zeros(0)
        for _ in range(self.rounds):
            policies = [_policy(w, data.x) for w in weights]
            chosen = _run(data, policies, _deciders(len(truth), shares, rng), truth)
            before = np.full(len(truth), n_labels)
            later = np.setdiff1d(np.arange(len(truth)), data.start)
            before[later] = chosen[later - 1]
            costs = rollouts(data, policies, _deciders(len(truth), shares, rng), truth, n_labels)
            found = self._classifier(_phi(data.x, before, n_labels), costs - costs.min(axis=1, keepdims=True))
            weights.append(found.point["w"].reshape(n_labels, -1))
            shares = np.append((1.0 - self.beta) * shares, self.beta)
            yield Learned(list(weights), shares / shares.sum(), found)

    def _classifier(self, phi: Matrix, costs: Matrix) -> Solution:
        """The cost-sensitive multiclass SVM of states (n, d + S + 1) and costs (n, S)."""
        best = costs.argmin(axis=1)
        problem = StructuredSVM.read(
            [row[None] for row in phi], [[a] for a in best], costs.shape[1], edges="none",
            loss=[row[None] for row in costs], C=self.C,
        )  # fmt: skip
        return solve(problem, tol=self.gap)


def _phi(x: Matrix, before: Labels, n_labels: int) -> Matrix:
    """(n, d + S + 1): x, the indicator of the label before, and a constant."""
    return np.hstack([x, np.eye(n_labels + 1, n_labels)[before], np.ones((len(x), 1))])


def _policy(w: Matrix, x: Matrix) -> Policy:
    d = x.shape[1]
    return Policy(x @ w[:, :d].T + w[:, -1], np.vstack([w[:, d:-1].T, np.zeros(len(w))]))


def _deciders(n: int, shares: Vector, rng: np.random.Generator) -> Index:
    """Who decides at each of n nodes, drawn by the shares: the place of a policy, or their number for the optimal one,
    which has the rest."""
    rest = max(1.0 - float(shares.sum()), 0.0)
    p = np.append(shares, rest)
    return rng.choice(len(p), size=n, p=p / p.sum())


def _decide(nodes: Index, before: Labels, policies: list[Policy], who: Index, truth: Labels | None) -> Labels:
    """A label for each state, a node and the label before it. who (P,) : as `_deciders`."""
    labels = np.zeros(len(nodes), dtype=np.int64) if truth is None else truth[nodes]
    for k, policy in enumerate(policies):
        mine = np.flatnonzero(who[nodes] == k)
        labels[mine] = (policy.own[nodes[mine]] + policy.after[before[mine]]).argmax(axis=1)
    return labels


def _run(data: Sequences, policies: list[Policy], who: Index, truth: Labels | None) -> Labels:
    """The labels (P,) that the mixture chooses, all sequences side by side."""
    labels = np.zeros(len(data.x), dtype=np.int64)
    n_labels = policies[0].own.shape[1] if policies else 0
    lengths = np.diff(data.start)
    for t in range(int(lengths.max(initial=0))):
        nodes = data.start[:-1][lengths > t] + t
        before = labels[nodes - 1] if t else np.full(len(nodes), n_labels)
        labels[nodes] = _decide(nodes, before, policies, who, truth)
    return labels


def rollouts(data: Sequences, policies: list[Policy], who: Index, truth: Labels, n_labels: int) -> Matrix:
    """The Hamming loss of each node's label and of all after it, (P, S), if the node gets label a and the mixture
    chooses the rest. The same policy decides at a node in all rollouts, so that costs differ by the labels alone."""
    p = len(truth)
    node, label = np.divmod(np.arange(p * n_labels), n_labels)
    ends, costs, going = data.ends, np.zeros(p * n_labels), np.arange(p * n_labels)
    while len(going):
        costs[going] += label != truth[node]
        on = node + 1 < ends[node]
        going, node, before = going[on], node[on] + 1, label[on]
        label = _decide(node, before, policies, who, truth)
    return costs.reshape(p, n_labels)
