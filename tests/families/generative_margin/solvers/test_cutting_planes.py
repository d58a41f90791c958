"""Cutting planes with interior masters: against enumeration and the other engine, with every piece that they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from convexstruct.core.cases import Make
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Status
from convexstruct.datasets.generated.ring import EASY, ring
from convexstruct.families import generative_margin
from convexstruct.families.generative_margin import CuttingPlanes, EntropicProximal
from convexstruct.families.generative_margin.cases import rescaled_network, zeros_in_c
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.slack_penalties import Capped
from convexstruct.families.generative_margin.solvers import cutting_planes
from convexstruct.families.generative_margin.solvers.entropic_proximal import method
from convexstruct.models.formulation import Formulation
from convexstruct.models.generative_margin import compact_dual, primal
from convexstruct.tolerances import HIGH
from tests.families.generative_margin.instances import COMBINATIONS, every_kind, in_turn
from tests.reference import optimum

#: What has points strictly inside that a new row leaves inside, and a reference.
TAKEN = [name for name in COMBINATIONS if name not in ("capped", "tied", "reverse divergence")]


def meets(problem: GenerativeMargin, build: Callable[[GenerativeMargin], Formulation] = primal) -> None:
    said, found = optimum(build(problem)), solve(problem, CuttingPlanes(), tol=HIGH)
    assert found.status is Status.OPTIMAL
    assert found.primal == pytest.approx(said.value, rel=HIGH.gap)
    assert found.lower_bound <= said.upper_bound


@every_kind
@pytest.mark.parametrize("rescaled", [False, True])
@pytest.mark.parametrize("eta", [0.3, 1e5])
def test_it_meets_the_enumerated_optimum(make: Callable[[int], GenerativeMargin], rescaled: bool, eta: float) -> None:
    meets(replace(make(4), rescaled=rescaled, eta=eta))


def rings(eta: float, rescaled: bool = False) -> GenerativeMargin:
    data = ring(8, 8, 4, EASY, seed=1)
    sizes = data.n_states, data.n_symbols
    return GenerativeMargin.hmm(data.symbols, data.states, *sizes, eta=eta, loss="ring", rescaled=rescaled)


def noise(eta: float, examples: int = 20, n_states: int = 5) -> GenerativeMargin:
    rng = np.random.default_rng(1)
    symbols, states = ([rng.integers(0, n, 10) for _ in range(examples)] for n in (6, n_states))
    return GenerativeMargin.hmm(symbols, states, n_states, 6, eta=eta)


@pytest.mark.parametrize("make", [rings, partial(rings, rescaled=True), noise], ids=["rings", "rescaled", "noise"])
def test_it_ends_with_a_proof_at_any_price_of_slacks(make: Callable[[float], GenerativeMargin]) -> None:
    """The optimum is concave in eta and rises with it, at most in proportion: a first eta has another engine's."""
    optima = [solve(make(eta), CuttingPlanes(), tol=HIGH) for eta in (1.0, 1e4, 1e8)]
    assert {each.status for each in optima} == {Status.OPTIMAL}
    for small, large in pairwise(optima):
        assert small.lower_bound <= large.primal
        assert large.lower_bound <= 1e4 * small.primal
    if not make(1.0).rescaled:
        assert optima[0].primal == pytest.approx(solve(make(1.0), EntropicProximal(), tol=HIGH).primal, rel=2e-6)


@pytest.mark.parametrize(("make", "eta"), [(zeros_in_c, 3e7), (zeros_in_c, 3e11), (rescaled_network, 3e9)])
def test_at_eta_that_no_one_uses_only_the_rounding_of_mu_is_left(make: Make, eta: float) -> None:
    """Where m is 1e6 and more what is ruled out must stay below all theta, and a step keep the digits of each row."""
    problem = make(0).problem
    assert isinstance(problem, GenerativeMargin)
    assert solve(replace(problem, eta=eta), CuttingPlanes(), tol=HIGH).gap < 3e-5


