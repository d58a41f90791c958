r"""Discriminative training of generative models (paper 0) in CVXPY: all assignments written out, and the duals.

    primal        (P)   (2)-(5)
    dual_beta     (D')  over beta, with (6) and (7)
    dual          (D)   (8)-(9) over (mu, omega, lambda)
    entropy_dual        lambda eliminated: ours

Constraint generation is in `cuts`, the proximal pair (P_n), (D_n) in `proximal_point`, and the compact dual over
marginals, which enumerates nothing, in `compact`.

Enumerated forms are for a few thousand assignments. Beyond about 10,000 Clarabel may stop with "solver_error" (seen at
15,600 and 22,600), and there is no reference value. SCS solves such instances, slowly; the compact dual and constraint
generation solve them too.

Symbols: d parameters theta in blocks theta_i; K examples of weight w_k; R assignments in all, row r of a (R, d) and
b (R,) belonging to example k(r); c (d,), mu (d,), v = c - mu (d,), lambda (blocks,), omega. The weights w_k are ours
(1 in the paper): eta w_k stands where the paper has eta. Signs are as `convexstruct.models` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Point, Vector
from convexstruct.core.mixtures import beyond_rounding, of_single_labellings, shares_of
from convexstruct.families.generative_margin.general import only_linear
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.graphs import TableLayout
from convexstruct.marginals.enumeration import MOST_LABELLINGS, Enumerated, enumerate_counts
from convexstruct.marginals.triplets import sums_by
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Equation, Formulation, Recovered, equation
from convexstruct.models.generative_margin.pieces import Phi, conjugate, limits, penalty, term
from convexstruct.tolerances import ROUNDING

PAPER = "paper 0: Yu, Bertsekas and Rousu, An efficient discriminative training method for generative models"

#: LaTeX shared by the formulations.
MARGIN = r"\sum_i a_{i,k}(s)'\theta_i + b_k(s) \le \epsilon_k, \quad \forall s \in \mathcal{S}_k,\ k \in \mathcal{K}"
SUB_DISTRIBUTION = r"\mathbf{1}'e^{\theta_i} \le 1, \quad \forall i \in \mathcal{I}"
SUMS = r"\mu = \sum_{k,s} \beta_k(s)\, a_k(s), \quad \omega = \sum_{k,s} \beta_k(s)\, b_k(s)"
SHARES = r"\beta \ge 0, \quad \mathbf{1}'\beta_k \le \eta w_k, \quad \forall k \in \mathcal{K}"
LAMBDA = r"\lambda \ge 0"


class MarginRows:
    """The rows of (3), one for each assignment of each example.

    enumerated : the assignments. a : sparse (R, d), counts_k(s) - counts_k(s*), times b where the loss rescales the
    slacks. b : (R,), the loss.
    of_example : sparse (K, R), sums rows by example.
    """

    def __init__(self, problem: GenerativeMargin, limit: int = MOST_LABELLINGS) -> None:
        self.problem = problem
        self.enumerated: Enumerated = enumerate_counts(problem.margins, limit)
        example = self.enumerated.example
        self.of_example = sums_by(example, problem.n_examples)
        counts = self.enumerated.counts
        self.a = counts if problem.rescaled else sp.csr_array(counts - self.of_example.T @ problem.truth_each)
        self.b = self.enumerated.loss

    def witness(self, beta: Vector, eta: float, domain: Vector | None = None) -> Point:
        """Multipliers beta (R,) of (3) as a mixture of labellings, made feasible: shares >= 0, sums <= 1, and, if
        ``domain`` is given, mu <= domain (see `within_domain`).

        Assignments whose share is no more than rounding are left out, which (9) allows: it asks for sums <= eta w_k.
        """
        rows, examples = self.enumerated, self.problem.examples
        ceiling = eta * examples.weights
        share = shares_of(beta, ceiling, rows.example)
        if domain is not None:
            weight = ceiling[rows.example]
            share = within_domain(self.a, share * weight, domain) / weight
        share = beyond_rounding(share, rows.example)
        return of_single_labellings(examples.truth, examples.start, list(rows.labels), rows.example, share)


def with_mass(rows: MarginRows, beta: Vector, problem: GenerativeMargin, kap: Vector) -> Point:
    """Multipliers beta (R,) of (3), and kap of the rows of (30), as a witness of a general objective: shares that sum
    to 1 in each example, and the masses that they had."""
    example, ceiling = rows.enumerated.example, problem.eta * problem.examples.weights
    beta = np.maximum(beta, 0.0)
    mass = np.bincount(example, weights=beta, minlength=problem.n_examples) / ceiling
    shares = beta / np.where(mass > 0, mass, 1.0)[example]
    return {**rows.witness(shares, problem.eta), "mass": mass, "rows": np.maximum(kap, 0.0)}


def within_domain(a: sp.csr_array, beta: Vector, c: Vector) -> Vector:
    """beta with entries lowered, in at most 50 passes, so that mu = a' beta <= c.

    A solver's beta has a mu that exceeds c by rounding. Scaling all of beta down repairs this if c > 0; but where
    c_ij = 0 the scale would be 0. Lowering only the rows that add to a mu_ij > c_ij is as valid, and changes beta by
    no more than rounding.
    """
    up, down = sp.csr_array(a.maximum(0)), sp.csr_array(a.minimum(0))
    row_of = np.repeat(np.arange(a.shape[0]), np.diff(up.indptr))
    beta = beta.copy()
    for _ in range(50):
        pushed, room = np.asarray(up.T @ beta), c - np.asarray(down.T @ beta)
        over = pushed > room
        if not over.any():
            break
        factor = np.where(over, room / np.where(over, pushed, 1.0) * (1.0 - ROUNDING), 1.0)
        scale = np.ones(a.shape[0])
        np.minimum.at(scale, row_of, factor[up.indices])
        beta *= scale
    return beta


def block_sums(layout: TableLayout) -> sp.csr_array:
    """The sparse (blocks, d) matrix of 1'theta_i."""
    return sums_by(layout.block_of, len(layout.block_sizes))


