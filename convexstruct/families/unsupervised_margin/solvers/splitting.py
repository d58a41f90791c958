r"""The reduced SDP as a splitting: one consensus (M, N), and copies with one kind of constraint each.

    copies      M - 11'/kappa semidefinite;  N - 11'/kappa^2 semidefinite;  the triples of (11), in the tetrahedron;
                rows of M and rows of N within (9), row by row, so that this copy need not be symmetric
    consensus   entries of M in [0, 1], diagonals 1, and the objective: an average of the copies, entry by entry

One step of Douglas and Rachford (ADMM) at the state w, over-relaxed by alpha:

    z = projection of each copy of w,      x = consensus of 2 z - w,      w <- w + alpha (x - z).

u = w - z are the scaled multipliers. The objective, which is maximised, is <K, M> / s + <E, N> / s with s the largest
cost (`cost_size`); it does not depend on beta.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convexstruct.arrays import Matrix, Point, Vector
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.diagonal import best_diagonal
from convexstruct.families.unsupervised_margin.solvers.tetrahedron import project_tetrahedron

#: Steps of `Splitting.polished`.
POLISHING = 10
#: Where one bound is more than so many times as far from the value of the copies, or of the factors, as the other, the
#: penalty is changed, which brings the farther one nearer.
BOUND_RATIO = 3.0


def cost_size(problem: UnsupervisedMargin) -> float:
    """s: the largest |entry| of K and, where there are pairs, of E, whose entries are 1; 1 where all are 0."""
    return max(float(np.abs(problem.gram).max()), float(problem.n_pairs > 0)) or 1.0


class Splitting:
    """The operators of one problem, on states (d,) that hold the five copies end to end.

    size : s. metric : (d,) square roots of the weights of the entries in the distance between two states.
    """

    def __init__(self, problem: UnsupervisedMargin) -> None:
        self.problem = problem
        n, q = problem.n_rows, problem.n_pairs
        self.size = cost_size(problem)
        self.upper = np.triu_indices(q, 1)
        first, second = self.upper
        self.current = problem.current[first] * n + problem.current[second]
        self.previous = problem.previous[first] * n + problem.previous[second]
        self._tied = np.concatenate((self.current, self.previous))
        count = self._gather(np.ones(len(self._tied)))
        self._copies = count + 2.0
        sizes = (n * n, q * q, 3 * len(self.current), n * n, q * q)
        self._bounds = np.cumsum((0, *sizes))
        self.metric = np.ones(self._bounds[-1])
        self.parts(self.metric)[2][:] = np.sqrt(2.0)  # a triple stands for two entries of each matrix

    def _gather(self, values: Vector) -> Matrix:
        """Values (2 m,) of the triples' entries of M, summed where they belong; (p1, p1), symmetric."""
        n = self.problem.n_rows
        found = np.bincount(self._tied, weights=values, minlength=n * n).reshape(n, n)
        return np.asarray(found + found.T)

    def parts(self, state: Vector) -> list[Any]:
        """Views of a state: M, N of the cones, triples (3, m), M, N of the rows."""
        n, q = self.problem.n_rows, self.problem.n_pairs
        shapes = ((n, n), (q, q), (3, -1 if len(self.current) else 0), (n, n), (q, q))
        bounds = self._bounds
        return [
            state[low:high].reshape(shape) for low, high, shape in zip(bounds[:-1], bounds[1:], shapes, strict=True)
        ]

    def copies(self, m: Matrix, n: Matrix) -> Vector:
        """The state whose copies are all those of (M, N)."""
        flat = m.ravel()
        ties = (flat[self.current], flat[self.previous], n[self.upper])
        return np.concatenate((flat, n.ravel(), *ties, flat, n.ravel()))

    def project(self, state: Vector) -> Vector:
        """z: each copy projected onto its own constraints."""
        found = np.empty_like(state)
        given, wanted = self.parts(state), self.parts(found)
        for i, (share, balance) in enumerate(self.problem.feasible.shares):
            size = len(given[i])
            if size:
                wanted[i][...] = _semidefinite(0.5 * (given[i] + given[i].T) - share) + share
            rows, target = given[i + 3], wanted[i + 3]
            if size > 1:
                sums = rows.sum(axis=1) - np.diagonal(rows) + 1.0
                most, fewest = size * (share + balance), size * (share - balance)
                target[...] = rows - ((sums - np.clip(sums, fewest, most)) / (size - 1))[:, None]
            np.fill_diagonal(target, 1.0)
        wanted[2][...] = project_tetrahedron(given[2])
        return found

    def consensus(self, state: Vector, penalty: float) -> tuple[Matrix, Matrix]:
        """x: the (M, N) of least penalty / 2 times the squared distance to the copies minus the objective."""
        m, n, ties, rows, pair_rows = self.parts(state)
        scale = 1.0 / (self.size * penalty)
        total = 0.5 * (m + m.T + rows + rows.T) + self._gather(ties[:2].ravel()) + scale * self.problem.gram
        m = np.clip(total / self._copies, 0.0, 1.0)
        np.fill_diagonal(m, 1.0)
        together = np.zeros_like(n)
        together[self.upper] = ties[2]
        n = (0.5 * (n + n.T + pair_rows + pair_rows.T) + together + together.T + scale) / 3.0
        np.fill_diagonal(n, 1.0)
        return m, n

    def polished(self, point: Point) -> Point:
        """A nearly feasible point near ``point``: `POLISHING` steps as above, from copies of it, without objective.

        The repair moves a point inside by its largest violation, and omega rises in proportion; these steps raise it
        far less.
        (Feasibility polishing, as Applegate and others 2025 have it for linear programs.)"""
        state = self.copies(point["M"], point["N"])
        for _ in range(POLISHING):
            z = self.project(state)
            state += self.copies(*self.consensus(2.0 * z - state, np.inf)) - z
        return dict(zip("MN", self.parts(self.project(state))))

    def witness(self, multipliers: Vector, penalty: float, m: Matrix) -> Point:
        """The dual point of scaled multipliers u; m is the consensus, which says where entries are at 0 or 1."""
        problem, scale = self.problem, penalty * self.size
        cone, pair_cone, ties, rows, pair_rows = self.parts(scale * multipliers)
        q = problem.n_pairs
        weights = np.zeros((3, q, q))
        for target, values in zip(weights, ties):
            target[self.upper] = values
            target += target.T
        u, v = _of_rows(rows), _of_rows(pair_rows)
        left = problem.gram - 0.5 * (u[:, None] + u) - self._gather(ties[:2].ravel())
        rest = left - 0.5 * (cone + cone.T)
        bound = np.where(m <= 0.0, np.minimum(rest, 0.0), np.where(m >= 1.0, np.maximum(rest, 0.0), 0.0))
        np.fill_diagonal(bound, 0.0)
        of_pairs = 1.0 - 0.5 * (v[:, None] + v) - weights[2]
        return {
            "P": bound,
            "u": u,
            "y": best_diagonal(left - bound, np.diagonal(rest)),
            "v": v,
            "z": best_diagonal(of_pairs, np.diagonal(of_pairs - pair_cone)),
            "W_current": weights[0],
            "W_previous": weights[1],
            "W_pair": weights[2],
        }

    def multipliers(self, witness: Point, penalty: float) -> Vector:
        """Scaled multipliers u of a dual point: the inverse of `witness`."""
        found = np.zeros(self._bounds[-1])
        cone, pair_cone, ties, rows, pair_rows = self.parts(found)
        names = ("W_current", "W_previous", "W_pair")
        for target, name in zip(ties, names):
            target[:] = witness[name][self.upper]
        u, v = witness["u"], witness["v"]
        left = self.problem.gram - 0.5 * (u[:, None] + u) - self._gather(ties[:2].ravel()) - witness["P"]
        cone[...] = left - np.diag(witness["y"])
        pair_cone[...] = 1.0 - 0.5 * (v[:, None] + v) - witness["W_pair"] - np.diag(witness["z"])
        rows[...], pair_rows[...] = u[:, None], v[:, None]
        return found / (penalty * self.size)


def _semidefinite(matrix: Matrix) -> Matrix:
    """The nearest semidefinite matrix, from the positive or the negative eigenvalues, whichever are fewer."""
    values, vectors = np.linalg.eigh(matrix)
    negative = int(np.searchsorted(values, 0.0))
    if 2 * negative >= len(values):
        some = vectors[:, negative:] * np.sqrt(values[negative:])
        return np.asarray(some @ some.T)
    some = vectors[:, :negative] * np.sqrt(-values[:negative])
    return np.asarray(matrix + some @ some.T)


def _of_rows(rows: Matrix) -> Vector:
    """The multiplier of each row: the mean of those of its entries off the diagonal, which are equal but for
    rounding."""
    return np.asarray((rows.sum(axis=1) - np.diagonal(rows)) / max(len(rows) - 1, 1))
