r"""The dual of the two-class SDP (3) as one bordered matrix: maximise c'x over G x <= h with S(x) semidefinite.

(3) is the least over M of the most over lambda of e'lambda - <K o lambda lambda', M> / (2 beta), M and beta as printed
(beta is half the problem's). Exchanged, the inner minimum over M has multipliers y of its diagonal and u of its rows:

    max  e'lambda - (e'y + eps |u|_1) / 2    s.t.  Diag(y) + (ue' + eu')/2 - (K / beta) o lambda lambda' semidefinite.

Products of lambda stand there. With K / beta = X X', X (n, d), a border of d rows makes the constraint linear:

    S = [[Diag(y) + (ue' + eu')/2, Diag(lambda) X], [X' Diag(lambda), I]] semidefinite,    0 <= lambda <= 1,  |u| <= t.

x = (lambda, y, u, t), and a step costs (4n)^3 / 3 and some (n + d)^3: M, with its n^2 / 2 entries, is not among the
variables. It is the block at the rows of Z, the multipliers of S, whose diagonal is 1/2 and whose rows sum to at most
eps / 2. Where no row of the balance is active, u = 0 and Schur's complement in I is the problem in a d x d matrix,
sum_i (lambda_i^2 / y_i) x_i x_i' <= I.

**Units.** K / beta may be of any size s. For s > 1 the variables are s lambda, s y, s u with X / sqrt(s); for s < 1
they are y / s and u / s with X / sqrt(s). Rows of X then have length 1 at most. Below `ROUNDING` s is taken for that:
whatever M is, the optimum n moves by less.

**Start.** Multipliers that are stationary, with M at the point inside (`FeasibleSet.safe`) and the border of Z such
that 1 - (K o M lambda)_i / beta is about 1 / s_i for rows of size s_i > 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Matrix, Point, Vector
from convexstruct.families.unsupervised_margin.permutation_invariant import (
    PermutationInvariantMargin,
    check_two_classes,
)
from convexstruct.families.unsupervised_margin.solvers.central_path import Cone, Orthant, Semidefinite
from convexstruct.tolerances import ROUNDING
from convexstruct.validation.arguments import sentence

#: G at each row: lambda <= 1 in the units above, -lambda <= 0, u <= t, -u <= t.
SIGNS = np.array(((1, 0, 0, 0), (-1, 0, 0, 0), (0, 0, 1, -1), (0, 0, -1, -1)), dtype=np.float64)


class BorderedDual:
    """c (4n,), G (4n, 4n), h (4n,) and the first x of the dual of (3); ``border`` is X (n, d) in the units above.

    ValueError unless the problem has two labels, no pairs, and x free.
    """

    def __init__(self, problem: PermutationInvariantMargin) -> None:
        self.problem, of = problem, problem.problem
        check_two_classes(of)
        if problem.fixed is not None:
            raise sentence("problem has x fixed, wanted x free, as (3) has it")
        n, beta, x = of.n_rows, 0.5 * of.beta, of.root
        with np.errstate(all="ignore"):  # what overflows is not finite, and no step is taken
            sizes = np.einsum("ij,ij->i", x, x) / beta
            largest = float(sizes.max())
            self.above, self.below = max(1.0, largest), min(1.0, max(ROUNDING, largest))
            self.border = x / np.sqrt(beta * self.above) / np.sqrt(self.below)
            self.unit = beta * self.below / self.above  # of y and u
            self.slack = 1.0 / np.maximum(1.0, sizes)
            lam = (1.0 - 0.5 * self.below) * self.above * self.slack
            if self.below == 1.0:
                lam /= np.sqrt(max(1.0, self._largest(lam)))
        costs, eps, one, none = 0.5 * self.below, 2.0 * n * of.label_balance, np.ones(n), np.zeros(n)
        self.c = np.concatenate((one, -costs * one, none, -costs * eps * one))
        self.G, self.h = (
            sp.csr_array(sp.kron(SIGNS, sp.eye_array(n))),
            np.concatenate((self.above * one, np.zeros(3 * n))),
        )
        self.x = np.concatenate((lam, np.full(n, self._largest(lam) + 1.0), none, np.full(n, 4.0 / eps)))

    def _largest(self, lam: Vector) -> float:
        """The largest eigenvalue of K / beta o lambda lambda'; NaN where it is not finite."""
        rows = lam[:, None] * self.border
        return float(np.linalg.eigvalsh(rows.T @ rows).max(initial=0.0)) if np.isfinite(rows).all() else np.nan

    def cones(self) -> list[Cone]:
        """The constraints at the first x, with stationary multipliers."""
        n, d = self.border.shape
        of = Bordered(self.border)
        s = of.image(self.x)
        s[n:, n:] = np.eye(d)
        z = np.zeros_like(s)
        z[:n, :n] = 0.5 * self.below * (2.0 * self.problem.problem.feasible.safe["M"] - 1.0)
        lengths = np.einsum("ij,ij->i", self.border, self.border)
        z[:n, n:] = (-0.5 * (1.0 - self.slack) / np.where(lengths > 0.0, lengths, 1.0))[:, None] * self.border
        z[n:, :n] = z[:n, n:].T
        z[n:, n:] = self.below * np.eye(d) + z[n:, :n] @ np.linalg.solve(z[:n, :n], z[:n, n:])
        low, sums, most = self.below * self.slack, z[:n, :n].sum(axis=1), -0.5 * self.c[3 * n :]
        multipliers = np.concatenate((self.slack + low, low, most + 0.5 * sums, most - 0.5 * sums))
        return [Orthant(self.G, self.h - self.G @ self.x, multipliers), Semidefinite(s, of, self.x, z)]

    def read(self, x: Vector, multipliers: Sequence[Vector | Matrix]) -> tuple[Point, Point]:
        """The point and the dual point of `PermutationInvariantMargin`: its M is (M + 1) / 2, its y and u are 4 times
        those above in the problem's units."""
        n = len(self.border)
        lam, y, u, _ = np.split(x, 4)
        m = multipliers[1][:n, :n]
        scale = np.sqrt(np.diagonal(m))
        m = 0.5 * (m / scale[:, None] / scale + 1.0)
        lam = np.clip(lam / self.above, 0.0, 1.0)
        point = {"M": m, "N": np.zeros((0, 0)), "x": lam, "z": np.zeros(2 * n)}
        return point, {"x": lam, "y": 4.0 * self.unit * y, "u": 4.0 * self.unit * u}


