from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st

from convexstruct.models import Formulation
from convexstruct.tolerances import HIGH
from convexstruct.verification.cases import select
from convexstruct.verification.cone_program import benchmark_format, compiled, factor, outside
from convexstruct.verification.export_cones import Stated, state
from tests.verification import benchmark_format as foreign

#: Small programs of every family, with every cone, both senses, a constant, and quadratic objectives.
SMALL = (
    "gp-flat", "hmm-ties", "pl-coin", "hidden-markov-length-one", "box-planted", "tables-loop", "risk-planted",
    "svm-ties", "planted-points",
)  # fmt: skip


def stated(name: str) -> Stated:
    (case,) = select(name)
    return state(case, 0)


@pytest.mark.parametrize("name", SMALL)
def test_read_back_and_solved_the_optimum_is_in_its_bracket(name: str) -> None:
    found = stated(name)
    file = foreign.read(benchmark_format(compiled(found.formulation), ["a comment"]))
    lower, upper = found.bracket()
    value = foreign.solved(file)
    assert lower - HIGH.gap * abs(value) <= value <= upper + HIGH.gap * abs(value)


def test_the_small_programs_have_every_cone_and_both_senses() -> None:
    programs = [compiled(stated(name).formulation) for name in SMALL]
    kinds = {kind for program in programs for kind, _, _ in program.cones.blocks}
    assert kinds == {"zero", "nonnegative", "second-order", "semidefinite", "exponential"}
    assert {program.maximise for program in programs} == {True, False}
    assert any(program.offset for program in programs)


def small() -> Formulation:
    """maximise x_0 - 1 over e^(x_0) <= x_1 <= 2: ln 2 - 1, with one cone of each kind that is not linear."""
    x = cp.Variable(2, name="x")
    bounds = [cp.ExpCone(x[0], cp.Constant(1.0), x[1]), cp.bmat([[x[1], 1.5], [1.5, 3.0]]) >> 0, cp.SOC(10.0, x)]
    problem = cp.Problem(cp.Maximize(x[0] - 1.0), [*bounds, x[1] <= 2.0])
    return type("Small", (), {"problem": problem, "name": "small"})()  # type: ignore[no-any-return]


def test_each_line_of_a_small_file_is_as_the_manual_has_it() -> None:
    program = compiled(small())
    file = foreign.read(benchmark_format(program))
    assert (file.sense, file.constant, file.n) == ("MAX", -1.0, 2)
    assert file.cones == [("L+", 1), ("Q", 3), ("EXP", 3)]
    assert file.sizes == [2]
    rows = {row: (j, value) for (row, j), value in file.lists["ACOORD"]}
    # the exponential cone's rows are the last three: g_0 = x_1 >= g_1 e^(g_2 / g_1), g_1 = 1, g_2 = x_0
    assert rows[4] == (1, 1.0)
    assert rows[6] == (0, 1.0)
    assert ((5,), 1.0) in file.lists["BCOORD"]
    # the matrix [[x_1, 1.5], [1.5, 3]] itself, its lower triangle
    assert file.lists["HCOORD"] == [((0, 1, 0, 0), 1.0)]
    assert sorted(file.lists["DCOORD"])[0][0] == (0, 1, 0)
    assert sorted(value for _, value in file.lists["DCOORD"]) == pytest.approx([1.5, 3.0], rel=1e-15)
    assert foreign.solved(file) == pytest.approx(math.log(2.0) - 1.0, abs=1e-5)
    assert program.value(np.array([math.log(2.0), 2.0])) == pytest.approx(math.log(2.0) - 1.0)


def test_a_singular_quadratic_objective_is_stated_as_it_is() -> None:
    """CVXPY 1.9.3 with ``use_quad_obj=False`` gives 1.392 or 1.536, as its LDL factor rounds, in place of 2.141."""
    found = stated("svm-ties")
    program, (lower, upper) = compiled(found.formulation), found.bracket()
    assert program.cones.second_order == (15,)
    assert lower - 1e-6 <= foreign.solved(foreign.read(benchmark_format(program))) <= upper + 1e-6


@example(6, 3, -1)
@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_a_factor_of_any_semidefinite_matrix_gives_it_back(n: int, rank: int, seed: int) -> None:
    """Seed -1 is a singular matrix whose factors by CVXPY 1.9.3's ``decomp_quad`` miss it by 2 in an entry."""
    B = np.array([[1, -1, -1, -1, -1, 0], [1, -1, -1, 1, 0, 1], [1, 0, 1, 1, -1, 1]], dtype=float)
    if seed >= 0:
        rng = np.random.default_rng(seed)
        B = rng.normal(size=(rank, n)) * (rng.random((rank, n)) < 0.5)
    P = B.T @ B
    F = factor(sp.csr_array(P)).toarray()
    assert np.abs(F.T @ F - P).max(initial=0.0) <= 1e-13 * max(1.0, np.abs(P).max(initial=0.0)) * n
    assert len(F) <= n


@pytest.mark.parametrize(
    ("kind", "n", "s", "far"),
    [
        ("zero", 0, [0.0, -2.0], 2.0),
        ("nonnegative", 0, [1.0, -3.0], 3.0),
        ("nonnegative", 0, [1.0, 0.0], 0.0),
        ("second-order", 0, [5.0, 3.0, 4.0], 0.0),
        ("second-order", 0, [4.0, 3.0, 4.0], 1.0),
        ("semidefinite", 2, [1.0, math.sqrt(2.0), 1.0], 0.0),
        ("semidefinite", 2, [0.0, math.sqrt(2.0), 0.0], 1.0),
        ("exponential", 0, [0.0, 1.0, 1.0], 0.0),
        ("exponential", 0, [1.0, 1.0, 2.0], 1.0 - math.log(2.0)),
        ("exponential", 0, [-1.0, 0.0, 2.0], 0.0),
        ("exponential", 0, [1.0, 0.0, 2.0], 1.0),
        ("exponential", 0, [0.0, -0.5, 2.0], 0.5),
        ("exponential", 0, [1e9, 1.0, 1.0], 1e9),
        ("exponential", 0, [math.nan, 1.0, 1.0], math.inf),
    ],
)
def test_how_far_outside_a_cone(kind: str, n: int, s: list[float], far: float) -> None:
    assert outside(kind, n, np.array(s)) == pytest.approx(far, abs=1e-12)


def test_power_cones_are_refused() -> None:
    x = cp.Variable(3, name="x")
    problem = cp.Problem(cp.Minimize(x[0]), [cp.PowCone3D(x[0], x[1], x[2], 0.3)])
    with pytest.raises(ValueError, match="has power cones"):
        compiled(type("Power", (), {"problem": problem, "name": "it"})())
