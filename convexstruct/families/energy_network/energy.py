r"""The energy of a convex energy network on the cube, its gradient, and bounds on its least value.

    E(W, y; x) = - y'U x + 1/2 y'Q y + sum_k v_k softplus(a_k'y + b_k),      y in [0, 1]^L,

W = (U, Q, v), with U free, Q positive semidefinite and v >= 0: affine in W and convex in y. The rows (a_k, b_k) of the
hidden layer are given, not learnt. softplus(z) = ln(1 + e^z).

**Bounds.** A convex function lies above its tangents, so with g = grad E(y0), at every y0 in the cube,

    E(y0) - sum_j max(g_j y0_j, - g_j (1 - y0_j))  <=  min over the cube of E  <=  E(y0).

The difference is the gap of Frank and Wolfe; the bound is weak duality with the multipliers g_+ and (-g)_+ of the two
faces. All formulas are evaluated on arrays and on numbers that carry their rounding (`convexstruct.rounding`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Matrix, Tensor, Vector
from convexstruct.rounding import RoundedArray, exact, exp, log, maximum, product

#: `minimise` ends for an example whose gap is below this share of the size of its energy's terms: their rounding.
ENOUGH = 1e-15
#: Newton's steps at most: each example takes a few more than its set of free coordinates changes.
MOST_STEPS = 200
#: One Newton step in so many begins with a sweep over the coordinates. A sweep moves a coordinate off the face that a
#: step has brought it to, and the next step would end there at once.
SWEPT = 4
#: Halvings of a step at most: shorter steps gain less than a pass over the coordinates.
MOST_HALVINGS = 20
#: The share of the decrease that the slope predicts which a step must attain (Armijo).
ARMIJO = 1e-4
#: Added to the diagonal of the Hessian, besides the size of the projected slope, so that it has an inverse: this share
#: of its trace, a few thousand roundings.
RIDGE = 1e-12
#: A coordinate this near to a face that the slope presses against is held too (Bertsekas 1982): one that rounding has
#: moved off it by 1e-16 would end every step there. Thousands of roundings, and too little to matter in any gap.
NEAR = 1e-12
#: Hessians of at most so many entries are held at once.
BLOCK_ENTRIES = 2**22


def softplus(z: Any) -> Any:
    """ln(1 + e^z), without overflow; entry by entry."""
    return maximum(z, 0.0) + log(exp(-abs(z)) + 1.0)


def sigmoid(z: Any) -> Any:
    """1 / (1 + e^-z), the derivative of softplus, without overflow; entry by entry."""
    sign = np.where((z.value if isinstance(z, RoundedArray) else z) >= 0, 1.0, -1.0)
    return sign * (1.0 / (exp(-abs(z)) + 1.0) - 0.5) + 0.5


def units(a: Matrix, b: Vector, y: Matrix, carried: bool) -> Any:
    """a_k'y + b_k for rows y; (n, K). carried : whether the result carries its rounding."""
    return product(y, exact(a.T) if carried else a.T) + b


@dataclass(frozen=True, eq=False)
class Energy:
    """E as a function of y: Q (L, L), v (K,), A (K, L) and b (K,); Q may carry its rounding (`RoundedArray`)."""

    Q: Any
    v: Vector
    A: Matrix
    b: Vector

    def hidden(self, y: Any) -> Any:
        """`units` of the hidden layer."""
        return units(self.A, self.b, y, isinstance(self.Q, RoundedArray))

    def values(self, scores: Any, y: Matrix) -> Any:
        """E of each row of ``y`` (n, L), with ``scores`` U x (n, L); (n,)."""
        found = (product(y, self.Q) * 0.5 - scores) * y
        found = found.sum(axis=1)
        return found + (softplus(self.hidden(y)) * self.v).sum(axis=1) if len(self.v) else found

    def gradient(self, scores: Any, y: Matrix) -> Any:
        """The gradient in y; (n, L)."""
        found = product(y, self.Q) - scores
        if not len(self.v):
            return found
        slopes = sigmoid(self.hidden(y)) * self.v
        if isinstance(slopes, RoundedArray):
            return found + product(self.A.T, slopes.T).T
        return found + slopes @ self.A

    def gaps(self, scores: Any, y: Matrix) -> Any:
        """How far the least value of E may lie below its value at each row of ``y``; (n,)."""
        g = self.gradient(scores, y)
        away = exact(y) - 1.0 if isinstance(g, RoundedArray) else y - 1.0
        return maximum(g * y, g * away).sum(axis=1)

    def hessians(self, y: Matrix) -> Tensor:
        """(n, L, L)."""
        found = np.broadcast_to(self.Q, (len(y), *self.Q.shape))
        if len(self.v):
            slope = sigmoid(self.hidden(y))
            found = found + np.einsum("nk,ki,kj->nij", self.v * slope * (1.0 - slope), self.A, self.A, optimize=True)
        return np.asarray(found)


def factor(matrix: Matrix) -> Matrix:
    """B (L, L) with BB' the part of ``matrix``, symmetric, that is positive semidefinite, up to rounding."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def semidefinite(matrix: Matrix) -> Any:
    """The positive semidefinite part of ``matrix`` as BB', which is so exactly, with its rounding."""
    b = factor(matrix)
    return product(b, exact(b.T))


