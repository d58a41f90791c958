"""Pseudolikelihood against its definition: every conditional from scores of joint labels, one sample at a time."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood, _alike
from convexstruct.features.graphs.factors import factors_of_features, tabular_factors
from tests.features.graphs.test_factors import some_factors

EXAMPLES = settings(max_examples=20, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)


def posed(seed: int, **more: Any) -> tuple[PseudoLikelihood, Vector, np.random.Generator]:
    """Random factors, samples with repetitions, weights; parameters beside them."""
    factors, theta, rng = some_factors(seed)
    samples = np.column_stack([rng.integers(card, size=12) for card in factors.cards])
    options: dict[str, Any] = {"lam": 0.3, "l1": 0.05, "weights": rng.random(12) + 0.5} | more
    return PseudoLikelihood.read(factors, samples, **options), theta, rng


def written_out(problem: PseudoLikelihood, theta: Vector) -> float:
    """P, sample by sample and variable by variable, from the scores of whole samples."""
    total = 0.5 * problem.scale.lam * float(theta @ theta) + problem.l1 * float(np.abs(theta).sum())
    for sample, omega in zip(problem.samples, problem.weights):
        for v in problem.targets:
            card = problem.factors.cards[v]
            moved = np.repeat(sample[None], card, axis=0)
            moved[:, v] = np.arange(card)
            scores = problem.factors.scores(theta, moved)
            total += problem.scale.C * omega * float(np.logaddexp.reduce(scores) - scores[sample[v]])
    return total


@given(SEEDS)
@EXAMPLES
def test_the_value_is_that_of_the_definition_and_the_gradient_that_of_differences(seed: int) -> None:
    problem, theta, rng = posed(seed)
    if seed % 2:
        problem = posed(seed, targets=rng.permutation(problem.factors.n_variables)[: 1 + seed % 3])[0]
    assert problem.primal({"theta": theta}) == pytest.approx(written_out(problem, theta), rel=1e-11)
    value, gradient = problem.value_and_gradient(theta)
    direction, step = rng.normal(size=len(theta)), 1e-5
    ends = [problem.value_and_gradient(theta + s * step * direction) for s in (1, -1)]
    size = problem.trivial_value + value
    assert gradient @ direction == pytest.approx((ends[0][0] - ends[1][0]) / (2 * step), abs=1e-7 * size)
    unit = np.eye(len(theta))[0]
    bent = (problem.value_and_gradient(theta + step * unit)[1] - problem.value_and_gradient(theta - step * unit)[1])[0]
    assert problem.curvature(theta)[0] == pytest.approx(bent / (2 * step), abs=1e-6 * size)


@given(SEEDS)
@EXAMPLES
def test_any_conditionals_bound_p_at_any_theta_from_below(seed: int) -> None:
    for penalty in ({"lam": 0.2, "l1": 0.0}, {"lam": 0.2, "l1": 0.3}, {"lam": None, "l1": 0.3}, {"lam": None, "l1": 0}):
        problem, theta, rng = posed(seed, **penalty)
        raw = rng.random(int(problem.groups.start[-1])) ** 4
        random = problem._normalised(raw)
        for p in (random, problem.conditionals(theta), problem.trivial()[1]["conditionals"]):
            bound = problem.dual({"conditionals": p})
            assert np.isfinite(bound)
            for scale in (0.0, 0.1, 1.0):
                assert bound.lower <= problem.primal({"theta": scale * theta}).upper


def test_samples_with_the_same_blanket_share_a_conditional() -> None:
    factors = tabular_factors(nx.path_graph(3), 2, tied=True)
    problem = PseudoLikelihood.read(factors, [[0, 1, 0], [0, 1, 1], [0, 1, 0]], lam=1.0)
    assert len(problem.groups.totals) == 1 + 2 + 1
    rng = np.random.default_rng(0)
    wide = rng.integers(3, size=(50, 40))
    first, group = _alike(wide, list(range(40)), (3,) * 40)
    assert len(first) == len(np.unique(wide, axis=0))
    np.testing.assert_array_equal(wide[first][group], wide)


def test_a_minimum_that_does_not_exist_is_found_with_its_direction() -> None:
    """If both labels are equal in all samples, P falls for ever as their tie grows; with one other it does not."""
    graph = nx.path_graph(2)
    ising = factors_of_features([2, 2], [[((0, 1), np.eye(2))], [((0,), [0.0, 1.0])]])
    equal = [[0, 0], [1, 1]]
    direction = PseudoLikelihood.read(ising, equal).runaway()
    assert direction is not None
    assert direction[0] > 0
    falling = [PseudoLikelihood.read(ising, equal).primal({"theta": s * direction}) for s in (1.0, 10.0, 30.0)]
    assert falling[0] > falling[1] > falling[2]
    assert PseudoLikelihood.read(ising, [*equal, [0, 1]]).runaway() is None
    assert PseudoLikelihood.read(ising, equal, l1=0.1).runaway() is None
    found = solve(PseudoLikelihood.read(ising, equal), max_iterations=30)
    assert "no theta attains the optimum" in found.message
    every = [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert PseudoLikelihood.read(tabular_factors(graph, 2), every).runaway() is None


def test_a_wide_grid_is_solved_to_a_certificate() -> None:
    """30 x 30 variables, whose junction tree has cliques of 2^31 entries."""
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(30, 30))
    ties, fields = [(edge, np.eye(2)) for edge in grid.edges], [((v,), [0.0, 1.0]) for v in grid]
    factors = factors_of_features([2] * 900, [ties, fields])
    samples = np.random.default_rng(0).integers(2, size=(20, 900))
    found = solve(PseudoLikelihood.read(factors, samples, beta=0.2, l1=0.3))
    assert found.status is Status.OPTIMAL
    assert 0 <= found.gap <= 1e-6
