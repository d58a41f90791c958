"""Hidden variables and partial labels against all labellings written out, finite differences, and the observed case."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Flags, Vector
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.hidden import HiddenField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.solvers import expectation_maximisation
from convexstruct.families.log_linear.solvers.expectation_maximisation import ExpectationMaximisation
from convexstruct.families.log_linear.solvers.lbfgs import LBFGS
from convexstruct.features.graphs.factors import tabular_factors
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import DERIVATIVE, HIGH, ROUNDING
from tests.families.log_linear.fields import GRAPHS

EXAMPLES = settings(max_examples=10, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)
SHAPES = {"chain": nx.path_graph, "star": lambda n: nx.star_graph(n - 1), "cycle": nx.cycle_graph}


def partial(
    seed: int, shape: str = "chain", features: int = 0, forbid: bool = False, **options: Any
) -> tuple[HiddenField, list[Flags], Flags]:
    """Three labels, two node features; each node allows from one to three labels, 0 among them where pairs are
    forbidden: 0 may be beside all labels, so that every example has a labelling."""
    rng = np.random.default_rng(seed)
    graphs = [SHAPES[shape](n) for n in (3, 4, 3)]
    allowed = [rng.random((len(graph), 3)) < 0.5 for graph in graphs]
    for part in allowed:
        part[np.arange(len(part)), 0 if forbid else rng.integers(3, size=len(part))] = True
    forbidden = (rng.random((3, 3)) < 0.4) & forbid
    forbidden[0, :] = forbidden[:, 0] = False
    edges: Any = "chain" if shape == "chain" else graphs
    problem = HiddenField.conditional(
        [rng.normal(size=(len(graph), 2)) for graph in graphs], allowed, edges=edges, forbidden=forbidden,
        edge_features=[rng.normal(size=(graph.number_of_edges(), features)) for graph in graphs] if features else None,
        weights=rng.uniform(0.5, 2.0, 3), **(options or {"lam": 0.3}),
    )  # fmt: skip
    return problem, allowed, forbidden


def written_out(problem: HiddenField, allowed: list[Flags], forbidden: Flags, theta: Vector) -> tuple[float, Vector]:
    """P and its gradient, from all labellings of every example."""
    crf = problem.model
    assert isinstance(crf, ConditionalRandomField)
    features, value = crf.features, 0.5 * crf.scale.lam * float(theta @ theta)
    gradient = crf.scale.lam * theta
    for i, part in enumerate(allowed):
        first, last = features.node_start[i : i + 2]
        mine = features.edges[features.edge_example == i] - first
        joint, inside = [], []
        for y in itertools.product(range(3), repeat=len(part)):
            if any(forbidden[y[u], y[v]] for u, v in mine):
                continue
            flat = features.truth.copy()
            flat[first:last] = y
            share = np.zeros(features.n_examples)
            share[i] = 1.0
            joint.append(features.joint(flat, share))
            inside.append(bool(part[np.arange(len(part)), list(y)].all()))
        f, keep = np.array(joint), np.array(inside)
        for sign, rows in ((1.0, f), (-1.0, f[keep])):
            scores = rows @ theta
            total = float(np.logaddexp.reduce(scores))
            value += sign * crf.ceiling[i] * total
            gradient = gradient + sign * crf.ceiling[i] * (np.exp(scores - total) @ rows)
    return value, gradient


@pytest.mark.parametrize("forbid", [False, True], ids=["all pairs", "forbidden pairs"])
@pytest.mark.parametrize(("shape", "features"), [("chain", 0), ("star", 0), ("chain", 2), ("cycle", 2), ("cycle", 0)])
@given(seed=SEEDS, size=st.floats(0.1, 30.0))
@EXAMPLES
def test_value_and_gradient_are_those_of_all_labellings(
    shape: str, features: int, forbid: bool, seed: int, size: float
) -> None:
    problem, allowed, forbidden = partial(seed, shape, features, forbid)
    theta = size * np.random.default_rng(seed).normal(size=problem.dimension)
    value, gradient = written_out(problem, allowed, forbidden, theta)
    primal = problem.primal(problem.as_point(theta))
    assert primal == pytest.approx(value, rel=ROUNDING, abs=ROUNDING)
    assert primal.allowance <= ROUNDING * (1.0 + abs(value) + size)
    found, data = problem.value_and_gradient(theta)
    assert found + float(problem.penalty.value(theta)) == pytest.approx(
        value, rel=ROUNDING, abs=ROUNDING * (1.0 + size)
    )
    np.testing.assert_allclose(problem.penalty.gradient(theta, data), gradient, atol=ROUNDING * (1.0 + size))


@given(seed=SEEDS)
@EXAMPLES
def test_the_gradient_is_that_of_finite_differences(seed: int) -> None:
    problem, _, _ = partial(seed)
    rng = np.random.default_rng(seed)
    theta, step = rng.normal(size=problem.dimension), rng.normal(size=problem.dimension)
    h = 1e-5
    slope = float(np.diff([problem.value_and_gradient(theta + x * step)[0] for x in (-h, h)])[0]) / (2 * h)
    exact = float(problem.value_and_gradient(theta)[1] @ step)
    assert slope == pytest.approx(exact, rel=DERIVATIVE, abs=DERIVATIVE)


@given(seed=SEEDS)
@EXAMPLES
def test_the_bound_of_em_touches_where_it_is_made_and_lies_above_elsewhere(seed: int) -> None:
    problem, _, _ = partial(seed)
    rng = np.random.default_rng(seed)
    theta, other = rng.normal(size=(2, problem.dimension))
    bound = problem.majorant(theta)
    here, there = problem.value_and_gradient(theta), problem.value_and_gradient(other)
    touching, above = bound.value_and_gradient(theta), bound.value_and_gradient(other)
    assert touching[0] == pytest.approx(here[0], rel=ROUNDING, abs=ROUNDING)
    np.testing.assert_allclose(touching[1], here[1], atol=ROUNDING)
    assert above[0] >= there[0] - ROUNDING * (1.0 + abs(there[0]))


@pytest.mark.parametrize("solver", [LBFGS(), ExpectationMaximisation()], ids=["gradient", "em"])
@pytest.mark.parametrize("seed", range(3))
def test_p_never_rises_and_ends_where_it_is_stationary(solver: Any, seed: int) -> None:
    problem, _, _ = partial(seed)
    values = [iterate.primal for iterate in solver.iterate(problem)]
    assert len(values) > 2
    assert (np.diff(values) <= ROUNDING).all()
    solution = solve(problem, solver)
    assert problem.stationarity(solution.point) < 1e-4
    assert solution.status is Status.STALLED
    assert "P is not convex" in solution.message
    assert solution.lower_bound == 0.0
    assert 0.0 < solution.primal <= values[0]


@pytest.mark.parametrize("solver", [LBFGS(spread=1.0), ExpectationMaximisation(spread=1.0)], ids=["gradient", "em"])
def test_with_l1_what_is_0_is_exactly_0(solver: Any) -> None:
    problem, _, _ = partial(6, l1=0.4)
    iterates = list(solver.iterate(problem))
    assert (np.diff([iterate.primal for iterate in iterates]) <= ROUNDING).all()
    theta = iterates[-1].point["theta"]
    assert 0 < np.count_nonzero(theta) < len(theta)
    assert problem.stationarity(theta) < 1e-4


def test_an_end_of_the_gradient_is_one_of_em_too() -> None:
    problem, _, _ = partial(4)
    ended = solve(problem, LBFGS())
    on = solve(problem, ExpectationMaximisation(), start=ended)
    assert on.primal == pytest.approx(ended.primal, rel=HIGH.gap)


def test_a_run_of_em_ends_where_nothing_improves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its patience, EM goes on by ever smaller steps."""
    problem, solver = partial(0)[0], ExpectationMaximisation()
    assert any(iterate.done for iterate in itertools.islice(solver.iterate(problem), 100))
    monkeypatch.setattr(expectation_maximisation, "HIDDEN_PATIENCE", 10**9)
    assert not any(iterate.done for iterate in itertools.islice(solver.iterate(problem), 300))


