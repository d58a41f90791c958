"""The planes that a bundle method has found, with the dual point behind each, in a byte or a bit an example.

A plane is <a, w> + b with a = A' alpha, b = <c, alpha>, alpha in Q (`RegularizedRisk.subgradient`). A mixture of planes
with weights beta has the same of its alphas' mixture, so its dual value is a lower bound that the problem can check by
itself. A plane's alpha is a vertex of Q up to one example for each free offset: for each group the piece that is on, or
none, and the few entries that are on in part.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from convexstruct.arrays import Index, Matrix, Vector
from convexstruct.families.regularized_risk.problem import Plane, RegularizedRisk


@dataclass(frozen=True, eq=False)
class Corner:
    """alpha of one plane: ``on`` the place within each group plus one, 0 for none, as bits where groups have one piece;
    ``rows`` and ``values`` of the pieces that are neither."""

    on: NDArray[np.unsignedinteger]
    rows: Index
    values: Vector


@dataclass
class CuttingPlanes:
    """Planes (t, dimension), offsets (t,), their Gram matrix (t, t), and the corner behind each."""

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
    """``alpha`` as a corner of Q and what differs from one."""
    whole = alpha == problem.shares[problem.group]
    rows = np.flatnonzero((alpha != 0) & ~whole)
    if problem.is_box:
        return Corner(np.packbits(whole), rows, alpha[rows])
    chosen = np.flatnonzero(whole)
    group = problem.group[chosen]
    kind = np.min_scalar_type(int(np.diff(problem.loss.start).max()))
    on = np.zeros(problem.loss.n_groups, dtype=kind)
    on[group] = chosen - problem.loss.start[group] + 1
    return Corner(on, rows, alpha[rows])


def unpack(problem: RegularizedRisk, corner: Corner) -> Vector:
    """The alpha that was packed; (m,)."""
    if problem.is_box:
        alpha = np.where(np.unpackbits(corner.on, count=problem.n_pieces) > 0, problem.shares, 0.0)
    else:
        alpha = np.zeros(problem.n_pieces)
        on = np.flatnonzero(corner.on)
        alpha[problem.loss.start[on] + corner.on[on].astype(np.intp) - 1] = problem.shares[on]
    alpha[corner.rows] = corner.values
    return alpha
