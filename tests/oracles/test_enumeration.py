"""Brute force where no oracle is compared with it: nothing is allowed, or too much is asked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from convexstruct.oracles import enumeration


def test_where_every_label_is_forbidden_the_sum_is_0() -> None:
    assert enumeration.log_partition([2], [((0,), np.full(2, -np.inf))]) == -math.inf


def test_too_many_labellings_are_refused() -> None:
    with pytest.raises(ValueError, match=f"{2**40} labellings"):
        enumeration.labellings([2] * 40)
