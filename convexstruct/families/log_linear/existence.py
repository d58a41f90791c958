r"""Whether moments are those of a distribution, and whether a maximum of the likelihood exists (paper 4, 20.3).

The moments of all distributions are a polytope, {features z : z clique tables that agree} (`FactorPolytope`). Without a
penalty the likelihood has a maximum if and only if the moments lie in its relative interior, that is, if some z > 0 has
them, with z of the entries in the support: all others are 0. Outside the polytope it has no finite supremum, and on the
border it has one that is not attained. Two linear programs decide between these cases:

    the least sum of |features z - m|       above 0: no distribution has the moments
    the largest t with z >= t, E f = m      0: on the border

The multipliers y of E f = m prove it: as a function of the moments the largest t is concave, at most t - <y, m' - m>,
and not below 0 at m' = f(x) of any x. So at the border <y', f(x)> <= <y', m> for all x, with y' = -y: the likelihood
does not fall along y', and it rises if some x has less. The exact oracle checks both before the direction is reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Matrix, Vector
from convexstruct.features.graphs.factors import Factors
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.marginals.factor_polytope import FactorPolytope
from convexstruct.validation.arguments import sentence

#: Probabilities below this count as 0 in the linear program, and so do gains along a direction: a hundred times its
#: tolerances, which follow.
ZERO = 1e-8
#: Absolute tolerances of the linear programs.
ACCURACY = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
#: A program takes at most this share of the time that is left: what it says is a warning, and the fit needs the rest.
TIME_SHARE = 0.5
#: How many names a message lists at most.
NAMES_SHOWN = 3


def named(factors: Factors, j: int) -> str:
    """The name of moments[j], with the first joint label that has its feature."""
    rows = factors.design[:, [j]].nonzero()[0]
    if not len(rows):
        return f"moments[{j}] (of a feature that is 0)"
    row = int(rows.min())
    c = int(np.searchsorted(factors.start, row, side="right")) - 1
    labels = tuple(int(i) for i in np.unravel_index(row - factors.start[c], factors.shapes[c]))
    return f"moments[{j}] (variables {factors.scopes[c]} with labels {labels})"


def no_maximum(factors: Factors, direction: Vector) -> str:
    """A sentence that says that the likelihood rises for ever along ``direction``."""
    some = np.flatnonzero(direction)
    which = some[np.argsort(-np.abs(direction[some]), kind="stable")]
    said = ", ".join(f"{direction[j]:+.3g} for {named(factors, int(j))}" for j in which[:NAMES_SHOWN])
    more = f" and {len(which) - NAMES_SHOWN} more" if len(which) > NAMES_SHOWN else ""
    return f"no theta attains the optimum: the likelihood rises for ever along {said}{more}; take a penalty"


def truth(polytope: FactorPolytope, moments: Vector) -> Vector:
    """Clique tables (n,) that have the ``moments`` (d,), to the accuracy of a linear program. ValueError if no
    distribution has them; the message names moments that contradict one another."""
    kept = np.flatnonzero(polytope.support)
    d, n = polytope.features.shape[0], len(kept)
    each = sp.eye_array(d)
    none = sp.csr_array((polytope.agreement.shape[0] + 1, 2 * d))
    below = sp.hstack([sp.vstack([polytope.agreement, polytope.totals])[:, kept], none])
    rows = sp.vstack([sp.hstack([polytope.features[:, kept], each, -each]), below])
    right = np.concatenate((moments, np.zeros(polytope.agreement.shape[0]), [1.0]))
    cost = np.concatenate((np.zeros(n), np.ones(2 * d)))
    found = _solved(cost, A_eq=sp.csr_array(rows), b_eq=right, bounds=(0, None))
    if found.status != 0:
        raise sentence(f"moments could not be judged: the linear program says {found.message}")
    # a sum of |E f - m| of up to 1e-7, relative to the moments, counts as their rounding
    if found.fun > 1e-7 * max(1.0, float(np.abs(moments).max(initial=0.0))):
        y = np.asarray(found.eqlin.marginals[:d])
        which = np.argsort(-np.abs(y), kind="stable")[: int((np.abs(y) > ZERO).sum())]
        said = ", ".join(named(polytope.factors, int(j)) for j in which[:NAMES_SHOWN])
        more = f" and {len(which) - NAMES_SHOWN} more" if len(which) > NAMES_SHOWN else ""
        raise sentence(f"moments are those of no distribution: {said}{more} contradict the graph or one another")
    z = np.zeros(polytope.n_variables)
    z[kept] = found.x[:n]
    return z


def runaway(polytope: FactorPolytope, inference: FactorInference, moments: Vector) -> Vector | None:
    """A direction (d,), largest entry 1, along which the likelihood never falls and rises without attaining its
    supremum; None where the maximum exists, or the linear program does not decide."""
    kept = np.flatnonzero(polytope.support)
    n = len(kept)
    rows = sp.csr_array(sp.vstack([polytope.features, polytope.agreement, polytope.totals]))[:, kept]
    shift = rows @ np.ones(n)  # z = s + t: s >= 0
    right = np.concatenate((moments, np.zeros(polytope.agreement.shape[0]), [1.0]))
    found = _solved(
        np.append(np.zeros(n), -1.0),
        A_eq=sp.csr_array(sp.hstack([rows, sp.csr_array(shift[:, None])])),
        b_eq=right,
        bounds=[(0.0, None)] * n + [(None, 1.0)],
    )
    if found.status != 0 or found.x[-1] > ZERO:
        return None
    d = np.asarray(found.eqlin.marginals[: len(moments)])
    size = float(np.abs(d).max(initial=0.0))
    if size == 0.0:
        return None
    d = np.where(np.abs(d) > ZERO * size, d / size, 0.0)
    flat = np.asarray(polytope.factors.design @ d)
    reached, highest, lowest = float(moments @ d), inference.best(flat)[0], -inference.best(-flat)[0]
    rounding = ZERO * max(1.0, float(np.abs(moments).sum()))
    return d if highest <= reached + rounding and lowest < reached - rounding else None


def outside(rows: sp.csr_array, moments: Vector, slack: float) -> bool:
    """Whether no mixture of the ``rows`` (K, d), features of K samples, has the ``moments`` (d,) up to ``slack`` each:
    the least error t of a mixture is above the accuracy of the linear program. False also where none is found before
    the deadline."""
    n, one = rows.shape[0], np.ones((rows.shape[1], 1))
    error = sp.vstack([sp.hstack([rows.T, -one]), sp.hstack([-rows.T, -one])], format="csr")
    cost, total = np.append(np.zeros(n), 1.0), np.append(np.ones(n), 0.0)[None]
    around = np.concatenate((moments, -moments)) + slack
    found = _solved(cost, A_ub=error, b_ub=around, A_eq=total, b_eq=[1.0], bounds=(0.0, None))
    return found.status == 0 and bool(found.fun > 1e-7 * max(1.0, float(np.abs(moments).max(initial=0.0))))


def rising(rows: sp.csr_array | Matrix, equal: sp.csr_array | None = None) -> Vector | None:
    """d (d,) with |d_j| <= 1, rows d >= 0 and equal d = 0 of the largest sum of rows d; None where that is 0, or the
    linear program does not decide."""
    right = None if equal is None else np.zeros(equal.shape[0])
    least, cost = np.zeros(rows.shape[0]), -rows.sum(axis=0)
    found = _solved(cost, A_ub=-rows, b_ub=least, A_eq=equal, b_eq=right, bounds=(-1.0, 1.0))
    # in units of the features, what is below counts as no gain
    return np.asarray(found.x) if found.status == 0 and -found.fun > 1e-6 else None


def _solved(cost: Vector, **program: Any) -> Any:
    """What HiGHS makes of the linear program; its status is 0 if it solved it within the accuracy and the time."""
    return scipy.optimize.linprog(
        cost, **program, method="highs", options=ACCURACY | {"time_limit": TIME_SHARE * deadline.left()}
    )
