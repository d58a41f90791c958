r"""The relaxation in full, C and D tied together and to M, some labels known: both bounds (ours).

    min over (M, N, C, D) of omega(M, N, C, D)                                      Theorem 1's maximum, `.relaxed_loss`
    s.t. (9), (10), (11), C e = e, D e = e and signs, and
         sum_v D_k(u, v) = C_p(k)(u),   sum_u D_k(u, v) = C_c(k)(v),   M_c(k)p(k) = sum_u D_k(u, u),
         C_i = e_u and M_i = column u of C where row i is known to have the label u, D_k and N_k likewise.

**Upper bound** at a point: C and D are replaced by marginals of a distribution, and M and N get the entries that these
and the known labels prescribe. The other constraints (M - CC' and N - DD' semidefinite, (9), (11)) are then met by a
step t towards an interior point: that of independent labels of the rows that are not known, with probabilities that
give each label the same share of all rows (`shares`), and with N moved off the border of (11). That point is strictly
inside where eps1 and eps2 exceed the imbalance that the diagonals of M and N and the known pairs cause in their rows.
Elsewhere there is no upper bound. Along the step the value is bounded by convexity of omega's bound by mu, nu and b.
Prescribed entries are computed with a relative error, within which there is a point that fulfils the equations exactly.

**Lower bound** by a distribution's mu and nu, which make omega linear, and multipliers of the equations and of
M >= CC', N >= DD', the latter made semidefinite. What remains is a linear function of (M, N, C, D), bounded from below
by its minimum over the feasible set of the reduced SDP (`.rounding`) and over rows of C and D that sum to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from convexstruct.arrays import Flags, Labels, Matrix, Point, Vector
from convexstruct.families.unsupervised_margin.eigenvalue import least_eigenvalue
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.relaxed_loss import RelaxedLoss
from convexstruct.families.unsupervised_margin.rounding import largest
from convexstruct.rounding import OUTWARD, UNIT, Rounded, gamma, summed, total
from convexstruct.validation.arguments import mapping
from convexstruct.validation.arrays import real

#: Least share of an allowed label in a table, so that every row of shares has a positive allowed one, whatever the
#: point.
LEAST_ALLOWED = 1e-200
#: Least share of a label at the interior point, relative to 1/kappa, where the known rows have the label often enough.
#: N at less than this part of its interval from the border of (11) is moved by this part towards the middle.
LEAST_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class TiedMargin:
    """The relaxation with ties. known (p1,) : labels, -1 where not known.

    **Point** {"M", "N", "C", "D", "mu", "nu", "b"}. **Dual witness** {"mu", "nu"}, those of the reduced SDP, and
    multipliers "Z_C" (kappa + unknown rows), "Z_D" (kappa^2 + unknown pairs) of M >= CC' and N >= DD',
    "A_previous", "A_current"
    (p2, kappa) and "A_same" (p2,) of the ties, "F" (p1, p1) and "H" (p2, p2) of the known rows of M and N.
    """

    problem: UnsupervisedMargin
    known: Labels
    family: ClassVar[str] = "unsupervised_margin"

    @property
    def trivial_value(self) -> float:
        """p1, the loss of w = 0."""
        return float(self.problem.n_rows)

    def trivial(self) -> tuple[Point, Point]:
        zeros = {name: np.zeros(shape) for name, shape in self._shapes.items()}
        return {**zeros, **self._inside}, {name: zeros[name] for name in ("mu", "nu")}

    @property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        p1, p2, k = self.problem.n_rows, self.problem.n_pairs, self.problem.n_labels
        square: dict[str, tuple[int, ...]] = {"M": (p1, p1), "N": (p2, p2)}
        return square | {"C": (p1, k), "D": (p2, k**2), "mu": (p1, k), "nu": (p2, k**2), "b": (p2, k)}

    @cached_property
    def free(self) -> tuple[Flags, Flags]:
        """(p1,) rows that are not known, (p2,) pairs of which not both rows are."""
        rows = self.known < 0
        return rows, rows[self.problem.previous] | rows[self.problem.current]

    @cached_property
    def allowed(self) -> tuple[Flags, Flags]:
        """(p1, kappa) labels and (p2, kappa^2) pairs of labels that the known ones allow."""
        rows = (self.known[:, None] < 0) | (self.known[:, None] == np.arange(self.problem.n_labels))
        pairs = rows[self.problem.previous][:, :, None] & rows[self.problem.current][:, None]
        return rows, pairs.reshape(self._shapes["D"])

    # -- primal --------------------------------------------------------------------------------------------------------

    def as_point(self, value: Any) -> Point:
        read = mapping("point", value, self._shapes)
        return {name: real(name, read[name], shape, finite=False, keep=False) for name, shape in self._shapes.items()}

    def repair(self, point: Point) -> Point:
        """The point with prescribed entries, moved inside as in `primal`."""
        near, relative = self._prescribed(point)
        t = min(1.0, self._share(near, relative))
        return {**point, **{name: (1.0 - t) * near[name] + t * self._inside[name] for name in "MNCD"}}

    def residuals(self, point: Point) -> Mapping[str, float]:
        """How far the entries are from the prescribed ones, and the violation of the other constraints."""
        if not all(np.isfinite(x).all() for x in point.values()):
            return {"not finite": np.inf}
        near, relative = self._prescribed(point)
        away = max(float(np.abs(near[name] - point[name]).max(initial=0.0)) for name in "MNCD")
        return {"entries not as prescribed": away, "slack below 0": max(0.0, -min(self._slacks(near, relative)))}

    def primal(self, point: Point) -> Rounded:
        """omega's upper bound by mu, nu and b, with an allowance up to a feasible point; inf where none is proved."""
        if not all(np.isfinite(x).all() for x in point.values()):
            return Rounded(np.inf)
        near, relative = self._prescribed(point)
        t = self._share(near, relative)
        if not np.isfinite(t):
            return Rounded(np.inf)
        own = {name: point[name] for name in ("mu", "nu", "b")}
        value, inside = (RelaxedLoss(self.problem, each).primal(own) for each in (near, self._inside))
        problem, beta = self.problem, self.problem.beta
        # of entries off by the relative error: C in K C - beta C, row by row; D in t of each pair; K and E
        moved = (3.0 * float(np.abs(problem.gram).sum()) + 4.0 * problem.n_pairs**2) / beta + problem.n_rows
        further = max(0.0, t * (inside.upper - value.lower)) * OUTWARD + 2.0 * relative * moved
        return Rounded.of(float(value), value.allowance, further)

    def _prescribed(self, point: Point) -> tuple[Point, float]:
        """The point with the prescribed entries, and the relative error of those that are computed."""
        problem, k, y = self.problem, self.problem.n_labels, self.known
        given = (np.maximum(point[name], LEAST_ALLOWED) * allowed for name, allowed in zip("CD", self.allowed))
        c, d, depth = RelaxedLoss(problem, point).distribution(*given)
        m = np.clip(0.5 * (point["M"] + point["M"].T), 0.0, 1.0)
        for i in np.flatnonzero(y >= 0):
            m[i] = m[:, i] = c[:, y[i]]
        same = d[:, np.arange(k) * (k + 1)].sum(axis=1)
        m[problem.current, problem.previous] = m[problem.previous, problem.current] = same
        np.fill_diagonal(m, 1.0)
        now, before = problem.feasible.at_pairs(m)
        n = np.clip(0.5 * (point["N"] + point["N"].T), np.maximum(now + before - 1.0, 0.0), np.minimum(now, before))
        n = np.where(self._settled, now * before, n)
        for at in np.flatnonzero(~self.free[1]):
            n[at] = n[:, at] = d[:, y[problem.previous[at]] * k + y[problem.current[at]]]
        np.fill_diagonal(n, 1.0)
        return {"M": m, "N": n, "C": c, "D": d}, gamma(depth + k + 4)

    @cached_property
    def _settled(self) -> Flags:
        """(p2, p2) where M at the current or the previous rows is known to be 0 or 1, so that (11) leaves N one value:
        the product."""
        of_rows = np.eye(self.problem.n_rows)
        of_rows[np.ix_(self.known >= 0, self.known >= 0)] = 1.0
        now, before = self.problem.feasible.at_pairs(of_rows)
        return np.asarray((now > 0) | (before > 0))

    @property
    def _loose(self) -> Flags:
        """(p2, p2) where N is neither known nor left one value by (11)."""
        pairs = self.free[1]
        return np.asarray(~self._settled & pairs[:, None] & pairs)

    @cached_property
    def shares(self) -> Vector:
        """(kappa,) how probable each label is for a row that is not known, so that all rows together have each label
        equally often; not below `LEAST_SHARE` / kappa where the known rows have it more often already."""
        k, known = self.problem.n_labels, self.known[self.known >= 0]
        wanted = self.problem.n_rows / k - np.bincount(known, minlength=k)
        shares = np.maximum(wanted / max(1, self.problem.n_rows - len(known)), LEAST_SHARE / k)
        return np.asarray(shares / shares.sum())

    @cached_property
    def _inside(self) -> Point:
        """M, N, C and D of independent labels, by `shares` where they are not known."""
        problem, k, y = self.problem, self.problem.n_labels, self.known
        c = np.where(y[:, None] < 0, self.shares, y[:, None] == np.arange(k))
        s, t = problem.current, problem.previous
        d = (c[t][:, :, None] * c[s][:, None]).reshape(-1, k**2)
        m = c @ c.T
        np.fill_diagonal(m, 1.0)
        now, before = problem.feasible.at_pairs(m)
        n = now * before
        after = s[:, None] == t  # pair l goes on where pair k ends: three rows have one label
        three = np.einsum("ku,lu,lu->kl", c[t], c[t], c[s])
        n = np.where(after, three, np.where(after.T, three.T, n))
        # with known labels on both sides of an unknown one, two pairs may never be equal: N is at (11)'s border
        lowest, highest = np.maximum(now + before - 1.0, 0.0), np.minimum(now, before)
        border = self._loose & (np.minimum(n - lowest, highest - n) < LEAST_SHARE * (highest - lowest))
        n = np.where(border, n + LEAST_SHARE * (0.5 * (lowest + highest) - n), n)
        np.fill_diagonal(n, 1.0)
        return {"M": m, "N": n, "C": c, "D": d}

    def _slacks(self, point: Point, relative: float) -> list[float]:
        """Lower bounds on the slacks of what is not prescribed, of every point within the relative error."""
        found = []
        for kept, (m, c), (share, balance) in zip(self.free, (("M", "C"), ("N", "D")), self.problem.feasible.shares):
            x, e = point[m], point[c]
            if not len(x):
                continue
            if kept.any():
                error = 4.0 * relative + gamma(e.shape[1] + 4)
                left = (x - e @ e.T)[np.ix_(kept, kept)]
                found.append(least_eigenvalue(0.5 * (left + left.T), error * len(x)))
            sums = np.abs(x.sum(axis=1) / len(x) - share)
            found.append(balance - float(sums.max()) - relative - gamma(len(x) + 4))
        loose = self._loose
        if loose.any():
            (now, before), n = self.problem.feasible.at_pairs(point["M"]), point["N"]
            tied = np.minimum(np.minimum(now, before) - n, n - (now + before - 1.0))
            found.append(float(tied[loose].min()) - 3.0 * relative - 4.0 * UNIT)
        return found or [0.0]

    def _share(self, near: Point, relative: float) -> float:
        share = 0.0
        for here, slack in zip(self._slacks(near, relative), self._slacks(self._inside, gamma(16))):
            if here < 0.0:
                share = max(share, -here / (slack - here) * OUTWARD if slack > 0.0 else np.inf)
        return share

    # -- dual ----------------------------------------------------------------------------------------------------------

    @property
    def _multipliers(self) -> dict[str, tuple[int, ...]]:
        p1, p2, k = self.problem.n_rows, self.problem.n_pairs, self.problem.n_labels
        rows, pairs = k + int(self.free[0].sum()), k**2 + int(self.free[1].sum())
        ties: dict[str, tuple[int, ...]] = {"A_previous": (p2, k), "A_current": (p2, k), "A_same": (p2,)}
        return {"Z_C": (rows, rows), "Z_D": (pairs, pairs), "F": (p1, p1), "H": (p2, p2), **ties}

    def _read_dual(self, given: Point) -> Point:
        shapes = {"mu": self._shapes["mu"], "nu": self._shapes["nu"], **self._multipliers}
        rest = self.problem.read_dual({name: each for name, each in given.items() if name not in shapes})
        own = {
            name: real(f"dual_point[{name!r}]", given.get(name, np.zeros(shape)), shape, finite=False, keep=False)
            for name, shape in shapes.items()
        }
        return {**rest, **own}

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        finite = all(np.isfinite(array).all() for array in self._read_dual(dual_point).values())
        return {} if finite else {"witness not finite": np.inf}

    def dual(self, dual_point: Point) -> Rounded:
        """The lower bound of any witness with its allowance; -inf where the witness is not finite."""
        w = self._read_dual(dual_point)
        with np.errstate(all="ignore"):
            if not all(np.isfinite(array).all() for array in w.values()):
                return Rounded(-np.inf)
            found = self._lower(w)
            return found if np.isfinite(found) else Rounded(-np.inf)

    def _lower(self, w: Point) -> Rounded:
        problem, k, y, beta = self.problem, self.problem.n_labels, self.known, self.problem.beta
        fixed = RelaxedLoss(problem, {})
        mu, nu, depth = fixed.distribution(w["mu"], w["nu"])
        square, error = fixed.squares(mu, nu)
        error += 2.0 * gamma(depth) * fixed.squares(mu, nu, np.abs)[0]
        # beta (omega - p1) = <costs, (M, N, C, D)> + constant; sizes: the magnitudes that costs are summed from
        costs = {"M": -problem.gram / 2, "N": np.full(self._shapes["N"], -0.5), "C": problem.gram @ mu - beta * mu}
        costs["D"] = np.tile(nu.sum(axis=0), (problem.n_pairs, 1))
        sizes = {name: np.abs(each) for name, each in costs.items()}
        sizes["C"] = np.abs(problem.gram) @ mu + beta * mu

        def add(name: str, at: Any, part: Matrix | Vector) -> None:
            np.add.at(costs[name], at, part)
            np.add.at(sizes[name], at, np.abs(part))

        traces = []
        for kept, (m, c), block in zip(self.free, (("M", "C"), ("N", "D")), ("Z_C", "Z_D")):
            e, rows = self._shapes[c][1], np.flatnonzero(kept)
            z = 0.5 * (w[block] + w[block].T)
            lift = max(0.0, -least_eigenvalue(z)) * OUTWARD
            z[np.diag_indices_from(z)] += lift + 2.0 * UNIT * (lift + float(np.abs(np.diagonal(z)).max(initial=0.0)))
            add(m, np.ix_(rows, rows), -z[e:, e:])
            add(c, rows, -2.0 * z[e:, :e])
            traces.append(summed(np.diagonal(z)[:e]))
        s, t = problem.current, problem.previous
        tables = w["A_previous"][:, :, None] + w["A_current"][:, None]
        tables[:, np.arange(k), np.arange(k)] -= w["A_same"][:, None]
        add("D", np.arange(problem.n_pairs), tables.reshape(-1, k**2))
        add("C", t, -w["A_previous"])
        add("C", s, -w["A_current"])
        for one, other in ((s, t), (t, s)):
            add("M", (one, other), 0.5 * w["A_same"])
        for name, indicator, multipliers, label in (
            ("M", "C", w["F"], y), ("N", "D", w["H"], np.where(self.free[1], -1, y[t] * k + y[s])),
        ):  # fmt: skip
            for i in np.flatnonzero(label >= 0):
                add(name, i, 0.5 * multipliers[i])
                add(name, (slice(None), i), 0.5 * multipliers[i])
                add(indicator, (slice(None), label[i]), -multipliers[i])
        terms = depth + 2 * (problem.n_rows + problem.n_pairs) + 16
        error += gamma(terms) * sum(float(each.sum()) for each in sizes.values()) + 2.0 * problem.kernel_error
        most = largest(problem.feasible, -costs["M"], -costs["N"], w)
        open_to = (np.where(allowed, costs[c], np.inf) for c, allowed in zip("CD", self.allowed))
        least = (summed(each.min(axis=1, initial=np.inf)) for each in open_to)
        parts = [*least, *(Rounded(-float(each), each.allowance) for each in (most, *traces))]
        found = total([*map(float, parts), -square], error + sum(part.allowance for part in parts))
        value = problem.n_rows + float(found) / beta
        return Rounded.of(value, found.allowance / beta, 4.0 * UNIT * (abs(value) + problem.n_rows))
