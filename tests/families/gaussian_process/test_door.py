"""Bad input to the kernel CRF: one sentence each, with the argument, what came and what was wanted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from tests.families.gaussian_process.kernel_chains import small

INPUTS = [np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([[2.0, 0.0]])]
LABELS = [[0, 1], [1]]

READ: list[tuple[dict[str, Any], str]] = [
    ({"inputs": []}, "inputs is empty, wanted a list of at least one sequence"),
    ({"inputs": INPUTS[:1]}, "inputs holds 1 sequences, labels holds 2"),
    ({"inputs": [INPUTS[0][:1], INPUTS[1]]}, r"inputs\[0\] has 1 positions, labels\[0\] has 2"),
    ({"inputs": [INPUTS[0], np.array([[np.nan, 0.0]])]}, r"inputs\[1\] contains NaN or infinity"),
    ({"inputs": [INPUTS[0], np.array([[1.0]])]}, r"inputs\[1\] has 1 columns, inputs\[0\] has 2"),
    (
        {"inputs": [INPUTS[0], np.zeros((0, 2))]},
        r"inputs\[1\] is empty, of shape \(0, 2\), wanted \(positions,\) or \(positions, features\)",
    ),
    ({"inputs": [INPUTS[0], [["a", "b"]]]}, r"inputs\[1\] holds strings, wanted real numbers"),
    (
        {"inputs": [[[1, 2], [1]], [[1, 2]]]},
        r"inputs\[0\] has rows of unequal lengths, wanted \(positions,\) or \(positions, features\) numbers",
    ),
    ({"labels": []}, "labels is empty"),
    ({"labels": [[0, 2], [1]]}, r"labels\[0\]\[1\] is 2, wanted a whole number from 0 to 1"),
    ({"labels": [[0, -1], [1]]}, r"labels\[0\]\[1\] is -1"),
    ({"labels": [[0, 0.5], [1]]}, r"labels\[0\]\[1\] is 0.5"),
    ({"labels": [[0, 1], []]}, r"labels\[1\] is empty"),
    ({"n_labels": 0}, "n_labels is 0, wanted a whole number of at least 1"),
    ({"n_labels": 2.0}, "n_labels is 2.0"),
    ({"eta": -1.0}, "eta is -1.0, wanted a number of at least 0"),
    ({"eta": np.nan}, "eta is nan, wanted a number of at least 0"),
    ({"lam": 0.0}, "lam is 0.0, wanted a positive number"),
    ({"lam": True}, "lam is True, wanted a positive number"),
    ({"lam": "1"}, "lam is '1', wanted a positive number"),
    ({"kernel": "gauss"}, "kernel is 'gauss', wanted one of rbf, linear, polynomial"),
    ({"kernel": 3}, "kernel is 3, wanted a name or a pair"),
    ({"kernel": ("rbf", {"sigma": 1.0})}, r"kernel rbf has the keys \['sigma'\], wanted among gamma"),
    ({"kernel": ("rbf", {"gamma": 0.0})}, "kernel parameter gamma is 0.0, wanted a positive number"),
    ({"kernel": ("linear", {"offset": -1.0})}, "kernel parameter offset is -1.0, wanted a number of at least 0"),
    ({"kernel": ("polynomial", {"degree": 1.5})}, "degree is 1.5, wanted a whole number of at least 1"),
]

GRAM: list[tuple[dict[str, Any], str]] = [
    ({"gram": np.eye(2)}, "gram is 2 x 2, the sequences have 3 positions"),
    ({"gram": np.ones((3, 2))}, r"gram has shape \(3, 2\), wanted a square matrix"),
    ({"gram": np.full((3, 3), np.inf)}, "gram contains NaN or infinity"),
    ({"gram": np.eye(3) * 1j}, "gram holds complex numbers, wanted real numbers"),
    ({"gram": np.triu(np.ones((3, 3)))}, "gram is not symmetric, entries differ by 1, wanted a symmetric matrix"),
    ({"gram": np.diag([1.0, 1.0, -0.25])}, "gram has the eigenvalue -0.25, wanted a positive semidefinite matrix"),
    ({"gram": 1.0 - np.eye(3)}, "gram has the eigenvalue -1, wanted a positive semidefinite matrix"),
    ({"places": [[0, 1]]}, "places holds 1 sequences, labels holds 2"),
    ({"places": [[0], [1]]}, r"places\[0\] has 1 positions, labels\[0\] has 2"),
    ({"places": [[0, 3], [1]]}, r"places\[0\]\[1\] is 3, wanted a whole number from 0 to 2"),
]


@pytest.mark.parametrize(("changed", "said"), READ, ids=[said[:40] for _, said in READ])
def test_bad_sequences_are_refused_in_one_sentence(changed: dict[str, Any], said: str) -> None:
    given = {"inputs": INPUTS, "labels": LABELS, "n_labels": 2, **changed}
    with pytest.raises(ValueError, match=said):
        GaussianProcessSequences.read(given.pop("inputs"), given.pop("labels"), given.pop("n_labels"), **given)


@pytest.mark.parametrize(("changed", "said"), GRAM, ids=[said[:40] for _, said in GRAM])
def test_a_bad_gram_matrix_is_refused_in_one_sentence(changed: dict[str, Any], said: str) -> None:
    given = {"gram": np.eye(3), **changed}
    with pytest.raises(ValueError, match=said):
        GaussianProcessSequences.from_gram(given.pop("gram"), LABELS, 2, **given)


def test_eigenvalues_that_are_negative_by_rounding_pass() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3))
    matrix = (rows @ rows.T) * (1.0 + 1e-13 * rng.normal(size=(40, 40)))
    assert np.linalg.eigvalsh(0.5 * (matrix + matrix.T))[0] < 0
    problem = GaussianProcessSequences.from_gram(matrix, [np.zeros(40, dtype=int)], 2)
    assert np.array_equal(problem.gram.matrix, problem.gram.matrix.T)


def test_the_same_is_checked_without_the_named_doors() -> None:
    whole = small(0)
    with pytest.raises(ValueError, match="labels has 2 entries, the sequences have 10 positions"):
        GaussianProcessSequences(whole.gram, whole.places, whole.labels[:2], whole.lengths, 3)
    with pytest.raises(ValueError, match="places has 3 entries, the sequences have 10 positions"):
        GaussianProcessSequences(whole.gram, whole.places[:3], whole.labels, whole.lengths, 3)


def test_a_point_of_the_wrong_shape_or_name_is_refused() -> None:
    problem = small(1)
    n = problem.dimension
    with pytest.raises(ValueError, match=rf"u has shape \(3,\), wanted \({n},\)"):
        problem.as_point(np.zeros(3))
    with pytest.raises(ValueError, match=r"point has the keys \['w'\], wanted u, or label and transition"):
        problem.as_point({"w": np.zeros(n)})
    with pytest.raises(ValueError, match=r"u is 'u', wanted \(27,\) numbers"):
        problem.as_point("u")
    with pytest.raises(ValueError, match=r"dual_point has the keys \['w'\], wanted u"):
        problem.dual({"w": np.zeros(n)})
    u = np.arange(float(n))
    label, transition = problem.split(u)
    assert np.array_equal(problem.as_point({"label": label, "transition": transition})["u"], u)


def test_new_inputs_must_have_the_columns_of_the_old_ones() -> None:
    problem = small(2)
    u = np.zeros(problem.dimension)
    with pytest.raises(ValueError, match="examples have 3 columns, wanted 2: as many as in training"):
        problem.predict(u, [np.zeros((2, 3))])
    bare = GaussianProcessSequences.from_gram(np.eye(3), LABELS, 2)
    wanted = "examples have 2 columns, wanted 3: the kernel is not known, .* give k of each new position against each"
    with pytest.raises(ValueError, match=wanted):
        bare.predict(np.zeros(bare.dimension), [np.zeros((2, 2))])
