"""Columns of entries whose total every labelling of an example shares: where c is 0 in a whole column, mu must be 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from benchmarks.exact_generative import Listed
from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Solver
from convexstruct.core.solution import Status
from convexstruct.datasets.generated.networks import random_network
from convexstruct.families.generative_margin import CuttingPlanes, EntropicProximal, ProximalRSD
from convexstruct.families.generative_margin.member import near
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.features.counts import bounds
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.rescaled import LossRescaled
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.models.generative_margin import primal
from convexstruct.rounding import exact
from convexstruct.tolerances import HIGH, MID
from tests.families.generative_margin.instances import MAKERS, small_hmm, small_network
from tests.reference import optimum


def posed(features: Counts, c: Vector, eta: float) -> GenerativeMargin:
    """The problem with each block of c divided by its sum."""
    return GenerativeMargin(features, c / features.tables.block_sum(c)[features.tables.block_of], eta)


def chain(seed: int, channels: int = 0) -> GenerativeMargin:
    """Symbol 0 (of the first channel) is in the data, in two states at least, but its c is 0 in every state."""
    rng = np.random.default_rng([10, channels, seed])
    lengths, shape = rng.integers(2, 5, size=4), (channels,) if channels else ()
    symbols, states = [rng.integers(3, size=(t, *shape)) for t in lengths], [rng.integers(2, size=t) for t in lengths]
    symbols[0].reshape(len(symbols[0]), -1)[:2, 0], states[0][:2] = 0, [0, 1]
    features = HMMCounts.read(symbols, states, 2, 3)
    c = rng.exponential(size=features.tables.dimension) + 0.05
    c[[6, 9]] = 0.0
    return posed(features, c, float(rng.choice([0.1, 0.5, 2.0])))


channels = partial(chain, channels=2)


def network(seed: int) -> GenerativeMargin:
    """Two nodes of five are hidden; c is 0 of a value of another node that is in the data, whatever its parents are."""
    rng = np.random.default_rng([12, seed])
    while True:
        net = random_network(5, 12, states=(2, 3), seed=int(rng.integers(1 << 30)))
        hidden = rng.choice(5, size=2, replace=False).tolist()
        problem = GenerativeMargin.network(net.graph, net.assignments, hidden, eta=float(rng.choice([0.1, 0.5, 2.0])))
        layout, c = problem.layout, rng.exponential(size=problem.dimension) + 0.05
        columns = []
        for column in bounds.shared_columns(problem.features):
            c_of = c.copy()
            c_of[column] = 0.0
            if problem.truth_counts[column].any() and (layout.block_sum(c_of) > 0).all():
                columns.append(column)
        if columns:
            c[columns[int(rng.integers(len(columns)))]] = 0.0
            return posed(problem.features, c, problem.eta)


KINDS: list[Callable[[int], GenerativeMargin]] = [chain, channels, network]
every_kind = pytest.mark.parametrize("make", KINDS, ids=["chain", "channels", "network"])


@every_kind
@pytest.mark.parametrize("solver", [EntropicProximal(), CuttingPlanes()], ids=lambda s: type(s).__name__)
def test_columns_that_c_rules_out_are_certified_all_the_same(
    make: Callable[[int], GenerativeMargin], solver: Solver
) -> None:
    problem = make(1)
    solution = solve(problem, solver, tol="MID")
    assert solution.certificate.gap <= MID.gap, solution.message
    # a witness is balanced by labellings that differ little from the truth: true against every exact value of P
    one, rng = Listed(problem), np.random.default_rng(1)
    theta = problem.repair(solution.point)["theta"]
    for scale in (0.0, 1e-6, 1e-3, 1.0):
        there = problem.shift(theta + scale * rng.normal(size=problem.dimension))
        assert one.value(there) >= solution.lower_bound


@pytest.mark.parametrize("make", [*MAKERS, channels, network])
@pytest.mark.parametrize("seed", range(3))
def test_shared_columns_have_one_sum_in_every_labelling_of_an_example(
    make: Callable[[int], GenerativeMargin], seed: int
) -> None:
    features = make(seed).features
    table = enumerate_counts(features)
    counts = table.counts.toarray()
    for column in bounds.shared_columns(features):
        sums = counts[:, column].sum(axis=1)
        assert len(column) > 1
        assert len(set(zip(table.example.tolist(), sums.tolist()))) == len(features.examples)


@pytest.mark.parametrize("make", [small_hmm, small_network, channels, network])
def test_each_way_to_use_another_entry_is_a_labelling_that_there_is(make: Callable[[int], GenerativeMargin]) -> None:
    features = make(1).features
    table = enumerate_counts(features)
    counts = table.counts.toarray().astype(int)
    rises = counts - counts[table.truth][table.example]
    found = 0
    for column in bounds.shared_columns(features):
        for old, new in ((a, b) for a in column for b in column if a != b):
            true = {tuple(np.maximum(rise, 0)) for rise in rises if rise[new] >= 1 and rise[old] <= -1}
            for ways in bounds.gained(features, int(old), int(new)):
                for way in ways:
                    used = np.bincount(np.append(way, new), minlength=len(rises[0]))
                    assert any((np.array(rise) <= used).all() for rise in true)
                    found += 1
    assert found


@every_kind
@pytest.mark.parametrize("eta", [0.5, 1e6])
def test_so_are_they_where_the_loss_rescales_the_slacks(make: Callable[[int], GenerativeMargin], eta: float) -> None:
    problem = replace(make(0), rescaled=True, eta=eta)
    found, said = solve(problem, tol=HIGH), optimum(primal(replace(problem, eta=min(eta, 0.5))))
    assert found.status is Status.OPTIMAL
    assert found.primal >= said.value * (1.0 - HIGH.gap)  # it rises with eta
    if eta == 0.5:
        assert found.primal == pytest.approx(said.value, rel=HIGH.gap)
        assert found.lower_bound <= said.upper_bound


def test_a_labelling_without_loss_balances_nothing() -> None:
    counts = HMMCounts.read([[0, 1]], [[0, 1]], 2, 2, [[0.0, 0.3], [0.2, 0.0]])
    assert LossRescaled(counts).least_loss == 0.2
    assert len(bounds.shared_columns(LossRescaled(counts))) == 2
    free = LossRescaled(HMMCounts.read([[0, 1]], [[0, 1]], 2, 2, [[0.0, 0.0], [0.2, 0.0]]))
    assert free.least_loss == 0.0
    assert not bounds.shared_columns(free)


@pytest.mark.parametrize("cost", [None, 0.1, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_balanced_member_has_room_for_the_labellings_that_balance_it(seed: int, cost: float | None) -> None:
    """Rescaled by a cost, a labelling with one mistake moves so much of its weight."""
    problem, amount = chain(seed), 1e-9
    table = enumerate_counts(problem.features)
    features: Counts = problem.features
    if cost is not None:
        assert isinstance(features, HMMCounts)
        features = LossRescaled(replace(features, loss_table=cost * features.loss_table))
    counts = table.counts.toarray()
    differences = counts - counts[table.truth][table.example]
    rise = np.where(problem.c > 0, 0.01, 0.0)
    rise[[6, 9]] = amount, -amount
    found, short = near(features, problem.c, exact(rise), 1.0)
    rest = problem.c > 0
    assert short * (cost or 1.0) > amount
    assert not found.value[[6, 9]].any()
    assert not found.errors[[6, 9]].any()
    moved = [amount * row for row in differences if row[9] == 1 and row[6] == -1]
    assert any((rise + row <= found.value + found.errors)[rest].all() for row in moved)
    assert (rise[rest] * (1.0 - short) >= (found.value - found.errors)[rest]).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_distribution_on_one_labelling_other_than_the_truth_has_exact_moments(seed: int) -> None:
    # at scores of 1e6 all else has probability 0; where labels and truth use an entry as often, mu is 0 without error
    rng = np.random.default_rng([13, seed])
    lengths, weights = [4, 2, 3], [0.1, 1.0, 3.0]
    states = [rng.integers(2, size=t) for t in lengths]
    one, two = [rng.integers(2, size=t) for t in lengths], [rng.integers(2, size=(t, 2)) for t in lengths]
    for features in (
        HMMCounts.read(one, states, 2, 2, weights=weights),
        HMMCounts.read(two, states, 2, 2, weights=weights),
    ):
        theta = 1e6 * rng.normal(size=features.tables.dimension)
        labels = features.best(theta, 0.0)[1]
        problem = posed(features, np.ones(theta.size), 2.0)
        half = np.full((1, 3), 0.5)
        found = problem._member({"gibbs": theta[None], "gibbs_loss": np.zeros(1), "gibbs_shares": half})
        each = features.counts_each(labels) - features.counts_each(features.examples.truth)
        truths = [
            sum((Fraction(w) * int(n) for w, n in zip(weights, column)), Fraction(0)) for column in each.todense().T
        ]
        assert (labels != features.examples.truth).any()
        for mu, error, truth in zip(found.mu.value, found.mu.errors, truths):
            assert abs(Fraction(float(mu)) - truth) <= Fraction(float(error)) <= 1e-14
            assert truth != 0 or error == 0
        assert found.omega == pytest.approx(float(features.examples.weights @ features.loss(labels)), rel=1e-12)


@pytest.mark.parametrize("solver", [EntropicProximal(), ProximalRSD()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("seed", range(2))
def test_a_solver_that_large_scores_mislead_ends_with_an_honest_status(solver: Solver, seed: int) -> None:
    problem = chain(seed)
    start = solve(problem, EntropicProximal(), tol="LOW", max_iterations=1)
    theta = start.point["theta"].copy()
    theta[[6, 9]] = -1e16  # a large score that every labelling shares hides the loss from a plain Viterbi
    found = solve(problem, solver, tol="MID", start=replace(start, point={"theta": theta}), max_iterations=40)
    theta = problem.repair(found.point)["theta"]
    assert Listed(problem).feasible(theta)
    assert found.lower_bound <= Listed(problem).value(theta) <= found.certificate.primal
    assert (found.status is Status.OPTIMAL) == (found.certificate.gap <= MID.gap)
