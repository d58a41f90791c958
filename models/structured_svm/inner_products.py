r"""Structural SVMs stated by inner products alone: kernels, and the matrix form of paper 3.

    dual_kernel    (D) over alpha, the node features entering by their Gram matrix K
    matrix_form    (8), Theorem 1: (5) by K, E and the indicator matrices C, D

K (P, P) is the Gram matrix over all nodes. Where the problem was built with ``kernel=``, its features Phi are a factor
of the kernel that was given, so that K = Phi Phi' is that kernel; w = Psi / lam has one entry for each column of Phi.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Matrix
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.marginals.pairwise_enumeration import n_labellings
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.structured_svm.enumerated import (
    PAPER_1,
    PAPER_3,
    SIGN,
    MarginRows,
    at_parameters,
    from_dual,
    scale_parameters,
    shares,
)
from convexstruct.models.structured_svm.max_margin_markov import NodeAndEdgeMarginals

#: The largest size of a dense matrix: `dual_kernel` has one row for each labelling, `matrix_form` one for each node.
LIMIT = 1_500


def gram(problem: StructuredSVM) -> Matrix:
    """K (P, P) = Phi Phi' over the nodes of all examples."""
    x = problem.features.node_features
    product = x @ x.T
    return np.asarray(product.todense() if sp.issparse(product) else product)


@stated("(D) by Gram matrices, every labelling written out", PAPER_1, "(D)", enumerated=True)
def dual_kernel(problem: StructuredSVM, limit: int = LIMIT) -> Formulation:
    r"""(D) with the node features in K only, all labellings enumerated:

        max  alpha' E - 1/(2 lam) alpha' G alpha - lam/2 |w_edge|^2
        s.t. lam w_edge = sum_i,y alpha_i(y) e_i(y) (f_edge(x_i, y_i) - f_edge(x_i, y))        "w edge"
             sum_y alpha_i(y) = C omega_i,  alpha >= 0                                         "sum", "alpha"
        G_rr' = e_r e_r' sum_v,v' K_vv' sum_s T_r(v, s) T_r'(v', s),   T_r(v, s) = [y_iv = s] - [y_v = s]

    where v runs over the nodes of i(r). Edges have few features, so that their weights stay variables.

    Source: paper 1, (D), with Gram matrices; ours in this form. Variables alpha (R,), w_edge; parameters lam, C.

    Raises
    ------
    ValueError
        If there are more than ``limit`` labellings.
    """
    features = problem.features
    total = n_labellings(features)
    if total > limit:
        raise ValueError(
            f"the examples have {total} labellings, wanted at most {limit} for a dense Gram matrix: use, in the "
            "factorised features, 'marginals', or constraint generation ('n_slack_cuts')"
        )
    indicators = replace(features, node_features=sp.csr_array(sp.eye_array(features.n_nodes)))
    rows = MarginRows(problem, limit)
    plain = MarginRows(replace(problem, features=indicators), limit)
    at = indicators.n_node_weights
    t, k = plain.a[:, :at], gram(problem)
    of_labels = (sp.csr_array(t[:, low : low + features.n_nodes]) for low in range(0, at, features.n_nodes))
    g = sum(each @ k @ each.T for each in of_labels)
    alpha = cp.Variable(len(rows.loss), name="alpha")
    lam, C = scale_parameters(problem)
    inverse = cp.CallbackParam(callback=lambda: 1.0 / lam.value, pos=True, name="1/lam")
    value = rows.loss @ alpha - inverse / 2 * cp.quad_form(alpha, cp.psd_wrap(g))
    parts: dict[str, Any] = {}
    variables = {"alpha": alpha}
    if plain.a.shape[1] > at:
        w_edge = cp.Variable(plain.a.shape[1] - at, name="w_edge")
        psi = plain.a[:, at:].T @ alpha
        link = [lam * w_edge >= psi, w_edge >= 0] if features.associative else lam * w_edge == psi
        shown = r"\sum_{i,y} \alpha_i(y)\, e_i(y)\, \delta f_{i,\mathrm{edge}}(y)"
        relation = rf"\ge {shown},\ {SIGN}" if features.associative else f"= {shown}"
        parts["w edge"] = equation(link, rf"\lambda w_{{\mathrm{{edge}}}} {relation}")
        variables["w_edge"] = w_edge
        value -= lam / 2 * cp.sum_squares(w_edge)

    def recover(formulation: Formulation) -> Recovered:
        instance = at_parameters(problem, formulation)
        return from_dual(instance, rows.witness(alpha.value, instance.ceiling), rows.a.T @ alpha.value)

    return Formulation(
        name="dual_kernel",
        objective=cp.Maximize(value),
        objective_latex=r"\max_{\alpha}\quad \sum_{i,y} \alpha_i(y) E_i(y) - \tfrac{1}{2\lambda} \alpha' G \alpha"
        r" - \tfrac{\lambda}{2} \|w_{\mathrm{edge}}\|^2",
        objective_label="D",
        parts={**parts, **shares(problem, rows, alpha, C)},
        variables=variables,
        parameters={"lam": lam, "C": C},
        source=f"paper 1, (D) with a Gram matrix, {problem.scaling} scaling, enumerated",
        recover=recover,
    )


