r"""Max-margin Markov networks (papers 1 and 3): the dual of a structural SVM over marginals, of polynomial size.

    marginals           exact: node and edge marginals on forests, clique marginals on junction trees
    local_relaxation    node and edge marginals on any graph: on cycles a relaxation, whose optimum lies above p*

Margin scaling and node losses only: slack scaling and the zero-one loss do not decompose over nodes and edges.

**Erratum (paper 3, (5); also Theorem 1).** As printed, nu_ik(u, u') need only agree with mu_ik(u), the later position
of each pair. It must agree with mu_i,k-1(u') as well. Without that the earlier label is free, the feasible set too
large and the optimum an overestimate: ``marginals(problem).without("5.3")`` states what is printed.

In print a pair reads (current, previous); here nu[e, y_u S + y_v] belongs to the edge (u, v) as it was given, which on
a chain is (previous, current). beta is lam / C (paper 3 has C = 1, paper 1 has lam = 1 and C/N).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Matrix, Point, Vector
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.marginals.decomposition import greedy_mixture
from convexstruct.marginals.pairwise_polytope import adjoint_matrix, clique_polytope, is_forest
from convexstruct.marginals.triplets import picks
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Equation, Formulation, Recovered, equation
from convexstruct.models.structured_svm.enumerated import (
    PAPER_1,
    PAPER_3,
    SIGN,
    at_parameters,
    from_dual,
    link,
    scale_parameters,
)

#: LaTeX of (5).
MAXIMUM = r"\max_{\mu, \nu, w}\quad C \sum_{i,k,u} \omega_i\, \mu_{ik}(u) E_{ik}(u) - \tfrac{\lambda}{2} \|w\|^2"
NODE_LINK = r"\lambda w_{\mathrm{node}} = C \sum_{i,k} \omega_i \big( c_{ik} - \mu_{ik} \big) x_{ik}'"
EDGE_SUM = r"C \sum_{i,k} \omega_i\, z_{ik} \big( d_{ik} - \nu_{ik} \big)'"
CURRENT = r"\sum_{u'} \nu_{ik}(u, u') = \mu_{ik}(u) \quad \forall u"
PREVIOUS = r"\sum_u \nu_{ik}(u, u') = \mu_{i,k-1}(u') \quad \forall u' \quad \text{(not in print)}"


def needs_node_losses(problem: StructuredSVM, name: str) -> None:
    """ValueError unless the loss is a sum over nodes: under slack scaling or the zero-one loss."""
    if problem.scaling != "margin" or problem.loss.zero_one:
        came = "slack scaling" if problem.scaling != "margin" else "the zero-one loss"
        raise ValueError(
            f"{name} came with {came}, wanted margin scaling and a loss that is a sum over nodes: use 'n_slack' or "
            "'n_slack_cuts'"
        )


class NodeAndEdgeMarginals:
    """Variables mu (P, S), nu (Q, S S), w_node (S, F), w_edge, and the equations of (5).

    mu[v, u] : probability that node v has label u. nu[e, y_u S + y_v] : that edge e = (u, v) has these labels.
    """

    def __init__(self, problem: StructuredSVM) -> None:
        features = problem.features
        self.problem, self.size = problem, features.n_labels
        self.mu = cp.Variable((features.n_nodes, self.size), name="mu")
        self.nu = cp.Variable((features.n_edges, self.size**2), name="nu") if features.n_edges else None
        self.lam, self.C = scale_parameters(problem)

    @property
    def variables(self) -> dict[str, Any]:
        return {"mu": self.mu} | ({"nu": self.nu} if self.nu is not None else {})

    @property
    def parameters(self) -> dict[str, Any]:
        return {"lam": self.lam, "C": self.C}

    def polytope(self) -> dict[str, Equation]:
        """The constraints of (5): "5.1" to "5.4"."""
        features, size = self.problem.features, self.size
        parts = {"5.1": equation(cp.sum(self.mu, axis=1) == 1, r"\sum_u \mu_{ik}(u) = 1 \quad \forall k")}
        if self.nu is not None:
            first, second = (picks(ends, features.n_nodes) for ends in features.edges.T)
            ones, each = np.ones((size, 1)), np.eye(size)
            onto_second, onto_first = (sp.csr_array(np.kron(*pair)) for pair in ((ones, each), (each, ones)))
            parts["5.2"] = equation(self.nu @ onto_second == second @ self.mu, CURRENT)
            parts["5.3"] = equation(self.nu @ onto_first == first @ self.mu, PREVIOUS)
        signs = [self.mu >= 0] + ([self.nu >= 0] if self.nu is not None else [])
        return parts | {"5.4": equation(signs, r"\mu, \nu \ge 0")}

    def indicators(self) -> tuple[Matrix, Matrix]:
        """The truth's mu and nu."""
        features, size = self.problem.features, self.size
        y = features.truth
        mu, nu = np.zeros((features.n_nodes, size)), np.zeros((features.n_edges, size * size))
        mu[np.arange(len(mu)), y] = 1.0
        if len(nu):
            nu[np.arange(len(nu)), y[features.edges[:, 0]] * size + y[features.edges[:, 1]]] = 1.0
        return mu, nu

    def psi(self, problem: StructuredSVM) -> Vector:
        """Psi = C sum_i omega_i (f(x_i, y_i) - E f) at the solver's mu and nu."""
        features, size = problem.features, self.size
        ceiling = problem.ceiling
        node = np.asarray(self.mu.value) * ceiling[features.example][:, None]
        edge = np.zeros((0, size * size)) if self.nu is None else np.asarray(self.nu.value)
        edge = edge * ceiling[features.edge_example][:, None]
        return problem.truth_joint - features.adjoint(node, edge.reshape(-1, size, size))

    def witness(self) -> Point:
        """mu and nu as a dual point of the problem, negative entries set to 0; the problem repairs the rest itself."""
        edge = np.zeros(0) if self.nu is None else np.maximum(np.asarray(self.nu.value), 0.0)
        shape = (self.problem.features.n_edges, self.size, self.size)
        node = np.maximum(np.asarray(self.mu.value), 0.0)
        return {"node_marginals": node, "edge_marginals": edge.reshape(shape)}


