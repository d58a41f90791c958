"""What the feature maps refuse: for each argument its range and shape; what is no number at all is refused by the
readers of `tests/validation`, whatever the argument."""

from __future__ import annotations

import networkx as nx
import numpy as np
import scipy.sparse as sp

from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.features.graphs.gram import gram_features
from convexstruct.features.graphs.pairwise import read_pairwise
from convexstruct.features.graphs.pairwise_loss import read_loss
from convexstruct.graphs import chain_graph
from convexstruct.marginals.polytope import local_polytope
from tests.refusals import Door

ONE = np.ones((1, 1))
EDGES = [nx.path_graph(2), nx.path_graph(3)]
PAIR = nx.DiGraph()
PAIR.add_nodes_from(["a", "b"], states=2)

REFUSALS = (
    Door(
        HMMCounts.read,
        {"symbols": [[0, 1], [2]], "states": [[0, 1], [1]], "n_states": 2, "n_symbols": 3},
        [
            ({"symbols": []}, "symbols is empty, wanted a list of at least one sequence"),
            ({"symbols": [[0, 1], []]}, "symbols[1] is empty"),
            ({"symbols": [[0, 3], [2]]}, "symbols[0][1] is 3, wanted a whole number from 0 to 2"),
            ({"symbols": [[[0, 1]], [2]]}, "symbols[1] has shape (1,), wanted (length, 2)"),
            ({"states": [[0, 2], [1]]}, "states[0][1] is 2, wanted a whole number from 0 to 1"),
            ({"states": [[0, 1]]}, "states holds 1 sequences, wanted as many as symbols: 2"),
            ({"states": [[0], [1]]}, "states[0] has length 1, wanted that of symbols[0]: 2"),
            ({"n_states": 0}, "n_states is 0, wanted a whole number"),
            ({"loss": "hinge"}, "loss is 'hinge', wanted one of hamming, ring or a cost matrix"),
            ({"loss": [[[0, 1], [1, 0]], [[1, 1]]]}, "loss[1] is not zero on the truth"),
            ({"loss": [[[0, 1], [-1, 0]], [[1, 0]]]}, "loss[0] holds -1, wanted costs of at least 0"),
            (
                {"hidden": [[True, True]]},
                "hidden has 1 entries, wanted 2: one boolean sequence for each sequence of symbols, of its length",
            ),
            ({"hidden": [[True, True], [False]]}, "hidden[1] is nowhere true, wanted at least one hidden position"),
            ({"symbols": [np.zeros((2, 2), int), np.zeros((2, 1), int)]}, "symbols[1] has shape (2, 1)"),
            ({"weights": [1.0]}, "weights has shape (1,), wanted (2,): one weight an example"),
            ({"weights": [1.0, 0.0]}, "weights holds 0, wanted positive numbers"),
        ],
        name="HMMCounts",
    ),
    Door(
        NetworkCounts.read,
        {"graph": chain_graph(3, 2), "assignments": [[0, 1, 1], [1, 0, 0]], "hidden": [0, 2]},
        [
            ({"graph": nx.DiGraph([(0, 1), (1, 2), (2, 0)])}, "graph has the cycle"),
            ({"graph": nx.DiGraph([(0, 1), (1, 2)])}, "node 0 has no attribute 'states'"),
            (
                {"assignments": np.zeros((0, 3))},
                "assignments is empty, of shape (0, 3), wanted (examples, 3): at least one of each",
            ),
            ({"assignments": [[0, 1]]}, "assignments has shape (1, 2), wanted (examples, 3)"),
            (
                {"assignments": [[0, 1, 2]]},
                "assignments[0] gives node 2 the value 2, wanted a whole number from 0 to 1",
            ),
            ({"hidden": []}, "hidden is empty, wanted at least one node to predict"),
            ({"hidden": [[0], []]}, "hidden[1] is empty, wanted at least one node to predict"),
            ({"hidden": [[0]]}, "hidden holds 1 lists of nodes, wanted one for each of the 2 examples"),
            ({"hidden": [0, 7]}, "hidden names 7, which is not a node of the graph"),
            ({"hidden": [[0], [7]]}, "hidden[1] names 7, which is not a node of the graph"),
            ({"hidden": [0, 0]}, "hidden names a node twice"),
            ({"hidden": "class"}, "hidden is 'class', wanted a list of nodes"),
            ({"hidden": [[0], np.array("class")]}, "hidden[1] is"),
            ({"loss": np.zeros((3, 3))}, "loss has shape (3, 3), wanted (2, 2)"),
            ({"loss": {0: "hamming"}}, "loss has no entry for the hidden node 2"),
            ({"loss": {0: "hamming", 2: "ring", 9: "ring"}}, "loss names 9, which is not a node of the graph"),
            ({"weights": [1.0, -1.0]}, "weights holds -1, wanted positive numbers"),
        ],
        names=("node 0",),
        name="NetworkCounts",
    ),
    Door(
        local_polytope,
        {"features": HMMCounts.read([[0, 1], [2]], [[0, 1], [1]], 2, 3)},
        [
            ({"features": "chain"}, "features is a str, wanted HMMCounts or NetworkCounts"),
        ],
    ),
    Door(
        NetworkCounts.read,
        {"graph": PAIR, "assignments": {"a": [0], "b": [1]}, "hidden": ["a"]},
        [
            ({"assignments": {"a": [0]}}, "assignments has no column for the node 'b', wanted one for each node"),
            (
                {"assignments": {"a": [0], "b": [1], "c": [0]}},
                "assignments has a column 'c', which is not a node of the graph",
            ),
            (
                {"assignments": {"a": [0, 1], "b": [1]}},
                "assignments['b'] has shape (1,), wanted (2,): one value an example",
            ),
            (
                {"assignments": {"a": [0], "b": [2]}},
                "assignments[0] gives node 'b' the value 2, wanted a whole number from 0 to 1",
            ),
        ],
        name="NetworkCounts of columns",
    ),
    Door(
        gram_features,
        {"kernel": np.eye(3), "n": 3},
        [
            ({"kernel": np.eye(2)}, "kernel has shape (2, 2), wanted (3, 3): one row and column a node"),
            ({"kernel": np.diag([1.0, np.nan, 1.0])}, "kernel contains NaN or infinity"),
            (
                {"kernel": np.triu(np.ones((3, 3)))},
                "kernel is not symmetric, entries differ by 1, wanted a symmetric matrix",
            ),
            (
                {"kernel": np.ones((3, 3)) - np.eye(3)},
                "kernel has the eigenvalue -1, wanted a positive semidefinite matrix",
            ),
            ({"kernel": np.zeros((3, 3))}, "kernel is zero, wanted at least one positive eigenvalue"),
        ],
    ),
    Door(
        read_loss,
        {"loss": "hamming", "features": read_pairwise(np.ones((3, 1)), [[0, 1], [1]])},
        [
            ({"loss": "ring"}, "loss is 'ring', wanted 'hamming', 'zero_one', a cost matrix or a list of node costs"),
            ({"loss": np.ones((3, 3))}, "loss has shape (3, 3), wanted (2, 2): cost[true, predicted]"),
            ({"loss": [[0, -1], [1, 0]]}, "loss holds -1, wanted costs of at least 0"),
            ({"loss": [[0, np.nan], [1, 0]]}, "loss contains NaN or infinity"),
            ({"loss": [[1, 1], [1, 0]]}, "loss of label 0 on itself is 1, wanted 0 on the truth"),
            ({"loss": [np.zeros((2, 2))]}, "loss has 1 entries, wanted 2: one table of costs an example"),
            (
                {"loss": [np.zeros((2, 2)), np.zeros((1, 3))]},
                "loss[1] has shape (1, 3), wanted (1, 2): a cost for each label",
            ),
            ({"loss": [np.zeros((2, 2)), np.array([[-1.0, 0.0]])]}, "loss[1] holds -1, wanted costs of at least 0"),
            ({"loss": [np.zeros((2, 2)), np.array([[0.0, 2.0]])]}, "loss[1] is 2 on the truth, wanted 0 there"),
        ],
    ),
    Door(
        read_pairwise,
        {"node_features": [np.ones((2, 2)), np.ones((3, 2))], "labels": [[0, 1], [1, 0, 1]]},
        [
            ({"labels": []}, "labels is empty, wanted a list of one array for each of at least one example"),
            ({"labels": [[0, 1], []]}, "labels[1] is empty, of shape (0,), wanted (nodes,): at least one of each"),
            ({"labels": [[0, -1], [1, 0, 1]]}, "labels[0][1] is -1, wanted a whole number of at least 0; HiddenF"),
            ({"labels": [[0, 1], [1, 2, 1]], "n_labels": 2}, "labels[1][1] is 2, wanted a whole number from 0 to 1"),
            ({"n_labels": 0}, "n_labels is 0, wanted a whole number of at least 1"),
            ({"node_features": None}, "node_features is None, wanted a list of arrays"),
            ({"node_features": [np.ones((2, 2))]}, "node_features has 1 entries, wanted 2: a matrix, or a list of one"),
            ({"node_features": [np.ones((2, 2)), np.ones((2, 2))]}, "node_features[1] has shape (2, 2), wanted (3,"),
            ({"node_features": np.ones((4, 2))}, "node_features has shape (4, 2), wanted (5, features): one row a"),
            ({"node_features": np.ones((5, 0))}, "node_features is empty, of shape (5, 0), wanted (5, features): at"),
            ({"node_features": sp.csr_array(np.full((5, 1), np.inf))}, "node_features contains NaN or infinity"),
            ({"edges": "grid"}, "edges is 'grid', wanted one of chain, none or a list of arrays of node pairs or"),
            ({"edges": None}, "edges is None, wanted 'chain', 'none'"),
            ({"edges": nx.path_graph(2)}, "edges is one graph, wanted 'chain', 'none', or a list"),
            (
                {"edges": EDGES[:1]},
                "edges has 1 entries, wanted 2: 'chain', 'none', or a list of one graph for each of",
            ),
            ({"edges": [[[0, 1, 1]], []]}, "edges[0] has shape (1, 3), wanted (edges, 2)"),
            ({"edges": [[[0, 2]], []]}, "edges[0][0, 1] is 2, wanted a whole number from 0 to 1"),
            ({"edges": [[[1, 1]], []]}, "edges[0] joins node 1 with itself"),
            ({"edges": [[[0, 1], [1, 0]], []]}, "edges[0] holds an edge twice"),
            ({"edges": [nx.DiGraph([(0, 1)]), EDGES[1]]}, "edges[0] is a DiGraph, wanted an undirected networkx.Graph"),
            ({"edges": EDGES[::-1]}, "edges[0] has 3 nodes, wanted 2: one for each label"),
            ({"edges": [nx.Graph([(1, 2)]), EDGES[1]]}, "edges[0] has numbers other than 0 to 1 for its nodes, wanted"),
            ({"edge_features": [ONE]}, "edge_features has 1 entries, wanted 2: a list of one array for each of labels"),
            ({"edge_features": [ONE, np.ones((2, 2))]}, "edge_features[1] has shape (2, 2), wanted (2, 1)"),
            ({"edge_features": [np.ones((1, 0)), np.ones((2, 0))]}, "edge_features has no columns"),
            (
                {"edge_features": [-np.ones((1, 1)), np.ones((2, 1))], "associative": True},
                "edge_features contains -1, wanted values >= 0",
            ),
        ],
    ),
)
