"""The allowances of Markov random fields against 50 digits: of values, entropies, moments and lower bounds."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import Any

import mpmath
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Matrix, Vector
from convexstruct.core.driver import solve
from convexstruct.families.log_linear.basis import Part
from convexstruct.families.log_linear.clique_entropy import distribution
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from convexstruct.features.graphs.factors import read_factors, tabular_factors
from convexstruct.oracles.enumeration import labellings
from convexstruct.rounding import Rounded

SEEDS = st.integers(0, 2**32 - 1)
GRAPHS = (nx.path_graph(3), nx.cycle_graph(3), nx.cycle_graph(4))


def instance(seed: int, **options: Any) -> tuple[MarkovRandomField, np.random.Generator]:
    """A few samples of uneven weights, features of uneven sizes."""
    rng = np.random.default_rng(seed)
    bare = tabular_factors(GRAPHS[int(rng.integers(3))], rng.integers(1, 4, size=1)[0])
    size = 10.0 ** rng.uniform(-4, 4, size=4)
    design = rng.normal(size=(bare.n_entries, 4)) * size * (rng.random((bare.n_entries, 4)) < 0.7)
    factors = read_factors(bare.cards, bare.scopes, design)
    samples = np.column_stack([rng.integers(card, size=6) for card in factors.cards])
    weights = 10.0 ** rng.uniform(-3, 3, size=6)
    return MarkovRandomField.read(factors, samples, weights=weights, **options), rng


def exact_sums(problem: MarkovRandomField) -> list[Fraction]:
    """s = sum_i omega_i f(x_i)."""
    assert problem.samples is not None
    assert problem.weights is not None
    design, chosen = problem.factors.design.toarray(), problem.factors.entries(problem.samples)
    omega = [Fraction(w) for w in problem.weights.tolist()]
    return [
        sum((w * Fraction(design[t, j]) for w, rows in zip(omega, chosen) for t in rows), Fraction(0))
        for j in range(problem.dimension)
    ]


def exact_value(problem: MarkovRandomField, theta: Vector) -> mpmath.mpf:
    """P(theta), all joint labels written out."""
    factors, parameters = problem.factors, [Fraction(x) for x in theta.tolist()]
    design = factors.design.toarray()
    table = [sum((Fraction(a) * b for a, b in zip(row, parameters)), Fraction(0)) for row in design.tolist()]
    assert problem.weights is not None
    mass = sum((Fraction(w) for w in problem.weights.tolist()), Fraction(0))
    scores = [sum((table[t] for t in rows), Fraction(0)) for rows in factors.entries(labellings(factors.cards))]
    top = max(scores)
    log_partition = number(top) + mpmath.log(mpmath.fsum(mpmath.exp(number(score - top)) for score in scores))
    fit = sum((a * b for a, b in zip(parameters, exact_sums(problem))), Fraction(0))
    C, lam, l1 = Fraction(problem.scale.C), Fraction(problem.scale.lam), Fraction(problem.l1)
    penalty = lam / 2 * sum(x * x for x in parameters) + l1 * sum(abs(x) for x in parameters)
    return number(C * mass) * log_partition - number(C * fit) + number(Fraction(penalty))


def number(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


@given(SEEDS, st.floats(-4.0, 3.0))
@settings(max_examples=40, deadline=None)
def test_the_value_is_right_to_its_allowance(seed: int, power: float) -> None:
    problem, rng = instance(seed, C=0.7, l1=0.3)
    theta = rng.normal(size=4) * 10.0**power
    found = problem.primal({"theta": theta})
    with mpmath.workdps(50):
        away = abs(exact_value(problem, theta) - mpmath.mpf(float(found)))
        assert away <= found.allowance


def exact_pseudo(problem: PseudoLikelihood, theta: Vector) -> mpmath.mpf:
    """P(theta), every label of every variable of every sample written out."""
    lam, l1 = problem.scale.lam, problem.l1
    penalty = mpmath.fsum(lam * mpmath.mpf(t) ** 2 / 2 + l1 * abs(mpmath.mpf(t)) for t in theta.tolist())
    factors, parameters = problem.factors, [Fraction(x) for x in theta.tolist()]
    table = [sum(map(operator.mul, map(Fraction, row), parameters)) for row in factors.design.toarray().tolist()]
    total = mpmath.mpf(0)
    for weight, sample in zip(problem.weights.tolist(), problem.samples):
        for v, card in enumerate(factors.cards):
            others = np.tile(sample, (card, 1))
            others[:, v] = np.arange(card)
            scores = [sum((table[t] for t in rows), Fraction(0)) for rows in factors.entries(others)]
            own = scores[int(sample[v])]
            total += weight * mpmath.log(mpmath.fsum(mpmath.exp(number(score - own)) for score in scores))
    return total * problem.scale.C + penalty


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", [MarkovRandomField, PseudoLikelihood])
def test_beside_offsets_of_any_size_the_value_is_right_to_an_allowance_that_stays_small(
    kind: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features of a factor have up to 1e8 in common, which changes no distribution; in some instances two of them have
    every other entry, and two the rest. Scores that are off by what is said are allowed for."""
    plain, rng = instance(seed)
    factors, samples = plain.factors, plain.samples
    features = factors.design.toarray() + 10.0 ** rng.uniform(0, 8, size=4)
    if seed % 3 == 0:
        features[np.arange(len(features))[:, None] % 2 != np.arange(4) % 2] = 0.0
    problem = kind.read(read_factors(factors.cards, factors.scopes, features), samples)
    theta = rng.normal(size=4) / (np.ptp(features, axis=0) + 1e-300)
    truth, exact = exact_value if kind is MarkovRandomField else exact_pseudo, Part.scores
    found = problem.primal({"theta": theta})
    off = 1e-6 / problem.weight

    def rough(part: Part, theta: Vector) -> tuple[Matrix, float]:
        scores = exact(part, theta)[0]
        return scores + rng.choice([-off, off], size=scores.shape), 1.01 * off

    monkeypatch.setattr(Part, "scores", rough)
    coarse = problem.sharper(theta, Rounded(float(found), np.inf))
    with mpmath.workdps(60):
        wanted = truth(problem, theta)
        for value in (found, coarse):
            assert abs(wanted - mpmath.mpf(float(value))) <= value.allowance
    assert found.allowance <= 1e-9 * max(float(found), 1e-3)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_the_entropy_and_the_moments_of_clique_tables_are_right_to_their_errors(seed: int) -> None:
    problem, rng = instance(seed, beta=1.0)
    polytope, factors = problem.polytope, problem.factors
    z = rng.exponential(size=polytope.n_variables) ** 8 * (rng.random(polytope.n_variables) < 0.8)
    found = distribution(polytope, z)
    away = problem._apart(found)
    g, error = away.value, away.errors
    every, tree = labellings(factors.cards), polytope.tree
    shares = [Fraction(1)] * len(every)
    for c, (rows, columns) in enumerate(tree.shapes):
        table = [Fraction(x) for x in z[polytope.start[c] : polytope.start[c + 1]].tolist()]
        sums = [sum(table[r * columns : (r + 1) * columns], Fraction(0)) for r in range(rows)]
        for i, labels in enumerate(every):
            at = 0
            for v in tree.cliques[c]:
                at = at * tree.cards[v] + int(labels[v])
            whole = sums[at // columns]
            shares[i] *= table[at] / whole if whole else Fraction(1, columns)
    with mpmath.workdps(50):
        exact = -mpmath.fsum(number(p) * mpmath.log(number(p)) for p in shares if p)
        assert abs(exact - mpmath.mpf(float(found.entropy))) <= found.entropy.allowance
    design, chosen = factors.design.toarray(), factors.entries(every)
    assert problem.weights is not None
    mass, C = sum((Fraction(w) for w in problem.weights.tolist()), Fraction(0)), Fraction(problem.scale.C)
    for j, s in enumerate(exact_sums(problem)):
        mean = sum((p * Fraction(design[t, j]) for p, rows in zip(shares, chosen) for t in rows), Fraction(0))
        assert abs(C * (s - mass * mean) - Fraction(float(g[j]))) <= Fraction(float(error[j]))


@pytest.mark.parametrize("options", [{"beta": 1.0}, {"C": 0.2, "l1": 0.5}, {"l1": 2.0}], ids=["L2", "elastic", "L1"])
@pytest.mark.parametrize("seed", range(4))
def test_no_lower_bound_lies_above_the_value_of_the_best_point_in_50_digits(
    seed: int, options: dict[str, float]
) -> None:
    field, rng = instance(seed, **options)
    assert field.samples is not None
    pseudo = PseudoLikelihood.read(field.factors, field.samples, weights=field.weights, **options)
    problem: MarkovRandomField | PseudoLikelihood
    for problem in (field, pseudo):
        solution = solve(problem, tol=1e-10, max_iterations=300)
        theta = solution.point["theta"]
        with mpmath.workdps(50):
            value = exact_value(field, theta) if problem is field else exact_pseudo(pseudo, theta)
            for step in (0.0, 1e-12, 1e-8, 1e-4):
                near = theta * (1.0 + step * rng.normal(size=4))
                assert mpmath.mpf(problem.dual(problem.witness(near)).lower) <= value
                if problem is field:
                    assert mpmath.mpf(field.dual({"cliques": field.gibbs(near)}).lower) <= value
