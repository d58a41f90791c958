"""Limits inside a round: solvers over slow oracles, the deadline, and runs cut before the first iterate.

Time is counted, not measured: each call of an oracle moves a clock of the test's own, so that no load of the machine
changes what happens.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from convexstruct import deadline
from convexstruct.core.best_points import BOTH_SHARE, GRACE_SECONDS
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.gaussian_process import FunctionSpaceLBFGS, GaussianProcessSequences
from convexstruct.families.generative_margin import EntropicProximal, GenerativeMargin, ProximalRSD
from convexstruct.families.structured_svm import (
    BlockFrankWolfe,
    ColumnGeneration,
    DualCoordinateAscent,
    ExponentiatedGradient,
    LaRank,
    Mira,
    NSlack,
    OneSlack,
    Perceptron,
    StructuredSVM,
    Subgradient,
)
from convexstruct.families.structured_svm.solvers.example_blocks import ExampleBlock
from convexstruct.inference.differences import Marginals
from tests.core.squares import Square, iterate

#: Seconds that a call of the oracle takes, the limit, and by what it may be exceeded: some calls, and a certificate.
CALL, LIMIT, MORE = 0.05, 0.3, 0.4


class Clock:
    """Stands for `time.perf_counter`: it goes forward by `CALL` whenever a slow function is called."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def slowly(self, function: Any) -> Any:
        """The same function, which takes so long."""

        def slow(*arguments: Any, **more: Any) -> Any:
            self.now += CALL
            return function(*arguments, **more)

        return slow

    def slow_down(self, patch: pytest.MonkeyPatch, owner: type, *names: str) -> None:
        for name in names:
            patch.setattr(owner, name, self.slowly(getattr(owner, name)))

    def timed(self, problem: Any, solver: Any) -> tuple[Any, float]:
        """The solution within `LIMIT`, and how long it took by this clock."""
        begin = self.now
        solution = solve(problem, solver, tol=1e-12, time_limit=LIMIT)
        return solution, self.now - begin


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time, "perf_counter", found)
    return found


def svm() -> StructuredSVM:
    rng = np.random.default_rng(0)
    labels = [rng.integers(0, 3, 5) for _ in range(60)]
    return StructuredSVM.read([rng.normal(size=(5, 4)) for _ in labels], labels, 3, C=10.0)


def hmm() -> GenerativeMargin:
    symbols, states = np.random.default_rng(0).integers(0, 3, (2, 10, 8))
    return GenerativeMargin.hmm(list(symbols), list(states), 3, 3, eta=0.3)


def process() -> GaussianProcessSequences:
    rng = np.random.default_rng(0)
    return GaussianProcessSequences.read([rng.normal(size=(5, 2))] * 3, [rng.integers(0, 2, 5)] * 3, 2)


#: What is slow in the rounds of solvers of these problems.
OF_SVM = [(StructuredSVM, "most_violated"), (ExampleBlock, "predict"), (type(svm().oracle), "sums", "sample")]
OF_HMM, OF_PROCESS = [(type(hmm().features), "best", "expected")], [(GaussianProcessSequences, "multiply")]
SVM_SOLVERS = [
    ColumnGeneration(steps=10_000), BlockFrankWolfe(), DualCoordinateAscent(), ExponentiatedGradient(groups=5),
    LaRank(), NSlack(), OneSlack(), Subgradient(), Perceptron(passes=10_000), Mira(passes=10_000),
]  # fmt: skip
LONG: list[tuple[Any, Any, Any]] = [
    *((svm, OF_SVM, solver) for solver in SVM_SOLVERS),
    *((hmm, OF_HMM, solver) for solver in (EntropicProximal(newton=False), ProximalRSD())),
    (process, OF_PROCESS, FunctionSpaceLBFGS()),  # a long line search
]


