"""Algorithm 3: each block is maximised exactly, agreements of a colour share no clique, and the optimum is reached."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convexstruct as cs
from convexstruct.families.projection.solvers import block_ascent
from convexstruct.families.projection.solvers.block_ascent import BlockAscent, balance, colours
from convexstruct.families.projection.solvers.marginal_ascent import MarginalAscent
from convexstruct.families.projection.tables import MarginalProjection
from convexstruct.tolerances import HIGH, MID, ROUNDING
from tests.families.projection.instances import chains


def loop(seed: int, n: int = 2) -> MarginalProjection:
    rng = np.random.default_rng(seed)
    shapes = {("a", "b"): (2, 3), ("b", "c", "d"): (3, 2, 2), ("d", "a"): (2, 2), ("c",): (2,)}
    tables = [rng.normal(size=(n, *shape)) for shape in shapes.values()]
    return MarginalProjection.graph(list(shapes), tables, d=[1.0, 2.0, 0.5, 1.0], scale=rng.uniform(0.3, 2.0, size=n))


@given(st.data())
def test_a_cell_is_balanced_exactly(data: st.DataObject) -> None:
    p, q = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    entries = st.integers(-3, 3).map(float)
    left = np.array(data.draw(st.lists(entries, min_size=p, max_size=p)))
    right = np.array(data.draw(st.lists(entries, min_size=q, max_size=q)))
    rise, fall = data.draw(st.sampled_from([0.5, 1.0, 3.0])), data.draw(st.sampled_from([1.0, 2.0]))
    delta = balance(left[None, None], right[None, None], np.array([rise]), np.array([fall]))[0, 0]
    gained = rise * np.maximum(delta - left, 0.0).sum()
    lost = fall * np.maximum(right - delta, 0.0).sum()
    assert gained == pytest.approx(lost, abs=ROUNDING)
    if right.max() <= 0 <= left.min():
        assert delta == 0


def test_cells_are_balanced_the_same_in_batches_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    given = rng.normal(size=(7, 2, 3)), rng.normal(size=(7, 2, 4)), rng.uniform(1, 2, 7), rng.uniform(1, 2, 7)
    whole = balance(*given)
    for entries in (1, 30):
        monkeypatch.setattr(block_ascent, "BATCH_ENTRIES", entries)
        np.testing.assert_array_equal(balance(*given), whole)


@pytest.mark.parametrize("problem", [loop(0, 3), chains(0), chains(0, nodes=False)], ids=["loop", "chains", "edges"])
def test_no_clique_occurs_twice_in_a_colour(problem: MarginalProjection) -> None:
    structure = problem.structure
    seen = [np.zeros(len(each.component), dtype=int) for each in structure.agreements]
    for number, pairs in colours(structure):
        each = structure.agreements[number]
        rows = [each.left.rows[pairs] + (each.left.group << 20), each.right.rows[pairs] + (each.right.group << 20)]
        every = np.concatenate(rows)
        assert len(np.unique(every)) == len(every)
        seen[number][pairs] += 1
    assert all((count == 1).all() for count in seen)
    assert len(colours(chains(0, nodes=False).structure)) == 2  # of the edges of chains, in turn


@pytest.mark.parametrize("problem", [loop(1), chains(1), chains(1, nodes=False)], ids=["loop", "chains", "edges"])
def test_the_dual_never_falls_and_reaches_the_optimum(problem: MarginalProjection) -> None:
    bounds = []
    solution = cs.solve(
        problem, BlockAscent(sweeps=1), tol=HIGH, callback=lambda iterate, _: bounds.append(iterate.lower_bound)
    )
    assert solution.status is cs.Status.OPTIMAL
    assert all(later >= earlier - ROUNDING * abs(earlier) for earlier, later in pairwise(bounds))
    other = cs.solve(problem, MarginalAscent(), tol=HIGH)
    assert solution.primal == pytest.approx(other.primal, rel=2 * HIGH.gap)
    np.testing.assert_allclose(solution.point["a"], other.point["a"], atol=MID.feasibility * 100)
