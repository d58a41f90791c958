"""Risks with more features than examples, first solved in row space: against a conic solver, and by how few products
with X are left."""

from __future__ import annotations

import tracemalloc
from contextlib import ExitStack
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.core.certificates import relative_gap
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.semismooth_newton import proximal_point, row_space
from convexstruct.families.regularized_risk.solvers.semismooth_newton.proximal_point import SemismoothNewton
from convexstruct.families.regularized_risk.solvers.semismooth_newton.row_space import in_row_space
from convexstruct.models.regularized_risk.risk import primal
from convexstruct.tolerances import HIGH
from tests.families.regularized_risk.solvers.semismooth_newton.instances import KINDS, random_problem
from tests.reference import optimum

DENSE = [kind for kind in KINDS if kind not in ("sparse", "multilabel")]
#: Of the optimum of a problem whose products are rounded to single precision.
SINGLE = 1e-4


@pytest.fixture(autouse=True)
def _where_few_steps_suffice_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proximal_point, "LEAST_LIFT", 0.0)


@pytest.mark.parametrize("kind", DENSE)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_optimum_in_row_space_is_that_of_the_conic_solver_and_few_steps_are_left(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = random_problem(kind, 24, 60, 1e-2, 1.0, seed)
    best = optimum(primal(problem)).value
    small = in_row_space(problem)
    assert small is not None
    assert small.X.shape == (24, 24)
    assert solve(small).primal == pytest.approx(best, rel=SINGLE)
    found = solve(problem, tol=HIGH.gap / 100)
    assert found.status is Status.OPTIMAL
    assert found.primal == pytest.approx(best, rel=HIGH.gap)
    monkeypatch.setattr(row_space, "MOST_ROWS", 0)
    assert len(found.trace.seconds) < len(solve(problem, tol=HIGH.gap / 100).trace.seconds)


@pytest.mark.parametrize("name", ["copies", "zeros", "scaled", "far"])
def test_rows_that_repeat_vanish_or_differ_in_size_are_certified(name: str) -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 90)), np.arange(30) % 2
    if name == "copies":
        X = X[np.arange(30) // 3]
    elif name == "zeros":
        X[::4] = 0.0
    elif name == "scaled":
        X *= 10.0 ** rng.uniform(-8, 3, size=(30, 1))
    else:
        X += 100.0
    problem = RegularizedRisk.binary(X, y, 0.1)
    assert in_row_space(problem) is not None
    found = solve(problem)
    assert found.status is Status.OPTIMAL
    assert found.primal == pytest.approx(optimum(primal(problem)).value, rel=1e-5)


def test_sets_that_are_sparse_or_tall_stay_as_they_are() -> None:
    rng, y = np.random.default_rng(0), np.arange(40) % 2
    assert in_row_space(RegularizedRisk.binary(rng.normal(size=(40, 79)), y, 0.1)) is None
    assert in_row_space(RegularizedRisk.binary(sp.csr_array(rng.normal(size=(40, 80))), y, 0.1)) is None
    same = RegularizedRisk.binary(np.full((40, 80), 1.0), y, 0.1)
    assert in_row_space(same) is not None  # by RIDGES of the row_space: X X' has the rank 1


def test_what_row_space_found_is_kept_where_the_time_ends_inside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem("binary", 24, 60, 1e-2, 1.0, 0)
    with ExitStack() as stack:

        def watched(*values: float) -> float:
            gap = relative_gap(*values)
            if gap <= 1e-2:
                stack.enter_context(deadline.within(0.0))
            return gap

        monkeypatch.setattr(proximal_point, "relative_gap", watched)
        rounds = SemismoothNewton().iterate(problem)
        _, found = islice(rounds, 2)
        assert 0 < found.primal - found.lower_bound <= 0.1 * found.primal
        with pytest.raises(deadline.DeadlinePassed):
            next(rounds)


def test_row_space_ends_where_its_gap_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """By ROWS_ROUNDS of the proximal_point."""
    monkeypatch.setattr(proximal_point, "ROWS_GAP", -1.0)
    monkeypatch.setattr(proximal_point, "ROWS_ROUNDS", 20)
    assert solve(random_problem("multiclass", 24, 60, 1e-2, 1.0, 0)).status is Status.OPTIMAL


def test_the_copy_in_single_precision_is_of_some_columns_at_a_time() -> None:
    """COLUMNS of the row_space."""
    X = np.random.default_rng(0).normal(size=(50, 50_000))
    problem = RegularizedRisk.binary(X, np.arange(50) % 2, 0.1)
    assert problem.row_norms.shape == (50,)
    tracemalloc.start()
    assert in_row_space(problem) is not None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * X.nbytes
