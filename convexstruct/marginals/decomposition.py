"""A point of a polytope of marginals as a mixture of labellings.

On a chain or a junction tree every point of the polytope is one. So the marginals that a formulation finds become a
dual witness, which a problem can check without the formulation.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from convexstruct.arrays import Labels, Matrix, Vector
from convexstruct.marginals.tree_tables import Columns
from convexstruct.tolerances import DUAL_ROUNDING


def greedy_mixture(of: Columns, marginals: Vector, truth: Labels, max_labellings: int = 2000) -> tuple[Labels, Matrix]:
    """(labels (m, P), shares (m, K)) with sum_j shares[j, k] [labels[j] has the labels of z] = z, for each example k.

    Greedy: follow the largest marginals from the root on, take the smallest of them as the share, subtract it, repeat.
    Each labelling brings at least one marginal to 0, so this ends. Marginals that remain because of rounding, or after
    ``max_labellings``, are left out: the shares of an example sum to 1 or less.

    Parameters
    ----------
    of : what each marginal is of. marginals : (n,) a point z of the polytope; negative entries (rounding) count as 0.
    truth : (P,) stands where the marginals are all 0.
    """
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
