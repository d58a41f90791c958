"""Proposition 1 at a given M: its bounds against the objective in fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from convexstruct.arrays import Matrix, Vector
from convexstruct.core.certificates import certify
from convexstruct.families.unsupervised_margin import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.fixed_relation import FixedRelation

ROWS, BETA = 4, 0.75


def instance(seed: int, semidefinite: bool) -> FixedRelation:
    """Features in quarters and M in eighths: all products are exact. vv' with a diagonal of 1 is semidefinite."""
    rng = np.random.default_rng(seed)
    x, v = rng.integers(-6, 7, size=(ROWS, 2)) / 4.0, rng.integers(-4, 5, size=ROWS) / 4.0
    m = np.outer(v, v) if semidefinite else np.tril(rng.integers(-8, 9, size=(ROWS, ROWS)), -1) / 8.0
    m = m if semidefinite else m + m.T
    np.fill_diagonal(m, 1.0 if semidefinite else 0.0)
    return FixedRelation(UnsupervisedMargin.multiclass(x, 2, BETA, 0.5), m)


def value(of: FixedRelation, lam: Vector) -> Fraction:
    """The objective at lambda, by its definition."""
    features = of.problem.features
    assert features is not None
    x, m = ([[Fraction(e) for e in row] for row in table.tolist()] for table in (features, of.given))
    at = [Fraction(each) for each in lam.tolist()]
    half = Fraction(of.problem.beta) / 2
    q = [
        [sum((a * b for a, b in zip(x[i], x[j])), Fraction(0)) * m[i][j] / half for j in range(ROWS)]
        for i in range(ROWS)
    ]
    image = [sum((a * b for a, b in zip(row, at)), Fraction(0)) for row in q]
    return sum((a * b for a, b in zip(at, image)), Fraction(0)) / 2 + sum(max(Fraction(0), 1 - b) for b in image)


@pytest.mark.parametrize("semidefinite", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_any_x_is_below_the_objective_everywhere_and_the_upper_bound_is_the_objective(
    seed: int, semidefinite: bool
) -> None:
    of, rng = instance(seed, semidefinite), np.random.default_rng([1, seed])
    everywhere = [np.array(each) for each in itertools.product((0.0, 0.5, 1.0), repeat=ROWS)]
    least = min(value(of, lam) for lam in everywhere)
    corners = [np.array(each) for each in itertools.product((0.0, 1.0), repeat=ROWS)]
    for x in (*corners, *everywhere[::7], *rng.normal(size=(8, ROWS))):
        assert Fraction(of.dual({"x": x}).lower) <= least
    for lam in everywhere[::5]:
        bound = of.primal({"lambda": lam})
        assert Fraction(bound.lower) <= value(of, lam) <= Fraction(bound.upper)


def test_a_point_outside_is_moved_inside_and_what_is_not_finite_has_no_bound() -> None:
    of = instance(0, semidefinite=True)
    outside: Matrix = np.array([-1.0, 2.0, 0.5, 0.0])
    assert of.residuals({"lambda": outside}) == {"lambda outside [0, 1]": 1.0}
    assert of.primal({"lambda": outside}) == of.primal({"lambda": np.clip(outside, 0.0, 1.0)})
    assert of.primal({"lambda": np.full(ROWS, np.nan)}).upper == np.inf
    assert of.dual({"x": np.full(ROWS, np.nan)}).lower == -np.inf
    certificate = certify(of, *of.trivial())
    assert certificate.claimed == pytest.approx(ROWS)
    assert certificate.lower_bound == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match=r"dual_point\['x'\] has shape"):
        of.dual({"x": np.zeros(2)})
