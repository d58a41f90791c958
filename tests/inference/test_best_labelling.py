"""The best labelling of models small enough to enumerate, and of larger ones beside toulbar2."""

from __future__ import annotations

import itertools
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convexstruct as cs
from convexstruct.inference import best_labelling as module
from convexstruct.inference.best_labelling import Labelling, best_labelling

SCORES = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e3, 1e3), st.sampled_from([0.0, 1e-8, 1e8, -math.inf]))


def brute(factors: Any, flat: Any) -> float:
    """The greatest score over all labellings."""
    every = np.array(list(itertools.product(*map(range, factors.cards))), dtype=np.int64)
    return max(math.fsum(flat[row]) for row in factors.entries(every))


@st.composite
def models(draw: st.DrawFn) -> tuple[Any, Any]:
    """Factors of up to three variables on up to five, and their stacked scores."""
    cards = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    scope = st.lists(st.sampled_from(range(len(cards))), min_size=1, max_size=3, unique=True)
    factors = cs.read_factors(cards, draw(st.lists(scope, min_size=1, max_size=6)))
    flat = draw(st.lists(SCORES, min_size=factors.n_entries, max_size=factors.n_entries))
    return factors, np.array(flat)


@given(model=models())
def test_every_method_brackets_the_greatest_score(model: tuple[Any, Any]) -> None:
    factors, flat = model
    greatest = brute(factors, flat)
    structure = module._Structure(factors, flat)
    if greatest == -math.inf:
        with pytest.raises(ValueError, match="forbids every labelling"):
            module._best(factors, flat, None)
        return
    for found in (module._best(factors, flat, None), module._by_cut(structure), module._relaxed(structure)):
        if found is None:
            continue
        assert found.score == math.fsum(flat[factors.entries(np.array([found.labels]))[0]])
        assert found.score <= greatest <= found.upper
        size = np.abs(flat[np.isfinite(flat)]).max(initial=1.0) * len(factors.scopes)
        if found.exact:
            assert found.upper - found.score <= 1e-12 * size


def test_two_labels_that_agree_are_cut_whatever_the_width() -> None:
    rng = np.random.default_rng(0)
    graph = nx.grid_2d_graph(25, 25)
    for node in graph:
        graph.nodes[node]["scores"] = rng.normal(size=2)
    for edge in graph.edges:
        graph.edges[edge]["scores"] = np.diag(rng.uniform(0, 1, size=2))
    found = best_labelling(graph)
    assert (found.method, found.exact) == ("minimum cut", True)
    assert found.upper - found.score < 1e-10 * abs(found.score)
    for edge in graph.edges:
        graph.edges[edge]["scores"] *= -1.0
    other = best_labelling(graph)  # too wide, and no edge wants agreement
    assert (other.method, other.exact) == ("relaxation", False)
    assert other.score <= other.upper


def test_a_graph_keeps_its_names_and_the_order_of_its_edges() -> None:
    table = [[0.0, 5.0, 0.0], [0.0, 0.0, 0.0]]
    for graph, edge in ((nx.Graph(), ("b", "a")), (nx.DiGraph(), ("a", "b"))):
        graph.add_node("a", scores=[0.0, 0.0])
        graph.add_node("b", scores=[0.0, 0.0, 1.0])
        graph.add_node("c", scores=[2.0])
        graph.add_edge(*edge, scores=table)
        graph.add_edge("a", "c")  # joined by no score
        found = best_labelling(graph)
        assert found == Labelling({"a": 0, "b": 1, "c": 0}, 7.0, found.upper, True, "junction tree")
        assert 7.0 <= found.upper < 7.0 + 1e-12


def test_when_the_time_is_over_the_bound_is_that_of_the_tables() -> None:
    rng = np.random.default_rng(1)
    graph = nx.grid_2d_graph(14, 14)
    for node in graph:
        graph.nodes[node]["scores"] = rng.normal(size=3)
    for edge in graph.edges:
        graph.edges[edge]["scores"] = rng.normal(size=(3, 3))
    early = best_labelling(graph, time_limit=1e-9)
    plain = sum(max(data["scores"]) for _, data in graph.nodes(data=True))
    plain += sum(data["scores"].max() for *_, data in graph.edges(data=True))
    assert early.upper == pytest.approx(plain)
    found = best_labelling(graph)
    assert early.score <= found.upper < early.upper
    assert found.score <= found.upper < found.score + 0.05 * abs(found.score)


def test_toulbar2_finds_the_same_optimum(tmp_path: Any) -> None:
    """20 models written in the UAI format and read back; toulbar2 counts costs in steps of 1e-6."""
    toulbar2 = pytest.importorskip("pytoulbar2")
    for seed in range(20):
        rng = np.random.default_rng(seed)
        graph = nx.gnm_random_graph(12, 20, seed=seed)
        cards = rng.integers(1, 4, size=12)
        factors = cs.tabular_factors(graph, cards)
        cs.datasets.write_uai(tmp_path / "model.uai", factors, rng.normal(size=factors.dimension))
        read, theta = cs.datasets.read_uai(tmp_path / "model.uai")
        network = toulbar2.CFN(1e6, resolution=6)
        for v, card in enumerate(read.cards):
            network.AddVariable(f"x{v}", range(card))
        shift = 0.0
        for scope, table in zip(read.scopes, read.tables(theta)):
            shift += table.max()
            network.AddFunction([f"x{v}" for v in scope], (table.max() - table).ravel().tolist())
        _, cost, _ = network.Solve()
        found = best_labelling(read, theta)
        relaxed = module._relaxed(module._Structure(read, theta))
        assert found.score == pytest.approx(shift - cost, abs=1e-4)
        assert relaxed.score <= found.upper
        assert found.score <= relaxed.upper


def pair(node: Any, edge: Any = None) -> nx.Graph:
    """Two nodes with these scores, joined by an edge with those."""
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {v: {"scores": node} for v in graph})
    if edge is not None:
        graph.edges[0, 1]["scores"] = edge
    return graph


def looped() -> nx.Graph:
    graph = pair([0.0, 0.0])
    graph.add_edge(1, 1, scores=np.eye(2))
    return graph


@pytest.mark.parametrize(
    ("model", "theta", "text"),
    [
        (3, None, "model is 3, wanted a networkx Graph or DiGraph with at least one node, or Factors"),
        (nx.Graph(), None, "wanted a networkx Graph or DiGraph with at least one node"),
        (nx.MultiGraph([(0, 1)]), None, "wanted a networkx Graph or DiGraph"),
        (nx.path_graph(2), None, "scores of node 0 are missing, wanted an attribute 'scores'"),
        (nx.path_graph(2), [1.0], "theta is given, wanted None with a graph"),
        (cs.read_factors([2], [[0]]), None, "theta is None, wanted the parameters"),
        (cs.read_factors([2], [[0]]), [1.0], "theta has shape (1,), wanted (2,)"),
        (pair([0.0, math.nan]), None, "scores of node 0 contains NaN"),
        (pair([]), None, "scores of node 0 is empty"),
        (pair("ab"), None, "scores of node 0"),
        (pair([0.0, 0.0], [[1.0, 2.0]]), None, "scores of the edge 0, 1 has shape (1, 2), wanted (2, 2)"),
        (pair([0.0, 0.0], np.full((2, 2), -math.inf)), None, "model forbids every labelling"),
        (looped(), None, "model joins node 1 with itself"),
    ],
)
def test_malformed_models_are_refused(model: Any, theta: Any, text: str) -> None:
    with pytest.raises(ValueError) as refused:
        best_labelling(model, theta)
    assert text in str(refused.value)
