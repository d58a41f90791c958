"""Ascent over pools by blocks: against all labellings written out, and each part of a step against its definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.driver import solve
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution, Status
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.column_generation import blocks, column_generation
from convexstruct.families.structured_svm.solvers.column_generation.blocks import Ascent
from convexstruct.families.structured_svm.solvers.column_generation.column_generation import ColumnGeneration
from convexstruct.families.structured_svm.solvers.example_blocks import starting_w
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.families.structured_svm.solvers.references import holds, optimum


@dataclass(frozen=True)
class Blocks:
    """The blocks alone, whatever the size of the problem."""

    def iterate(self, problem: StructuredSVM, start: Solution | None = None) -> Iterator[Iterate]:
        run = Ascent(problem, np.random.default_rng(0))
        if start is not None:
            run.adopt(start.dual_point or {})
        yield from blocks.ascend(run, starting_w(problem, start), start is not None)


def text(
    seed: int, n: int = 4, size: int = 3, columns: int = 40, dense: bool = False, pairs: bool = False, **more: Any
) -> StructuredSVM:
    """Chains of 1 to 4 tokens, each with one column of all and three more, as words in a window are. pairs : edges have
    features too."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, n)
    p = int(lengths.sum())
    places = np.concatenate((np.zeros((p, 1), dtype=int), rng.integers(1, columns, (p, 3))), axis=1)
    x = sp.csr_array((np.ones(4 * p), places.ravel(), 4 * np.arange(p + 1)), shape=(p, columns))
    labels = np.split(rng.integers(0, size, p), np.cumsum(lengths)[:-1])
    if pairs:
        more["edge_features"] = [rng.normal(size=(len(one) - 1, 2)) for one in labels]
    return StructuredSVM.read(x.toarray() if dense else x, labels, size, **({"C": 1.0} | more))


KINDS: dict[str, dict[str, Any]] = {
    "margin": {},
    "weighted": {"weights": [0.3, 2.0, 1.0, 0.7], "C": 3.0},
    "slack": {"scaling": "slack"},
    "zero-one": {"loss": "zero_one"},
    "costs": {"loss": np.array([[0.0, 1.0, 3.0], [0.5, 0.0, 2.0], [0.0, 1.0, 0.0]]), "C": 5.0},
    "no edges": {"edges": "none"},
    "features of edges": {"pairs": True},
    "dense": {"dense": True},
}


@pytest.mark.parametrize(("kind", "seed"), [(kind, at % 2) for at, kind in enumerate(KINDS)])
def test_it_reaches_the_optimum_over_all_labellings(kind: str, seed: int) -> None:
    problem = text(seed, **KINDS[kind])
    solution = solve(problem, Blocks(), max_iterations=500)
    assert solution.status is Status.OPTIMAL
    holds(solution, optimum(problem))


def test_examples_in_several_blocks_share_one_w() -> None:
    problem = text(2, n=40)
    solution = solve(problem, Blocks(), tol=LOW, max_iterations=300)
    assert solution.status is Status.OPTIMAL
    holds(solution, solve(problem, ColumnGeneration()).primal, gap=LOW.gap)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["margin", "slack"]))
def test_the_dual_value_never_falls_and_the_witness_has_it(seed: int, scaling: Any) -> None:
    problem = text(seed, n=20, scaling=scaling)
    before = 0.0
    for iterate in islice(Blocks().iterate(problem), 4):
        assert callable(iterate.dual_point)
        bound = iterate.lower_bound
        assert bound >= before - ROUNDING * (1 + abs(bound))
        assert float(problem.dual(iterate.dual_point())) >= bound - ROUNDING * (1 + abs(bound))
        assert iterate.primal == pytest.approx(float(problem.primal(iterate.point)))
        before = bound


