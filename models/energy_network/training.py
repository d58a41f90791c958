r"""Training a convex energy network in CVXPY: semidefinite programs, primal and dual (ours, from paper 1's SPEN).

Symbols: N examples x_i (d,) with labels t_i in {0, 1}^L, d_i = 1 - 2 t_i; W = (U, Q, v); K hidden units (a_k, b_k);
sp(z) = ln(1 + e^z) is softplus.

The maximum over the cube in J is the minimum over multipliers of its conjugate form: p_i, n_i >= 0 of the faces y <= 1
and y >= 0, and for each hidden unit 0 <= s <= v, since

    - v sp(z) = min over 0 <= s <= v of  - s z + s ln(s/v) + (v - s) ln((v - s)/v),

jointly convex in (s, v), as r'Q^{-1}r is in (r, Q).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np

from convexstruct.families.energy_network.problem import ConvexEnergyNetwork
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation

PENALTY = r"\tfrac{\lambda}{2}\left(|U|^2 + |Q|^2"


class Weights:
    """W as variables U (L, d), Q (L, L) and v (K,), and the penalty with the parameter lam."""

    def __init__(self, problem: ConvexEnergyNetwork) -> None:
        self.problem = problem
        self.lam = cp.Parameter(pos=True, name="lam", value=problem.lam)
        self.by_name = {
            name: cp.Variable(shape, name=name, PSD=name == "Q", nonneg=name == "v")
            for name, shape in problem.shapes.items()
        }

    @property
    def penalty(self) -> Any:
        """lam/2 |W|^2."""
        return self.lam * (0.5 * sum(cp.sum_squares(each) for each in self.by_name.values()))

    @property
    def latex(self) -> str:
        return PENALTY + (r"\right)" if "v" not in self.by_name else r" + |v|^2\right)")


@stated(
    "the structural hinge on the cube, by the multipliers of its faces",
    "paper 1, SPEN",
    "training, where E is convex: ours",
)
def primal(problem: ConvexEnergyNetwork) -> Formulation:
    r"""J, its inner maxima by their multipliers:

        min  lam/2 |W|^2 + sum_i [1't_i - <t_i, U x_i> + 1/2 t_i'Q t_i + <v, sp(A t_i + b)>
                       + 1'p_i + 1/2 r_i'Q^{-1} r_i - <s_i, b> + <s_i, ln(s_i/v)> + <v - s_i, ln((v - s_i)/v)>]
        s.t. r_i = U x_i + d_i - A's_i - p_i + n_i      ("r")
             p, n >= 0                                  ("faces")
             s >= 0                                     ("units")

    Source: ours, from paper 1, SPEN. Variables U (L, d), Q (L, L) semidefinite, v (K,) >= 0, p, n, r (N, L), s (N, K);
    parameter lam. The multipliers of "r" are the maximisers y_i.
    """
    of = Weights(problem)
    u, q, v = of.by_name["U"], of.by_name["Q"], of.by_name.get("v")
    p, n, r = (cp.Variable(problem.T.shape, name=name) for name in "pnr")
    t, d, x = problem.T, 1.0 - 2.0 * problem.T, problem.X
    pressed = x @ u.T + d - p + n
    losses = t.sum() - cp.sum(cp.multiply(x.T @ t, u.T)) + 0.5 * cp.sum(cp.multiply(t.T @ t, q)) + cp.sum(p)
    variables = {**of.by_name, "p": p, "n": n, "r": r}
    parts = {"faces": equation([p >= 0, n >= 0], r"p, n \ge 0")}
    latex = r"1't_i - \langle t_i, U x_i \rangle + \tfrac12 t_i'Q t_i + 1'p_i + \tfrac12 r_i'Q^{-1} r_i"
    shown = r"r_i = U x_i + d_i - p_i + n_i"
    if problem.hidden is not None:
        a, b = problem.hidden[:, :-1], problem.hidden[:, -1]
        s = cp.Variable((len(t), len(b)), name="s")
        every = cp.vstack([v] * len(t))
        losses += cp.sum(np.logaddexp(0.0, t @ a.T + b) @ v) - cp.sum(s @ b)
        losses += cp.sum(cp.rel_entr(s, every) + cp.rel_entr(every - s, every))
        pressed, variables = pressed - s @ a, {**variables, "s": s}
        parts["units"] = equation(s >= 0, r"s \ge 0")
        latex += (
            r" + \langle v, sp(A t_i + b) \rangle - \langle s_i, b \rangle + \langle s_i, \ln(s_i/v) \rangle "
            r"+ \langle v - s_i, \ln((v - s_i)/v) \rangle"
        )
        shown = r"r_i = U x_i + d_i - A's_i - p_i + n_i"
    named = equation(r == pressed, rf"{shown}, \quad \forall i")
    losses += sum(0.5 * cp.matrix_frac(r[i], q) for i in range(len(t)))

    def recover(formulation: Formulation) -> Recovered:
        instance, r = replace(problem, lam=float(of.lam.value)), np.abs(np.abs(formulation.dual_values["r"]) - t)
        point = instance.as_point({name: np.asarray(each.value) for name, each in of.by_name.items()})
        return Recovered(instance, instance.repair(point), {"r": np.clip(r, 0.0, 1.0)})

    return Formulation(
        name="primal",
        objective=cp.Minimize(of.penalty + losses),
        objective_latex=rf"\min_{{W, p, n, r}}\quad {of.latex} + \sum_i \left[ {latex} \right]",
        parts={"r": named, **parts},
        variables=variables,
        parameters={"lam": of.lam},
        source="ours, from paper 1, SPEN where E is convex in y",
        recover=recover,
    )


@stated("the dual, one y in the cube an example", "paper 1, SPEN", "training, where E is convex: ours")
def dual(problem: ConvexEnergyNetwork) -> Formulation:
    r"""The dual over the cube, a semidefinite program:

        max  sum_i [1't_i + <d_i, y_i>] - lam/2 |W|^2
        s.t. lam U = - (Y - T)'X                                  ("U")
             [[2 lam Q + T'T, Y'], [Y, I]] semidefinite           ("Q")
             lam v >= sum_i [sp(A y_i + b) - sp(A t_i + b)]       ("v")
             0 <= Y <= 1                                          ("cube")

    Source: ours, from paper 1, SPEN. Variables Y (N, L) and W, Q semidefinite and v >= 0; parameter lam. "Q" is the
    Schur complement of lam Q >= (Y'Y - T'T)/2: at the optimum lam Q is its semidefinite part. W is read as W(Y).
    """
    of = Weights(problem)
    u, q, v = of.by_name["U"], of.by_name["Q"], of.by_name.get("v")
    t = problem.T
    y = cp.Variable(t.shape, name="Y")
    block = cp.bmat([[2.0 * of.lam * q + t.T @ t, y.T], [y, np.eye(len(t))]])
    parts = {
        "U": equation(of.lam * u == -(y - t).T @ problem.X, r"\lambda U = -(Y - T)'X"),
        "Q": equation(block >> 0, r"\begin{pmatrix} 2 \lambda Q + T'T & Y' \\ Y & I \end{pmatrix} \succeq 0"),
        "cube": equation([y >= 0, y <= 1], r"0 \le Y \le 1"),
    }
    if problem.hidden is not None:
        a, b = problem.hidden[:, :-1], problem.hidden[:, -1]
        rise = cp.sum(cp.logistic(y @ a.T + np.tile(b, (len(t), 1))), axis=0) - np.logaddexp(0.0, t @ a.T + b).sum(
            axis=0
        )
        parts["v"] = equation(of.lam * v >= rise, r"\lambda v \ge \sum_i [sp(A y_i + b) - sp(A t_i + b)]")

    def recover(_: Formulation) -> Recovered:
        instance, r = replace(problem, lam=float(of.lam.value)), np.clip(np.abs(np.asarray(y.value) - t), 0.0, 1.0)
        return Recovered(instance, instance.weights(r), {"r": r})

    return Formulation(
        name="dual",
        objective=cp.Maximize(t.sum() + cp.sum(cp.multiply(1.0 - 2.0 * t, y)) - of.penalty),
        objective_latex=rf"\max_{{Y, W}}\quad \sum_i [1't_i + \langle d_i, y_i \rangle] - {of.latex}",
        parts=parts,
        variables={"Y": y, **of.by_name},
        parameters={"lam": of.lam},
        source="ours, from paper 1, SPEN where E is convex in y",
        recover=recover,
    )
