"""A regularised risk cut into shards, each the risk of some of the examples, which compute A w and A' alpha.

Each shard gets w and returns the values of its pieces; it gets its part of alpha and returns its part of A' alpha, and
these are summed in the calling process. So the shards compute every plane, subgradient and value of the risk, and the
products of `SemismoothNewton`, except those with the few rows near their kinks, computed in the calling process.
`Pegasos1` visits one example after another in the calling process, and only its bounds are computed by shards.
Prediction and the certificate use the whole `RegularizedRisk`.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Tensor, Vector
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.inference.parallel import in_shards
from convexstruct.inference.shards import Shards, cuts, fields_of
from convexstruct.validation.arguments import whole


@dataclass(frozen=True, eq=False, repr=False)
class ShardedRisk(RegularizedRisk):
    """The problem with its linear map in shards on ``executor``, at most ``n_shards`` of them (None: one a processor).

    The shards are cut when first needed, so `dataclasses.replace` with another X gives a problem with shards of that X.
    """

    executor: Executor = field(kw_only=True, repr=False)
    n_shards: int | None = field(kw_only=True, repr=False)

    @cached_property
    def _cut(self) -> tuple[Shards, Index]:
        """The shards, and the first piece of each and the end of the last; (shards + 1,)."""
        loss, X = self.loss, self.X
        row = loss.start if loss.kind == "pieces" else np.arange(X.shape[0] + 1)  # where the rows of each example begin
        examples = cuts(np.diff(X.indptr[row] if sp.issparse(X) else row), self.n_shards)
        groups = np.searchsorted(loss.example, examples)
        pieces = loss.start[groups]
        parts = []
        for i, (first, last) in enumerate(pairwise(examples)):
            (low, high), (begin, end) = row[[first, last]], pieces[i : i + 2]
            own = replace(
                loss,
                combine=loss.combine[begin:end, low * loss.n_outputs : high * loss.n_outputs],
                offset=loss.offset[begin:end],
                start=loss.start[groups[i] : groups[i + 1] + 1] - begin,
                example=loss.example[groups[i] : groups[i + 1]] - first,
                labels=loss.labels[:0],  # a shard predicts nothing
                bias_of=loss.bias_of[begin:end],
                bias_sign=loss.bias_sign[begin:end],
            )
            parts.append(RegularizedRisk(X[low:high], own, self.lam))
        return Shards(tuple(parts), self.executor), pieces

    def forward(self, w: Tensor) -> Vector:
        """As `RegularizedRisk.forward`: one map over the shards."""
        return np.concatenate(self._cut[0].map("forward", w))

    def adjoint(self, alpha: Vector) -> Tensor:
        """As `RegularizedRisk.adjoint`: one map over the shards and one sum."""
        shards, pieces = self._cut
        found = shards.map_each("adjoint", [(alpha[low:high],) for low, high in pairwise(pieces)])
        return np.asarray(np.sum(found, axis=0))


@in_shards.register
def sharded(problem: RegularizedRisk, executor: Executor, n_shards: int | None) -> ShardedRisk:
    """The same problem, its examples in shards with about equal numbers of features that are not 0."""
    n_shards = n_shards if n_shards is None else whole("n_shards", n_shards, least=1)
    return ShardedRisk(**fields_of(problem, RegularizedRisk), executor=executor, n_shards=n_shards)
