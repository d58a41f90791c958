"""The planes that a bundle method has found, and the dual point of each, stored in a byte an example.

A plane is <a, w> + b with a = A' alpha, b = <c, alpha>, alpha in Q (`RegularizedRisk.subgradient`). The mixture of the
planes with weights beta belongs to the mixture of their alphas, so that the problem can compute its dual value, a lower
bound, from that alpha alone. The alpha of a plane is a vertex of Q except at one example for each free offset. So what
is stored is, for each group, which piece has the group's whole share (or that none has), and the few entries that are
neither 0 nor a whole share.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from convexstruct.arrays import Index, Matrix, Vector
from convexstruct.families.regularized_risk.problem import Plane, RegularizedRisk


@dataclass(frozen=True, eq=False)
class Corner:
    """alpha of one plane.

    on : for each group 1 + the place of the piece that has the whole share, 0 if none has. rows, values : the pieces
    that have a part of their share, and what they have.
    """

    on: NDArray[np.unsignedinteger]
    rows: Index
    values: Vector


@dataclass
class CuttingPlanes:
    """Planes (t, dimension), offsets (t,), their Gram matrix (t, t), and the alpha of each."""

    problem: RegularizedRisk
    a: Matrix = field(init=False)
    b: Vector = field(init=False)
    gram: Matrix = field(init=False)
    corners: list[Corner] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._planes = np.empty((16, self.problem.dimension))
        self._gram = np.empty((16, 16))
        self._b = np.empty(16)
        self._view(0)

    def __len__(self) -> int:
        return len(self.corners)

    def add(self, plane: Plane) -> None:
        t = len(self)
        if t == len(self._b):
            self._planes = np.concatenate((self._planes, np.empty_like(self._planes)))
            self._b = np.concatenate((self._b, np.empty_like(self._b)))
            grown = np.empty((2 * t, 2 * t))
            grown[:t, :t] = self._gram
            self._gram = grown
        self._planes[t] = plane.a.ravel()
        self._b[t] = plane.b
        self._gram[t, : t + 1] = self._gram[: t + 1, t] = self._planes[: t + 1] @ self._planes[t]
        self.corners.append(pack(self.problem, plane.alpha))
        self._view(t + 1)

    def _view(self, t: int) -> None:
        self.a, self.b, self.gram = self._planes[:t], self._b[:t], self._gram[:t, :t]

    def mixture(self, beta: Vector) -> Vector:
        """sum_j beta_j alpha_j; (m,)."""
        alpha = np.zeros(self.problem.n_pieces)
        for weight, corner in zip(beta, self.corners):
            if weight > 0:
                alpha += weight * unpack(self.problem, corner)
        return alpha


def pack(problem: RegularizedRisk, alpha: Vector) -> Corner:
    """``alpha``, stored as `Corner` says."""
    whole = alpha == problem.shares[problem.group]
    rows = np.flatnonzero((alpha != 0) & ~whole)
    chosen = np.flatnonzero(whole)
    group = problem.group[chosen]
    kind = np.min_scalar_type(int(np.diff(problem.loss.start).max()))
    on = np.zeros(problem.loss.n_groups, dtype=kind)
    on[group] = chosen - problem.loss.start[group] + 1
    return Corner(on, rows, alpha[rows])


def unpack(problem: RegularizedRisk, corner: Corner) -> Vector:
    """The alpha that was packed; (m,)."""
    alpha = np.zeros(problem.n_pieces)
    on = np.flatnonzero(corner.on)
    alpha[problem.loss.start[on] + corner.on[on].astype(np.intp) - 1] = problem.shares[on]
    alpha[corner.rows] = corner.values
    return alpha
