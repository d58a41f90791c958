r"""A mixture of labellings for each example, changed by steps towards one labelling at a time:

    q_i <- (1 - step) q_i + step [y],

the dual witness of Frank-Wolfe steps and of averaged subgradients. The true labelling has the rest of the shares.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexstruct.arrays import Labels, Point, Vector
from convexstruct.core.mixtures import label_type, of_single_labellings
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM

#: A common factor below this is multiplied into the shares, long before shares divided by it could overflow.
LEAST_FACTOR = 1e-100


class LabellingMixture:
    """The share of each labelling in each example; at first the truth has all."""

    def __init__(self, problem: StructuredSVM | OracleSVM) -> None:
        features = problem.features
        self._features = features
        self._truth = features.truth.astype(label_type(features.n_labels))
        self._true = [part.tobytes() for part in np.split(self._truth, features.node_start[1:-1])]
        self._shares: list[dict[bytes, float]] = [{} for _ in self._true]
        # a factor common to all shares of an example, so that a step need not rescale each of them
        self._factor = np.ones(features.n_examples)

    def move(self, i: int, labels: Labels, step: float) -> None:
        """One step, 0 <= step <= 1, of example i towards ``labels`` (n_i,)."""
        shares = self._shares[i]
        if step >= 1.0:
            shares.clear()
            self._factor[i] = 1.0
        else:
            self._factor[i] *= 1.0 - step
            if self._factor[i] < LEAST_FACTOR:
                self._shares[i] = shares = {key: share * self._factor[i] for key, share in shares.items()}
                self._factor[i] = 1.0
        key = labels.astype(self._truth.dtype).tobytes()
        if step > 0 and key != self._true[i]:
            shares[key] = shares.get(key, 0.0) + min(step, 1.0) / self._factor[i]

    def snapshot(self) -> Callable[[], Point]:
        """A function that makes the dual witness of the present shares, which are copied now."""
        return partial(self._written, [shares.copy() for shares in self._shares], self._factor.copy())

    def _written(self, all_shares: list[dict[bytes, float]], factor: Vector) -> Point:
        features = self._features
        example = np.repeat(np.arange(features.n_examples), [len(shares) for shares in all_shares])
        labels = [np.frombuffer(key, dtype=self._truth.dtype) for shares in all_shares for key in shares]
        share = np.array([share for shares in all_shares for share in shares.values()]) * factor[example]
        return of_single_labellings(self._truth, features.node_start, labels, example, share)
