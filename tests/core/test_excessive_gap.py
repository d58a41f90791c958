"""The step of the excessive gap technique solves its equation."""

from __future__ import annotations

import pytest

from convexstruct.core.excessive_gap import step_share
from convexstruct.tolerances import ROUNDING


@pytest.mark.parametrize("ratio", [1e-12, 1e-3, 0.5, 1.0, 7.0, 1e3])
def test_the_share_of_a_step_solves_its_equation(ratio: float) -> None:
    tau = step_share(ratio)
    assert 0 < tau < 1
    assert tau * tau == pytest.approx(ratio * (1.0 - tau), rel=ROUNDING)
