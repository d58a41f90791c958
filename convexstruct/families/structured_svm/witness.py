"""Dual witnesses of a structural SVM: they are read and checked, and marginals are made to agree with each other.

`dual` sums witnesses up and bounds the rounding errors of the sums.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from convexstruct.arrays import Labels, Matrix, Point, Tensor, Vector
from convexstruct.core.mixtures import Mixture, outside_simplex, read_mixture
from convexstruct.core.mixtures import of_examples as mixture_of_examples
from convexstruct.core.scale import Scale
from convexstruct.families.structured_svm.evaluation import Evaluation
from convexstruct.features.graphs.gram import GramFeatures
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.features.graphs.pairwise_loss import PairwiseLoss
from convexstruct.inference.exact import Inference
from convexstruct.inference.forests import Forests
from convexstruct.inference.shards import Shards
from convexstruct.oracles.tree.forest import forest
from convexstruct.rounding import Rounded, RoundedArray
from convexstruct.validation.arguments import mapping
from convexstruct.validation.arrays import real


class Posed(Protocol):
    """What the modules on witnesses, dual and rounding use of a structural SVM; documented in `StructuredSVM`."""

    @property
    def features(self) -> PairwiseFeatures: ...

    @property
    def loss(self) -> PairwiseLoss: ...

    @property
    def scale(self) -> Scale: ...

    @property
    def weights(self) -> Vector: ...

    @property
    def scaling(self) -> str: ...

    @property
    def n_examples(self) -> int: ...

    @property
    def dimension(self) -> int: ...

    @property
    def lam(self) -> float: ...

    @property
    def ceiling(self) -> Vector: ...

    @property
    def kernel(self) -> GramFeatures | None: ...

    @property
    def shards(self) -> Shards | None: ...

    @property
    def oracle(self) -> Inference: ...

    @property
    def forests(self) -> Forests: ...

    def scores(self, w: Vector) -> tuple[Matrix, Tensor]: ...

    def truth_scores(self, node: Matrix, edge: Tensor) -> Vector: ...

    def most_violated(self, w: Vector) -> Evaluation: ...

    def hinge_sum(self, point: Point) -> Rounded: ...

    def project(self, w: Vector) -> Vector: ...

    def enclosed(self, witness: Witness) -> Enclosed: ...


class Witness(NamedTuple):
    """The arrays of a dual point, as the docstring of `problem` names and describes them; absent kinds are empty."""

    labels: Labels
    label_shares: Matrix
    gibbs: Matrix
    gibbs_loss: Vector
    gibbs_shares: Matrix
    node_marginals: Matrix
    edge_marginals: Tensor
    marginal_shares: Vector


class Enclosed(NamedTuple):
    """Psi (d,) and E, with how far those of an alpha whose shares sum to at most 1 + excess are from them. Not finite
    if an intermediate number was not. spread : sum_p sqrt(K_pp) |d_p| if the features come from a kernel
    (`kernel_rounding`), else 0."""

    psi: RoundedArray
    loss: Rounded
    excess: float
    spread: float = 0.0


def of_examples(witness: Witness, features: PairwiseFeatures, low: int, high: int) -> Witness:
    """A witness's part for the examples low .. high - 1 of ``features``."""
    mixture = mixture_of_examples(Mixture(*witness[:5]), features.node_start, low, high)
    nodes, edges = (slice(start[low], start[high]) for start in (features.node_start, features.edge_start))
    of_nodes, of_edges, shares = witness[5:]
    return Witness(*mixture, of_nodes[nodes], of_edges[edges], shares[low:high])


def read_witness(problem: Posed, dual_point: Point) -> Witness:
    """The arrays of a dual point, with their shapes checked. ValueError if a key is unknown, a shape is wrong, a label
    out of range, or a kind does not fit the problem."""
    dual_point = mapping("dual_point", dual_point, (), Witness._fields)
    features, given = problem.features, "node_marginals" in dual_point
    p, q, s = (features.n_nodes, features.n_edges, features.n_labels) if given else (0, 0, features.n_labels)
    cards = np.broadcast_to(np.intp(s), (features.n_nodes,))
    mixture = read_mixture(dual_point, problem.n_examples, problem.dimension, cards)
    defaults = {
        "node_marginals": np.zeros((p, s)), "edge_marginals": np.zeros((q, s, s)),
        "marginal_shares": np.full(problem.n_examples, float(given)),
    }  # fmt: skip
    marginals = [
        real(f"dual_point[{name!r}]", dual_point.get(name, default), default.shape, finite=False, keep=False)
        for name, default in defaults.items()
    ]
    if (len(mixture.gibbs) or given) and (problem.scaling != "margin" or problem.loss.zero_one):
        kind = "gibbs" if len(mixture.gibbs) else "node_marginals"
        raise ValueError(f"dual_point[{kind!r}] needs margin scaling and node losses, wanted 'labels' instead")
    return Witness(*mixture, *marginals)