def eta_parameter(problem: GenerativeMargin) -> Any:
    return cp.Parameter(pos=True, name="eta", value=problem.eta)


def at_parameters(problem: GenerativeMargin, formulation: Formulation) -> GenerativeMargin:
    """The problem with the present eta of the formulation, against which its solution is certified."""
    return replace(problem, eta=float(formulation.parameters["eta"].value))


@stated("(P), every assignment written out", PAPER, "(2)-(5)", enumerated=True)
def primal(problem: GenerativeMargin, limit: int = MOST_LABELLINGS) -> Formulation:
    r"""(P), all assignments enumerated:

        min  - sum_i c_i' theta_i + eta sum_k w_k eps_k                         (2)
        s.t. sum_i a_{i,k}(s)' theta_i + b_k(s) <= eps_k   for all s, k         (3)
             1' e^{theta_i} <= 1                           for all i            (4)
             theta <= 0, eps >= 0                                               (5)

    With general objectives: f and h as in (28), and the constraints (30) as "floor", "ceiling" and "rows".

    Source: paper 0, (2)-(5). Variables theta (d,), eps (K,); parameter eta. The multipliers of (3) are beta (R,) >= 0,
    those of (4) lambda (blocks,).

    Raises
    ------
    ValueError
        If there are more than ``limit`` assignments.
    """
    rows = MarginRows(problem, limit)
    theta = cp.Variable(problem.dimension, name="theta")
    eps = cp.Variable(problem.n_examples, name="eps")
    eta = eta_parameter(problem)
    paid, inside = penalty(problem.h, eps)
    more = limits(problem, theta)
    shown = problem.h.latex if problem.h is not None else r"\epsilon_k"
    extra = f"+ {problem.f.latex} " if problem.f is not None else ""

    def recover(formulation: Formulation) -> Recovered:
        instance = at_parameters(problem, formulation)
        beta = np.asarray(formulation.dual_values["3"])
        if instance.general is not None:
            kap = np.asarray(formulation.dual_values["rows"]) if "rows" in more else np.zeros(0)
            return Recovered(instance, {"theta": np.asarray(theta.value)}, with_mass(rows, beta, instance, kap))
        return Recovered(instance, {"theta": np.asarray(theta.value)}, rows.witness(beta, instance.eta, problem.c))

    return Formulation(
        name="primal",
        objective=cp.Minimize(-problem.c @ theta + term(problem, theta) + eta * (problem.examples.weights @ paid)),
        objective_latex=r"\min_{\theta,\epsilon}\quad -\sum_i c_i'\theta_i "
        rf"{extra}+ \eta \sum_k w_k {shown}",
        objective_label="2",
        parts={
            "3": equation(rows.a @ theta + rows.b <= rows.of_example.T @ eps, MARGIN),
            "4": equation(block_sums(problem.layout) @ cp.exp(theta) <= 1, SUB_DISTRIBUTION),
            "5": equation([theta <= 0, eps >= 0, *inside], r"\theta \le 0, \quad \epsilon \ge 0"),
            **more,
        },
        variables={"theta": theta, "eps": eps},
        parameters={"eta": eta},
        source="paper 0, (2)-(5), enumerated",
        recover=recover,
    )