def _over_nodes_and_edges(
    problem: StructuredSVM, name: str, stated: Callable[[StructuredSVM], StructuredSVM]
) -> Formulation:
    """(5) with w: lam w_node = C (truth - mu)' X, lam w_edge = C Z' (truth - nu), rows weighted by omega."""
    features, size = problem.features, problem.features.n_labels
    of = NodeAndEdgeMarginals(problem)
    truth, edge_truth = of.indicators()
    weight = problem.weights[features.example]
    x = features.node_features
    x = sp.csr_array(x.multiply(weight[:, None])) if sp.issparse(x) else x * weight[:, None]
    w_node = cp.Variable((size, features.n_node_features), name="w_node")
    parts = {"w": equation(of.lam * w_node == of.C * ((truth - of.mu).T @ x), NODE_LINK)}
    variables = {**of.variables, "w_node": w_node}
    squares = cp.sum_squares(w_node)
    if of.nu is not None:
        z = np.ones((features.n_edges, 1)) if features.edge_features is None else features.edge_features
        z = z * problem.weights[features.edge_example][:, None]
        kept = np.arange(size) * (size + 1) if features.associative else np.arange(size * size)
        w_edge = cp.Variable((z.shape[1], len(kept)), name="w_edge")
        right = of.C * (z.T @ (edge_truth - of.nu)[:, kept])
        if features.associative:
            shown = rf"\lambda w_{{\mathrm{{edge}}}} \ge {EDGE_SUM},\ {SIGN}"
            parts["w edge"] = equation([of.lam * w_edge >= right, w_edge >= 0], shown)
        else:
            parts["w edge"] = equation(of.lam * w_edge == right, rf"\lambda w_{{\mathrm{{edge}}}} = {EDGE_SUM}")
        variables["w_edge"] = w_edge
        squares += cp.sum_squares(w_edge)

    def recover(formulation: Formulation) -> Recovered:
        instance = at_parameters(problem, formulation)
        w = np.concatenate([np.asarray(variables[key].value).ravel() for key in variables if key.startswith("w_")])
        return from_dual(stated(instance), of.witness(), of.psi(instance), w)

    costs = problem.loss.costs * weight[:, None]
    return Formulation(
        name=name,
        objective=cp.Maximize(of.C * cp.sum(cp.multiply(costs, of.mu)) - of.lam / 2 * squares),
        objective_latex=MAXIMUM,
        objective_label="5",
        parts={**parts, **of.polytope()},
        variables=variables,
        parameters=of.parameters,
        source="paper 3, (5), corrected; paper 1, decomposed dual",
        recover=recover,
    )


