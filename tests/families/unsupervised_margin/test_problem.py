"""The reduced SDP of paper 3: its reader, its feasible set against all labellings, its certificate."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from convexstruct.families.unsupervised_margin import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.interior import least_pair_balance
from convexstruct.families.unsupervised_margin.planted import exact, relations
from convexstruct.tolerances import ROUNDING

SYMBOLS = [[0, 1, 1, 0], [1, 0, 1]]
GOOD: dict[str, Any] = {"beta": 0.1, "label_balance": 0.3, "pair_balance": 0.5}


def read(**changes: Any) -> UnsupervisedMargin:
    given = {"observations": SYMBOLS, "n_labels": 2, **GOOD} | changes
    return UnsupervisedMargin.read(given.pop("observations"), given.pop("n_labels"), **given)


# -- reading -----------------------------------------------------------------------------------------------------------


def test_chains_have_a_pair_for_each_row_but_the_first_of_its_sequence() -> None:
    problem = read(observations=[[0, 1, 1], [2], [1, 0]], n_symbols=4)
    assert problem.pairs.tolist() == [[0, 1], [1, 2], [4, 5]]
    assert (problem.n_rows, problem.n_pairs) == (6, 3)
    assert problem.features is not None
    assert problem.features.shape == (6, 4)
    assert problem.gram.tolist() == [[float(a == b) for b in (0, 1, 1, 2, 1, 0)] for a in (0, 1, 1, 2, 1, 0)]


# -- the feasible set --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_balance_just_above_the_smallest_has_points_inside_and_one_below_is_refused(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 10, size=int(rng.integers(1, 5))) + 1
    n = int(lengths.sum())
    kappa, balance = int(rng.integers(2, min(n, 5) + 1)), float(rng.choice([1e-3, 0.1, 0.5]))
    given = {"observations": [rng.normal(size=(each, 2)) for each in lengths], "n_labels": kappa}
    p2 = n - len(lengths)
    least = least_pair_balance(p2, kappa)
    for wide in (least + 1e-6, least + 0.1):
        safe = read(**given, label_balance=balance, pair_balance=wide).feasible.safe
        assert np.linalg.eigvalsh(safe["M"] - 1 / kappa)[0] > 0
        assert (np.abs(safe["M"].sum(axis=1) / n - 1 / kappa) < balance).all()
        assert np.linalg.eigvalsh(safe["N"] - kappa**-2.0)[0] > 0
        assert (np.abs(safe["N"].sum(axis=1) / p2 - kappa**-2.0) < wide).all()
    if least > 0:
        with pytest.raises(ValueError, match="pair_balance"):
            read(**given, pair_balance=least * 0.99)


def instance(seed: int, kappa: int = 2) -> UnsupervisedMargin:
    """Two examples of four rows, real features."""
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(4, 2)) for _ in range(2)]
    return read(observations=rows, n_labels=kappa, label_balance=0.2, pair_balance=0.6)


@pytest.mark.parametrize("kappa", [2, 3])
def test_every_balanced_labelling_is_feasible_and_so_is_the_mean_of_any(kappa: int) -> None:
    problem = instance(0, kappa)
    found, total = 0, [np.zeros((problem.n_rows,) * 2), np.zeros((problem.n_pairs,) * 2)]
    every = itertools.product(range(kappa), repeat=problem.n_rows)
    for labels in itertools.islice(every, None if kappa == 2 else 1000):
        counts = np.bincount(labels, minlength=kappa)
        both = np.bincount([labels[c] * kappa + labels[p] for p, c in problem.pairs], minlength=kappa**2)
        m, n = relations(problem, labels)
        residuals = problem.residuals({"M": m, "N": n})
        others = {name: value for name, value in residuals.items() if "balance" not in name}
        assert max(others.values()) <= ROUNDING
        of_rows = np.abs(counts[counts > 0] / problem.n_rows - 1 / kappa).max() - problem.label_balance
        of_pairs = np.abs(both[both > 0] / problem.n_pairs - kappa**-2.0).max() - problem.pair_balance
        assert residuals["rows of M out of balance (9)"] == pytest.approx(max(0.0, of_rows), abs=ROUNDING)
        assert residuals["rows of N out of balance (9)"] == pytest.approx(max(0.0, of_pairs), abs=ROUNDING)
        if of_rows <= 0 and of_pairs <= 0:
            found, total = found + 1, [total[0] + m, total[1] + n]
    assert found > 10
    assert max(problem.residuals({"M": total[0] / found, "N": total[1] / found}).values()) <= ROUNDING


def test_what_is_tied_in_one_direction_alone_is_seen() -> None:
    problem = instance(0)
    m, n = relations(problem, [0, 1, 0, 1, 1, 0, 1, 0])
    now, _ = problem.feasible.at_pairs(m)
    assert problem.residuals({"M": m, "N": np.where(n == 0, now, n)})["M and N not tied (11)"] == 0  # all alternate
    m, n = relations(problem, [0, 1, 1, 0, 1, 1, 0, 0])
    now, before = problem.feasible.at_pairs(m)
    for one in (now, before):
        assert problem.residuals({"M": m, "N": one})["M and N not tied (11)"] == 1.0


# -- the upper bound ---------------------------------------------------------------------------------------------------


def semidefinite(matrix: list[list[Fraction]]) -> bool:
    """Whether a symmetric matrix is positive semidefinite, by elimination in fractions."""
    rows = [list(row) for row in matrix]
    while rows:
        pivot = rows[0][0]
        if pivot < 0 or (pivot == 0 and any(rows[0])):
            return False
        rest = [row[1:] for row in rows[1:]]
        if pivot:
            rest = [[x - row[0] * y / pivot for x, y in zip(left, rows[0][1:])] for row, left in zip(rows[1:], rest)]
        rows = rest
    return True


@pytest.mark.parametrize("seed", range(6))
def test_the_point_behind_an_upper_bound_is_feasible_in_rational_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = instance(seed, 2 + seed % 2)
    feasible, kappa = problem.feasible, problem.n_labels
    point = {"M": rng.normal(size=(8, 8)), "N": rng.normal(size=(problem.n_pairs,) * 2)}
    if seed % 2:  # close to a labelling
        m, n = relations(problem, rng.integers(0, kappa, 8))
        point = {"M": m + 1e-6 * point["M"], "N": n + 1e-6 * point["N"]}
    near = feasible.entrywise(point)
    t = Fraction(feasible.share_inside(near))
    assert 0 <= t <= 1
    exactly: dict[str, list[list[Any]]] = {
        name: [
            [(1 - t) * Fraction(x) + t * Fraction(y) for x, y in zip(*rows)]
            for rows in zip(near[name].tolist(), feasible.safe[name].tolist())
        ]
        for name in "MN"
    }
    for name, share, eps in (("M", Fraction(1, kappa), 0.2), ("N", Fraction(1, kappa**2), 0.6)):
        x = exactly[name]
        assert all(x[i][i] == 1 and x[i][j] == x[j][i] >= 0 for i in range(len(x)) for j in range(len(x)))
        assert semidefinite([[entry - share for entry in row] for row in x])
        assert all(abs(sum(row) / len(x) - share) <= Fraction(eps) for row in x)
    for one, (before, now) in enumerate(problem.pairs.tolist()):
        for other, (before_, now_) in enumerate(problem.pairs.tolist()):
            a, b, c = exactly["M"][now][now_], exactly["M"][before][before_], exactly["N"][one][other]
            assert a + b - 1 <= c <= min(a, b)
    k = Fraction(kappa)
    kernel = [
        [sum(Fraction(x) * Fraction(y) for x, y in zip(a, b)) for b in problem.features.tolist()]  # type: ignore[union-attr]  # features, no kernel
        for a in problem.features.tolist()  # type: ignore[union-attr]  # features, no kernel
    ]
    gained: Any = sum(kernel[i][j] * (exactly["M"][i][j] - 1 / k) for i in range(8) for j in range(8))
    gained += sum(x - 1 / k**2 for row in exactly["N"] for x in row)
    value = 8 * (1 - 1 / k) - gained / (2 * Fraction(problem.beta))
    assert value <= Fraction(problem.primal(point).upper)
    assert max(problem.residuals(problem.repair(point)).values()) <= ROUNDING


def test_slacks_of_rows_and_ties_are_no_larger_than_in_rational_arithmetic() -> None:
    problem, rng = instance(1, 3), np.random.default_rng(0)
    for _ in range(10):
        near = problem.feasible.entrywise({"M": rng.random((8, 8)), "N": rng.random((problem.n_pairs,) * 2)})
        _, _, of_m, _, _, of_n, _, of_ties = problem.feasible.slacks(near)
        m, n = ([[Fraction(x) for x in row] for row in near[name].tolist()] for name in "MN")
        x: Any
        for found, x, share, eps in ((of_m, m, Fraction(1, 3), 0.2), (of_n, n, Fraction(1, 9), 0.6)):
            truth = Fraction(eps) - max(abs(sum(row) / len(x) - share) for row in x)
            assert Fraction(found) <= truth <= Fraction(found) + Fraction(1, 10**13)
        every = enumerate(problem.pairs.tolist())
        slack = [
            n[k][j] - m[a][c] - m[b][d] + 1 for (k, (a, b)), (j, (c, d)) in itertools.product(every, repeat=2) if a != c
        ]
        assert Fraction(of_ties) <= min(slack) <= Fraction(of_ties) + Fraction(1, 10**13)


# -- the lower bound ---------------------------------------------------------------------------------------------------


def dual_value(problem: UnsupervisedMargin, witness: dict[str, Any]) -> Any:
    """The bound of a witness in 50 digits, from its formula."""
    mp = mpmath.mpf
    n, p2, kappa, beta = problem.n_rows, problem.n_pairs, problem.n_labels, mp(problem.beta)
    features = problem.features
    assert features is not None
    gram = [[mpmath.fsum(mp(x) * mp(y) for x, y in zip(a, b)) for b in features.tolist()] for a in features.tolist()]
    w = {name: np.asarray(each).tolist() for name, each in witness.items()}

    def even(name: str, i: int, j: int) -> Any:
        return (mp(w[name][i][j]) + mp(w[name][j][i])) / 2

    big, small = mpmath.matrix(n), mpmath.matrix(p2)
    for i, j in itertools.product(range(n), repeat=2):
        big[i, j] = gram[i][j] - even("P", i, j) - (mp(w["u"][i]) + mp(w["u"][j])) / 2
    bound = mpmath.fsum(max(mp(0), even("P", i, j)) if i != j else even("P", i, i) for i in range(n) for j in range(n))
    for (k, (a, b)), (each, (c, d)) in itertools.product(enumerate(problem.pairs.tolist()), repeat=2):
        now, before, pair = (even(name, k, each) for name in ("W_current", "W_previous", "W_pair"))
        big[b, d] -= now
        big[a, c] -= before
        small[k, each] = 1 - pair - (mp(w["v"][k]) + mp(w["v"][each])) / 2
        corners = [mp(0), now, before, now + before + pair]
        bound += corners[3] if k == each else max(corners)
    for matrix, sums, diagonal, share, eps in (
        (big, "u", "y", mp(1) / kappa, problem.label_balance), (small, "v", "z", mp(1) / kappa**2, problem.pair_balance)
    ):  # fmt: skip
        size = matrix.rows
        bound += mpmath.fsum(size * (share * mp(x) + mp(eps) * abs(mp(x))) for x in w[sums])
        bound += share * mpmath.fsum(matrix) + (1 - share) * mpmath.fsum(map(mp, w[diagonal]))
        top = max(mpmath.eigsy(matrix - mpmath.diag(list(map(mp, w[diagonal]))), eigvals_only=True))
        bound += (1 - share) * size * top
    bound -= mpmath.fsum(x for row in gram for x in row) / kappa + mp(p2) ** 2 / kappa**2
    return n * (1 - mp(1) / kappa) - bound / (2 * beta)


def witness_of(rng: np.random.Generator, problem: UnsupervisedMargin, size: float) -> dict[str, Any]:
    n, p2 = problem.n_rows, problem.n_pairs
    shapes: dict[str, tuple[int, ...]] = {"P": (n, n), "u": (n,), "y": (n,), "v": (p2,), "z": (p2,)}
    shapes |= dict.fromkeys(("W_current", "W_previous", "W_pair"), (p2, p2))
    return {name: size * rng.normal(size=shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_of_any_witness_is_its_formula_in_50_digits_and_below_every_feasible_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = instance(seed, 2 + seed % 2)
    witness = witness_of(rng, problem, float(rng.choice([1e-8, 1.0, 1e8])))
    found = problem.dual(witness)
    with mpmath.workdps(50):
        truth = dual_value(problem, witness)
    assert found.lower <= truth
    assert truth - found.lower <= 1e-11 * (abs(truth) + problem.trivial_value)
    for labels in itertools.islice(itertools.permutations([0, 0, 0, 0, 1, 1, 1, 1]), 0, 4000, 97):
        m, n = relations(problem, labels)
        if max(problem.residuals({"M": m, "N": n}).values()) <= ROUNDING:
            assert found.lower <= exact(problem, m, n)


def test_labels_are_read_from_m_one_array_an_example() -> None:
    problem = instance(0)
    labels = [0, 1, 1, 0, 1, 0, 0, 1]
    m, n = relations(problem, labels)
    found = problem.predict({"M": m, "N": n})
    assert [len(each) for each in found] == [4, 4]
    assert relations(problem, np.concatenate(found))[0].tolist() == m.tolist()


def test_where_no_point_is_proved_feasible_no_point_has_an_upper_bound() -> None:
    """A balance below rounding: once omega(I, I) was the bound of M = I, whose rows are out of balance by 1/4."""
    problem = UnsupervisedMargin.read([np.eye(2)[[0, 1, 0, 1]]], 2, beta=1.0, label_balance=1e-16)
    assert problem.primal({"M": np.eye(4), "N": np.eye(3)}).upper == np.inf


def test_the_reason_for_large_allowances_names_the_row_or_the_balance() -> None:
    def reason(kernel: np.ndarray, label_balance: float = 0.5) -> str:
        problem = UnsupervisedMargin.read(None, 3, kernel=kernel, lengths=[5], beta=1.0, label_balance=label_balance)
        return problem.rounding_reason({}, None)

    kernel = np.eye(5)
    assert reason(kernel) == ""
    assert "label_balance is 1.0e-10" in reason(kernel, label_balance=1e-10)
    kernel[2, 2] = 1e16
    assert "the size of row 2 reaches 1.0e+08" in reason(kernel)