def test_they_are_the_default_where_slacks_are_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(problem: GenerativeMargin) -> type:
        return type(generative_margin.best(problem, HIGH)[0])

    from_here = generative_margin.DEAR / noise(1.0).dimension
    assert chosen(noise(0.9 * from_here)) is EntropicProximal
    assert chosen(noise(1.1 * from_here)) is CuttingPlanes
    assert chosen(replace(noise(1e3), h=Capped(1.0))) is EntropicProximal
    monkeypatch.setattr(cutting_planes, "LARGEST_MASTER", noise(1.0).dimension - 1)
    assert chosen(noise(1e3)) is EntropicProximal


def to_high(problem: GenerativeMargin, gap: float = HIGH.gap) -> Iterate:
    """The last iterate of `EntropicProximal`, at a gap of HIGH or where it ends."""
    best, bound = np.inf, -np.inf
    for iterate in EntropicProximal().iterate(problem):
        best, bound = min(best, iterate.primal), max(bound, iterate.lower_bound)
        if best - bound <= gap * best:
            break
    return iterate


def test_they_take_over_where_the_entropic_method_gains_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """The case with zeros in c ended STALLED at a gap of 4e-3."""
    ends_early = zeros_in_c(0).problem
    assert isinstance(ends_early, GenerativeMargin)
    assert solve(replace(ends_early, eta=3e3), EntropicProximal(), tol=HIGH).status is Status.OPTIMAL
    assert not to_high(rings(0.1)).parts
    monkeypatch.setattr(method, "JUDGED", 4)
    assert "master" in to_high(noise(10.0, 10)).parts
    monkeypatch.setattr(method, "SMALL_WORK", 0.0)
    assert not to_high(noise(10.0, 10)).parts


def test_tau_stays_where_smoothing_costs_no_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowered after every stage it needs three times the evaluations: stages that ended early lead P away."""
    monkeypatch.setattr(method, "SMALL_WORK", 0.0)
    problem = noise(0.1, 40, 12)
    stays, cool = to_high(problem, gap=1e-4).oracle_calls, method.Run._cool
    monkeypatch.setattr(method.Run, "_cool", lambda self, before: cool(self, np.inf))
    assert to_high(problem, gap=1e-4).oracle_calls > 2 * stays


@in_turn(TAKEN)
def test_rescaled_slacks_go_with_every_penalty_term_and_limit_inside(
    make: Callable[[int], GenerativeMargin], name: str
) -> None:
    plain = make(2)
    meets(replace(plain, rescaled=True, **COMBINATIONS[name](plain.layout)))


@pytest.mark.parametrize("rescaled", [False, True])
def test_what_neither_c_nor_the_truth_uses_has_no_row(monkeypatch: pytest.MonkeyPatch, rescaled: bool) -> None:
    """mu must be 0 there exactly: with rows that use it, however small their multipliers, no bound holds."""
    plain = zeros_in_c(0).problem
    assert isinstance(plain, GenerativeMargin)
    problem = replace(plain, rescaled=rescaled)
    assert ((problem.c == 0) & (problem.truth_counts == 0)).any()
    meets(problem, compact_dual)
    monkeypatch.setattr(cutting_planes, "RULED_OUT", 0.0)
    assert solve(problem, CuttingPlanes(), tol=HIGH, max_iterations=20).gap > 0.1


@pytest.mark.parametrize("eta", [0.5, 20.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_column_where_c_is_0_that_the_truth_uses_ends_with_a_proof(seed: int, eta: float) -> None:
    rng, lengths = np.random.default_rng(seed), [3, 4, 2, 5]
    states, symbols = ([rng.integers(0, n, size=t) for t in lengths] for n in (2, 3))
    plain = GenerativeMargin.hmm(symbols, states, 2, 3, eta=eta)
    c, emissions = plain.c.copy(), np.arange(plain.dimension - 6, plain.dimension).reshape(2, 3)
    c[emissions[:, 2]] = 0.0
    problem = replace(plain, c=c / plain.layout.block_sum(c)[plain.layout.block_of])
    assert plain.truth_counts[emissions[:, 2]].all()
    meets(problem, compact_dual)


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1]])
def test_one_position_and_one_state_are_no_exception(lengths: list[int]) -> None:
    rng = np.random.default_rng(7)
    symbols = [rng.integers(0, 2, size=n) for n in lengths]
    for n_states in (1, 2):
        states = [rng.integers(0, n_states, size=n) for n in lengths]
        meets(GenerativeMargin.hmm(symbols, states, n_states, 2, eta=0.7, rescaled=True))
