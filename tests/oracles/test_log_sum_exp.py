"""ln of sums of exponentials, beside SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from convexstruct.oracles.log_sum_exp import log_sum_exp


@pytest.mark.parametrize("axis", [0, 2, (2,), (0, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_it_is_scipys_at_any_scale_and_along_any_axes(axis: int | tuple[int, ...], scale: float) -> None:
    rng = np.random.default_rng(5)
    table = scale * rng.normal(size=(4, 5, 6))
    table[rng.random(table.shape) < 0.2] = -np.inf
    truth = scipy.special.logsumexp(table, axis=axis) if axis != () else table
    np.testing.assert_allclose(log_sum_exp(table, axis), truth, rtol=1e-14)


def test_where_all_entries_are_minus_infinity_so_is_the_sum() -> None:
    table = np.array([[-np.inf, -np.inf], [0.0, -np.inf]])
    assert log_sum_exp(table, 1).tolist() == [-np.inf, 0.0]
