"""Limits inside a round: solvers over oracles that sleep, the deadline, and runs cut before the first iterate."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.gaussian_process import FunctionSpaceLBFGS, GaussianProcessSequences
from convexstruct.families.generative_margin import EntropicProximal, GenerativeMargin, ProximalBundle, ProximalRSD
from convexstruct.families.regularized_risk import RegularizedRisk
from convexstruct.families.structured_svm import (
    BlockFrankWolfe,
    DualCoordinateAscent,
    ExponentiatedGradient,
    Mira,
    NSlack,
    OneSlack,
    Perceptron,
    StructuredSVM,
    Subgradient,
    TemperedPools,
)
from convexstruct.families.structured_svm.solvers import pool_qp
from convexstruct.families.structured_svm.solvers.example_blocks import ExampleBlock
from convexstruct.features.counts import bounds

#: Seconds that a call of the oracle takes, the limit, and by what it may be exceeded: some calls, and a certificate.
CALL, LIMIT, MORE = 0.02, 0.3, 0.4


def slowly(function: Any) -> Any:
    """The same function, which takes so long."""

    def slow(*arguments: Any, **more: Any) -> Any:
        time.sleep(CALL)
        return function(*arguments, **more)

    return slow


@dataclass(frozen=True, eq=False)
class Sleeping:
    """Anything whose methods take so long."""

    inner: Any
    names: tuple[str, ...]

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        return slowly(found) if name in self.names else found


@bounds.excess.register
def _(features: Sleeping, theta: Vector) -> Any:
    return bounds.excess(features.inner, theta)


@bounds.moments.register
def _(features: Sleeping, theta: Vector, loss_weight: float) -> bounds.Moments:
    return bounds.moments(features.inner, theta, loss_weight)


def svm() -> StructuredSVM:
    rng = np.random.default_rng(0)
    labels = [rng.integers(0, 3, 5) for _ in range(60)]
    problem = StructuredSVM.read([rng.normal(size=(5, 4)) for _ in labels], labels, 3, C=10.0)
    vars(problem)["oracle"] = Sleeping(problem.oracle, ("sums", "sample"))  # where the cached property is looked up
    return problem


def hmm() -> GenerativeMargin:
    rng = np.random.default_rng(0)
    problem = GenerativeMargin.hmm(
        [rng.integers(0, 3, 8) for _ in range(10)], [rng.integers(0, 3, 8) for _ in range(10)], 3, 3, eta=0.3
    )
    return replace(problem, features=Sleeping(problem.features, ("best", "expected")))


def timed(problem: Any, solver: Any, limit: float = LIMIT) -> tuple[Any, float]:
    begin = time.perf_counter()
    solution = solve(problem, solver, tol=1e-12, time_limit=limit)
    return solution, time.perf_counter() - begin


@pytest.mark.parametrize(
    "solver",
    [
        TemperedPools(steps=10_000), BlockFrankWolfe(), DualCoordinateAscent(), ExponentiatedGradient(groups=5),
        NSlack(), OneSlack(), Subgradient(), Perceptron(passes=10_000), Mira(passes=10_000),
    ],
    ids=lambda solver: type(solver).__name__,
)  # fmt: skip
def test_a_long_round_of_an_svm_solver_ends_at_the_limit(solver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in ((StructuredSVM, "violated"), (ExampleBlock, "predict")):
        monkeypatch.setattr(owner, name, slowly(getattr(owner, name)))
    solution, seconds = timed(svm(), solver)
    assert solution.status is Status.TIME_LIMIT
    assert seconds <= LIMIT + MORE
    assert np.isfinite(solution.primal)


@pytest.mark.parametrize(
    "solver", [EntropicProximal(newton=0), ProximalBundle(), ProximalRSD()], ids=lambda solver: type(solver).__name__
)
def test_a_long_round_of_a_generative_solver_ends_at_the_limit(solver: Any) -> None:
    solution, seconds = timed(hmm(), solver)
    assert solution.status is Status.TIME_LIMIT
    assert seconds <= LIMIT + MORE
    assert np.isfinite(solution.gap)


def test_a_long_line_search_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    problem = GaussianProcessSequences.read([rng.normal(size=(5, 2))] * 3, [rng.integers(0, 2, 5)] * 3, 2)
    monkeypatch.setattr(GaussianProcessSequences, "multiply", slowly(GaussianProcessSequences.multiply))
    solution, seconds = timed(problem, FunctionSpaceLBFGS())
    assert solution.status in (Status.TIME_LIMIT, Status.STALLED)
    assert seconds <= LIMIT + MORE


def test_before_the_first_iterate_the_trivial_point_is_returned_with_its_certificate() -> None:
    class Slow:
        def iterate(self, problem: Any, start: Any = None) -> Any:
            while True:
                time.sleep(CALL)
                deadline.check()
            yield

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.sign(rng.normal(size=20))
    solution, seconds = timed(RegularizedRisk.binary(X, y, 0.1), Slow())
    assert seconds <= LIMIT + MORE
    assert solution.status is Status.TIME_LIMIT
    assert solution.message == "stopped before its first iterate: this is the trivial point"
    assert (solution.primal, solution.lower_bound) == (pytest.approx(1.0), pytest.approx(0.0))


def test_the_interior_point_method_of_the_pools_asks_at_each_step() -> None:
    columns = pool_qp.PoolColumns(np.zeros((2, 1)), np.array([0.0, 1.0]), np.zeros(2, dtype=np.intp), None)
    with deadline.within(0.0), pytest.raises(deadline.DeadlinePassed):
        pool_qp.solve_pools(columns, np.ones(1), 1.0, np.zeros(1), 0.0)


def test_of_two_deadlines_the_earlier_holds_and_each_ends_with_its_block() -> None:
    assert deadline.left() == np.inf
    deadline.check()
    with deadline.within(100.0):
        with deadline.within(1000.0):
            assert deadline.left() <= 100.0
        with deadline.within(None):
            assert deadline.left() <= 100.0
        with deadline.without():
            assert deadline.left() == np.inf
        with deadline.within(0.0), pytest.raises(deadline.DeadlinePassed):
            deadline.check()
        assert 99.0 < deadline.left() <= 100.0
    assert deadline.left() == np.inf


def test_a_deadline_is_that_of_one_thread() -> None:
    seen: list[float] = []
    with deadline.within(0.0):
        thread = threading.Thread(target=lambda: seen.append(deadline.left()))
        thread.start()
        thread.join()
    assert seen == [np.inf]
