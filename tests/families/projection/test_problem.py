"""The two projection problems: their values, bounds from any witness, and repairs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convexstruct as cs
from convexstruct.arrays import Vector
from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.tables import MarginalProjection
from convexstruct.oracles.box.projection import project_with_multiplier
from convexstruct.tolerances import ROUNDING
from tests.families.projection.instances import box, tree

# -- the box with one equality -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2.0, [0.5, 2.0, 3.0]])
def test_the_unit_of_gaps_is_its_formula(d: Any) -> None:
    problem = BoxProjection(np.array([1.0, -2.0, 0.5]), -1.0, 1.0, np.array([1.0, 0.0, -3.0]), 0.7, d)
    each = zip(np.broadcast_to(d, 3), [1.0, -2.0, 0.5], [1.0, 0.0, -3.0])
    terms = [((d * m) ** 2, (s / d) ** 2) for d, m, s in each]
    wanted = 0.5 * (sum(size for size, _ in terms) + 0.7**2 / sum(reach for _, reach in terms))
    assert problem.trivial_value == pytest.approx(wanted, rel=1e-14)


def test_the_doors_of_the_simplices_are_boxes() -> None:
    simplex = BoxProjection.simplex([3.0, 1.0], z=2.0)
    assert (simplex.lower, simplex.upper, simplex.s, simplex.z) == (0.0, np.inf, 1.0, 2.0)
    capped = BoxProjection.capped_simplex([3.0, 1.0, 0.0], cap=[1.0, 0.5, 1.0], z=2.0)
    assert list(np.asarray(capped.upper)) == [1.0, 0.5, 1.0]
    with pytest.raises(ValueError, match="from 0 to 2"):
        BoxProjection.capped_simplex([3.0, 1.0], z=3.0)


@pytest.mark.parametrize("seed", range(8))
def test_any_rho_gives_a_lower_bound_and_the_root_gives_the_optimum(seed: int) -> None:
    problem = box(seed)
    a, rho = project_with_multiplier(problem.m, problem.lower, problem.upper, problem.s, problem.z, problem.d)
    optimum = problem.primal({"a": a})
    assert problem.dual({"rho": np.array(rho)}) == pytest.approx(optimum, abs=ROUNDING)
    rng = np.random.default_rng(seed)
    for other in rho + rng.normal(size=20) * 10.0 ** rng.integers(-4, 8, size=20):
        bound, rounding = problem.dual({"rho": np.array(other)}), ROUNDING * max(1.0, abs(other))
        assert bound <= optimum + rounding
        near = problem.at(other)  # where the Lagrangian is least
        lagrangian = problem.primal({"a": near}) + other * (problem.total(near) - problem.z)
        assert bound == pytest.approx(lagrangian, abs=rounding)


@given(st.integers(0, 500), st.floats(1e-9, 1e9))
def test_a_repaired_point_is_feasible_whatever_it_was(seed: int, size: float) -> None:
    problem = box(seed)
    point = problem.repair({"a": size * np.random.default_rng(seed).normal(size=6)})
    assert max(problem.residuals(point).values()) <= ROUNDING * max(1.0, size)
    assert (point["a"] >= problem.lower).all()
    assert (point["a"] <= problem.upper).all()


def test_each_way_of_being_infeasible_has_a_name() -> None:
    problem = BoxProjection(np.zeros(2), 0.0, 1.0, 1.0, 1.0)
    residuals = problem.residuals({"a": np.array([-0.5, 1.25])})
    assert list(residuals.values()) == pytest.approx([0.5, 0.25, 0.25])


# -- the local marginal polytope ---------------------------------------------------------------------------------------

EDGE = np.zeros((1, 2, 2))


def test_a_clique_is_read_back_with_its_axes_as_they_came() -> None:
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(3, 2)), rng.normal(size=(2, 4)), rng.normal(size=(3, 2))]
    problem = MarginalProjection.graph(["ab", "bc", "db"], tables)
    for c, table in enumerate(tables):
        assert np.array_equal(problem.clique(problem.m, c), table[None])
    assert set(problem.tables(problem.m)) == {"tables of (3, 2) labels", "tables of (2, 4) labels"}


def test_a_point_may_be_given_by_the_names_of_its_tables() -> None:
    rng = np.random.default_rng(1)
    problem = MarginalProjection.chains([2, 1], rng.normal(size=(1, 2, 2)), rng.normal(size=(3, 2)))
    tables = problem.tables(problem.m)
    assert np.array_equal(problem.as_point(tables)["a"], problem.m)


def test_a_repaired_table_is_in_the_polytope_and_a_member_stays() -> None:
    problem, rng = tree(0), np.random.default_rng(1)
    point = problem.repair({"a": rng.normal(size=problem.structure.n_entries)})
    assert max(problem.residuals(point).values()) <= ROUNDING
    np.testing.assert_allclose(problem.repair(point)["a"], point["a"], atol=ROUNDING)


def test_each_way_of_leaving_the_polytope_has_a_name() -> None:
    problem = MarginalProjection.chains([2], EDGE, np.zeros((2, 2)), scale=2.0)
    a = np.array([1.0, 1.0, 2.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    assert max(problem.residuals({"a": a}).values()) == 0
    assert problem.residuals({"a": a - np.eye(8)[1]})["tables that do not sum to z"] == pytest.approx(0.5)
    assert problem.residuals({"a": a + np.eye(8)[4] - 2 * np.eye(8)[5]})["a below 0"] == pytest.approx(1.0)
    swapped = a[[0, 1, 3, 2, 4, 5, 6, 7]]
    assert problem.residuals({"a": swapped})["marginals that disagree"] == pytest.approx(1.0)


def test_the_local_polytope_asks_for_no_independence_and_could_not() -> None:
    """E.1 and E.3 say that the image satisfies the graph's conditional independences. On the chain x - y - z let half
    of the mass be on (0, 0, 0) and half on (1, 0, 1). The marginals of the edges lie in the polytope, though x and z
    are not independent given y; and it is the mean of two distributions under which they are."""
    labellings = [(0, 0, 0), (1, 0, 1)]
    joint = np.zeros((2, 2, 2))
    alone = []
    for labels in labellings:
        corner = np.zeros((2, 2, 2))
        corner[labels] = 1.0
        alone.append(corner)
        joint += corner / 2
    problem = MarginalProjection.chains([3], np.stack((joint.sum(axis=2), joint.sum(axis=0))))
    assert max(problem.residuals({"a": problem.m}).values()) == 0
    np.testing.assert_allclose(cs.solve(problem).point["a"], problem.m, atol=ROUNDING)

    def independent(p: Vector) -> bool:
        """P(x, y, z) P(y) = P(x, y) P(y, z) everywhere."""
        y = p.sum(axis=(0, 2))[None, :, None]
        return bool(np.allclose(p * y, p.sum(axis=2)[:, :, None] * p.sum(axis=0)[None]))

    assert all(independent(corner) for corner in alone)
    assert not independent(joint)


def test_a_sum_that_is_z_only_up_to_rounding_is_paid_for() -> None:
    """0.1 + 0.2 + 0.7 is 1 in floating point and less in real arithmetic, so that its value is below the optimum."""
    a = np.array([0.1, 0.2, 0.7])
    problem = BoxProjection(a + 1e6, -1.0, 1.0)
    exact = [Fraction(x) for x in problem.m.tolist()]
    off = (exact[0] + exact[1] + exact[2] - 1) / 3  # the same for every entry
    optimum = 3 * off * off / 2
    assert abs(off) < 2e6
    assert problem.primal({"a": a}).upper >= optimum
    assert problem.dual({"rho": np.array(float(off))}).lower <= optimum
