r"""The reduced SDP in its free entries: maximise c'x over G x <= h with S_M(x) and S_N(x) semidefinite.

x (d,) holds the entries of M above the diagonal, then those of N. So M(x) and N(x) are affine, with S_M =
M(x) - 11'/kappa and S_N = N(x) - 11'/kappa^2, and c'x is <K, M> + <E, N> less the diagonals, divided by the
largest cost (`cost_size`). G x <= h are, in this order (`GROUPS`),

    0 <= M where no tie says so,  0 <= N,  N <= M (current),  N <= M (previous),  M + M <= 1 + N,         (11) and signs
    rows of M below and above,  rows of N below and above.                                                           (9)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Matrix, Point, Vector
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.central_path import Cone, Entries, Orthant, Semidefinite
from convexstruct.families.unsupervised_margin.solvers.splitting import cost_size

GROUPS = ("signs", "none", "current", "previous", "both", "u above", "u below", "v above", "v below")


def count_entries(problem: UnsupervisedMargin) -> int:
    """d, the length of x."""
    n, q = problem.n_rows, problem.n_pairs
    return (n * (n - 1) + q * (q - 1)) // 2


class FreeEntries:
    """c (d,), G (m, d), h (m,), the x of the safe point, and for M and N the entries above the diagonal with the place
    of each in x: ``entries`` = ((rows, columns, places), ...)."""

    def __init__(self, problem: UnsupervisedMargin) -> None:
        n, q = problem.n_rows, problem.n_pairs
        self.problem, self.size, safe = problem, cost_size(problem), problem.feasible.safe
        first, second = np.triu_indices(n, 1)
        place = np.zeros((n, n), dtype=np.intp)
        place[first, second] = place[second, first] = np.arange(len(first))
        one, other = np.triu_indices(q, 1)
        now = place[problem.current[one], problem.current[other]]
        before = place[problem.previous[one], problem.previous[other]]
        own = len(first) + np.arange(len(one))
        self.entries = (first, second, np.arange(len(first))), (one, other, own)
        self.x = np.concatenate((safe["M"][first, second], safe["N"][one, other]))

        d = len(self.x)
        self.c = np.zeros(d)
        self.c[: len(first)] = 2.0 / self.size * problem.gram[first, second]
        self.c[own] = 2.0 / self.size
        seen = np.zeros(d, dtype=bool)
        seen[now] = seen[before] = seen[own] = True
        self.signs = np.flatnonzero(~seen)
        blocks = [
            _picked(d, (self.signs, -1.0)), _picked(d, (own, -1.0)), _picked(d, (own, 1.0), (now, -1.0)),
            _picked(d, (own, 1.0), (before, -1.0)), _picked(d, (now, 1.0), (before, 1.0), (own, -1.0)),
        ]  # fmt: skip
        right = [np.zeros(len(self.signs) + 3 * len(own)), np.ones(len(own))]
        for size, (share, balance), (rows, columns, at) in zip((n, q), problem.feasible.shares, self.entries):
            ends = np.concatenate((rows, columns)), np.tile(at, 2)
            sums = sp.csr_array((np.ones(len(ends[0])), ends), shape=(size, d))
            blocks += [sums, -sums]
            right += [np.full(size, size * (share + balance) - 1.0), np.full(size, 1.0 - size * (share - balance))]
        self.G, self.h = sp.csr_array(sp.vstack(blocks)), np.concatenate(right)
        self._ends = np.cumsum([block.shape[0] for block in blocks])[:-1]

    def point(self, x: Vector) -> Point:
        """M(x) and N(x)."""
        found = {}
        for name, size, (rows, columns, at) in zip("MN", (self.problem.n_rows, self.problem.n_pairs), self.entries):
            found[name] = np.eye(size)
            found[name][rows, columns] = found[name][columns, rows] = x[at]
        return found

    def cones(self) -> list[Cone]:
        """The constraints at the safe point; that of N only where N has free entries."""
        found: list[Cone] = [Orthant(self.G, self.h - self.G @ self.x)]
        for matrix, (share, _), entries in zip(self.point(self.x).values(), self.problem.feasible.shares, self.entries):
            if len(entries[0]):
                found.append(Semidefinite(matrix - share, Entries(len(matrix), *entries), self.x))
        return found

    def read(self, x: Vector, multipliers: Sequence[Vector | Matrix]) -> tuple[Point, Point]:
        """The point and the dual point."""
        return self.point(x), self.witness(*multipliers)

    def witness(self, z: Vector, dual_m: Matrix, dual_n: Matrix | None = None) -> Point:
        """The dual point of multipliers z (m,) of G x <= h and semidefinite Z_M, Z_N: y and z on the diagonals make
        M~ - Diag(y) = -Z_M and N~ - Diag(z) = -Z_N, where these multipliers are stationary."""
        problem, n, q = self.problem, self.problem.n_rows, self.problem.n_pairs
        of = dict(zip(GROUPS, np.split(self.size * z, self._ends)))
        u, v = of["u above"] - of["u below"], of["v above"] - of["v below"]
        p, weights = np.zeros((n, n)), np.zeros((3, q, q))
        first, second, _ = self.entries[0]
        p[first[self.signs], second[self.signs]] = -of["signs"]
        one, other, _ = self.entries[1]
        weights[0][one, other] = of["both"] - of["current"]
        weights[1][one, other] = of["both"] - of["previous"]
        weights[2][one, other] = of["current"] + of["previous"] - of["both"] - of["none"]
        dual_n = np.zeros((q, q)) if dual_n is None else dual_n
        names = ("W_current", "W_previous", "W_pair")
        return dict(zip(names, weights)) | {
            "P": p,
            "u": u,
            "y": np.diagonal(problem.gram) - u + self.size * np.diagonal(dual_m),
            "v": v,
            "z": 1.0 - v + self.size * np.diagonal(dual_n),
        }


def _picked(d: int, *parts: tuple[Index, float]) -> sp.csr_array:
    """Rows that sum entries of x, each times its factor; parts of one length, (places, factor)."""
    count = len(parts[0][0])
    values = np.repeat([factor for _, factor in parts], count)
    rows = np.tile(np.arange(count), len(parts))
    return sp.csr_array((values, (rows, np.concatenate([places for places, _ in parts]))), shape=(count, d))
