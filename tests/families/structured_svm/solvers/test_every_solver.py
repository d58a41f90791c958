"""What the solvers of the family have in common: brackets, dual values that never fall, starts, one label, options."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Solver
from convexstruct.core.solution import Status
from convexstruct.families.structured_svm import (
    FAMILY,
    BlockFrankWolfe,
    ColumnGeneration,
    ConcaveConvex,
    DualCoordinateAscent,
    ExcessiveGap,
    ExponentiatedGradient,
    LaRank,
    Mira,
    NSlack,
    OneSlack,
    Perceptron,
    RelaxedMargin,
    Subgradient,
)
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.structured_svm.solvers.references import holds, optimum, reference
from tests.models.structured_svm.instances import INSTANCES, svm

#: Solvers that end at the optimum, with the rounds that they may take.
EXACT: list[tuple[Solver, int]] = [
    (ColumnGeneration(), 200), (ColumnGeneration(stages=0), 200), (NSlack(), 200), (NSlack(block=1), 200),
    (OneSlack(), 1000), (OneSlack(cache=0), 1000), (DualCoordinateAscent(), 200), (LaRank(), 1000),
    (LaRank(old=0, optimise=0), 2000),
]  # fmt: skip
#: Slower ones, of which `families/test_solvers` and their own tests say how near they come.
SLOW: list[Solver] = [
    BlockFrankWolfe(block=1), BlockFrankWolfe(block=None), Subgradient(), Subgradient(block=3),
    ExponentiatedGradient(), ExponentiatedGradient(groups=3),
]  # fmt: skip
#: Those that certify.
BOUNDED = [*(solver for solver, _ in EXACT), *SLOW]
#: Online learners, which minimise no stated problem.
ONLINE: list[Solver] = [Perceptron(passes=3), Mira(passes=2), Mira(passes=2, k=2), Mira(augmented=True, average=False)]


def said(value: Any) -> str:
    return repr(value).replace("convexstruct.", "")[:60]


def test_no_solver_is_forgotten() -> None:
    here = {type(solver) for solver in [*BOUNDED, *ONLINE]}
    assert here | {ConcaveConvex, ExcessiveGap, RelaxedMargin} == set(FAMILY.solvers)  # for problems of their own


def some(solvers: list[Any], step: int) -> list[Any]:
    """Each solver with every ``step``-th instance, begun at another one; `families/test_solvers` has the cases."""
    return [(name, *of) for at, of in enumerate(solvers) for name in list(INSTANCES)[at % step :: step]]


@pytest.mark.parametrize(("name", "solver", "rounds"), some(EXACT, 5), ids=said)
def test_the_optimum_is_that_of_all_labellings_written_out(name: str, solver: Solver, rounds: int) -> None:
    problem, expected = reference(name)
    solution = solve(problem, solver, max_iterations=rounds)
    assert solution.status is Status.OPTIMAL
    holds(solution, expected)


@pytest.mark.parametrize(("name", "solver"), some([(one,) for one in ONLINE], 3), ids=said)
def test_an_online_learner_claims_nothing_and_its_w_bounds_the_optimum_from_above(name: str, solver: Solver) -> None:
    problem = INSTANCES[name]()
    solution = solve(problem, solver)
    assert solution.status is Status.UNCERTIFIED
    assert solution.dual_point is None
    assert solution.lower_bound == -np.inf
    assert problem.residuals(solution.point).get("w_edge below 0", 0.0) == 0.0


ASCENTS = [
    BlockFrankWolfe(block=1, average=False), BlockFrankWolfe(block=2), BlockFrankWolfe(block=None),
    DualCoordinateAscent(sweeps=2), ExponentiatedGradient(), ExponentiatedGradient(groups=2), NSlack(inner=0.0),
]  # fmt: skip


@pytest.mark.parametrize("solver", ASCENTS, ids=said)
@settings(max_examples=5, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), scaling=st.sampled_from(["margin", "slack"]), associative=st.booleans())
def test_the_dual_value_never_falls_and_the_witness_has_it(
    solver: Solver, seed: int, scaling: Any, associative: bool
) -> None:
    if isinstance(solver, ExponentiatedGradient):
        scaling = "margin"
    problem = svm(seed, (1, 2, 3), 2, scaling=scaling, associative=associative, weighted=True)
    iterates = list(islice(solver.iterate(problem), 8))
    bounds, last = np.array([iterate.lower_bound for iterate in iterates]), iterates[-1]
    rounding = HIGH.gap * 1e-2 if isinstance(solver, NSlack) else ROUNDING
    assert (np.diff(bounds) >= -rounding * (1 + np.abs(bounds[1:]))).all()
    witness = last.dual_point() if callable(last.dual_point) else last.dual_point
    certificate = certify(problem, last.point, witness)
    assert certificate.lower_bound >= last.lower_bound - ROUNDING * (1 + abs(last.lower_bound))
    assert certificate.primal == pytest.approx(last.primal)
    assert last.lower_bound <= optimum(problem) * (1 + HIGH.gap) + ROUNDING


@pytest.mark.parametrize("solver", [*BOUNDED, ExcessiveGap()], ids=said)
def test_without_features_the_optimum_is_the_greatest_loss(solver: Solver) -> None:
    problem = StructuredSVM.read([np.zeros((1, 2))] * 3, [[0], [1], [1]], 2, C=2.0)
    solution = solve(problem, solver, max_iterations=10)
    assert solution.status is Status.OPTIMAL
    holds(solution, 6.0)


@pytest.mark.parametrize("solver", [*BOUNDED, ExcessiveGap()], ids=said)
def test_features_whose_squares_overflow_leave_the_bracket_of_w_0(solver: Solver) -> None:
    rng, length = np.random.default_rng(0), 3
    rows = [1e157 * rng.normal(size=(length, 2)) for _ in range(4)]
    problem = StructuredSVM.read(rows, [np.arange(length) % 2, np.ones(length, int)] * 2, 2, C=1.0)
    solution = solve(problem, solver, max_iterations=10)
    assert not solution.status.solved
    assert solution.lower_bound <= solution.primal <= 4.0 * length * (1 + ROUNDING)
    assert solution.message
    if type(solver) in (ColumnGeneration, ExcessiveGap, ExponentiatedGradient):
        assert "features overflow; node feature" in solution.message
