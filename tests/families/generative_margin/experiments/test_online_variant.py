"""The optimum of the worst working set, by planes, against a direct minimisation; and the claim of the experiment."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.families.generative_margin.experiments import online_variant
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.working_sets import OnlineWorkingSets, worst_set_value
from convexstruct.tolerances import MID


def small() -> GenerativeMargin:
    rng = np.random.default_rng(3)
    symbols, states = rng.integers(0, 2, (4, 4)), rng.integers(0, 2, (4, 4))
    return GenerativeMargin.hmm(list(symbols), list(states), 2, 2, eta=0.4)


def test_no_point_is_below_the_bracket_and_the_online_variant_ends_in_it() -> None:
    problem = small()
    bracket = online_variant.worst_set_optimum(problem, 2, MID.gap)
    assert bracket.upper - bracket.lower <= MID.gap * bracket.upper * 1.01
    rng = np.random.default_rng(5)
    near = solve(problem, tol=MID).point["theta"]
    for scale in (0.0, 0.01, 0.1, 1.0):
        theta = problem.shift(near + scale * rng.normal(size=problem.dimension))
        assert worst_set_value(problem, [(0, 2), (2, 4)], theta, problem.evaluate(theta).slack) >= bracket.lower
    online = solve(problem, OnlineWorkingSets(2), tol=MID, max_iterations=200)
    assert online.lower_bound <= bracket.upper
    assert online.lower_bound == pytest.approx(bracket.middle, rel=1e-3)
    assert online.gap > 0.01
