"""Marginals over the junction trees of labelled graphs: polynomially many numbers in place of all labellings.

For each example a table z[clique, labels] for each clique of its junction tree (`convexstruct.junction_trees`); tables
that agree on what they share are exactly the clique marginals of a distribution over labellings. On a forest the node
and edge marginals say the same with more variables; on a graph with cycles they do not (the local polytope is larger).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.exact import tree_inference
from convexstruct.marginals.tree_tables import Columns, TreeTables, laid_out
from convexstruct.marginals.triplets import Triplets

#: A clique table of more entries than this is refused: every entry is a variable of a convex program.
MOST_CLIQUE_VARIABLES = 20_000


@dataclass(frozen=True, eq=False)
class CliquePolytope:
    """{z >= 0, totals z = 1, agreement z = 0}: for each example, clique marginals that fit together.

    totals : sparse (N, n), the sum of each root clique's table. agreement : sparse (m, n).
    node : sparse (P S, n), node marginals. edge : sparse (Q S S, n), edge marginals; C order.
    columns : what each variable stands for.
    """

    totals: sp.csr_array
    agreement: sp.csr_array
    node: sp.csr_array
    edge: sp.csr_array
    columns: Columns

    @property
    def n_variables(self) -> int:
        return len(self.columns.example)


def is_forest(features: PairwiseFeatures) -> bool:
    """Whether no example has a cycle."""
    ends = features.edges
    shape = (features.n_nodes, features.n_nodes)
    graph = sp.coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=shape)
    components = sp.csgraph.connected_components(graph, directed=False, return_labels=False)
    return int(components) == features.n_nodes - features.n_edges


def clique_polytope(features: PairwiseFeatures, limit: int = MOST_CLIQUE_VARIABLES) -> CliquePolytope:
    """The marginal polytope of every example, exact, by junction trees. Variables stand example after example, root
    clique first, C order within a table. ValueError if a clique table would have more than ``limit`` entries."""
    batches = tree_inference(features, limit).batches
    n_examples, size = features.n_examples, features.n_labels
    start, row, n_rows, columns = laid_out([(b.tree, b.examples, b.nodes) for b in batches], n_examples)
    n = len(columns.example)
    totals, agreement, node, edge = Triplets(), Triplets(), Triplets(), Triplets()
    for batch in batches:
        tree, tables, first = batch.tree, TreeTables(batch.tree), start[batch.examples][:, None]
        totals.add(batch.examples[:, None], first + tables.entries(0), 1.0)
        tables.agree(agreement, row[batch.examples], start[batch.examples])
        for v in range(batch.nodes.shape[1]):
            c = tree.home[v]
            node.add(batch.nodes[:, v, None] * size + tables.labels[c][v], first + tables.entries(c), 1.0)
        for e, (u, v) in enumerate(batch.ends.tolist()):
            c = tree.clique_of((u, v))
            at = batch.edges[:, e, None] * size * size + tables.joint(c, (u, v))
            edge.add(at, first + tables.entries(c), 1.0)
    return CliquePolytope(
        totals.matrix((n_examples, n)),
        agreement.matrix((n_rows, n)),
        node.matrix((features.n_nodes * size, n)),
        edge.matrix((features.n_edges * size * size, n)),
        columns,
    )


def adjoint_matrix(features: PairwiseFeatures) -> tuple[sp.csr_array, sp.csr_array]:
    """`PairwiseFeatures.adjoint` as sparse matrices A (d, P S), B (d, Q S S): E f = A node.ravel() + B edge.ravel()."""
    size, d, at = features.n_labels, features.dimension, features.n_node_weights
    x = sp.coo_array(features.node_features)
    v, f, values = x.coords[0], x.coords[1], x.data
    s = np.arange(size)[:, None]
    rows, columns = s * features.n_node_features + f, v * size + s
    shape = (d, features.n_nodes * size)
    nodes = sp.coo_array((np.broadcast_to(values, rows.shape).ravel(), (rows.ravel(), columns.ravel())), shape=shape)
    given = np.ones((features.n_edges, 1)) if features.edge_features is None else features.edge_features
    z = sp.coo_array(given)
    e, k, values = z.coords[0], z.coords[1], z.data
    places = np.arange(size) * (size + 1) if features.associative else np.arange(size * size)
    block = np.arange(len(places))[:, None]
    rows, columns = at + k * len(places) + block, e * size * size + places[:, None]
    shape = (d, features.n_edges * size * size)
    edges = sp.coo_array((np.broadcast_to(values, rows.shape).ravel(), (rows.ravel(), columns.ravel())), shape=shape)
    return sp.csr_array(nodes), sp.csr_array(edges)