@pytest.mark.parametrize(("make", "slow", "solver"), LONG, ids=[type(solver).__name__ for _, _, solver in LONG])
def test_a_long_round_ends_at_the_limit(
    make: Any, slow: Any, solver: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make()
    for owner, *names in slow:
        clock.slow_down(monkeypatch, owner, *names)
    solution, seconds = clock.timed(problem, solver)
    assert solution.status is Status.TIME_LIMIT or (make is process and solution.status is Status.STALLED)
    assert seconds <= LIMIT + MORE
    assert np.isfinite(solution.primal)
    if isinstance(solver, Perceptron | Mira):  # cut in their first pass, they return what they have learnt
        assert solution.iterations == 1
        assert solution.point["w"].any()


def with_oracle(clock: Clock, n: int) -> Any:
    """Two labels over n inputs, by an oracle that is slow."""
    xs = np.random.default_rng(0).normal(size=(n, 3))

    def best(x: Any, y: Any, w: Any) -> Any:
        clock.now += CALL
        scores = [joint(x, [k]) @ w + (0.0 if y is None else float(k != y[0])) for k in range(2)]
        return [int(np.argmax(scores))]

    def joint(x: Any, y: Any) -> Any:
        return np.concatenate([x * (y[0] == k) for k in range(2)])

    examples = [(x, [int(x.sum() > 0)]) for x in xs]
    return StructuredSVM.from_oracle(joint, lambda y, other: float(y[0] != other[0]), best, examples, exact=True, C=1.0)


ASKING = [ColumnGeneration(), NSlack(), OneSlack(), BlockFrankWolfe(block=1), LaRank(), Subgradient()]


@pytest.mark.parametrize("solver", ASKING, ids=lambda solver: type(solver).__name__)
@pytest.mark.parametrize("n", [4, 30])
def test_an_oracle_is_not_asked_where_the_limit_is_near_and_the_bounds_so_far_are_kept(
    n: int, solver: Any, clock: Clock
) -> None:
    """Of 4 examples the limit leaves time for one pass, of 30 for none."""
    solution, seconds = clock.timed(with_oracle(clock, n), solver)
    assert solution.status is Status.TIME_LIMIT
    assert seconds <= LIMIT + 1e-9
    assert solution.lower_bound >= 0.0
    assert solution.primal == (pytest.approx(n) if n == 4 else np.inf)
    assert ("no time was left to certify an upper bound: raise time_limit" in solution.message) == (n == 30)


def test_a_last_certificate_that_takes_too_long_is_left(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = svm()
    clock.slow_down(monkeypatch, StructuredSVM, "most_violated")
    clock.slow_down(monkeypatch, Marginals, "add_gibbs")  # 60 measures: 3 s
    solution, seconds = clock.timed(problem, ExponentiatedGradient(groups=60))
    assert seconds <= LIMIT + BOTH_SHARE * GRACE_SECONDS + MORE
    assert solution.status is Status.TIME_LIMIT
    assert np.isfinite(solution.primal)
    assert solution.lower_bound == -np.inf
    assert "raise time_limit" in solution.message
    assert np.isfinite(certify(problem, solution.point).primal)


def test_before_the_first_iterate_the_trivial_point_is_returned_with_its_certificate(clock: Clock) -> None:
    class Slow:
        def iterate(self, problem: Any, start: Any = None) -> Any:
            while True:
                clock.now += CALL
                deadline.check()
            yield

    solution, seconds = clock.timed(Square(), Slow())
    assert seconds <= LIMIT + MORE
    assert solution.status is Status.TIME_LIMIT
    assert solution.message == "stopped before its first iterate: this is the trivial point"
    assert (solution.primal, solution.lower_bound) == (1.0, 0.0)


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
    seen: list[float] = []
    with deadline.within(0.0):  # of this thread alone
        thread = threading.Thread(target=lambda: seen.append(deadline.left()))
        thread.start()
        thread.join()
    assert seen == [np.inf]


@pytest.mark.parametrize("round_seconds", [1.3, 2.5])
def test_a_bound_that_takes_as_long_as_a_round_is_certified_before_another_round_leaves_no_time(
    round_seconds: float, clock: Clock
) -> None:
    """Within a limit of 3 s: begun at the limit, it would not be done in time."""

    class Slow(Square):
        def primal(self, point: Any) -> float:
            for _ in range(10):
                deadline.check()
                clock.now += 0.9 * round_seconds / 10 if round_seconds < 2 else 0.14
            return super().primal(point)

    class Rounds:
        def iterate(self, problem: Square, start: Any = None) -> Any:
            for k in range(1, 100):
                for _ in range(10):
                    deadline.check()
                    clock.now += round_seconds / 10
                yield iterate(1 / k, 1 / k)

    found = solve(Slow(), Rounds(), tol=1e-12, time_limit=3.0)
    assert found.status is Status.TIME_LIMIT
    assert (found.iterations, found.primal) == ((2, 1.25) if round_seconds < 2 else (1, 2.0))
    assert found.lower_bound == 2.0 - found.primal
    assert clock.now <= 3.0 + GRACE_SECONDS
