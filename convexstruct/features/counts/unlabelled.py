"""Examples that come without labels: the same kind of feature map on them, for prediction."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts, by_column, lay_out
from convexstruct.graphs import as_sequences
from convexstruct.losses import cost_matrix
from convexstruct.validation.arguments import described, sentence, sequence
from convexstruct.validation.arrays import wholes

#: Stands in an assignment where a value is missing.
MISSING = -1


@singledispatch
def unlabelled(features: Counts, examples: Any) -> Counts:
    """A feature map of the kind of ``features`` for ``examples`` whose hidden variables are not known. ValueError if an
    example does not fit the feature map, or has nothing to predict.

    Its best labelling with a loss weight of 0 is a prediction. Its truth is made up (all 0) and means nothing.

    features : `HMMCounts`, and ``examples`` are K integer sequences of symbols (T_k,), with channels tables (T_k, C);
        `NetworkCounts`, and they are integers (K, n_nodes), the columns as in training, or a mapping of each node to
        its column, with `MISSING`, -1, for each value to predict. A new kind of feature map registers its own.
    """
    raise ValueError(f"features of type {type(features).__name__} predict no new examples")


@unlabelled.register
def _(features: HMMCounts, examples: Any) -> Counts:
    if features.symbols.ndim == 1:
        symbols, lengths = as_sequences("examples", examples, features.n_symbols)
        each = np.split(symbols, np.cumsum(lengths)[:-1])
    else:
        given = sequence("examples", examples, "a list of at least one table (length, channels)", least=1)
        most, shape = features.n_symbols - 1, ("length", features.n_channels)
        each = [wholes(f"examples[{k}]", one, shape, least=0, most=most) for k, one in enumerate(given)]
    states = [np.zeros(len(one), dtype=np.int64) for one in each]
    return HMMCounts.read(each, states, features.n_states, features.n_symbols)


@unlabelled.register
def _(features: NetworkCounts, examples: Any) -> Counts:
    network = features.network
    values = by_column("examples", examples, network)
    if (values < MISSING).any():
        raise sentence(f"examples holds {values.min()}, wanted values of at least {MISSING}")
    if (values >= np.array(network.cards)).any():
        k, v = (int(i) for i in np.argwhere(values >= np.array(network.cards))[0])
        raise sentence(
            f"examples[{k}] gives node {described(network.nodes[v])} the value {values[k, v]}, "
            f"wanted a whole number from 0 to {network.cards[v] - 1}, or {MISSING} where it is missing"
        )
    missing = values == MISSING
    if not missing.any(axis=1).all():
        k = int(np.argmin(missing.any(axis=1)))
        raise ValueError(f"examples[{k}] has no value missing, wanted at least one {MISSING}: a value to predict")
    patterns, set_of = np.unique(missing, axis=0, return_inverse=True)
    sets = [tuple(np.flatnonzero(pattern).tolist()) for pattern in patterns]
    costs = {v: cost_matrix("hamming", network.cards[v]) for v in np.flatnonzero(missing.any(axis=0)).tolist()}
    weights = np.ones(len(values))
    return lay_out(network, np.where(missing, 0, values), sets, set_of.reshape(-1), costs, weights)
