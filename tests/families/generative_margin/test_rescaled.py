"""Slacks that the loss rescales: bounds against enumeration, and the solvers that take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.iterate import Solver
from convexstruct.core.solution import Status
from convexstruct.families.generative_margin import CoordinateWorkingSets, ProximalRSD
from convexstruct.families.generative_margin.constraints import Floor
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.slack_penalties import Quadratic
from convexstruct.models.generative_margin import primal
from convexstruct.models.generative_margin.enumerated import MarginRows
from convexstruct.tolerances import MID
from tests.families.generative_margin.instances import MAKERS, every_kind, random_witness
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


@pytest.mark.parametrize(("make", "solver"), list(zip(MAKERS, (ProximalRSD(), CoordinateWorkingSets(), ProximalRSD()))))
def test_the_papers_algorithms_meet_the_enumerated_optimum(
    make: Callable[[int], GenerativeMargin], solver: Solver
) -> None:
    problem = rescaled(make(1))
    said, found = optimum(primal(problem)), solve(problem, solver, tol=MID)
    assert found.status is Status.OPTIMAL
    assert found.primal == pytest.approx(said.value, rel=2 * MID.gap)
    assert found.lower_bound <= said.upper_bound


@every_kind
def test_a_prediction_is_the_most_probable_labelling_as_ever(make: Callable[[int], GenerativeMargin]) -> None:
    plain = make(0)
    theta = np.random.default_rng(0).normal(size=plain.dimension)
    assert all((a == b).all() for a, b in zip(plain.predict(theta), rescaled(plain).predict(theta)))
