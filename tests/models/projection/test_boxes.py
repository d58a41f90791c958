"""The projections in CVXPY against every active set, primal against dual, and against all labellings."""

from __future__ import annotations

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.tables import MarginalProjection
from convexstruct.models.projection.polytopes import agreements, variables
from convexstruct.tolerances import HIGH, MID
from tests.families.projection.instances import box
from tests.oracles.polytope.instances import GRAPHS, enumerated, matrix
from tests.reference import optimum, stated


def graph(name: str, seed: int = 0, n: int = 2) -> MarginalProjection:
    cliques, cards = GRAPHS[name]
    rng = np.random.default_rng(seed)
    tables = [rng.normal(size=(n, *(cards[v] for v in clique))) for clique in cliques]
    d = rng.uniform(0.5, 2.0, size=len(cliques))
    return MarginalProjection.graph(cliques, tables, d, scale=rng.uniform(0.3, 2.0, size=n))


@pytest.mark.parametrize("name", ["box", "box_dual"])
@pytest.mark.parametrize("seed", range(5))
def test_a_box_gives_what_the_best_active_set_gives(name: str, seed: int) -> None:
    problem = box(seed)
    m, lower, upper, s, d = (
        np.broadcast_to(x, (6,)) for x in (problem.m, problem.lower, problem.upper, problem.s, problem.d)
    )
    best = enumerated(m, lower, upper, s, problem.z, d)
    formulation = stated(f"projection.{name}", problem)
    assert optimum(formulation).value == pytest.approx(problem.primal({"a": best}), abs=HIGH.gap * 10)
    solution = formulation.solve(tol=MID)
    assert solution.status is cs.Status.OPTIMAL
    np.testing.assert_allclose(solution.point["a"], best, atol=MID.gap * 10)


def test_a_box_without_bounds_has_no_such_constraint() -> None:
    problem = BoxProjection(np.array([1.0, 2.0, 3.0]), -np.inf, np.inf, 1.0, 0.0)
    assert "box" not in stated("projection.box", problem).equations
    for name in ("box", "box_dual"):
        solution = stated(f"projection.{name}", problem).solve()
        np.testing.assert_allclose(solution.point["a"], [-1.0, 0.0, 1.0], atol=HIGH.feasibility * 10)


@pytest.mark.parametrize("name", GRAPHS)
def test_primal_and_dual_of_tables_meet_in_the_ascent_s_optimum(name: str) -> None:
    problem = graph(name)
    ours = cs.solve(problem, tol=1e-8)
    for form in ("tables", "tables_dual"):
        formulation = stated(f"projection.{form}", problem)
        assert optimum(formulation).value == pytest.approx(ours.primal, rel=HIGH.gap)
        solution = formulation.solve()
        assert solution.status is cs.Status.OPTIMAL, solution.message
        assert formulation.problem.is_dcp(dpp=True)


@pytest.mark.parametrize("name", ["junction tree", "nodes and edges", "one clique", "apart", "one label", "star"])
def test_on_junction_trees_the_labellings_say_the_same(name: str) -> None:
    problem = graph(name, 1)
    solution = stated("projection.labellings", problem).solve()
    assert solution.status is cs.Status.UNCERTIFIED
    assert solution.primal == pytest.approx(optimum(stated("projection.tables", problem)).value, rel=HIGH.gap)


@pytest.mark.parametrize("nodes", [True, False])
def test_on_chains_of_unequal_lengths_too(nodes: bool) -> None:
    rng = np.random.default_rng(2)
    lengths = [3, 1, 2] if nodes else [3, 2, 2]
    p, q = sum(lengths), sum(lengths) - 3
    node = rng.normal(size=(p, 2)) if nodes else None
    problem = MarginalProjection.chains(lengths, rng.normal(size=(q, 2, 2)), node, scale=[1.0, 0.5, 2.0])
    value = optimum(stated("projection.labellings", problem)).value
    assert optimum(stated("projection.tables", problem)).value == pytest.approx(value, rel=HIGH.gap)
    assert cs.solve(problem, tol=HIGH).primal == pytest.approx(value, rel=2 * HIGH.gap)


def test_on_a_triangle_agreement_is_less_than_a_distribution() -> None:
    """Costs of equal labels on every edge: no labelling avoids all, but tables that agree locally do."""
    apart = np.array([[0.0, 0.5], [0.5, 0.0]])
    problem = MarginalProjection.graph(["ab", "bc", "ca"], [apart] * 3)
    assert cs.solve(problem, tol=HIGH).primal <= HIGH.gap
    with pytest.raises(ValueError, match="form no junction tree"):
        stated("projection.labellings", problem)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_matrix_of_agreements_is_the_oracle_s(name: str) -> None:
    structure = graph(name).structure
    if structure.n_multipliers:
        np.testing.assert_allclose(agreements(structure).toarray(), matrix(structure))


def test_axes_that_agree_are_one_variable() -> None:
    structure = MarginalProjection.chains([3, 1], np.zeros((2, 2, 2)), np.zeros((4, 2))).structure
    (node, edge), cards = variables(structure)
    assert len(cards) == 4
    assert list(edge[0]) == [node[0, 0], node[1, 0]]
    assert list(edge[1]) == [node[1, 0], node[2, 0]]
