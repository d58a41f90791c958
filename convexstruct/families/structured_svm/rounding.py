r"""P(w) of a structural SVM with the rounding of its sums.

The formula is `objective`, on floats in the loop and on numbers with their errors in `primal`. A hinge H_i is a maximum
over labellings of sums of scores. Every decoder adds numbers and takes maxima, both monotone, so that it returns the
largest of all labellings' sums, each sum rounded in some order. With M_i and e_i the sums over nodes and edges of the
largest |score| and its largest error (`score_errors`), and n_i bounding the additions that a term passes through (each
node and edge a few times),

    |H_i computed - H_i| <= 2 (e_i + gamma(n_i) (M_i + max_y E_i(y)))                  margin scaling
    |H_i computed - H_i| <= 2 (e_i + (gamma(n_i) + delta) (M_i + 1)) max_y E_i(y)      slack scaling, zero-one loss

where delta bounds how far the numbered losses are from the sums of costs (`convexstruct.features.graphs.loss_steps`).
Bounds from messages (minimum cuts, the local polytope) are sums of maxima too, valid for any messages; the size of the
messages is added to M_i.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from convexstruct.arrays import Point, Vector
from convexstruct.families.structured_svm.kernel_rounding import of_upper_bound
from convexstruct.families.structured_svm.witness import Posed
from convexstruct.features.graphs.score_errors import score_errors
from convexstruct.rounding import GREATEST, Rounded, RoundedArray, exact, gammas, square, summed


def objective(lam: float, ceiling: Any, w: Vector, hinge: Any) -> Rounded:
    """lam/2 |w|^2 + sum_i C omega_i hinge_i, with ``ceiling`` C omega (N,)."""
    value: Rounded = 0.5 * lam * square(w) + summed(ceiling * hinge)
    return value


def primal(problem: Posed, point: Point) -> Rounded:
    """P(w) and its allowance; inf where scores might overflow."""
    w = point["w"]
    if not (w.any() or problem.loss.most.any()):
        return Rounded(0.0)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        value: Rounded = 0.5 * problem.lam * square(w) + problem.hinge_sum(point)
        if problem.kernel is not None:
            value = Rounded.of(value, value.allowance, of_upper_bound(problem, problem.kernel, problem.lam, w))
        return value if math.isfinite(value) else Rounded(math.inf)


def hinge_sum(problem: Posed, point: Point) -> Rounded:
    """sum_i C omega_i H_i(w) and its allowance; inf where scores might overflow."""
    if problem.shards is not None and "shifts" not in point:
        return problem.shards.total(problem.hinge_sum, point)
    features, most = problem.features, problem.loss.most
    w = point["w"][: features.dimension]
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        size, error = (each.sum(axis=0) for each in score_errors(features, w))
        shifts = point.get("shifts")
        if shifts is not None:
            size = size + problem.forests.moved(shifts)
        if not float(size.sum()) + float(most.sum()) < GREATEST:
            return Rounded(math.inf)
        if shifts is None:
            found = problem.most_violated(w)
            hinge = found.hinge
            size = size if found.moved is None else size + found.moved
        else:
            node, edge = problem.scores(w)
            upper = problem.forests.upper(node + problem.loss.costs, edge, shifts)
            hinge = np.maximum(upper - problem.truth_scores(node, edge), 0.0)
        rate = gammas(4.0 * (features.lengths + np.diff(features.edge_start)) + 24.0)
        if problem.loss.zero_one:
            error = 2.0 * (error + rate * (size + 1.0)) * most
        elif problem.scaling == "slack":
            error = 2.0 * (error + (rate + problem.loss.numbered.deviation) * (size + 1.0)) * most
        else:
            error = 2.0 * (error + rate * (size + most))
        ceiling = exact(problem.weights) * problem.scale.C
        return summed(ceiling * RoundedArray(hinge, error))
