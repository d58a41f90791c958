r"""An SDP that keeps Theorem 1's maximum, over keeping or exchanging labels, and needs no C or D (ours, after (3)).

The maximum is restricted to these marginals mu and nu: row i keeps its label, whose indicator is c_i, with probability
1 - lambda_i; with probability lambda_i it is exchanged for another one, each equally likely, c'_i = (e - c_i) / (kappa
- 1). Both rows of pair k are exchanged with probability delta_k. mu and nu agree at both rows of each pair for every
x = (lambda, delta) in the marginal polytope of two-valued forests

    0 <= lambda <= 1,   delta_k >= 0,   delta_k <= lambda_c(k),   delta_k <= lambda_p(k),
    lambda_c(k) + lambda_p(k) - delta_k <= 1                                                          A x <= r

With g = c - c' in R^kappa, and a (x) b the table of the products of their entries, they give C - mu = diag(lambda) g
and, for pair k,

    (D - nu)_k = lambda_c(k) g_c(k) (x) c_p(k) + lambda_p(k) c_c(k) (x) g_p(k) - delta_k g_c(k) (x) g_p(k).

All inner products of these vectors are linear in M and N (products of an entry of M at the current rows and one at the
previous rows are entries of N). So with G(M, N), the Gram matrix of the coefficients of lambda and delta, and
a'x = e'lambda,

    omega(y) >= omega(M, N) = max over A x <= r of  a'x - x'G(M, N)x / (2 beta),

with equality if kappa = 2, where an exchanged label is the other one and these are all alternatives. **The SDP** is its
minimum over the (M, N) of the reduced SDP with G(M, N) semidefinite. Without pairs and with kappa = 2 it is the
paper's (3), where M is written 2 M - 1 and beta is beta/2. At lambda = 1 - 1/kappa and delta = lambda^2, mu and nu
are uniform and the function that is maximised over x has the value of the reduced SDP's objective: the collapsed
relaxation takes this one value in place of the maximum.

**Upper bound** at (M, N), for any x and any z >= 0: concave functions lie below their tangents, so

    omega(M, N) <= f(M, N; x, z) = x'Gx / (2 beta) + r'z + sum of the positive entries of a - Gx / beta - A'z.

Without pairs the best z leaves Proposition 1's lambda'(K o M)lambda / (2 beta) + e'xi. With x ``fixed`` the minimum of
f over (M, N) and z is a problem of its own, the semidefinite half of section 5's alternation.

**Lower bound** from y with A y <= r and W: for all (M, N), if W - yy' is semidefinite and G too,

    omega(M, N) >= a'y - <W, G(M, N)> / (2 beta),

where <W, G> is linear in (M, N), and a witness of the reduced SDP bounds it from above (`.rounding`). With x
fixed the same holds of f for W = xy' + yx' - xx', and G need not be semidefinite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Matrix, Point, Vector
from convexstruct.families.unsupervised_margin.eigenvalue import least_eigenvalue
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.rounding import largest
from convexstruct.rounding import OUTWARD, UNIT, Rounded, gamma, summed, total
from convexstruct.validation.arguments import mapping
from convexstruct.validation.arrays import real


def polytope(problem: UnsupervisedMargin) -> tuple[sp.csr_array, Vector]:
    """A (2 p1 + 4 p2, p1 + p2) and r of A x <= r."""
    p1, p2 = problem.n_rows, problem.n_pairs
    each, pair, none = sp.eye_array(p1), sp.eye_array(p2), sp.csr_array((p1, p2))
    at, shape = (np.ones(p2), np.arange(p2)), (p2, p1)
    previous, current = (sp.coo_array((at[0], (at[1], rows)), shape) for rows in (problem.previous, problem.current))
    blocks = [
        [each, none], [-each, none], [sp.csr_array(shape), -pair], [-current, pair], [-previous, pair],
        [current + previous, -pair],
    ]  # fmt: skip
    r = np.concatenate([np.ones(p1), np.zeros(p1 + 3 * p2), np.ones(p2)])
    return sp.csr_array(sp.block_array(blocks)), r


@dataclass(frozen=True, eq=False)
class ExchangeMargin:
    """The SDP of exchanges. fixed (p1 + p2,) : x, where it is given; None where it is maximised over.

    **Point** {"M", "N", "x", "z"}, without x where it is fixed. **Dual witness** {"x", "W"} and the reduced SDP's: x is
    moved into the polytope, W lifted until W - xx' is semidefinite; a missing W is xx'.
    """

    problem: UnsupervisedMargin
    fixed: Vector | None = None
    family: ClassVar[str] = "unsupervised_margin"

    @property
    def size(self) -> int:
        """p1 + p2."""
        return self.problem.n_rows + self.problem.n_pairs

    @property
    def trivial_value(self) -> float:
        """p1, the loss of w = 0."""
        return float(self.problem.n_rows)

    def trivial(self) -> tuple[Point, Point]:
        point = {**self.problem.feasible.safe, "z": np.zeros(len(self._polytope[1]))}
        return (point if self.fixed is not None else {**point, "x": np.zeros(self.size)}), {"x": np.zeros(self.size)}

    # -- primal --------------------------------------------------------------------------------------------------------

    def as_point(self, value: Any) -> Point:
        """Read {"M": (p1, p1), "N": (p2, p2), "x": (p1 + p2,), "z": (2 p1 + 4 p2,)}."""
        shapes = {"z": self._polytope[1].shape} | ({"x": (self.size,)} if self.fixed is None else {})
        read = mapping("point", value, {"M", *shapes}, {"N"})
        matrices = self.problem.as_point({name: read[name] for name in "MN" if name in read})
        return {**matrices, **{name: real(name, read[name], shapes[name], finite=False, keep=False) for name in shapes}}

    def primal(self, point: Point) -> Rounded:
        """f, with an allowance up to f at a feasible point near it; inf where the point is not finite."""
        with np.errstate(all="ignore"):
            if not all(np.isfinite(x).all() for x in point.values()):
                return Rounded(np.inf)
            feasible = self.problem.feasible
            near = feasible.entrywise(point)
            x, z = point["x"] if self.fixed is None else self.fixed, np.maximum(point["z"], 0.0)
            value, t = self._tangent(near, x, z), max(feasible.share_inside(near), self._share(near))
            if not np.isfinite(t):
                return Rounded(np.inf)
            inside = self._tangent(feasible.safe, x, z)
            further = max(0.0, t * (inside.upper - value.lower)) * OUTWARD  # f is convex in (M, N)
            found = Rounded.of(float(value), value.allowance, further)
            return found if np.isfinite(found) else Rounded(np.inf)

    def repair(self, point: Point) -> Point:
        """(M, N) repaired for the reduced SDP, then moved inside until G is semidefinite; z at least 0."""
        near = self.problem.repair(point)
        t, safe = min(1.0, self._share(near)), self.problem.feasible.safe
        near = {name: (1.0 - t) * near[name] + t * safe[name] for name in "MN"}
        return {**point, **self.problem.feasible.entrywise(near), "z": np.maximum(point["z"], 0.0)}

    def residuals(self, point: Point) -> Mapping[str, float]:
        """Those of the reduced SDP; the violation of G semidefinite relative to G's largest row sum, and of z >= 0."""
        found = {**self.problem.residuals(point), "z below 0": max(0.0, -float(point["z"].min()))}
        if self.fixed is None and all(np.isfinite(x).all() for x in point.values()):
            g = self.gram(self.problem.feasible.entrywise(point))
            size = float(np.abs(g).sum(axis=1).max()) or 1.0
            found["G not semidefinite"] = max(0.0, -float(np.linalg.eigvalsh(g)[0]) / size)
        return found

    def gram(self, point: Point, sign: float = -1.0) -> Matrix:
        """G (p1 + p2, p1 + p2) at M and N; with ``sign`` 1 the sums of the magnitudes of its terms."""
        problem, m, n, k = self.problem, point["M"], point["N"], float(self.problem.n_labels)
        q = k - 1.0
        kernel = problem.gram if sign < 0 else np.abs(problem.gram)
        rows = kernel * ((k**2 * m + sign * k) / q**2)
        if not problem.n_pairs:
            return np.asarray(rows)
        s, t, side = problem.current, problem.previous, np.zeros((problem.n_rows, problem.n_pairs))
        now, before = problem.feasible.at_pairs(m)
        # products of g (x) c and of c (x) g with themselves, with one another, and with g (x) g
        rows[np.ix_(s, s)] += (k**2 * n + sign * k * before) / q**2
        np.add.at(rows, np.ix_(t, t), (k**2 * n + sign * k * now) / q**2)
        across = np.zeros_like(rows)
        np.add.at(across, np.ix_(s, t), (k**2 * n + sign * k * (now + before) + 1.0) / q**2)
        once = (k**3 * n + sign * k**2 * (now + before) + k) / q**3
        for at in (s, t):
            np.add.at(side, at, sign * once)
        both = (k**4 * n + sign * k**3 * (now + before) + k**2) / q**4
        return np.block([[rows + across + across.T, side], [side.T, both]])

    @property
    def _terms(self) -> int:
        """Roundings behind an entry of G, or behind a coefficient of M or N in <W, G>."""
        return 24 + 4 * int(self.problem.feasible.siblings.max(initial=1)) ** 2

    def _tangent(self, point: Point, x: Vector, z: Vector) -> Rounded:
        """The formula of f at M, N, x and z, for feasible and infeasible M and N."""
        problem, (a, r), n = self.problem, self._polytope, self.size
        g, beta = self.gram(point), problem.beta
        product = g @ x
        error = (gamma(self._terms) * self.gram(point, 1.0) + gamma(n + 2) * np.abs(g)) @ np.abs(x)
        error[: problem.n_rows] += self._doubt * float(np.abs(x).max())
        left = self._gain - product / beta - a.T @ z
        sizes = error / beta + gamma(self._terms + 4) * (self._gain + np.abs(product) / beta + abs(a).T @ z)
        square = summed(x * product, float(np.abs(x) @ error), 1)
        rest = summed(np.concatenate((r * z, np.maximum(left, 0.0))), float(sizes.sum()), 1)
        value = float(square) / (2.0 * beta) + float(rest)
        rounded = 4.0 * UNIT * (abs(float(square)) / beta + abs(float(rest)))
        return Rounded.of(value, square.allowance / (2.0 * beta), rest.allowance, rounded)

    def _share(self, point: Point) -> float:
        """The step towards the point inside that makes G semidefinite in exact arithmetic; 0 with x fixed."""
        if self.fixed is not None:
            return 0.0
        here = self._least(point)
        if here >= 0.0:
            return 0.0
        return -here / (self._inside - here) * OUTWARD if self._inside > 0.0 else np.inf

    def _least(self, point: Point) -> float:
        sizes = self.gram(point, 1.0)
        radius = gamma(self._terms) * float(sizes.sum(axis=1).max()) + self._doubt
        return least_eigenvalue(self.gram(point), radius)

    @cached_property
    def _inside(self) -> float:
        return self._least(self.problem.feasible.safe)

    @cached_property
    def _polytope(self) -> tuple[sp.csr_array, Vector]:
        return polytope(self.problem)

    @cached_property
    def _gain(self) -> Vector:
        """a: 1 for each row, 0 for each pair."""
        return np.concatenate([np.ones(self.problem.n_rows), np.zeros(self.problem.n_pairs)])

    @property
    def _doubt(self) -> float:
        """An upper bound on the change of a row of G (sum of absolute values) by the rounding of the kernel."""
        k = self.problem.n_labels
        return self.problem.kernel_error * (k**2 + k) / (k - 1.0) ** 2

    # -- dual ----------------------------------------------------------------------------------------------------------

    def dual(self, dual_point: Point) -> Rounded:
        """The lower bound of any witness with its allowance; -inf where the witness is not finite."""
        read = self._read_dual(dual_point)
        with np.errstate(all="ignore"):
            if not all(np.isfinite(array).all() for array in read.values()):
                return Rounded(-np.inf)
            y = self._inside_polytope(read["x"])
            if self.fixed is None:
                w = self._lifted(read["W"], y) if "W" in read else np.outer(y, y)
                sizes = np.abs(w)
            else:
                x, once = self.fixed, np.outer(self.fixed, y)
                w, sizes = once + once.T - np.outer(x, x), np.abs(once) + np.abs(once).T + np.abs(np.outer(x, x))
            costs, pair_costs, constant = self._costs(w)
            of_rows, of_pairs, of_constant = (float(np.sum(part)) for part in self._costs(sizes, 1.0))
            most = largest(self.problem.feasible, costs, pair_costs, read)
            gain, beta = summed(y[: self.problem.n_rows]), self.problem.beta
            error = gamma(self._terms) * (of_rows + of_pairs + of_constant) + constant.allowance + most.allowance
            error += self._doubt * float(np.abs(sizes).max())
            value = total([float(gain), -(float(most) + float(constant)) / (2.0 * beta)])
            rounded = 4.0 * UNIT * (abs(float(most)) + abs(float(constant))) / beta
            found = Rounded.of(float(value), value.allowance, gain.allowance, error / (2.0 * beta), rounded)
            return found if np.isfinite(found) else Rounded(-np.inf)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """How far x is outside the polytope; inf where the witness is not finite."""
        read = self._read_dual(dual_point)
        if not all(np.isfinite(array).all() for array in read.values()):
            return {"witness not finite": np.inf}
        a, r = self._polytope
        return {"x outside its polytope": max(0.0, float((a @ read["x"] - r).max()))}

    def _read_dual(self, dual_point: Point) -> Point:
        shapes = {"x": (self.size,), "W": (self.size, self.size)}
        own = {name: dual_point[name] for name in shapes if name in dual_point}
        rest = self.problem.read_dual({name: each for name, each in dual_point.items() if name not in shapes})
        own = {name: real(f"dual_point[{name!r}]", own[name], shapes[name], finite=False, keep=False) for name in own}
        return {"x": np.zeros(self.size), **own, **rest}

    def _inside_polytope(self, x: Vector) -> Vector:
        """x moved to A x <= r, so that it holds in exact arithmetic: the sum of two lambda errs by less than 2 UNIT."""
        p1, problem = self.problem.n_rows, self.problem
        lam = np.clip(x[:p1], 0.0, 1.0)
        now, before = lam[problem.current], lam[problem.previous]
        least = np.maximum(x[p1:], np.maximum(now + before - 1.0 + 2.0 * UNIT, 0.0))
        return np.concatenate((lam, np.minimum(least, np.minimum(now, before))))

    def _lifted(self, given: Matrix, y: Vector) -> Matrix:
        """W with W - yy' semidefinite in exact arithmetic."""
        w = 0.5 * (given + given.T)
        apart = w - np.outer(y, y)
        radius = gamma(3) * float((np.abs(w) + np.outer(np.abs(y), np.abs(y))).sum(axis=1).max())
        lift = max(0.0, -least_eigenvalue(apart, radius)) * OUTWARD
        w[np.diag_indices_from(w)] += lift + 2.0 * UNIT * (lift + float(np.abs(np.diagonal(w)).max()))
        return w

    def _costs(self, w: Matrix, sign: float = -1.0) -> tuple[Matrix, Matrix, Rounded]:
        """The coefficients of M and of N in <W, G(M, N)>, and its constant; with ``sign`` 1 the sums of the magnitudes
        of their terms, for W >= 0."""
        problem, k = self.problem, float(self.problem.n_labels)
        p1, q, s, t = problem.n_rows, k - 1.0, problem.current, problem.previous
        known = (problem.gram if sign < 0 else np.abs(problem.gram)) * w[:p1, :p1]
        now, before, across = (w[np.ix_(one, other)] for one, other in ((s, s), (t, t), (s, t)))
        once = w[s, p1:] + w[t, p1:]
        # of e e', where e = lambda_c + lambda_p - kappa/(kappa - 1) delta, if W = xx'
        both = now + before + across + across.T + sign * (k / q) * (once + once.T) + (k / q) ** 2 * w[p1:, p1:]
        costs = (k / q) ** 2 * known
        costs[np.ix_(s, s)] += sign * (k / q**2) * (both + sign * now)
        np.add.at(costs, np.ix_(t, t), sign * (k / q**2) * (both + sign * before))
        pairs = both + sign * now + sign * before
        sums = summed(known), summed(pairs)
        constant = (sign * k * float(sums[0]) + float(sums[1])) / q**2
        allowance = (k * sums[0].allowance + sums[1].allowance) / q**2
        size = (k * float(np.abs(known).sum()) + float(np.abs(pairs).sum())) / q**2
        return costs, (k / q) ** 2 * both, Rounded.of(constant, allowance, gamma(4) * size)
