"""The proximal bundle: its bounds against enumerated optima, its groups, and starts from other solvers' witnesses."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.datasets.generated.ring import EASY, ring
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers import warm_start
from convexstruct.families.generative_margin.solvers.bundle import ProximalBundle
from convexstruct.families.generative_margin.solvers.proximal_rsd import ProximalRSD
from convexstruct.models.generative_margin.enumerated import primal
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.models.generative_margin.instances import INSTANCES, hmm
from tests.reference import optimum


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("name", INSTANCES)
def test_every_bound_brackets_the_optimum_and_the_bundle_reaches_it(name: str, groups: int) -> None:
    problem = INSTANCES[name]()
    best = optimum(primal(problem)).value
    rounding = HIGH.gap * max(1.0, abs(best))
    solver = ProximalBundle(groups=groups, polish_every=5)
    for iterate in islice(solver.iterate(problem), 15):
        assert iterate.lower_bound <= best + rounding
        assert iterate.primal >= best - rounding
        assert callable(iterate.dual_point)
        certificate = certify(problem, iterate.point, iterate.dual_point())
        assert iterate.lower_bound - ROUNDING * max(1.0, abs(best)) <= certificate.lower_bound <= best + rounding
        assert certificate.primal == pytest.approx(iterate.primal, rel=ROUNDING)
    solution = solve(problem, solver, tol=HIGH, max_iterations=400)
    assert solution.status is Status.OPTIMAL, solution
    assert solution.primal == pytest.approx(best, rel=3 * HIGH.gap, abs=3 * HIGH.gap)


def test_a_few_points_kept_still_give_valid_bounds() -> None:
    problem = hmm(0)
    best = optimum(primal(problem)).value
    for most_sources in (4, 1000):
        solution = solve(problem, ProximalBundle(keep=3, most_sources=most_sources, polish_every=2), max_iterations=60)
        assert solution.lower_bound <= best + HIGH.gap * best
        assert solution.primal >= best - HIGH.gap * best
        assert solution.gap < 0.5


def gibbs_start(problem: GenerativeMargin, temperature: float) -> Solution:
    """A solution whose witness is one Gibbs distribution: uniform theta, sharpened."""
    theta = problem.uniform()
    witness = {
        "gibbs": theta[None] / temperature,
        "gibbs_loss": np.array([1.0 / temperature]),
        "gibbs_shares": np.ones((1, problem.n_examples)),
    }
    return Solution({"theta": theta}, witness, certify(problem, theta, witness), Status.STALLED, Trace())


def test_a_gibbs_mean_is_a_point_to_start_from_with_its_bound() -> None:
    problem = hmm(0)
    start = gibbs_start(problem, 2.0)
    assert start.lower_bound > 0.05 * start.primal  # the mean alone proves something
    first = next(iter(ProximalBundle().iterate(problem, start)))
    assert first.lower_bound == pytest.approx(start.lower_bound, rel=ROUNDING)
    assert callable(first.dual_point)
    assert certify(problem, first.point, first.dual_point()).lower_bound == pytest.approx(
        start.lower_bound, rel=ROUNDING
    )
    solution = solve(problem, ProximalBundle(), tol=HIGH, start=start, max_iterations=300)
    assert solution.status is Status.OPTIMAL
    assert solution.primal == pytest.approx(optimum(primal(problem)).value, rel=3 * HIGH.gap)


@pytest.mark.parametrize("groups", [1, 2])
def test_it_goes_on_from_where_another_solver_stopped(groups: int) -> None:
    """Shares that differ between the examples, of labellings cut into groups, are taken over too."""
    problem = hmm(0)
    start = solve(problem, ProximalBundle(groups=groups), tol=1e-2)
    for solver in (ProximalBundle(), ProximalRSD()):
        first = next(iter(solver.iterate(problem, start)))
        assert first.lower_bound >= start.lower_bound - ROUNDING * start.primal
        assert first.primal == pytest.approx(start.primal, rel=ROUNDING)
    assert solve(problem, ProximalBundle(), tol=HIGH, start=start, max_iterations=300).status is Status.OPTIMAL


def test_a_start_with_a_probability_of_zero_is_made_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    """By `LEAST_THETA`."""
    problem = hmm(0)
    theta = np.full(problem.dimension, -np.inf)
    theta[problem.layout.block_start] = 0.0
    start = Solution({"theta": theta}, None, certify(problem, theta), Status.STALLED, Trace())
    first = next(iter(ProximalBundle().iterate(problem, start)))
    assert np.isfinite(first.point["theta"]).all()
    assert np.isfinite(first.primal)
    monkeypatch.setattr(warm_start, "LEAST_THETA", -np.inf)
    assert not np.isfinite(next(iter(ProximalBundle().iterate(problem, start))).point["theta"]).all()


def test_labels_are_kept_in_one_byte_and_still_certify_with_many_states() -> None:
    """Indices computed from one-byte labels overflowed once 128 (state, symbol) pairs were reached."""
    data = ring(6, 8, 20, EASY, 0)
    problem = GenerativeMargin.hmm(data.symbols, data.states, 20, data.n_symbols, eta=0.1, loss="ring")
    solution = solve(problem, ProximalBundle(), tol=LOW, max_iterations=400)
    assert solution.dual_point is not None
    assert solution.dual_point["labels"].dtype == np.int8
    assert solution.status is Status.OPTIMAL, solution


def test_a_bundle_with_nothing_left_to_try_says_so() -> None:
    problem = hmm(0, n_states=1)
    solution = solve(problem, ProximalBundle(polish_every=0), tol=1e-300, max_iterations=2000)
    assert solution.status in (Status.STALLED, Status.ROUNDING)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gamma": -1.0}, "gamma is -1.0, wanted a positive number"),
        ({"groups": 0}, "groups is 0, wanted a whole number of at least 1"),
        ({"keep": 2.5}, "keep is 2.5, wanted a whole number of at least 2"),
        ({"serious": np.inf}, "serious is inf, wanted a number above 0 and below 1"),
    ],
)
def test_options_that_make_no_sense_are_named(options: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ProximalBundle(**options)  # type: ignore[arg-type]  # wrong on purpose
