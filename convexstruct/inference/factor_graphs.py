"""Exact oracles over the joint labels of `Factors`, by its junction tree: sums, best, samples.

All take the stacked tables ``flat`` (T,) = A theta, which their callers have computed already. Forbidden entries count
as -inf, whatever ``flat`` has there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Flags, Labels, Vector
from convexstruct.features.graphs.factors import Factors
from convexstruct.features.graphs.forbidden import labels_allowed
from convexstruct.junction_trees import MOST_CLIQUE_ENTRIES, JunctionTree, junction_tree
from convexstruct.oracles.tree import junction_tree as jt
from convexstruct.validation.arguments import sentence

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

    def clamped(self, flat: Vector, samples: Labels | Flags, weights: Vector | None = None) -> tuple[Vector, Vector]:
        """Sums over what samples leave open, labels (m, n), of which -1 is hidden, or flags (m, n, S) of those allowed:
        (ln sum of e^score of each sample's completions (m,), the entries' posteriors (T,) summed over the samples, each
        counted ``weights`` times)."""
        found = jt.sum_product(self.tree, [*self._tables(flat), *self._given(samples)], len(samples))
        each = np.ones(len(samples)) if weights is None else weights
        posteriors = [np.tensordot(each, found.marginal(scope), axes=1).ravel() for scope in self.factors.scopes]
        return found.log_partition, np.concatenate(posteriors)

    def completed(self, name: str, flat: Vector, samples: Labels | Flags) -> Labels:
        """The most probable completion (m, n) of each sample, labels or flags as in `clamped`. ValueError if all
        completions of a sample are forbidden; it is said of ``name``."""
        scores, labels = jt.best(self.tree, [*self._tables(flat), *self._given(samples)], len(samples))
        if self.factors.forbidden is not None and np.isneginf(scores).any():
            i = int(np.isneginf(scores).argmax())
            raise sentence(f"{name}[{i}] leaves forbidden labels only, wanted one labelling that is not forbidden")
        return labels

    def _given(self, samples: Labels | Flags) -> list[jt.Factor]:
        """For each variable that some sample knows: 0 for the labels that a sample leaves open, -inf for the others."""
        each = [labels_allowed(samples, v, card) for v, card in enumerate(self.factors.cards)]
        return [((v,), np.where(allowed, 0.0, -np.inf)) for v, allowed in enumerate(each) if not allowed.all()]

    def best(self, flat: Vector) -> tuple[float, Labels]:
        """The greatest score and a joint label (n,) that attains it."""
        scores, labels = jt.best(self.tree, self._tables(flat), 1)
        return float(scores[0]), labels[0]

    def sample(self, flat: Vector, n: int, rng: np.random.Generator) -> Labels:
        """``n`` independent samples of p(x) = e^score / Z; shape (n, variables)."""
        return jt.sample(self.tree, self._tables(flat), n, rng)

    def _tables(self, flat: Vector) -> list[jt.Factor]:
        factors = self.factors
        parts = np.split(factors.masked(flat), factors.start[1:-1])
        return [(scope, part.reshape(1, *shape)) for scope, part, shape in zip(factors.scopes, parts, factors.shapes)]