class DualSet:
    """Variables of the enumerated duals and the set (9): mu = a' beta, omega = b' beta, beta >= 0, 1'beta_k <= eta w_k.

    The multiplier of ``mu == a' beta`` is theta, the gradient of q in mu (21).
    """

    def __init__(self, problem: GenerativeMargin, limit: int) -> None:
        only_linear(problem, "this formulation")
        self.problem = problem
        self.rows = MarginRows(problem, limit)
        self.beta = cp.Variable(self.rows.enumerated.n_rows, name="beta")
        self.mu = cp.Variable(problem.dimension, name="mu")
        self.omega = cp.Variable(name="omega")
        self.eta = eta_parameter(problem)
        self.sums = [self.mu == self.rows.a.T @ self.beta, self.omega == self.rows.b @ self.beta]
        self.shares = [self.beta >= 0, self.rows.of_example @ self.beta <= self.eta * problem.examples.weights]

    @property
    def variables(self) -> dict[str, Any]:
        return {"beta": self.beta, "mu": self.mu, "omega": self.omega}

    def formulation(
        self, name: str, source: str, value: Any, latex: str, label: str, parts: Mapping[str, Equation],
        **variables: Any,
    ) -> Formulation:  # fmt: skip
        """The maximum of ``value`` over the set and the further ``variables``, subject to ``parts``."""
        return Formulation(
            name=name,
            objective=cp.Maximize(value),
            objective_latex=latex,
            objective_label=label,
            parts=parts,
            variables={**self.variables, **variables},
            parameters={"eta": self.eta},
            source=source,
            recover=self.recover,
        )

    @property
    def script_d(self) -> Equation:
        """(9)."""
        return equation([*self.sums, *self.shares], rf"(\mu, \omega) \in \mathcal{{D}}: \quad {SUMS}, \quad {SHARES}")

    def recover(self, formulation: Formulation) -> Recovered:
        instance = at_parameters(self.problem, formulation)
        theta = np.asarray(self.sums[0].dual_value)
        beta = np.asarray(self.beta.value)
        return Recovered(instance, {"theta": theta}, self.rows.witness(beta, instance.eta, instance.c))


