r"""An SDP in (M, N) alone that does not collapse (ours, after (3)): a maximum over alternatives that are invariant.

Theorem 1's maximum is restricted to marginals that treat all labels alike but the present one: each row keeps its label
or is exchanged for any other with equal probability (`label_exchanges`, with lambda, delta, A x <= r and G). They
are the alternatives that no permutation of the other labels changes, so that M and N are all that is left of the
labels, and no C or D is needed. With a'x = e'lambda,

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

where <W, G> is affine in (M, N), and a witness of the reduced SDP bounds it from above (`.rounding`). With x
fixed the same holds of f for W = xy' + yx' - xx', and G need not be semidefinite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Flags, Labels, Matrix, Point, Vector
from convexstruct.families.unsupervised_margin.label_exchanges import adjoint, gram, polytope
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.rounding import largest
from convexstruct.rounding import OUTWARD, UNIT, Rounded, RoundedArray, dot, exact, least_eigenvalue, maximum, summed
from convexstruct.validation.arguments import mapping, sentence
from convexstruct.validation.arrays import real


def check_two_classes(problem: UnsupervisedMargin) -> None:
    """ValueError unless the problem has two labels and no pairs, as (3) wants it."""
    if problem.n_labels != 2 or problem.n_pairs:
        raise sentence(
            f"problem has {problem.n_labels} labels and {problem.n_pairs} pairs, wanted 2 labels and no pairs"
        )


@dataclass(frozen=True, eq=False)
class PermutationInvariantMargin:
    """The SDP of the invariant alternatives. fixed (p1 + p2,) : x, where it is given; None where it is maximised over.

    **Point** {"M", "N", "x", "z"}, without x where it is fixed. **Dual witness** {"x", "W"} and the reduced SDP's: x is
    moved into the polytope, W lifted until W - xx' is semidefinite; a missing W is xx'.
    """

    problem: UnsupervisedMargin
    fixed: Vector | None = None
    family: ClassVar[str] = "unsupervised_margin"

    def __repr__(self) -> str:
        of = "" if self.fixed is None else ", x fixed"
        return f"PermutationInvariantMargin({self.problem!r}{of})"

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
            g = self.gram(near)
            value, t = self._tangent(g, x, z), max(feasible.share_inside(near), self._share(g))
            if not np.isfinite(t):
                return Rounded(np.inf)
            reached = value + t * (self._tangent(self._safe_gram, x, z) - value)  # f is convex in (M, N)
            found = Rounded.of(float(value), max(value.allowance, reached.upper - float(value)))
            return found if np.isfinite(found) else Rounded(np.inf)

    def repair(self, point: Point) -> Point:
        """(M, N) repaired for the reduced SDP, then moved inside until G is semidefinite; z at least 0."""
        near = self.problem.repair(point)
        t, safe = min(1.0, self._share(self.gram(near))), self.problem.feasible.safe
        near = {name: (1.0 - t) * near[name] + t * safe[name] for name in "MN"}
        return {**point, **self.problem.feasible.entrywise(near), "z": np.maximum(point["z"], 0.0)}

    def residuals(self, point: Point) -> Mapping[str, float]:
        """Those of the reduced SDP; the violation of G semidefinite relative to G's largest row sum, and of z >= 0."""
        found = {**self.problem.residuals(point), "z below 0": max(0.0, -float(point["z"].min()))}
        if self.fixed is None and all(np.isfinite(x).all() for x in point.values()):
            with np.errstate(all="ignore"):
                g = self.gram(self.problem.feasible.entrywise(point)).value
                size = float(np.abs(g).sum(axis=1).max()) or 1.0
            least = float(np.linalg.eigvalsh(g)[0]) if np.isfinite(size) else -np.inf
            found["G not semidefinite"] = max(0.0, -least / size)
        return found

    def gram(self, point: Point) -> RoundedArray:
        """G at M and N."""
        found: RoundedArray = gram(self.problem, exact(point["M"]), exact(point["N"]))
        return found

    def _tangent(self, g: RoundedArray, x: Vector, z: Vector) -> Rounded:
        """The formula of f at G, x and z."""
        (a, r), beta = self._polytope, self.problem.beta
        image = g @ x
        left = self._gain - image / beta - a.T @ exact(z)
        value: Rounded = dot(x, image) / (2.0 * beta) + dot(r, z) + summed(maximum(left, 0.0))
        return value

    def _share(self, g: RoundedArray) -> float:
        """The step towards the point inside that makes G semidefinite in exact arithmetic; 0 with x fixed."""
        here = 0.0 if self.fixed is not None else self._least(g)
        if here >= 0.0:
            return 0.0
        return -here / (self._inside - here) * OUTWARD if self._inside > 0.0 else np.inf

    def _least(self, g: RoundedArray) -> float:
        """A number with the sign of G's least eigenvalue, at most that of G in units of the rows of data.

        A row of zeros makes one of G, which is left out. The units are powers of two, so that nothing is rounded.
        """
        units = 2.0 ** -np.round(0.5 * np.log2(np.diagonal(self._safe_gram.value)[self._shown]))
        return least_eigenvalue(g[self._shown][:, self._shown] * units[:, None] * units) if len(units) else 0.0

    @cached_property
    def _shown(self) -> Flags:
        """(p1 + p2,) False where a row of data is 0, and has no pair that would make it one of G that is not."""
        problem = self.problem
        data = problem.kernel if problem.features is None else problem.features
        shown = np.ones(self.size, dtype=bool)
        shown[: problem.n_rows] = data.any(axis=1)  # type: ignore[union-attr]  # one of the two is given
        shown[problem.pairs.ravel()] = True
        return shown

    @cached_property
    def _safe_gram(self) -> RoundedArray:
        return self.gram(self.problem.feasible.safe)

    @cached_property
    def _inside(self) -> float:
        return self._least(self._safe_gram)

    @cached_property
    def _polytope(self) -> tuple[sp.csr_array, Vector]:
        return polytope(self.problem)

    @cached_property
    def _gain(self) -> Vector:
        """a: 1 for each row, 0 for each pair."""
        return np.concatenate([np.ones(self.problem.n_rows), np.zeros(self.problem.n_pairs)])

    # -- dual ----------------------------------------------------------------------------------------------------------

    def dual(self, dual_point: Point) -> Rounded:
        """The lower bound of any witness with its allowance; -inf where the witness is not finite."""
        read = self._read_dual(dual_point)
        with np.errstate(all="ignore"):
            if not all(np.isfinite(array).all() for array in read.values()):
                return Rounded(-np.inf)
            y = exact(self._inside_polytope(read["x"]))
            if self.fixed is None:
                w = self._lifted(read["W"], y) if "W" in read else _outer(y, y)
            else:
                x = exact(self.fixed)
                w = _outer(x, y) + _outer(y, x) - _outer(x, x)
            costs, pair_costs, constant = adjoint(self.problem, w)
            most = largest(self.problem.feasible, costs, pair_costs, read) + constant
            found: Rounded = summed(y[: self.problem.n_rows]) - most / (2.0 * self.problem.beta)
            return found if np.isfinite(found) else Rounded(-np.inf)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """How far x is outside the polytope; inf where the witness is not finite."""
        read = self._read_dual(dual_point)
        if not all(np.isfinite(array).all() for array in read.values()):
            return {"witness not finite": np.inf}
        a, r = self._polytope
        return {"x outside its polytope": max(0.0, float((a @ read["x"] - r).max()))}

    def rounding_reason(self, point: Point, dual_point: Point | None) -> str:
        """As the reduced SDP's."""
        return self.problem.rounding_reason(point, dual_point)

    def predict(self, point: Any, examples: Any = None) -> list[Labels]:
        """Labels of each example, read from M as the reduced SDP's are.

        Raises
        ------
        ValueError
            As `UnsupervisedMargin.predict`.
        """
        read = self.as_point(point)
        return self.problem.predict({name: read[name] for name in "MN"}, examples)

    def _read_dual(self, dual_point: Point) -> Point:
        shapes = {"x": (self.size,), "W": (self.size, self.size)}
        given = mapping("dual_point", dual_point, (), {*shapes, *self.problem.read_dual({})})
        own = {name: given.pop(name) for name in shapes if name in given}
        rest = self.problem.read_dual(given)
        own = {name: real(f"dual_point[{name!r}]", own[name], shapes[name], finite=False, keep=False) for name in own}
        return {"x": np.zeros(self.size), **own, **rest}

    def _inside_polytope(self, x: Vector) -> Vector:
        """x moved to A x <= r, so that it holds in exact arithmetic: the sum of two lambda errs by less than 2 UNIT."""
        p1, problem = self.problem.n_rows, self.problem
        lam = np.clip(x[:p1], 0.0, 1.0)
        now, before = lam[problem.current], lam[problem.previous]
        least = np.maximum(x[p1:], np.maximum(now + before - 1.0 + 2.0 * UNIT, 0.0))
        return np.concatenate((lam, np.minimum(least, np.minimum(now, before))))

    def _lifted(self, given: Matrix, y: RoundedArray) -> RoundedArray:
        """W with W - yy' semidefinite in exact arithmetic."""
        w = 0.5 * (given + given.T)
        return exact(w) + max(0.0, -least_eigenvalue(w - _outer(y, y))) * np.eye(len(w))


def _outer(x: RoundedArray, y: RoundedArray) -> RoundedArray:
    """xy'."""
    return x[:, None] * y
