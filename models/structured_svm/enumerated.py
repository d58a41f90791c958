r"""Structural SVMs (papers 1, 3 and 4) in CVXPY: every labelling written out.

    n_slack      (P)  margin or slack scaling, a slack xi_i for each example
    dual_alpha   (D)  over alpha_i(y)

Further files: `hard` (hard margin, HM-SVM), `cuts` (constraint generation, n-slack and one-slack),
`max_margin_markov` (M3N over marginals, exact on forests and junction trees, and the relaxation on loopy graphs),
`inner_products` (kernels, and Theorem 1 of paper 3), `associative_networks`.

Symbols, in all of them: w (d,) weights; N examples of weight omega_i; R labellings in all, row r of a (R, d) and E (R,)
belonging to example i(r), where

    a_r = e_i(y) df_i(y),   df_i(y) = f(x_i, y_i) - f(x_i, y),   e = 1 under margin scaling, E_i(y) under slack scaling,

so that both scalings read <w, a_r> >= E_r - xi_i. lam and C are parameters: 1 and C/N in paper 1, beta and 1 in paper 3
(see `problem.Scale`). The weights omega_i are ours, 1 in the papers. The duals are
maximisations over w too, which makes them DPP in lam and C: they state lam w = Psi and subtract lam/2 |w|^2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Point, Vector
from convexstruct.core.mixtures import beyond_rounding, of_single_labellings, shares_of
from convexstruct.core.scale import Scale
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.marginals.enumeration import MOST_LABELLINGS
from convexstruct.marginals.pairwise_enumeration import EnumeratedPairwise, enumerate_pairwise
from convexstruct.marginals.triplets import sums_by
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Equation, Formulation, Recovered, equation

PAPER_1 = "paper 1: Sarawagi, Training algorithms for structured learning"
PAPER_3 = "paper 3: Xu, Wilkinson, Southey, Schuurmans, Discriminative unsupervised learning of structured predictors"
PAPER_4 = "paper 4: Murphy, Stat 521A, lecture 25"

AnyProblem = TypeVar("AnyProblem", StructuredSVM, OracleSVM)

#: LaTeX shared by the formulations.
OBJECTIVE = r"\min_{w,\xi}\quad \tfrac{\lambda}{2} \|w\|^2 + C \sum_i \omega_i \xi_i"
MARGIN = r"w'\delta f_i(y) \ge E_i(y) - \xi_i \quad \forall y,\ i"
SLACK = r"\xi_i \ge E_i(y) \big( 1 - w'\delta f_i(y) \big) \quad \forall y : E_i(y) > 0,\ \forall i"
NO_SLACK_BELOW_0 = r"\xi \ge 0"
SIGN = r"w_{\mathrm{edge}} \ge 0"


class MarginRows:
    """The rows <w, a_r> >= E_r - xi_i, one for each labelling of each example.

    rows : the labellings. a : sparse (R, d). loss : (R,) E. stated (r,) : the rows that are constraints: all of them
    under margin scaling (that of y_i is xi_i >= 0), those with E_i(y) > 0 under slack scaling.
    of_example : sparse (N, R), sums rows by example.
    """

    def __init__(self, problem: StructuredSVM, limit: int = MOST_LABELLINGS) -> None:
        self.problem = problem
        self.rows: EnumeratedPairwise = enumerate_pairwise(problem.features, problem.loss, limit)
        self.loss = self.rows.loss
        self.example = self.rows.example
        self.a = self.rows.difference
        self.stated = np.arange(len(self.loss))
        if problem.scaling == "slack":
            self.a = sp.csr_array(self.rows.difference.multiply(self.loss[:, None]))
            self.stated = np.flatnonzero(self.loss > 0)
        self.of_example = sums_by(self.example, problem.n_examples)

    def all_rows(self, multipliers: Any, at: Index | None = None) -> Vector:
        """Multipliers of some rows, by default the stated ones, as multipliers of all of them."""
        alpha = np.zeros(len(self.loss))
        alpha[self.stated if at is None else at] = np.asarray(multipliers, dtype=np.float64)
        return alpha

    def witness(self, alpha: Vector, ceiling: Vector) -> Point:
        """Multipliers alpha (R,) as a mixture of labellings with the shares alpha_i(y) / (C omega_i), made >= 0 and of
        sum <= 1. What a sum lacks to 1 is the share of the truth, where df and E are 0."""
        features, share = self.problem.features, shares_of(alpha, ceiling, self.example)
        share = beyond_rounding(share, self.example)
        return of_single_labellings(features.truth, features.node_start, self.rows.labels, self.example, share)


def scale_parameters(problem: StructuredSVM | OracleSVM) -> tuple[Any, Any]:
    """(lam, C) as parameters at the problem's values."""
    return (
        cp.Parameter(pos=True, name="lam", value=problem.scale.lam),
        cp.Parameter(pos=True, name="C", value=problem.scale.C),
    )


