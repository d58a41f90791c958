"""A point of the local polytope as a mixture of labellings.

On a chain or a junction tree every point of the polytope is one. So the marginals that a formulation finds become a
dual witness, which a problem can check without the formulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.tolerances import DUAL_ROUNDING


@dataclass(frozen=True, eq=False)
class Columns:
    """What each variable of a `LocalPolytope` stands for.

    example (n,) : its example. step (n,) : its edge or clique, counted from 0 within the example, parents first.
    position (n, w), label (n, w) : it is the probability that these hidden variables (places in a flat labelling) have
        these labels; where an edge or clique has fewer than w variables, one is repeated.
    """

    example: Index
    step: Index
    position: Index
    label: Labels


def columns(features: Counts) -> Columns:
    """What the variables of ``local_polytope(features)`` stand for, in its order. ValueError if the feature map is of a
    kind that has no such description here."""
    if isinstance(features, HMMCounts):
        return _chain_columns(features)
    if isinstance(features, NetworkCounts):
        return _network_columns(features)
    raise ValueError(f"features is a {type(features).__name__}, wanted HMMCounts or NetworkCounts")


def mixture(features: Counts, marginals: Vector, max_labellings: int = 2000) -> tuple[Labels, Matrix]:
    """(labels (m, P), shares (m, K)) with sum_j shares[j, k] [labels[j] has the labels of z] = z, for each example k.

    Greedy: follow the largest marginals from the root on, take the smallest of them as the share, subtract it, repeat.
    Each labelling brings at least one marginal to 0, so this ends. Marginals that remain because of rounding, or after
    ``max_labellings``, are left out: the shares of an example sum to 1 or less.

    Parameters
    ----------
    marginals : (n,) a point z of the local polytope; negative entries (rounding) count as 0.
    """
    return greedy_mixture(columns(features), marginals, features.examples.truth, max_labellings)


def greedy_mixture(of: Columns, marginals: Vector, truth: Labels, max_labellings: int = 2000) -> tuple[Labels, Matrix]:
    """`mixture`, for any variables described by ``of``; ``truth`` (P,) stands where the marginals are all 0."""
    n_examples = int(of.example.max()) + 1
    left = np.maximum(np.asarray(marginals, dtype=np.float64), 0.0)
    # an interior point method leaves tiny numbers in place of zeros; without them there are many times fewer rounds
    order = np.lexsort((of.example, of.step))
    order = order[left[order] > 0.1 * DUAL_ROUNDING]
    ends = np.searchsorted(of.step[order], np.arange(int(of.step.max()) + 2))
    steps = [order[begin:end] for begin, end in pairwise(ends)]
    starts = [np.flatnonzero(np.diff(of.example[at], prepend=-1)) for at in steps]
    labels, shares = [], []
    total = np.zeros(n_examples)
    for _ in range(max_labellings):
        current = np.full(len(truth), -1, dtype=np.int64)
        share = 1.0 - total
        taken = []
        for at, begin in zip(steps, starts):
            seen = current[of.position[at]]
            fits = ((seen == of.label[at]) | (seen < 0)).all(axis=1)
            mass = np.where(fits, left[at], -1.0)
            top = np.maximum.reduceat(mass, begin)
            sizes = np.diff(np.append(begin, len(at)))
            best = np.flatnonzero(mass == np.repeat(top, sizes))
            pick = at[best[np.unique(of.example[at[best]], return_index=True)[1]]]
            current[of.position[pick]] = of.label[pick]
            share[of.example[pick]] = np.minimum(share[of.example[pick]], np.maximum(top, 0.0))
            taken.append(pick)
        chosen = np.concatenate(taken)
        left[chosen] -= share[of.example[chosen]]
        labels.append(np.where(current < 0, truth, current))  # below 0 only where the marginals are all 0
        shares.append(share)
        total += share
        if share.max() <= DUAL_ROUNDING / max_labellings or (1.0 - total).max() <= DUAL_ROUNDING:
            break
    return np.array(labels), np.array(shares)


def _chain_columns(features: HMMCounts) -> Columns:
    """As `convexstruct.marginals.polytope.chain_polytope` orders them: step after step, the later label fastest."""
    layout, free = features.chains, features.examples.free
    width = np.where(free, features.n_states, 1)
    first = np.zeros(layout.n_positions, dtype=bool)
    first[layout.first] = True
    alone = first.copy()
    alone[layout.first] = layout.lengths == 1
    here = np.flatnonzero(~first | alone)
    before = np.where(alone[here], here, here - 1)
    size = width[here] * np.where(alone[here], 1, width[before])
    pair = np.repeat(np.arange(len(here)), size)
    inner = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    here, before = here[pair], before[pair]
    new = np.where(free[here], inner % width[here], features.examples.truth[here])
    old = np.where(free[before], inner // width[here], features.examples.truth[before])
    old = np.where(before == here, new, old)
    example = features.examples.example[here]
    step = np.where(alone[here], 0, here - layout.first[example] - 1)
    return Columns(example, step, np.stack((before, here), axis=1), np.stack((old, new), axis=1))


def _network_columns(features: NetworkCounts) -> Columns:
    """As `convexstruct.marginals.polytope.network_polytope` orders them: the root's clique first, C order within
    one."""
    size = np.empty(len(features.weights), dtype=np.intp)
    wide = 1
    for group in features.groups:
        size[group.examples] = group.tree.n_entries
        wide = max(wide, *(len(clique) for clique in group.tree.cliques))
    start = np.cumsum(size) - size
    n = int(size.sum())
    step = np.empty(n, dtype=np.intp)
    position = np.empty((n, wide), dtype=np.intp)
    label = np.empty((n, wide), dtype=np.int64)
    for group in features.groups:
        at = start[group.examples]
        for c, clique in enumerate(group.tree.cliques):
            axes = [*range(len(clique)), *([0] * (wide - len(clique)))]
            grid = np.indices([group.tree.cards[v] for v in clique]).reshape(len(clique), -1)
            place = at[:, None] + np.arange(grid.shape[1])
            step[place] = c
            position[place] = group.places[:, [clique[a] for a in axes]][:, None, :]
            label[place] = grid[axes].T
            at = at + grid.shape[1]
    return Columns(np.repeat(np.arange(len(features.weights)), size), step, position, label)
