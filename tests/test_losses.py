from __future__ import annotations

import numpy as np

from convexstruct import losses


def test_hamming_counts_what_is_wrong() -> None:
    np.testing.assert_array_equal(losses.hamming(3), [[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    np.testing.assert_array_equal(losses.hamming(1), [[0]])


def test_ring_counts_steps_the_shorter_way_round() -> None:
    np.testing.assert_array_equal(losses.ring(5)[0], [0, 1, 2, 2, 1])
    np.testing.assert_array_equal(losses.ring(4)[1], [1, 0, 1, 2])
    assert losses.ring(10).max() == 5
    np.testing.assert_array_equal(losses.ring(7), losses.ring(7).T)


def test_a_name_or_a_matrix_is_a_cost_matrix() -> None:
    np.testing.assert_array_equal(losses.cost_matrix("ring", 6), losses.ring(6))
    np.testing.assert_array_equal(losses.cost_matrix("hamming", 6), losses.hamming(6))
    lopsided = [[0, 3], [1, 0]]
    np.testing.assert_array_equal(losses.cost_matrix(lopsided, 2), lopsided)


def test_a_function_is_the_matrix_of_its_values() -> None:
    above = losses.cost_matrix(lambda true, predicted: 2 * max(predicted - true, 0) + max(true - predicted, 0), 3)
    np.testing.assert_array_equal(above, [[0, 2, 4], [1, 0, 2], [2, 1, 0]])


def test_the_matrix_is_a_copy() -> None:
    mine = np.array([[0.0, 1.0], [1.0, 0.0]])
    kept = losses.cost_matrix(mine, 2)
    mine[0, 1] = 9.0
    assert kept[0, 1] == 1.0
