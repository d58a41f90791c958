"""Pools of labellings: each once, with its column, and the witness that multipliers make of them."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.structured_svm.solvers.column_generation import pools as labelling_pools
from convexstruct.families.structured_svm.solvers.column_generation.pools import LabellingPools
from convexstruct.tolerances import ROUNDING
from tests.models.structured_svm.instances import INSTANCES


@pytest.mark.parametrize("name", ["slack scaling, weighted, a cost matrix", "cycles", "zero-one loss", "a kernel"])
def test_pools_hold_each_labelling_once_and_its_column(name: str) -> None:
    problem = INSTANCES[name]()
    n, start = problem.n_examples, problem.features.node_start
    rng = np.random.default_rng(0)
    pools = LabellingPools(problem)
    assert pools.n_columns == n
    assert not pools.b.any()
    held = [{tuple(problem.features.truth[start[i] : start[i + 1]])} for i in range(n)]
    for _ in range(12):
        labels = rng.integers(problem.features.n_labels, size=problem.features.n_nodes)
        wanted = rng.random(n) < 0.6
        new = 0
        for i in np.flatnonzero(wanted):
            part = tuple(labels[start[i] : start[i + 1]])
            new += part not in held[i]
            held[i].add(part)
        assert pools.add(labels, wanted) == new
    columns = pools.columns()
    assert (np.diff(columns.owner) >= 0).all()
    np.testing.assert_array_equal(np.bincount(columns.owner), [len(each) for each in held])
    dense = columns.a if isinstance(columns.a, np.ndarray) else columns.a.toarray()
    if columns.gram is not None:
        np.testing.assert_allclose(columns.gram, dense @ dense.T, atol=ROUNDING * (1 + np.abs(dense).max() ** 2))
    w = rng.normal(size=problem.dimension)
    node, edge = problem.scores(w)
    seen: list[set[tuple[int, ...]]] = [set() for _ in range(n)]
    for j, i in enumerate(columns.owner):
        unit = np.zeros(len(columns.b))
        unit[j] = problem.ceiling[i]
        witness = pools.witness(unit)()
        flat = witness["labels"][0].astype(np.int64)
        seen[i].add(tuple(flat[start[i] : start[i + 1]]))
        loss = problem.loss.of(flat)[i]
        margin = problem.truth_scores(node, edge)[i] - problem.score(node, edge, flat)[i]
        assert columns.b[j] == pytest.approx(loss)
        assert dense[j] @ w == pytest.approx(margin * (loss if problem.scaling == "slack" else 1.0), abs=1e-8)
    assert seen == held


def test_the_deadline_is_checked_after_some_rows_of_a_gram_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ROWS`: with all at once a matrix of many columns would take long after the deadline."""
    at_once, by_row = (LabellingPools(INSTANCES["a kernel"]()) for _ in range(2))
    checks: list[int] = []
    monkeypatch.setattr("convexstruct.deadline.check", lambda: checks.append(1))
    whole, once = at_once.columns().gram, len(checks)
    monkeypatch.setattr(labelling_pools, "ROWS", 1)
    gram = by_row.columns().gram
    assert gram is not None
    assert whole is not None
    np.testing.assert_allclose(gram, whole, atol=ROUNDING)
    assert len(checks) - once == 2 * by_row.n_columns > once  # the columns, and the rows of their matrix


def test_columns_that_come_later_are_those_of_all_at_once() -> None:
    """The columns and the Gram matrix are extended, not made anew."""
    problem = INSTANCES["slack scaling, weighted, a cost matrix"]()
    rng = np.random.default_rng(5)
    every = [rng.integers(3, size=problem.features.n_nodes) for _ in range(3)]
    step_by_step, at_once = LabellingPools(problem), LabellingPools(problem)
    for labels in every:
        step_by_step.add(labels)
        later = step_by_step.columns()
        at_once.add(labels)
    whole = at_once.columns()
    np.testing.assert_array_equal(later.owner, whole.owner)
    np.testing.assert_array_equal(later.b, whole.b)
    tables = [each.a if isinstance(each.a, np.ndarray) else each.a.toarray() for each in (later, whole)]
    np.testing.assert_allclose(tables[0], tables[1], atol=ROUNDING)
    assert (later.gram is None) == (whole.gram is None) == (len(whole.b) >= problem.dimension)
    if later.gram is not None:
        np.testing.assert_allclose(later.gram, tables[1] @ tables[1].T, atol=ROUNDING)


def test_a_witness_of_pools_has_the_value_of_its_multipliers() -> None:
    problem = INSTANCES["slack scaling, weighted, a cost matrix"]()
    rng = np.random.default_rng(3)
    pools = LabellingPools(problem)
    for _ in range(6):
        pools.add(rng.integers(3, size=problem.features.n_nodes))
    columns = pools.columns()
    alpha = rng.random(len(columns.b)) * (rng.random(len(columns.b)) < 0.7)
    totals = np.bincount(columns.owner, weights=alpha)
    alpha *= (0.9 * problem.ceiling / np.maximum(totals, ROUNDING))[columns.owner]
    psi, loss = problem.aggregate(pools.witness(alpha)())
    np.testing.assert_allclose(psi, columns.a.T @ alpha, atol=ROUNDING * (1 + np.abs(psi).max()))
    assert loss == pytest.approx(columns.b @ alpha)
