"""Exact oracles over the joint labels of `Factors`, by its junction tree: sums, best, samples.

All take the stacked tables ``flat`` (T,) = A theta, which their callers have computed already.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Labels, Vector
from convexstruct.features.graphs.factors import Factors
from convexstruct.junction_trees import MOST_CLIQUE_ENTRIES, JunctionTree, junction_tree
from convexstruct.oracles.tree import junction_tree as jt

#: What to do about a graph that is too wide.
ADVICE = "exact inference is out of reach; use pseudolikelihood, contrastive divergence or a tree-reweighted entropy"


class FactorSums(NamedTuple):
    """log_partition : ln Z. marginals (T,) : the posterior of each entry of the tables."""

    log_partition: float
    marginals: Vector


@dataclass(frozen=True, eq=False)
class FactorInference:
    """The oracle over the joint labels of some factors.

    Raises
    ------
    ValueError
        When `tree` is first asked for: if its largest clique has more than ``limit`` joint labels.
    """

    factors: Factors
    limit: int = MOST_CLIQUE_ENTRIES

    @cached_property
    def tree(self) -> JunctionTree:
        """The junction tree of the factors' graph."""
        what = "the graph of the factors, triangulated, has a"
        return junction_tree(self.factors.graph, self.factors.cards, self.limit, what, ADVICE)

    def sums(self, flat: Vector) -> FactorSums:
        """ln Z and the marginals of all factors."""
        found = self.cliques(flat)
        marginals = [found.marginal(scope).ravel() for scope in self.factors.scopes]
        return FactorSums(float(found.log_partition[0]), np.concatenate(marginals))

    def cliques(self, flat: Vector) -> jt.TreeSums:
        """ln Z and the posteriors of the junction tree's cliques, as one example."""
        return jt.sum_product(self.tree, self._tables(flat), 1)

    def clamped(self, flat: Vector, samples: Labels, weights: Vector | None = None) -> tuple[Vector, Vector]:
        """Sums over what samples (m, n) leave open, where a label of -1 is hidden: (ln sum of e^score of each sample's
        completions (m,), the entries' posteriors (T,) summed over the samples, each counted ``weights`` times)."""
        found = jt.sum_product(self.tree, [*self._tables(flat), *self._given(samples)], len(samples))
        each = np.ones(len(samples)) if weights is None else weights
        posteriors = [np.tensordot(each, found.marginal(scope), axes=1).ravel() for scope in self.factors.scopes]
        return found.log_partition, np.concatenate(posteriors)

    def completed(self, flat: Vector, samples: Labels) -> Labels:
        """The most probable completion of each sample (m, n), where a label of -1 is hidden."""
        return jt.best(self.tree, [*self._tables(flat), *self._given(samples)], len(samples))[1]

    def _given(self, samples: Labels) -> list[jt.Factor]:
        """For each variable that some sample knows: 0 for the labels that a sample leaves open, -inf for the others."""
        return [
            ((v,), np.where((samples[:, v, None] < 0) | (samples[:, v, None] == np.arange(card)), 0.0, -np.inf))
            for v, card in enumerate(self.factors.cards)
            if (samples[:, v] >= 0).any()
        ]

    def best(self, flat: Vector) -> tuple[float, Labels]:
        """The greatest score and a joint label (n,) that attains it."""
        scores, labels = jt.best(self.tree, self._tables(flat), 1)
        return float(scores[0]), labels[0]

    def sample(self, flat: Vector, n: int, rng: np.random.Generator) -> Labels:
        """``n`` independent samples of p(x) = e^score / Z; shape (n, variables)."""
        return jt.sample(self.tree, self._tables(flat), n, rng)

    def _tables(self, flat: Vector) -> list[jt.Factor]:
        factors = self.factors
        parts = np.split(flat, factors.start[1:-1])
        return [(scope, part.reshape(1, *shape)) for scope, part, shape in zip(factors.scopes, parts, factors.shapes)]