def test_a_start_restores_its_bound() -> None:
    problem = text(4, n=20)
    first = solve(problem, Blocks(), tol=LOW, max_iterations=100)
    again = solve(problem, Blocks(), tol=LOW, start=first, max_iterations=1)
    assert again.lower_bound >= first.lower_bound * (1 - 1e-9)
    run = Ascent(problem, np.random.default_rng(0))
    run.adopt(first.dual_point or {})
    assert [pool.alpha.sum() for pool in run.pools] == pytest.approx([pool.ceiling for pool in run.pools])


@pytest.mark.parametrize(
    ("constant", "more", "expected"),
    [
        ("CHEAP_WORK", {}, True),
        ("CHEAP_WORK", {"dense": True}, False),
        ("DEAR_WORK", {}, False),
        ("DEAR_WORK", {"scaling": "slack"}, True),
        ("DEAR_WORK", {"scaling": "slack", "associative": True}, False),
    ],
)
def test_the_default_ascends_where_exact_pools_are_dear_and_data_are_wide_or_there_are_no_sums(
    constant: str, more: dict[str, Any], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = text(0, **more)
    assert "an example at a time" not in solve(problem).solver
    monkeypatch.setattr(column_generation, constant, 0.0)
    solution = solve(problem)
    assert ("an example at a time" in solution.solver) == expected
    holds(solution, optimum(problem))


def test_gradients_whose_squares_underflow_end_the_conjugate_gradients() -> None:
    """Losses of 1e-100 and features of 1e10: what rounding leaves of a gradient has a square of 0."""
    problem = text(0)
    x = sp.csr_array(problem.features.node_features * 1e10)
    labels = problem.features.split_labels(problem.features.truth)
    problem = StructuredSVM.read(x, labels, 3, C=1.0, loss=1e-100 * (1.0 - np.eye(3)))
    for iterate in islice(Blocks().iterate(problem), 6):
        assert np.isfinite(iterate.primal)


@pytest.mark.parametrize("x", [np.ones((2, 5)), np.zeros((2, 5))], ids=["opposite", "without features"])
def test_columns_that_cancel_do_not_stall_it(x: Any) -> None:
    """Two examples with the same features and opposite labels, or none: w stays 0, and D = P = 2 needs alpha = c."""
    problem = StructuredSVM.read(sp.csr_array(x), [[0], [1]], 2, C=1.0)
    solution = solve(problem, Blocks(), max_iterations=20)
    assert solution.status is Status.OPTIMAL
    assert solution.lower_bound == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize(
    ("edges", "numbers"),
    [("none", {"BLOCK_ROUNDS": 3}), ("chain", {"BLOCK_ROUNDS": 3, "GROWN_WORK": 0.0})],
    ids=["once", "and back"],
)
def test_pools_and_blocks_hand_over_to_each_other_and_the_bounds_stay_true(
    edges: str, numbers: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of sizes 1e-2 to 1e2."""
    for name, value in ({"CHEAP_WORK": 0.0} | numbers).items():
        monkeypatch.setattr(column_generation, name, value)
    problem = text(1, n=6, edges=edges)
    size = sp.diags_array(10.0 ** np.random.default_rng(0).integers(-2, 3, problem.features.n_node_features))
    x = sp.csr_array(problem.features.node_features @ size)
    problem = StructuredSVM.read(x, problem.features.split_labels(problem.features.truth), 3, edges=edges, C=1.0)
    expected, bounds = optimum(problem), []
    solution = solve(problem, tol=LOW, callback=lambda iterate, _: bounds.append(iterate.lower_bound))
    assert solution.status is Status.OPTIMAL
    assert max(bounds) <= expected * (1 + HIGH.gap)
    holds(solution, expected, gap=LOW.gap)


def test_it_ends_where_rounding_hides_what_rounds_gain() -> None:
    """By IDLE_ROUNDS of the blocks: without them it goes on."""
    assert any(found.done for found in islice(Blocks().iterate(text(3, **KINDS["no edges"])), 30))