def at_parameters(problem: AnyProblem, formulation: Formulation) -> AnyProblem:
    """The problem with the present lam and C of the formulation, against which its solution is certified."""
    given = formulation.parameters
    C = float(given["C"].value) if "C" in given else problem.scale.C
    return replace(problem, scale=Scale(float(given["lam"].value), C))


def sign(problem: StructuredSVM, w_edge: Any) -> dict[str, Equation]:
    """w_edge >= 0 where the network is associative."""
    return {"sign": equation(w_edge >= 0, SIGN)} if _has_sign(problem) else {}


def _has_sign(problem: StructuredSVM) -> bool:
    return bool(problem.features.nonnegative.any())


def link(problem: StructuredSVM, lam: Any, w: Any, psi: Any, latex: str) -> Equation:
    """lam w = Psi, w (d,); >= for weights that must be >= 0, where the least |w|^2 has lam w = max(Psi, 0)."""
    if not _has_sign(problem):
        return equation(lam * w == psi, rf"\lambda w = {latex}")
    free = problem.features.n_node_weights
    return equation(
        [lam * w[:free] == psi[:free], lam * w[free:] >= psi[free:], w[free:] >= 0],
        rf"\lambda w = \Big[ {latex} \Big]_+ \text{{ by }} \lambda w_{{\mathrm{{edge}}}} \ge \dots,\ {SIGN}",
    )


def from_dual(problem: StructuredSVM, witness: Point, psi: Any, w: Any = None) -> Recovered:
    """A dual's solution: the solver's own w, or Psi / lam, and the witness.

    Entries of w that must be >= 0 are taken from Psi_+ / lam: the solver's may be inaccurate near 0, where they hardly
    change |w|^2. For the other entries the solver's w is more accurate than Psi / lam, in which the rounding errors of
    all multipliers add up.
    """
    from_psi = problem.project(np.asarray(psi, dtype=np.float64)) / problem.lam
    if w is None:
        return Recovered(problem, {"w": from_psi}, witness)
    return Recovered(problem, {"w": np.where(problem.features.nonnegative, from_psi, np.asarray(w))}, witness)


def soft_margin(
    problem: StructuredSVM | OracleSVM, name: str, source: str, margin: tuple[Any, Any, sp.csr_array, str],
    witness: Callable[[Any, Vector], Point], *, posed: Any = None, nonnegative: bool = True, label: str = "P",
) -> Formulation:  # fmt: skip
    """min lam/2 |w|^2 + C sum_i omega_i xi_i over rows A w >= E - S xi: what the forms with slack share.

    margin : A (R, d), E (R,) or a number, the sparse S (R, N), and the rows' LaTeX; R may be 0. witness : of the rows'
    multipliers and C omega (N,). posed : the problem that the solution is certified as, if it is another. nonnegative :
    whether xi >= 0 is stated.
    """
    w = cp.Variable(problem.dimension, name="w")
    xi = cp.Variable(problem.n_examples, name="xi")
    lam, C = scale_parameters(problem)
    a, loss, slacks, latex = margin
    parts = {"margin": equation(a @ w >= loss - slacks @ xi, latex)} if a.shape[0] else {}
    if nonnegative:
        parts["xi"] = equation(xi >= 0, NO_SLACK_BELOW_0)
    if isinstance(problem, StructuredSVM):
        parts |= sign(problem, w[problem.features.n_node_weights :])

    def recover(formulation: Formulation) -> Recovered:
        certified: Any = problem if posed is None else posed
        instance = at_parameters(certified, formulation)
        multipliers = formulation.dual_values["margin"] if "margin" in parts else np.zeros(0)
        return Recovered(instance, {"w": np.asarray(w.value)}, witness(multipliers, instance.ceiling))

    return Formulation(
        name=name,
        objective=cp.Minimize(lam / 2 * cp.sum_squares(w) + C * (problem.weights @ xi)),
        objective_latex=OBJECTIVE,
        objective_label=label,
        parts=parts,
        variables={"w": w, "xi": xi},
        parameters={"lam": lam, "C": C},
        source=source,
        recover=recover,
    )


