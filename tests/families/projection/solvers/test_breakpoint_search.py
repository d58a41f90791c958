"""The searches as solvers: certified, exact in one round, and checked by a general solver."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convexstruct as cs
from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.solvers.breakpoint_search import BreakpointSearch
from convexstruct.oracles.box.projection import Search
from convexstruct.tolerances import HIGH, ROUNDING

SEARCHES: tuple[Search, ...] = ("bracket", "medians", "sorting")


def svm(n: int, seed: int) -> BoxProjection:
    """The box of an SVM with a bias: 0 <= a <= 1/n, sum y a = 0."""
    rng = np.random.default_rng(seed)
    return BoxProjection(rng.normal(size=n) / n, 0.0, 1.0 / n, rng.choice([-1.0, 1.0], size=n), 0.0)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("n", [1, 2, 50, 20_000])
def test_one_round_closes_the_gap(search: Search, n: int) -> None:
    solution = cs.solve(svm(n, n), BreakpointSearch(search), tol=HIGH)
    assert solution.status is cs.Status.OPTIMAL
    assert solution.iterations == 1
    assert abs(solution.gap) <= ROUNDING


@given(st.data())
def test_ties_duplicates_and_entries_at_their_bounds_are_no_exception(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 7))
    small = st.integers(-2, 2).map(float)
    m, s = (np.array(data.draw(st.lists(small, min_size=n, max_size=n))) for _ in range(2))
    widths = np.array(data.draw(st.lists(st.integers(0, 2).map(float), min_size=n, max_size=n)))
    lower = np.array(data.draw(st.lists(small, min_size=n, max_size=n)))
    share = data.draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    corner = np.where(s > 0, lower, lower + widths) + share * np.where(s > 0, widths, -widths)
    problem = BoxProjection(m, lower, lower + widths, s, float(s @ corner))
    for search in SEARCHES:
        solution = cs.solve(problem, BreakpointSearch(search), tol=HIGH)
        assert abs(solution.gap) <= ROUNDING, search
        assert solution.certificate.infeasibility <= ROUNDING


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e-155, 1e155, 1e200])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_weights_whose_squares_are_no_doubles_have_the_same_projection(size: float, shape: tuple[int, ...]) -> None:
    """Scaled where outside `LEAST` to `GREATEST` of `breakpoint_search`; `refusals` has what is over `SPAN` apart."""
    m = np.array([1.0, 2.0, 2.5])
    d = np.full(shape, size)
    found = cs.solve(BoxProjection.simplex(m, d=d))
    np.testing.assert_allclose(found.point["a"], [0.0, 0.25, 0.75], atol=1e-12)
    assert found.certificate.infeasibility <= 1e-12


@pytest.mark.parametrize(("kind", "arrays"), [("simplex", 1), ("bias", 2), ("weighted", 5)])
def test_a_solve_needs_the_memory_of_its_answer_and_little_more(kind: str, arrays: int) -> None:
    n = 1_000_000
    rng = np.random.default_rng(0)
    m, s = rng.normal(size=n), rng.choice([-1.0, 1.0], size=n)
    problem = {
        "simplex": lambda: BoxProjection.simplex(m),
        "bias": lambda: BoxProjection(m, 0.0, 1.0, s, 0.0),
        "weighted": lambda: BoxProjection(m, -rng.random(n), rng.random(n), s, 0.0, rng.uniform(0.5, 2.0, size=n)),
    }[kind]()
    tracemalloc.start()
    try:
        solution = cs.solve(problem)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert solution.status is cs.Status.OPTIMAL
    assert peak <= 1.5 * arrays * m.nbytes
    assert peak >= m.nbytes  # the answer: what was traced is the solve
