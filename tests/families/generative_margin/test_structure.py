"""Structure learning: scores against their formulas written out, hill climbing against all graphs of three or four."""

from __future__ import annotations

import itertools
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct.datasets.generated.networks import random_network
from convexstruct.families.generative_margin import learned_network, network_score, structure

#: Two scores that differ by less, relatively, are equal: sums of some thousand logarithms.
EQUAL = 1e-10


def written_out(graph: nx.DiGraph, rows: np.ndarray[Any, Any], score: str, a: float) -> float:
    """BIC or BDeu by loops over parents' states and values, with nothing of the package."""
    total = 0.0
    for i, node in enumerate(graph):
        parents = [list(graph).index(p) for p in graph.predecessors(node)]
        r = graph.nodes[node]["states"]
        cards = [graph.nodes[p]["states"] for p in graph.predecessors(node)]
        q = math.prod(cards)
        for state in itertools.product(*map(range, cards)):
            some = rows[(rows[:, parents] == np.array(state, dtype=int)).all(axis=1)]
            n = [int((some[:, i] == k).sum()) for k in range(r)]
            if score == "bic":
                total += sum(each * math.log(each / sum(n)) for each in n if each) - (r - 1) / 2 * math.log(len(rows))
            else:
                total += math.lgamma(a / q) - math.lgamma(a / q + sum(n))
                total += sum(math.lgamma(a / q / r + each) - math.lgamma(a / q / r) for each in n)
    return total


