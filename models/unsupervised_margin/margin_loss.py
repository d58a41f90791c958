r"""The structured margin loss in Theorem 1's matrices: a maximum over mu and nu, for labels or for any M, N, C, D.

    margin_loss     omega(y) of given labels, which is the loss of a supervised max-margin Markov network
    relaxed_loss    omega(M, N, C, D) where the four matrices are parameters, and need not be a labelling's

**Erratum (paper 3, (5) and (8)).** nu must agree with mu at both rows of each pair. In print it agrees at one row, and
the maximum is too large: ``without("5.3")`` states what is printed. `structured_svm.matrix_form` is the same loss for
chains alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Labels, Matrix, Point
from convexstruct.core.registry import one_family
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.relaxed_loss import RelaxedLoss
from convexstruct.families.unsupervised_margin.supervised import supervised
from convexstruct.models.formulation import Formulation, Recovered
from convexstruct.models.structured_svm import NodeAndEdgeMarginals, from_dual
from convexstruct.validation.arrays import wholes

LOSS = (
    r"\max_{\mu,\nu}\quad p_1 - \langle \mu, C \rangle"
    r" + \tfrac{1}{\beta} \big( \langle \mu, KC \rangle + \langle \nu, ED \rangle \big)"
    r" - \tfrac{1}{2\beta} \big( \langle M, K \rangle + \langle N, E \rangle"
    r" + \langle \mu\mu', K \rangle + \langle \nu\nu', E \rangle \big)"
)


def read_labels(problem: UnsupervisedMargin, labels: ArrayLike) -> Labels:
    """Labels (p1,) of all rows. ValueError unless they are whole numbers from 0 to kappa - 1, one a row."""
    why = "one label for each row"
    return wholes("labels", labels, (problem.n_rows,), least=0, most=problem.n_labels - 1, why=why)


def indicators(problem: UnsupervisedMargin, labels: ArrayLike) -> Point:
    """M, N, C and D of (7) for labels (p1,)."""
    y, kappa = read_labels(problem, labels), problem.n_labels
    c = np.eye(kappa)[y]
    d = np.eye(kappa**2)[y[problem.previous] * kappa + y[problem.current]]
    return {"M": c @ c.T, "N": d @ d.T, "C": c, "D": d}


class _Loss:
    """The parts of (8): marginals, and M, N, C and D as parameters."""

    def __init__(self, problem: UnsupervisedMargin) -> None:
        kappa, p1, p2 = problem.n_labels, problem.n_rows, problem.n_pairs
        self.problem = problem
        self.marginals = NodeAndEdgeMarginals(supervised(problem, np.zeros(p1, dtype=np.int64)))
        shapes = {"M": (p1, p1), "C": (p1, kappa)} | ({"N": (p2, p2), "D": (p2, kappa**2)} if p2 else {})
        uniform: dict[str, Matrix] = {name: np.full(shape, 1.0 / shape[1]) for name, shape in shapes.items()}
        uniform |= {name: np.eye(len(uniform[name])) for name in ("M", "N") if name in shapes}
        self.parameters = {name: cp.Parameter(shape, name=name, value=uniform[name]) for name, shape in shapes.items()}

    def set(self, values: Point) -> None:
        for name, parameter in self.parameters.items():
            parameter.value = np.asarray(values[name])

    def recovered(self, formulation: Formulation) -> Recovered:
        """mu, nu, and the multipliers b of "5.3" in the units of beta omega, at the parameters' values."""
        problem, kappa = self.problem, self.problem.n_labels
        found = {"mu": np.asarray(self.marginals.mu.value), "nu": np.zeros((0, kappa**2))}
        b = np.zeros((0, kappa))
        if self.marginals.nu is not None:
            # in the problem's order of pairs: a row is the current one of at most one pair
            order = np.argsort(self.marginals.problem.features.edges[:, 1])[np.argsort(np.argsort(problem.current))]
            found["nu"] = np.asarray(self.marginals.nu.value)[order]
            b = problem.beta * np.asarray(formulation.dual_values["5.3"])[order]
        none = {"N": np.zeros((0, 0)), "D": np.zeros((0, kappa**2))}
        given = none | {name: np.asarray(parameter.value) for name, parameter in self.parameters.items()}
        return Recovered(RelaxedLoss(problem, given), {**found, "b": b}, found)

    def formulation(self, name: str, recover: Any) -> Formulation:
        problem, given, of = self.problem, self.parameters, self.marginals
        kernels = [("M", "C", of.mu, problem.gram)]
        if of.nu is not None:
            kernels.append(("N", "D", of.nu, np.ones((problem.n_pairs, problem.n_pairs))))
        value = problem.n_rows - cp.sum(cp.multiply(given["C"], of.mu))
        for relation, indicator, marginal, k in kernels:
            squares = sum(cp.quad_form(marginal[:, u], cp.psd_wrap(k)) for u in range(marginal.shape[1]))
            linear = cp.sum(cp.multiply(k @ given[indicator], marginal))
            value += (linear - (cp.sum(cp.multiply(k, given[relation])) + squares) / 2) / problem.beta
        return Formulation(
            name=name,
            objective=cp.Maximize(value),
            objective_latex=LOSS,
            objective_label="8",
            parts=of.polytope(),
            variables=of.variables,
            parameters=given,
            source="paper 3, (8), Theorem 1, corrected",
            recover=recover,
        )


@one_family
def relaxed_loss(problem: UnsupervisedMargin) -> Formulation:
    r"""omega(M, N, C, D) of Theorem 1, corrected, at the matrices that the parameters hold:

        max  p1 - <mu, C> + (<mu, K C> + <nu, E D>) / beta
             - (<M, K> + <N, E> + <mu mu', K> + <nu nu', E>) / (2 beta)                              (8)
        s.t. sum_u mu_i(u) = 1                                                                       "5.1"
             nu agrees with mu at the current row of each pair                                       "5.2"
             nu agrees with mu at the previous row of each pair          not in print                "5.3"
             mu, nu >= 0                                                                             "5.4"

    A maximum of linear functions, and so convex in (M, N, C, D). The parameters start at C = 1/kappa, D = 1/kappa^2,
    and M and N the identity. Certified by `RelaxedLoss` at the parameters' values.

    Source: paper 3, (8). Variables mu (p1, kappa), nu (p2, kappa^2); parameters M, N, C, D.
    """
    of = _Loss(problem)
    return of.formulation("relaxed_loss", of.recovered)


@one_family
def margin_loss(problem: UnsupervisedMargin, labels: ArrayLike) -> Formulation:
    """omega(y), the margin loss (4) of given labels (p1,), as Theorem 1 has it; certified as the structural SVM that
    `supervised` makes.

    Variables and parameters as `relaxed_loss` has them; the parameters hold the labels' matrices (7). Where they are
    changed, the certificate remains that of the labels.

    Raises
    ------
    ValueError
        Unless there is one label from 0 to kappa - 1 for each row.
    """
    of, svm = _Loss(problem), supervised(problem, labels)
    of.set(indicators(problem, labels))
    of.marginals.problem = svm

    def recover(_: Formulation) -> Recovered:
        return from_dual(svm, of.marginals.witness(), of.marginals.psi(svm))

    made = of.formulation("margin_loss", recover)
    return replace(made, source=f"{made.source}, at given labels")
