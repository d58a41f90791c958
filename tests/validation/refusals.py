"""What the ground refuses: losses, graphs, accuracies."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np

from convexstruct.graphs import chain_graph, read_bayesian_network
from convexstruct.losses import cost_matrix
from convexstruct.tolerances import profile
from tests.refusals import Door


def broken(**attributes: Any) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_node("x", **attributes)
    return graph


def shared(states: int) -> nx.DiGraph:
    graph = broken(states=2, table="t")
    graph.add_node("y", states=states, table="t")
    return graph


REFUSALS = (
    Door(
        lambda loss: cost_matrix(loss, 2),
        {"loss": "hamming"},
        [
            ({"loss": "hinge"}, "loss is 'hinge', wanted one of hamming, ring or a cost matrix"),
            ({"loss": np.zeros((2, 3))}, "loss has shape (2, 3), wanted (2, 2): cost[true, predicted]"),
            ({"loss": [[0, np.nan], [1, 0]]}, "loss contains NaN or infinity"),
            ({"loss": [[0, -2], [1, 0]]}, "loss holds -2, wanted costs of at least 0"),
            ({"loss": lambda true, predicted: -1.0}, "loss(0, 0) is -1.0, wanted"),
            ({"loss": lambda true, predicted: "far"}, "loss(0, 0) is 'far', wanted"),
            ({"loss": lambda true: 0.0}, ("loss(0, 0) raised TypeError: ", "wanted a cost")),
            ({"loss": lambda true, predicted: 1.0}, "loss of label 0 on itself is 1, wanted 0 on the truth"),
            ({"loss": [[0, 1], [1, 0.5]]}, "loss of label 1 on itself is 0.5, wanted 0 on the truth"),
        ],
        name="cost_matrix",
    ),
    Door(
        read_bayesian_network,
        {"graph": chain_graph(3, 2)},
        [
            ({"graph": nx.DiGraph()}, "graph has no nodes"),
            ({"graph": nx.Graph([(0, 1)])}, "graph is a Graph, wanted a networkx.DiGraph"),
            ({"graph": nx.MultiDiGraph([(0, 1)])}, "graph is a MultiDiGraph, wanted a networkx.DiGraph"),
            (
                {"graph": nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")])},
                "graph has the cycle a -> b -> c, wanted a directed acyclic",
            ),
            ({"graph": nx.DiGraph([("a", "a")])}, "graph has the cycle a"),
            ({"graph": broken()}, "node 'x' has no attribute 'states'"),
            ({"graph": broken(states=0)}, "states of node 'x' is 0, wanted a whole number of at least 1"),
            ({"graph": shared(3)}, "node 'y' shares table 't' of shape (2,) but itself has shape (3,)"),
        ],
        names=("node 'x'", "node 'y'"),
    ),
    Door(
        lambda tol: profile(tol),
        {"tol": "MID"},
        [
            *(({"tol": bad}, "LOW, MID, HIGH") for bad in ("fine", "", 0.0, -1e-3, 1.0, 2, math.nan, math.inf, "nan")),
        ],
        name="profile",
    ),
)
