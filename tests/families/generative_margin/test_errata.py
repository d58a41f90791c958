"""Errors of paper 0 that no other test shows; CONTRIBUTING.md lists all of them with their tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.models.generative_margin.enumerated import MarginRows
from convexstruct.tolerances import MID, ROUNDING
from tests.families.generative_margin.instances import every_kind, feasible


@every_kind
def test_12_without_the_factor_eta_leaves_script_d(make: Callable[[int], GenerativeMargin]) -> None:
    problem = make(3)
    rows = MarginRows(problem)
    theta = feasible(problem, np.random.default_rng(3))
    # (9): beta >= 0, 1'beta_k <= eta w_k; the highest theta'mu + omega over script-D as a linear program
    highest = -linprog(
        -(rows.a @ theta + rows.b), A_ub=rows.of_example, b_ub=problem.eta * problem.examples.weights
    ).fun
    found = problem.evaluate(theta)
    reached = float(found.mu @ theta) + found.omega
    assert reached == pytest.approx(highest, rel=MID.gap)
    printed = reached / problem.eta
    assert printed > 3 * highest > 0  # as printed, the value exceeds the maximum over script-D: the point lies outside


@every_kind
def test_12_as_printed_stays_in_script_d_where_eta_is_at_least_1_and_lacks_the_factor(
    make: Callable[[int], GenerativeMargin],
) -> None:
    problem = replace(make(3), eta=2.0)
    rows = MarginRows(problem)
    theta = feasible(problem, np.random.default_rng(3))
    found = problem.evaluate(theta)
    highest = float(found.mu @ theta) + found.omega
    # beta_k sums to w_k <= eta w_k there, so the point is one of script-D, but not the best: its value is 1/eta of that
    within = linprog(-(rows.a @ theta + rows.b), A_ub=rows.of_example, b_ub=problem.examples.weights)
    assert (rows.of_example @ within.x <= problem.eta * problem.examples.weights + ROUNDING).all()
    assert -within.fun == pytest.approx(highest / problem.eta, rel=MID.gap)
    assert highest > 0


@every_kind
def test_scaling_by_the_sum_instead_of_dividing_by_it_moves_away_from_4(
    make: Callable[[int], GenerativeMargin],
) -> None:
    problem = make(0)
    theta = problem.uniform() + 0.5  # every block sums to e^0.5
    sums = problem.layout.block_sum(np.exp(theta))
    scaled = problem.layout.block_sum(np.exp(theta) * sums[problem.layout.block_of])
    assert (scaled > sums).all()
    assert problem.layout.block_sum(np.exp(problem.shift(theta))) == pytest.approx(1.0, rel=ROUNDING)


@pytest.mark.parametrize("q", [0.01, 0.3, 1.0])
def test_the_new_kl_term_of_section_3_2_is_convex_only_above_ln_q_less_2(q: float) -> None:
    def term(theta: float) -> float:
        return float(np.exp(theta) * (theta - np.log(q)))  # one entry of D(p || q) with p = e^theta

    edge = np.log(q) - 2.0
    for low, high in ((edge - 4.0, edge - 1.0), (edge - 1.5, edge)):
        assert term((low + high) / 2) > (term(low) + term(high)) / 2 + ROUNDING
    for low, high in ((edge, edge + 1.5), (edge + 0.5, edge + 2.0)):
        assert term((low + high) / 2) < (term(low) + term(high)) / 2 - ROUNDING
