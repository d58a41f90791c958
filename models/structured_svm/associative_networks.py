r"""Associative Markov networks (Taskar, Chatalbashev, Koller 2004): one quadratic program that contains the inference.

Where an edge adds a score only if its two ends have the same label, with w_edge >= 0, loss-augmented inference relaxes
to the linear program

    max  sum_v,s mu_v(s) (<w_node[s], x_v> + E_v(s)) + sum_e,s mu_e(s) <z_e, w_edge[:, s]>
    s.t. sum_s mu_v(s) = 1,  mu_e(s) <= mu_u(s),  mu_e(s) <= mu_v(s),  mu >= 0,

which has an integral solution for two labels on any graph (it is a minimum cut), and for any number of labels on a
forest. Its dual, a minimum, takes the place of the maximum in the primal of the structural SVM. With three labels or
more and cycles the maximum may be larger than that over labellings: then this is a relaxation, whose optimum lies above
p*, and equals that of `models.max_margin_markov.local_relaxation`.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from convexstruct.arrays import Matrix, Point, Tensor, Vector
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.marginals.pairwise_polytope import is_forest
from convexstruct.marginals.triplets import sums_by
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.structured_svm.enumerated import SIGN, at_parameters, scale_parameters
from convexstruct.models.structured_svm.max_margin_markov import needs_node_losses, relaxed

PAPER = "paper 4: lecture 25, which names Taskar, Chatalbashev and Koller, Learning associative Markov networks"


@stated("associative networks, the inference folded in: exact for two labels", PAPER, "(4)-(6)", optimum="p_L*")
def associative(problem: StructuredSVM) -> Formulation:
    r"""The primal with the dual of the inference in place of its maximum:

        min  lam/2 |w|^2 + C sum_i omega_i (sum_{v in i} xi_v - <w, f(x_i, y_i)>)
        s.t. xi_v - sum_{e at v} m_ev(s) >= <w_node[s], x_v> + E_v(s)        for all v, s            "node"
             m_eu(s) + m_ev(s) >= <z_e, w_edge[:, s]>                        for all e = (u, v), s   "edge"
             m >= 0, w_edge >= 0                                                                     "sign"

    m_ev(s) is the part of edge e's score for label s that its end v receives. The multipliers of "node" are
    C omega_i mu_v(s), those of "edge" C omega_i mu_e(s).

    Exact for two labels, and on forests; else a relaxation with an optimum at or above p*. For two labels the witness
    is the mixture of the labellings y_v = [mu_v(1) > t] for t uniform in [0, 1], which has
    mu_e(s) = min(mu_u(s), mu_v(s)).

    Source: Taskar, Chatalbashev, Koller 2004, (4)-(6) with slack. Variables w_node (S, F), w_edge (E, S), xi (P,),
    m_first and m_second (Q, S); parameters lam, C.

    Raises
    ------
    ValueError
        If the network is not associative; under slack scaling or the zero-one loss.
    """
    features = problem.features
    if not features.associative:
        raise ValueError(
            "associative came with a network that is not, wanted StructuredSVM.read(..., associative=True)"
        )
    needs_node_losses(problem, "associative")
    size, q = features.n_labels, features.n_edges
    lam, C = scale_parameters(problem)
    w_node = cp.Variable((size, features.n_node_features), name="w_node")
    xi = cp.Variable(features.n_nodes, name="xi")
    variables = {"w_node": w_node, "xi": xi}
    weights, squares = [cp.vec(w_node, order="C")], cp.sum_squares(w_node)
    given = 0
    parts = {}
    if q:
        w_edge = cp.Variable((features.n_edge_features, size), name="w_edge")
        m = [cp.Variable((q, size), name=name) for name in ("m_first", "m_second")]
        given = sum(sums_by(ends, features.n_nodes) @ each for ends, each in zip(features.edges.T, m))
        z = np.ones((q, 1)) if features.edge_features is None else features.edge_features
        parts["edge"] = equation(
            m[0] + m[1] >= z @ w_edge,
            r"m_{eu}(s) + m_{ev}(s) \ge z_e' w_{\mathrm{edge}}(s) \quad \forall e = (u, v),\ s",
        )
        parts["sign"] = equation([*(each >= 0 for each in m), w_edge >= 0], rf"m \ge 0, \quad {SIGN}")
        variables |= {"w_edge": w_edge, "m_first": m[0], "m_second": m[1]}
        weights.append(cp.vec(w_edge, order="C"))
        squares += cp.sum_squares(w_edge)
    score = features.node_features @ w_node.T + problem.loss.costs
    of_nodes = cp.reshape(xi, (features.n_nodes, 1), order="C") @ np.ones((1, size))
    parts = {
        "node": equation(
            of_nodes - given >= score,
            r"\xi_v - \sum_{e \ni v} m_{ev}(s) \ge w_{\mathrm{node}}(s)' x_v + E_v(s) \quad \forall v, s",
        ),
        **parts,
    }
    truth = features.joint(features.truth, problem.weights)
    value = problem.weights[features.example] @ xi - truth @ cp.hstack(weights)

    def recover(formulation: Formulation) -> Recovered:
        instance = at_parameters(problem, formulation)
        point = {"w": problem.project(np.concatenate([np.asarray(part.value) for part in weights]))}
        mu = np.maximum(np.asarray(formulation.dual_values["node"]), 0.0)
        mu /= np.maximum(mu.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        if size == 2:
            return Recovered(instance, point, thresholds(features, mu[:, 1]))
        stated = instance if is_forest(features) else relaxed(instance)
        return Recovered(stated, point, {"node_marginals": mu, "edge_marginals": with_most_agreement(features, mu)})

    return Formulation(
        name="associative",
        objective=cp.Minimize(lam / 2 * squares + C * value),
        objective_latex=r"\min_{w, \xi, m}\quad \tfrac{\lambda}{2} \|w\|^2"
        r" + C \sum_i \omega_i \Big( \sum_{v \in i} \xi_v - w'f(x_i, y_i) \Big)",
        parts=parts,
        variables=variables,
        parameters={"lam": lam, "C": C},
        source="Taskar, Chatalbashev, Koller 2004",
        recover=recover,
    )


def thresholds(features: PairwiseFeatures, p: Vector) -> Point:
    """For two labels: the probabilities p (P,) of label 1 as the mixture of [p_v > t], t uniform in [0, 1]."""
    most = int(features.lengths.max()) + 1
    labels = np.tile(features.truth, (most, 1))
    shares = np.zeros((most, features.n_examples))
    for i, (low, high) in enumerate(zip(features.node_start, features.node_start[1:])):
        here = np.minimum(p[low:high], 1.0)
        cuts = np.concatenate(([0.0], np.sort(here), [1.0]))
        shares[: len(cuts) - 1, i] = np.diff(cuts)
        labels[: len(cuts) - 1, low:high] = here > cuts[:-1, None]
    kept = shares.any(axis=1)
    return {"labels": labels[kept], "label_shares": shares[kept]}


def with_most_agreement(features: PairwiseFeatures, mu: Matrix) -> Tensor:
    """Edge marginals (Q, S, S) with the node marginals mu (P, S) and the greatest probability of equal labels:
    min(mu_u, mu_v) on the diagonal, the remaining mass spread as a product."""
    u, v = mu[features.edges[:, 0]], mu[features.edges[:, 1]]
    both = np.minimum(u, v)
    left, right = u - both, v - both
    rest = left.sum(axis=1)
    table = left[:, :, None] * right[:, None, :] / np.where(rest > 0, rest, 1.0)[:, None, None]
    places = np.arange(features.n_labels)
    table[:, places, places] += both
    return np.asarray(table)
