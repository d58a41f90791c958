"""The neighbours of a position as channels."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.features.counts.window import window


def test_a_window_holds_the_neighbours_and_a_symbol_of_its_own_beyond_the_ends() -> None:
    seen = window([np.array([3, 1, 2]), np.array([0])], 4, 1)
    assert [view.tolist() for view in seen] == [[[4, 3, 1], [3, 1, 2], [1, 2, 4]], [[4, 0, 4]]]
    assert window([np.array([3, 1])], 4, 0)[0].tolist() == [[3], [1]]
    with pytest.raises(ValueError, match="radius is -1"):
        window([np.array([0])], 4, -1)
