"""Problem (P) of paper 0: values, subgradients, bounds and witnesses, against enumeration and optima done by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from convexstruct.certificates import certify
from convexstruct.datasets.networks import random_network
from convexstruct.features import enumerate_counts
from convexstruct.graphs import chain_graph, hmm_graph
from convexstruct.problems.generative_margin import GenerativeMargin, default_c
from convexstruct.tolerances import DERIVATIVE, HIGH, ROUNDING

Vector = NDArray[np.float64]


def random_c(problem: GenerativeMargin, rng: np.random.Generator) -> GenerativeMargin:
    """The same problem with c drawn at random."""
    drawn = rng.exponential(size=problem.dimension) + 0.05
    return GenerativeMargin(
        problem.features, drawn / problem.layout.block_sum(drawn)[problem.layout.block_of], problem.eta
    )


def small_hmm(seed: int, partly: bool = False) -> GenerativeMargin:
    rng = np.random.default_rng(seed)
    lengths = [3, 1, 4, 2]
    symbols, states = ([rng.integers(n, size=t) for t in lengths] for n in (3, 2))
    hidden = [np.arange(t) % 2 == 0 for t in lengths] if partly else None
    weights = [1.0, 2.0, 0.5, 1.5]
    problem = GenerativeMargin.hmm(symbols, states, 2, 3, eta=0.3, loss="ring", hidden=hidden, weights=weights)
    return random_c(problem, rng)


def small_network(seed: int) -> GenerativeMargin:
    rng = np.random.default_rng(seed)
    net = random_network(5, 4, states=(2, 3), seed=seed)
    hidden: list[Any] = [rng.choice(5, size=rng.integers(1, 4), replace=False).tolist() for _ in range(4)]
    return random_c(GenerativeMargin.network(net.graph, net.assignments, hidden, eta=0.3, weights=[1, 2, 0.5, 1]), rng)


MAKERS: list[Callable[[int], GenerativeMargin]] = [small_hmm, lambda seed: small_hmm(seed, True), small_network]
every_kind = pytest.mark.parametrize("make", MAKERS, ids=["hmm", "partly", "network"])


def one_variable(c: list[float], eta: float, loss: float = 1.0) -> GenerativeMargin:
    """One example, one hidden variable, nothing observed, the truth 0: P = -c'theta + eta max_s [theta_s - theta_0 +
    loss [s != 0]]_+, small enough for its optimum to be done by hand."""
    n = len(c)
    cost = loss * (1.0 - np.eye(n))
    return GenerativeMargin.network(chain_graph(1, n), [[0]], [0], eta=eta, c=np.array(c), loss=cost)


def feasible(problem: GenerativeMargin, rng: np.random.Generator, scale: float = 1.0) -> Vector:
    return problem.shift(scale * rng.normal(size=problem.dimension))


# -- primal ------------------------------------------------------------------------------------------------------------


@every_kind
def test_the_objective_is_that_of_all_constraints_written_out(make: Callable[[int], GenerativeMargin]) -> None:
    for seed in range(3):
        problem = make(seed)
        table = enumerate_counts(problem.features)
        a = table.counts.toarray() - table.counts[table.truth][table.example].toarray()
        rng = np.random.default_rng(seed)
        for scale in (0.1, 1.0, 30.0):
            theta = feasible(problem, rng, scale)
            slack = np.zeros(problem.n_examples)
            np.maximum.at(slack, table.example, a @ theta + table.loss)
            naive = -problem.c @ theta + problem.eta * problem.features.weights @ slack
            evaluation = problem.evaluate(theta)
            assert evaluation.value == pytest.approx(naive, rel=ROUNDING)
            assert problem.primal({"theta": theta}) == evaluation.value
            np.testing.assert_allclose(evaluation.slack, slack, rtol=ROUNDING, atol=ROUNDING)
            # the labelling returned is the maximiser, and (mu, omega) is its point of script-D
            recovered = -problem.c @ theta + evaluation.mu @ theta + evaluation.omega
            assert recovered == pytest.approx(naive, rel=ROUNDING)


@every_kind
def test_mu_less_c_is_a_subgradient(make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        here, there = feasible(problem, rng), feasible(problem, rng)
        evaluation = problem.evaluate(here)
        below = evaluation.value + (evaluation.mu - problem.c) @ (there - here)
        assert problem.evaluate(there).value >= below - ROUNDING
        direction, step = rng.normal(size=problem.dimension), 1e-6  # at random points the maximiser is unique
        rise = problem.evaluate(here + step * direction).value - problem.evaluate(here - step * direction).value
        assert rise / (2 * step) == pytest.approx((evaluation.mu - problem.c) @ direction, rel=DERIVATIVE)


@every_kind
def test_the_shift_makes_a_point_feasible_and_leaves_a_feasible_one_alone(
    make: Callable[[int], GenerativeMargin],
) -> None:
    problem = make(0)
    rng = np.random.default_rng(0)
    theta = rng.normal(size=problem.dimension)
    sums = problem.layout.block_sum(np.exp(theta))
    residuals = problem.residuals({"theta": theta})
    assert list(residuals.values()) == pytest.approx([max(sums.max() - 1, 0), max(theta.max(), 0)], rel=ROUNDING)
    repaired = problem.repair({"theta": theta})["theta"]
    np.testing.assert_allclose(
        problem.layout.block_sum(np.exp(repaired)), np.minimum(sums, 1.0), rtol=ROUNDING
    )  # divided by its sum, where that is above one
    assert max(problem.residuals({"theta": repaired}).values()) <= ROUNDING
    small = repaired - 0.1
    np.testing.assert_array_equal(problem.shift(small), small)


def test_a_probability_of_zero_costs_nothing_where_c_is_zero_and_everything_elsewhere() -> None:
    with np.errstate(divide="ignore"):
        theta = np.log([0.5, 0.5, 0.0])
    assert one_variable([0.5, 0.5, 0.0], 1.0).evaluate(theta).value == pytest.approx(math.log(2) + 1)
    assert one_variable([0.5, 0.3, 0.2], 1.0).evaluate(theta).value == math.inf
    # the true label impossible: every other wins by an infinite margin
    with np.errstate(divide="ignore"):
        assert one_variable([0.0, 0.5, 0.5], 1.0).evaluate(np.log([0.0, 0.5, 0.5])).value == math.inf


# -- optima done by hand -----------------------------------------------------------------------------------------------

E = math.exp(-1.0)
BY_HAND = [
    # c, eta, optimal probabilities, beta / eta; with v = c - mu = (c0 + beta, c1 - beta) = p
    pytest.param([0.4, 0.6], 0.1, [0.5, 0.5], 1.0, id="violated, beta = eta"),
    pytest.param([0.5, 0.5], 1.0, [1 / (1 + E), E / (1 + E)], 1 / (1 + E) - 0.5, id="at the kink, beta between"),
    pytest.param([0.8, 0.2], 1.0, [0.8, 0.2], 0.0, id="margin kept, beta = 0"),
]


@pytest.mark.parametrize(("c", "eta", "p", "share"), BY_HAND)
def test_an_optimum_done_by_hand_is_certified(c: list[float], eta: float, p: list[float], share: float) -> None:
    problem = one_variable(c, eta)
    violation = max(0.0, math.log(p[1]) - math.log(p[0]) + 1.0)
    optimum = -c[0] * math.log(p[0]) - c[1] * math.log(p[1]) + eta * violation
    witness = {"labels": np.array([[1]]), "label_shares": np.array([[share]])}
    certificate = certify(problem, np.log(p), witness)
    assert certificate.primal == pytest.approx(optimum, rel=ROUNDING)
    assert certificate.lower_bound == pytest.approx(optimum, rel=ROUNDING)
    assert abs(certificate.gap) <= HIGH.gap
    # any other point and witness lie on their own sides of it
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert problem.evaluate(feasible(problem, rng)).value >= optimum - ROUNDING
        other = {**witness, "label_shares": np.array([[rng.random()]])}
        assert problem.dual(other) <= optimum + ROUNDING


def test_projecting_mu_as_the_paper_does_claims_more_than_the_optimum() -> None:
    # beta = eta = 1: mu = (-1, 1) and omega = 1 lie in script-D, v = (1.5, -0.5) outside the domain
    problem = one_variable([0.5, 0.5], 1.0)
    mu, omega = problem.aggregate({"labels": np.array([[1]]), "label_shares": np.array([[1.0]])})
    np.testing.assert_allclose(mu, [-1.0, 1.0])
    assert problem.dual_value(mu, omega) == -math.inf
    projected = problem.dual_value(np.minimum(mu, problem.c), omega)
    p = np.array([1 / (1 + E), E / (1 + E)])
    optimum = float(-problem.c @ np.log(p))
    assert problem.evaluate(np.log(p)).value == pytest.approx(optimum)
    assert projected == pytest.approx(1.0)  # omega + 1.5 ln 1.5 - 1.5 ln 1.5 - 0 ln 0
    assert projected > optimum + 0.1
    # the valid bound from the same member: shrink it, and here that even closes the gap
    t, bound = problem.best_on_segment(mu, omega)
    assert bound == pytest.approx(optimum, rel=ROUNDING)
    assert t == pytest.approx(p[0] - 0.5, rel=1e-6)


@every_kind
def test_the_projected_bound_fails_on_whole_data_sets_too_and_the_segment_never(
    make: Callable[[int], GenerativeMargin],
) -> None:
    above = 0
    for seed in range(6):
        problem = make(seed)
        problem = GenerativeMargin(problem.features, problem.c, 5.0)
        rng = np.random.default_rng(seed)
        points = [feasible(problem, rng) for _ in range(20)] + [problem.uniform(), problem.shift(np.log(problem.c))]
        best = min(problem.evaluate(theta).value for theta in points)
        for theta in points:
            evaluation = problem.evaluate(theta)
            above += problem.dual_value(np.minimum(evaluation.mu, problem.c), evaluation.omega) > best
            assert problem.best_on_segment(evaluation.mu, evaluation.omega)[1] <= best + ROUNDING
    assert above > 0


# -- the dual function -------------------------------------------------------------------------------------------------


def q7(v: Vector, lam: float) -> float:
    """The closed form of (7) for one block: inf over theta_i <= 0 of -v'theta_i + lam 1'e^theta_i."""
    if (v < 0).any():
        return -math.inf
    inner = (v > 0) & (v <= lam)
    return float(np.sum(v[inner] - v[inner] * np.log(v[inner] / lam)) + lam * np.sum(v > lam))


@pytest.mark.parametrize(("v", "lam"), [(0.3, 0.7), (0.7, 0.7), (0.9, 0.7), (2.0, 1e-3), (0.5, 0.0), (1e-6, 3.0)])
def test_the_closed_form_of_7_is_the_minimum(v: float, lam: float) -> None:
    found = minimize_scalar(lambda x: -v * x + lam * math.exp(x), bounds=(-30.0, 0.0), options={"xatol": 1e-12})
    assert q7(np.array([v]), lam) == pytest.approx(min(found.fun, lam), rel=HIGH.gap)  # lam: the value at theta = 0


def test_where_v_is_zero_the_minimum_of_7_is_only_approached() -> None:
    values = [0.5 * math.exp(x) for x in (-1.0, -10.0, -100.0)]
    assert q7(np.zeros(1), 0.5) == 0.0
    assert min(values) > 0.0
    assert min(values) == pytest.approx(0.0, abs=ROUNDING)


def test_where_v_is_negative_7_has_no_lower_bound() -> None:
    assert q7(np.array([-0.1]), 0.5) == -math.inf
    assert 0.1 * -1e6 + 0.5 * math.exp(-1e6) < -1e4


@every_kind
def test_lambda_is_eliminated_at_the_sum_of_v(make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(1)
    rng = np.random.default_rng(0)
    layout = problem.layout
    v = rng.exponential(size=problem.dimension)
    v[rng.random(problem.dimension) < 0.2] = 0.0
    total = layout.block_sum(v)
    blocks = [v[layout.block_of == i] for i in range(len(total))]

    def before(lam: Vector) -> float:
        return sum(q7(block, float(x)) - float(x) for block, x in zip(blocks, lam))

    value = problem.dual_value(problem.c - v, 0.25)
    assert value == pytest.approx(0.25 + before(total), rel=ROUNDING)
    for _ in range(20):
        assert 0.25 + before(total * rng.uniform(0.5, 2.0, size=len(total))) <= value + ROUNDING


@every_kind
def test_the_dual_function_has_the_log_probabilities_as_its_gradient(make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(2)
    rng = np.random.default_rng(0)
    v = rng.exponential(size=problem.dimension) + 0.1
    theta = np.log(v) - np.log(problem.layout.block_sum(v))[problem.layout.block_of]
    for _ in range(5):
        step = 1e-5 * rng.normal(size=problem.dimension)
        rise = problem.dual_value(problem.c - v + step, 0.0) - problem.dual_value(problem.c - v - step, 0.0)
        assert rise / 2 == pytest.approx(theta @ step, rel=DERIVATIVE)
    assert problem.dual_value(problem.c - v, 3.0) - problem.dual_value(problem.c - v, 1.0) == pytest.approx(2.0)


def random_witness(problem: GenerativeMargin, rng: np.random.Generator, weight: float = 1.0) -> dict[str, Any]:
    """Labellings and Gibbs distributions with random shares that sum to at most ``weight``."""
    k, d = problem.n_examples, problem.dimension
    labels = [problem.features.sample(rng.normal(size=d), 0.5, rng) for _ in range(3)]
    shares = rng.dirichlet(np.ones(4), size=k).T[:3] * 0.7 * weight
    gibbs = rng.normal(size=(2, d))
    gibbs_shares = np.repeat([[0.1], [0.2]], k, axis=1) * weight
    return {
        "labels": np.array(labels), "label_shares": shares,
        "gibbs": gibbs, "gibbs_loss": np.array([0.0, 2.0]), "gibbs_shares": gibbs_shares,
    }  # fmt: skip


@every_kind
def test_a_witness_is_added_up_as_its_distributions_say(make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(0)
    rng = np.random.default_rng(0)
    witness = random_witness(problem, rng)
    table = enumerate_counts(problem.features)
    a = table.counts.toarray() - table.counts[table.truth][table.example].toarray()
    beta = np.zeros(table.n_rows)
    for labels, share in zip(witness["labels"], witness["label_shares"]):
        for k in range(problem.n_examples):
            mine = labels[problem.features.example == k]
            rows = np.flatnonzero(table.example == k)
            beta[rows[(table.labels[rows][:, : len(mine)] == mine).all(axis=1)]] += share[k]
    for theta, b, share in zip(witness["gibbs"], witness["gibbs_loss"], witness["gibbs_shares"]):
        score = table.counts @ theta + b * table.loss
        q = np.exp(score)
        beta += share[table.example] * q / np.bincount(table.example, weights=q)[table.example]
    beta *= problem.eta * problem.features.weights[table.example]
    mu, omega = problem.aggregate(witness)
    np.testing.assert_allclose(mu, beta @ a, atol=ROUNDING)
    assert omega == pytest.approx(beta @ table.loss, rel=ROUNDING)


@every_kind
def test_every_witness_bounds_every_feasible_point_from_below(make: Callable[[int], GenerativeMargin]) -> None:
    for seed in range(3):
        problem = make(seed)
        rng = np.random.default_rng(seed)
        points = [feasible(problem, rng, scale) for scale in (0.1, 1.0) for _ in range(10)]
        best = min(problem.evaluate(theta).value for theta in [*points, problem.uniform(), np.log(problem.c)])
        for weight in (0.01, 0.1, 1.0):
            assert problem.dual(random_witness(problem, rng, weight)) <= best + ROUNDING
        entropy = -float(problem.c @ np.log(problem.c))
        assert problem.dual({}) == pytest.approx(entropy, rel=ROUNDING)  # nothing violated: c itself is the optimum


@every_kind
def test_the_best_of_the_segment_is_the_best_of_a_fine_grid(make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(0)
    rng = np.random.default_rng(0)
    safe_mu, safe_omega = problem.aggregate(random_witness(problem, rng, 0.01))
    assert (problem.c > safe_mu).all()
    for weight in (0.05, 1.0):
        mu, omega = problem.aggregate(random_witness(problem, rng, weight))
        for start, base in ((np.zeros_like(mu), 0.0), (safe_mu, safe_omega)):
            t, value = problem.best_on_segment(mu, omega, (start, base))
            assert 0.0 <= t <= 1.0
            grid = np.linspace(0.0, 1.0, 2001)
            values = [problem.dual_value(start + x * (mu - start), base + x * (omega - base)) for x in grid]
            assert value >= max(values) - ROUNDING
            near = start + t * (1 - 1e-12) * (mu - start)
            assert value == pytest.approx(problem.dual_value(near, base + t * (omega - base)), rel=HIGH.gap)


# -- what is no witness ------------------------------------------------------------------------------------------------


def test_shares_that_are_no_distribution_certify_nothing() -> None:
    problem = small_hmm(0)
    rng = np.random.default_rng(0)
    good = random_witness(problem, rng, 0.01)
    assert math.isfinite(problem.dual(good))
    for key, change in (
        ("label_shares", -0.1), ("label_shares", 1.0), ("label_shares", math.nan),
        ("gibbs_shares", -1.0), ("gibbs_shares", 1.0), ("gibbs", math.nan), ("gibbs_loss", math.inf),
    ):  # fmt: skip
        bad = {**good, key: good[key].copy()}
        bad[key][0] += change
        assert problem.dual(bad) == -math.inf, (key, change)
        assert problem.dual_residuals(bad)["shares outside the simplex"] > 0
        assert certify(problem, problem.uniform(), bad).lower_bound == -math.inf


def test_rounding_in_the_shares_is_cleared_away() -> None:
    problem = one_variable([0.4, 0.6], 0.1)
    exact = problem.dual({"labels": np.array([[1]]), "label_shares": np.array([[1.0]])})
    witness = {"labels": np.array([[1], [0]]), "label_shares": np.array([[1.0 + 1e-10], [-1e-10]])}
    assert problem.dual_residuals(witness)["shares outside the simplex"] == pytest.approx(1e-10, rel=1e-3)
    assert problem.dual(witness) == pytest.approx(exact, rel=1e-8)
    assert problem.dual(witness) <= exact + 1e-12


def test_counts_that_cancel_leave_the_bound_alone_where_c_is_zero() -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2.0, size=50)
    graph = chain_graph(2, 2)  # the first node is observed; its value 1 is used by the data though c says never
    c = np.array([1.0, 0.0, 0.4, 0.6, 0.5, 0.5])
    problem = GenerativeMargin.network(graph, [[1, 0]] * 50, [1], eta=0.005, c=c, weights=weights)
    witness = {"labels": np.arange(2)[:, None] * np.ones(50, dtype=int), "label_shares": rng.dirichlet([1, 1], 50).T}
    mu, omega = problem.aggregate(witness)
    v = np.array([0.5 - mu[4], 0.5 - mu[5]])
    by_hand = omega - 0.4 * math.log(0.4) - 0.6 * math.log(0.6) - v @ np.log(v)  # t = 1: the whole witness counts
    assert problem.dual(witness) == pytest.approx(by_hand, rel=ROUNDING)


def test_labels_that_an_observed_position_rules_out_are_no_witness() -> None:
    problem = small_hmm(0, partly=True)
    truth = problem.features.truth
    labels = truth.copy()
    observed = np.flatnonzero(~problem.features.free)
    labels[observed[0]] = 1 - truth[observed[0]]
    with pytest.raises(ValueError, match="differs from the truth where that is observed"):
        problem.dual({"labels": labels[None], "label_shares": np.ones((1, problem.n_examples))})
    problem.dual({"labels": truth[None], "label_shares": np.ones((1, problem.n_examples))})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.full((1, 10), 2)}, r"dual_point\['labels'\] holds a label out of range"),
        ({"labels": np.full((1, 10), -1)}, r"dual_point\['labels'\] holds a label out of range"),
        ({"labels": np.zeros((1, 10))}, r"dual_point\['labels'\] holds float64, wanted whole numbers"),
        ({"labels": np.zeros((1, 9), dtype=int)}, r"dual_point\['labels'\] has shape \(1, 9\), wanted \(1, 10\)"),
        ({"label_shares": np.ones(4)}, r"dual_point\['label_shares'\] has shape \(4,\), wanted \(1, 4\)"),
        ({"gibbs": np.zeros((1, 3))}, r"dual_point\['gibbs'\] has shape \(1, 3\), wanted \(1, 12\)"),
        ({"gibbs": np.zeros((1, 12))}, r"dual_point\['gibbs_loss'\] has shape \(0,\), wanted \(1,\)"),
        ({"beta": np.ones(4)}, "dual_point must be a mapping with keys among gibbs, gibbs_loss"),
    ],
)
def test_a_witness_of_the_wrong_form_is_refused(change: dict[str, Any], message: str) -> None:
    problem = small_hmm(0)
    good = {"labels": np.zeros((1, 10), dtype=int), "label_shares": np.ones((1, 4))}
    problem.dual(good)
    with pytest.raises(ValueError, match=message):
        problem.dual({**good, **change})


def test_a_gibbs_distribution_has_one_share_in_all_examples() -> None:
    problem = small_hmm(0)
    witness = random_witness(problem, np.random.default_rng(0), 0.01)
    witness["gibbs_shares"] = witness["gibbs_shares"] * np.linspace(0.5, 1.0, 4)
    with pytest.raises(ValueError, match="the same share in every example"):
        problem.dual(witness)


# -- points, prediction, the doors -------------------------------------------------------------------------------------


def test_a_point_is_read_from_an_array_or_by_the_names_of_the_tables() -> None:
    problem = small_hmm(0)
    theta = np.arange(12.0)
    tables = problem.layout.tables(theta)
    for value in (theta, list(theta), {"theta": theta}, tables, {str(k): v.tolist() for k, v in tables.items()}):
        np.testing.assert_array_equal(problem.as_point(value)["theta"], theta)
    for bad, message in (
        (theta[:-1], r"theta has shape \(11,\), wanted \(12,\)"),
        ({"x": theta}, r"point has the keys \['x'\], wanted 'theta' or the tables' names"),
        ("theta", r"point is a str, wanted theta of shape \(12,\)"),
        (None, r"wanted"),
    ):
        with pytest.raises(ValueError, match=message):
            problem.as_point(bad)


def test_prediction_is_the_best_labelling_without_the_loss() -> None:
    for make in MAKERS:
        problem = make(3)
        table = enumerate_counts(problem.features)
        theta = feasible(problem, np.random.default_rng(3))
        scores = table.counts @ theta
        predicted = problem.predict(theta)
        for k in range(problem.n_examples):
            rows = np.flatnonzero(table.example == k)
            row = table.labels[rows[scores[rows].argmax()]]
            np.testing.assert_array_equal(predicted[problem.features.example == k], row[row >= 0])


def test_a_hidden_markov_model_is_the_same_problem_as_its_network() -> None:
    rng = np.random.default_rng(0)
    states, symbols = rng.integers(2, size=(5, 4)), rng.integers(3, size=(5, 4))
    chain = random_c(GenerativeMargin.hmm(list(symbols), list(states), 2, 3, eta=0.7), rng)
    nodes = [("state", t) for t in range(4)]
    net = GenerativeMargin.network(hmm_graph(2, 3, 4), np.hstack((states, symbols)), nodes, eta=0.7, c=chain.c)
    theta = feasible(chain, rng)
    assert net.evaluate(theta).value == pytest.approx(chain.evaluate(theta).value, rel=ROUNDING)
    witness = random_witness(chain, rng, 0.05)
    assert net.dual(witness) == pytest.approx(chain.dual(witness), rel=ROUNDING)


def test_c_is_uniform_by_default_and_may_come_as_tables() -> None:
    layout = small_hmm(0).layout
    np.testing.assert_array_equal(default_c(None, layout), [*[0.5] * 2, *[0.5] * 4, *[1 / 3] * 6])
    tables: dict[str, Any] = {
        "initial": [0.4, 0.6], "transition": [[0.1, 0.9], [0.8, 0.2]], "emission": [[0.2, 0.3, 0.5], [1, 0, 0]],
    }  # fmt: skip
    np.testing.assert_array_equal(default_c(tables, layout), [0.4, 0.6, 0.1, 0.9, 0.8, 0.2, 0.2, 0.3, 0.5, 1, 0, 0])


DOOR: dict[str, Any] = {"symbols": [[0, 1], [2]], "states": [[0, 1], [1]], "n_states": 2, "n_symbols": 3, "eta": 1.0}
GOOD_C = np.array([*[0.5] * 2, *[0.5] * 4, *[1 / 3] * 6])


def changed(at: list[int], value: float) -> Vector:
    c = GOOD_C.copy()
    c[at] = value
    return c


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eta": 0.0}, "eta is 0.0, wanted a positive number"),
        ({"eta": -1}, "eta is -1, wanted a positive number"),
        ({"eta": math.nan}, "eta is nan, wanted a positive number"),
        ({"eta": math.inf}, "eta is inf, wanted a positive number"),
        ({"eta": "1"}, "eta is '1', wanted a positive number"),
        ({"eta": True}, "eta is True, wanted a positive number"),
        ({"eta": None}, "eta is None, wanted a positive number"),
        ({"c": GOOD_C[:-1]}, r"c has shape \(11,\), wanted \(12,\)"),
        ({"c": changed([3], math.nan)}, "c contains NaN or infinity"),
        ({"c": changed([3], -0.5)}, r"c of transition\[0\] has a negative entry \(-0.5\)"),
        ({"c": changed([4, 5], 0.0)}, r"c of transition\[1\] is all zero, wanted a distribution"),
        ({"c": changed([6], 0.5)}, r"c of emission\[0\] sums to 1.16667, wanted a distribution: 1"),
        ({"c": {"initial": [0.5, 0.5]}}, r"c has the tables \['initial'\], wanted"),
        (
            {"c": {"initial": [1.0], "transition": np.eye(2), "emission": np.ones((2, 3)) / 3}},
            r"c\['initial'\] has shape",
        ),
        ({"symbols": [[0, 1], [3]]}, r"symbols\[1\]\[0\] is 3, wanted a whole number from 0 to 2"),
        ({"symbols": [[0, 1], []]}, r"symbols\[1\] is empty"),
        ({"loss": [[0, -1], [1, 0]]}, "loss contains a negative cost"),
        ({"hidden": [[True, False], [False]]}, r"hidden\[1\] is nowhere true"),
    ],
)
def test_the_door_of_a_hidden_markov_model_refuses(change: dict[str, Any], message: str) -> None:
    GenerativeMargin.hmm(**DOOR)
    with pytest.raises(ValueError, match=message):
        GenerativeMargin.hmm(**{**DOOR, **change})


def test_the_door_of_a_network_refuses() -> None:
    graph = chain_graph(2, 2)
    GenerativeMargin.network(graph, [[0, 1]], [0], eta=1.0)
    with pytest.raises(ValueError, match="hidden is empty"):
        GenerativeMargin.network(graph, [[0, 1]], [], eta=1.0)
    with pytest.raises(ValueError, match="graph has the cycle"):
        GenerativeMargin.network(nx.DiGraph([(0, 1), (1, 0)]), [[0, 1]], [0], eta=1.0)
    with pytest.raises(ValueError, match="assignments is empty"):
        GenerativeMargin.network(graph, [], [0], eta=1.0)
    with pytest.raises(ValueError, match="eta is -2"):
        GenerativeMargin.network(graph, [[0, 1]], [0], eta=-2)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("make", MAKERS[::2], ids=["hmm", "network"])
def test_values_that_are_not_finite_certify_nothing(value: float, make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(0)
    for at in (slice(3, 4), slice(None)):
        theta = problem.uniform()
        theta[at] = value
        certificate = certify(problem, theta)
        assert certificate.primal == math.inf
        assert certificate.gap == math.inf


@pytest.mark.parametrize("size", [1e5, 1e308])
def test_huge_values_still_give_an_upper_bound(size: float) -> None:
    problem = small_hmm(0)
    bound = problem.dual({})
    for sign in (1.0, -1.0):
        for at in (slice(3, 4), slice(None)):
            theta = problem.uniform()
            theta[at] = sign * size
            assert certify(problem, theta).primal >= bound
