r"""How far a computed P(w) may lie from the exact one: the allowance of `StructuredSVM.primal`.

The model and gamma(n) are those of `convexstruct.rounding`. With W_f = max_s |w_node[s, f]| and V_k = max |w_edge[k]|,
the terms of any score of example i sum in absolute value to at most

    M_i = sum_v sum_f |x_vf| W_f + sum_e sum_k |z_ek| V_k.

Every decoder adds numbers and takes maxima. Both rounding and maxima are monotone, so a decoder returns the largest of
all labellings' sums, each sum rounded in some order. Its error is therefore at most gamma(n_i) M_i, where n_i bounds
the operations that any term passes through (the longest row of features, and each node and edge a few times). Bounds
from messages (minimum cuts, the local polytope) are sums of maxima too, valid for any messages; the size of the
messages is added to M_i. Then

    |H_i computed - H_i| <= 2 gamma(n_i) (M_i + max_y E_i(y))                  margin scaling
    |H_i computed - H_i| <= 2 (gamma(n_i) + delta) (M_i + 1) max_y E_i(y)      slack scaling

where delta bounds how far the numbered losses are from the sums of costs (`convexstruct.features.graphs.loss_steps`).
The sum of these bounds with weights C omega_i is a product of W with sums over the data that are computed once
(`PrimalRounding`). |w|^2 is summed in blocks, and P by math.fsum, so that their allowances do not grow with the size of
the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from convexstruct.arrays import Matrix, Point, Tensor, Vector
from convexstruct.families.structured_svm.kernel_rounding import of_upper_bound
from convexstruct.families.structured_svm.witness import Posed
from convexstruct.features.graphs.magnitudes import Magnitudes, product, widest
from convexstruct.inference.forests import Forests
from convexstruct.rounding import GREATEST, TINY, UNIT, Rounded, square, times, total


@dataclass(frozen=True, eq=False)
class PrimalRounding:
    """The parts of the allowance that do not depend on w.

    Example i has the weight rho_i = 2 gamma(n_i) (C omega_i / ceiling) (e_i / loss), in units of `UNIT`, with e_i = 1
    under margin scaling, and max_y E_i(y) under slack scaling and for the zero-one loss.

    weighted : sums of |features| with weights rho. plain : the same, unweighted.
    own : sum of rho_i max E_i, or of rho_i where e_i is max E_i. of_messages (N,) : rho, for the size of messages.
    ceiling, loss : the largest C omega_i and the largest e_i (rho divides by 1 if the latter is 0).
    """

    weighted: Magnitudes
    own: float
    of_messages: Vector
    plain: Magnitudes
    ceiling: float
    loss: float

    @classmethod
    def of(cls, problem: Posed) -> PrimalRounding:
        features, loss = problem.features, problem.loss
        plain = Magnitudes.of(features)
        slack = problem.scaling == "slack" and not loss.zero_one
        of_scores = problem.scaling == "slack" or loss.zero_one
        count = plain.longest + 4.0 * (
            features.lengths + np.bincount(features.edge_example, minlength=len(features.lengths))
        )
        count += 24.0 + (loss.numbered.deviation / UNIT if slack else 0.0)
        allowed = 2.0 * count / (1.0 - count * UNIT)  # 2 gamma(n_i) in units of UNIT
        scale = loss.most if of_scores else np.ones(features.n_examples)
        ceiling, largest = float(problem.ceiling.max()), float(scale.max())
        rho = allowed * (problem.ceiling / ceiling) * (scale / (largest or 1.0))
        own = rho if of_scores else rho * loss.most
        return cls(Magnitudes.of(features, rho), float(own.sum()), rho, plain, ceiling, largest)

    def reach(self, widest: tuple[Vector, Vector]) -> float:
        """sum_i M_i."""
        return product(self.plain.node, widest[0]) + product(self.plain.edge, widest[1])

    def of_hinges(self, widest: tuple[Vector, Vector], moved: Vector | None) -> float:
        """The bound on sum_i C omega_i |H_i computed - H_i|."""
        size = product(self.weighted.node, widest[0]) + product(self.weighted.edge, widest[1]) + self.own
        if moved is not None:
            size += product(self.of_messages, moved)
        # for products of features and weights, and of rho and features, that underflow
        lost = TINY * len(self.of_messages) * (float(widest[0].sum()) + float(widest[1].sum()) + 1.0)
        return times(size + lost, UNIT, self.ceiling, self.loss)


def weighed(lam: float, ceiling: Vector, w: Vector, hinge: Vector) -> Rounded:
    """lam/2 |w|^2 + sum_i C omega_i hinge_i with ``ceiling`` C omega (N,), the hinges taken as exact."""
    norm, terms = square(w), ceiling * hinge
    quadratic = 0.5 * lam * float(norm)
    size = float(hinge.sum())
    return Rounded.of(
        *(lambda value: (float(value), value.allowance))(total([quadratic, *terms.tolist()])),
        times(0.5, lam, norm.allowance),
        times(4 * UNIT, quadratic),
        times(4 * UNIT, float(terms.sum())),
        TINY * (size + len(hinge) + 1.0),
    )


class Violated(Protocol):
    """Hinges at a w; both as in the problem's `Evaluation`."""

    @property
    def hinge(self) -> Vector: ...

    @property
    def moved(self) -> Vector | None: ...


class Margin(Posed, Protocol):
    """What P(w) needs of a structural SVM; documented in `StructuredSVM`."""

    @property
    def rounding(self) -> PrimalRounding: ...

    @property
    def forests(self) -> Forests: ...

    def scores(self, w: Vector) -> tuple[Matrix, Tensor]: ...

    def truth_scores(self, node: Matrix, edge: Tensor) -> Vector: ...

    def most_violated(self, w: Vector) -> Violated: ...


def primal(problem: Margin, point: Point) -> Rounded:
    """P(w) and its allowance; inf where scores might overflow."""
    w = point["w"]
    if not (w.any() or problem.loss.most.any()):
        return Rounded(0.0)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        reach = widest(problem.features, w)
        own = problem.rounding
        size = own.reach(reach) + float(problem.loss.most.sum())
        shifts = point.get("shifts")
        if shifts is not None:
            size += 4.0 * float(np.abs(shifts).sum())
        if not size < GREATEST:
            return Rounded(math.inf)
        if shifts is None:
            found = problem.most_violated(w)
            hinge, moved = found.hinge, found.moved
        else:
            node, edge = problem.scores(w)
            upper = problem.forests.upper(node + problem.loss.costs, edge, shifts)
            hinge = np.maximum(upper - problem.truth_scores(node, edge), 0.0)
            moved = problem.forests.moved(shifts)
        value = weighed(problem.lam, problem.ceiling, w, hinge)
        if not math.isfinite(value):
            return Rounded(math.inf)
        # a subnormal C omega_i has an error of up to TINY
        subnormal = TINY * times(own.loss or 1.0, 4.0 * (size + len(hinge)))
        of_kernel = 0.0 if problem.kernel is None else of_upper_bound(problem, problem.kernel, problem.lam, w)
        return Rounded.of(float(value), value.allowance, own.of_hinges(reach, moved), subnormal, of_kernel)