@stated("(D') over the multipliers of every assignment", PAPER, "(D'), (6), (7)", enumerated=True)
def dual_beta(problem: GenerativeMargin, limit: int = MOST_LABELLINGS) -> Formulation:
    r"""(D'), over beta and lambda, all assignments enumerated:

        max  omega - sum_i lambda_i + sum_i q_i(mu_i, lambda_i)                            (D')
        s.t. mu, omega from beta by (6);  beta >= 0, 1'beta_k <= eta w_k, lambda >= 0
        q_i = min over theta_i <= 0 of (mu_i - c_i)' theta_i + lambda_i 1'e^{theta_i}       (7)

    The closed form of (7) is, per entry with v = c - mu: v - v ln(v/lambda) if 0 < v <= lambda, 0 if v = 0, lambda if
    v > lambda, -inf if v < 0. CVXPY needs it as a maximum: q = max { u - u ln(u/lambda) : 0 <= u <= v }, where v - u is
    the multiplier of theta <= 0.

    Source: paper 0, (D') with (6), (7). Variables beta (R,), lam (blocks,), mu (d,), omega, u (d,).

    Raises
    ------
    ValueError
        If there are more than ``limit`` assignments.
    """
    of = DualSet(problem, limit)
    layout = problem.layout
    lam = cp.Variable(len(layout.block_sizes), name="lambda")
    u = cp.Variable(problem.dimension, name="u")
    q = cp.sum(u - cp.rel_entr(u, block_sums(layout).T @ lam))
    shown = (
        r"q_i(\mu_i, \lambda_i) = \max_u \Big\{ \sum_j u_{ij} - u_{ij} \ln (u_{ij} / \lambda_i) "
        r": 0 \le u_i \le c_i - \mu_i \Big\}"
    )
    parts = {
        "6": equation(of.sums, SUMS),
        "7": equation([u >= 0, u <= problem.c - of.mu], shown),
        "beta": equation(of.shares, SHARES),
        "lambda": equation(lam >= 0, LAMBDA),
    }
    latex = r"\max_{\beta,\lambda}\quad \omega - \sum_i \lambda_i + \sum_i q_i(\mu_i, \lambda_i)"
    source = "paper 0, (D'), (6), (7), enumerated"
    further = {"lambda": lam, "u": u}
    return of.formulation("dual_beta", source, of.omega - cp.sum(lam) + q, latex, "D'", parts, **further)


@stated("(D) over (mu, omega, lambda), exponential cones", PAPER, "(7)-(9)", enumerated=True)
def dual(problem: GenerativeMargin, limit: int = MOST_LABELLINGS) -> Formulation:
    r"""(D), over (mu, omega, lambda) in script-D x {lambda >= 0}:

        max  omega - sum_i lambda_i + sum_i q_i(mu_i, lambda_i)                            (8)
        s.t. lambda >= 0, (mu, omega) in script-D                                           (9)

    with script-D written out by its beta, and (7) by exponential cones: q_i = sum_j (u_ij + r_ij) with u <= c - mu and
    (r, u, lambda) in K_exp = {(x, y, z): y e^{x/y} <= z}, which says r <= -u ln(u/lambda).

    Source: paper 0, (7)-(9). Variables mu (d,), omega, lam (blocks,), beta (R,), u (d,), r (d,).

    Raises
    ------
    ValueError
        If there are more than ``limit`` assignments.
    """
    of = DualSet(problem, limit)
    layout = problem.layout
    lam = cp.Variable(len(layout.block_sizes), name="lambda")
    u = cp.Variable(problem.dimension, name="u")
    r = cp.Variable(problem.dimension, name="r")
    shown = (
        r"q_i(\mu_i, \lambda_i) = \max_{u, r} \Big\{ \sum_j u_{ij} + r_{ij} : u_i \le c_i - \mu_i,\ "
        r"(r_{ij}, u_{ij}, \lambda_i) \in K_{\exp} \Big\}"
    )
    cone = cp.constraints.ExpCone(r, u, block_sums(layout).T @ lam)
    parts = {
        "7": equation([u <= problem.c - of.mu, cone], shown),
        "lambda": equation(lam >= 0, LAMBDA),
        "9": of.script_d,
    }
    value = of.omega - cp.sum(lam) + cp.sum(u) + cp.sum(r)
    latex = r"\max_{\mu,\omega,\lambda}\quad \omega - \sum_i \lambda_i + \sum_i q_i(\mu_i, \lambda_i)"
    further = {"lambda": lam, "u": u, "r": r}
    return of.formulation("dual", "paper 0, (7)-(9), enumerated", value, latex, "8", parts, **further)


