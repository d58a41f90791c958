r"""Theorem 1's maximum at any (M, N, C, D), with both bounds, as each step of scheme (12) needs it.

    omega = p1 + (max over mu, nu of <mu, K C - beta C> + <1'nu, 1'D> - <mu, K mu>/2 - |1'nu|^2/2
                  - <K, M>/2 - <E, N>/2) / beta

over marginals mu (p1, kappa), nu (p2, kappa^2) that agree at both rows of each pair.

**Lower bound** by mu and nu: they are read as conditionals, nu_k(u', u) = mu_previous(u') T_k(u | u'), from each tree's
root on, so that any numbers give the marginals of a distribution; every entry is computed by products and sums of
positive numbers, so that its error is relative.

**Upper bound** by any mu, nu and b (p2, kappa), since a concave function lies below its tangent at (mu, nu), and the
maximum of that over the marginals of forests is bounded by its dual (linear programming): with t = 1'D - 1'nu,

    a_k(u) = max_u' (t(u', u) - b_k(u')),      theta_i = max_u [K (C - mu) - beta C]_iu + the a and b of its pairs,
    omega <= p1 + (e'theta + <mu, K mu>/2 + |1'nu|^2/2 - <K, M>/2 - <E, N>/2) / beta.

Problems of this project are minimisations, so the primal here is the dual of this maximum, a minimum over (mu, nu, b).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from convexstruct.arrays import Matrix, Point
from convexstruct.core.certificates import Unconstrained
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.marginals.triplets import picks
from convexstruct.rounding import TINY, Rounded, RoundedArray, exact, gamma, largest, square, summed
from convexstruct.validation.arguments import mapping
from convexstruct.validation.arrays import real

#: Marginals of this size belong to no distribution, and sums of larger ones overflow.
LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class RelaxedLoss(Unconstrained):
    """omega(M, N, C, D) of Theorem 1. given : {"M": (p1, p1), "N": (p2, p2), "C": (p1, kappa), "D": (p2, kappa^2)}.

    **Point** {"mu": (p1, kappa), "nu": (p2, kappa^2), "b": (p2, kappa)}; **dual witness** {"mu", "nu"}. Every finite
    one gives a bound.
    """

    problem: UnsupervisedMargin
    given: Point
    family: ClassVar[str] = "unsupervised_margin"

    @property
    def trivial_value(self) -> float:
        """p1, the loss of w = 0."""
        return float(self.problem.n_rows)

    def trivial(self) -> tuple[Point, Point]:
        point = {name: np.zeros(shape) for name, shape in self._shapes.items()}
        return point, {name: point[name] for name in ("mu", "nu")}

    @property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        p1, p2, kappa = self.problem.n_rows, self.problem.n_pairs, self.problem.n_labels
        return {"mu": (p1, kappa), "nu": (p2, kappa**2), "b": (p2, kappa)}

    def as_point(self, value: Any) -> Point:
        """Read {"mu", "nu", "b"}."""
        read = mapping("point", value, self._shapes)
        return {name: real(name, read[name], shape, finite=False, keep=False) for name, shape in self._shapes.items()}

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """Empty: every witness is read as conditionals."""
        return {}

    def primal(self, point: Point) -> Rounded:
        """The upper bound with its allowance; inf where the point is not finite."""
        problem, kappa = self.problem, self.problem.n_labels
        if not all(np.isfinite(x).all() for x in point.values()):
            return Rounded(np.inf)
        mu, nu, b, c = *(exact(point[name]) for name in ("mu", "nu", "b")), self.given["C"]
        table = exact(self.given["D"]).sum(axis=0) - nu.sum(axis=0)
        a = largest(table.reshape(kappa, kappa) - b[:, :, None], axis=1)
        scores = problem.rounded_gram @ (c - mu) - problem.beta * exact(c)
        for rows, part in ((problem.current, a), (problem.previous, b)):
            scores = scores + picks(rows, problem.n_rows).T @ part
        return self._value(summed(largest(scores, axis=1)) + self._squares(mu, nu))

    def dual(self, dual_point: Point) -> Rounded:
        """The lower bound with its allowance; -inf where the witness is not finite, or so large that sums overflow."""
        shapes = {name: self._shapes[name] for name in ("mu", "nu")}
        read = mapping("dual_point", dual_point, shapes)
        mu, nu = (real(name, read[name], shape, finite=False, keep=False) for name, shape in shapes.items())
        if not max(float(np.abs(each).max(initial=0.0)) for each in (mu, nu)) < LARGEST:
            return Rounded(-np.inf)
        problem, c = self.problem, self.given["C"]
        mu, nu, depth = self.distribution(mu, nu)
        lost = depth * problem.n_labels * TINY
        of_rows, of_pairs = (RoundedArray(each, gamma(depth) * each + lost) for each in (mu, nu))
        linear = summed(of_rows * (problem.rounded_gram @ c - problem.beta * exact(c)))
        linear = linear + summed(exact(self.given["D"]).sum(axis=0) * of_pairs.sum(axis=0))
        return self._value(linear - self._squares(of_rows, of_pairs))

    def distribution(self, mu: Matrix, nu: Matrix) -> tuple[Matrix, Matrix, int]:
        """Marginals of a distribution near (mu, nu), and the number of roundings in an entry."""
        problem, kappa = self.problem, self.problem.n_labels
        mu, nu = _shares(mu), np.maximum(nu, 0.0).reshape(-1, kappa, kappa)
        conditional = _shares(nu.reshape(-1, kappa)).reshape(nu.shape)
        known, todo, depth = ~np.isin(np.arange(problem.n_rows), problem.current), np.arange(problem.n_pairs), 0
        while len(todo):  # generation by generation
            here = todo[known[problem.previous[todo]]]
            nu[here] = mu[problem.previous[here]][:, :, None] * conditional[here]
            mu[problem.current[here]] = nu[here].sum(axis=1)
            known[problem.current[here]] = True
            todo, depth = todo[~known[problem.current[todo]]], depth + 1
        return mu, nu.reshape(-1, kappa**2), (depth + 1) * (2 * kappa + 4)

    def _squares(self, mu: RoundedArray, nu: RoundedArray) -> Rounded:
        """<mu, K mu>/2 + |1'nu|^2/2."""
        found: Rounded = 0.5 * (summed(mu * (self.problem.rounded_gram @ mu)) + square(nu.sum(axis=0)))
        return found

    def _value(self, maximum: Rounded) -> Rounded:
        """p1 + (maximum - <K, M>/2 - <E, N>/2) / beta."""
        problem, m, n = self.problem, self.given["M"], self.given["N"]
        taken = summed(problem.rounded_gram * m) + summed(n)
        value: Rounded = problem.n_rows + (maximum - 0.5 * taken) / problem.beta
        return value


def _shares(rows: Matrix) -> Matrix:
    """Rows of positive parts divided by their sums; uniform where nothing is positive."""
    kept = np.maximum(rows, 0.0)
    total: Matrix = kept.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, kept / np.where(total > 0.0, total, 1.0), 1.0 / rows.shape[1])
