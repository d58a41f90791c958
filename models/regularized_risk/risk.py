r"""Regularized risk minimisation (paper 2) in CVXPY: the problem and its adjoint, and both in Nesterov's form.

    primal            (1)-(2)    a slack for each group, not below any of its pieces
    adjoint           (18), (20)-(22), with (11): the pieces' weights alpha, and w(alpha)
    nesterov          (17)       f(w) + g*(A w), without slacks
    nesterov_adjoint  (18)       -g(alpha) - f*(-A' alpha)

The textbook pair with C is in `support_vectors`; every combination of pieces as one plane, (9)-(12), and the
subproblem (3) of bundle methods in `planes`; the smoothed risk J_mu in `smoothing`. Each accepts every loss: binary
with and without bias, multiclass, multilabel, ordinal, and pieces.

Symbols: A (m, d) the pieces' rows, c (m,) their offsets, sigma_g the share of group g in the risk (1/n without
weights), s_p the sign of a free offset b_j in piece p (the bias, or minus an ordinal threshold). lam (or C) is a CVXPY
parameter: set its value and solve again without another compilation. Signs are those of `convexstruct.models`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Vector
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.marginals.triplets import sums_by
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Equation, Formulation, Recovered, equation

PAPER = "paper 2: Saha, Zhang and Vishwanathan, Lower bounds for BMRM and faster rates for training SVMs"

#: The margin constraints of each loss, pieces <= slack.
MARGINS = {
    "binary": r"1 - y_i \langle w, x_i \rangle \le \xi_i, \quad \forall i",
    "binary, bias": r"1 - y_i (\langle w, x_i \rangle + b) \le \xi_i, \quad \forall i",
    "multiclass": r"\mathrm{cost}(y_i, k) + \langle w_k - w_{y_i}, x_i \rangle \le \xi_i, \quad \forall i,\ k \ne y_i",
    "multilabel": r"1 + \langle w_s - w_r, x_i \rangle \le \xi_i, \quad \forall i,\ r \in Y_i,\ s \notin Y_i",
    "ordinal": r"1 - z_{ij} (\langle w, x_i \rangle - \theta_j) \le \xi_{ij}, \quad \forall i, j",
    "ordinal, bias": r"1 - z_{ij} (\langle w, x_i \rangle - b_j) \le \xi_{ij}, \quad \forall i, j",
    "pieces": r"\langle a_p, w \rangle + c_p \le \xi_g, \quad \forall g,\ p \in g",
}
#: The subscripts of slacks in a sum, of one slack, and of its share, where they are not i.
NUMBERED = {"ordinal": ("i,j", "ij", "i"), "pieces": ("g", "g", "g")}
STATIONARY = r"\lambda w + A^\top \alpha = 0"
SHARE, N_TH = r"\sigma", r"\frac{1}{n}"
CONJUGATE = (
    r"f^\star(z) = \tfrac{1}{2\lambda} \lVert z \rVert^2 = \min \{ \tfrac{s}{2} : "
    r"\lVert (2z, \lambda - s) \rVert \le \lambda + s \}"
)
NORM = r"\frac{\lambda}{2} \lVert w \rVert^2"


class Parts:
    """The matrices, vectors and LaTeX that the formulations of the family share.

    a : (m, d) matrix of the pieces. c : (m,). groups : sparse (G, m), sums pieces by group. shares : (G,).
    signs : sparse (m, n_biases), the s_p. margins, balance, share : LaTeX; over, slack, of : subscripts.
    """

    def __init__(self, problem: RegularizedRisk) -> None:
        self.problem = problem
        loss = problem.loss
        m = problem.n_pieces
        self.a: Any = problem.matrix()
        self.c: Vector = loss.offset
        self.groups = sums_by(problem.group, loss.n_groups)
        self.shares = problem.shares
        place = (np.arange(m), loss.bias_of) if problem.n_biases else (np.zeros(0, int), np.zeros(0, int))
        self.signs = sp.csr_array(sp.coo_array((loss.bias_sign, place), (m, problem.n_biases)))
        self.margins = MARGINS[loss.kind + (", bias" if problem.n_biases else "")]
        self.over, self.slack, self.of = NUMBERED.get(loss.kind, ("i", "i", "i"))
        self.share = N_TH if problem.weights is None and loss.kind != "pieces" else f"{SHARE}_{self.of}"
        self.balance = {
            "binary": r"\sum_i y_i \alpha_i = 0",
            "ordinal": r"\sum_i z_{ij} \alpha_{ij} = 0, \quad \forall j",
        }.get(loss.kind, "")

    def summed(self, each: str, all_alike: str = "") -> str:
        """The sum of the slacks, each with its factor, or with one factor before it where all are equal; LaTeX."""
        alike = self.problem.weights is None and self.problem.loss.kind != "pieces"
        factors = (all_alike, "") if alike else ("", f"{each}_{self.of} ")
        return rf"{factors[0]} \sum_{{{self.over}}} {factors[1]}\xi_{{{self.slack}}}".strip()

    def weights(self, bound: Any = None, named: str = "") -> tuple[Any, dict[str, Equation]]:
        """alpha (m,), and the constraints of Q (20): those of groups, and those of free offsets where there are any.

        bound : (G,) the largest sum of a group's alpha; without the zero piece, its sum. The shares by default.
        named : its LaTeX.
        """
        loss = self.problem.loss
        alpha = cp.Variable(self.problem.n_pieces, name="alpha")
        share, named = (self.shares, self.share) if bound is None else (bound, named)
        if self.problem.is_box:
            group = [alpha >= 0, alpha <= share]
            shown = rf"0 \le \alpha_{{{self.slack}}} \le {named}, \quad \forall {self.over}"
        else:
            sums = self.groups @ alpha
            group = [alpha >= 0, sums <= share if loss.floor else sums == share]
            relation = r"\le" if loss.floor else "="
            shown = rf"\alpha \ge 0, \quad \sum_{{p}} \alpha_{{{self.slack} p}} {relation} {named}, "
            shown += rf"\quad \forall {self.over}"
        parts = {"20": equation(group, shown)}
        if self.problem.n_biases:
            parts["bias"] = equation(self.signs.T @ alpha == 0, self.balance)
        return alpha, parts

    def slacks(self, label: str, moved: Any = 0.0, margins: str = "") -> tuple[dict[str, Any], dict[str, Equation]]:
        """({w, b, xi}, the constraints on xi); b only where there are free offsets.

        The rows ``label`` say that no piece, less ``moved`` (m,), is above the slack of its group; then xi >= 0 where 0
        is one more piece. margins : LaTeX of the rows, where something is moved.
        """
        w = cp.Variable(self.problem.dimension, name="w")
        xi = cp.Variable(self.problem.loss.n_groups, name="xi")
        free, shift = self.offsets()
        rows = self.a @ w + shift + self.c - moved <= self.groups.T @ xi
        parts = {label: equation(rows, margins or self.margins)}
        if self.problem.loss.floor:
            parts["xi"] = equation(xi >= 0, r"\xi \ge 0")
        return {"w": w, **free, "xi": xi}, parts

    def offsets(self) -> tuple[dict[str, Any], Any]:
        """({"b": the free offsets}, s b (m,)); ({}, 0) without free offsets."""
        if not self.problem.n_biases:
            return {}, 0.0
        b = cp.Variable(self.problem.n_biases, name="b")
        return {"b": b}, self.signs @ b


def lam_parameter(problem: RegularizedRisk) -> Any:
    return cp.Parameter(pos=True, name="lam", value=problem.lam)


def at_lam(problem: RegularizedRisk, formulation: Formulation) -> RegularizedRisk:
    """The problem with the present lam of the formulation, against which its solution is certified."""
    return replace(problem, lam=float(formulation.parameters["lam"].value))


def point_of(variables: dict[str, Any]) -> dict[str, Vector]:
    """The solver's values of w, and of b where there is one."""
    return {name: np.asarray(variables[name].value) for name in ("w", "b") if name in variables}