@stated("M3N in matrix form, chains and Hamming loss", PAPER_3, "(8), Theorem 1, corrected")
def matrix_form(problem: StructuredSVM) -> Formulation:
    r"""Theorem 1, corrected: with p1 positions, p2 adjacent pairs, C (p1, S) and D (p2, S S) the indicators of the
    true labels and pairs, M = C C', N = D D', K the Gram matrix of the positions and E (p2, p2) all ones,

        max  p1 - <mu, C> + (<mu, K C> + <nu, E D>) / beta
             - (<M, K> + <N, E> + <mu mu', K> + <nu nu', E>) / (2 beta)                       (8)
        s.t. mu, nu of (5): "5.1", "5.2", "5.4", and "5.3", which print leaves out

    for lam = beta and C = 1. In another convention (see `Scale`) beta = lam / C, and the whole is multiplied by C.
    Weights omega (ours) multiply the rows: K_vv' by omega_v omega_v', E likewise, p1 - <mu, C> position by position.

    E is all ones because a stationary transition has one feature, 1, in every pair. <mu, K C> is what the paper prints
    as <K C>. Pairs stand as (previous, current) here. If beta is far below 1, the quadratic terms nearly cancel
    and the w of a solver's mu is inaccurate; `marginals`, which has w as a variable, is accurate there too.

    Source: paper 3, (8), Theorem 1. Variables mu (p1, S), nu (p2, S S); parameters lam, C.

    Raises
    ------
    ValueError
        If the graphs are no chains with one table of transitions, the loss is not Hamming's, or there are more than
        `LIMIT` positions.
    """
    features = problem.features
    hamming = np.ones_like(problem.loss.costs)
    hamming[np.arange(features.n_nodes), features.truth] = 0.0
    wanted = {
        "chains whose edges share one table": features.is_chain and features.shared and not features.associative,
        "the Hamming loss under margin scaling": problem.scaling == "margin"
        and not problem.loss.zero_one
        and np.array_equal(problem.loss.costs, hamming),
        f"at most {LIMIT} nodes": features.n_nodes <= LIMIT,
    }
    missing = [name for name, given in wanted.items() if not given]
    if missing:
        raise ValueError(f"matrix_form came with a problem without {missing[0]}, wanted one with: use 'marginals'")
    of = NodeAndEdgeMarginals(problem)
    c, d = of.indicators()
    weight, pair_weight = problem.weights[features.example], problem.weights[features.edge_example]
    k = gram(problem) * np.outer(weight, weight)
    ratio = cp.CallbackParam(callback=lambda: of.C.value**2 / of.lam.value, pos=True, name="C^2/lam")
    value = of.C * (weight.sum() - cp.sum(cp.multiply(weight[:, None] * c, of.mu)))
    value += ratio * _similarity(of.mu, c, k)
    if of.nu is not None:
        value += ratio * _similarity(of.nu, d, np.outer(pair_weight, pair_weight))

    def recover(formulation: Formulation) -> Recovered:
        instance = at_parameters(problem, formulation)
        return from_dual(instance, of.witness(), of.psi(instance))

    return Formulation(
        name="matrix_form",
        objective=cp.Maximize(value),
        objective_latex=r"\max_{\mu,\nu}\quad p_1 - \langle \mu, C \rangle"
        r" + \tfrac{1}{\beta} \big( \langle \mu, KC \rangle + \langle \nu, ED \rangle \big)"
        r" - \tfrac{1}{2\beta} \big( \langle M, K \rangle + \langle N, E \rangle"
        r" + \langle \mu\mu', K \rangle + \langle \nu\nu', E \rangle \big)",
        objective_label="8",
        parts=of.polytope(),
        variables=of.variables,
        parameters=of.parameters,
        source="paper 3, (8), Theorem 1, corrected",
        recover=recover,
    )


def _similarity(mu: Any, truth: Matrix, k: Matrix) -> Any:
    """<mu, K C> - (<C C', K> + <mu mu', K>) / 2 = -|K^(1/2) (C - mu)|^2 / 2, column by column."""
    squares = sum(cp.quad_form(mu[:, s], cp.psd_wrap(k)) for s in range(truth.shape[1]))
    return cp.sum(cp.multiply(k @ truth, mu)) - (np.sum(truth * (k @ truth)) + squares) / 2
