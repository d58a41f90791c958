r"""Generated sets for structured prediction: chains, trees and loopy graphs with planted weights, and noisy images.

    features  dense: x_v ~ N(0, I_F); sparse: ``active`` ones for each node, one in each of ``active`` blocks of
              columns, like attributes of words
    weights   w_node (S, F) Gaussian, such that a node's scores have the standard deviation ``signal``; w_edge (S, S)
              Gaussian of standard deviation ``coupling``
    labels    p(y | x) ~ exp((sum_v <w_node[y_v], x_v> + sum_(u,v) w_edge[y_u, y_v]) / noise)

With noise 0 the labels of chains and trees are those of the highest score, so that the planted weights make no error;
with noise 1 the planted weights are those of the true conditional distribution.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct.arrays import Index, Labels, Matrix
from convexstruct.datasets.generated.planted import draw_forest, draw_graphs
from convexstruct.datasets.labelled import LabelledGraphs, chain_edges, grid_edges
from convexstruct.graphs import starts
from convexstruct.validation.arguments import number, sized, whole
from convexstruct.validation.arguments import seed as read_seed
from convexstruct.validation.arrays import real

#: A number, or a pair: the least number and the greatest.
Range = int | tuple[int, int]


def random_chains(
    n_chains: int = 200,
    length: Range = 20,
    n_labels: int = 8,
    n_features: int = 30,
    *,
    active: int | None = None,
    signal: float = 2.0,
    coupling: float = 1.0,
    noise: float = 1.0,
    planted: ArrayLike | None = None,
    seed: int = 0,
) -> LabelledGraphs:
    """Labelled chains; the defaults are the benchmark workload.

    Parameters
    ----------
    n_chains, length : N chains of ``length`` nodes, or of lengths drawn between the two given.
    n_labels, n_features : S and F.
    active : ones for each node, for sparse features (a csr_array); None for dense ones.
    signal, coupling : standard deviations of the node and edge scores.
    noise : temperature of the labels; 0 for the highest score.
    planted : (S F + S^2,) weights to draw from, as `LabelledGraphs.planted` has those of another set; None: drawn too.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    rng = np.random.default_rng(read_seed("seed", seed))
    sizes = _sizes("length", length, _whole("n_chains", n_chains), rng)
    start = starts(sizes)
    parent = np.arange(start[-1]) - 1
    parent[start[:-1]] = -1
    drawn = _planted(len(parent), n_labels, n_features, active, signal, coupling, noise, rng)
    if planted is not None:
        weights = real("planted", planted, (n_labels * (n_features + n_labels),), why="node weights, then edge weights")
        nodes, table = np.split(weights.reshape(-1), [n_labels * n_features])
        drawn = drawn._replace(nodes=nodes.reshape(n_labels, -1), table=table.reshape(n_labels, -1))
    return drawn.graphs(start, chain_edges(start), draw_forest(parent, drawn.scores, drawn.table, noise, rng))


def random_trees(
    n_trees: int = 200,
    n_nodes: Range = 20,
    n_labels: int = 8,
    n_features: int = 30,
    *,
    active: int | None = None,
    signal: float = 2.0,
    coupling: float = 1.0,
    noise: float = 1.0,
    seed: int = 0,
) -> LabelledGraphs:
    """Labelled trees: the parent of each node but the first is drawn uniformly from those before it; edges are (parent,
    child).

    Parameters and errors are those of `random_chains`.
    """
    rng = np.random.default_rng(read_seed("seed", seed))
    sizes = _sizes("n_nodes", n_nodes, _whole("n_trees", n_trees), rng)
    start = starts(sizes)
    parent = _parents(start, rng)
    planted = _planted(len(parent), n_labels, n_features, active, signal, coupling, noise, rng)
    return planted.graphs(start, _tree_edges(parent), draw_forest(parent, planted.scores, planted.table, noise, rng))