def minimise(energy: Energy, scores: Matrix, start: Matrix | None = None) -> Matrix:
    """argmin of E over the cube for each row of ``scores`` (n, L), by projected Newton steps (Bertsekas 1982).

    Coordinates at a face that the slope presses against are held; the others take Newton's step, which is projected and
    halved until E falls enough. Where the Hessian has no inverse the step is regularised by the size of the projected
    slope, which keeps it quadratic (Li, Fukushima, Qi and Yamashita 2004). Before one of `SWEPT` of these each
    coordinate in turn is moved to its minimum. (n, L)
    """
    y = np.full(scores.shape, 0.5) if start is None else start.copy()
    block = max(1, BLOCK_ENTRIES // scores.shape[1] ** 2)
    for low in range(0, len(y), block):
        _minimise(energy, scores[low : low + block], y[low : low + block])
    return y


def _minimise(energy: Energy, scores: Matrix, y: Matrix) -> None:
    """As `minimise`, for one block of rows; ``y`` is changed."""
    steepest = energy.Q + 0.25 * (energy.A.T * energy.v) @ energy.A  # at least the Hessian, everywhere
    size = np.abs(scores).sum(axis=1) + np.abs(steepest).sum() + np.abs(energy.v) @ (np.abs(energy.b) + 1.0)
    rest = np.arange(len(y))
    for k in range(MOST_STEPS):
        deadline.check()
        if k % SWEPT == 0:
            y[rest] = _swept(steepest, energy.gradient(scores[rest], y[rest]), y[rest])
        gaps = energy.gaps(scores[rest], y[rest])
        rest = rest[~(gaps <= ENOUGH * size[rest])]
        if not len(rest) or not np.isfinite(gaps).all():
            return
        y[rest] = _step(energy, scores[rest], y[rest], ENOUGH * size[rest])


def _swept(h: Matrix, g: Matrix, y: Matrix) -> Matrix:
    """Each coordinate of the rows in turn at the minimum of the quadratic with slope g at y and the Hessian h."""
    y, g = y.copy(), g.copy()
    for j in range(y.shape[1]):
        face = np.where(g[:, j] > 0.0, 0.0, np.where(g[:, j] < 0.0, 1.0, y[:, j]))
        to = np.clip(y[:, j] - g[:, j] / h[j, j], 0.0, 1.0) if h[j, j] > 0.0 else face
        g += np.multiply.outer(to - y[:, j], h[j])
        y[:, j] = to
    return y


def _step(energy: Energy, scores: Matrix, y: Matrix, rounding: Vector) -> Matrix:
    """One projected Newton step for each row. rounding : what E of a row may be wrong by; (n,).

    A step will do where E falls as Armijo asks, or does not rise beyond its rounding while the gap falls: near the
    minimum of a nearly singular Q a gap of 1e-10 is a fall of 1e-20. Of one that will not, the first shorter one ends
    at the first face, since directions that Q hardly resists are long, and all but useless once they are projected.
    So are those that lead out of the face where a coordinate lies: they are taken again with that coordinate held.
    """
    g = energy.gradient(scores, y)
    low, high, hessians = y <= NEAR, y >= 1.0 - NEAR, energy.hessians(y)
    held = (low & (g >= 0.0)) | (high & (g <= 0.0))
    most = np.abs(g).max(axis=1, keepdims=True)
    reach = np.abs(np.clip(y - g / np.where(most > 0.0, most, 1.0), 0.0, 1.0) - y).max(axis=1)  # 0 at the minimum alone
    i = np.arange(y.shape[1])
    for _ in range(2):
        h = hessians * ~(held[:, :, None] | held[:, None, :])
        ridge = reach * most[:, 0] + RIDGE * np.trace(h, axis1=1, axis2=2)
        h[:, i, i] += np.where(held, 1.0, ridge[:, None])
        direction = -np.linalg.solve(h, np.where(held, 0.0, g)[:, :, None])[:, :, 0]
        outward = (low & (direction < 0.0)) | (high & (direction > 0.0))
        if not outward.any():
            break
        held = held | outward
    before, gaps, length = energy.values(scores, y), energy.gaps(scores, y), np.ones((len(y), 1))
    found, rest = np.clip(y + direction, 0.0, 1.0), np.arange(len(y))
    away, speed = np.where(direction > 0.0, 1.0 - y, y), np.abs(direction)
    reached = np.where((speed > 0.0) & (away > 0.0), away / np.where(speed > 0.0, speed, 1.0), 1.0)
    face = np.minimum(2.0 * reached.min(axis=1, keepdims=True), 1.0)
    for _ in range(MOST_HALVINGS):
        slope = (g[rest] * (found[rest] - y[rest])).sum(axis=1)
        fall = energy.values(scores[rest], found[rest]) - before[rest]
        bad = ~(fall <= ARMIJO * slope)
        bad &= ~((fall <= rounding[rest]) & (energy.gaps(scores[rest], found[rest]) < gaps[rest]))
        rest = rest[bad]
        if not len(rest):
            return found
        length[rest], face[rest] = 0.5 * length[rest] * face[rest], 1.0
        found[rest] = np.clip(y[rest] + length[rest] * direction[rest], 0.0, 1.0)
    found[rest] = y[rest]
    return found