def infeasibility(problem: Posed, dual_point: Point) -> float:
    """The largest violation among: shares >= 0, shares of an example sum to at most 1, marginals >= 0; inf if an entry
    is not finite."""
    witness = read_witness(problem, dual_point)
    low = min(float(each.min(initial=0.0)) for each in (witness.node_marginals, witness.edge_marginals))
    shares = witness.label_shares, witness.gibbs_shares, witness.marginal_shares[None]
    return max(outside_simplex(witness, *shares), -low)


def consistent(features: PairwiseFeatures, node: Matrix, edge: Tensor) -> tuple[Matrix, Tensor]:
    """Marginals of the distribution on a forest that ``node`` (P, S) and ``edge`` (Q, S, S) define, outwards from each
    tree's root, which is its last node: P(root) is the root's row of ``node``, P(child | parent) the edge's table
    divided by its sums over the child (both normalised, and uniform where the sum is 0). ValueError if a graph has a
    cycle: there, marginals that agree locally need not belong to a distribution."""
    try:
        layout = forest(features.n_nodes, features.edges)
    except ValueError:
        raise ValueError("dual_point['node_marginals'] needs graphs without cycles, wanted 'labels' instead") from None
    node, edge = np.maximum(node, 0.0), np.maximum(edge, 0.0)
    settled, out = np.empty_like(node), np.empty_like(edge)
    totals = node[layout.roots].sum(axis=1, keepdims=True)
    settled[layout.roots] = np.where(
        totals > 0, node[layout.roots] / np.where(totals > 0, totals, 1.0), 1.0 / features.n_labels
    )
    for level in layout.levels:
        along = level.forward[:, None, None]
        tables = np.where(along, edge[level.edge], edge[level.edge].transpose(0, 2, 1))  # parent, child
        rows = tables.sum(axis=2, keepdims=True)
        conditional = np.where(rows > 0, tables / np.where(rows > 0, rows, 1.0), 1.0 / features.n_labels)
        joint = settled[level.parent][:, :, None] * conditional
        settled[level.child] = joint.sum(axis=1)
        out[level.edge] = np.where(along, joint, joint.transpose(0, 2, 1))
    return settled, out


def agreeing(features: PairwiseFeatures, node: Matrix, edge: Tensor) -> tuple[Matrix, Tensor]:
    """A point of the local polytope near ``node`` and ``edge``. Nodes are scaled to sum to one; then each edge's table
    is made to agree with its two nodes: rows, then columns, with sums above the node's marginal are scaled down to it,
    and what the sums then lack is added as a product (Altschuler, Weed, Rigollet 2017, rounding)."""
    node = np.maximum(node, 0.0)
    totals = node.sum(axis=1, keepdims=True)
    node = np.where(totals > 0, node / np.where(totals > 0, totals, 1.0), 1.0 / features.n_labels)
    first, second = node[features.edges[:, 0]], node[features.edges[:, 1]]
    edge = np.maximum(edge, 0.0)
    rows = edge.sum(axis=2)
    edge = edge * (first / np.where(rows > first, rows, np.where(first > 0, first, 1.0)))[:, :, None]
    columns = edge.sum(axis=1)
    edge = edge * (second / np.where(columns > second, columns, np.where(second > 0, second, 1.0)))[:, None, :]
    more, also = np.maximum(first - edge.sum(axis=2), 0.0), np.maximum(second - edge.sum(axis=1), 0.0)
    missing = more.sum(axis=1)
    also /= np.where(missing > 0, missing, 1.0)[:, None]
    also *= np.minimum(1.0, 1.0 / np.maximum(also.sum(axis=1), 1.0))[:, None]  # both lack as much, but for rounding
    return node, edge + more[:, :, None] * also[:, None, :]
