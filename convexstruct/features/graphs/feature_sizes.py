"""How far the sizes of features are apart, and which one makes the rounding of a problem's sums large."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Vector
from convexstruct.features.graphs.gram import GramFeatures
from convexstruct.features.graphs.pairwise import PairwiseFeatures

#: A feature that is so many times as large as half of all entries is named as the cause of large allowances: squares of
#: such a ratio leave fewer than six of the 16 digits, which the profile HIGH needs.
UNEVEN_RATIO = 1e5
#: How many times as large as another a feature may be before steps are to be scaled feature by feature: curvatures
#: differ by the square of it.
EVEN_RATIO = 20.0


def even(features: PairwiseFeatures) -> bool:
    """Whether no feature is `EVEN_RATIO` times as large as another, so that one length of a step serves all weights."""
    sizes = [column_sizes(features.node_features)]
    if features.edge_features is not None and features.n_edges:
        sizes.append(column_sizes(features.edge_features))
    flat = np.concatenate(sizes)
    flat = np.append(flat[flat > 0], 1.0)  # edges that share a table have a feature of 1
    return bool(flat.max() <= EVEN_RATIO * flat.min())


def squared(features: PairwiseFeatures) -> PairwiseFeatures:
    """The features with every entry squared; sparse ones share their indices."""
    x, z = features.node_features, features.edge_features
    entries = sp.csr_array((x.data**2, x.indices, x.indptr), x.shape) if sp.issparse(x) else x**2
    return replace(features, node_features=entries, edge_features=None if z is None else z**2)


def uniform_variances(features: PairwiseFeatures, weight: Vector) -> Vector:
    """sum_i c_i of the variances of the joint features where all labels of a node, and all pairs of an edge, are
    equally probable, without the covariances inside an example; weight : (N,) c. Shape (d,)."""
    labels = features.n_labels
    node = np.repeat(weight[features.example][:, None], labels, axis=1)
    of_edges = weight[features.edge_example][:, None, None]
    edge = np.broadcast_to(of_edges, (features.n_edges, labels, labels)) / labels**2
    edge = edge.sum(axis=0) if features.shared else edge
    return squared(features).adjoint(node * (labels - 1) / labels**2, edge)


def column_sizes(x: Any) -> Vector:
    """The largest magnitude in each column of a matrix, dense or sparse."""
    return np.asarray(abs(x).max(axis=0).toarray().ravel() if sp.issparse(x) else np.abs(x).max(axis=0))


def uneven(named: str, x: Any, advice: str = "scale the features to sizes near 1") -> str:
    """One sentence that names the column with the largest entry of a matrix, where that is above `UNEVEN_RATIO`, or so
    many times half of all entries; "" elsewhere. named : "node feature {}", say."""
    sizes, values = column_sizes(x), np.abs(x.data if sp.issparse(x) else x)
    values = values[values > 0]
    if not len(values):
        return ""
    at, half = int(sizes.argmax()), float(np.median(values))
    if sizes[at] / half <= UNEVEN_RATIO and sizes[at] <= UNEVEN_RATIO:
        return ""
    return f"{named.format(at)} reaches {sizes[at]:.1e}, half of all entries are at most {half:.1e}: {advice}"


def reason(features: PairwiseFeatures, lam: float, C: float, kernel: GramFeatures | None = None) -> str:
    """One sentence that names the cause of large rounding in a problem's sums, and says what to do about it."""
    x, z = features.node_features, features.edge_features
    if kernel is None:
        said = uneven("node feature {}", x)
    else:  # the columns of its factor mean nothing to the caller
        advice = "scale the kernel's rows to diagonals near 1"
        said = uneven("the square root of kernel[{0}, {0}]", kernel.sizes[None], advice)
    if not said and z is not None and features.n_edges:
        said = uneven("edge feature {}", z)
    if said:
        return said
    if not lam:
        return "without a penalty theta may be so large that terms cancel: take a penalty"
    return f"C / lam = {C / lam:.1e} lets large terms cancel: take a smaller C, or a larger lam"
