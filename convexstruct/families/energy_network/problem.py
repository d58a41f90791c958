r"""Training a convex energy network: the structural hinge of paper 1's energy networks where it is convex, certified.

    J(W) = lam/2 |W|^2 + sum_i max over y in [0, 1]^L of [E(W, t_i; x_i) - E(W, y; x_i) + Delta(t_i, y)]

    E(W, y; x) = - y'U x + 1/2 y'Q y + sum_k v_k softplus(a_k'y + b_k),     Q positive semidefinite, v >= 0  (`energy`)
    Delta(t, y) = sum_j |y_j - t_j| = 1't + (1 - 2t)'y      Hamming's loss, t in {0, 1}^L

The slides' loss is [E(W, y_i) - E(W, y_T) + Delta(y_T, y_i)]_+ at the prediction y_T; here the maximum over the cube
stands in its place, which is at least 0 (y = t_i). E is affine in W, so J is convex; E is convex in y, so the maximum
is of a concave function. (The slides state neither the convex case nor its dual: both are ours.)

**Dual.** E(W, t) - E(W, y) = - <W, s(y)>, and minimum and maximum may be swapped (Sion), one y an example:

    D(Y) = sum_i Delta(t_i, y_i) - (|s_U|^2 + |(s_Q)_psd|^2 + |(s_v)_+|^2) / (2 lam),      Y in [0, 1]^(N x L),

    s_U = - (Y - T)'X,    s_Q = (Y'Y - T'T) / 2,    s_v = sum_i softplus(A y_i + b) - softplus(A t_i + b).

D is concave, a lower bound at every Y in the cube, and W(Y) = (s_U, (s_Q)_psd, (s_v)_+) / lam is the W that it is the
minimum at. There its gradient is minus that of the loss-augmented energy, d_i + U x_i - ..., with d_i = 1 - 2 t_i. A
dual point is r = |Y - T| in [0, 1]^(N x L), how far each label has moved from the truth: near a separable optimum it is
far below 2^-53. With M = Y - T = (1 - 2T) r, s_Q = (M'T + T'M + M'M) / 2.

**Bounds.** The length of the psd part of S is the least |S + N| over semidefinite N; N = BB' from a computed factor B
is semidefinite exactly. J at W is bounded from above by the tangent of the loss-augmented energy at the y that
`minimise` finds. A point whose Q is semidefinite up to rounding stands for the product of its factor with itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from convexstruct.arrays import OPTIONAL, Labels, Matrix, Point
from convexstruct.brief import brief
from convexstruct.families.energy_network.energy import Energy, factor, minimise, semidefinite, softplus, units
from convexstruct.families.energy_network.inference import EnergyInference, layer, outside, read_cube, read_hidden
from convexstruct.features.graphs.feature_sizes import uneven
from convexstruct.rounding import Rounded, RoundedArray, adjoint, exact, maximum, product, square, summed
from convexstruct.tolerances import ROUNDING
from convexstruct.validation.arguments import mapping, number
from convexstruct.validation.arrays import predictive, real, wholes
from convexstruct.validation.sparse import matrix


@dataclass(frozen=True, eq=False)
class ConvexEnergyNetwork:
    """Examples with several labels each, and the hidden layer of their energy.

    Attributes
    ----------
    X : (N, d) inputs, dense or sparse; a column of ones gives each label a bias.
    labels : (N, L) of 0 and 1, the true labels t_i.
    lam : weight of the penalty, positive.
    hidden : (K, L + 1) rows (a_k, b_k), given; None for the quadratic energy alone.
    """

    X: Any
    labels: Labels
    lam: float
    hidden: Matrix | None = field(default=None, metadata=OPTIONAL)
    family: ClassVar[str] = "energy_network"

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", matrix("X", self.X, "examples", "features"))
        found = wholes("labels", self.labels, ("examples", "labels"), least=0, most=1)
        if len(found) != self.X.shape[0]:
            raise ValueError(f"labels has {len(found)} rows, X has {self.X.shape[0]}: wanted one an example")
        object.__setattr__(self, "labels", found)
        object.__setattr__(self, "lam", number("lam", self.lam, above=0))
        object.__setattr__(self, "hidden", read_hidden(self.hidden, found.shape[1]))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays of a point: U (L, d), Q (L, L), and v (K,) where there is a hidden layer."""
        n_labels = self.labels.shape[1]
        found: dict[str, tuple[int, ...]] = {"U": (n_labels, self.X.shape[1]), "Q": (n_labels, n_labels)}
        return found if self.hidden is None else {**found, "v": (len(self.hidden),)}

    @cached_property
    def T(self) -> Matrix:
        """The labels as floats (N, L)."""
        return self.labels.astype(np.float64)

    @property
    def trivial_value(self) -> float:
        """J(0) = N L."""
        return float(self.labels.size)

    def trivial(self) -> tuple[Point, Point]:
        """W = 0, and r = 0 (Y = T), whose bound is 0."""
        return {name: np.zeros(shape) for name, shape in self.shapes.items()}, {"r": np.zeros(self.T.shape)}

    def energy(self, point: Point, carried: bool = False) -> Energy:
        """E at the weights of ``point``; if ``carried``, with its rounding, and Q exactly semidefinite."""
        q = point["Q"]
        return Energy(semidefinite(q) if carried else q, point.get("v", np.zeros(0)), *layer(self.hidden, q.shape[0]))

    # -- primal --------------------------------------------------------------------------------------------------------

    def as_point(self, value: Any) -> Point:
        """Read U (L, d), Q (L, L) and, with a hidden layer, v (K,), from a mapping. Only the symmetric part of Q enters
        E, and it is what is kept."""
        given = mapping("point", value, set(self.shapes))
        found = {name: real(name, given[name], shape, finite=False, keep=False) for name, shape in self.shapes.items()}
        with np.errstate(all="ignore"):
            return {**found, "Q": 0.5 * found["Q"] + 0.5 * found["Q"].T}

    def residuals(self, point: Point) -> Mapping[str, float]:
        """The least eigenvalue of Q and the least v, where negative, relative to the largest entry."""
        q, v = point["Q"], point.get("v", np.zeros(0))
        if not (np.isfinite(q).all() and np.isfinite(v).all()):
            return {"Q not semidefinite": np.inf}
        size = float(np.abs(q).max())
        lowest = float(np.linalg.eigvalsh(q / size)[0]) if size else 0.0
        found = {"Q not semidefinite": -lowest if lowest < -ROUNDING else 0.0}  # what `primal` corrects exactly
        below = float(-v.min(initial=0.0))
        return found if self.hidden is None else {**found, "v below 0": below / (float(np.abs(v).max()) or 1.0)}

    def repair(self, point: Point) -> Point:
        """The nearest feasible point: the semidefinite part of Q, and v_+."""
        found = dict(point)
        if np.isfinite(point["Q"]).all():
            b = factor(point["Q"])
            found["Q"] = b @ b.T
        return found | ({} if self.hidden is None else {"v": np.maximum(point["v"], 0.0)})

    def scores(self, point: Point) -> Matrix:
        """U x of each example plus d = 1 - 2 t, the linear term of the loss-augmented energy E - Delta + 1't, whose
        value at t less that at y is E(t) - E(y) + Delta(y); (N, L)."""
        return np.asarray(self.X @ point["U"].T) + (1.0 - 2.0 * self.T)

    def worst(self, point: Point, start: Matrix | None = None) -> Matrix:
        """argmax over the cube of [Delta - E] for each example: loss-augmented inference; (N, L)."""
        return minimise(self.energy(point), self.scores(point), start)

    def value(self, point: Point, y: Matrix) -> float:
        """An upper bound on J at ``point``, from y near the worst of each example, without regard to rounding."""
        energy, scores = self.energy(point), self.scores(point)
        losses = energy.values(scores, self.T) - energy.values(scores, y) + energy.gaps(scores, y)
        size = sum(float(np.vdot(each, each)) for each in point.values())
        return 0.5 * self.lam * size + float(losses.sum())

    def stretched(self, point: Point, y: Matrix) -> tuple[Point, float]:
        """W, or the multiple of it that the largest slope left at ``y`` asks for, and its `value`: where every loss is
        nearly 0, a loss of that size is more than what a longer W costs."""
        left = float(((2.0 * self.T - 1.0) * self.energy(point).gradient(self.scores(point), y)).max())
        tried = [point, {name: (1.0 + min(max(left, 0.0), 1.0)) * each for name, each in point.items()}]
        value, _, point = min((self.value(each, self.worst(each, y)), i, each) for i, each in enumerate(tried))
        return point, value

    def primal(self, point: Point) -> Rounded:
        """J at ``point``, of which Q and v are taken as the nearest feasible ones; inf where it is not finite."""
        if not all(np.isfinite(each).all() for each in point.values()):
            return Rounded(np.inf)
        point = {**point, "v": np.maximum(point["v"], 0.0)} if "v" in point else point
        with np.errstate(all="ignore"):
            try:
                y = self.worst(self.repair(point))
                energy = self.energy(point, carried=True)
            except np.linalg.LinAlgError:  # entries so large that products overflow
                return Rounded(np.inf)
            scores = product(self.X, exact(point["U"].T)) + (1.0 - 2.0 * self.T)
            losses = energy.values(scores, self.T) - energy.values(scores, y)
            size = square(exact(point["U"])) + square(energy.Q) + square(exact(energy.v))
            value = 0.5 * self.lam * size + summed(losses)
            gap = summed(energy.gaps(scores, y)).upper
            return Rounded.of(value, value.allowance, gap) if np.isfinite(value + gap) else Rounded(np.inf)

    # -- dual ----------------------------------------------------------------------------------------------------------

    def statistics(self, r: Any) -> tuple[Any, Any, Any]:
        """(s_U (L, d), s_Q (L, L), s_v (K,)) at r (N, L), an array or one that carries its rounding."""
        carried, m = isinstance(r, RoundedArray), (1.0 - 2.0 * self.T) * r
        plain = m.value if carried else m
        both = adjoint(self.T, m)
        s_u, s_q = adjoint(self.X, -m).T, 0.5 * (both + both.T + adjoint(plain, m))
        if self.hidden is None:
            return s_u, s_q, np.zeros(0)
        a, b = layer(self.hidden, self.T.shape[1])
        before, rise = units(a, b, self.T, carried), units(a, np.zeros_like(b), plain, carried)
        return s_u, s_q, (softplus(before + rise) - softplus(before)).sum(axis=0)

    def weights(self, r: Matrix) -> Point:
        """W(Y), the weights that r = |Y - T| is the dual point of."""
        s_u, s_q, s_v = self.statistics(r)
        b = factor(s_q)
        found = {"U": s_u / self.lam, "Q": b @ b.T / self.lam}
        return found if self.hidden is None else {**found, "v": np.maximum(s_v, 0.0) / self.lam}

    def bound(self, r: RoundedArray) -> Rounded:
        """D at r in the cube."""
        s_u, s_q, s_v = self.statistics(r)
        size = square(s_u) + square(s_q + semidefinite(-s_q.value)) + square(maximum(s_v, 0.0))
        value: Rounded = summed(r) - size / (2.0 * self.lam)
        return value

    def dual(self, dual_point: Point) -> Rounded:
        """D at r, clipped to the cube; -inf where r is not finite."""
        r = read_cube("dual_point", dual_point, self.T.shape, "r")["r"]
        if not np.isfinite(r).all():
            return Rounded(-np.inf)
        with np.errstate(all="ignore"):
            try:
                value = self.bound(exact(np.clip(r, 0.0, 1.0)))
            except np.linalg.LinAlgError:
                return Rounded(-np.inf)
            return value if np.isfinite(value) else Rounded(-np.inf)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """How far entries lie outside 0 and 1."""
        return outside(read_cube("dual_point", dual_point, self.T.shape, "r"))

    def rounding_reason(self, point: Point, dual_point: Point | None) -> str:
        """What makes the allowances large: features of very different sizes, or a small lam."""
        said = uneven("feature {}", self.X)
        return said or f"lam = {self.lam:.1e} lets large terms cancel: take a larger lam"

    # -- what is learnt ------------------------------------------------------------------------------------------------

    def inference(self, point: Any, examples: Any = None) -> EnergyInference:
        """The problem of finding the least energy of each example; arguments as in `predict`.

        Raises
        ------
        ValueError
            If ``point`` is none or not feasible, or ``examples`` have another number of features.
        """
        at = predictive(self.repair(self.as_point(point)))
        d = self.X.shape[1]
        x = self.X if examples is None else matrix("examples", examples, "examples", d, why="features as in training")
        return EnergyInference(np.asarray(x @ at["U"].T), at["Q"], self.hidden, at.get("v"))

    def predict(self, point: Any, examples: Any = None) -> list[Labels]:
        """The labels of each example, 1 where the least energy has y_j >= 1/2; (L,) each.

        Parameters
        ----------
        point : U, Q and v, as `as_point` reads them.
        examples : inputs (n, d) without labels; by default those of the problem.

        Raises
        ------
        ValueError
            As `inference`.
        """
        problem = self.inference(point, examples)
        return problem.predict(minimise(problem.energy, problem.scores))