@stated("the regularised risk by slacks", PAPER, "(1)-(2)")
def primal(problem: RegularizedRisk) -> Formulation:
    r"""(1) with the risk (2), or that of any other loss, with a slack for each group:

        min  lam/2 |w|^2 + sum_g share_g xi_g                                   (1)
        s.t. <a_p, w> + s_p b_j + c_p <= xi_g     for every piece p of group g  (2)
             xi >= 0                              where 0 is one more piece

    Source: paper 2, (1)-(2); with one group (9). Variables w (d,), flat where there are several outputs, xi (G,), and
    the free offsets b; parameter lam. The multipliers of (2) are alpha (m,) of the adjoint.
    """
    of = Parts(problem)
    variables, parts = of.slacks("2")
    lam = lam_parameter(problem)

    def recover(formulation: Formulation) -> Recovered:
        alpha = np.asarray(formulation.dual_values["2"])
        return Recovered(at_lam(problem, formulation), point_of(variables), {"alpha": alpha})

    return Formulation(
        name="primal",
        objective=cp.Minimize(lam / 2 * cp.sum_squares(variables["w"]) + of.shares @ variables["xi"]),
        objective_latex=rf"\min_{{w,\xi}}\quad {NORM} + {of.summed(SHARE, N_TH)}",
        objective_label="1",
        parts=parts,
        variables=variables,
        parameters={"lam": lam},
        source="paper 2, (1)-(2)",
        recover=recover,
    )