@stated("(D) with lambda eliminated", PAPER, "ours, from (7)-(9)", enumerated=True)
def entropy_dual(problem: GenerativeMargin, limit: int = MOST_LABELLINGS) -> Formulation:
    r"""The dual without lambda (ours; the maximum of (8) over lambda_i is at lambda_i = V_i):

        max  omega + sum_i [V_i ln V_i - sum_j v_ij ln v_ij],   v = c - mu, V_i = sum_j v_ij
        s.t. (mu, omega) in script-D                                                       (9)

    With general objectives omega is less eta sum_k w_k h*(b_k), and the rest is phi (`pieces.Phi`); the multipliers are
    eta times the variable, so that eta multiplies no square of a parameter (DPP).

    In CVXPY: omega - sum_ij rel_entr(v_ij, V_i). At the optimum theta_ij = ln(v_ij / V_i) where V_i > 0; where V_i = 0,
    (7) does not determine theta_i, and (4) may hold with <.

    Source: ours, from paper 0, (7)-(9). Variables beta (R,), mu (d,), omega, v (d,).

    Raises
    ------
    ValueError
        If there are more than ``limit`` assignments.
    """
    if problem.general is not None:
        return _general_dual(problem, limit)
    of = DualSet(problem, limit)
    v = cp.Variable(problem.dimension, name="v")
    parts = {"v": equation(v + of.mu == problem.c, r"v + \mu = c"), "9": of.script_d}
    latex = (
        r"\max_{\mu,\omega}\quad \omega + \sum_i \Big[ V_i \ln V_i - \sum_j v_{ij} \ln v_{ij} \Big]"
        r", \quad V_i = \sum_j v_{ij}"
    )
    value = of.omega - block_entropy(problem.layout, v)
    return of.formulation("entropy_dual", "ours, from paper 0, (7)-(9), enumerated", value, latex, "", parts, v=v)


def _general_dual(problem: GenerativeMargin, limit: int) -> Formulation:
    """`entropy_dual` of (28)-(30)."""
    rows, eta, weights = MarginRows(problem, limit), eta_parameter(problem), problem.examples.weights
    beta = cp.Variable(rows.enumerated.n_rows, nonneg=True, name="beta over eta")
    mu = cp.Variable(problem.dimension, name="mu")
    paid, inside = conjugate(problem.h, cp.multiply(1.0 / weights, rows.of_example @ beta))
    link, phi = mu == eta * (rows.a.T @ beta), Phi(problem, mu, block_entropy)

    def recover(formulation: Formulation) -> Recovered:
        instance = at_parameters(problem, formulation)
        witness = with_mass(rows, instance.eta * np.asarray(beta.value), instance, phi.rows)
        return Recovered(instance, {"theta": np.asarray(link.dual_value)}, witness)

    masses = equation(inside, r"0 \le b_k \le \sup h'") if inside else None
    return Formulation(
        name="entropy_dual",
        objective=cp.Maximize(eta * (rows.b @ beta - weights @ paid) + phi.value),
        objective_latex=r"\max_{\beta}\quad \omega - \eta \sum_k w_k h^*(b_k) + \phi(c - \mu)"
        r", \quad b_k = \mathbf{1}'\beta_k / (\eta w_k)",
        parts={"mu": equation(link, SUMS), **phi.parts, **({} if masses is None else {"h": masses})},
        variables={"beta": beta, "mu": mu, **phi.variables},
        parameters={"eta": eta},
        source="ours, from paper 0, (28)-(30), enumerated",
        recover=recover,
    )


def block_entropy(layout: TableLayout, v: Any) -> Any:
    """sum_ij v_ij ln(v_ij / V_i), V_i = sum_j v_ij: convex in v (d,), one exponential cone an entry."""
    same_block = sp.csr_array(block_sums(layout).T @ block_sums(layout))
    return cp.sum(cp.rel_entr(v, same_block @ v))
