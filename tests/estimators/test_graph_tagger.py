"""`GraphTagger`: the weights are those of the families on the same graphs, whatever the nodes are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import convexstruct as cs
from convexstruct.estimators import GraphTagger

Graphs = list[nx.Graph]
Labellings = list[dict[str, str]]


def drawn(shapes: list[Any], seed: int = 0) -> tuple[Graphs, Labellings]:
    """Graphs whose nodes have an array (2,) "x" and labels "no" and "yes", and whose edges have a number "z"."""
    rng = np.random.default_rng(seed)
    graphs, labels = [], []
    for shape in shapes:
        graph = nx.relabel_nodes(shape, {v: "dcbaefghi"[v] for v in shape})
        for node in graph:
            graph.nodes[node]["x"] = rng.normal(size=2)
        for edge in graph.edges:
            graph.edges[edge]["z"] = rng.random()
        graphs.append(graph)
        labels.append({v: "yes" if rng.random() < 0.5 else "no" for v in graph})
    return graphs, labels


STAR, GRID = nx.star_graph(3), nx.convert_node_labels_to_integers(nx.grid_2d_graph(2, 3))
TREES = drawn([nx.path_graph(3), STAR, nx.path_graph(1)])
GRIDS = drawn([GRID, nx.cycle_graph(4)])


def arrays(graphs: Graphs, labels: Labellings) -> tuple[Any, Any, Any, Any]:
    """What the families read."""
    nodes = [np.array([graph.nodes[v]["x"] for v in graph]) for graph in graphs]
    codes = [np.array([label[v] == "yes" for v in graph], dtype=int) for graph, label in zip(graphs, labels)]
    place = [{v: i for i, v in enumerate(graph)} for graph in graphs]
    edges = [[sorted((at[u], at[v])) for u, v in graph.edges] for graph, at in zip(graphs, place)]
    values = [np.array([graph.edges[e]["z"] for e in graph.edges]).reshape(-1, 1) for graph in graphs]
    return nodes, codes, [np.array(each, dtype=int).reshape(-1, 2) for each in edges], values


def weights(tagger: GraphTagger) -> np.ndarray[Any, Any]:
    return np.concatenate((tagger.coef_.ravel(), tagger.edge_coef_.ravel()))


@pytest.mark.parametrize("data", [TREES, GRIDS], ids=["trees", "grids"])
def test_a_likelihood_tagger_has_the_solution_of_the_conditional_random_field(data: Any) -> None:
    graphs, labels = data
    nodes, codes, edges, values = arrays(graphs, labels)
    tagger = GraphTagger("likelihood", C=2.0, features="x", edge_features="z").fit(graphs, labels)
    problem = cs.ConditionalRandomField.read(nodes, codes, 2, edges=edges, edge_features=values, C=2.0)
    found = cs.solve(problem)
    np.testing.assert_array_equal(weights(tagger), found.point["theta"])
    assert tagger.certificate_ == found.certificate
    predicted = tagger.predict(graphs)
    for graph, ours, theirs in zip(graphs, predicted, problem.predict(found.point)):
        assert ours == dict(zip(graph, np.array(["no", "yes"])[theirs].tolist()))
    marginals = tagger.predict_marginals(graphs[:1])[0]
    np.testing.assert_array_equal(np.array(list(marginals.values())), problem.posteriors(found.point)[0])
    right = [ours[v] == label[v] for ours, label in zip(predicted, labels) for v in label]
    assert tagger.score(graphs, labels) == np.mean(right)


@pytest.mark.parametrize(
    ("data", "options"),
    [(TREES, {}), (GRIDS, {"associative": True, "inference": "minimum_cut"})],
    ids=["trees", "associative grids"],
)
def test_a_margin_tagger_has_the_solution_of_the_structural_svm(data: Any, options: Any) -> None:
    graphs, labels = data
    nodes, codes, edges, _ = arrays(graphs, labels)
    tagger = GraphTagger("margin", C=0.5, features="x", tol="LOW", **options).fit(graphs, labels)
    found = cs.solve(cs.StructuredSVM.read(nodes, codes, 2, edges=edges, C=0.5, **options), tol="LOW")
    np.testing.assert_array_equal(weights(tagger), found.point["w"])
    assert tagger.edge_coef_.shape == ((1, 2) if options else (1, 2, 2))
    assert (not options) or (tagger.edge_coef_ >= 0).all()
    assert [set(tags) for tags in tagger.predict(graphs)] == [set(graph) for graph in graphs]


def test_all_attributes_of_a_node_are_its_feature_dict_by_default() -> None:
    first, second = nx.Graph([("a", "b")]), nx.Graph([(1, "x"), (1, 3.5)])
    for graph in (first, second):
        nx.set_node_attributes(graph, {v: {"kind": str(type(v)), "degree": graph.degree[v]} for v in graph})
    y = [{"a": 0, "b": 1}, [1, 0, 1]]
    tagger = GraphTagger("likelihood").fit([first, second], y)
    assert tagger.vectorizer_.feature_names_ == ["degree", *(f"kind={t}" for t in (float, int, str))]
    assert tagger.predict([second, nx.Graph()])[1] == {}
    assert set(tagger.predict([second])[0]) == {1, "x", 3.5}
    assert tagger.score([first], [{"a": 0}]) in (0.0, 1.0)


def test_a_node_that_a_mapping_leaves_out_has_no_label() -> None:
    graphs, labels = TREES
    first = next(iter(labels[0]))
    partial = [{first: labels[0][first]}, *labels[1:]]
    problem = GraphTagger("likelihood", features="x").problem(graphs, partial)
    assert isinstance(problem, cs.HiddenField)
    assert problem.known.sum(axis=1).tolist() == [1, 2, 2, *[1] * 5]
    with pytest.raises(ValueError, match="y has a label that is None or a set, wanted inference='exact'"):
        GraphTagger("margin", features="x", inference="relaxed").fit(graphs, partial)
    assert isinstance(GraphTagger("margin", features="x").problem(graphs, partial), cs.LatentSVM)


def test_edges_have_the_direction_of_a_directed_graph_else_that_of_the_order_of_nodes() -> None:
    forward, backward = nx.DiGraph([("a", "b")]), nx.DiGraph([("a", "b")])
    backward.remove_edge("a", "b")
    backward.add_edge("b", "a")
    undirected = nx.Graph()
    undirected.add_nodes_from("ab")
    undirected.add_edge("b", "a")
    for graph in (forward, backward, undirected):
        nx.set_node_attributes(graph, {"a": [1.0, 0.0], "b": [0.0, 1.0]}, "x")
    y = [{"a": 0, "b": 1}]
    taggers = (GraphTagger("likelihood", features="x").fit([each], y) for each in (forward, backward, undirected))
    first, second, third = (tagger.edge_coef_[0] for tagger in taggers)
    np.testing.assert_allclose(first, second.T, atol=2e-3)  # a gap of 1e-6 moves a weight by sqrt(2e-6 P) at most
    np.testing.assert_array_equal(first, third)
    assert first[0, 1] > first[1, 0] + 0.1


@pytest.mark.parametrize("edge_features", [None, "z"])
def test_a_loaded_tagger_predicts_the_same(tmp_path: Path, edge_features: Any) -> None:
    graphs, labels = GRIDS
    options = {"associative": True, "inference": "minimum_cut", "features": "x", "edge_features": edge_features}
    tagger = GraphTagger("margin", tol="LOW", **options).fit(graphs, labels)
    loaded = GraphTagger.load(tagger.save(tmp_path / "tagger.npz"))
    assert loaded.predict(graphs) == tagger.predict(graphs)
    assert loaded.get_params()["inference"] == "minimum_cut"
