r"""Two classes without structure (paper 3, sections 2.1 and 5): the margin loss, its SDP, and Proposition 1.

    primal, dual          (1) and (2) for given labels
    proposition_1         the same value as a minimum over lambda and xi, for labels or for any M
    two_class             the SDP (3): min over M of omega(M)
    two_class_dual        its dual, in which one matrix is semidefinite in place of two
    alternating_matrix    the other half of section 5's alternation: min over M for given lambda

Here y is in {-1, 1}, and so are the entries of M = yy'. Labels are given as 0 and 1, and y = 2 label - 1. A multiclass
SVM with two classes has the weights w/2 and -w/2; therefore the beta of these formulas is **half the problem's**, and
omega(y) is the same in both. The balance |M e| <= eps is (9) of the problem with eps = 2 p1 eps1.

**(3) does not collapse.** Labels enter (2) through M alone, so there is no C that symmetry makes uniform, and
lambda = 0 shows that omega(M) >= 0. The multiclass SDP with kappa = 2 has the same losses of labels, but is another
relaxation: its objective, with 2 M - 1 as the M of (2), is that of (2) at lambda = e/2 in place of the maximum over
lambda, and so its optimum is far lower.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Matrix, Point, Vector
from convexstruct.core.registry import one_family
from convexstruct.families.unsupervised_margin.permutation_invariant import PermutationInvariantMargin
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.supervised import supervised
from convexstruct.features.graphs.gram import symmetric
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Equation, Formulation, Recovered, equation
from convexstruct.models.unsupervised_margin.margin_loss import read_labels
from convexstruct.models.unsupervised_margin.relaxation import PAPER
from convexstruct.models.unsupervised_margin.tightened import unwrapped, with_multiplier
from convexstruct.tolerances import LOW
from convexstruct.validation.arrays import real


def needs_two_classes(problem: UnsupervisedMargin, name: str) -> None:
    """Raises ValueError unless the problem has two labels and no pairs."""
    if problem.n_labels != 2 or problem.n_pairs:
        came = f"{problem.n_labels} labels and {problem.n_pairs} pairs"
        raise ValueError(f"{name} came with a problem of {came}, wanted 2 labels and no pairs: use 'keep_or_flip'")


def signs(problem: UnsupervisedMargin, labels: ArrayLike) -> Vector:
    """y in {-1, 1} (n,) of labels 0 and 1."""
    return np.asarray(2.0 * read_labels(problem, labels) - 1.0, dtype=np.float64)


def _certified(problem: UnsupervisedMargin, labels: ArrayLike, share: Any) -> Recovered:
    """lambda (n,) as marginals of the supervised SVM: row i has the other label than its own with probability
    lambda_i."""
    svm = supervised(problem, labels)
    y = read_labels(problem, labels)
    mu = np.zeros((len(y), 2))
    mu[np.arange(len(y)), 1 - y] = np.clip(np.asarray(share), 0.0, 1.0)
    mu[np.arange(len(y)), y] = 1.0 - mu[np.arange(len(y)), 1 - y]
    witness = {"node_marginals": mu, "edge_marginals": np.zeros((0, 2, 2))}
    psi = svm.truth_joint - svm.features.adjoint(mu, np.zeros((0, 2, 2)))
    return Recovered(svm, {"w": psi / svm.lam}, witness)


@one_family
def primal(problem: UnsupervisedMargin, labels: ArrayLike) -> Formulation:
    """(1) for given labels (n,):

        min  beta/2 |w|^2 + sum xi    s.t. xi >= 1 - y_i phi(x_i)'w,  xi >= 0

    Source: paper 3, (1). Variables w (d,), xi (n,). The multipliers of "margin" are lambda.

    Raises
    ------
    ValueError
        If the problem has other than two labels, or pairs; unless there is one label 0 or 1 for each row.
    """
    needs_two_classes(problem, "primal")
    y, x, beta = signs(problem, labels), problem.root, problem.beta / 2
    w, xi = cp.Variable(x.shape[1], name="w"), cp.Variable(len(x), name="xi")
    margin = xi >= 1 - cp.multiply(y, x @ w)
    return Formulation(
        name="primal",
        objective=cp.Minimize(beta / 2 * cp.sum_squares(w) + cp.sum(xi)),
        objective_latex=r"\min_{w, \xi}\quad \tfrac{\beta}{2} \|w\|^2 + e'\xi",
        objective_label="1",
        parts={
            "margin": equation(margin, r"\xi_i \ge 1 - y_i \phi(x_i)'w"),
            "xi": equation(xi >= 0, r"\xi \ge 0"),
        },
        variables={"w": w, "xi": xi},
        source="paper 3, (1)",
        recover=lambda formulation: _certified(problem, labels, formulation.dual_values["margin"]),
    )


@one_family
def dual(problem: UnsupervisedMargin, labels: ArrayLike) -> Formulation:
    """(2) for given labels (n,):

        max  lambda'e - <K o lambda lambda', yy'> / (2 beta)    s.t. 0 <= lambda <= 1

    Source: paper 3, (2). Variable lambda (n,).

    Raises
    ------
    ValueError
        As `primal`.
    """
    needs_two_classes(problem, "dual")
    y, lam = signs(problem, labels), cp.Variable(problem.n_rows, name="lambda")
    spread = cp.sum_squares(problem.root.T @ cp.multiply(y, lam))
    return Formulation(
        name="dual",
        objective=cp.Maximize(cp.sum(lam) - spread / problem.beta),
        objective_latex=r"\max_{\lambda}\quad \lambda'e"
        r" - \tfrac{1}{2\beta} \langle K \circ \lambda\lambda', yy' \rangle",
        objective_label="2",
        parts={"lambda": equation([lam >= 0, lam <= 1], r"0 \le \lambda \le 1")},
        variables={"lambda": lam},
        source="paper 3, (2)",
        recover=lambda _: _certified(problem, labels, lam.value),
    )


def _rows(problem: UnsupervisedMargin, M: ArrayLike) -> Matrix:
    """Z (n, n) with Z Z' = K o M, M (n, n) as numbers. ValueError unless M is a symmetric matrix of that shape, with
    entries from -1 to 1 and K o M semidefinite, up to the accuracy of a solver of (3); what is below 0 is left out."""
    why = "one row and column for each row of the problem"
    read = symmetric("M", real("M", M, (problem.n_rows, problem.n_rows), why=why))
    if np.abs(read).max() > 1.0 + LOW.feasibility:
        raise ValueError(f"M reaches from {read.min():g} to {read.max():g}, wanted entries from -1 to 1")
    together = problem.gram * read
    values, vectors = np.linalg.eigh(together)
    if values[0] < -LOW.feasibility * float(np.abs(together).sum(axis=1).max()):
        raise ValueError(f"K o M has the eigenvalue {values[0]:.6g}, wanted a positive semidefinite matrix")
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


@one_family
def proposition_1(
    problem: UnsupervisedMargin, labels: ArrayLike | None = None, M: ArrayLike | None = None
) -> Formulation:
    """omega(M) as a minimum, for M = yy' of labels (n,) or for any M (n, n) of two-class entries in [-1, 1] with K o M
    semidefinite:

        min  <K o lambda lambda', M> / (2 beta) + xi'e
        s.t. xi_i >= 1 - sum_j M_ij lambda_j K_ij / beta,  0 <= lambda <= 1,  xi >= 0

    Its lambda gives the w of (1), but may differ from the lambda of (2) where several give this w. The multipliers of
    xi_i >= 1 - ... solve (2) and are the witness. This is the quadratic half of section 5's alternation. Certified as
    `primal` is: M of labels, or any other, is a problem of rows Z with Z Z' = K o M that all have the label 1.

    Source: paper 3, Proposition 1. Variables lambda (n,), xi (n,).

    Raises
    ------
    ValueError
        As `primal`; unless exactly one of labels and M is given, and M is as above.
    """
    needs_two_classes(problem, "proposition_1")
    if (labels is None) == (M is None):
        raise ValueError(f"proposition_1 came with {'neither' if M is None else 'both'} of labels and M, wanted one")
    if labels is None:
        assert M is not None
        problem = UnsupervisedMargin.multiclass(_rows(problem, M), 2, problem.beta, 1.0)
        labels = np.ones(problem.n_rows, dtype=np.int64)
    n, beta, y = problem.n_rows, problem.beta / 2, signs(problem, labels)
    lam, xi = cp.Variable(n, name="lambda"), cp.Variable(n, name="xi")
    together = problem.gram * np.outer(y, y)
    return Formulation(
        name="proposition_1",
        objective=cp.Minimize(cp.quad_form(lam, cp.psd_wrap(together)) / (2 * beta) + cp.sum(xi)),
        objective_latex=r"\min_{\lambda, \xi}\quad"
        r" \tfrac{1}{2\beta} \langle K \circ \lambda\lambda', M \rangle + e'\xi",
        objective_label="Proposition 1",
        parts={
            "xi": equation([xi >= 1 - together @ lam / beta, xi >= 0], XI),
            "lambda": equation([lam >= 0, lam <= 1], r"0 \le \lambda \le 1"),
        },
        variables={"lambda": lam, "xi": xi},
        source="paper 3, Proposition 1",
        recover=lambda formulation: _certified(problem, labels, formulation.dual_values["xi"][0]),
    )


#: LaTeX of Proposition 1's constraints on xi.
XI = r"\xi_i \ge 1 - \tfrac{1}{\beta} \sum_j M_{ij} \lambda_j K_{ij},\ \xi \ge 0"


class _Relations:
    """M (n, n) of (3): semidefinite with unit diagonal, and balanced."""

    def __init__(self, problem: UnsupervisedMargin) -> None:
        n = problem.n_rows
        self.M = cp.Variable((n, n), symmetric=True, name="M")
        self.eps = cp.Parameter(nonneg=True, name="eps", value=2 * n * problem.label_balance)
        sums = cp.sum(self.M, axis=1)
        self.parts: dict[str, Equation] = {
            "diag": equation(cp.diag(self.M) == 1, r"\mathrm{diag}(M) = e"),
            "M": equation(self.M >> 0, r"M \succeq 0"),
            "balance": equation([-self.eps <= sums, sums <= self.eps], r"-\epsilon e \le M e \le \epsilon e"),
        }
        self._problem = problem

    def recovered(self, z: ArrayLike, found: Point, x: Vector | None = None) -> Recovered:
        """A point and witness of `PermutationInvariantMargin`: its M is (M + 1) / 2, and its multipliers are 4 beta
        times those here (the problem's beta)."""
        parts = {label: [c.dual_value for c in part.constraints] for label, part in self.parts.items()}
        size = 4.0 * self._problem.beta
        below, above = (np.asarray(each) for each in parts["balance"])
        witness = {"y": size * np.ravel(parts["diag"][0]), "u": size * (above - below).ravel()}
        problem = replace(self._problem, label_balance=float(self.eps.value) / (2 * self._problem.n_rows))
        point = {"M": (np.asarray(self.M.value) + 1.0) / 2.0, "z": np.asarray(z, dtype=np.float64)}
        if x is None:
            point["x"] = found["x"]
        return Recovered(PermutationInvariantMargin(problem, x), point, {**witness, **found})


@stated("the SDP of two classes without structure", PAPER, "(3)", optimum="exchanges p*")
def two_class(problem: PermutationInvariantMargin | UnsupervisedMargin) -> Formulation:
    """The SDP (3):

        min  delta
        s.t. [[M o K, e + mu - nu], [(e + mu - nu)', 2 (delta - nu'e) / beta]] semidefinite               "3"
             diag(M) = e,  M semidefinite,  -eps e <= M e <= eps e,  mu, nu >= 0

    The solver sees K / beta and 2 (delta - nu'e), the same matrix with its rows and columns scaled. The optimum is a
    lower bound on the margin loss of all balanced labels, at least 0, and above that of `multiclass`; certified by
    `PermutationInvariantMargin`.

    Source: paper 3, (3). Variables M (n, n), mu (n,), nu (n,), delta; parameter eps.

    Raises
    ------
    ValueError
        If the problem has other than two labels, or pairs.
    """
    problem = unwrapped(problem)
    needs_two_classes(problem, "two_class")
    n, beta = problem.n_rows, problem.beta / 2
    of = _Relations(problem)
    mu, nu = (cp.Variable(n, nonneg=True, name=name) for name in ("mu", "nu"))
    delta = cp.Variable(name="delta")
    side = cp.reshape(1 + mu - nu, (n, 1), order="C")
    corner = cp.reshape(2 * (delta - cp.sum(nu)), (1, 1), order="C")
    # rows and columns of the paper's matrix scaled by a diagonal one: K / beta and 2 (delta - nu'e)
    block = cp.bmat([[cp.multiply(problem.gram / beta, of.M), side], [side.T, corner]])
    shown = (
        r"\begin{bmatrix} M \circ K & e + \mu - \nu \\ (e + \mu - \nu)' &"
        r" \tfrac{2}{\beta} (\delta - \nu'e) \end{bmatrix} \succeq 0,\ \mu, \nu \ge 0"
    )
    return Formulation(
        name="two_class",
        objective=cp.Minimize(delta),
        objective_latex=r"\min_{M, \delta, \mu, \nu}\quad \delta",
        parts={"3": equation(block >> 0, shown), **of.parts},
        variables={"M": of.M, "mu": mu, "nu": nu, "delta": delta},
        parameters={"eps": of.eps},
        source="paper 3, (3)",
        recover=lambda formulation: of.recovered(
            np.concatenate((nu.value, mu.value)), with_multiplier(formulation.dual_values["3"])
        ),
    )


@stated("its dual, of one semidefinite matrix", PAPER, "(3)", optimum="exchanges p*")
def two_class_dual(problem: PermutationInvariantMargin | UnsupervisedMargin) -> Formulation:
    """The dual of (3), with K / beta = X X' and X (n, d):

        max  e'lambda - (e'y + eps |u|_1) / 2
        s.t. [[Diag(y) + (ue' + eu')/2, Diag(lambda) X], [X' Diag(lambda), I]] semidefinite               "S"
             0 <= lambda <= 1

    M is twice the block of its multipliers at the rows, and is no variable. So one semidefinite matrix, of size n + d,
    does the work of two, of sizes n and n + 1, and a general solver is faster, and ends at bounds that meet more
    closely, than from `two_class`. Certified by `PermutationInvariantMargin`.

    Source: ours; its value is that of paper 3, (3). Variables lambda (n,), y (n,), u (n,); parameter eps.

    Raises
    ------
    ValueError
        If the problem has other than two labels, or pairs.
    """
    problem = unwrapped(problem)
    needs_two_classes(problem, "two_class_dual")
    n, beta = problem.n_rows, problem.beta / 2
    border = problem.root / np.sqrt(beta)
    lam, y, u = (cp.Variable(n, name=name) for name in ("lambda", "y", "u"))
    eps = cp.Parameter(nonneg=True, name="eps", value=2 * n * problem.label_balance)
    column, e = cp.reshape(u, (n, 1), order="C"), np.ones((n, 1))
    side = cp.diag(lam) @ border
    whole = cp.bmat([[cp.diag(y) + (column @ e.T + e @ column.T) / 2, side], [side.T, np.eye(border.shape[1])]])

    def recovered(formulation: Formulation) -> Recovered:
        multipliers = np.asarray(formulation.dual_values["S"])[:n, :n]
        scale = np.sqrt(np.maximum(np.diagonal(multipliers), np.finfo(float).tiny))  # of M, where its diagonal is 1
        point = {"M": (multipliers / scale[:, None] / scale + 1.0) / 2.0, "x": lam.value, "z": np.zeros(2 * n)}
        of = replace(problem, label_balance=float(eps.value) / (2 * n))
        witness = {"x": lam.value, "y": 4.0 * beta * y.value, "u": 4.0 * beta * u.value}
        return Recovered(PermutationInvariantMargin(of), point, witness)

    return Formulation(
        name="two_class_dual",
        objective=cp.Maximize(cp.sum(lam) - (cp.sum(y) + eps * cp.norm1(u)) / 2),
        objective_latex=r"\max_{\lambda, y, u}\quad e'\lambda - \tfrac{1}{2} (e'y + \epsilon \|u\|_1)",
        parts={
            "S": equation(
                whole >> 0,
                r"\begin{bmatrix} \mathrm{Diag}(y) + \tfrac{1}{2} (ue' + eu') & \mathrm{Diag}(\lambda) X \\"
                r" X' \mathrm{Diag}(\lambda) & I \end{bmatrix} \succeq 0,\ X X' = \tfrac{1}{\beta} K",
            ),
            "lambda": equation([lam >= 0, lam <= 1], r"0 \le \lambda \le 1"),
        },
        variables={"lambda": lam, "y": y, "u": u},
        parameters={"eps": eps},
        source="ours, after paper 3, (3)",
        recover=recovered,
    )


@one_family
def alternating_matrix(problem: UnsupervisedMargin, multipliers: ArrayLike) -> Formulation:
    """The semidefinite half of section 5's alternation: for given lambda (n,),

        min  <K o lambda lambda', M> / (2 beta) + xi'e
        s.t. xi_i >= 1 - sum_j M_ij lambda_j K_ij / beta,  xi >= 0,  M as in (3)

    xi is a variable here; in print it is fixed together with lambda, which restricts M further. Neither half of the
    alternation raises the objective, and the objective is never below the optimum of (3).

    Source: paper 3, section 5. Variables M (n, n), xi (n,); parameter eps.

    Raises
    ------
    ValueError
        As `two_class`; unless there is one number from 0 to 1 for each row.
    """
    needs_two_classes(problem, "alternating_matrix")
    lam = real("multipliers", multipliers, (problem.n_rows,), why="lambda, one number for each row")
    if ((lam < 0) | (lam > 1)).any():
        raise ValueError(f"multipliers reach from {lam.min():g} to {lam.max():g}, wanted numbers from 0 to 1")
    beta = problem.beta / 2
    of, xi = _Relations(problem), cp.Variable(problem.n_rows, name="xi")
    spread = problem.gram * np.outer(lam, lam)
    return Formulation(
        name="alternating_matrix",
        objective=cp.Minimize(cp.sum(cp.multiply(spread, of.M)) / (2 * beta) + cp.sum(xi)),
        objective_latex=r"\min_{M, \xi}\quad"
        r" \tfrac{1}{2\beta} \langle K \circ \lambda\lambda', M \rangle + e'\xi",
        parts={"xi": equation([xi >= 1 - cp.multiply(problem.gram, of.M) @ lam / beta, xi >= 0], XI), **of.parts},
        variables={"M": of.M, "xi": xi},
        parameters={"eps": of.eps},
        source="paper 3, section 5",
        recover=lambda formulation: of.recovered(
            np.concatenate((np.asarray(xi.value), np.zeros(len(lam)))), {"x": formulation.dual_values["xi"][0]}, lam
        ),
    )
