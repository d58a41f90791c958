r"""The compact dual (ours): one exponential-cone program of polynomial size, no assignment written out.

Because a_k(s*) = 0 and b_k(s*) = 0, beta_k can always be filled up to 1'beta_k = eta w_k, so beta_k / (eta w_k) is a
distribution over assignments, and (mu, omega) are linear in its marginals. On a chain and on any junction tree the
marginals that agree locally are exactly the marginals of distributions, so that script-D can be stated by them.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Labels, Matrix, Point
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.features.counts.rescaled import LossRescaled
from convexstruct.marginals.decomposition import greedy_mixture
from convexstruct.marginals.loss_polytope import LossPolytope, loss_polytope
from convexstruct.marginals.polytope import local_polytope
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.generative_margin.enumerated import (
    PAPER,
    at_parameters,
    block_entropy,
    eta_parameter,
    within_domain,
)
from convexstruct.models.generative_margin.pieces import Phi, conjugate


@stated("(D) over edge or clique marginals, polynomial size", PAPER, "ours, from (8)-(9)")
def compact_dual(problem: GenerativeMargin) -> Formulation:
    r"""The dual over edge (chain) or clique (junction tree) marginals z:

        max  eta l'z - sum_ij v_ij ln(v_ij / V_i),   V_i = sum_j v_ij
        s.t. v + mu = c,  mu = eta (M z - c*)                       ("v", "mu")
             the marginals of each example sum to 1                 ("sum")
             neighbouring marginals agree on what they share        ("flow")
             z >= 0                                                 ("z")

    with M (d, n) the counts and l (n,) the loss of each marginal, both weighted by w_k, c* = sum_k w_k counts_k(s*).
    Only d exponential cones, however many assignments there are. With general objectives the marginals of example k sum
    to a free mass b_k ("sum"), c* = sum_k w_k b_k counts_k(s*), the objective is less eta sum_k w_k h*(b_k), and the
    entropy is phi (`pieces.Phi`). Where the loss rescales the slacks z is a flow over (state, loss so far), for chains
    (`convexstruct.marginals.loss_polytope`), and "sum" says how much beta it is: sum_b z_end(b) / b <= b_k.

    Source: ours, from paper 0, (8)-(9). Variables z (n,), mu (d,), v (d,); parameter eta. The multiplier of
    mu = eta (M z - c*) is theta; the witness is a mixture of labellings that has the marginals z.
    """
    flow = loss_polytope(problem.margins) if isinstance(problem.margins, LossRescaled) else None
    polytope = local_polytope(problem.features) if flow is None else flow.polytope
    n_sums = problem.n_examples
    z = cp.Variable(polytope.n_variables, name="z")
    mu = cp.Variable(problem.dimension, name="mu")
    v = cp.Variable(problem.dimension, name="v")
    eta = eta_parameter(problem)
    general = problem.general is not None
    b: Any = cp.Variable(n_sums, nonneg=True, name="b") if general else np.ones(n_sums)
    weights, sizes = problem.examples.weights, polytope.equality[:n_sums] @ z
    if general or flow is not None:
        truth = problem.truth_each.T @ cp.multiply(weights, b if flow is None else sizes)
    else:
        truth = problem.truth_counts
    link = mu == eta * (polytope.counts @ z - truth)
    phi = Phi(problem, mu, block_entropy) if general else None
    paid, inside = conjugate(problem.h, b) if general else (0.0 * weights, [])
    parts = phi.parts if phi is not None else {"v": equation(v + mu == problem.c, r"v + \mu = c")}
    parts |= {
        "mu": equation(link, r"\mu = \eta\, (M z - c^*)"),
        "sum": equation(
            [sizes == b if flow is None else flow.ends @ z <= b, *inside],
            r"\sum_{y_C} z_{k,C}(y_C) = 1, \quad C \text{ the first edge or clique of } k"
            if flow is None
            else r"\sum_b z_{k,\text{end}}(b) / b \le 1",
        ),
    }
    if polytope.equality.shape[0] > n_sums:
        parts["flow"] = equation(
            polytope.equality[n_sums:] @ z == polytope.rhs[n_sums:],
            r"\sum_{y_C \sim y_S} z_{k,C}(y_C) = \sum_{y_{C'} \sim y_S} z_{k,C'}(y_{C'}), \quad S = C \cap C'",
        )
    parts["z"] = equation(z >= 0, r"z \ge 0")

    def recover(formulation: Formulation) -> Recovered:
        instance = at_parameters(problem, formulation)
        if flow is not None:
            return Recovered(instance, {"theta": np.asarray(link.dual_value)}, _of_flow(instance, flow, z, phi))
        if phi is not None:
            mass = np.maximum(np.asarray(b.value), 0.0)
            each = np.asarray(z.value) / np.where(mass > 0, mass, 1.0)[polytope.columns.example]
            labels, shares = greedy_mixture(polytope.columns, each, problem.examples.truth)
            masses = {"labels": labels, "label_shares": shares, "mass": mass, "rows": phi.rows}
            return Recovered(instance, {"theta": np.asarray(link.dual_value)}, masses)
        mixture = greedy_mixture(polytope.columns, np.asarray(z.value), problem.examples.truth)
        witness = _within_domain(instance, *mixture)
        return Recovered(instance, {"theta": np.asarray(link.dual_value)}, witness)

    value = eta * (polytope.loss @ z)
    value += -block_entropy(problem.layout, v) if phi is None else phi.value - eta * (weights @ paid)
    return Formulation(
        name="compact_dual",
        objective=cp.Maximize(value),
        objective_latex=r"\max_{z}\quad \eta\, l'z + \sum_i \Big[ V_i \ln V_i - \sum_j v_{ij} \ln v_{ij} \Big]"
        r", \quad V_i = \sum_j v_{ij}",
        parts=parts,
        variables={"z": z, "mu": mu, **({"v": v} if phi is None else {"b": b, **phi.variables})},
        parameters={"eta": eta},
        source="ours, from paper 0, (8)-(9)",
        recover=recover,
    )


def _within_domain(problem: GenerativeMargin, labels: Labels, shares: Matrix) -> Point:
    """The mixture as a witness; if some c_ij = 0, with shares lowered so that rounding does not make mu exceed c (see
    `within_domain`)."""
    witness = {"labels": labels, "label_shares": shares}
    if (problem.c > 0).all():
        return witness
    each = [problem.features.counts_each(row) - problem.truth_each for row in labels]
    weight = np.tile(problem.eta * problem.examples.weights, len(labels))
    beta = within_domain(sp.csr_array(sp.vstack(each, format="csr")), shares.ravel() * weight, problem.c)
    return witness | {"label_shares": (beta / weight).reshape(shares.shape)}


def _of_flow(problem: GenerativeMargin, flow: LossPolytope, z: Any, phi: Phi | None) -> Point:
    """The labellings of a flow as a witness, with masses where these are free."""
    assert isinstance(problem.margins, LossRescaled)
    labels, beta = flow.mixture(problem.margins, np.asarray(z.value))
    mass = beta.sum(axis=0)
    if phi is None:
        return {"labels": labels, "label_shares": beta / np.maximum(mass, 1.0)}
    return {"labels": labels, "label_shares": beta / np.where(mass > 0, mass, 1.0), "mass": mass, "rows": phi.rows}