@stated("M3N: the dual over marginals, exact, of polynomial size", f"{PAPER_3}; {PAPER_1}", "(5), corrected")
def marginals(problem: StructuredSVM) -> Formulation:
    r"""The exact dual over marginals. On forests, corrected:

        max  C sum omega_i mu_ik(u) E_ik(u) - lam/2 |w|^2                                   (5)
        s.t. lam w_node = C X' (truth - mu),  lam w_edge = C Z' (truth - nu)                ("w", "w edge")
             sum_u mu_ik(u) = 1                                                             ("5.1")
             sum_u' nu_ik(u, u') = mu_ik(u)          as printed                             ("5.2")
             sum_u nu_ik(u, u') = mu_i,k-1(u')       not in print (see the erratum)         ("5.3")
             mu, nu >= 0                                                                    ("5.4")

    Where a graph has a cycle, the same over tables z of the cliques of its junction tree ("slides": marginals of any
    valid distribution), which agree on what neighbouring cliques share.

    Source: paper 3, (5); paper 1, "alphas as probabilities". Variables mu (P, S), nu (Q, S S), w_node (S, F), w_edge
    (E, S S) (associative: (E, S)); on graphs with cycles z (n,) and w (d,). Parameters lam, C.

    Raises
    ------
    ValueError
        Under slack scaling or the zero-one loss; if a junction tree is too wide.
    """
    needs_node_losses(problem, "marginals")
    if is_forest(problem.features):
        return _over_nodes_and_edges(problem, "marginals", lambda instance: instance)
    return _over_cliques(problem)


def _over_cliques(problem: StructuredSVM) -> Formulation:
    """The dual over clique marginals z; the witness is a mixture of labellings that has these marginals."""
    features = problem.features
    polytope = clique_polytope(features)
    weight = problem.weights[polytope.columns.example]
    of_nodes, of_edges = adjoint_matrix(features)
    joint = sp.csr_array((of_nodes @ polytope.node + of_edges @ polytope.edge).multiply(weight))
    truth = features.joint(features.truth, problem.weights)
    loss = (polytope.node.T @ problem.loss.costs.ravel()) * weight
    z = cp.Variable(polytope.n_variables, name="z")
    w = cp.Variable(problem.dimension, name="w")
    lam, C = scale_parameters(problem)
    parts = {
        "w": link(problem, lam, w, C * (truth - joint @ z), r"C \sum_i \omega_i \big( f(x_i, y_i) - F_i z_i \big)"),
        "sum": equation(
            polytope.totals @ z == 1, r"\sum_{y_c} z_{i,c}(y_c) = 1, \quad c \text{ the root clique of } i"
        ),
    }
    if polytope.agreement.shape[0]:
        shown = r"\sum_{y_c \sim y_s} z_{i,c}(y_c) = \sum_{y_{c'} \sim y_s} z_{i,c'}(y_{c'}), \quad s = c \cap c'"
        parts["agree"] = equation(polytope.agreement @ z == 0, shown)
    parts["z"] = equation(z >= 0, r"z \ge 0")

    def recover(formulation: Formulation) -> Recovered:
        labels, shares = greedy_mixture(polytope.columns, np.asarray(z.value), features.truth)
        witness = {"labels": labels, "label_shares": shares}
        instance = at_parameters(problem, formulation)
        psi = instance.scale.C * (truth - joint @ z.value)
        return from_dual(instance, witness, psi, w.value)

    return Formulation(
        name="marginals",
        objective=cp.Maximize(C * (loss @ z) - lam / 2 * cp.sum_squares(w)),
        objective_latex=r"\max_{z, w}\quad C \sum_i \omega_i\, E_i'z_i - \tfrac{\lambda}{2} \|w\|^2",
        objective_label="5",
        parts=parts,
        variables={"z": z, "w": w},
        parameters={"lam": lam, "C": C},
        source="paper 1, decomposed dual, over the cliques of junction trees",
        recover=recover,
    )


@stated(
    "node and edge marginals on any graph: a relaxation where there are cycles",
    PAPER_3,
    "(5), corrected, on cycles",
    optimum="p_L*",
)
def local_relaxation(problem: StructuredSVM) -> Formulation:
    r"""(5) over the local polytope of any graph, however wide: node and edge marginals that agree.

    On a forest it is `marginals`. On a graph with cycles such marginals need not belong to a distribution, the set is
    larger than that of distributions, and the optimum lies above p*: it is the optimum of

        P_L(w) = lam/2 |w|^2 + C sum_i omega_i max over the local polytope of [E_i - <w, df_i>]  >=  P(w),

    which `recover` certifies (inference="relaxed"). P at its w bounds p* from above, as P at any w does.

    Source: ours, from paper 3, (5), and paper 1's remark on approximate inference. Variables and parameters as
    `marginals` has them on forests.

    Raises
    ------
    ValueError
        Under slack scaling or the zero-one loss.
    """
    needs_node_losses(problem, "local_relaxation")
    exact = is_forest(problem.features)
    return _over_nodes_and_edges(problem, "local_relaxation", (lambda instance: instance) if exact else relaxed)


def relaxed(problem: StructuredSVM) -> StructuredSVM:
    """The problem with inference over the local polytope: P_L in place of P."""
    return replace(problem, inference="relaxed")
