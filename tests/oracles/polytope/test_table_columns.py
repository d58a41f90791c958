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
    # an order of three axes whose inverse is another
    "three shared, turned": graph_tables([(0, 1, 2), (2, 0, 1, 3)], [2, 3, 4, 2], 3)[0],
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_tables_disagreements_and_what_multipliers_spread_are_those_of_rows(name: str) -> None:
    structure = STRUCTURES[name]
    layout, tables = Columns(structure), noise(structure, 0)
    multipliers = structure.split_multipliers(np.random.default_rng(1).normal(size=structure.n_multipliers))
    columns, cells = layout.tables(tables), layout.cells(multipliers)
    by_rows = [sum(some, np.zeros(shape)) for some, shape in zip(structure.spread(multipliers), structure.shapes)]
    wide = [sum(some, np.zeros(table.shape)) for some, table in zip(layout.spread(cells), columns)]
    for found, wanted in (
        (layout.rows(columns), tables),
        (layout.multipliers(cells), multipliers),
        (layout.multipliers(layout.disagreement(columns)), structure.disagreement(tables)),
        (layout.rows(wide), by_rows),
    ):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, atol=ROUNDING)
