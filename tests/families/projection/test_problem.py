"""The two projection problems: what their doors refuse, their values, bounds from any witness, and repairs."""

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
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.projection.instances import box, tree

# -- the box with one equality -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"m": []}, r"m is empty, of shape \(0,\), wanted \(n,\): at least one of each"),
        ({"m": [[1.0]]}, r"m has shape \(1, 1\)"),
        ({"m": [1.0, np.nan]}, "m contains NaN or infinity"),
        ({"m": ["x", "y"]}, "m holds strings, wanted real numbers"),
        ({"d": 0.0}, "d has the entry 0, wanted positive numbers"),
        ({"d": [1.0, -2.0]}, "d has the entry -2, wanted positive numbers"),
        ({"d": [1.0]}, r"d has shape \(1,\), wanted \(2,\) or one number"),
        ({"s": [1.0, np.inf]}, "s contains NaN or infinity"),
        ({"s": True}, "s holds booleans, wanted real numbers"),
        ({"lower": np.nan}, "lower contains NaN"),
        ({"lower": [0.0, 2.0], "upper": 1.0}, "the bounds of entry 1 are 2 and 1, wanted lower <= upper"),
        ({"lower": np.inf}, "the bounds of entry 0 are inf and inf"),
        ({"upper": -np.inf, "lower": -np.inf}, "the bounds of entry 0 are -inf and -inf"),
        ({"z": 3.0, "upper": 1.0}, "z is 3, wanted a value that <s, a> takes inside the bounds: from 0 to 2"),
        ({"z": -1.0}, "from 0 to inf"),
        ({"z": 1.0, "s": 0.0}, "from 0 to 0"),
        ({"z": [1.0, 1.0]}, r"z is \[1.0, 1.0\], wanted a finite number"),
        ({"z": np.inf}, "z is inf, wanted a finite number"),
    ],
)
def test_the_door_of_the_box_says_what_came_and_what_was_wanted(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BoxProjection(**{"m": [1.0, 2.0], **changes})


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


def test_a_problem_does_not_share_its_callers_arrays() -> None:
    m = np.ones(3)
    problem = BoxProjection(m)
    m[0] = 7.0
    assert problem.m[0] == 1.0


@pytest.mark.parametrize("seed", range(8))
def test_any_rho_gives_a_lower_bound_and_the_root_gives_the_optimum(seed: int) -> None:
    problem = box(seed)
    a, rho = project_with_multiplier(problem.m, problem.lower, problem.upper, problem.s, problem.z, problem.d)
    optimum = problem.primal({"a": a})
    assert problem.dual({"rho": np.array(rho)}) == pytest.approx(optimum, abs=ROUNDING)
    rng = np.random.default_rng(seed)
    for other in rho + rng.normal(size=20) * 10.0 ** rng.integers(-4, 8, size=20):
        assert problem.dual({"rho": np.array(other)}) <= optimum + ROUNDING * max(1.0, abs(other))


def test_the_dual_of_the_box_is_the_minimum_of_the_lagrangian() -> None:
    problem = box(3)
    rng = np.random.default_rng(0)
    rho = 0.7
    value = problem.dual({"rho": np.array(rho)})
    for _ in range(200):
        a = np.clip(rng.normal(size=6) * 3, problem.lower, problem.upper)
        assert value <= problem.primal({"a": a}) + rho * (problem.total(a) - problem.z) + ROUNDING
    near = problem.at(rho)
    assert value == pytest.approx(problem.primal({"a": near}) + rho * (problem.total(near) - problem.z))


@given(st.integers(0, 500), st.floats(1e-9, 1e9))
def test_a_repaired_point_is_feasible_whatever_it_was(seed: int, size: float) -> None:
    problem = box(seed)
    point = problem.repair({"a": size * np.random.default_rng(seed).normal(size=6)})
    assert max(problem.residuals(point).values()) <= ROUNDING * max(1.0, size)
    assert (point["a"] >= problem.lower).all()
    assert (point["a"] <= problem.upper).all()


def test_a_feasible_point_is_left_as_it_is() -> None:
    problem = BoxProjection.simplex([3.0, 1.0, 0.0])
    point = {"a": np.array([0.25, 0.75, 0.0])}
    assert max(problem.residuals(point).values()) == 0
    assert np.array_equal(problem.repair(point)["a"], point["a"])


def test_each_way_of_being_infeasible_has_a_name() -> None:
    problem = BoxProjection(np.zeros(2), 0.0, 1.0, 1.0, 1.0)
    residuals = problem.residuals({"a": np.array([-0.5, 1.25])})
    assert list(residuals.values()) == pytest.approx([0.5, 0.25, 0.25])


# -- the local marginal polytope ---------------------------------------------------------------------------------------

EDGE = np.zeros((1, 2, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "cliques is empty, wanted a list of at least one clique"),
        (([("a",)], []), "m has 0 entries, wanted 1: one table a clique"),
        (([("a", "a")], [np.zeros((2, 2))]), "at least one variable, each once"),
        (([()], [np.zeros(())]), "at least one variable"),
        (([("a",)], [np.zeros((1, 2, 2))]), r"m\[0\] has shape \(1, 2, 2\)"),
        (([("a",)], [np.zeros(0)]), r"m\[0\] has shape \(0,\)"),
        (([("a", "b"), ("b",)], [np.zeros((2, 2)), np.zeros(3)]), "gives 'b' 3 labels, an earlier table gives it 2"),
        (([("a",), ("b",)], [np.zeros((4, 2)), np.zeros((3, 2))]), r"m\[1\] has shape \(3, 2\)"),
        (([("a",)], [[1.0, np.nan]]), r"m\[0\] contains NaN"),
        (([("a",)], [[1.0, 2.0]], 0.0), "d holds 0, wanted positive numbers"),
        (([("a",)], [[1.0, 2.0]], [1.0, 1.0]), r"d has shape \(2,\), wanted one number or \(1,\): one for each of"),
        (([("a",)], [[1.0, 2.0]], 1.0, -1.0), "scale holds -1, wanted positive numbers"),
    ],
)
def test_the_door_of_a_graph_says_what_came_and_what_was_wanted(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MarginalProjection.graph(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lengths": [], "edge": EDGE}, r"lengths is empty, of shape \(0,\), wanted \(chains,\): at least one of each"),
        ({"lengths": [3], "edge": EDGE}, r"edge has shape \(1, 2, 2\), wanted \(2, 2, 2\)"),
        ({"lengths": [2, 1], "edge": EDGE}, "lengths has a chain of 1 position, wanted node tables too"),
        ({"lengths": [2], "edge": EDGE, "node": np.zeros((1, 2))}, r"node has shape \(1, 2\), wanted \(2, 2\)"),
        ({"lengths": [2], "edge": EDGE * np.nan}, "edge contains NaN"),
        ({"lengths": [2], "edge": EDGE, "scale": [1.0, 2.0]}, r"scale has shape \(2,\)"),
    ],
)
def test_the_door_of_chains_says_what_came_and_what_was_wanted(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MarginalProjection.chains(**arguments)


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
    with pytest.raises(ValueError, match=r"point\['node'\] has shape"):
        problem.as_point({**tables, "node": np.zeros(3)})
    with pytest.raises(ValueError, match=r"point has the keys \['x'\], wanted a or node and edge"):
        problem.as_point({"x": 1})
    with pytest.raises(ValueError, match=r"a has shape \(3,\)"):
        problem.as_point(np.zeros(3))


def test_the_value_is_the_weighted_distance() -> None:
    problem = MarginalProjection.graph([("a",), ("b",)], [[1.0, 2.0], [0.0, 3.0]], d=[1.0, 2.0])
    assert problem.primal({"a": np.zeros(4)}) == pytest.approx(0.5 * 5 + 0.5 * 4 * 9)


@pytest.mark.parametrize("seed", range(4))
def test_any_multipliers_give_a_lower_bound_on_any_feasible_value(seed: int) -> None:
    problem, rng = tree(seed), np.random.default_rng(seed)
    size = problem.structure.n_multipliers
    best = cs.solve(problem, tol=HIGH)
    assert best.status is cs.Status.OPTIMAL
    for scale in (0.0, 1e-3, 1.0, 1e4):
        bound = problem.dual({"xi": scale * rng.normal(size=size)})
        assert bound <= best.primal + ROUNDING * max(1.0, scale * size)


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


def test_a_projection_predicts_nothing_and_says_so() -> None:
    box = BoxProjection.simplex([0.3, 0.9])
    tables = MarginalProjection.graph([("a",)], [np.array([0.5, 1.0])])
    for problem, point in ((box, np.zeros(2)), (tables, np.zeros(2))):
        with pytest.raises(ValueError, match="has no prediction: it learns nothing from examples"):
            problem.predict(point)


@pytest.mark.parametrize("name", [np.nan, -np.inf, np.datetime64("2020"), np.timedelta64(1), 1j, [1], None])
def test_a_variable_is_called_by_text_or_a_finite_number(name: Any) -> None:
    with pytest.raises(ValueError, match=r"cliques\[0\] holds .*, wanted names or numbers of variables"):
        MarginalProjection.graph([["a", name]], [np.ones((2, 2))])