@stated("the adjoint over the pieces' weights, with and without bias", PAPER, "(11), (20)-(22)")
def adjoint(problem: RegularizedRisk) -> Formulation:
    r"""The adjoint of (1), with w(alpha) as a variable:

        max  <c, alpha> - lam/2 |w|^2                                            (22)
        s.t. lam w + A' alpha = 0                                                (11)
             alpha >= 0, sum of alpha over g <= share_g (= without the zero piece)   (20)
             sum_p s_p alpha_p = 0 for each free offset                          (20), with bias

    For the binary hinge this is (21)-(22): max sum alpha_i - |sum_i alpha_i y_i x_i|^2 / (2 lam), 0 <= alpha_i <= 1/n,
    and sum_i y_i alpha_i = 0 with a bias. With w as a variable lam can be a parameter (DPP), and A A' is not computed.
    Minus the multipliers of the last condition are the free offsets b.

    Source: paper 2, (11), (18), (20)-(22). Variables alpha (m,), w (d,); parameter lam.
    """
    of = Parts(problem)
    alpha, parts = of.weights()
    w = cp.Variable(problem.dimension, name="w")
    lam = lam_parameter(problem)

    def recover(formulation: Formulation) -> Recovered:
        return Recovered(at_lam(problem, formulation), {"w": np.asarray(w.value)}, {"alpha": np.asarray(alpha.value)})

    return Formulation(
        name="adjoint",
        objective=cp.Maximize(of.c @ alpha - lam / 2 * cp.sum_squares(w)),
        objective_latex=rf"\max_{{\alpha,w}}\quad \langle c, \alpha \rangle - {NORM}",
        objective_label="22",
        parts={"11": equation(lam * w + of.a.T @ alpha == 0, STATIONARY), **parts},
        variables={"alpha": alpha, "w": w},
        parameters={"lam": lam},
        source="paper 2, (11), (18), (20)-(22)",
        recover=recover,
    )