def all_graphs(states: list[int], most: int) -> list[nx.DiGraph]:
    """Every directed acyclic graph on the nodes 0, 1, .. with at most so many parents a node."""
    n, found = len(states), []
    for kinds in itertools.product((0, 1, 2), repeat=n * (n - 1) // 2):
        graph = nx.DiGraph()
        graph.add_nodes_from((i, {"states": card}) for i, card in enumerate(states))
        for (i, j), kind in zip(itertools.combinations(range(n), 2), kinds):
            graph.add_edges_from([(), ((i, j),), ((j, i),)][kind])
        if nx.is_directed_acyclic_graph(graph) and all(d <= most for _, d in graph.in_degree):
            found.append(graph)
    return found


def neighbours(graph: nx.DiGraph, graphs: list[nx.DiGraph]) -> list[nx.DiGraph]:
    """Those of ``graphs`` that differ from ``graph`` at one pair of nodes."""
    pairs = list(itertools.combinations(graph, 2))

    def at(g: nx.DiGraph) -> list[int]:
        return [g.has_edge(*pair) - g.has_edge(*pair[::-1]) for pair in pairs]

    return [other for other in graphs if sum(a != b for a, b in zip(at(graph), at(other))) == 1]


def edges(graph: nx.DiGraph) -> set[tuple[Any, Any]]:
    return set(graph.edges)


@pytest.mark.parametrize("score", structure.SCORES)
@pytest.mark.parametrize("a", [1e-8, 1.0, 10.0])
def test_the_scores_are_their_formulas(score: str, a: float) -> None:
    data = random_network(5, 60, states=(2, 4), max_parents=3, seed=3)
    found = network_score(data.graph, data.assignments, score=score, rows_of_prior=a)
    assert found == pytest.approx(written_out(data.graph, data.assignments, score, a), rel=EQUAL)


@pytest.mark.parametrize("score", structure.SCORES)
@pytest.mark.parametrize(("n", "most"), [(3, 2), (3, 1), (4, 2)])
def test_it_ends_at_a_local_maximum_among_all_graphs(score: str, n: int, most: int) -> None:
    reached = 0
    for seed in range(3):
        rows = random_network(n, 100, states=(2, 3), max_parents=2, seed=seed).assignments
        states = [int(each) for each in np.maximum(rows.max(axis=0) + 1, 2)]
        graphs = all_graphs(states, most)
        found = learned_network(rows, score=score, max_parents=most, states=states)
        assert edges(found) in [edges(each) for each in graphs]
        value = written_out(found, rows, score, 1.0)
        near = [written_out(each, rows, score, 1.0) for each in neighbours(found, graphs)]
        assert value >= max(near) - EQUAL * abs(value)
        best = max(written_out(each, rows, score, 1.0) for each in graphs)
        assert value <= best + EQUAL * abs(best)
        reached += value >= best - EQUAL * abs(best)
    assert reached >= 2  # a local maximum need not be the best graph, but of so few graphs it mostly is


@pytest.mark.parametrize("score", structure.SCORES)
def test_what_a_change_adds_is_the_difference_of_whole_scores(score: str) -> None:
    rows = random_network(5, 90, states=(2, 3), seed=4).assignments
    table = structure.Families(rows, None, score, 1.0, [3] * 5)
    parents = np.zeros((5, 5), dtype=bool)
    parents[[0, 0, 1, 3], [1, 2, 2, 4]] = True

    def whole(edges: Any) -> float:
        return written_out(table.graph(edges), rows, score, 1.0)

    gains = structure._gains(parents, table.changes(parents, range(5)), 2)
    seen = 0
    for kind, i, j in np.argwhere(np.isfinite(gains)):
        other = parents.copy()
        other[i, j], other[j, i] = kind == 0, kind == 2
        graph = table.graph(other)
        assert nx.is_directed_acyclic_graph(graph)
        assert max(dict(graph.in_degree).values()) <= 2
        assert gains[kind, i, j] == pytest.approx(whole(other) - whole(parents), abs=1e-9)
        seen += 1
    allowed = sum(
        nx.is_directed_acyclic_graph(table.graph(other)) and other.sum(axis=0).max() <= 2
        for other in _all_changes(parents)
    )
    assert seen == allowed > 10


def _all_changes(parents: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    found = []
    for i, j in itertools.permutations(range(len(parents)), 2):
        for forth, back in ((True, False), (False, False), (False, True)):
            other = parents.copy()
            other[i, j], other[j, i] = forth, back
            is_turn = back and parents[i, j]
            is_single = not back and (forth != parents[i, j]) and not parents[j, i]
            if is_turn or is_single:
                found.append(other)
    return found


def test_what_depends_is_joined_and_what_does_not_is_not() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, (2, 2000))
    copy = np.where(rng.random(2000) < 0.9, a, rng.integers(0, 3, 2000))
    rows = np.column_stack((a, b, copy))
    assert learned_network(rows, ["a", "b", "copy"]).to_undirected().edges == nx.Graph([("a", "copy")]).edges


def test_ties_go_to_the_first_change_and_rows_may_stand_in_any_order() -> None:
    rng = np.random.default_rng(1)
    one = rng.integers(0, 2, 50)
    rows = np.column_stack((one, one, one))  # all edges add the same
    assert edges(learned_network(rows, max_parents=1)) == {(0, 1), (0, 2)}
    rows = random_network(6, 200, seed=5).assignments
    for score in structure.SCORES:
        wanted = edges(learned_network(rows, score=score, states=[3] * 6))
        for _ in range(3):
            assert edges(learned_network(rng.permutation(rows), score=score, states=[3] * 6)) == wanted


@pytest.mark.parametrize("a", [1e-300, 1e-8, 1e8, 1e300])
def test_any_prior_is_taken(a: float) -> None:
    rows = random_network(4, 100, seed=6).assignments
    found = learned_network(rows, score="bdeu", rows_of_prior=a, states=[3] * 4)
    assert nx.is_directed_acyclic_graph(found)
    assert math.isfinite(network_score(found, rows, score="bdeu", rows_of_prior=a))


def test_a_constant_column_is_taken_where_states_are_given() -> None:
    found = learned_network([[0, 1], [1, 1], [0, 1]], states=[2, 3])
    assert [found.nodes[i]["states"] for i in found] == [2, 3]
    assert found.number_of_edges() == 0
