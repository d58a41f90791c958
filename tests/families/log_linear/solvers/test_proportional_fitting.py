"""Iterative proportional fitting: marginals, monotone values, and the closed form of decomposable models."""

from __future__ import annotations

from itertools import islice

import networkx as nx
import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.solvers.proportional_fitting import ProportionalFitting, decomposable
from convexstruct.features.graphs.factors import tabular_factors
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import HIGH
from tests.families.log_linear.fields import GRAPHS, drawn

DECOMPOSABLE = {"path": True, "tree": True, "cycle": False, "grid": False, "two parts": True}


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_of_a_decomposable_model_the_first_sweep_is_the_closed_form(name: str) -> None:
    problem = drawn(name, 2, 500)
    assert decomposable(problem) == DECOMPOSABLE[name]
    first = next(iter(ProportionalFitting().iterate(problem)))
    marginals = problem.inference.sums(problem.factors.design @ first.point["theta"]).marginals
    away = float(np.abs(marginals - problem.moments).max())
    assert (away <= 1e-12) == DECOMPOSABLE[name]


def test_one_sweep_is_one_update_of_each_table_after_the_other() -> None:
    """Against updates of the joint distribution written out, in the order of the walk."""
    factors = tabular_factors(GRAPHS["grid"], 2)
    every = labellings(factors.cards)
    weights = np.random.default_rng(3).exponential(size=len(every))
    problem = MarkovRandomField.read(factors, every, weights=weights)
    chosen = factors.entries(every)
    p = np.full(len(every), 1.0 / len(every))
    solver = ProportionalFitting().iterate(problem)
    tree = problem.inference.tree
    order = [f for c in _first_met(tree.parent) for f, scope in enumerate(factors.scopes) if tree.clique_of(scope) == c]
    for _ in range(3):
        for f in order:
            rows = chosen[:, f]
            marginal = np.bincount(rows, weights=p, minlength=factors.n_entries)
            p = p * problem.moments[rows] / marginal[rows]
        theta = next(solver).point["theta"]
        scores = factors.scores(np.asarray(theta), every)
        np.testing.assert_allclose(np.exp(scores - np.logaddexp.reduce(scores)), p, atol=1e-12)


def _first_met(parent: tuple[int, ...]) -> list[int]:
    """Cliques in the order of a walk that goes down the first child first."""
    order, stack = [], [0]
    while stack:
        c = stack.pop()
        order.append(c)
        stack.extend(sorted((child for child, above in enumerate(parent) if above == c and child), reverse=True))
    return order


def test_where_a_label_never_occurs_it_says_along_what_the_likelihood_rises() -> None:
    factors = tabular_factors(nx.path_graph(2), 2, nodes=False)
    problem = MarkovRandomField.read(factors, [[0, 0], [0, 1], [1, 1]])
    solution = solve(problem, ProportionalFitting())
    assert np.isfinite(solution.point["theta"]).all()  # by LEAST_RATIO of proportional_fitting
    assert solution.primal == pytest.approx(3 * np.log(3), rel=HIGH.gap)
    last = list(ProportionalFitting().iterate(problem))[-1]
    assert (
        "rises for ever along -1 for moments[2] (variables (0, 1) with labels (1, 0)); take a penalty" in last.message
    )


def test_a_run_ends_where_nothing_improves() -> None:
    """By the PATIENCE of proportional_fitting alone: the moments never agree to the last digit."""
    assert any(each.done for each in islice(ProportionalFitting().iterate(drawn("cycle", 1, 2000)), 30))
