r"""Low-rank factors for the reduced SDP (Burer and Monteiro 2003), with an augmented Lagrangian for its inequalities.

    M = 11'/kappa + V V',   rows of V (p1, r) of squared length 1 - 1/kappa;      N = 11'/kappa^2 + U U' likewise:

the semidefinite constraints and the diagonals hold by construction. The other constraints, (9), (11) and M >= 0, have
multipliers lambda and a penalty s. A stage minimises over (V, U), by L-BFGS,

    -<K, M> - <E, N> + sum over constraints g <= 0 of (max(0, lambda + s g)^2 - lambda^2) / (2 s),

and then sets lambda <- max(0, lambda + s g). The witness is lambda with the `best_diagonal` for it;
`rounding.lower_bound` makes it feasible like any other witness, so the bounds hold even if the factors are not globally
optimal. The point is (M, N), moved nearer to the feasible set (`Splitting.polished`) and repaired.

Three things make it work:

* s is raised after a stage that left the constraints violated nearly as much as the one before: the multipliers are
  then far from optimal, and an update moves them by s times the violation.
* s is lowered, and the stages are solved more accurately, where the lower bound causes most of the gap: the gradient
  that remains perturbs the multipliers in proportion to s.
* Where stages no longer halve the gap between the bounds, `ReducedADMM` continues from (M, N) and the multipliers. Its
  eigendecompositions cost p1^3, so more such stages are allowed the more rows there are.

A step costs products (p1, p1) x (p1, r); a step of ADMM costs full eigendecompositions. The problem in V has saddle
points where columns of V have vanished. From random factors none was met, and only the witness certifies the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Matrix, Point, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, positive, read_options
from convexstruct.core.quasi_newton import ARMIJO, SEARCH_TRIALS, Pairs
from convexstruct.core.solution import Solution
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.diagonal import best_diagonal
from convexstruct.families.unsupervised_margin.solvers.reduced_admm import ReducedADMM
from convexstruct.families.unsupervised_margin.solvers.splitting import BOUND_RATIO, Splitting, cost_size

#: Columns of a factor beyond the square root of 2 n. With so many there are no local minima that are not global where
#: only the diagonal is constrained (Boumal, Voroninski, Bandeira 2016); with inequalities that is not proved, and only
#: the witness certifies the value.
EXTRA_COLUMNS = 8
#: The penalty is multiplied by ``PENALTY_FACTOR`` after a stage whose violation is above ``VIOLATION_FALL`` times the
#: one before; factors from 4 to 10 are customary (Bertsekas 1982).
PENALTY_FACTOR, VIOLATION_FALL = 4.0, 0.5
#: Where the lower bound is ``BOUND_RATIO`` times as far from the value of the factors as the repaired point's value is,
#: the penalty is divided by ``PENALTY_FACTOR``, and the length of the gradient at which stages end is multiplied by
#: ``GRADIENT_FACTOR``.
GRADIENT_FACTOR = 0.3
#: ADMM takes over after (rows) // ``ROWS_A_STAGE`` stages in a row, at least 1, that did not halve the gap.
ROWS_A_STAGE = 50
#: ADMM's first penalty when it takes over: its first multipliers are then nearly optimal.
ADMM_PENALTY = 15.0


@dataclass(frozen=True)
class LowRank:
    """Burer and Monteiro's factors with an augmented Lagrangian, finished by ADMM.

    penalty : the first s, for a largest cost of 1. steps : L-BFGS steps in a stage, at most. memory : pairs of changes
    that L-BFGS keeps. sharpness : norm of the gradient at which the first stages end. seed : of the random first
    factors.
    """

    penalty: float = 50.0
    steps: int = 200
    memory: int = 15
    sharpness: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(
            self,
            penalty=positive,
            steps=at_least(1),
            memory=at_least(1),
            sharpness=positive,
            seed=at_least(0),
        )

    def iterate(self, problem: UnsupervisedMargin, start: Solution | None = None) -> Iterator[Iterate]:
        lagrangian = _Lagrangian(problem, self.penalty)
        x = lagrangian.first(np.random.default_rng(self.seed), None if start is None else start.point)
        splitting = Splitting(problem)
        pairs, sharp = Pairs(self.memory, len(x)), self.sharpness
        upper, lower, halved, before, stage = np.inf, -np.inf, np.inf, np.inf, 0
        while stage < max(1, problem.n_rows // ROWS_A_STAGE):
            x = self._stage(lagrangian, x, pairs, sharp)
            factors, _ = lagrangian.normal(x)
            x = np.concatenate([factor.ravel() for factor in factors])
            raw = lagrangian.matrices(factors)
            violation = lagrangian.update(raw)
            witness = lagrangian.witness(factors)
            point = dict(problem.repair(splitting.polished(raw)))
            primal, dual = problem.primal(point), problem.dual(witness)
            upper, lower = min(upper, primal.upper), max(lower, dual.lower)
            yield Iterate(
                point, witness, primal.upper, dual.lower, lagrangian.calls, message=f"penalty {lagrangian.penalty:.3g}"
            )
            stage += 1
            if upper - lower <= 0.5 * halved:
                halved, stage = upper - lower, 0
            close = float(problem.primal(raw))
            repaired, left = float(primal) - close, abs(close - float(dual))
            if left > BOUND_RATIO * repaired:
                lagrangian.penalty /= PENALTY_FACTOR
                sharp *= GRADIENT_FACTOR
            elif violation > VIOLATION_FALL * before:
                lagrangian.penalty *= PENALTY_FACTOR
            before = violation
        for later in ReducedADMM(penalty=ADMM_PENALTY).from_point(problem, raw, witness):
            yield replace(later, oracle_calls=later.oracle_calls + lagrangian.calls)

    def _stage(self, lagrangian: _Lagrangian, x: Vector, pairs: Pairs, sharp: float) -> Vector:
        """L-BFGS with backtracking, until the gradient is shorter than ``sharp``."""
        value, gradient = lagrangian.at(x)
        pairs.clear()
        for _ in range(self.steps):
            deadline.check()
            if not float(np.linalg.norm(gradient)) > sharp:
                break
            step = -pairs.solve(np.asarray, gradient, True)
            slope = float(step @ gradient)
            if not len(pairs) or slope >= 0.0:
                pairs.clear()
                step = -gradient
                slope = float(step @ gradient)
            t = 1.0
            for _ in range(SEARCH_TRIALS):
                after, bent = lagrangian.at(x + t * step)
                if after <= value + ARMIJO * t * slope:
                    break
                t *= 0.5
            else:
                break  # no decrease beyond rounding
            pairs.add(t * step, bent - gradient)
            x, value, gradient = x + t * step, after, bent
        return x


class _Lagrangian:
    """The augmented Lagrangian on vectors (d,) that hold V and U; ``calls`` counts its evaluations.

    All of it is divided by the largest cost, `cost_size`.
    """

    def __init__(self, problem: UnsupervisedMargin, penalty: float) -> None:
        self.problem, self.penalty, self.calls = problem, penalty, 0
        sizes = n, q = problem.n_rows, problem.n_pairs
        self.size = cost_size(problem)
        self.gram = problem.gram / self.size
        self.shares = [share for share, _ in problem.feasible.shares]
        self.bands = [(m * (share - eps), m * (share + eps)) for m, (share, eps) in zip(sizes, problem.feasible.shares)]
        self.shapes = [(m, min(m, EXTRA_COLUMNS + int(np.ceil(np.sqrt(2.0 * m))))) for m in sizes]
        first, second = np.triu_indices(q, 1)
        self.upper, self.lower = first * q + second, second * q + first
        self.current = problem.current[first] * n + problem.current[second]
        self.previous = problem.previous[first] * n + problem.previous[second]
        self.both = np.concatenate((self.current, self.previous))
        seen = np.zeros((n, n), dtype=bool)
        seen.ravel()[self.both] = True
        self.untied = np.flatnonzero(np.triu(~(seen | seen.T), 1).ravel())
        #: Multipliers of -N, N - M (current), N - M (previous), M + M - 1 - N <= 0 above the diagonal; of the rows (9);
        #: of -M <= 0 at entries that are in no (11).
        self.ties = np.zeros((4, len(first)))
        self.rows = [np.zeros(m) for m in sizes]
        self.signs = np.zeros(len(self.untied))

    def first(self, rng: np.random.Generator, point: Point | None) -> Vector:
        """Factors of a point, or random ones; columns beyond the rank of the point are small and random."""
        found = []
        for shape, share, name in zip(self.shapes, self.shares, "MN"):
            factor = rng.normal(size=shape)
            if point is not None:
                values, vectors = np.linalg.eigh(point[name] - share)
                some = slice(len(values) - shape[1], None)
                factor = vectors[:, some] * np.sqrt(np.maximum(values[some], 0.0)) + 1e-3 * factor
            found.append(factor.ravel())
        return np.concatenate(found)

    def normal(self, x: Vector) -> tuple[list[Matrix], list[Vector]]:
        """The factors with rows scaled to the right length, and the numbers by which the rows were divided."""
        parts = np.split(x, [self.shapes[0][0] * self.shapes[0][1]])
        tables = [part.reshape(shape) for part, shape in zip(parts, self.shapes)]
        lengths = [np.sqrt(np.einsum("ij,ij->i", v, v) / (1.0 - share)) for v, share in zip(tables, self.shares)]
        return [v / length[:, None] for v, length in zip(tables, lengths)], lengths

    def matrices(self, factors: list[Matrix]) -> Point:
        return {name: v @ v.T + share for name, v, share in zip("MN", factors, self.shares)}

    def shifted(self, point: Point) -> tuple[Matrix, list[Vector], Vector]:
        """max(0, lambda + s g) of the ties (4, m), the rows (that of the upper bound less that of the lower) and the
        signs."""
        m, n = point["M"].ravel(), point["N"].ravel()
        a, b, c = m[self.current], m[self.previous], n[self.upper]
        ties = np.stack((-c, c - a, c - b, a + b - c - 1.0))
        ties *= self.penalty
        ties += self.ties
        np.maximum(ties, 0.0, out=ties)
        rows = []
        for x, (low, high), row in zip(point.values(), self.bands, self.rows):
            sums, weight = x.sum(axis=1), self.penalty / max(len(x), 1)
            rows.append(np.maximum(row + weight * (sums - high), 0.0) + np.minimum(row + weight * (sums - low), 0.0))
        return ties, rows, np.maximum(self.signs - self.penalty * m[self.untied], 0.0)

    def update(self, point: Point) -> float:
        """Set lambda <- max(0, lambda + s g). Returns the norm of its change divided by s, which measures the
        violation."""
        before = (self.ties, self.signs, *self.rows)
        self.ties, self.rows, self.signs = self.shifted(point)
        weights = (2.0, 2.0, *map(len, self.rows))
        changes = zip(weights, (self.ties, self.signs, *self.rows), before)
        return float(np.sqrt(sum(w * float(np.sum((a - b) ** 2)) for w, a, b in changes))) / self.penalty

    def at(self, x: Vector) -> tuple[float, Vector]:
        """The value, up to a constant, and its gradient."""
        self.calls += 1
        factors, lengths = self.normal(x)
        point = self.matrices(factors)
        ties, rows, signs = self.shifted(point)
        value = -float(np.vdot(self.gram, point["M"])) - float(point["N"].sum()) / self.size
        value += (float(np.vdot(ties, ties)) + float(signs @ signs)) / self.penalty
        value += sum(len(row) * float(row @ row) for row in rows) / (2.0 * self.penalty)
        gradients = []
        for v, left, length, share in zip(factors, self.left(ties, rows, signs), lengths, self.shares):
            gradient = -2.0 * (left @ v)
            gradient -= (np.einsum("ij,ij->i", gradient, v) / (1.0 - share))[:, None] * v
            gradients.append((gradient / length[:, None]).ravel())
        return value, np.concatenate(gradients)

    def left(self, ties: Matrix, rows: list[Vector], signs: Vector) -> tuple[Matrix, Matrix]:
        """M~ and N~ of these multipliers."""
        n, q = self.problem.n_rows, self.problem.n_pairs
        weights = np.concatenate((ties[1] - ties[3], ties[2] - ties[3]))
        pulled = np.bincount(self.both, weights, n * n).astype(np.float64, copy=False)  # no weights: integers
        pulled[self.untied] += signs
        table = pulled.reshape(n, n)
        u, v = 0.5 * rows[0], 0.5 * rows[1]
        of_pairs = np.zeros(q * q)
        of_pairs[self.upper] = of_pairs[self.lower] = ties[0] + ties[3] - ties[1] - ties[2]
        return table + table.T + self.gram - u[:, None] - u, of_pairs.reshape(q, q) - (v - 1.0 / self.size)[:, None] - v

    def witness(self, factors: list[Matrix]) -> Point:
        """The multipliers as a dual point."""
        q, scale = self.problem.n_pairs, self.size
        diagonals = []
        for v, left, share in zip(factors, self.left(self.ties, self.rows, self.signs), self.shares):
            y = np.einsum("ij,ij->i", left @ v, v) / (1.0 - share)
            diagonals.append(scale * best_diagonal(left, y))
        none, current, previous, both = scale * self.ties
        weights = np.zeros((3, q * q))
        for target, values in zip(weights, (both - current, both - previous, current + previous - both - none)):
            target[self.upper] = target[self.lower] = values
        p = np.zeros(self.problem.n_rows**2)
        p[self.untied] = -scale * self.signs
        table = p.reshape(self.problem.n_rows, -1)
        names = ("W_current", "W_previous", "W_pair")
        return dict(zip(names, weights.reshape(3, q, q))) | {
            "P": table + table.T,
            "u": scale * self.rows[0],
            "y": diagonals[0],
            "v": scale * self.rows[1],
            "z": diagonals[1],
        }
