r"""The energy network of paper 1's slides (SPEN): prediction by T gradient steps, training through all of them.

    E(W, y; x) = - y'U x + sum_k c_k softplus(a_k'y + b_k),       y_0 = F(W, x) = sigmoid(B x),      W = (A, B, U, b, c)
    y_{t+1} = y_t - eta_t grad_y E(W, y_t)              "plain", as the slides have it
    y_{t+1} = the same, clipped to [0, 1]^L             "projected"
    y_{t+1} = sigmoid(logit(y_t) - eta_t grad_y E)      "entropic": the mirror step of the cube's entropy
    J(W) = lam/2 |W|^2 + sum_i [E(W, t_i) - E(W, y_T) + Delta(y_T, t_i)]_+

J is not convex in W. All that is known below is J >= 0, so a solution is a stationary point, and certified only where
its loss is 0. L >= Delta(y_T, t) holds only where E(W, y_T) <= E(W, t), which T steps need not reach.

**Backward pass** (corrected: the slides leave out the term of y_T, pair eta_t with y_{t-1}, and end with minus eta_t
times the gradient of F). With g = dL/dy_T and dW = grad_W L, for t = T-1, .., 0:

    dW <- dW - eta_t H_Wy(y_t) g,      g <- g - eta_t H_yy(y_t) g,      and at the end dW <- dW + (dF/dW)'g,

H_Wy g and H_yy g being the derivatives of grad_W E and grad_y E along g. Where a step is projected, the entries of g at
clipped ones are 0 first; entropic steps have the same recursion in logit(y).

**Products with Hessians**, "exact", or by differences of the gradients, as the slides have them: "central",
[f(y + r g) - f(y - r g)] / 2r, with r relative to |g|, or "forward", [f(y + r g) - f(y)] / r.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Flags, Labels, Matrix, Point, Vector
from convexstruct.brief import brief
from convexstruct.core.certificates import Unconstrained
from convexstruct.families.energy_network.energy import sigmoid, softplus
from convexstruct.rounding import Rounded, RoundedArray, exact, maximum, product, square, summed
from convexstruct.validation.arguments import choice, mapping, number, sentence, whole
from convexstruct.validation.arrays import predictive, real, wholes

KINDS = ("plain", "projected", "entropic")
LOSSES = ("hamming", "squared")
PRODUCTS = ("exact", "central", "forward")
#: Steps diverge where y leaves the cube by so many times its width: no label is read from there.
BEYOND = 1e6


@dataclass(frozen=True)
class Pass:
    """The steps at W. y : y_0 .. y_T, (n, L) each. held : for each step which entries it clipped, None if it clips
    none. diverged : the first step after which some y is beyond `BEYOND`, or None; the steps end there."""

    y: list[Any]
    held: list[Flags | None]
    diverged: int | None


@dataclass(frozen=True, eq=False)
class UnrolledEnergyNetwork(Unconstrained):
    """Examples with several labels each, and the steps of the prediction.

    Attributes
    ----------
    X : (n, d) inputs. labels : (n, L) of 0 and 1. lam : weight of the penalty, at least 0. n_units : K.
    steps : (T,) the lengths eta_t, at least 0; T is at least 1.
    kind : "plain", "projected" or "entropic". loss : "hamming", 1't + (1 - 2t)'y, or "squared", |y - t|^2.
    """

    X: Matrix
    labels: Labels
    lam: float
    n_units: int = 8
    steps: Vector = field(default_factory=lambda: np.full(5, 0.5))
    kind: str = "projected"
    loss: str = "hamming"
    family: ClassVar[str] = "energy_network"

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", real("X", self.X, ("examples", "features")))
        found = wholes("labels", self.labels, ("examples", "labels"), least=0, most=1)
        if len(found) != len(self.X):
            raise ValueError(f"labels has {len(found)} rows, X has {len(self.X)}: wanted one an example")
        object.__setattr__(self, "labels", found)
        object.__setattr__(self, "lam", number("lam", self.lam, least=0))
        object.__setattr__(self, "n_units", whole("n_units", self.n_units, least=1))
        object.__setattr__(self, "steps", real("steps", self.steps, ("T",), least=0.0))
        object.__setattr__(self, "kind", choice("kind", self.kind, KINDS))
        object.__setattr__(self, "loss", choice("loss", self.loss, LOSSES, "which have a gradient"))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays of a point."""
        (n_labels, d), k = (self.labels.shape[1], self.X.shape[1]), self.n_units
        return {"A": (k, n_labels), "B": (n_labels, d), "U": (n_labels, d), "b": (k,), "c": (k,)}

    @cached_property
    def T(self) -> Matrix:
        """The labels as floats (n, L)."""
        return self.labels.astype(np.float64)

    def as_point(self, value: Any) -> Point:
        """Read A (K, L), B (L, d), U (L, d), b (K,) and c (K,) from a mapping."""
        given = mapping("point", value, set(self.shapes))
        return {name: real(name, given[name], shape, finite=False, keep=False) for name, shape in self.shapes.items()}

    def trivial(self) -> tuple[Point, Point]:
        """W = 0, where y_T = 1/2; and nothing, which is all that the bound 0 needs."""
        return {name: np.zeros(shape) for name, shape in self.shapes.items()}, {}

    @property
    def trivial_value(self) -> float:
        """J(0): n L / 2, or n L / 4 with the squared loss."""
        return self.labels.size * (0.5 if self.loss == "hamming" else 0.25)

    # -- the energy, on arrays and on numbers that carry their rounding ------------------------------------------------

    @staticmethod
    def units(point: Point, y: Any) -> Any:
        """a_k'y + b_k, (n, K)."""
        return product(point["A"], y.T).T + point["b"]

    def energies(self, point: Point, scores: Any, y: Any) -> Any:
        """E at each row of y, with ``scores`` U x; (n,)."""
        return (softplus(self.units(point, y)) * point["c"]).sum(axis=1) - (scores * y).sum(axis=1)

    def slope(self, point: Point, scores: Any, y: Any) -> Any:
        """grad_y E; (n, L)."""
        return product(point["A"].T, (sigmoid(self.units(point, y)) * point["c"]).T).T - scores

    def losses(self, y: Any) -> Any:
        """Delta of each example; (n,)."""
        if self.loss == "squared":
            return ((y - self.T) * (y - self.T)).sum(axis=1)
        return ((1.0 - 2.0 * self.T) * y + self.T).sum(axis=1)

    def forward(self, point: Point, x: Matrix, carried: bool = False) -> tuple[Any, Pass]:
        """(scores U x, the steps); if ``carried``, with their rounding."""
        lift = exact if carried else np.asarray
        scores, logits = product(x, lift(point["U"].T)), product(x, lift(point["B"].T))
        y, held = [sigmoid(logits)], list[Flags | None]()
        for t, eta in enumerate(self.steps.tolist()):
            moved = self.slope(point, scores, y[-1]) * eta
            if self.kind == "entropic":
                logits = logits - moved
                y.append(sigmoid(logits))
                held.append(None)
            else:
                there = y[-1] - moved
                plain = there.value if carried else there
                y.append(_clipped(there) if self.kind == "projected" else there)
                held.append((plain <= 0.0) | (plain >= 1.0) if self.kind == "projected" else None)
            last = y[-1].value if carried else y[-1]
            if not (np.abs(last) <= BEYOND).all():
                return scores, Pass(y, held, t)
        return scores, Pass(y, held, None)

    def primal(self, point: Point) -> Rounded:
        """J at W, with its allowance; inf where it is not finite or the steps diverge."""
        if not all(np.isfinite(each).all() for each in point.values()):
            return Rounded(np.inf)
        with np.errstate(all="ignore"):
            scores, found = self.forward(point, self.X, carried=True)
            if found.diverged is not None:
                return Rounded(np.inf)
            y, t = found.y[-1], exact(self.T)
            hinge = self.energies(point, scores, t) - self.energies(point, scores, y) + self.losses(y)
            size = square(exact(np.concatenate([each.ravel() for each in point.values()])))
            value: Rounded = summed(maximum(hinge, 0.0)) + 0.5 * self.lam * size
            return value if np.isfinite(value) else Rounded(np.inf)

    def rounding_reason(self, point: Point, dual_point: Point | None) -> str:
        """That of long steps: each multiplies what those before it are wrong by."""
        longest = float(self.steps.max())
        if len(self.steps) == 1 or longest <= 1.0:
            return ""
        return f"a step of {longest:.1e} multiplies what the steps before it are wrong by: take shorter steps"

    def dual(self, dual_point: Point) -> Rounded:
        """0: the losses and the penalty are at least that."""
        self.dual_residuals(dual_point)
        return Rounded(0.0)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """Empty: the bound 0 needs no witness."""
        mapping("dual_point", dual_point, set())
        return {}

    # -- the gradient of the whole unrolled loss -----------------------------------------------------------------------

    def value_and_gradient(self, point: Point, products: str = "exact", r: float = 1e-5) -> tuple[float, Point]:
        """(J, dJ/dW) by the corrected backward pass; (inf, zeros) where the steps diverge.

        products : "exact", "central" or "forward". r : the step of the differences, relative to |g|.
        """
        scores, found = self.forward(point, self.X)
        gradient = {name: self.lam * each for name, each in point.items()}
        if found.diverged is not None:
            return np.inf, {name: np.zeros(shape) for name, shape in self.shapes.items()}
        y = found.y[-1]
        hinge = self.energies(point, scores, self.T) - self.energies(point, scores, y) + self.losses(y)
        active = (hinge > 0.0).astype(np.float64)
        value = float(hinge @ active) + 0.5 * self.lam * sum(float(np.vdot(each, each)) for each in point.values())
        rise = 2.0 * (y - self.T) if self.loss == "squared" else 1.0 - 2.0 * self.T
        g = active[:, None] * (rise - self.slope(point, scores, y))
        _add(gradient, self.weighted(point, self.T, active), 1.0)
        _add(gradient, self.weighted(point, y, active), -1.0)
        entropic = self.kind == "entropic"
        if entropic:  # from here on g is the derivative in logit(y)
            g = g * y * (1.0 - y)
        for t in range(len(self.steps) - 1, -1, -1):
            eta, y, held = float(self.steps[t]), found.y[t], found.held[t]
            g = g if held is None else np.where(held, 0.0, g)
            of_weights, of_y = self.hessian_products(point, scores, y, g, products, r)
            _add(gradient, of_weights, -eta)
            g = g - eta * (of_y * y * (1.0 - y) if entropic else of_y)
        y = found.y[0]
        gradient["B"] += (g if entropic else g * y * (1.0 - y)).T @ self.X
        return value, gradient

    def weighted(self, point: Point, y: Matrix, weight: Vector) -> Point:
        """sum_i weight_i grad_W E(W, y_i)."""
        z = self.units(point, y)
        s = weight[:, None] * sigmoid(z) * point["c"]
        return {"A": s.T @ y, "U": -(weight[:, None] * y).T @ self.X, "b": s.sum(axis=0), "c": weight @ softplus(z)}

    def hessian_products(
        self, point: Point, scores: Matrix, y: Matrix, g: Matrix, products: str, r: float
    ) -> tuple[Point, Matrix]:
        """(sum_i H_Wy(y_i) g_i, H_yy(y_i) g_i (n, L)): the derivatives of grad_W E and of grad_y E along g."""
        if products != "exact":
            size = np.sqrt((g * g).sum(axis=1))
            step = r / np.where(size > 0.0, size, 1.0)
            ahead, behind = y + step[:, None] * g, y - step[:, None] * g if products == "central" else y
            scale = 1.0 / (2.0 * step) if products == "central" else 1.0 / step
            of_weights = dict(self.weighted(point, ahead, scale))
            _add(of_weights, self.weighted(point, behind, scale), -1.0)
            return of_weights, scale[:, None] * (self.slope(point, scores, ahead) - self.slope(point, scores, behind))
        z, along = self.units(point, y), g @ point["A"].T
        s = sigmoid(z)
        bend = s * (1.0 - s) * point["c"] * along
        return {
            "A": bend.T @ y + (s * point["c"]).T @ g,
            "U": -g.T @ self.X,
            "b": bend.sum(axis=0),
            "c": (s * along).sum(axis=0),
        }, bend @ point["A"]

    # -- what is learnt ------------------------------------------------------------------------------------------------

    def relaxed(self, point: Any, examples: ArrayLike | None = None) -> Matrix:
        """y_T of each example; (n, L). Arguments as in `predict`; ValueError, which names the step, if it diverges."""
        at, d = predictive(self.as_point(point)), self.X.shape[1]
        shape = ("examples", d)
        x = self.X if examples is None else real("examples", examples, shape, why="features as in training")
        with np.errstate(all="ignore"):
            found = self.forward(at, x)[1]
        if found.diverged is not None:
            raise self.diverging(found)
        return np.asarray(found.y[-1])

    def diverging(self, found: Pass) -> ValueError:
        """The sentence that names the step after which y is nowhere near the cube."""
        t, last = found.diverged, np.abs(found.y[-1])
        assert t is not None
        i = int(np.argmax(~(last <= BEYOND).all(axis=1)))
        return sentence(
            f"steps[{t}] is {self.steps[t]:g}, after which y of example {i} is {last[i].max():.1e}, wanted shorter "
            "steps"
        )

    def predict(self, point: Any, examples: ArrayLike | None = None) -> list[Labels]:
        """The labels of each example, 1 where y_T is at least 1/2; (L,) each.

        Parameters
        ----------
        point : A, B, U, b and c, as `as_point` reads them.
        examples : inputs (n, d) without labels; by default those of the problem.

        Raises
        ------
        ValueError
            If ``point`` is none, ``examples`` have another number of features, or the steps diverge.
        """
        return list((self.relaxed(point, examples) >= 0.5).astype(np.int64))


def _clipped(y: Any) -> Any:
    """y in the cube: what it is wrong by does not grow."""
    return RoundedArray(np.clip(y.value, 0.0, 1.0), y.error) if isinstance(y, RoundedArray) else np.clip(y, 0.0, 1.0)


def _add(total: Any, more: Point, factor: float) -> None:
    """total += factor * more, name by name."""
    for name, each in more.items():
        total[name] = total[name] + factor * each
