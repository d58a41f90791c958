r"""What the formulations of the family share: the distributions q_i that training ranges over, and the penalty.

    minimise over theta  P(theta) = C sum_i omega_i [ln Z_i(theta) - <theta, f(x_i, y_i)>] + lam/2 |theta|^2
                                    + l1 |theta|_1
    maximise over q      D(q) = C sum_i omega_i H(q_i) - lam/2 |theta|^2
                         lam theta + v = C sum_i omega_i [f(x_i, y_i) - E_qi f],   |v_k| <= l1

P = D at the optimum: (20.10), maximum entropy given the moments, is the dual of maximum likelihood (Theorem 20.3.4).
The difference of the moments, C sum_i omega_i [f(x_i, y_i) - E_qi f], may be lam theta under an L2 penalty, at the cost
lam/2 |theta|^2, and have entries of up to l1 under an L1 penalty; without a penalty it is 0. Without an L2 penalty,
theta is minus the multipliers of the moments.

A Markov random field is one example of weight M, the mass of its data. q_i is a vector: one entry for each labelling
(`written_out`), or clique tables that agree (`over_cliques`), whose entropy is a sum of conditional ones,

    H(z) = sum_root -z ln z - sum_others z ln (z / z_sep),      z_sep the sums of z by the labels of its separator,

each of them DCP as rel_entr of z and a sum of z.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Flags, Index, Point, Vector
from convexstruct.core.scale import Scale
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.marginals.enumeration import MOST_LABELLINGS
from convexstruct.marginals.pairwise_enumeration import EnumeratedPairwise, enumerate_pairwise, n_labellings
from convexstruct.marginals.pairwise_polytope import adjoint_matrix, clique_polytope
from convexstruct.marginals.triplets import sums_by
from convexstruct.models.formulation import Equation, Formulation, Recovered, equation
from convexstruct.oracles.enumeration import labellings
from convexstruct.validation.arguments import sentence

#: What a formulation of this family takes.
Model = ConditionalRandomField | MarkovRandomField

PAPER = "paper 4: Murphy, Stat 521A, lecture 25"

#: LaTeX shared by the formulations.
QUADRATIC, ABSOLUTE = r"\tfrac{\lambda}{2} \|\theta\|^2", r"\ell_1 \|\theta\|_1"
DATA = r"C \sum_i \omega_i f(x_i, y_i)"
AGREE = r"\sum_{y_c \sim y_s} q_{i,c}(y_c) = \sum_{y_{c'} \sim y_s} q_{i,c'}(y_{c'}), \quad s = c \cap c'"


@dataclass(frozen=True, eq=False)
class Distributions:
    """The distributions of all examples as one vector q (n,).

    features : sparse (d, n), whose columns of example i times q_i are E_qi f. example (n,) : the example of each entry.
    weights (N,) : omega. truth (d,) : sum_i omega_i f(x_i, y_i).
    totals : sparse (N, n), totals q = 1. agreement : sparse (m, n), agreement q = 0; m = 0 where every labelling is
    written out.
    witness : makes a dual point of q; if None, the Gibbs distributions of theta are the dual point.
    """

    features: sp.csr_array
    example: Index
    weights: Vector
    truth: Vector
    totals: sp.csr_array
    agreement: sp.csr_array
    witness: Callable[[Vector], Point] | None = None

    @property
    def n(self) -> int:
        return int(self.features.shape[1])

    @property
    def weighted(self) -> sp.csr_array:
        """(d, n): sum_i omega_i E_qi f = weighted q."""
        return sp.csr_array(self.features.multiply(self.weights[self.example]))

    def entropy(self, q: Any) -> Any:
        """sum_i omega_i H(q_i), concave by CVXPY's rules."""
        root: Flags = np.asarray(self.totals.sum(axis=0)).ravel() > 0
        omega = self.weights[self.example]
        own = cp.sum(cp.multiply(omega[root], cp.entr(q[np.flatnonzero(root)])))
        if root.all():
            return own
        rest = np.flatnonzero(~root)
        below = self.agreement.maximum(0)  # sums of a clique's own entries by the labels of its separator
        return own - cp.sum(cp.multiply(omega[rest], cp.rel_entr(q[rest], below.T[rest] @ (below @ q))))

    def equations(self, q: Any) -> dict[str, Equation]:
        """The equations by which q holds a distribution of each example; the signs follow from the entropy's domain."""
        parts = {"sum": equation(self.totals @ q == 1, r"\sum q_i = 1 \quad \forall i")}
        if self.agreement.shape[0]:
            parts["agree"] = equation(self.agreement @ q == 0, AGREE)
        return parts


