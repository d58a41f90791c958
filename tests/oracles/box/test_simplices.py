"""Projections onto products of simplices, against all supports."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Vector
from convexstruct.graphs import starts
from convexstruct.oracles.box.simplices import onto_groups
from convexstruct.tolerances import ROUNDING

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=6)


def nearest(z: Vector, radius: float, floor: bool) -> Vector:
    """The projection of one group by trying every support."""
    best, found = np.inf, np.zeros_like(z)
    for support in range(2 ** len(z)):
        on = np.array([bool(support >> j & 1) for j in range(len(z))])
        for tight in (True, False) if floor else (True,):
            if tight and not on.any():
                continue
            a = np.where(on, z - ((z[on].sum() - radius) / on.sum() if tight else 0.0), 0.0)
            if (a >= -ROUNDING).all() and a.sum() <= radius + ROUNDING and np.sum((a - z) ** 2) < best:
                best, found = float(np.sum((a - z) ** 2)), a
    return found


@settings(max_examples=60, deadline=None)
@given(SIZES, st.booleans(), st.integers(0, 10_000), st.sampled_from([0.0, 1e-3, 1.0, 30.0]))
def test_each_group_is_projected_as_by_trying_every_support(
    sizes: list[int], floor: bool, seed: int, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    start = np.concatenate(([0], np.cumsum(sizes))).astype(np.intp)
    z = np.round(rng.normal(size=start[-1]) * scale, 2)  # rounded, so that ties occur
    radius = (rng.random(len(sizes)) + 0.5) * (rng.random(len(sizes)) < (0.8 if floor else 1.0))
    group = np.repeat(np.arange(len(sizes)), sizes)
    found, tight = onto_groups(z, start, group, floor, radius)
    for g, (i, j) in enumerate(itertools.pairwise(start)):
        np.testing.assert_allclose(found[i:j], nearest(z[i:j], radius[g], floor), atol=ROUNDING)
        assert found[i:j].sum() == pytest.approx(radius[g]) or not tight[g]


@pytest.mark.parametrize("floor", [True, False])
def test_sums_are_right_where_entries_differ_by_their_rounding_alone(floor: bool) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 6, 3000)
    start, group = starts(sizes), np.repeat(np.arange(3000), sizes)
    base, radius = 10.0 ** rng.uniform(0, 16, 3000), 10.0 ** rng.uniform(-16, 0, 3000)
    z = base[group] * (1.0 + rng.integers(-2, 3, len(group)) * 2.0**-52)
    found, tight = onto_groups(z, start, group, floor, radius)
    assert tight.all()
    np.testing.assert_allclose(np.add.reduceat(found, start[:-1]), radius, rtol=ROUNDING)