def test_of_several_starts_the_best_end_is_kept() -> None:
    problem, _, _ = partial(3, lam=0.01)
    one = solve(problem, LBFGS(spread=2.0))
    several = solve(problem, LBFGS(spread=2.0, restarts=4))
    assert several.primal <= one.primal
    assert several.iterations > one.iterations


@pytest.mark.parametrize("solver", [LBFGS(), ExpectationMaximisation()], ids=["gradient", "em"])
@pytest.mark.parametrize("given_as", ["flags", "labels"])
def test_where_all_is_observed_it_is_the_conditional_random_field(solver: Any, given_as: str) -> None:
    rng = np.random.default_rng(9)
    inputs = [rng.normal(size=(n, 2)) for n in (3, 4)]
    labels = [rng.integers(3, size=len(x)) for x in inputs]
    crf = ConditionalRandomField.read(inputs, labels, 3, C=2.0)
    known = [np.eye(3, dtype=bool)[y] for y in labels] if given_as == "flags" else labels
    problem = HiddenField.conditional(inputs, known, 3, C=2.0)
    assert problem.observed
    theirs, mine = solve(crf, LBFGS()), solve(problem, solver)
    assert mine.status is Status.OPTIMAL
    for point, dual_point in ((theirs.point, theirs.dual_point), (mine.point, mine.dual_point)):
        of_field, here = certify(crf, point, dual_point), certify(problem, point, dual_point)
        assert (of_field.primal, of_field.lower_bound) == (here.primal, here.lower_bound)
    assert mine.primal == pytest.approx(theirs.primal, rel=HIGH.gap)