def random_graphs(
    n_graphs: int = 200,
    n_nodes: Range = 10,
    n_labels: int = 4,
    n_features: int = 30,
    *,
    extra: int = 5,
    active: int | None = None,
    signal: float = 2.0,
    coupling: float = 1.0,
    noise: float = 1.0,
    sweeps: int = 50,
    seed: int = 0,
) -> LabelledGraphs:
    """Labelled connected graphs with cycles: a random tree, and ``extra`` more edges, or fewer where no pair is left.

    The labels come from ``sweeps`` rounds of Gibbs sampling that begin with a draw on the tree; their distribution is
    near the planted one, not equal to it. With noise 0 no change of the label of one node raises the score, while a
    change of several may. The other parameters and the errors are those of `random_chains`.
    """
    rng = np.random.default_rng(read_seed("seed", seed))
    sizes = _sizes("n_nodes", n_nodes, _whole("n_graphs", n_graphs), rng)
    more, rounds = _whole("extra", extra, 0), _whole("sweeps", sweeps)
    sized("n_nodes", int(sizes.max()), int(sizes.max()) ** 2)
    start = starts(sizes)
    parent = _parents(start, rng)
    edges = _tree_edges(parent)
    example = np.repeat(np.arange(len(sizes)), sizes)
    first = np.searchsorted(example[edges[:, 0]], np.arange(len(sizes) + 1))
    parts = []
    for i, n in enumerate(sizes.tolist()):
        tree = edges[first[i] : first[i + 1]]
        free = np.triu(np.ones((n, n), dtype=bool), 1)
        free[tree[:, 0] - start[i], tree[:, 1] - start[i]] = False
        pairs = np.argwhere(free)
        chosen = np.sort(rng.choice(len(pairs), size=min(more, len(pairs)), replace=False))
        parts += [tree, pairs[chosen] + start[i]]
    edges = np.concatenate(parts).astype(np.intp)
    planted = _planted(len(parent), n_labels, n_features, active, signal, coupling, noise, rng)
    begun = draw_forest(parent, planted.scores, planted.table, noise, rng)
    labels = draw_graphs(edges, start, planted.scores, planted.table, noise, rng, begun, rounds)
    return planted.graphs(start, edges, labels)