@stated("Nesterov's f(w) + g*(A w)", PAPER, "(17), (20)")
def nesterov(problem: RegularizedRisk) -> Formulation:
    r"""Nesterov's form of (1), f strongly convex and g* a maximum of affine functions:

        min  f(w) + g*(A w),   f(w) = lam/2 |w|^2,   g*(v) = max_{alpha in Q} <v + c, alpha>            (17), (20)
                                                          = min_b sum_g share_g max([0,] v_p + c_p + s_p b_j)

    The objective has the maximum as a function of v = A w, without slacks; the multiplier of v = A w is -alpha.

    Source: paper 2, (17), (20). Variables w (d,), v (m,), and the free offsets b; parameter lam.
    """
    of = Parts(problem)
    w = cp.Variable(problem.dimension, name="w")
    v = cp.Variable(problem.n_pieces, name="v")
    free, shift = of.offsets()
    lam = lam_parameter(problem)
    variables = {"w": w, "v": v, **free}

    def recover(formulation: Formulation) -> Recovered:
        alpha = -np.asarray(formulation.dual_values["17"])
        return Recovered(at_lam(problem, formulation), point_of(variables), {"alpha": alpha})

    return Formulation(
        name="nesterov",
        objective=cp.Minimize(lam / 2 * cp.sum_squares(w) + of.shares @ _highest(problem, v + of.c + shift)),
        objective_latex=rf"\min_{{w}}\quad f(w) + g^\star(A w), \quad f(w) = {NORM}, \quad "
        r"g^\star(v) = \max_{\alpha \in Q_2} \langle v + c, \alpha \rangle",
        objective_label="17",
        parts={"17": equation(v == of.a @ w, "v = A w")},
        variables=variables,
        parameters={"lam": lam},
        source="paper 2, (17), (20)",
        recover=recover,
    )


@stated("Nesterov's adjoint -g(alpha) - f*(-A'alpha)", PAPER, "(18)-(20)")
def nesterov_adjoint(problem: RegularizedRisk) -> Formulation:
    r"""Nesterov's adjoint, which meets (17) at the optimum, (19):

        max  -g(alpha) - f*(-A' alpha),   g(alpha) = -<c, alpha>,   f*(z) = |z|^2 / (2 lam)             (18)
        s.t. alpha in Q2                                                                                (20)

    The same program as `adjoint` with w eliminated; w is minus the multiplier of z = -A' alpha. |z|^2 <= lam s is
    stated as the second-order cone |(2z, lam - s)| <= lam + s, because lam cannot be a parameter in CVXPY's
    quad_over_lin.

    Source: paper 2, (18)-(20). Variables alpha (m,), z (d,), s; parameter lam.
    """
    of = Parts(problem)
    alpha, parts = of.weights()
    lam = lam_parameter(problem)
    z = cp.Variable(problem.dimension, name="z")
    s = cp.Variable(name="s")
    cone = cp.SOC(lam + s, cp.hstack([2 * z, lam - s]))

    def recover(formulation: Formulation) -> Recovered:
        w = -np.asarray(formulation.dual_values["18"])
        return Recovered(at_lam(problem, formulation), {"w": w}, {"alpha": np.asarray(alpha.value)})

    return Formulation(
        name="nesterov_adjoint",
        objective=cp.Maximize(of.c @ alpha - s / 2),
        objective_latex=r"\max_{\alpha \in Q_2}\quad -g(\alpha) - f^\star(z), \quad "
        r"g(\alpha) = -\langle c, \alpha \rangle",
        objective_label="18",
        parts={
            "18": equation(z + of.a.T @ alpha == 0, r"z = -A^\top \alpha"),
            "f*": equation(cone, CONJUGATE),
            **parts,
        },
        variables={"alpha": alpha, "z": z, "s": s},
        parameters={"lam": lam},
        source="paper 2, (18)-(20)",
        recover=recover,
    )


def _highest(problem: RegularizedRisk, values: Any) -> Any:
    """The maximum (G,) of each group's pieces, of which 0 is one where the loss has a zero piece."""
    loss = problem.loss
    sizes = np.diff(loss.start)
    width = int(sizes.max())
    if width == 1:
        return cp.pos(values) if loss.floor else values
    # groups as rows of equal length, the last piece of each repeated, which does not change the maximum
    at = loss.start[:-1, None] + np.minimum(np.arange(width), sizes[:, None] - 1)
    top = cp.max(cp.reshape(values[at.ravel()], at.shape, order="C"), axis=1)
    return cp.pos(top) if loss.floor else top