@stated("(P), every labelling written out", PAPER_1, "(P), margin and slack scaling", enumerated=True)
def n_slack(problem: StructuredSVM, limit: int = MOST_LABELLINGS) -> Formulation:
    r"""(P), all labellings enumerated:

        min  lam/2 |w|^2 + C sum_i omega_i xi_i
        s.t. <w, df_i(y)> >= E_i(y) - xi_i                  for all y, i                          margin scaling
             xi_i >= E_i(y) (1 - <w, df_i(y)>)              for all y with E_i(y) > 0, i          slack scaling
             xi >= 0                                        (slack scaling)
             w_edge >= 0                                    (associative networks)

    Under margin scaling xi >= 0 is the constraint of y = y_i. Under slack scaling it must be stated; the slides leave
    it out (corrected): without it an example beyond the margin has a negative slack, as ``without("xi")`` shows. The
    slides' <w, df_i(y)> >= 1 - xi_i / E_i(y) is multiplied by E_i(y) here, so that its multipliers are alpha_i(y).

    Source: paper 1, "Two formulations"; paper 4, "Margin rescaling" (C = 1, lam twice the lecture's). Variables w (d,),
    xi (N,); parameters lam, C. The multipliers of "margin" are alpha >= 0 of `dual_alpha`.

    Raises
    ------
    ValueError
        If there are more than ``limit`` labellings.
    """
    rows = MarginRows(problem, limit)
    stated, slack_scaled = rows.stated, problem.scaling == "slack"
    return soft_margin(
        problem, "n_slack", f"paper 1, (P), {problem.scaling} scaling, enumerated",
        (rows.a[stated], rows.loss[stated], rows.of_example[:, stated].T, SLACK if slack_scaled else MARGIN),
        lambda multipliers, ceiling: rows.witness(rows.all_rows(multipliers), ceiling), nonnegative=slack_scaled,
    )  # fmt: skip


@stated("(D) over the multipliers of every labelling", PAPER_1, "(D)", enumerated=True)
def dual_alpha(problem: StructuredSVM, limit: int = MOST_LABELLINGS) -> Formulation:
    r"""(D), over the multipliers of all labellings:

        max  sum_i,y alpha_i(y) E_i(y) - lam/2 |w|^2
        s.t. lam w = sum_i,y alpha_i(y) e_i(y) df_i(y)      (Psi_+ in an associative network)      "w"
             sum_y alpha_i(y) = C omega_i                                                          "sum"
             alpha >= 0                                                                            "alpha"

    e = 1 under margin scaling, E_i(y) under slack scaling. The sum includes y_i, where df and E are 0; under slack
    scaling alpha_i(y_i) is the multiplier of xi_i >= 0. With it the sum is an equality.

    Source: paper 1, "The Dual (D) of (P)". Variables alpha (R,), w (d,); parameters lam, C.

    Raises
    ------
    ValueError
        If there are more than ``limit`` labellings.
    """
    rows = MarginRows(problem, limit)
    alpha = cp.Variable(len(rows.loss), name="alpha")
    w = cp.Variable(problem.dimension, name="w")
    lam, C = scale_parameters(problem)

    def recover(formulation: Formulation) -> Recovered:
        instance = at_parameters(problem, formulation)
        return from_dual(instance, rows.witness(alpha.value, instance.ceiling), rows.a.T @ alpha.value, w.value)

    scaled = r"E_i(y)\, " if problem.scaling == "slack" else ""
    return Formulation(
        name="dual_alpha",
        objective=cp.Maximize(rows.loss @ alpha - lam / 2 * cp.sum_squares(w)),
        objective_latex=r"\max_{\alpha, w}\quad \sum_{i,y} \alpha_i(y) E_i(y) - \tfrac{\lambda}{2} \|w\|^2",
        objective_label="D",
        parts={
            "w": link(problem, lam, w, rows.a.T @ alpha, rf"\sum_{{i,y}} \alpha_i(y)\, {scaled}\delta f_i(y)"),
            **shares(problem, rows, alpha, C),
        },
        variables={"alpha": alpha, "w": w},
        parameters={"lam": lam, "C": C},
        source=f"paper 1, (D), {problem.scaling} scaling, enumerated",
        recover=recover,
    )


def shares(problem: StructuredSVM, rows: MarginRows, alpha: Any, C: Any) -> dict[str, Equation]:
    """The feasible set of the duals: alpha >= 0, sum_y alpha_i(y) = C omega_i."""
    total = rows.of_example @ alpha
    return {
        "sum": equation(total == C * problem.weights, r"\sum_y \alpha_i(y) = C \omega_i \quad \forall i"),
        "alpha": equation(alpha >= 0, r"\alpha \ge 0"),
    }
