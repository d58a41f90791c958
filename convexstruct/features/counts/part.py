"""The feature map of some of the examples: shards, working sets and pilot runs each work on a part of a batch."""

from __future__ import annotations

import dataclasses
from functools import singledispatch

import numpy as np

from convexstruct.arrays import Flags
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.graphs import chains


@singledispatch
def part(features: Counts, low: int, high: int) -> Counts:
    """The feature map of the examples low .. high - 1. A new kind of feature map registers its own function; ValueError
    for one that has not."""
    raise ValueError(f"features of type {type(features).__name__} cannot be cut between examples")


def can_part(features: Counts) -> bool:
    """Whether a function for `part` is registered for the type of ``features``."""
    return part.dispatch(type(features)) is not part.dispatch(object)


def _inside(features: Counts, low: int, high: int) -> Flags:
    """Which hidden variables are of those examples; (P,)."""
    example = features.examples.example
    return np.asarray((example >= low) & (example < high))


@part.register
def _(features: HMMCounts, low: int, high: int) -> Counts:
    inside = _inside(features, low, high)
    layout = chains(features.chains.lengths[low:high])
    rows = features.chains.flat[inside][layout.packed]  # the rows of the whole, in the packed order of the part
    observed = np.zeros(features.chains.n_positions, dtype=bool)
    observed[features.observed] = True
    return dataclasses.replace(
        features,
        chains=layout,
        symbols=features.symbols[rows],
        states=features.states[rows],
        loss_row=features.loss_row[rows],
        observed=np.flatnonzero(observed[rows]).astype(np.intp),
        weights=features.weights[low:high],
    )


@part.register
def _(features: NetworkCounts, low: int, high: int) -> Counts:
    inside = _inside(features, low, high)
    first = int(np.searchsorted(features.example, low))
    groups = []
    for group in features.groups:
        some = (group.examples >= low) & (group.examples < high)
        if some.any():
            factors = tuple(dataclasses.replace(factor, base=factor.base[some]) for factor in group.factors)
            places = group.places[some] - first
            groups.append(
                dataclasses.replace(group, examples=group.examples[some] - low, places=places, factors=factors)
            )
    return dataclasses.replace(
        features,
        assignments=features.assignments[low:high],
        example=features.example[inside] - low,
        node=features.node[inside],
        groups=tuple(groups),
        weights=features.weights[low:high],
    )
