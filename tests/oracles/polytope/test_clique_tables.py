"""Clique tables: marginals and their adjoint, which agreements tie, and feasible tables."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convexstruct.graphs import chains
from convexstruct.oracles.polytope.clique_tables import CliqueTables, Places, chain_tables, graph_tables
from convexstruct.oracles.polytope.feasible_tables import feasible_tables
from convexstruct.tolerances import ROUNDING
from tests.oracles.polytope.instances import GRAPHS, flat, matrix, noise


def graph(name: str, n: int = 2) -> tuple[CliqueTables, Places]:
    return graph_tables(*GRAPHS[name], n)


@pytest.mark.parametrize("name", GRAPHS)
def test_spread_is_the_adjoint_of_disagreement(name: str) -> None:
    structure, _ = graph(name)
    tables = noise(structure, 0)
    multipliers = structure.split_multipliers(np.random.default_rng(1).normal(size=structure.n_multipliers))
    wide = [sum(some, np.zeros(shape)) for some, shape in zip(structure.spread(multipliers), structure.shapes)]
    forward = flat(structure.disagreement(tables)) @ flat(multipliers)
    assert forward == pytest.approx(flat(tables) @ flat(wide), rel=ROUNDING)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_few_agreements_imply_those_of_every_pair_of_cliques(name: str) -> None:
    cliques, cards = GRAPHS[name]
    structure, places = graph(name, 1)
    columns = np.arange(structure.n_entries)
    index = structure.split(columns.astype(float))
    ours = matrix(structure) if structure.n_multipliers else np.zeros((0, structure.n_entries))
    rows = list(ours)
    for one, other in combinations(range(len(cliques)), 2):
        shared = [v for v in cliques[one] if v in cliques[other]]
        for labels in np.ndindex(*(cards[v] for v in shared)) if shared else ():
            row = np.zeros(structure.n_entries)
            for c, sign in ((one, 1.0), (other, -1.0)):
                at = tuple(labels[shared.index(v)] if v in shared else slice(None) for v in cliques[c])
                group, place = places[c]
                row[index[group][place[0]][at].ravel().astype(int)] += sign
            rows.append(row)
    if rows:
        assert np.linalg.matrix_rank(np.array(rows)) == np.linalg.matrix_rank(ours)


@pytest.mark.parametrize("nodes", [True, False])
def test_a_chain_is_the_graph_of_its_nodes_and_edges_or_of_its_edges_alone(nodes: bool) -> None:
    chain = chain_tables(chains([3, 3]), 2, nodes)
    singles = [(0,), (1,), (2,)] if nodes else []
    structure, _ = graph_tables([*singles, (0, 1), (1, 2)], [2, 2, 2], 2)
    assert [shape for shape in chain.shapes if shape[0]] == list(structure.shapes)
    for one, other in ((chain, structure), (structure, chain)):
        together = np.vstack((matrix(one), matrix(other)))
        assert np.linalg.matrix_rank(together) == np.linalg.matrix_rank(matrix(one))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("kind", ["noise", "near", "corner"])
def test_feasible_tables_are_in_the_local_polytope(name: str, kind: str) -> None:
    structure, _ = graph(name, 3)
    scale = np.array([1.0, 0.01, 30.0])
    tables = noise(structure, 4)
    if kind != "noise":
        tables = [np.zeros(shape) for shape in structure.shapes]
        for table, component in zip(tables, structure.component):
            table.reshape(len(table), -1)[:, 0] = scale[component]  # everywhere label 0, which agrees
        if kind == "near":
            tables = [table + 1e-4 * noise_ for table, noise_ in zip(tables, noise(structure, 5))]
    found = feasible_tables(structure, tables, scale)
    for table, component in zip(found, structure.component):
        assert table.min() >= 0
        sums = table.reshape(len(table), -1).sum(axis=1)
        np.testing.assert_allclose(sums, scale[component], rtol=ROUNDING)
    assert np.abs(flat(structure.disagreement(found))).max(initial=0.0) <= ROUNDING * 30
    if kind == "corner":
        np.testing.assert_allclose(flat(found), flat(tables), atol=ROUNDING * 30)


@given(st.integers(0, 10_000), st.floats(1e-12, 1e-2))
def test_feasible_tables_of_chains_move_no_further_than_the_disagreement(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    structure = chain_tables(chains(rng.integers(1, 5, size=3)), int(rng.integers(1, 4)))
    scale = np.ones(3)
    member = feasible_tables(
        structure, [rng.random(shape) * (rng.random(shape) < 0.5) for shape in structure.shapes], scale
    )
    moved = [np.maximum(table + size * rng.normal(size=table.shape), 0.0) for table in member]
    again = feasible_tables(structure, moved, scale)
    largest = max(float(np.abs(one - other).max(initial=0.0)) for one, other in zip(moved, member))
    for one, other in zip(again, moved):
        assert np.abs(one - other).max(initial=0.0) <= 200 * largest + ROUNDING
