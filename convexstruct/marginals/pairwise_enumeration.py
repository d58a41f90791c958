"""Every labelling of every example of `PairwiseFeatures`, for instances small enough to write out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Labels, Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.features.graphs.pairwise_loss import PairwiseLoss
from convexstruct.marginals.enumeration import MOST_LABELLINGS
from convexstruct.oracles.enumeration import labellings


@dataclass(frozen=True, eq=False)
class EnumeratedPairwise:
    """All labellings, one a row: example after example, within one in colexicographic order.

    joint : sparse (R, d), f(x_i, y). difference : sparse (R, d), df_i(y) = f(x_i, y_i) - f(x_i, y).
    loss : (R,), E_i(y), 0 without a loss. example : (R,), non-decreasing. labels : R arrays (n_i,).
    truth : (N,), the row of each example's true labelling.
    """

    joint: sp.csr_array
    difference: sp.csr_array
    loss: Vector
    example: Index
    labels: list[Labels]
    truth: Index

    @property
    def n_rows(self) -> int:
        return len(self.loss)


def n_labellings(features: PairwiseFeatures) -> int:
    """How many labellings the examples have in all; exact, however large."""
    return sum(features.n_labels ** int(length) for length in features.lengths)


def enumerate_pairwise(
    features: PairwiseFeatures, loss: PairwiseLoss | None = None, limit: int = MOST_LABELLINGS
) -> EnumeratedPairwise:
    """Write out every labelling of every example. ValueError if there are more than ``limit``; the message says how
    many, and which formulation to use instead."""
    total = n_labellings(features)
    if total > limit:
        raise ValueError(
            f"the examples have {total} labellings, wanted at most {limit} to write out: use the formulation over "
            "marginals ('marginals'), or constraint generation ('n_slack_cuts')"
        )
    rows: list[Labels] = []
    examples: list[Index] = []
    losses: list[Vector] = []
    truth: list[int] = []
    for i, length in enumerate(features.lengths):
        every = labellings([features.n_labels] * int(length))
        nodes = slice(int(features.node_start[i]), int(features.node_start[i + 1]))
        true = features.truth[nodes]
        truth.append(len(rows) + int(np.flatnonzero((every == true).all(axis=1))[0]))
        examples.append(np.full(len(every), i, dtype=np.intp))
        rows.extend(every)
        if loss is None:
            losses.append(np.zeros(len(every)))
        elif loss.zero_one:
            losses.append((every != true).any(axis=1).astype(np.float64))
        else:
            losses.append(loss.costs[nodes][np.arange(length), every].sum(axis=1))
    example = np.concatenate(examples)
    joint = features.joint_each(np.concatenate(rows), example)
    at = np.array(truth, dtype=np.intp)
    difference = sp.csr_array(joint[at[example]] - joint)
    return EnumeratedPairwise(joint, difference, np.concatenate(losses), example, rows, at)
