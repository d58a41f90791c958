r"""The feasible set of the reduced SDP: how far a point is from it, and a feasible point near it.

    M - 11'/kappa and N - 11'/kappa^2 semidefinite, diagonals 1, entries >= 0, rows within (9), M and N tied by (11)

(11) holds for all pairs k and l: (M_kl at the current rows, M_kl at the previous rows, N_kl) lies in the tetrahedron
with the corners (0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 1).

**Repair.** Either the entries are put right one by one, which may leave eigenvalues below 0; or the matrices are scaled
to the right diagonal, which leaves them semidefinite and may leave entries and ties wrong. The violations that remain
are removed by moving a share t towards a point strictly inside (`interior`): a constraint that is violated by v here
and has slack s there holds from t = v / (v + s) on. Eigenvalues have proved bounds, so that a point on the segment is
feasible in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from convexstruct.arrays import Index, Matrix, Point
from convexstruct.families.unsupervised_margin.interior import interior
from convexstruct.rounding import OUTWARD, Rounded, RoundedArray, binned, exact, least_eigenvalue


@dataclass(frozen=True, eq=False)
class FeasibleSet:
    """The feasible pairs (M, N); the attributes are those of the problem."""

    n_rows: int
    pairs: Index
    n_labels: int
    label_balance: float
    pair_balance: float

    @cached_property
    def inside(self) -> tuple[float, float] | None:
        """The point strictly inside, as two numbers; None where the balances leave none."""
        return interior(self.n_rows, len(self.pairs), self.n_labels, self.label_balance, self.pair_balance)

    @cached_property
    def safe(self) -> Point:
        """M0 and N0 of `interior`."""
        found = self.inside
        assert found is not None, "refused by the reader"
        sizes = self.n_rows, len(self.pairs)
        return {name: value + (1.0 - value) * np.eye(size) for name, value, size in zip("MN", found, sizes)}

    @property
    def shares(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """(1/kappa, eps1) and (1/kappa^2, eps2): the means of the rows of M and of N, and how far they may be off."""
        return (1.0 / self.n_labels, self.label_balance), (1.0 / self.n_labels**2, self.pair_balance)

    @cached_property
    def rounded_shares(self) -> tuple[tuple[Rounded, float], tuple[Rounded, float]]:
        """`shares` as numbers with their errors."""
        share = Rounded(1.0) / self.n_labels
        return (share, self.label_balance), (share * share, self.pair_balance)

    def at_pairs(self, m: Matrix) -> tuple[Matrix, Matrix]:
        """M_kl at the current rows and at the previous rows of all pairs; (p2, p2) each."""
        previous, current = self.pairs[:, 0], self.pairs[:, 1]
        return m[np.ix_(current, current)], m[np.ix_(previous, previous)]

    def spread(self, of_pairs: Any, column: int) -> Any:
        """(p1, p1) sums of the entries of a matrix (p2, p2) at the previous rows (column 0) or the current rows (1) of
        its pairs: the adjoint of `at_pairs`."""
        n, rows = self.n_rows, self.pairs[:, column]
        return binned(of_pairs.reshape(-1), (n * rows[:, None] + rows).ravel(), n * n).reshape(n, n)

    # -- how far a point is from it ------------------------------------------------------------------------------------

    def residuals(self, point: Point) -> Mapping[str, float]:
        """Violations by name, in units of the entries, of which the largest is 1; of (9) in those of eps1 and eps2."""
        found: dict[str, float] = {}
        for name, (share, balance) in zip("MN", self.shares):
            x = point[name]
            if not x.size:
                continue
            if not np.isfinite(x).all():
                return {f"{name} is not finite": np.inf}
            even = 0.5 * x + 0.5 * x.T  # a sum of two may overflow
            found[f"{name} not symmetric"] = float(np.abs(x - x.T).max())
            found[f"diagonal of {name} not 1"] = float(np.abs(np.diagonal(x) - 1.0).max())
            found[f"entries of {name} below 0"] = max(0.0, -float(x.min()))
            found[f"{name} not semidefinite"] = max(0.0, -float(np.linalg.eigvalsh(even - share)[0]))
            apart = np.abs(even.mean(axis=1) - share).max() - balance
            found[f"rows of {name} out of balance (9)"] = max(0.0, float(apart))
        if len(self.pairs):
            now, before = self.at_pairs(point["M"])
            n = point["N"]
            outside = max(float((n - np.minimum(now, before)).max()), float((now + before - 1.0 - n).max()))
            found["M and N not tied (11)"] = max(0.0, outside)
        return found

    # -- a feasible point ----------------------------------------------------------------------------------------------

    def entrywise(self, point: Point) -> Point:
        """The point with what can be corrected without rounding: M symmetric, 0 <= M <= 1, diagonals 1, N symmetric,
        0 <= N <= M at both rows; N >= M + M - 1 up to the rounding of that sum."""
        m = np.clip(0.5 * point["M"] + 0.5 * point["M"].T, 0.0, 1.0)
        np.fill_diagonal(m, 1.0)
        n = 0.5 * point["N"] + 0.5 * point["N"].T
        if len(self.pairs):
            now, before = self.at_pairs(m)
            n = np.clip(n, np.maximum(now + before - 1.0, 0.0), np.minimum(now, before))
        return {"M": m, "N": n}

    def semidefinite(self, point: Point) -> Point:
        """The point made symmetric, and M - 11'/kappa and N - 11'/kappa^2 scaled on both sides to the right diagonal:
        what is semidefinite stays so, up to rounding."""
        found: dict[str, Matrix] = {}
        for name, (share, _) in zip("MN", self.shares):
            x = 0.5 * point[name] + 0.5 * point[name].T - share
            scale = np.sqrt((1.0 - share) / np.maximum(np.diagonal(x), share * (1.0 - share)))
            x = scale[:, None] * x * scale + share
            np.fill_diagonal(x, 1.0)
            found[name] = x
        return found

    def share_inside(self, point: Point) -> float:
        """t such that (1 - t) X + t (M0, N0) is feasible in exact arithmetic, but for the rounding of upper ties; X is
        as `entrywise` or `semidefinite` leave points. inf where M0 and N0 are too near to the border."""
        share = 0.0
        for here, slack in zip(self.slacks(point), self._safe_slacks):
            if here < 0.0:
                share = max(share, -here / (slack - here) if slack > 0.0 else np.inf)
        return min(1.0, share * OUTWARD) if share < np.inf else np.inf

    def repair(self, point: Point) -> Point:
        """A feasible point near ``point``: `entrywise` or `semidefinite`, whichever needs the smaller step inside, and
        that step; M0 and N0 where the point is not finite."""
        if not all(np.isfinite(x).all() for x in point.values()):
            return self.safe
        with np.errstate(over="ignore", invalid="ignore"):
            near = min(self.entrywise(point), self.semidefinite(point), key=self.share_inside)
        t = min(1.0, self.share_inside(near))
        return self.entrywise({name: (1.0 - t) * near[name] + t * self.safe[name] for name in "MN"})

    @cached_property
    def _safe_slacks(self) -> list[float]:
        return self.slacks(self.safe)

    def slacks(self, point: Point) -> list[float]:
        """Lower bounds, true in exact arithmetic, on the slacks of the constraints; below 0 is violated."""
        found = []
        for name, (share, balance) in zip("MN", self.rounded_shares):
            x = exact(point[name])
            n = len(x.value)
            if not n:
                continue
            found.append(float(x.value.min()))
            found.append(least_eigenvalue(x - share))
            found.append(_least(balance - abs(x.sum(axis=1) / n - share)))
        if len(self.pairs) > 1:
            free = ~np.eye(len(self.pairs), dtype=bool)
            now, before = (each[free] for each in self.at_pairs(point["M"]))
            pair = point["N"][free]
            found.append(float((np.minimum(now, before) - pair).min(initial=1.0)))
            found.append(min(1.0, _least(pair - (exact(now) + before - 1.0))))
        return found


def _least(x: RoundedArray) -> float:
    """At most the least entry; inf where there is none."""
    return float(np.nextafter(x.value - x.errors, -np.inf).min(initial=np.inf))
