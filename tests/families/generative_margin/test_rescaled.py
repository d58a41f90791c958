"""Slacks that the loss rescales: bounds against enumeration, the solvers that take them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Solver
from convexstruct.core.solution import Status
from convexstruct.families.generative_margin import CoordinateWorkingSets, EntropicProximal, ProximalRSD
from convexstruct.families.generative_margin.constraints import Floor
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.slack_penalties import Barrier, Quadratic
from convexstruct.inference.shards import Workers
from convexstruct.models.generative_margin import compact_dual, n_slack, primal
from convexstruct.models.generative_margin.enumerated import MarginRows
from convexstruct.tolerances import HIGH, MID
from convexstruct.verification.fingerprint import fingerprint
from tests.families.generative_margin.instances import every_kind, random_witness, small_hmm, small_network
from tests.reference import optimum


def rescaled(problem: GenerativeMargin) -> GenerativeMargin:
    return replace(problem, rescaled=True)


@every_kind
@pytest.mark.parametrize("general", [False, True])
def test_bounds_enclose_what_enumeration_gives(make: Callable[[int], GenerativeMargin], general: bool) -> None:
    plain = make(2)
    problem = rescaled(plain)
    problem = replace(problem, h=Quadratic(0.5), constraints=[Floor(-3.0)]) if general else problem
    rows, rng = MarginRows(plain), np.random.default_rng(3)
    least, most = np.inf, -np.inf
    for _ in range(6):
        theta = problem.repair({"theta": rng.normal(size=problem.dimension)})["theta"]
        slack = np.zeros(problem.n_examples)
        np.maximum.at(slack, rows.enumerated.example, rows.b * (rows.a @ theta + 1.0))
        paid = 0.25 * slack**2 if general else slack
        truth = float(problem.eta * problem.examples.weights @ paid - problem.c @ theta)
        value = problem.primal({"theta": theta})
        assert abs(float(value) - truth) <= value.allowance + 1e-12 * abs(truth)
        assert value.allowance < 1e-10 * (1 + abs(value))
        least = min(least, value.upper)
        witness = random_witness(problem, rng)
        own = {name: witness[name] for name in ("labels", "label_shares")}
        if general:
            own["mass"] = 2.0 * rng.uniform(size=problem.n_examples)
        mu, omega = problem.aggregate(own)
        mass = own.get("mass", np.ones(problem.n_examples))
        each = [problem.rows(labels) for labels in own["labels"]]
        beta = problem.eta * problem.examples.weights * mass * own["label_shares"]
        np.testing.assert_allclose(mu, sum(a.T @ row for (a, _), row in zip(each, beta)), atol=1e-12)
        assert omega == pytest.approx(sum(b @ row for (_, b), row in zip(each, beta)), rel=1e-12)
        most = max(most, problem.dual(own).lower)
    assert -np.inf < most <= least


@every_kind
@pytest.mark.parametrize("solver", [ProximalRSD(), CoordinateWorkingSets()])
def test_the_papers_algorithms_meet_the_enumerated_optimum(
    make: Callable[[int], GenerativeMargin], solver: Solver | None
) -> None:
    problem = rescaled(make(1))
    said, found = optimum(primal(problem)), solve(problem, solver, tol=HIGH)
    assert found.status is Status.OPTIMAL
    assert found.primal == pytest.approx(said.value, rel=HIGH.gap)
    assert found.lower_bound <= said.upper_bound


def test_with_one_loss_alone_it_is_another_eta() -> None:
    """Where every labelling but the truth loses b, the slack is b (A'theta + 1): with b = 1 nothing is rescaled."""
    problem = GenerativeMargin.hmm([[0], [1], [0]], [[0], [1], [1]], 2, 2, eta=0.5)
    both = solve(problem, tol=HIGH), solve(rescaled(problem), tol=HIGH)
    assert both[1].primal == pytest.approx(both[0].primal, rel=HIGH.gap)
    twice = GenerativeMargin.hmm([[0], [1], [0]], [[0], [1], [1]], 2, 2, eta=0.5, loss=2.0 * (1 - np.eye(2)))
    again = solve(rescaled(replace(twice, eta=0.25)), tol=HIGH)
    assert again.primal == pytest.approx(both[0].primal, rel=HIGH.gap)


def test_a_cost_matrix_of_any_numbers_is_counted() -> None:
    rng = np.random.default_rng(5)
    cost = rng.uniform(0.3, 2.0, size=(2, 2)) * (1 - np.eye(2))
    plain = GenerativeMargin.hmm([[0, 1, 1], [1]], [[0, 1, 0], [1]], 2, 2, eta=0.4, loss=cost, rescaled=True)
    values = [optimum(build(plain)).value for build in (primal, compact_dual)]
    values += [solve(plain, tol=HIGH).primal, n_slack(plain).run(HIGH).primal]
    assert values == pytest.approx([values[0]] * 4, rel=2 * HIGH.gap)


@every_kind
def test_workers_decode_each_a_part(make: Callable[[int], GenerativeMargin]) -> None:
    whole = rescaled(make(1))
    with ThreadPoolExecutor(2) as executor:
        problem = replace(whole, workers=Workers(executor, 2))
        assert problem.shards is not None
        found = solve(problem, tol=MID)
        assert all((a == b).all() for a, b in zip(problem.predict(found.point), whole.predict(found.point)))
    assert certify(whole, found.point, found.dual_point).gap <= MID.gap


@every_kind
def test_a_prediction_is_the_most_probable_labelling_as_ever(make: Callable[[int], GenerativeMargin]) -> None:
    plain = make(0)
    theta = np.random.default_rng(0).normal(size=plain.dimension)
    assert all((a == b).all() for a, b in zip(plain.predict(theta), rescaled(plain).predict(theta)))


def test_false_is_the_problem_that_stands() -> None:
    plain = small_hmm(0)
    assert replace(plain, rescaled=False).rescaled is None
    assert fingerprint(replace(plain, rescaled=False)) == fingerprint(plain)
    assert fingerprint(rescaled(plain)) != fingerprint(plain)


def test_what_does_not_take_it_says_so() -> None:
    problem = rescaled(small_hmm(0))
    with pytest.raises(ValueError, match="sums over labellings, which would take a pass for each value of the loss"):
        solve(problem, EntropicProximal())
    with pytest.raises(ValueError, match="problem has the penalty barrier, wanted slacks without a cap"):
        solve(replace(problem, h=Barrier(9.0)))
    with pytest.raises(ValueError, match=r"problem has h of \(28\)-\(30\)"):
        solve(replace(problem, h=Quadratic()), ProximalRSD())
    with pytest.raises(ValueError, match="wanted labels alone: the loss rescales the slacks"):
        problem.dual(random_witness(problem, np.random.default_rng(0)))
    with pytest.raises(ValueError, match="the flow over the loss is stated for chains"):
        compact_dual(rescaled(small_network(0)))
    with pytest.raises(ValueError, match="rescaled is"):
        replace(problem, rescaled=2)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    table = rng.uniform(0.5, 1.0, size=(40, 2))
    table[:, 0] = 0.0
    with pytest.raises(ValueError, match="decodes once for each: wanted multiples of one coarser unit"):
        GenerativeMargin.hmm([[0] * 40], [[0] * 40], 2, 1, eta=1.0, loss=[table], rescaled=True)
