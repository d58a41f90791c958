"""Projection onto the local marginal polytope: by the variational inequality over its vertices, and bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from convexstruct.arrays import Vector
from convexstruct.graphs import chains
from convexstruct.oracles.box.projection import project_box_equality
from convexstruct.oracles.polytope.clique_tables import CliqueTables, Tables, chain_tables, graph_tables
from convexstruct.oracles.polytope.local_polytope import (
    Weights,
    ascend,
    project_tables,
    read_weights,
    simplex_thresholds,
)
from convexstruct.tolerances import HIGH, ROUNDING
from tests.oracles.polytope.instances import GRAPHS, flat, matrix, noise


def greatest(structure: CliqueTables, direction: Tables, scale: Vector) -> float:
    """max <direction, a> over the local marginal polytope, by linear programming: all equations written out."""
    sums = np.zeros((sum(len(c) for c in structure.component), structure.n_entries))
    right, at, row = [], 0, 0
    for component, cards in zip(structure.component, structure.cards):
        for k in component:
            size = int(np.prod(cards))
            sums[row, at : at + size] = 1.0
            right.append(scale[k])
            row, at = row + 1, at + size
    agreements = matrix(structure) if structure.n_multipliers else np.zeros((0, structure.n_entries))
    equations = np.vstack((sums, agreements))
    found = linprog(-flat(direction), A_eq=equations, b_eq=np.concatenate((right, np.zeros(len(agreements)))))
    assert found.status == 0
    return float(-found.fun)


def objective(tables: Tables, wanted: Tables, d: list[Vector]) -> float:
    rows = (((a - m).reshape(len(m), -1) ** 2).sum(axis=1) for a, m in zip(tables, wanted))
    return float(sum(0.5 * np.square(each) @ row for each, row in zip(d, rows)))


def dual_value(structure: CliqueTables, tables: Tables, weights: Weights, multipliers: Tables) -> Vector:
    """D at xi, maximised over lambda, of each component: that of the first round from there."""
    return next(ascend(structure, tables, weights, multipliers)).value


def assert_is_projection(structure: CliqueTables, m: Tables, d: list[Vector], scale: Vector) -> None:
    """<D^2 (m - a), v - a> <= 0 for every v of the polytope, which says that a is the projection."""
    found = project_tables(structure, m, d, scale, tol=1e-10)
    toward = [np.square(each).reshape(-1, *[1] * (a.ndim - 1)) * (x - a) for a, x, each in zip(found.tables, m, d)]
    size = float(np.abs(flat(toward)).sum()) * float(scale.max())
    assert greatest(structure, toward, scale) <= flat(toward) @ flat(found.tables) + HIGH.gap * max(size, 1.0)
    assert np.abs(flat(structure.disagreement(found.tables))).max(initial=0.0) <= ROUNDING * scale.max()
    value = objective(found.tables, m, d)
    assert found.lower_bound.sum() <= value + ROUNDING * max(value, 1.0)
    assert value - found.lower_bound.sum() <= HIGH.gap * max(value, 1.0)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("size", [0.1, 3.0])
def test_no_member_of_the_polytope_lies_further_towards_m(name: str, size: float) -> None:
    structure, _ = graph_tables(*GRAPHS[name], 2)
    rng = np.random.default_rng(0)
    d = [rng.uniform(0.5, 2.0, size=len(rows)) for rows in structure.component]
    assert_is_projection(structure, [size * m for m in noise(structure, 1)], d, np.array([1.0, 0.2]))


@pytest.mark.parametrize("nodes", [True, False])
@pytest.mark.parametrize("n_labels", [1, 2, 4])
def test_chains_of_unequal_lengths_have_each_their_own_scale(nodes: bool, n_labels: int) -> None:
    structure = chain_tables(chains([1, 4, 2, 1, 3]), n_labels, nodes)
    d = [np.ones(len(rows)) for rows in structure.component]
    assert_is_projection(structure, noise(structure, 2), d, np.array([1.0, 0.1, 3.0, 0.5, 1.0]))


def test_many_blocks_give_what_one_chain_at_a_time_gives() -> None:
    lengths = [9] * 25 + [1, 2]
    structure = chain_tables(chains(lengths), 26)
    assert len(structure.blocks) == 2
    node, edge = noise(structure, 5)
    found = project_tables(structure, [node, edge], tol=1e-6).tables[0]
    for k in (0, 24, 26):
        low, high = sum(lengths[:k]), sum(lengths[: k + 1])
        edges = slice(low - k, high - k - 1)  # every chain before has one edge less than nodes
        alone = project_tables(chain_tables(chains([lengths[k]]), 26), [node[low:high], edge[edges]], tol=1e-6)
        np.testing.assert_allclose(found[low:high], alone.tables[0], atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_any_multipliers_give_a_lower_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    structure, _ = graph_tables(*GRAPHS["junction tree"], 2)
    m = noise(structure, seed)
    best = project_tables(structure, m, tol=1e-10)
    weights = read_weights(structure, [1.0] * len(m), 1.0)
    multipliers = [rng.normal(size=x.shape) * 10.0 ** rng.integers(-3, 3) for x in best.multipliers]
    each = np.zeros(2)
    for table, x, component in zip(best.tables, m, structure.component):
        np.add.at(each, component, 0.5 * ((table - x) ** 2).reshape(len(x), -1).sum(axis=1))
    assert (dual_value(structure, m, weights, multipliers) <= each + ROUNDING * each).all()


def test_the_gradient_of_the_dual_is_minus_the_disagreement() -> None:
    structure, _ = graph_tables(*GRAPHS["triangle"])
    m, rng = noise(structure, 6), np.random.default_rng(7)
    d = [rng.uniform(0.5, 2.0, size=len(rows)) for rows in structure.component]
    weights = read_weights(structure, d, 2.0)
    at = rng.normal(size=structure.n_multipliers)
    direction = rng.normal(size=structure.n_multipliers)
    slope = [
        dual_value(structure, m, weights, structure.split_multipliers(at + step * direction)).sum()
        for step in (1e-5, -1e-5)
    ]
    first = next(ascend(structure, m, weights, structure.split_multipliers(at)))
    expected = -flat(structure.disagreement(first.tables)) @ direction
    assert (slope[0] - slope[1]) / 2e-5 == pytest.approx(expected, rel=HIGH.gap * 10)


def test_starting_from_multipliers_nearby_saves_rounds() -> None:
    structure = chain_tables(chains([8] * 10), 5)
    m = noise(structure, 8)
    cold = project_tables(structure, m)
    warm = project_tables(structure, [x + 1e-6 for x in m], start=cold.multipliers)
    assert warm.rounds < cold.rounds / 2


def test_thresholds_are_those_of_the_simplex_from_any_start() -> None:
    rng = np.random.default_rng(9)
    x = np.where(
        rng.random((300, 7)) < 0.3, 0.0, rng.normal(size=(300, 7)) * 10.0 ** rng.integers(-3, 4, size=(300, 1))
    )
    z = 10.0 ** rng.uniform(-3, 2, size=300)
    for start in (np.full(300, -np.inf), x.max(axis=1) + 5.0, x.min(axis=1) - 100.0):
        lam, a = simplex_thresholds(np.ascontiguousarray(x.T), z, start)
        one_by_one = [project_box_equality(row, 0.0, np.inf, 1.0, total) for row, total in zip(x, z)]
        np.testing.assert_allclose(a.T, one_by_one, atol=ROUNDING * 1e3)
        np.testing.assert_allclose(np.maximum(x - lam[:, None], 0.0).sum(axis=1), z, rtol=1e-8)


@pytest.mark.parametrize("offset", [1e16, -1e16, 1e30])
def test_offsets_far_beyond_z_leave_projections_that_are_exact(offset: float) -> None:
    """lambda is then no double: max(x - lambda, 0) for the nearest one sums to 0 or 2 where it should to 1."""
    x = offset + np.random.default_rng(2).choice([0.0, 2.0, 4.0, -6.0], size=(5, 40)) * np.abs(offset) / 1e16
    for start in (-np.inf, offset):
        _, a = simplex_thresholds(x, np.ones(40), np.full(40, start))
        for column, found in zip(x.T, a.T):
            top = column == column.max()
            np.testing.assert_allclose(found, top / np.count_nonzero(top), atol=ROUNDING)
