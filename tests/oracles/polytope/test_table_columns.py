"""Tables laid out by columns mean what tables by rows mean."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.graphs import chains
from convexstruct.oracles.polytope.clique_tables import CliqueTables, chain_tables, graph_tables
from convexstruct.oracles.polytope.table_columns import Columns
from convexstruct.tolerances import ROUNDING
from tests.oracles.polytope.instances import GRAPHS, noise

STRUCTURES: dict[str, CliqueTables] = {name: graph_tables(*GRAPHS[name], 3)[0] for name in GRAPHS}
STRUCTURES |= {
    "chains": chain_tables(chains([3, 1, 4]), 3),
    "edges": chain_tables(chains([3, 2, 4]), 3, nodes=False),
    "one position": chain_tables(chains([1]), 2),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_tables_and_multipliers_go_there_and_back(name: str) -> None:
    structure = STRUCTURES[name]
    layout, tables = Columns(structure), noise(structure, 0)
    for one, other in zip(layout.rows(layout.tables(tables)), tables):
        assert np.array_equal(one, other)
    multipliers = structure.split_multipliers(np.random.default_rng(1).normal(size=structure.n_multipliers))
    for one, other in zip(layout.multipliers(layout.cells(multipliers)), multipliers):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("name", STRUCTURES)
def test_disagreements_are_those_of_rows(name: str) -> None:
    structure = STRUCTURES[name]
    layout, tables = Columns(structure), noise(structure, 2)
    found = layout.multipliers(layout.disagreement(layout.tables(tables)))
    for one, other in zip(found, structure.disagreement(tables)):
        np.testing.assert_allclose(one, other, atol=ROUNDING)


@pytest.mark.parametrize("name", STRUCTURES)
def test_what_multipliers_spread_is_that_of_rows(name: str) -> None:
    structure = STRUCTURES[name]
    layout = Columns(structure)
    multipliers = structure.split_multipliers(np.random.default_rng(3).normal(size=structure.n_multipliers))
    by_rows = [sum(some, np.zeros(shape)) for some, shape in zip(structure.spread(multipliers), structure.shapes)]
    shapes = [(*shape[1:], shape[0]) for shape in structure.shapes]
    wide = [sum(some, np.zeros(shape)) for some, shape in zip(layout.spread(layout.cells(multipliers)), shapes)]
    for one, other in zip(layout.rows(wide), by_rows):
        np.testing.assert_allclose(one, other, atol=ROUNDING)
