"""The relaxation to the local polytope: bounds, marginals and rounding against brute force."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy
from hypothesis import given, settings

from convexstruct import deadline
from convexstruct.arrays import Flags
from convexstruct.oracles import enumeration
from convexstruct.oracles.loopy import linear_relaxation
from convexstruct.oracles.loopy.linear_relaxation import Relaxed
from convexstruct.oracles.loopy.pairwise import Pairwise, pairwise
from convexstruct.tolerances import HIGH, ROUNDING
from tests.oracles.loopy.test_minimum_cut import associative
from tests.oracles.loopy.test_pairwise import graphs, parts_of

EXAMPLES = settings(max_examples=50, deadline=None, derandomize=True)
CLOSE = HIGH.gap


def integral(scores: Pairwise, found: Relaxed) -> Flags:
    """Whether the marginals of all nodes of a part are 0 or 1; (N,)."""
    fractional = np.abs(found.node - np.rint(found.node)).max(axis=1) > HIGH.feasibility
    return np.asarray(np.bincount(scores.part, weights=fractional, minlength=scores.n_parts) == 0)


def exact(found: Relaxed) -> Flags:
    """Whether score and bound agree, which proves that the labels are a best labelling; (N,)."""
    return np.asarray(found.upper - found.scores <= CLOSE * np.maximum(1.0, np.abs(found.scores)))


@given(graphs() | graphs(integers=True))
@EXAMPLES
def test_bound_and_marginals_are_those_of_the_local_polytope_and_the_bound_holds(scores: Pairwise) -> None:
    """Bound and objective meet at marginals of the local polytope: each proves the other."""
    found = linear_relaxation.linear_relaxation(scores)
    assert min(found.node.min(initial=0.0), found.edge.min(initial=0.0)) >= -HIGH.feasibility
    np.testing.assert_allclose(found.node.sum(axis=1), 1.0, atol=HIGH.feasibility)
    for axis, end in ((2, 0), (1, 1)):
        at_end = found.node[scores.edges[:, end]]
        np.testing.assert_allclose(found.edge.sum(axis=axis), at_end, atol=HIGH.feasibility)
    value = scores.by_part((scores.node * found.node).sum(axis=1), (scores.edge * found.edge).sum(axis=(1, 2)))
    np.testing.assert_allclose(value, found.upper, rtol=CLOSE, atol=CLOSE)
    np.testing.assert_array_equal(found.scores, scores.score(found.labels))
    for k, (cards, factors, _) in enumerate(parts_of(scores)):
        best, _ = enumeration.best(cards, factors)
        assert found.upper[k] >= best - ROUNDING
        assert found.scores[k] <= best + ROUNDING
        if integral(scores, found)[k]:
            assert exact(found)[k]
        if exact(found)[k]:
            assert found.scores[k] == pytest.approx(best, rel=CLOSE, abs=CLOSE)


@given(associative(integers=False))
@EXAMPLES
def test_for_associative_tables_of_two_labels_the_bound_is_the_greatest_score(scores: Pairwise) -> None:
    found = linear_relaxation.linear_relaxation(scores)
    size = float(np.abs(scores.node).sum() + np.abs(scores.edge).sum())
    for k, (cards, factors, _) in enumerate(parts_of(scores)):
        assert abs(found.upper[k] - enumeration.best(cards, factors)[0]) <= CLOSE * size


def test_a_frustrated_triangle_is_relaxed_to_one_half_beside_a_part_that_is_exact() -> None:
    edges = [[0, 1], [1, 2], [2, 0], [3, 4]]
    node = np.zeros((5, 2))
    node[3, 1] = 0.25
    scores = pairwise(node, edges, [[0.0, 1.0], [1.0, 0.0]], [0, 0, 0, 1, 1])
    found = linear_relaxation.linear_relaxation(scores)
    np.testing.assert_allclose(found.upper, [3.0, 1.25], rtol=CLOSE)
    np.testing.assert_allclose(found.node[:3], 0.5, atol=CLOSE)
    np.testing.assert_array_equal(integral(scores, found), [False, True])
    np.testing.assert_array_equal(exact(found), [False, True])
    np.testing.assert_array_equal(found.labels[3:], [1, 0])


def test_a_solver_that_gives_up_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scipy.optimize, "linprog", lambda *_, **__: SimpleNamespace(status=4, message="trouble"))
    with pytest.raises(RuntimeError, match="HiGHS did not solve the relaxation: trouble"):
        linear_relaxation.linear_relaxation(pairwise([[0.0, 1.0]], [], np.zeros((2, 2))))


def test_the_deadline_acts_inside_the_linear_program() -> None:
    rng, n = np.random.default_rng(0), 400
    edges = [(i, i + 1) for i in range(n - 1)] + [(i, i + 20) for i in range(n - 20)]
    scores = pairwise(rng.normal(size=(n, 3)), edges, rng.normal(size=(len(edges), 3, 3)))
    with deadline.within(1e-3), pytest.raises(deadline.DeadlinePassed):
        linear_relaxation.linear_relaxation(scores)
