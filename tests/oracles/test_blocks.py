"""The largest entries of rows, whatever the shape and the size of the blocks."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.oracles import blocks
from convexstruct.oracles.blocks import row_max


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (1, 9), (50, 3), (3, 50), (0, 4)])
@pytest.mark.parametrize("block", [1, 10, blocks.BLOCK])
def test_it_is_the_greatest_of_each_row(shape: tuple[int, int], block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", block)
    values = np.random.default_rng(shape).normal(size=shape)
    values[values > 1.0] = -np.inf
    before = values.copy()
    assert row_max(values).tolist() == [max(row) for row in before.tolist()]
    assert np.array_equal(values, before)
