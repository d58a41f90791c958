"""(28)-(30): bounds that are true, the default engine against a general solver, and workers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.generative_margin.constraints import Floor
from convexstruct.families.generative_margin.objectives import QuadraticPenalty, ReverseKL, uniform
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.slack_penalties import (
    Exponential,
    Huber,
    Linear,
    Quadratic,
)
from convexstruct.families.generative_margin.solvers.entropic_proximal import method
from convexstruct.inference.shards import Workers
from convexstruct.models.generative_margin import primal
from convexstruct.models.generative_margin.enumerated import MarginRows
from convexstruct.tolerances import HIGH, ROUNDING
from convexstruct.verification.fingerprint import fingerprint
from tests.families.generative_margin.instances import (
    COMBINATIONS,
    STATED,
    every_kind,
    in_turn,
    random_witness,
    small_hmm,
)
from tests.reference import optimum


def general(name: str, problem: GenerativeMargin | None = None) -> GenerativeMargin:
    problem = small_hmm(1) if problem is None else problem
    return replace(problem, **COMBINATIONS[name](problem.layout))


def written_out(problem: GenerativeMargin, rows: MarginRows, theta: np.ndarray) -> float:
    """P(theta), all labellings listed."""
    each = rows.a @ theta + rows.b
    slack = np.array([each[rows.enumerated.example == k].max() for k in range(problem.n_examples)])
    h = Linear() if problem.h is None else problem.h
    f = 0.0 if problem.f is None else float(np.sum(problem.f.value(theta)))
    return float(problem.eta * problem.examples.weights @ h.value(np.maximum(slack, 0.0)) - problem.c @ theta + f)


@in_turn(list(COMBINATIONS))
def test_bounds_enclose_what_enumeration_gives(make: Callable[[int], GenerativeMargin], name: str) -> None:
    problem = general(name, make(2))
    rng, listed = np.random.default_rng(3), MarginRows(problem)
    least, most = np.inf, -np.inf
    n = len(problem.general.parameters.limits.rows[1]) if problem.general else 0
    for _ in range(2):
        theta = problem.repair({"theta": rng.normal(size=problem.dimension)})["theta"]
        value = problem.primal({"theta": theta})
        assert abs(float(value) - written_out(problem, listed, theta)) <= 1e-10 * abs(value)
        assert value.allowance < 1e-10 * (1 + abs(value))
        least = min(least, value.upper)
        witness = random_witness(problem, rng)
        witness["mass"] = 2.0 * rng.uniform(size=problem.n_examples)
        witness["rows"] = 0.3 * rng.uniform(size=n)
        most = max(most, problem.dual(witness).lower)
    assert -np.inf < most <= least


@in_turn(STATED, first=1)
def test_the_default_engine_meets_the_general_solver(make: Callable[[int], GenerativeMargin], name: str) -> None:
    problem = general(name, make(1))
    said, found = optimum(primal(problem)), solve(problem, tol=HIGH)
    assert found.status is Status.OPTIMAL
    assert found.lower_bound <= said.upper_bound
    assert said.lower_bound <= found.primal
    assert found.primal == pytest.approx(said.value, rel=HIGH.gap, abs=HIGH.gap)


@pytest.mark.parametrize("printed", [False, True])
def test_reverse_kl_with_its_floor_lies_between_tangent_planes_and_the_engines_point(printed: bool) -> None:
    plain = small_hmm(3)
    f = ReverseKL(uniform(plain.layout), 0.7, printed)
    problem = replace(plain, f=f, constraints=[f.floor(plain.layout)])
    found = solve(problem, tol=HIGH)
    assert found.status is Status.OPTIMAL
    assert problem.f is not None
    stated, t = primal(replace(plain, constraints=[f.floor(plain.layout)])), cp.Variable(plain.dimension)
    theta, eps = stated.variables["theta"], stated.variables["eps"]
    planes = []
    for share in np.linspace(0.0, 1.0, 60):
        at = problem.f.convex_from * (1.0 - share)
        planes.append(t >= problem.f.value(at) + cp.multiply(problem.f.slope(at), theta - at))
    cost = -plain.c @ theta + cp.sum(t) + plain.eta * (plain.examples.weights @ eps)
    below = stated.adding("planes", planes, "planes").minimizing(cost, "planes").solve().value
    assert below <= found.primal + HIGH.gap
    assert below == pytest.approx(found.primal, rel=2e-3)


def test_pieces_that_change_nothing_are_the_problem_that_stands() -> None:
    plain = small_hmm(0)
    same = replace(plain, h=Linear(), constraints=[], rescaled=False)
    assert same.general is None
    assert same.rescaled is None
    assert fingerprint(same) == fingerprint(plain)
    assert len({fingerprint(each) for each in (plain, general("huber", plain), replace(plain, rescaled=True))}) == 3
    loose = replace(plain, constraints=[Floor(-200.0)])
    assert solve(loose, tol=HIGH).primal == pytest.approx(solve(plain, tol=HIGH).primal, rel=HIGH.gap)


@every_kind
@pytest.mark.parametrize("piece", [{"h": Quadratic(0.5)}, {"rescaled": True}], ids=str)
def test_workers_compute_what_one_process_does(make: Callable[[int], GenerativeMargin], piece: dict[str, Any]) -> None:
    whole = replace(make(1), **piece)
    with ThreadPoolExecutor(2) as executor:
        problem = replace(whole, workers=Workers(executor, 2))
        assert problem.shards is not None
        found = solve(problem, tol=HIGH)
        assert all((a == b).all() for a, b in zip(problem.predict(found.point), whole.predict(found.point)))
    assert certify(whole, found.point, found.dual_point).gap <= HIGH.gap


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_the_unit_of_the_objective_does_not_matter(unit: float) -> None:
    plain = small_hmm(1)
    one = replace(plain, c=0.3 * plain.c, f=QuadraticPenalty(0.5, -1.0), h=Huber(1.0))
    other = replace(one, c=unit * one.c, eta=unit * one.eta, f=QuadraticPenalty(0.5 * unit, -1.0))
    first, second = solve(one, tol=HIGH), solve(other, tol=HIGH)
    assert second.status is Status.OPTIMAL
    assert second.primal / unit == pytest.approx(first.primal, rel=4 * HIGH.gap)


def test_a_limit_needs_a_first_multiplier_to_grow_from(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = general("ball")
    monkeypatch.setattr(method, "FIRST_KAP", 0.0)
    monkeypatch.setattr(method, "suits", lambda problem: False)  # cutting planes need none
    assert solve(problem, method.EntropicProximal(), tol=HIGH).status is not Status.OPTIMAL


def test_a_wide_witness_is_cut_to_what_h_allows() -> None:
    problem = general("huber")
    found = solve(problem, tol=HIGH)
    assert found.dual_point is not None
    wide = {**found.dual_point, "mass": np.full(problem.n_examples, 1e6)}
    assert problem.dual(wide).lower <= found.primal * (1 + ROUNDING)
    huge = replace(problem, h=Exponential(0.01))
    assert np.isfinite(float(huge.dual(wide)))