class Bordered:
    """S as a linear map of x: S(x) = U + U' with rows U_i = y_i e_i/2 + u_i e/2 and, at the border, lambda_i x_i.

    So A_v = e_i a' + a e_i' for a row i and one of the vectors a = x_i (at the border), e_i/2, e/2.
    """

    def __init__(self, border: Matrix) -> None:
        self.border = border

    def image(self, dx: Vector) -> Matrix:
        n, d = self.border.shape
        lam, y, u = np.split(dx[: 3 * n], 3)
        rows = np.zeros((n + d, n + d))
        rows[:n, :n] = np.diag(0.5 * y) + 0.5 * u[:, None]
        rows[:n, n:] = lam[:, None] * self.border
        return np.asarray(rows + rows.T)

    def add_adjoint(self, right: Vector, w: Matrix) -> None:
        n = len(self.border)
        right[:n] += 2.0 * np.einsum("ij,ij->i", w[:n, n:], self.border)
        right[n : 2 * n] += np.diagonal(w)[:n]
        right[2 * n : 3 * n] += w[:n, :n].sum(axis=1)

    def add_curvature(self, newton: Matrix, t: Matrix) -> None:
        """tr(A_v T A_w T) = 2 (a'T e_j)(b'T e_i) + 2 (a'T b) T_ij for v = (i, a), w = (j, b)."""
        n, x = len(self.border), self.border
        rows, cross = t[:n, :n], x @ t[n:, :n]
        images = (cross, 0.5 * rows, np.tile(0.5 * rows.sum(axis=0), (n, 1)))  # a'T e_j of the three kinds of a
        for k, image in enumerate(images):
            for m, other in enumerate(images[: k + 1]):
                # b'T a of the kinds m and k: T at the border, half an image's entries, or half its sums
                inner = x @ t[n:, n:] @ x.T if k == 0 else 0.5 * (other if k == 1 else other.sum(axis=1, keepdims=True))
                at = slice(k * n, (k + 1) * n), slice(m * n, (m + 1) * n)
                newton[at] += 2.0 * (image * other.T + inner.T * rows)
