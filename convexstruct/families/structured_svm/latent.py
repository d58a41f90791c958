r"""Latent structural SVMs: labels that are not all known (Yu, Joachims 2009: Learning structural SVMs with latent
variables; pystruct's `LatentSSVM`).

    minimise over w     P(w) = lam/2 |w|^2 + C sum_i omega_i H_i(w),        w_edge >= 0 if the network is associative

    H_i(w) = max_y [E_i(y) + <w, f(x_i, y)>]  -  max over h in K_i of <w, f(x_i, h)>

where K_i is the set of the labellings that agree with what is known: a set of allowed labels for each node, all of them
where the node is latent. The loss E_i is a sum over nodes; a label costs what it costs beside the nearest allowed one,

    E_i(y) = sum_v min over a in K_iv of cost[a, y_v],

so that it is 0 on K_i and does not depend on what is latent, as their procedure needs it. H_i >= 0, since the first
maximum is over K_i too. Where every K_i is a single labelling, P is that of a `StructuredSVM`.

**P is not convex**: a convex function less a convex one. For any completions h_i in K_i,

    P(w) <= P_h(w) = lam/2 |w|^2 + C sum_i omega_i max_y [E_i(y) - <w, f(x_i, h_i) - f(x_i, y)>],

with equality where each h_i has the largest score of K_i at w: the `StructuredSVM` of the labels h (`machine`), which
the concave-convex procedure minimises (`ConcaveConvex`). The least P is the least optimum of P_h over all completions.

**Lower bound** (ours): no H_i is negative, so that P is at least the objective of the examples alone whose labels are
all known, a convex problem. Its dual points are those of this problem; it bounds P by 0 where there is none.

**Rounding**: that of P_h. A completion computed as the best may lie below it by the rounding of two scores, which the
allowance of P_h covers once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Flags, Index, Labels, Matrix, Point, Vector
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.features.graphs.allowed import read_allowed
from convexstruct.features.graphs.score_errors import score_errors
from convexstruct.graphs import starts
from convexstruct.losses import Costs, cost_matrix
from convexstruct.rounding import GREATEST, Rounded
from convexstruct.tolerances import ROUNDING
from convexstruct.validation.arguments import mapping
from convexstruct.validation.arrays import frozen, predictive


@dataclass(frozen=True, eq=False)
class LatentSVM:
    """A structural SVM with labels that are not all known; made by `LatentSVM.read`.

    model : the structural SVM of some completion, margin scaling, exact inference; its loss is 0 on all of K_i.
    known : (P, S) whether a node may have a label.

    **Point** {"w": (d,)}. **Dual point**: as of the `StructuredSVM` of the examples whose labels are all known; {} for
    the bound 0.
    """

    model: StructuredSVM
    known: Flags = field(repr=False)
    family: ClassVar[str] = "structured_svm"

    @classmethod
    def read(
        cls,
        node_features: Any,
        allowed: Sequence[ArrayLike],
        n_labels: int | None = None,
        *,
        edges: Sequence[ArrayLike] | Sequence[nx.Graph] | str = "chain",
        edge_features: Sequence[ArrayLike] | None = None,
        associative: bool = False,
        loss: Costs = "hamming",
        weights: ArrayLike | None = None,
        **scale: Any,
    ) -> LatentSVM:
        """Validate data.

        Parameters
        ----------
        allowed : a list of one array for each example: booleans (n_i, S), True where a node may have a label, or labels
            (n_i,), -1 where a node's is not known. n_labels : S; needed where all arrays are of labels.
        loss : "hamming", a cost matrix (S, S) cost[true, predicted], or a function (true, predicted) -> cost.
        node_features, edges, edge_features, associative, weights : as `StructuredSVM.read` has them.
        scale : exactly one of C, C_mean, lam, beta; see `Scale`.

        Raises
        ------
        ValueError
            As there, and if a node is left without any label, or a graph is too wide for exact inference.
        """
        parts = read_allowed(allowed, n_labels)
        known = np.concatenate(parts)
        tables = _least_costs(known, cost_matrix(loss, known.shape[1]))
        each = starts([len(part) for part in parts])[1:-1]
        model = StructuredSVM.read(
            node_features, np.split(known.argmax(axis=1), each), known.shape[1], edges=edges,
            edge_features=edge_features, associative=associative, loss=np.split(tables, each), weights=weights, **scale,
        )  # fmt: skip
        return cls(model, frozen(known))

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"LatentSVM({len(self.labelled)} examples with all labels known, {self.model!r})"

    @property
    def dimension(self) -> int:
        return self.model.dimension

    @property
    def trivial_value(self) -> float:
        """P(0) = C sum_i omega_i max_y E_i(y); 1 if that is 0."""
        return self.model.trivial_value

    def trivial(self) -> tuple[Point, Point]:
        """w = 0, and the bound 0."""
        return self.model.trivial()

    @cached_property
    def labelled(self) -> Index:
        """The examples whose labels are all known."""
        single = self.known.sum(axis=1) == 1
        return np.flatnonzero(np.bincount(self.model.features.example, weights=~single) == 0)

    @cached_property
    def complete(self) -> StructuredSVM | None:
        """The structural SVM of these examples, whose optimum is a lower bound; None where there is none."""
        if len(self.labelled) == self.model.n_examples:
            return self.model
        return self.model.some(self.labelled) if len(self.labelled) else None

    # -- completions ---------------------------------------------------------------------------------------------------

    def machine(self, labels: Labels) -> StructuredSVM:
        """P_h, the convex bound of a completion (P,), as the structural SVM that it is."""
        model, truth = self.model, frozen(np.asarray(labels, dtype=self.model.features.truth.dtype))
        return replace(model, features=replace(model.features, truth=truth), loss=replace(model.loss, truth=truth))

    def completed(self, w: Vector, labels: Labels | None = None) -> Labels:
        """The labelling of the largest score in each K_i at w (P,); ``labels``, a completion, where that is as good up
        to rounding."""
        node, edge = self.model.scores(w)
        found = self.model.oracle.best(np.where(self.known, node, -np.inf), edge)
        if labels is None:
            return found.labels
        now = self.model.score(node, edge, labels)
        better = found.scores > now + ROUNDING * (1.0 + np.abs(now))
        return np.where(better[self.model.features.example], found.labels, labels)

    # -- primal and dual -----------------------------------------------------------------------------------------------

    def as_point(self, value: Any) -> Point:
        """Read w: an array (d,), or a mapping with "w"."""
        return self.model.as_point(value)

    def primal(self, point: Point) -> Rounded:
        """P(w) with the allowance for its rounding; inf where w is not finite, or scores might overflow."""
        if not np.isfinite(point["w"]).all():
            return Rounded(np.inf)
        with np.errstate(all="ignore"):
            if not score_errors(self.model.features, point["w"])[0].sum() < GREATEST:
                return Rounded(np.inf)
            value = self.machine(self.completed(point["w"])).primal(point)
        return Rounded(value, 2.0 * value.allowance)

    def repair(self, point: Point) -> Point:
        return self.model.repair(point)

    def residuals(self, point: Point) -> Mapping[str, float]:
        """As the structural SVM has it: weights that must be >= 0."""
        return self.model.residuals(point)

    def dual(self, dual_point: Point) -> Rounded:
        """D of the examples whose labels are all known; 0 where there is none."""
        if self.complete is not None:
            return self.complete.dual(dual_point)
        self.dual_residuals(dual_point)
        return Rounded(0.0)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """How far the shares are from distributions."""
        if self.complete is not None:
            return self.complete.dual_residuals(dual_point)
        mapping("dual_point", dual_point, ())
        return {}

    def rounding_reason(self, point: Point, dual_point: Point | None) -> str:
        """As the structural SVM has it."""
        return self.model.rounding_reason(point, dual_point)

    # -- prediction ----------------------------------------------------------------------------------------------------

    def predict(self, point: Any, examples: Any = None) -> list[Labels]:
        """argmax_y <w, f(x_i, y)> over all labellings, as `StructuredSVM.predict`; `completions` are those in K_i."""
        return self.model.predict(point, examples)

    def completions(self, point: Any) -> list[Labels]:
        """The best labelling in each K_i, one array an example. ValueError if the point is malformed."""
        return self.model.features.split_labels(self.completed(predictive(self.as_point(point))["w"]))


def _least_costs(known: Flags, cost: Matrix) -> Matrix:
    """min over the allowed a of cost[a, y], 0 where y is allowed; (P, S)."""
    sets, at = np.unique(known, axis=0, return_inverse=True)
    least = np.array([np.where(one, 0.0, cost[one].min(axis=0)) for one in sets])
    return np.asarray(least[at.reshape(-1)])
