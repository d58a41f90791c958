"""Pseudolikelihood against its definition: every conditional from scores of joint labels, one sample at a time."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Vector
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood, _alike
from convexstruct.features.graphs.factors import factors_of_features, read_factors, tabular_factors
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


def test_the_bounds_meet_at_the_optimum_of_one_variable() -> None:
    """One binary variable, one feature, l1 alone: the optimum is a scalar equation, p = k / m less l1 / m."""
    factors = factors_of_features([2], [[((0,), [0.0, 1.0])]])
    problem = PseudoLikelihood.read(factors, [[1]] * 7 + [[0]] * 3, l1=1.0)
    p = 0.6
    point, dual_point = {"theta": np.array([np.log(p / (1 - p))])}, {"conditionals": np.array([1 - p, p])}
    found = certify(problem, point, dual_point)
    assert found.primal == pytest.approx(10 * np.log(1 + p / (1 - p)) - 6 * np.log(p / (1 - p)), rel=1e-12)
    assert 0 <= found.gap < 1e-12


@given(SEEDS)
@EXAMPLES
def test_the_primal_allowance_covers_what_fifty_digits_say(seed: int) -> None:
    problem, theta, rng = posed(seed)
    theta = theta * 10.0 ** rng.integers(-3, 6)
    found = problem.primal({"theta": theta})
    with mpmath.workdps(60):
        assert abs(mpmath.mpf(float(found)) - exact_primal(problem, theta)) <= found.allowance
    assert found.allowance < 1e-9 * max(abs(float(found)), float(np.abs(theta).max()))


def exact_scores(problem: PseudoLikelihood, theta: Vector) -> list[mpmath.mpf]:
    """<theta, k> of every row of K, from the design itself."""
    groups, design = problem.groups, problem.factors.design.toarray()
    found: list[mpmath.mpf] = []
    for row, lengths in enumerate(np.diff(groups.start)):
        v, begin = int(groups.variable[row]), int(groups.start[row])
        sample = next(s for s in problem.samples if _group_of(problem, s, v) == row)
        for label in range(lengths):
            moved = sample.copy()
            moved[v] = label
            entries = problem.factors.entries(moved[None])[0]
            held = [e for e, scope in zip(entries, problem.factors.scopes) if v in scope]
            total = sum(
                (Fraction(x) * Fraction(t) for e in held for x, t in zip(design[e], theta.tolist())), Fraction(0)
            )
            assert len(found) == begin + label
            found.append(mpmath.mpf(total.numerator) / total.denominator)
    return found


def _group_of(problem: PseudoLikelihood, sample: Any, v: int) -> int:
    """The number of the group that a sample belongs to with variable v."""
    factors, groups = problem.factors, problem.groups
    held = [c for c, scope in enumerate(factors.scopes) if v in scope]
    blanket = sorted({u for c in held for u in factors.scopes[c]} - {v})
    distinct = sorted({tuple(s[blanket].tolist()) for s in problem.samples})
    first = int(np.flatnonzero(groups.variable == v)[0])
    return first + distinct.index(tuple(sample[blanket].tolist()))


def exact_primal(problem: PseudoLikelihood, theta: Vector) -> mpmath.mpf:
    groups, scores = problem.groups, exact_scores(problem, theta)
    total = mpmath.mpf(0)
    for sample, omega in zip(problem.samples, problem.weights.tolist()):
        for v in range(problem.factors.n_variables):
            low = int(groups.start[_group_of(problem, sample, v)])
            own = scores[low : low + problem.factors.cards[v]]
            loss = mpmath.log(mpmath.fsum(mpmath.exp(s) for s in own)) - own[sample[v]]
            total += mpmath.mpf(problem.scale.C) * omega * loss
    numbers = [mpmath.mpf(t) for t in theta.tolist()]
    return (
        total
        + mpmath.mpf(problem.scale.lam) / 2 * mpmath.fsum(t * t for t in numbers)
        + mpmath.mpf(problem.l1) * mpmath.fsum(abs(t) for t in numbers)
    )


@given(SEEDS)
@EXAMPLES
def test_the_dual_allowance_covers_what_fifty_digits_say(seed: int) -> None:
    """With lam > 0 and l1 = 0 the bound is t H + (1 - t) H_truth - t^2 |g|^2 / (2 lam) for a t in [0, 1]: it is at most
    the greatest such value in 60 digits, and the allowance is small."""
    problem, theta, rng = posed(seed, l1=0.0)
    groups = problem.groups
    given = problem.conditionals(theta) * (1 + 1e-10 * rng.random(int(groups.start[-1])))
    bound = problem.dual({"conditionals": given})
    with mpmath.workdps(60):
        rho = [mpmath.mpf(problem.scale.C) * w for w in problem.weights.tolist()]
        n = [mpmath.mpf(0)] * len(given)
        for sample, weight in zip(problem.samples, rho):
            for v in range(problem.factors.n_variables):
                n[int(groups.start[_group_of(problem, sample, v)]) + int(sample[v])] += weight
        unit = np.eye(problem.dimension)
        columns = [exact_scores(problem, unit[j]) for j in range(problem.dimension)]
        entropy, truth, g = mpmath.mpf(0), mpmath.mpf(0), [mpmath.mpf(0)] * problem.dimension
        for low, high in zip(groups.start, groups.start[1:]):
            rows = range(int(low), int(high))
            total, mass = mpmath.fsum(n[r] for r in rows), mpmath.fsum(mpmath.mpf(float(given[r])) for r in rows)
            for r in rows:
                p = mpmath.mpf(float(given[r])) / mass
                entropy -= total * p * mpmath.log(p) if p > 0 else 0
                truth -= n[r] * mpmath.log(n[r] / total) if n[r] > 0 else 0
                g = [one + (n[r] - total * p) * column[r] for one, column in zip(g, columns)]
        square = mpmath.fsum(each * each for each in g) / mpmath.mpf(problem.scale.lam)
        t = min(mpmath.mpf(1), max(mpmath.mpf(0), (entropy - truth) / square)) if square else mpmath.mpf(1)
        best = t * entropy + (1 - t) * truth - t * t * square / 2
        assert bound.lower <= best
    assert bound.allowance <= 1e-9 * (1 + abs(float(bound)) + problem.trivial_value + float(square))


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
    every = [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert PseudoLikelihood.read(tabular_factors(graph, 2), every).runaway() is None


def test_a_variable_without_a_factor_costs_the_logarithm_of_its_labels() -> None:
    problem = PseudoLikelihood.read(read_factors([2, 3], [[0]]), [[0, 2], [1, 1]])
    assert problem.primal({"theta": np.zeros(2)}) == pytest.approx(2 * np.log(2) + 2 * np.log(3))
    assert repr(problem).startswith("PseudoLikelihood(2 samples")


@pytest.mark.parametrize("tied", [False, True])
def test_without_a_penalty_the_gap_closes_though_parameters_are_redundant(tied: bool) -> None:
    """Tables at nodes and edges are redundant: H is singular. The optimum is that of the same model by L-BFGS from
    another start, and every bound lies below P at whatever theta."""
    rng = np.random.default_rng(0)
    factors = tabular_factors(nx.cycle_graph(4), 2, tied=tied)
    problem = PseudoLikelihood.read(factors, rng.integers(2, size=(200, 4)))
    assert problem.runaway() is None
    found = solve(problem)
    assert found.status is Status.OPTIMAL
    for _ in range(20):
        theta = found.point["theta"] + 0.3 * rng.normal(size=factors.dimension)
        assert problem.primal({"theta": theta}).upper >= found.lower_bound
        assert problem.dual(problem.witness(theta)).lower <= found.primal


def test_without_a_minimum_the_message_names_the_direction() -> None:
    factors = factors_of_features([2, 2], [[((0, 1), np.eye(2))], [((0,), [0.0, 1.0])]])
    found = solve(PseudoLikelihood.read(factors, [[0, 0], [1, 1]]), max_iterations=30)
    assert "no theta attains the optimum" in found.message


@pytest.mark.parametrize("options", [{"lam": 0.1}, {"l1": 0.5}, {"beta": 0.2, "l1": 0.3}])
def test_a_wide_grid_is_solved_to_a_certificate(options: dict[str, float]) -> None:
    """30 x 30 variables, whose junction tree has cliques of 2^31 entries."""
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(30, 30))
    ties, fields = [(edge, np.eye(2)) for edge in grid.edges], [((v,), [0.0, 1.0]) for v in grid]
    factors = factors_of_features([2] * 900, [ties, fields])
    samples = np.random.default_rng(0).integers(2, size=(20, 900))
    found = solve(PseudoLikelihood.read(factors, samples, **options))
    assert found.status is Status.OPTIMAL
    assert 0 <= found.gap <= 1e-6
