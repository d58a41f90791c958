"""The entropic proximal point: its smooth stage, its metric, its bounds, against enumeration and finite differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import xlogy

from convexstruct import GenerativeMargin
from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.core.quasi_newton import Pairs
from convexstruct.core.registry import choose
from convexstruct.datasets.generated.networks import random_network
from convexstruct.datasets.generated.ring import EASY, HARD, ring
from convexstruct.families.generative_margin.cases import CASES
from convexstruct.families.generative_margin.slack_penalties import Exponential, Quadratic, SlackPenalty
from convexstruct.families.generative_margin.solvers.entropic_proximal import EntropicProximal
from convexstruct.families.generative_margin.solvers.entropic_proximal.covariance import CountCovariance
from convexstruct.families.generative_margin.solvers.entropic_proximal.descent import Descent, Metric
from convexstruct.families.generative_margin.solvers.entropic_proximal.diagonal import DiagonalMetric
from convexstruct.families.generative_margin.solvers.entropic_proximal.method import Run
from convexstruct.families.generative_margin.solvers.entropic_proximal.newton import NewtonMetric
from convexstruct.families.generative_margin.solvers.entropic_proximal.stage import (
    Measure,
    Space,
    Stage,
    Value,
    stage_gap,
)
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.part import part
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.models.generative_margin.enumerated import primal
from convexstruct.tolerances import DERIVATIVE, HIGH, MID, ROUNDING
from tests.models.generative_margin.instances import INSTANCES
from tests.reference import optimum


def small_ring(seed: int, eta: float = 0.5, n: int = 5) -> GenerativeMargin:
    """A ring of three states, sequences of lengths 1 to 5."""
    data = ring(n, 5, 3, EASY, seed, n_symbols=2)
    lengths = np.random.default_rng(seed).integers(1, 6, n)
    symbols = [s[:t] for s, t in zip(data.symbols, lengths)]
    states = [s[:t] for s, t in zip(data.states, lengths)]
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, n)
    return GenerativeMargin.hmm(symbols, states, 3, 2, eta=eta, loss="ring", weights=weights)


def network(seed: int, n: int = 12) -> GenerativeMargin:
    graph, rows = _network_data(seed, n)
    return GenerativeMargin.network(graph, rows, list(graph.nodes)[:2], eta=0.3)


def _network_data(seed: int, n: int) -> tuple[Any, Any]:
    sample = random_network(4, n, seed=seed)
    return sample.graph, sample.assignments


def begin(problem: GenerativeMargin, seed: int, tau: float = 0.3) -> tuple[Stage, Value]:
    """A stage at a random measure, and a random interior point of it."""
    rng = np.random.default_rng(seed)
    natural, loss = rng.normal(size=problem.dimension), 0.7
    expected = problem.oracle.expected(natural, loss)
    measure = Measure(natural, loss, expected.log_partition, np.zeros(0))
    stage = Stage(problem, measure, tau, 0.99 * problem.c, 0.01, Space(problem))
    blocks = len(problem.layout.block_sizes)
    x = np.concatenate((problem.uniform() + rng.normal(size=problem.dimension), rng.uniform(0.1, 1.0, blocks)))
    return stage, stage.at(x)


@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_of_a_stage_is_that_of_finite_differences(seed: int) -> None:
    stage, value = begin(small_ring(seed), seed)
    for i in range(len(value.x)):
        step = np.zeros_like(value.x)
        step[i] = 1e-5
        slope = (stage.at(value.x + step).merit - stage.at(value.x - step).merit) / 2e-5
        assert slope == pytest.approx(value.gradient[i], rel=DERIVATIVE, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_f_is_p_with_its_maximum_replaced_by_a_log_sum_over_all_labellings(seed: int) -> None:
    problem = small_ring(seed)
    stage, value = begin(problem, seed)
    rows = enumerate_counts(problem.features)
    prior = rows.counts @ stage.measure.theta + stage.measure.loss * rows.loss
    gain = (rows.counts @ value.theta + rows.loss) / stage.tau
    total = 0.0
    for k in range(problem.n_examples):
        mine = rows.example == k
        new, old = np.logaddexp.reduce((prior + gain)[mine]), np.logaddexp.reduce(prior[mine])
        truth = float((problem.truth_each[[k]] @ value.theta)[0])
        total += problem.examples.weights[k] * (stage.tau * (new - old) - truth)
    assert value.f == pytest.approx(float(-stage.c @ value.theta) + problem.eta * total, rel=ROUNDING)
    assert value.f <= problem.evaluate(value.theta).value + 0.01 * abs(value.f) + ROUNDING  # (1 - 0.99) c at most


@pytest.mark.parametrize("h", [None, Quadratic(0.5), Exponential(20.0)])
def test_newtons_metric_is_the_hessian_at_a_minimum(h: SlackPenalty | None) -> None:
    problem = replace(small_ring(0), h=h)
    stage, value = begin(problem, 0)
    descent = Descent(stage, value, DiagonalMetric(stage, value), Pairs(20, len(value.x)))
    for _ in range(200):
        descent.step()
        if descent.exhausted:
            break
    value = descent.value
    new, loss = stage.measure.theta + value.theta / stage.tau, stage.measure.loss + 1.0 / stage.tau
    more = () if value.bend is None else (value.b, value.bend)
    metric = NewtonMetric(stage, value, covariance(problem)(new, loss, *more))
    n, rng = len(value.x), np.random.default_rng(0)
    for _ in range(5):
        direction = rng.normal(size=n)
        direction[problem.dimension :] *= value.x[problem.dimension :]
        step = 1e-5 * direction
        change = stage.at(value.x + step).gradient - stage.at(value.x - step).gradient
        back = metric.inverse(stage.barrier_curvature(value))(change / 2e-5)
        moved = direction - back
        for start, size in zip(problem.layout.block_start, problem.layout.block_sizes):
            moved[start : start + size] -= moved[start : start + size].mean()  # phi may move along 1
        assert np.abs(moved).max() <= 2e-2 * np.abs(direction).max()


def test_newtons_metric_takes_any_barrier() -> None:
    problem = small_ring(1)
    stage, value = begin(problem, 1)
    metric = NewtonMetric(stage, value, covariance(problem)(*stage.natural(value)))
    n, blocks = len(value.x), len(problem.layout.block_sizes)
    barriers = np.full(blocks, 0.5), np.random.default_rng(0).uniform(1.0, 100.0, blocks)
    hessians = []
    for barrier in barriers:
        inverse = metric.inverse(barrier)
        hessians.append(np.linalg.inv(np.array([inverse(row) for row in np.eye(n)])))
    wanted = np.diag(np.concatenate((np.zeros(n - blocks), barriers[1] - barriers[0])))
    np.testing.assert_allclose(hessians[1] - hessians[0], wanted, atol=1e-6 * np.abs(hessians[1]).max())


def covariance(problem: GenerativeMargin) -> CountCovariance:
    assert isinstance(problem.features, HMMCounts)
    return CountCovariance(problem.features)


def minimised(stage: Stage, x: Vector) -> Value:
    """The minimum of the stage with its barrier."""
    value = stage.at(x)
    descent = Descent(stage, value, DiagonalMetric(stage, value), Pairs(100, len(x)))
    for _ in range(500):
        descent.step()
        if descent.exhausted:
            break
    return descent.value


@pytest.mark.parametrize("seed", range(3))
def test_the_barrier_costs_at_most_kappa_a_block(seed: int) -> None:
    problem = small_ring(seed)
    stage, value = begin(problem, seed)
    blocks = len(problem.layout.block_sizes)
    least = minimised(Stage(problem, stage.measure, stage.tau, stage.c, 1e-8, stage.space), value.x)
    for kappa in (1e-3, 0.1, 10.0):
        cost = minimised(Stage(problem, stage.measure, stage.tau, stage.c, kappa, stage.space), value.x).f - least.f
        assert 0.0 < cost <= kappa * blocks


@pytest.mark.parametrize("seed", range(3))
def test_up_to_the_least_delta_the_barrier_outweighs_the_slope(seed: int) -> None:
    """With any scores, also those that the true labelling alone keeps, where V is largest."""
    problem = small_ring(seed)
    stage, value = begin(problem, seed)
    d = problem.dimension
    away = -1e3 * (problem.truth_counts > 0) * np.random.default_rng(seed).uniform(size=d)
    for phi in (value.x[:d], value.x[:d] + away, value.x[:d] - away):
        at = stage.at(np.concatenate((phi, stage.least_delta)))
        assert (at.gradient[d:] <= ROUNDING * (1.0 + stage.kappa / stage.least_delta)).all()


def test_no_delta_falls_to_where_it_could_only_double() -> None:
    """Where a step may divide each delta by 20, these fall to 7e-6, and with 30 states to 1e-27."""
    data = ring(50, 25, 10, HARD, seed=1)
    problem = GenerativeMargin.hmm(data.symbols, data.states, 10, data.n_symbols, eta=0.1, loss="ring")
    run = Run(EntropicProximal(), problem, None)
    stage = Stage(problem, run.measure, 1.5, problem.c, 0.05, run.space)
    value = stage.at(run.x)
    descent = Descent(stage, value, DiagonalMetric(stage, value), Pairs(50, len(run.x)))
    for _ in range(12):
        descent.step()
        assert descent.value.x[problem.dimension :].min() > 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_a_ring_takes_a_hundred_evaluations_to_a_millionth(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """About 70; about 150 where the metric and the pairs know the barrier from earlier points, and steps are cut."""
    data = ring(100, 50, 5, EASY, seed=seed)
    problem = GenerativeMargin.hmm(data.symbols, data.states, 5, data.n_symbols, eta=0.1, loss="ring")
    evaluations: list[int] = []
    at = Stage.at

    def counted(self: Stage, x: Vector) -> Value:
        evaluations.append(1)
        return at(self, x)

    monkeypatch.setattr(Stage, "at", counted)
    assert solve(problem, EntropicProximal(), tol=HIGH).status.solved
    assert len(evaluations) <= 100


def test_the_curvature_along_the_invariants_is_that_of_a_dense_hessian() -> None:
    problem = small_ring(0)
    stage, value = begin(problem, 0)
    local, metric = stage.local_variance(value), DiagonalMetric(stage, value)
    assert local is not None
    assert metric._matrix is not None
    z, s, layout = stage.space.invariants[0].toarray(), value.softmax, problem.layout
    total = np.maximum(layout.block_sum(value.v), 0.0)[layout.block_of]
    same = layout.block_of[:, None] == layout.block_of
    wanted = z.T @ (total[:, None] * (np.diag(s) - same * np.outer(s, s))) @ z
    wanted += np.diag(problem.eta / stage.tau * local.invariants)
    np.testing.assert_allclose(metric._matrix, wanted, atol=1e-6 * np.abs(wanted).max())


def test_a_move_that_changes_nothing_shortens_no_step() -> None:
    problem = small_ring(2)
    stage, value = begin(problem, 2)
    moves = []
    for shift in (0.0, 1e4):
        metric = DiagonalMetric(stage, value)
        inverse = metric.inverse(stage.barrier_curvature(value))
        along = shift * (np.arange(len(value.x)) < problem.layout.block_sizes[0])  # 1 in the first block
        object.__setattr__(metric, "inverse", lambda _, inverse=inverse, along=along: lambda g: inverse(g) + along)
        descent = Descent(stage, value, metric, Pairs(5, len(value.x)))
        descent.step()
        moves.append(descent.value.theta - value.theta)
    np.testing.assert_allclose(moves[1], moves[0], atol=1e-8)


def test_the_gap_of_a_stage_is_its_duality_gap() -> None:
    problem = small_ring(3)
    _, value = begin(problem, 3)
    shrunk = Value(**{**vars(value), "mu": 0.1 * value.mu})  # v >= 0
    v = problem.c - shrunk.mu
    total = problem.layout.block_sum(v)[problem.layout.block_of]
    wanted = float(np.sum(v * (np.log(v / total) - shrunk.theta)))
    assert stage_gap(problem, shrunk, Space(problem)) == pytest.approx(wanted, rel=1e-8)


def test_where_v_is_negative_the_gap_of_a_stage_is_that_of_the_dual_point_drawn_towards_0() -> None:
    problem = small_ring(3)
    _, value = begin(problem, 3)
    beyond = Value(**{**vars(value), "mu": problem.c + 1.0})
    t = float(np.min(problem.c / beyond.mu))
    v = np.maximum(problem.c - t * beyond.mu, 0.0)
    bound = t * value.omega + xlogy(total := problem.layout.block_sum(v), total).sum() - xlogy(v, v).sum()
    wanted = value.omega + float(np.sum(value.theta)) - bound  # mu - c is 1 everywhere
    assert stage_gap(problem, beyond, Space(problem)) == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("name", INSTANCES)
def test_every_instance_is_certified_to_a_millionth(name: str) -> None:
    problem = INSTANCES[name]()
    solution = solve(problem, tol=HIGH)
    assert solution.status.solved
    reference = optimum(primal(problem)).value
    slack = 1e-6 * max(1.0, abs(reference))
    assert solution.lower_bound - slack <= reference <= solution.primal + slack


def test_a_pilot_run_changes_the_way_and_not_the_end() -> None:
    problem = small_ring(7, n=40)
    alone = solve(problem, EntropicProximal(pilot=0), tol=HIGH)
    led = solve(problem, EntropicProximal(pilot=2), tol=HIGH)
    assert alone.status.solved
    assert led.status.solved
    assert led.lower_bound <= alone.primal
    assert alone.lower_bound <= led.primal


def test_where_a_pilot_run_ends_there_is_a_point_with_bounds() -> None:
    """The first stage of all examples may take longer than a time limit allows."""
    data = ring(200, 20, 8, EASY, 0)
    problem = GenerativeMargin.hmm(data.symbols, data.states, data.n_states, data.n_symbols, eta=0.1, loss="ring")
    found = solve(problem, EntropicProximal(pilot=10), tol=HIGH, max_iterations=1)
    optimum = solve(problem, EntropicProximal(), tol=HIGH)
    assert 0.0 < found.lower_bound <= optimum.primal
    assert optimum.lower_bound <= found.primal < 0.9 * problem.evaluate(problem.uniform()).value


def test_the_covariance_of_a_pilot_run_re_weighted_stands_for_all_examples() -> None:
    """Five examples, five times over: the first five stand for all exactly, whatever their weights."""
    data, weights = ring(5, 4, 3, EASY, 3, n_symbols=2), np.tile([0.5, 2.0, 1.0, 0.7, 1.6], 5)
    problem = GenerativeMargin.hmm(5 * data.symbols, 5 * data.states, 3, 2, eta=0.5, loss="ring", weights=weights)
    some: Any = part(problem.features, 0, 5)
    few = Run(EntropicProximal(), GenerativeMargin(some, problem.c, 5 * problem.eta), None, pilot=True)
    few.stage()
    run = Run(EntropicProximal(), problem, None)
    run.adopt(few)
    run.adopt_covariance(few)
    assert isinstance(problem.features, HMMCounts)
    at = few.measure.theta, few.measure.loss
    assert run._known is not None
    assert run._known[0] == pytest.approx(CountCovariance(problem.features)(*at)[0], rel=1e-4, abs=1e-5)
    assert run.measure.log_partition == pytest.approx(np.tile(few.measure.log_partition, 5), rel=ROUNDING)


def test_solve_says_which_solver_it_picked_and_why() -> None:
    for problem in (replace(small_ring(0), eta=1e-3), network(0, n=2500)):
        picked, why = choose(problem, HIGH)
        assert isinstance(picked, EntropicProximal)
        assert "sums over all labellings" in why
    assert solve(replace(small_ring(0), eta=1e-3), tol=MID).solver.startswith("EntropicProximal (")


def conditioning(metric: DiagonalMetric, barrier: Vector, hessian: Vector, problem: GenerativeMargin) -> float:
    """Ratio of the extreme eigenvalues of metric^-1 Hessian, but for the directions along which phi has no effect."""
    inverse = metric.inverse(barrier)
    root = np.linalg.cholesky(np.array([inverse(row) for row in np.eye(len(hessian))]))
    values = np.linalg.eigvalsh(root.T @ hessian @ root)
    blocks = len(problem.layout.block_sizes)
    return float(values[-1] / values[blocks])


@pytest.mark.parametrize("noise", [EASY, HARD])
def test_the_diagonal_metric_knows_the_directions_in_which_the_covariance_vanishes(noise: Any) -> None:
    data = ring(30, 10, 6, noise, seed=0, n_symbols=4)
    problem = GenerativeMargin.hmm(data.symbols, data.states, 6, 4, eta=0.3, loss="ring")
    uniform, d = problem.uniform(), problem.dimension
    stage = Stage(
        problem,
        Measure(np.zeros(d), 0.0, np.zeros(problem.n_examples), np.zeros(0)),
        0.3,
        0.99 * problem.c,
        1e-3,
        Space(problem),
    )
    value = stage.at(np.concatenate((uniform, np.full(len(problem.layout.block_sizes), 0.05))))
    descent = Descent(stage, value, DiagonalMetric(stage, value), Pairs(100, len(value.x)))
    for _ in range(150):
        descent.step()
        if descent.exhausted:
            break
    value = descent.value
    step = 1e-6 * np.maximum(1.0, np.abs(value.x))
    step[d:] = 1e-4 * value.x[d:]
    moves = step[:, None] * np.eye(len(step))
    columns = [(stage.at(value.x + m).gradient - stage.at(value.x - m).gradient) / (2 * s) for m, s in zip(moves, step)]
    hessian = 0.5 * (np.array(columns) + np.array(columns).T)
    knowing, plain = DiagonalMetric(stage, value), DiagonalMetric(stage, value)
    plain._matrix = None
    barrier = stage.barrier_curvature(value)
    assert conditioning(knowing, barrier, hessian, problem) <= 0.3 * conditioning(plain, barrier, hessian, problem)


@pytest.mark.parametrize("tol", [1e-3, 1e-4, 1e-5, 1e-6])
def test_what_it_claims_is_certified_where_entries_of_c_are_0(tol: float) -> None:
    """The solver's sums gave a mu of 0 where c is 0, the certificate's 1e-270: v < 0, and the bound was lost. Without
    FORBIDDING_FACTOR a parameter with c = 0 that some labelling uses has v < 0 too."""
    problem = next(case for case in CASES if case.name == "hmm-zeros-in-c").build()
    solution = solve(problem, tol=tol)
    assert solution.status.name == "OPTIMAL"
    assert abs(solution.certificate.gap) <= tol


def test_a_covariance_that_is_formed_within_a_stage_changes_nothing_but_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: list[Metric] = []
    change = Descent.use

    def use(self: Descent, metric: Metric) -> None:
        used.append(metric)
        change(self, metric)

    monkeypatch.setattr(Descent, "use", use)
    data = ring(30, 20, 10, EASY, seed=1)
    problem = GenerativeMargin.hmm(data.symbols, data.states, 10, data.n_symbols, eta=0.1, loss="ring")
    one, other = (solve(problem, EntropicProximal(newton=newton), HIGH) for newton in (True, False))
    assert [type(metric) for metric in used] == [NewtonMetric]
    assert one.status.solved
    assert other.status.solved
    assert one.lower_bound <= other.primal
    assert other.lower_bound <= one.primal
