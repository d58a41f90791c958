r"""Projection onto a box cut by one equality (paper 2, appendix B) in CVXPY, and its dual.

    box        the quadratic program of appendix B, with any bounds and signs
    box_dual   over rho and the multipliers of the bounds, (27)-(28)

Projections onto the local marginal polytope are in `polytopes`.

Symbols: a (n,), m (n,), bounds l and u (n,), s (n,), d (n,), z; rho is the multiplier of <s, a> = z, alpha >= 0 and
beta >= 0 those of the lower and upper bounds. m and z are parameters: change them and solve again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np

from convexstruct.families.projection.box import BoxProjection
from convexstruct.marginals.triplets import sums_by
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Equation, Formulation, Recovered, equation

PAPER = "paper 2: Lower Bounds for BMRM and Faster Rates for Training SVMs"


class Entries:
    """The data of the problem as vectors, and its parameters.

    low, high : the indices of the entries with a finite lower bound, and with a finite upper bound.
    """

    def __init__(self, problem: BoxProjection) -> None:
        self.problem = problem
        n = problem.n
        self.lower, self.upper, self.s, self.d = (
            np.array(np.broadcast_to(x, (n,))) for x in (problem.lower, problem.upper, problem.s, problem.d)
        )
        self.low, self.high = (np.flatnonzero(np.isfinite(bound)) for bound in (self.lower, self.upper))
        self.m = cp.Parameter(n, name="m", value=problem.m)
        self.z = cp.Parameter(name="z", value=problem.z)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"m": self.m, "z": self.z}

    def present(self) -> BoxProjection:
        """The problem with the present m and z of the formulation, against which its solution is certified."""
        return replace(self.problem, m=np.asarray(self.m.value), z=float(self.z.value))


@stated("a box cut by one equality", PAPER, "appendix B", optimum="p* of a box")
def box(problem: BoxProjection) -> Formulation:
    r"""The quadratic program of appendix B:

        min  1/2 sum_i d_i^2 (a_i - m_i)^2
        s.t. l_i <= a_i <= u_i where there is a bound,  sum_i s_i a_i = z

    Source: paper 2, appendix B. Variable a (n,); parameters m (n,), z. The multiplier of the equality is rho.
    """
    of = Entries(problem)
    a = cp.Variable(problem.n, name="a")
    total = of.s @ a == of.z

    def recover(_: Formulation) -> Recovered:
        return Recovered(of.present(), {"a": np.asarray(a.value)}, {"rho": np.asarray(total.dual_value).reshape(())})

    bounds = []
    if len(of.low):
        bounds.append(a[of.low] >= of.lower[of.low])
    if len(of.high):
        bounds.append(a[of.high] <= of.upper[of.high])
    parts: dict[str, Equation] = {"sum": equation(total, r"\sum_i s_i a_i = z")}
    if bounds:
        parts["box"] = equation(bounds, r"l_i \le a_i \le u_i, \quad \forall i")
    return Formulation(
        name="box",
        objective=cp.Minimize(0.5 * cp.sum_squares(cp.multiply(of.d, a - of.m))),
        objective_latex=r"\min_a\quad \tfrac12 \sum_i d_i^2 (a_i - m_i)^2",
        parts=parts,
        variables={"a": a},
        parameters=of.parameters,
        source="paper 2, appendix B",
        recover=recover,
    )


@stated("its dual, with the bounds' multipliers", PAPER, "(27)-(28)", optimum="p* of a box")
def box_dual(problem: BoxProjection) -> Formulation:
    r"""The dual of `box`, over rho and the multipliers of the finite bounds:

        max  - 1/2 sum_i g_i^2 / d_i^2 + <m, g> - rho z + <l, alpha> - <u, beta>                                 (28)
        s.t. g = rho s - alpha + beta,  alpha >= 0,  beta >= 0                                                   (27)

    At the optimum a = m - g / d^2. Source: paper 2, appendix B, for any bounds. Variables rho, g (n,), alpha and beta,
    one for each finite bound.
    """
    of = Entries(problem)
    rho, g = cp.Variable(name="rho"), cp.Variable(problem.n, name="g")
    push, kept = rho * of.s, {}
    value = of.m @ g - rho * of.z - 0.5 * cp.sum_squares(cp.multiply(1.0 / of.d, g))
    for name, sign, rows, bound in (("alpha", -1.0, of.low, of.lower), ("beta", 1.0, of.high, of.upper)):
        if len(rows):
            kept[name] = cp.Variable(len(rows), nonneg=True, name=name)
            push = push + sign * (sums_by(rows, problem.n) @ kept[name])
            value = value - sign * (bound[rows] @ kept[name])

    def recover(_: Formulation) -> Recovered:
        present = of.present()
        a = present.m - np.asarray(g.value) / of.d**2
        return Recovered(present, {"a": a}, {"rho": np.asarray(rho.value).reshape(())})

    return Formulation(
        name="box_dual",
        objective=cp.Maximize(value),
        objective_latex=r"\max_{\rho,\alpha,\beta}\quad -\tfrac12 \sum_i g_i^2 / d_i^2 + \langle m, g \rangle - \rho z "
        r"+ \langle l, \alpha \rangle - \langle u, \beta \rangle",
        objective_label="28",
        parts={"27": equation(g == push, r"g = \rho s - \alpha + \beta = d^2 (m - a), \quad \alpha, \beta \ge 0")},
        variables={"rho": rho, "g": g, **kept},
        parameters=of.parameters,
        source="paper 2, appendix B, (27)-(28)",
        recover=recover,
    )
