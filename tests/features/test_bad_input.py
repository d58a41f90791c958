"""Bad input of the feature maps is refused in one clear sentence that names the argument."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.graphs import chain_graph, hmm_graph
from convexstruct.marginals.polytope import local_polytope

HMM: dict[str, Any] = {"symbols": [[0, 1], [2]], "states": [[0, 1], [1]], "n_states": 2, "n_symbols": 3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"symbols": []}, "symbols is empty, wanted a list of at least one sequence"),
        ({"symbols": [[0, 1], []]}, r"symbols\[1\] is empty"),
        ({"symbols": [[0, 3], [2]]}, r"symbols\[0\]\[1\] is 3, wanted a whole number from 0 to 2"),
        ({"symbols": [[0, -1], [2]]}, r"symbols\[0\]\[1\] is -1"),
        ({"symbols": [[0, 0.5], [2]]}, r"symbols\[0\]\[1\] is 0.5"),
        ({"symbols": [[0, np.nan], [2]]}, r"symbols\[0\] contains NaN"),
        ({"symbols": [["a", "b"], [2]]}, r"symbols\[0\] holds strings, wanted whole numbers from 0 to 2"),
        ({"symbols": [[[0, 1]], [2]]}, r"symbols\[1\] has shape \(1,\), wanted \(length, 2\)"),
        ({"states": [[0, 2], [1]]}, r"states\[0\]\[1\] is 2, wanted a whole number from 0 to 1"),
        ({"states": [[0, 1]]}, "states holds 1 sequences, wanted as many as symbols: 2"),
        ({"states": [[0], [1]]}, r"states\[0\] has length 1, wanted that of symbols\[0\]: 2"),
        ({"n_states": 0}, "n_states is 0, wanted a whole number"),
        ({"n_symbols": 2.5}, "n_symbols is 2.5, wanted a whole number"),
        ({"loss": "hinge"}, "loss is 'hinge', wanted one of hamming, ring or a cost matrix"),
        ({"loss": np.ones((2, 2))}, "loss of label 0 on itself is 1, wanted 0 on the truth"),
        ({"loss": [[0, -1], [1, 0]]}, "loss holds -1, wanted costs of at least 0"),
        ({"loss": [[0, np.nan], [1, 0]]}, "loss contains NaN"),
        ({"loss": np.zeros((3, 3))}, r"loss has shape \(3, 3\), wanted \(2, 2\)"),
        ({"loss": [[[0, 1], [1, 0]], [[1, 1]]]}, r"loss\[1\] is not zero on the truth"),
        ({"loss": [[[0, 1], [-1, 0]], [[1, 0]]]}, r"loss\[0\] holds -1, wanted costs of at least 0"),
        ({"loss": [[[0, 1], [np.inf, 0]], [[1, 0]]]}, r"loss\[0\] contains NaN or infinity, wanted finite costs"),
        (
            {"hidden": [[True, True]]},
            "hidden has 1 entries, wanted 2: one boolean sequence for each sequence of symbols, of its length",
        ),
        ({"hidden": [[True, True], [False]]}, r"hidden\[1\] is nowhere true, wanted at least one hidden position"),
        ({"hidden": [[0, 1], [1]]}, r"hidden\[0\] holds int64, wanted True and False"),
        ({"symbols": [np.zeros((2, 2), int), np.zeros((2, 1), int)]}, r"symbols\[1\] has shape \(2, 1\)"),
        ({"symbols": [np.full((2, 2), 4)]}, r"symbols\[0\]\[0, 0\] is 4, wanted a whole number from 0 to"),
        ({"symbols": [np.full((2, 2), 0.5)]}, r"symbols\[0\]\[0, 0\] is 0.5, wanted a whole number from 0 to"),
        ({"weights": [1.0]}, r"weights has shape \(1,\), wanted \(2,\): one weight an example"),
        ({"weights": [1.0, 0.0]}, "weights holds 0, wanted positive numbers"),
        ({"weights": [1.0, np.nan]}, "weights contains NaN or infinity, wanted finite numbers"),
    ],
)
def test_a_hidden_markov_model_refuses(change: dict[str, Any], message: str) -> None:
    HMMCounts.read(**HMM)
    with pytest.raises(ValueError, match=message):
        HMMCounts.read(**{**HMM, **change})


NETWORK: dict[str, Any] = {"graph": chain_graph(3, 2), "assignments": [[0, 1, 1], [1, 0, 0]], "hidden": [0, 2]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graph": nx.DiGraph([(0, 1), (1, 2), (2, 0)])}, "graph has the cycle"),
        ({"graph": nx.DiGraph([(0, 1), (1, 2)])}, "node 0 has no attribute 'states'"),
        (
            {"assignments": np.zeros((0, 3))},
            r"assignments is empty, of shape \(0, 3\), wanted \(examples, 3\): at least one of each",
        ),
        ({"assignments": [[0, 1]]}, r"assignments has shape \(1, 2\), wanted \(examples, 3\)"),
        ({"assignments": [0, 1, 1]}, r"assignments has shape \(3,\), wanted \(examples, 3\)"),
        ({"assignments": [[0, 1, 2]]}, r"assignments\[0\] gives node 2 the value 2, wanted a whole number from 0 to 1"),
        ({"assignments": [[0, 1, 1], [0, -1, 0]]}, r"assignments\[1\] gives node 1 the value -1"),
        ({"assignments": [[0, 0.5, 1]]}, r"assignments\[0, 1\] is 0.5, wanted a whole number"),
        ({"assignments": [[0, np.nan, 1]]}, "assignments contains NaN or infinity"),
        ({"assignments": [["a", "b", "c"]]}, "assignments holds strings, wanted whole numbers"),
        ({"hidden": []}, "hidden is empty, wanted at least one node to predict"),
        ({"hidden": [[0], []]}, r"hidden\[1\] is empty, wanted at least one node to predict"),
        ({"hidden": [[0]]}, "hidden holds 1 lists of nodes, wanted one for each of the 2 examples"),
        ({"hidden": [0, 7]}, "hidden names 7, which is not a node of the graph"),
        ({"hidden": [[0], [7]]}, r"hidden\[1\] names 7, which is not a node of the graph"),
        ({"hidden": [0, [1]]}, r"hidden names \[1\], which is not a node"),
        ({"hidden": [0, 0]}, "hidden names a node twice"),
        ({"hidden": "class"}, "hidden is 'class', wanted a list of nodes"),
        ({"hidden": 3}, "hidden is 3, wanted a list of nodes"),
        ({"loss": "hinge"}, "loss is 'hinge', wanted one of hamming, ring or a cost matrix"),
        ({"loss": np.zeros((3, 3))}, r"loss has shape \(3, 3\), wanted \(2, 2\)"),
        ({"loss": [[0, -1], [1, 0]]}, "loss holds -1, wanted costs of at least 0"),
        ({"loss": {0: "hamming"}}, "loss has no entry for the hidden node 2"),
        ({"loss": {0: "hamming", 2: "ring", 9: "ring"}}, "loss names 9, which is not a node of the graph"),
        ({"loss": {0: "hamming", 2: np.eye(2)}}, "loss of label 0 on itself is 1"),
        ({"weights": [1.0, -1.0]}, "weights holds -1, wanted positive numbers"),
        ({"weights": [1.0]}, r"weights has shape \(1,\), wanted \(2,\): one weight an example"),
    ],
)
def test_a_network_refuses(change: dict[str, Any], message: str) -> None:
    NetworkCounts.read(**NETWORK)
    with pytest.raises(ValueError, match=message):
        NetworkCounts.read(**{**NETWORK, **change})


def test_nodes_named_by_tuples_are_one_hidden_set_not_many() -> None:
    graph = hmm_graph(2, 2, 2)
    features = NetworkCounts.read(graph, np.zeros((2, 4), dtype=int), [("state", 1), ("state", 0)])
    assert features.node.tolist() == [0, 1, 0, 1]
    features = NetworkCounts.read(graph, np.zeros((2, 4), dtype=int), [[("state", 1)], [("state", 0), ("state", 1)]])
    assert features.node.tolist() == [1, 0, 1]
    assert features.example.tolist() == [0, 1, 1]


def test_weights_that_do_not_fit_the_rows_are_refused() -> None:
    with pytest.raises(ValueError, match=r"weights has shape \(1,\), wanted \(2,\): one weight an example"):
        NetworkCounts.read(**{**NETWORK, "weights": [1.0]})


def test_a_feature_map_without_a_polytope_is_named() -> None:
    with pytest.raises(ValueError, match="features is a str, wanted HMMCounts or NetworkCounts"):
        local_polytope("chain")  # type: ignore[arg-type]  # what a caller without types may do