def test_where_nothing_is_known_the_optimum_is_0() -> None:
    rng = np.random.default_rng(0)
    problem = HiddenField.conditional([rng.normal(size=(3, 2))] * 2, [np.ones((3, 2), dtype=bool)] * 2, C=1.0)
    solution = solve(problem, LBFGS())
    assert solution.status is Status.OPTIMAL
    assert 0.0 <= solution.primal < HIGH.gap


# -- Markov random fields ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["path", "cycle", "grid"])
@given(seed=SEEDS)
@settings(max_examples=10, deadline=None)
def test_a_field_with_hidden_variables_is_that_of_all_joint_labels(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = tabular_factors(GRAPHS[name], 2)
    samples = rng.integers(-1, 2, size=(5, factors.n_variables))
    omega = rng.uniform(0.5, 2.0, 5)
    problem = HiddenField.unconditional(factors, samples, weights=omega, beta=0.2)
    theta = rng.normal(size=problem.dimension)
    every = labellings(factors.cards)
    f = factors.joint_each(every).toarray()
    scores = f @ theta
    total = float(np.logaddexp.reduce(scores))
    value, gradient = 0.1 * float(theta @ theta), 0.2 * theta
    for sample, weight in zip(samples, omega):
        fits = ((sample < 0) | (every == sample)).all(axis=1)
        inside = float(np.logaddexp.reduce(scores[fits]))
        value += weight * (total - inside)
        gradient = gradient + weight * (np.exp(scores - total) @ f - np.exp(scores[fits] - inside) @ f[fits])
    primal = problem.primal(problem.as_point(theta))
    assert primal == pytest.approx(value, rel=ROUNDING, abs=ROUNDING)
    assert primal.allowance <= ROUNDING * (1.0 + value)
    data = problem.value_and_gradient(theta)[1]
    np.testing.assert_allclose(problem.penalty.gradient(theta, data), gradient, atol=ROUNDING)
    for sample, filled in zip(samples, problem.completed(theta)):
        fits = ((sample < 0) | (every == sample)).all(axis=1)
        assert scores[(every == filled).all(axis=1)][0] == pytest.approx(scores[fits].max(), abs=ROUNDING)
        assert ((sample < 0) | (filled == sample)).all()


def test_where_all_is_observed_it_is_the_markov_random_field() -> None:
    factors = tabular_factors(GRAPHS["cycle"], 2)
    samples = np.random.default_rng(1).integers(0, 2, size=(20, 4))
    problem, plain = HiddenField.unconditional(factors, samples, C=0.5), MarkovRandomField.read(factors, samples, C=0.5)
    solution = solve(problem, LBFGS())
    assert solution.status is Status.OPTIMAL
    certificate = certify(plain, solution.point, solution.dual_point)
    assert (certificate.primal, certificate.lower_bound) == (solution.primal, solution.lower_bound)


@pytest.mark.parametrize("solver", [LBFGS(), ExpectationMaximisation()], ids=["gradient", "em"])
def test_a_field_with_hidden_variables_ends_where_it_is_stationary(solver: Any) -> None:
    factors = tabular_factors(GRAPHS["tree"], 2)
    samples = np.random.default_rng(2).integers(0, 2, size=(30, 4))
    samples[:, 0] = -1  # the centre of the star is hidden: a mixture
    problem = HiddenField.unconditional(factors, samples, beta=0.1)
    iterates = list(solver.iterate(problem))
    assert (np.diff([iterate.primal for iterate in iterates]) <= ROUNDING * iterates[0].primal).all()
    assert problem.stationarity(iterates[-1].point) < 1e-4
    assert "P is not convex" in iterates[-1].message


# -- labels, and bad input ---------------------------------------------------------------------------------------------


def test_labels_are_filled_in_from_those_that_are_left_open() -> None:
    problem, allowed, _ = partial(5)
    theta = np.random.default_rng(5).normal(size=problem.dimension)
    crf = problem.model
    assert isinstance(crf, ConditionalRandomField)
    node, edge = crf.scores(theta)
    filled = problem.completed(theta)
    of_all = crf.features.score(node, edge, np.concatenate(filled))
    for i, part in enumerate(allowed):
        assert part[np.arange(len(part)), filled[i]].all()
        best = -np.inf
        for y in itertools.product(*(np.flatnonzero(row) for row in part)):
            flat = np.concatenate([y if j == i else one for j, one in enumerate(filled)])
            best = max(best, float(crf.features.score(node, edge, flat)[i]))
        assert of_all[i] == pytest.approx(best, abs=ROUNDING)
    np.testing.assert_array_equal(problem.predict(theta)[0], crf.predict(theta)[0])


@pytest.mark.parametrize("tol", ["LOW", "MID", "HIGH"])
def test_where_p_goes_to_0_no_more_is_claimed_than_rounding_lets_a_certificate_prove(tol: str) -> None:
    """Without a penalty: the data are separable, and at P near 0 rounding decides how small the gap is."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = 2 + seed
        inputs = [rng.normal(size=(3, 6)) for _ in range(n)]
        allowed = [np.where(rng.random(3) < 0.4, -1, rng.integers(2, size=3)) for _ in range(n)]
        samples = np.where(rng.random((n, 4)) < 0.4, -1, rng.integers(2, size=4))
        for problem in (
            HiddenField.conditional(inputs, allowed, 2),
            HiddenField.unconditional(tabular_factors(nx.path_graph(4), 2), samples),
        ):
            assert solve(problem, tol=tol, max_iterations=100).status is not Status.INACCURATE


def test_bad_input_is_one_sentence() -> None:
    inputs = [np.ones((2, 1))]
    with pytest.raises(ValueError, match=r"allowed\[0\] allows no label at node 1, wanted at least one"):
        HiddenField.conditional(inputs, [np.array([[True, True], [False, False]])])
    with pytest.raises(ValueError, match=r"allowed\[0\] and forbidden leave no labelling of example 0"):
        HiddenField.conditional(inputs, [np.eye(2, dtype=bool)], forbidden=np.array([[False, True], [False, False]]))
    with pytest.raises(ValueError, match="n_labels is None"):
        HiddenField.conditional(inputs, [[0, -1]])
    with pytest.raises(ValueError, match=r"allowed\[0\]"):
        HiddenField.conditional(inputs, [[0, 2]], 2)
    factors = tabular_factors(GRAPHS["path"], 2)
    with pytest.raises(ValueError, match="samples"):
        HiddenField.unconditional(factors, [[0, -2, 0, 0]])
    with pytest.raises(ValueError, match="wanted labels below 2"):
        HiddenField.unconditional(factors, [[0, 2, 0, 0]])