def written_out(problem: Model, limit: int = MOST_LABELLINGS) -> Distributions:
    """q with one entry for each labelling that is not forbidden.

    Raises
    ------
    ValueError
        If there are more than ``limit`` labellings.
    """
    several = n_labellings(problem.features) if isinstance(problem, ConditionalRandomField) else _joint_labels(problem)
    if several > limit:
        raise sentence(
            f"problem has {several} labellings, wanted at most {limit} to write out: use a formulation over cliques"
        )
    if isinstance(problem, ConditionalRandomField):
        rows = enumerate_pairwise(problem.features, None, limit)
        kept = np.arange(rows.n_rows) if problem.forbidden is None else _allowed(problem, rows)
        totals = sums_by(rows.example, problem.n_examples)[:, kept]
        return _conditional(problem, sp.csr_array(rows.joint[kept].T), rows.example[kept], totals, None)
    every = labellings(problem.factors.cards)
    every = every[problem.factors.allowed(every)]
    features, all_of_it = sp.csr_array(problem.factors.joint_each(every).T), sp.csr_array(np.ones((1, len(every))))

    def witness(q: Vector) -> Point:
        return {"cliques": problem.polytope.of_samples(every, np.maximum(q, 0.0))}

    return _one_example(problem, features, all_of_it, None, witness)


def over_cliques(problem: Model) -> Distributions:
    """q as the clique tables of each example's junction tree, without entries that are forbidden.

    Raises
    ------
    ValueError
        If a junction tree is too wide.
    """
    if isinstance(problem, ConditionalRandomField):
        pairwise = clique_polytope(problem.features)
        of_nodes, of_edges = adjoint_matrix(problem.features)
        features = sp.csr_array(of_nodes @ pairwise.node + of_edges @ pairwise.edge)
        kept = np.arange(pairwise.n_variables)
        if problem.forbidden is not None:
            each = np.tile(problem.forbidden.ravel(), problem.features.n_edges)
            kept = np.flatnonzero(np.asarray(pairwise.edge[each].sum(axis=0)).ravel() == 0)
        example, agreement = pairwise.columns.example[kept], pairwise.agreement[:, kept]
        return _conditional(problem, features[:, kept], example, pairwise.totals[:, kept], agreement)
    polytope = problem.polytope
    kept = np.flatnonzero(polytope.support)

    def witness(q: Vector) -> Point:
        z = np.zeros(polytope.n_variables)
        z[kept] = np.maximum(q, 0.0)
        return {"cliques": z}

    features, totals, agreement = polytope.features[:, kept], polytope.totals[:, kept], polytope.agreement[:, kept]
    return _one_example(problem, features, totals, agreement, witness)


def _joint_labels(problem: MarkovRandomField) -> int:
    return math.prod(problem.factors.cards)


def _allowed(problem: ConditionalRandomField, rows: EnumeratedPairwise) -> Index:
    """The rows of the labellings without a forbidden pair."""
    features, forbidden, kept = problem.features, problem.forbidden, []
    assert forbidden is not None
    first = np.searchsorted(features.edge_example, np.arange(features.n_examples + 1))
    local = features.edges - features.node_start[features.edge_example][:, None]
    for row, (i, labels) in enumerate(zip(rows.example, rows.labels)):
        u, v = labels[local[first[i] : first[i + 1]]].T
        if not forbidden[u, v].any():
            kept.append(row)
    return np.array(kept, dtype=np.intp)


def _conditional(
    problem: ConditionalRandomField,
    features: sp.csr_array,
    example: Index,
    totals: sp.csr_array,
    agreement: sp.csr_array | None,
) -> Distributions:
    truth = problem.features.joint(problem.features.truth, problem.weights)
    none = sp.csr_array((0, features.shape[1]))
    return Distributions(features, example, problem.weights, truth, totals, none if agreement is None else agreement)


