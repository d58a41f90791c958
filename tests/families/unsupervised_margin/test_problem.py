"""The reduced SDP of paper 3: its reader, its feasible set against all labellings, its certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct.arrays import Matrix
from convexstruct.families.unsupervised_margin import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.interior import interior, least_pair_balance
from convexstruct.tolerances import ROUNDING

SYMBOLS = [[0, 1, 1, 0], [1, 0, 1]]
GOOD: dict[str, Any] = {"beta": 0.1, "label_balance": 0.3, "pair_balance": 0.5}
TREE = [[0, 1], [0, 2], [0, 3], [3, 4]]


def read(**changes: Any) -> UnsupervisedMargin:
    given = {"observations": SYMBOLS, "n_labels": 2, **GOOD} | changes
    return UnsupervisedMargin.read(given.pop("observations"), given.pop("n_labels"), **given)


def relations(problem: UnsupervisedMargin, labels: Any) -> tuple[Matrix, Matrix]:
    """M = CC' and N = DD' of a labelling, from its indicators."""
    kappa, y = problem.n_labels, np.asarray(labels)
    c, d = np.eye(kappa)[y], np.eye(kappa**2)[y[problem.current] * kappa + y[problem.previous]]
    return c @ c.T, d @ d.T


# -- reading -----------------------------------------------------------------------------------------------------------


def test_chains_have_a_pair_for_each_row_but_the_first_of_its_sequence() -> None:
    problem = read(observations=[[0, 1, 1], [2], [1, 0]], n_symbols=4)
    assert problem.pairs.tolist() == [[0, 1], [1, 2], [4, 5]]
    assert (problem.n_rows, problem.n_pairs) == (6, 3)
    assert problem.features is not None
    assert problem.features.shape == (6, 4)
    assert problem.gram.tolist() == [[float(a == b) for b in (0, 1, 1, 2, 1, 0)] for a in (0, 1, 1, 2, 1, 0)]


def test_points_without_structure_have_no_pairs() -> None:
    problem = UnsupervisedMargin.multiclass([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]], 2, 1.0, 0.2)
    assert problem.n_pairs == 0
    assert problem.gram.tolist() == [[5.0, 2.0, 3.0], [2.0, 1.0, 0.0], [3.0, 0.0, 9.0]]


def test_data_are_copies_that_nobody_writes_to() -> None:
    table, pairs = np.array([[1.0], [2.0], [3.0]]), np.array([[0, 1], [0, 2]])
    problem = read(observations=[table], pairs=pairs)
    table[:], pairs[:] = 0, 1
    assert problem.features is not None
    assert problem.features.tolist() == [[1.0], [2.0], [3.0]]
    assert problem.pairs.tolist() == [[0, 1], [0, 2]]
    for array in (problem.features, problem.pairs, problem.gram):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"beta": 0.0}, "beta is 0.0, wanted a positive number"),
        ({"n_labels": 1}, "n_labels is 1, wanted a whole number of at least 2"),
        ({"n_labels": 8}, "n_labels is 8, wanted at most the number of rows, 7"),
        ({"observations": [[0]]}, "n_labels is 2, wanted at most the number of rows, 1"),
        ({"label_balance": 0}, "label_balance is 0, wanted a positive number"),
        ({"n_labels": 3, "pair_balance": 0.05}, r"pair_balance is 0.05, .* wanted above 0.0888888889, .* N exists"),
        ({"observations": [[0, 1, 0, 1, 1]], "pairs": TREE, "pair_balance": 0}, "pair_balance is 0, .* known to exist"),
        ({"observations": []}, "observations is empty"),
        ({"observations": [[0, 1], [[1.0]]]}, "observations"),
        ({"observations": [[[1.0]], [[1.0, 2.0]]]}, r"observations\[1\] has 2 columns, observations\[0\] has 1"),
        ({"n_symbols": 1}, r"observations\[0\]\[1\] is 1"),
        ({"pairs": "tree"}, "pairs is 'tree', wanted 'chain' or"),
        ({"pairs": [[3, 4]]}, r"pairs\[0\] ties rows of two examples"),
        ({"pairs": [[0, 1], [2, 1]]}, "pairs has row 1 as the current one twice"),
        ({"pairs": [[0, 1], [1, 2], [2, 0]]}, "pairs has row 0 on or below a cycle"),
        ({"pairs": [[1, 1]]}, "pairs has row 1 on or below a cycle"),
        ({"kernel": np.eye(7)}, "observations and kernel are both given"),
        ({"observations": None, "kernel": np.eye(3), "lengths": [4]}, r"kernel has shape \(3, 3\), wanted \(4, 4\)"),
        ({"observations": None, "kernel": np.diag([1.0, -1, 1]), "lengths": [3]}, "kernel has the eigenvalue -1"),
        ({"observations": None, "kernel": np.eye(3)}, "lengths is None"),
        ({"lengths": [4, 3]}, "lengths is .*, wanted None"),
    ],
)
def test_bad_input_is_one_sentence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(**changes)


# -- the feasible set --------------------------------------------------------------------------------------------------


def spread(rng: np.random.Generator, n: int) -> list[list[int]]:
    """Pairs of a random forest over n rows."""
    return [[int(rng.integers(0, row)), row] for row in range(1, n) if rng.random() < 0.8]


@pytest.mark.parametrize("seed", range(60))
def test_a_balance_just_above_the_smallest_has_points_inside_and_one_below_is_refused(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 30))
    kappa, pairs = int(rng.integers(2, min(n, 5) + 1)), spread(rng, n)
    balance = float(rng.choice([1e-3, 0.1, 0.5]))
    features = rng.normal(size=(n, 2))
    problem = read(observations=[features], n_labels=kappa, pairs=pairs, label_balance=balance, pair_balance=1.0)
    least = least_pair_balance(*problem.shape)
    for wide in (least + 1e-6, least + 0.1):
        problem = read(observations=[features], n_labels=kappa, pairs=pairs, label_balance=balance, pair_balance=wide)
        found = interior(*problem.shape, balance, wide)
        assert found is not None
        same = problem.previous[:, None] == problem.previous
        m = (1 - found.m) * np.eye(n) + found.m
        n_ = np.where(np.eye(len(pairs)) > 0, 1.0, np.where(same, found.m, found.n))
        assert np.linalg.eigvalsh(m - 1 / kappa)[0] > 0
        assert (np.abs(m.sum(axis=1) / n - 1 / kappa) < balance).all()
        if pairs:
            assert np.linalg.eigvalsh(n_ - kappa**-2.0)[0] > 0
            assert (np.abs(n_.sum(axis=1) / len(pairs) - kappa**-2.0) < wide).all()
    if least > 0:
        with pytest.raises(ValueError, match="pair_balance"):
            read(observations=[features], n_labels=kappa, pairs=pairs, pair_balance=least * 0.99)


def test_the_smallest_pair_balance_of_chains_is_that_of_rows_that_sum_to_at_least_1() -> None:
    for kappa, lengths in ((2, [8] * 10), (3, [4, 3]), (4, [2, 2])):
        p2 = sum(lengths) - len(lengths)
        problem = read(observations=[[0] * n for n in lengths], n_labels=kappa, pair_balance=1.0)
        assert least_pair_balance(*problem.shape) == pytest.approx(max(0.0, 1 / p2 - kappa**-2.0), abs=ROUNDING)
