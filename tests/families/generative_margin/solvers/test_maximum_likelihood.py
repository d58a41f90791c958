"""Maximum likelihood against counts done by hand."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.datasets.generated.networks import random_network
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.maximum_likelihood import MaximumLikelihood, maximum_likelihood
from convexstruct.tolerances import ROUNDING

SYMBOLS = [[0, 1, 1], [1]]
STATES = [[0, 0, 1], [1]]


def counted(
    weights: list[float] | None = None, c: dict[str, list[list[float]] | list[float]] | None = None
) -> GenerativeMargin:
    return GenerativeMargin.hmm(SYMBOLS, STATES, 2, 2, eta=0.5, weights=weights, c=c)


def test_frequencies_are_the_counts_done_by_hand() -> None:
    probability = {k: np.exp(v) for k, v in counted().layout.tables(maximum_likelihood(counted())).items()}
    assert probability["initial"] == pytest.approx([0.5, 0.5])
    assert probability["transition"][0] == pytest.approx([0.5, 0.5])
    assert probability["emission"] == pytest.approx(np.array([[0.5, 0.5], [0.0, 1.0]]))


def test_weights_count_an_example_as_often_as_they_say() -> None:
    problem = counted(weights=[1.0, 3.0])
    probability = {k: np.exp(v) for k, v in problem.layout.tables(maximum_likelihood(problem, 1.0)).items()}
    assert probability["initial"] == pytest.approx([2 / 6, 4 / 6])
    assert probability["emission"][1] == pytest.approx([1 / 6, 5 / 6])


def test_smoothing_adds_one_count_to_every_event() -> None:
    probability = {k: np.exp(v) for k, v in counted().layout.tables(maximum_likelihood(counted(), 1.0)).items()}
    assert probability["transition"] == pytest.approx(np.array([[0.5, 0.5], [0.5, 0.5]]))
    assert probability["emission"] == pytest.approx(np.array([[0.5, 0.5], [0.25, 0.75]]))


def test_a_block_never_met_takes_its_prior_or_with_smoothing_is_uniform() -> None:
    c: dict[str, list[list[float]] | list[float]] = {
        "initial": [0.5, 0.5], "transition": [[0.5, 0.5], [0.9, 0.1]], "emission": [[0.5, 0.5], [0.0, 1.0]],
    }  # fmt: skip
    problem = counted(c=c)
    bare = problem.layout.tables(np.exp(maximum_likelihood(problem)))["transition"]
    assert bare[1] == pytest.approx([0.9, 0.1])  # nothing follows state 1
    smooth = problem.layout.tables(np.exp(maximum_likelihood(problem, 0.1)))["transition"]
    assert smooth[1] == pytest.approx([0.5, 0.5])


def test_observed_and_hidden_variables_count_alike() -> None:
    net = random_network(5, 30, states=(2, 2), seed=3)
    some, none = ([[0]] * 30, [list(range(5))] * 30)
    thetas = [
        maximum_likelihood(GenerativeMargin.network(net.graph, net.assignments, hidden, eta=0.5), 0.5)
        for hidden in (some, none)
    ]
    assert thetas[0] == pytest.approx(thetas[1])
    problem = GenerativeMargin.network(net.graph, net.assignments, some, eta=0.5)
    for j, (node, table) in enumerate(problem.layout.tables(problem.truth_counts).items()):
        assert table.sum() == 30, node
        by_value = table.sum(axis=tuple(range(table.ndim - 1)))
        assert by_value == pytest.approx(np.bincount(np.asarray(net.assignments)[:, j], minlength=2))


def test_partly_observed_states_count_too() -> None:
    hidden = [[True, False, False], [True]]
    partly = GenerativeMargin.hmm(SYMBOLS, STATES, 2, 2, eta=0.5, hidden=hidden)
    assert maximum_likelihood(partly) == pytest.approx(maximum_likelihood(counted()))


def test_no_other_point_of_the_simplex_has_more_likelihood() -> None:
    problem = counted()
    counts, theta = problem.truth_counts, maximum_likelihood(problem)
    best = float(counts[counts > 0] @ theta[counts > 0])
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = problem.shift(rng.normal(size=problem.dimension) + 1.0)
        assert counts @ other <= best


def test_solving_by_maximum_likelihood_claims_no_bound() -> None:
    problem = counted()
    solution = solve(problem, MaximumLikelihood(smoothing=1.0))
    assert solution.status is Status.UNCERTIFIED
    assert solution.iterations == 1
    assert solution.primal == pytest.approx(problem.primal(solution.point), rel=ROUNDING)
    assert solution.lower_bound == -np.inf
    assert solution.gap == np.inf


def test_an_event_never_met_costs_everything_unless_the_prior_excludes_it_too() -> None:
    assert solve(counted(), MaximumLikelihood()).primal == np.inf
    excluded: dict[str, list[list[float]] | list[float]] = {
        "initial": [0.5, 0.5], "transition": [[0.5, 0.5], [0.5, 0.5]], "emission": [[0.5, 0.5], [0.0, 1.0]],
    }  # fmt: skip
    assert np.isfinite(solve(counted(c=excluded), MaximumLikelihood()).primal)


@pytest.mark.parametrize("smoothing", [-1.0, np.nan, np.inf, True])
def test_smoothing_that_makes_no_sense_is_refused(smoothing: float) -> None:
    with pytest.raises(ValueError, match=r"smoothing is .*, wanted a number of at least 0"):
        maximum_likelihood(counted(), smoothing)