def noisy_images(
    n_images: int = 20,
    height: Range = 20,
    width: Range = 20,
    *,
    noise: float = 1.0,
    smoothness: float = 2.0,
    seed: int = 0,
) -> LabelledGraphs:
    """Noisy images of two labels, as grids for associative networks (every edge feature is >= 0).

    The label is 1 where a smoothed Gaussian field lies above its median, which is about half of each image, else 0;
    x_v = +1 or -1 by the label, plus noise.

    Parameters
    ----------
    n_images, height, width : N images of ``height`` rows and ``width`` columns, or of sizes drawn between the two
        given.
    noise : standard deviation of the noise in x.
    smoothness : standard deviation of the smoothing, in pixels; with 0 neighbouring labels are independent.

    Returns
    -------
    node_features (P, 2): 1 and x_v. edge_features (Q, 2): 1, and exp(-(x_u - x_v)^2 / (2 m)) with m the mean of
    (x_u - x_v)^2 over all edges.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    count = _whole("n_images", n_images)
    spread, blur = _number("noise", noise), _number("smoothness", smoothness)
    rng = np.random.default_rng(read_seed("seed", seed))
    shapes = np.column_stack((_sizes("height", height, count, rng), _sizes("width", width, count, rng)))
    from scipy.ndimage import gaussian_filter  # here, because it takes a tenth of the time of importing the package

    fields = [gaussian_filter(rng.normal(size=shape), blur) for shape in shapes.tolist()]
    labels = np.concatenate([(field > np.median(field)).ravel() for field in fields]).astype(np.int64)
    x = 2.0 * labels - 1.0 + spread * rng.normal(size=len(labels))
    edges, _ = grid_edges(shapes)
    apart = (x[edges[:, 0]] - x[edges[:, 1]]) ** 2
    mean = apart.mean() if apart.any() else 1.0
    contrast = np.exp(-apart / (2.0 * mean))
    return LabelledGraphs(
        np.column_stack((np.ones_like(x), x)),
        edges,
        starts(shapes.prod(axis=1)),
        labels,
        2,
        np.column_stack((np.ones_like(contrast), contrast)),
    )


# -- planted weights, trees and sizes ----------------------------------------------------------------------------------


class _Planted(NamedTuple):
    """Node features (P, F), and the planted weights: nodes (S, F) is w_node, table (S, S) is w_edge."""

    features: Any
    nodes: Matrix
    table: Matrix

    @property
    def scores(self) -> Matrix:
        """<w_node[s], x_v>; (P, S)."""
        return np.asarray(self.features @ self.nodes.T)

    def graphs(self, start: Index, edges: Index, labels: Labels) -> LabelledGraphs:
        """The graphs with their ``labels`` and the planted weights."""
        weights = np.concatenate((self.nodes.ravel(), self.table.ravel()))
        return LabelledGraphs(self.features, edges, start, labels, len(self.nodes), None, weights)


def _parents(start: Index, rng: np.random.Generator) -> Index:
    """A random parent of each node, among those before it, -1 at the first node of each example; (P,)."""
    rank = np.arange(start[-1]) - np.repeat(start[:-1], np.diff(start))
    parent = np.repeat(start[:-1], np.diff(start)) + (rng.random(len(rank)) * rank).astype(np.intp)
    return np.where(rank > 0, parent, -1).astype(np.intp)


def _tree_edges(parent: Index) -> Index:
    """The edges (parent, child), by child; (Q, 2)."""
    child = np.flatnonzero(parent >= 0)
    return np.column_stack((parent[child], child)).astype(np.intp)


def _planted(
    n_nodes: int,
    n_labels: int,
    n_features: int,
    active: int | None,
    signal: float,
    coupling: float,
    noise: float,
    rng: np.random.Generator,
) -> _Planted:
    """Node features, and the weights that labels are to be drawn from."""
    size, width = _whole("n_labels", n_labels), _whole("n_features", n_features)
    of_nodes, of_edges = _number("signal", signal), _number("coupling", coupling)
    _number("noise", noise)
    sized("n_labels", size, size * max(size, width, n_nodes))
    features: Any
    if active is None:
        ones = width
        sized("n_features", width, width * n_nodes)
        features = rng.normal(size=(n_nodes, width))
    else:
        ones = _whole("active", active)
        if ones > width:
            raise ValueError(f"active is {active!r}, wanted at most n_features = {width}")
        bounds = np.arange(ones + 1) * width // ones
        columns = bounds[:-1] + (rng.random((n_nodes, ones)) * np.diff(bounds)).astype(np.intp)
        indptr = np.arange(n_nodes + 1) * ones
        features = sp.csr_array((np.ones(columns.size), columns.ravel(), indptr), shape=(n_nodes, width))
    nodes = rng.normal(size=(size, width)) * (of_nodes / np.sqrt(ones))
    return _Planted(features, nodes, rng.normal(size=(size, size)) * of_edges)


def _sizes(name: str, given: Range, count: int, rng: np.random.Generator) -> Index:
    """``count`` sizes: the number given, or drawn uniformly between the two given, both included."""
    low, high = given if isinstance(given, tuple) and len(given) == 2 else (given, given)
    least, most = _whole(name, low), _whole(name, high)
    if most < least:
        raise ValueError(f"{name} is {given!r}, wanted the least before the most")
    sized(name, most, sized("the number of examples", count, count) * most)
    return rng.integers(least, most + 1, size=count).astype(np.intp)


def _whole(name: str, value: int, least: int = 1) -> int:
    return whole(name, value, least=least)


def _number(name: str, value: float) -> float:
    return number(name, value, least=0)
