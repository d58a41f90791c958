"""The SDP of invariant alternatives: its bounds against every labelling, and against fractions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from convexstruct.arrays import Labels, Matrix, Vector
from convexstruct.families.unsupervised_margin import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.label_exchanges import gram, polytope
from convexstruct.families.unsupervised_margin.permutation_invariant import PermutationInvariantMargin
from convexstruct.families.unsupervised_margin.planted import relations
from convexstruct.tolerances import HIGH, ROUNDING


def problem(seed: int, kappa: int = 2, pairs: str = "chain") -> UnsupervisedMargin:
    """Four rows of features in quarters, so that all products are exact."""
    rows = np.random.default_rng(seed).integers(-6, 7, size=(4, 2)) / 4.0
    return UnsupervisedMargin.read([rows], kappa, beta=0.25, label_balance=0.3, pair_balance=0.9, pairs=pairs)


PROBLEMS = {
    "a chain": problem(0), "three labels": problem(2, 3),
    "points": problem(3, pairs="none"), "three labels of points": problem(4, 3, "none"),
}  # fmt: skip


def vectors(posed: UnsupervisedMargin, labels: Labels) -> list[list[Fraction]]:
    """What each entry of x multiplies, by the definition: features (x) label, then transitions; exact."""
    k, features = posed.n_labels, posed.features
    assert features is not None
    c = [[Fraction(int(y == u)) for u in range(k)] for y in labels]
    g = [[e - (1 - e) / (k - 1) for e in row] for row in c]
    none = [Fraction(0)] * k * k

    def table(one: list[Fraction], other: list[Fraction]) -> list[Fraction]:
        return [a * b for a in one for b in other]

    found = []
    for i, row in enumerate(features.tolist()):
        each = [sum(parts, Fraction(0)) for parts in zip(none, *(
            table(c[u], g[i]) if v == i else table(g[i], c[v]) for u, v in posed.pairs.tolist() if i in (u, v)
        ))]  # fmt: skip
        found.append([Fraction(x) * e for x in row for e in g[i]] + each)
    zero = [Fraction(0)] * (features.shape[1] * k)
    return found + [zero + [-e for e in table(g[u], g[v])] for u, v in posed.pairs.tolist()]


def exact_gram(posed: UnsupervisedMargin, labels: Labels) -> list[list[Fraction]]:
    every = vectors(posed, labels)
    return [[sum((a * b for a, b in zip(one, other)), Fraction(0)) for other in every] for one in every]


def balanced(posed: UnsupervisedMargin) -> Iterator[Labels]:
    for y in itertools.product(range(posed.n_labels), repeat=posed.n_rows):
        m, n = relations(posed, y)
        if max(posed.residuals({"M": m, "N": n}).values()) <= ROUNDING:
            yield np.array(y)


def corners(posed: UnsupervisedMargin) -> list[Vector]:
    """The corners of the polytope, where it is that of forests: every choice of the rows that are exchanged."""
    every = np.array(list(itertools.product((0.0, 1.0), repeat=posed.n_rows)))
    return [np.concatenate((x, x[posed.current] * x[posed.previous])) for x in every]


def gained(gram: list[list[Fraction]], x: Vector, n_rows: int, beta: float) -> Fraction:
    """a'x - x'Gx / (2 beta), exactly."""
    at = [Fraction(each) for each in x.tolist()]
    square = sum((a * b * e for a, row in zip(at, gram) for b, e in zip(at, row)), Fraction(0))
    return sum(at[:n_rows], Fraction(0)) - square / (2 * Fraction(beta))


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_polytope_has_these_corners_and_the_gram_matrix_is_that_of_its_vectors(name: str) -> None:
    posed = PROBLEMS[name]
    a, r = polytope(posed)
    assert all((a @ x <= r).all() for x in corners(posed))
    for y in itertools.islice(balanced(posed), 6):
        m, n = relations(posed, y)
        wanted = [[float(e) for e in row] for row in exact_gram(posed, y)]
        np.testing.assert_allclose(gram(posed, m, n), wanted, atol=HIGH.feasibility)


@pytest.mark.parametrize(("name", "seed"), [(name, at % 2) for at, name in enumerate(PROBLEMS)])
def test_any_x_and_z_bound_the_maximum_from_above_and_any_x_and_w_the_least_maximum_from_below(
    name: str, seed: int
) -> None:
    posed, rng = PROBLEMS[name], np.random.default_rng(seed)
    at, size = PermutationInvariantMargin(posed), 0.1 ** rng.integers(0, 3)
    p1, p2 = posed.n_rows, posed.n_pairs
    witness = {"x": rng.random(at.size), "W": rng.normal(size=(at.size,) * 2), "u": size * rng.normal(size=p1)}
    witness |= {"P": size * rng.normal(size=(p1, p1)), "W_pair": rng.normal(size=(p2, p2)), "v": rng.normal(size=p2)}
    some = ({"x": witness["x"]}, witness)
    for y in itertools.islice(balanced(posed), 0, None, 3):
        m, n = relations(posed, y)
        g = exact_gram(posed, y)
        maximum = max(gained(g, x, p1, posed.beta) for x in corners(posed))
        point = {"M": m, "N": n, "x": rng.normal(size=at.size), "z": size * rng.random(2 * p1 + 4 * p2)}
        assert Fraction(at.primal(point).upper) >= maximum
        for each in some:
            inside = at._inside_polytope(each["x"])
            assert Fraction(at.dual(each).lower) <= gained(g, inside, p1, posed.beta)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_reduced_sdp_is_this_one_with_uniform_x_in_place_of_the_maximum(name: str) -> None:
    """What the collapse is, and how the multiclass SDP of two labels differs from (3): any multipliers of the reduced
    SDP, beside lambda = 1 - 1/kappa and delta = lambda^2, prove here what they prove there."""
    posed = PROBLEMS[name]
    share, rng = 1.0 - 1.0 / posed.n_labels, np.random.default_rng(1)
    x = np.concatenate((np.full(posed.n_rows, share), np.full(posed.n_pairs, share**2)))
    witness: dict[str, Matrix] = {"u": rng.normal(size=posed.n_rows), "W_pair": rng.normal(size=(posed.n_pairs,) * 2)}
    witness["P"] = rng.normal(size=(posed.n_rows,) * 2)
    found, known = PermutationInvariantMargin(posed).dual({"x": x, **witness}), posed.dual(witness)
    assert float(found) == pytest.approx(float(known), rel=HIGH.gap)
    point = posed.trivial()[0]
    value = posed.n_rows * share - x @ gram(posed, point["M"], point["N"]) @ x / (2 * posed.beta)
    assert value == pytest.approx(float(posed.primal(point)), rel=HIGH.gap)
