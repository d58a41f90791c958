"""Numbers that carry their error, against rational arithmetic and many digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.rounding import (
    TINY,
    UNIT,
    Rounded,
    RoundedArray,
    adjoint,
    binned,
    dot,
    entropy,
    exact,
    exp,
    gamma,
    joined,
    largest,
    largest_of,
    least_eigenvalue,
    log,
    log_sum_exp,
    maximum,
    product,
    row_norms,
    square,
    summed,
    total,
)

DIGITS = 60


def number(x: Any) -> Any:
    """A fraction or float to `DIGITS` digits."""
    return mpmath.mpf(x.numerator) / x.denominator if isinstance(x, Fraction) else mpmath.mpf(x)


def encloses(found: Any, truth: Any) -> bool:
    """Whether every entry of an array ``truth`` of exact numbers lies within its error; one that is not finite claims
    nothing. A true number is taken as far inside as it is computed with an error itself."""
    found = found if isinstance(found, RoundedArray) else RoundedArray(float(found), found.allowance)
    with mpmath.workdps(DIGITS):
        for value, error, x in zip(found.value.ravel(), found.errors.ravel(), np.ravel(np.asarray(truth, object))):
            if not (math.isfinite(value) and math.isfinite(error)):
                continue
            if abs(number(x) - mpmath.mpf(value)) > mpmath.mpf(error) * (1 + mpmath.mpf(10) ** -9):
                return False
    return True


def uncertain(rng: np.random.Generator, shape: tuple[int, ...], reach: float) -> tuple[RoundedArray, Any]:
    """Numbers of many scales with errors, a few of them exact and a few 0, and one choice of what they may be."""
    value = rng.normal(size=shape) * 10.0 ** rng.uniform(-reach, reach, size=shape)
    value = np.where(rng.random(shape) < 0.2, np.round(value), value)
    error = np.abs(value) * 10.0 ** rng.uniform(-17, -1, size=shape) * (rng.random(shape) < 0.7)
    share = rng.choice([-1, 0, 1], size=shape)
    truth = np.array(
        [Fraction(v) + int(k) * Fraction(e) for v, k, e in zip(value.ravel(), share.ravel(), error.ravel())], object
    ).reshape(shape)
    return RoundedArray(value, error), truth


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "max": maximum,
}
EXACTLY: dict[str, Callable[[Any, Any], Any]] = {**OPERATIONS, "max": np.maximum}


@settings(deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from([0.0, 3.0, 150.0, 300.0]),
    st.lists(st.sampled_from([*OPERATIONS]), min_size=1, max_size=6),
)
def test_arithmetic_encloses_what_is_exact(seed: int, reach: float, names: list[str]) -> None:
    rng = np.random.default_rng(seed)
    found, truth = uncertain(rng, (12,), reach)
    with np.errstate(all="ignore"):
        for name in names:
            other, of_other = uncertain(rng, found.shape, reach)
            if name == "/":
                keep = np.array([x != 0 for x in of_other])
                found, truth, other, of_other = found[keep], truth[keep], other[keep], of_other[keep]
            found, truth = OPERATIONS[name](found, other), EXACTLY[name](truth, of_other)
            assert encloses(found, truth)
        assert encloses(summed(found), truth.sum() if len(truth) else 0)


def test_a_number_and_an_array_carry_their_errors_from_either_side() -> None:
    x, array = Rounded(2.0, 0.5), np.array([1.0, 2.0])
    for found in (x * array, array * x, exact(array) * x, x * exact(array)):
        assert isinstance(found, RoundedArray)
        np.testing.assert_allclose(found.errors, [0.5, 1.0])
    for scalar in (np.float64(3.0) * x, x * 3, 3.0 * x, x + x + x, 1 - x, np.float64(1.0) / x):
        assert isinstance(scalar, Rounded)
        assert scalar.allowance >= 0.1
    assert np.isfinite(x)
    assert math.sqrt(x) == math.sqrt(2.0)


def test_what_is_exactly_0_stays_so() -> None:
    x = RoundedArray([-1.0, 1.0, 0.0], [0.5, 0.0, 0.0])
    hinge = maximum(x, 0.0)
    assert hinge.errors.tolist() == [0.0, 0.0, 0.0]
    assert (hinge * RoundedArray(np.ones(3), 1.0)).errors.tolist()[0] == 0.0
    assert maximum(RoundedArray(-1.0, 1.5), 0.0).errors == 1.5


@settings(deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([0.0, 5.0, 140.0]), st.sampled_from(["", "csr", "csc"]), st.booleans())
def test_products_with_data_enclose_the_exact_ones(seed: int, reach: float, sparse: str, wide: bool) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    data = rng.normal(size=(n, m)) * 10.0 ** rng.uniform(-reach, reach, size=(n, m)) * (rng.random((n, m)) < 0.7)
    matrix = sp.csr_array(data).asformat(sparse) if sparse else data
    rational = np.array([Fraction(a) for a in data.ravel()], object).reshape(n, m)
    x, of_x = uncertain(rng, (m, 3) if wide else (m,), reach)
    y, of_y = uncertain(rng, (n, 3) if wide else (n,), reach)
    with np.errstate(all="ignore"):
        assert encloses(product(matrix, x), rational @ of_x)
        assert encloses(product(matrix, x, row_norms(matrix)), rational @ of_x)
        assert encloses(adjoint(matrix, y), rational.T @ of_y)
        assert encloses(adjoint(matrix, y, row_norms(matrix.T)), rational.T @ of_y)
        assert encloses(binned(RoundedArray(data[:, 0], 0.0), np.zeros(n, np.intp), 2)[:1], [rational[:, 0].sum()])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e-160, 1.0, 1e150, 1e200])
def test_no_row_or_column_is_longer_than_its_norm(size: float, sparse: bool) -> None:
    data = size * np.random.default_rng(3).normal(size=(4, 5))
    data[1] = 0.0
    matrix = sp.csr_array(data) if sparse else data
    for rows, norms in ((data, row_norms(matrix)), (data.T, row_norms(matrix.T))):
        for row, found in zip(rows.tolist(), norms.tolist(), strict=True):
            square = sum(Fraction(x) ** 2 for x in row)
            assert found == math.inf or Fraction(found) ** 2 >= square
            assert size != 1.0 or found <= 1.001 * math.sqrt(square) + 1e-100


def test_the_largest_of_groups_moves_with_any_of_its_entries() -> None:
    x, start = RoundedArray([1.0, 0.9, 3.0], [0.0, 0.5, 0.25]), np.array([0, 2])
    found = largest_of(x, start)
    assert (found.value.tolist(), found.errors.tolist()) == ([1.0, 3.0], [0.5, 0.25])
    assert largest_of(x.value, start).tolist() == [1.0, 3.0]


def test_joined_parts_keep_their_errors() -> None:
    found = joined(RoundedArray([[1.0], [2.0]], 0.5), np.array([3.0]))
    assert (found.value.tolist(), found.errors.tolist()) == ([1.0, 2.0, 3.0], [0.5, 0.5, 0.0])
    assert joined(np.ones((1, 2)), np.zeros(1)).tolist() == [1.0, 1.0, 0.0]


def test_an_adjoint_over_many_rows_is_hardly_rounded_more() -> None:
    rng = np.random.default_rng(0)
    data, x = (
        rng.integers(-(2**26), 2**26, size=(5000, 2)).astype(float),
        rng.integers(-(2**26), 2**26, size=5000).astype(float),
    )
    truth = [sum(int(a) * int(b) for a, b in zip(column, x)) for column in data.T]
    for matrix in (data, sp.csr_array(data), sp.csc_array(data)):
        found = adjoint(matrix, exact(x))
        assert encloses(found, np.array(list(map(Fraction, truth)), object))
        assert (found.errors <= gamma(200) * (np.abs(data).T @ np.abs(x))).all()


@settings(deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([0.0, 3.0, 100.0]), st.sampled_from(["", "left", "right"]))
def test_products_of_uncertain_matrices_enclose_the_exact_ones(seed: int, reach: float, sparse: str) -> None:
    rng = np.random.default_rng(seed)
    n, m, k = rng.integers(1, 6, size=3).tolist()
    (x, of_x), (y, of_y) = uncertain(rng, (n, m), reach), uncertain(rng, (m, k), reach)
    data, column = (rng.normal(size=size) * (rng.random(size) < 0.6) for size in ((m, m), m))
    fractions = [np.array([Fraction(a) for a in each.ravel()], object).reshape(each.shape) for each in (data, column)]
    with np.errstate(all="ignore"):
        assert encloses(x @ y, of_x @ of_y)
        assert encloses(x @ (sp.csr_array(data) if sparse == "right" else data), of_x @ fractions[0])
        assert encloses((sp.csr_array(data) if sparse == "left" else data) @ y, fractions[0] @ of_y)
        assert encloses(x @ column, of_x @ fractions[1])


@pytest.mark.parametrize("seed", range(20))
def test_the_least_eigenvalue_is_proved(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, rank = int(rng.integers(1, 9)), int(rng.integers(0, 5))
    root = rng.normal(size=(n, rank)) * 10.0 ** rng.integers(-8, 8)
    matrix = root @ root.T - (seed % 2) * rng.normal() * np.eye(n)
    matrix = np.tril(matrix) + np.tril(matrix, -1).T
    bound = least_eigenvalue(exact(matrix))
    with mpmath.workdps(DIGITS):
        truth = min(mpmath.eigsy(mpmath.matrix(matrix.tolist()), eigvals_only=True))
    assert bound <= truth
    assert float(truth) - bound <= 1e3 * n**2 * UNIT * max(np.abs(matrix).max(), 1e-300)
    assert bound - 0.5 * (1 + 1e-6) <= least_eigenvalue(RoundedArray(matrix, 0.5 / n)) <= bound - 0.5 * (1 - 1e-9)


def test_an_eigenvalue_of_what_is_unknown_is_unknown() -> None:
    for matrix in (np.full((2, 2), np.nan), np.full((2, 2), 1e308)):
        assert least_eigenvalue(exact(matrix)) == -math.inf
    assert least_eigenvalue(RoundedArray(np.eye(2), np.inf)) == -math.inf
    assert least_eigenvalue(exact(np.zeros((3, 3)))) == 0.0
    assert -1e-310 <= least_eigenvalue(exact(np.full((3, 3), 5e-324))) <= 0.0


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "exp": (exp, mpmath.exp),
    "log": (log, mpmath.log),
    "entropy": (entropy, lambda x: -x * mpmath.log(x) if x else mpmath.mpf(0)),
}


@settings(deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([*FUNCTIONS]), st.sampled_from([0.0, 2.0, 3.0, 290.0]))
def test_functions_enclose_the_exact_ones(seed: int, name: str, reach: float) -> None:
    rng = np.random.default_rng(seed)
    x, truth = uncertain(rng, (12,), min(reach, 3.0) if name == "exp" else reach)
    if name != "exp":
        x, truth = RoundedArray(np.abs(x.value), x.error), np.abs(truth)
    function, exactly = FUNCTIONS[name]
    with np.errstate(all="ignore"), mpmath.workdps(DIGITS):
        keep = np.array([t > 0 or name != "log" for t in truth])
        assert encloses(function(x[keep]), [exactly(number(t)) for t in truth[keep]])


@settings(deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([0.0, 2.0, 3.0]))
def test_a_log_sum_encloses_the_exact_one(seed: int, reach: float) -> None:
    rng = np.random.default_rng(seed)
    x, truth = uncertain(rng, (4, 3), reach)
    with np.errstate(all="ignore"), mpmath.workdps(DIGITS):
        assert encloses(
            log_sum_exp(x, axis=1), [mpmath.log(mpmath.fsum(mpmath.exp(number(t)) for t in row)) for row in truth]
        )
        assert encloses(largest(x, axis=1), truth.max(axis=1))


def test_on_plain_arrays_every_function_is_numpys() -> None:
    rng = np.random.default_rng(1)
    a, x = rng.random((3, 4)), rng.random(4)
    assert np.array_equal(product(a, x), a @ x)
    assert np.array_equal(adjoint(a, x[:3]), a.T @ x[:3])
    assert np.array_equal(maximum(x, 0.5), np.maximum(x, 0.5))
    assert np.array_equal(largest(a, 1), a.max(axis=1))
    np.testing.assert_allclose(log_sum_exp(a, 1), np.log(np.exp(a).sum(axis=1)))
    np.testing.assert_allclose(entropy(np.array([0.0, 0.5, 1.0])), [0.0, 0.5 * math.log(2), 0.0])


@pytest.mark.parametrize(
    "function", [exp, log, entropy, lambda x: log_sum_exp(x[None], 1), lambda x: summed(x), square]
)
def test_an_unknown_number_gives_an_unknown_one(function: Callable[[Any], Any]) -> None:
    with np.errstate(all="ignore"):
        found = function(RoundedArray([1.0], [np.inf]))
    error = found.allowance if isinstance(found, Rounded) else found.errors[0]
    assert not math.isfinite(error)


def test_a_total_of_rounded_numbers_carries_their_errors() -> None:
    assert total([Rounded(1.0, 0.25), Rounded(2.0, 0.5)]).allowance >= 0.75
    assert dot(exact(np.ones(3)), RoundedArray(np.ones(3), 0.5)).allowance >= 1.5
    assert square(RoundedArray([1.0], [0.5])).upper >= 2.25
    assert (exact([1e-200]) * 1e-200).errors[0] >= TINY
