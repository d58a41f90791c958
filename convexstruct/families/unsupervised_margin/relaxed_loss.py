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
from convexstruct.rounding import UNIT, Rounded, gamma, summed
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
        problem, mu, nu, b = self.problem, point["mu"], point["nu"], point["b"]
        if not all(np.isfinite(x).all() for x in point.values()):
            return Rounded(np.inf)
        c, k, kappa = self.given["C"], problem.gram, problem.n_labels
        table = self.given["D"].sum(axis=0) - nu.sum(axis=0)
        a = (table.reshape(kappa, kappa) - b[:, :, None]).max(axis=1, initial=-np.inf)
        scores, sizes = k @ (c - mu) - problem.beta * c, np.abs(k) @ (np.abs(c) + np.abs(mu))
        sizes += problem.beta * np.abs(c)
        spread = np.abs(self.given["D"]).sum(axis=0) + np.abs(nu).sum(axis=0)
        for rows, part in ((problem.current, a), (problem.previous, b)):
            np.add.at(scores, rows, part)
            np.add.at(sizes, rows, np.abs(part) + (float(spread.max()) if len(b) else 0.0))
        depth = problem.n_rows + problem.n_pairs + 4 * kappa + 8
        doubt = problem.kernel_error * float((np.abs(c) + np.abs(mu)).max())
        theta = summed(scores.max(axis=1), gamma(depth) * float(sizes.max(axis=1).sum()) + doubt)
        square, error = self.squares(mu, nu)
        return self._value(float(theta) + square, theta.allowance + error)

    def dual(self, dual_point: Point) -> Rounded:
        """The lower bound with its allowance; -inf where the witness is not finite, or so large that sums overflow."""
        shapes = {name: self._shapes[name] for name in ("mu", "nu")}
        read = mapping("dual_point", dual_point, shapes)
        mu, nu = (real(name, read[name], shape, finite=False, keep=False) for name, shape in shapes.items())
        if not max(float(np.abs(each).max(initial=0.0)) for each in (mu, nu)) < LARGEST:
            return Rounded(-np.inf)
        problem, c = self.problem, self.given["C"]
        mu, nu, depth = self.distribution(mu, nu)
        costs = problem.gram @ c - problem.beta * c
        size = float(np.sum(mu * (np.abs(problem.gram) @ np.abs(c) + problem.beta * np.abs(c))))
        tables, together = self.given["D"].sum(axis=0), nu.sum(axis=0)
        size += float(np.abs(self.given["D"]).sum(axis=0) @ together)
        square, error = self.squares(mu, nu)
        sizes = self.squares(mu, nu, np.abs)[0]
        operations = depth + 2 * (problem.n_rows + problem.n_pairs) + 8
        value = float(np.sum(mu * costs)) + float(tables @ together) - square
        doubt = problem.kernel_error * float(np.abs(c).max())
        return self._value(value, error + gamma(operations) * (size + 2.0 * sizes) + doubt)

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

    def squares(self, mu: Matrix, nu: Matrix, of: Any = np.asarray) -> tuple[float, float]:
        """<mu, K mu>/2 + |1'nu|^2/2, with ``of`` applied to K, and a bound on its error."""
        gram = self.problem.gram
        value, spread = float(np.sum(mu * (of(gram) @ mu))), nu.sum(axis=0)
        size = float(np.sum(np.abs(mu) * (np.abs(gram) @ np.abs(mu)))) + float((np.abs(nu).sum(axis=0) ** 2).sum())
        doubt = self.problem.kernel_error * float(np.square(np.abs(mu).max()))
        operations = 2 * (self.problem.n_rows + self.problem.n_pairs) + 4 * self.problem.n_labels**2
        return 0.5 * (value + float(spread @ spread)), gamma(operations) * size + doubt

    def _value(self, maximum: float, error: float) -> Rounded:
        """p1 + (maximum - <K, M>/2 - <E, N>/2) / beta."""
        problem, m, n = self.problem, self.given["M"], self.given["N"]
        taken = [summed(problem.gram * m, UNIT * float(np.abs(problem.gram * m).sum())), summed(n)]
        left = maximum - 0.5 * (float(taken[0]) + float(taken[1]))
        value = problem.n_rows + left / problem.beta
        error += sum(each.allowance for each in taken) + problem.kernel_error * float(np.abs(m).max())
        size = abs(maximum) + sum(abs(float(each)) for each in taken)
        return Rounded.of(value, error / problem.beta, 4.0 * UNIT * (size / problem.beta + abs(value)))


def _shares(rows: Matrix) -> Matrix:
    """Rows of positive parts divided by their sums; uniform where nothing is positive."""
    kept = np.maximum(rows, 0.0)
    total: Matrix = kept.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, kept / np.where(total > 0.0, total, 1.0), 1.0 / rows.shape[1])
