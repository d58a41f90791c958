from __future__ import annotations

import numpy as np
import pytest

from convexstruct import losses


def test_ring_counts_steps_the_shorter_way_round_and_hamming_what_is_wrong() -> None:
    np.testing.assert_array_equal(losses.ring(5)[0], [0, 1, 2, 2, 1])
    np.testing.assert_array_equal(losses.ring(4)[1], [1, 0, 1, 2])
    np.testing.assert_array_equal(losses.hamming(3), [[0, 1, 1], [1, 0, 1], [1, 1, 0]])


@pytest.mark.parametrize(
    ("cost", "matrix"),
    [
        ("ring", losses.ring(3)),
        ("hamming", losses.hamming(3)),
        ([[0, 3, 1], [1, 0, 1], [2, 2, 0]], [[0, 3, 1], [1, 0, 1], [2, 2, 0]]),
        (lambda true, found: 2 * max(found - true, 0) + max(true - found, 0), [[0, 2, 4], [1, 0, 2], [2, 1, 0]]),
    ],
)
def test_a_name_a_matrix_or_a_function_is_a_cost_matrix(cost: losses.Costs, matrix: np.ndarray) -> None:
    np.testing.assert_array_equal(losses.cost_matrix(cost, 3), matrix)
