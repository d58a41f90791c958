from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.projection.experiments.projection import COLUMNS, FITTED, instance, power
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.quick_runs import quick


def test_a_quick_run_certifies_every_way() -> None:
    result = quick("projection").result
    assert result.column("n") == [100, 1000, 10_000]
    for name in COLUMNS[1:5]:
        assert all(isinstance(cell, float) and cell > 0 for cell in result.column(name))
    assert max(float(cell or 0.0) for cell in result.column("certified gap")) <= ROUNDING
    assert max(float(cell or 0.0) for cell in result.column("apart")) <= HIGH.gap
    assert result.column("Clarabel ms")[-1] is None


def test_the_same_seed_gives_the_same_instance() -> None:
    assert np.array_equal(instance(50, 3).m, instance(50, 3).m)
    assert not np.array_equal(instance(50, 3).m, instance(50, 4).m)


def test_a_power_is_fitted_where_python_s_own_cost_is_over() -> None:
    sizes = [100.0, FITTED, 10.0 * FITTED, 100.0 * FITTED]
    assert power(sizes, [9.0, 1.0, 10.0, 100.0]) == pytest.approx(1.0)
    assert power(sizes, [9.0, 1.0, 100.0, None]) == pytest.approx(2.0)
    assert power(sizes, [9.0, 1.0, None, None]) is None
