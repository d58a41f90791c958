"""`GraphTagger`: a label for each node of a graph."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np

from convexstruct.estimators.examples import Examples, stacked
from convexstruct.estimators.tagger import Tagger
from convexstruct.validation.arguments import described, flag, refuse, sentence, sequence
from convexstruct.validation.arrays import real


@dataclass(eq=False, repr=False)
class GraphTagger(Tagger):
    r"""Labels of the nodes of graphs by a structural SVM or a conditional random field.

    The score of labels y is sum_v <coef_[y_v], x_v> + sum_{(u, v)} sum_k z_k edge_coef_[k, y_u, y_v], with the features
    x of nodes and z of edges (z = 1 where there are none); in an associative network an edge adds z_k edge_coef_[k, s]
    with edge_coef_ >= 0 where both ends have the label s, and nothing else. `fit` minimises

        1/2 |w|^2 + C sum_i omega_i loss_i(w)

    over w, all these weights: a sum over graphs, not a mean. The losses are those of `ChainTagger`.

    Parameters
    ----------
    loss, C, cost, class_weight, l1, vectorizer, solver, tol, max_iterations, time_limit, progress, warm_start : as in
        `ChainTagger`.
    associative : whether the network is associative (margin losses; edge features at least 0).
    inference : of the margin losses: "exact" (trees and narrow junction trees), "minimum_cut" (exact: associative, two
        labels), "relaxed" (over the local polytope).
    features : the attribute of a node that holds its feature dict or array (F,); None: all its attributes together are
        its feature dict.
    edge_features : the attribute of an edge that holds a number or an array (E,); None: all edges share one table.

    X is a list of ``networkx.Graph``, whose edges are read from the earlier node to the later one in the graph's order,
    or ``networkx.DiGraph``, whose edges are read in their own direction. The nodes may have any names. y is a list of
    mappings from nodes to labels, or of lists in the order of the nodes; a node that a mapping leaves out has the label
    None. A graph without nodes has no part in the objective. Predictions are dicts from nodes to labels, marginals
    dicts from nodes to arrays (S,).

    Attributes
    ----------
    As `ChainTagger`; edge_coef_ (E, S, S), or (E, S) where the network is associative, E = 1 without edge features.
    """

    associative: bool = field(default=False, kw_only=True)
    inference: str = field(default="exact", kw_only=True)
    features: Any = field(default=None, kw_only=True)
    edge_features: Any = field(default=None, kw_only=True)

    def _check(self) -> None:
        flag("associative", self.associative)
        super()._check()

    def _read(self, X: Any, least: int) -> Examples:
        given = sequence("X", X, "a list of one networkx graph an example", least=least)
        rows: list[Any] = []
        nodes, edges, values = [], [], []
        for i, graph in enumerate(given):
            if not isinstance(graph, nx.Graph) or graph.is_multigraph():
                refuse(f"X[{i}]", graph, "a networkx Graph or DiGraph")
            names = list(graph)
            place = {node: t for t, node in enumerate(names)}
            pairs = [(place[u], place[v]) for u, v in graph.edges]
            pairs = pairs if graph.is_directed() else [(min(pair), max(pair)) for pair in pairs]
            nodes.append(names)
            edges.append(np.array(pairs, dtype=np.intp).reshape(-1, 2))
            items = [graph.nodes[node] for node in names]
            rows.append(items if self.features is None else _attributes(f"X[{i}], a node", items, self.features))
            if self.edge_features is not None:
                values.append(_attributes(f"X[{i}], an edge", list(graph.edges.values()), self.edge_features))
        lengths = np.array([len(names) for names in nodes], dtype=np.intp)
        return Examples(_rows(rows), lengths, edges, _tables(values, "edge features"), nodes)

    def _read_labels(self, y: Any, examples: Examples) -> list[Any]:
        assert examples.nodes is not None
        given = sequence("y", y, "one mapping or list of labels for each of X", length=len(examples.nodes))
        flat: list[Any] = []
        for i, (one, names) in enumerate(zip(given, examples.nodes)):
            if isinstance(one, Mapping):
                strange = next((node for node in one if node not in set(names)), None)
                if strange is not None:
                    raise sentence(f"y[{i}] has a label for {described(strange)}, wanted labels of the nodes of X[{i}]")
                one = [one.get(node) for node in names]
            flat += sequence(f"y[{i}]", one, "one label a node", length=len(names))
        return flat

    def _answer(self, examples: Examples, parts: list[Any]) -> list[Any]:
        assert examples.nodes is not None
        listed = (part.tolist() if part.ndim == 1 else part for part in parts)
        return [dict(zip(names, part)) for names, part in zip(examples.nodes, listed)]


def _attributes(name: str, items: list[Any], key: Any) -> list[Any]:
    """The attribute ``key`` of each node or edge."""
    if not isinstance(key, Hashable):
        refuse(f"the attribute of {name}", key, "the name of an attribute")
    if any(key not in item for item in items):
        raise sentence(f"{name} has no attribute {described(key)}, wanted one at each")
    return [item[key] for item in items]


def _rows(given: list[list[Any]]) -> Any:
    """The features of all nodes: one list of dicts, or one table of arrays."""
    flat = [item for items in given for item in items]
    if all(isinstance(item, Mapping) for item in flat):
        return flat
    tables = _tables(given, "node features")
    assert tables is not None
    return stacked(tables)


def _tables(given: list[list[Any]], what: str) -> list[Any] | None:
    """One table an example from one number or array a node or edge, all of one width; None where there is none."""
    width: int | str = "features"
    found: list[Any] = []
    for i, items in enumerate(given):
        name = f"X[{i}], {what}"
        if not items:
            found.append(None)
            continue
        listed = [[item] if np.isscalar(item) else item for item in items]
        found.append(real(name, listed, (len(items), width), why="one array of one length each"))
        width = found[-1].shape[1]
    return None if width == "features" else [np.zeros((0, width)) if one is None else one for one in found]