def _one_example(
    problem: MarkovRandomField,
    features: sp.csr_array,
    totals: sp.csr_array,
    agreement: sp.csr_array | None,
    witness: Callable[[Vector], Point],
) -> Distributions:
    example = np.zeros(features.shape[1], dtype=np.intp)
    rows = sp.csr_array((0, features.shape[1])) if agreement is None else agreement
    return Distributions(features, example, np.array([problem.mass]), problem.sums, totals, rows, witness)


class Penalised:
    """C, lam and l1 as parameters, the last two where they are above 0; theta, and the box's v, as variables."""

    def __init__(self, problem: Any) -> None:
        self.problem = problem
        self.C = cp.Parameter(pos=True, name="C", value=problem.scale.C)
        self.parameters = {"C": self.C}
        self.lam = self.l1 = None
        if problem.scale.lam:
            self.lam = self.parameters["lam"] = cp.Parameter(pos=True, name="lam", value=problem.scale.lam)
        if problem.l1:
            self.l1 = self.parameters["l1"] = cp.Parameter(nonneg=True, name="l1", value=problem.l1)

    # -- minimisation over theta ---------------------------------------------------------------------------------------

    def penalty(self, theta: Any) -> tuple[Any, str]:
        """R(theta) and its LaTeX; 0 and "" without one."""
        value, shown = 0.0, ""
        if self.lam is not None:
            value, shown = value + self.lam / 2 * cp.sum_squares(theta), f" + {QUADRATIC}"
        if self.l1 is not None:
            value, shown = value + self.l1 * cp.norm1(theta), f"{shown} + {ABSOLUTE}"
        return value, shown

    # -- maximisation over distributions -------------------------------------------------------------------------------

    def moments(self, expected: Any, truth: Vector) -> tuple[dict[str, Equation], dict[str, Any], Any]:
        """The equations "20.10" and "box", the variables in them, and lam/2 |theta|^2 (0 without an L2 penalty), from
        sum_i omega_i E_qi f and the truth's."""
        left, shown, variables, cost = self.C * expected, r"C \sum_i \omega_i \mathbf{E}_{q_i}[f]", {}, 0.0
        if self.lam is not None:
            theta = variables["theta"] = cp.Variable(len(truth), name="theta")
            left, shown = left + self.lam * theta, rf"{shown} + \lambda \theta"
            cost = self.lam / 2 * cp.sum_squares(theta)
        if self.l1 is not None:
            v = variables["v"] = cp.Variable(len(truth), name="v")
            left, shown = left + v, f"{shown} + v"
        parts = {"20.10": equation(left == self.C * truth, f"{shown} = {DATA}")}
        if self.l1 is not None:
            parts["box"] = equation([variables["v"] <= self.l1, variables["v"] >= -self.l1], r"|v_k| \le \ell_1")
        return parts, variables, cost

    def stated(self) -> Any:
        """The problem with C, lam and l1 as the parameters now have them."""
        lam = 0.0 if self.lam is None else float(self.lam.value)
        l1 = 0.0 if self.l1 is None else float(self.l1.value)
        return replace(self.problem, scale=Scale(lam, float(self.C.value)), l1=l1)

    def recover(self, formulation: Formulation, of: Distributions) -> Recovered:
        """The problem at the present parameters, theta of the solved formulation, and its distributions as witness."""
        theta, instance = parameters(formulation), self.stated()
        if of.witness is None:
            return Recovered(instance, {"theta": theta}, instance.witness(theta))
        q = np.asarray(formulation.variables["q"].value, dtype=np.float64)
        return Recovered(instance, {"theta": theta}, of.witness(q))


def parameters(formulation: Formulation) -> Vector:
    """theta of a solved maximum-entropy program: its variable, or else minus the multipliers of the moments."""
    theta = formulation.variables.get("theta")
    found = -np.asarray(formulation.dual_values["20.10"]) if theta is None else theta.value
    return np.array(found, dtype=np.float64).ravel()
