r"""The prediction of a convex energy network (paper 1, SPEN) in CVXPY: the least energy on the cube."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from convexstruct.families.energy_network.energy import factor
from convexstruct.families.energy_network.inference import EnergyInference
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation


@stated("inference: the least energy on the cube", "paper 1, SPEN", "prediction", optimum="E*")
def least_energy(problem: EnergyInference) -> Formulation:
    r"""Inference, all examples at once:

        min  - <scores, Y> + 1/2 sum_i y_i'Q y_i + sum_ik v_k softplus(a_k'y_i + b_k)     (E)
        s.t. 0 <= Y <= 1                                                                ("cube")

    Source: paper 1, SPEN: the limit of its gradient steps where E is convex in y. Variable Y (n, L). The dual witness
    is Y too, by the tangent of E there.
    """
    y = cp.Variable(problem.scores.shape, name="Y")
    energy = 0.5 * cp.sum_squares(y @ factor(problem.Q)) - cp.sum(cp.multiply(problem.scores, y))
    latex = r"-\langle S, Y \rangle + \tfrac12 \textstyle\sum_i y_i'Q y_i"
    if problem.hidden is not None:
        of = problem.energy
        energy = energy + cp.sum(cp.logistic(y @ of.A.T + np.tile(of.b, (len(problem.scores), 1))) @ of.v)
        latex += r" + \textstyle\sum_{i,k} v_k \ln(1 + e^{a_k'y_i + b_k})"

    def recover(_: Formulation) -> Recovered:
        found = np.clip(np.asarray(y.value), 0.0, 1.0)
        return Recovered(problem, {"Y": found}, {"Y": found})

    return Formulation(
        name="least_energy",
        objective=cp.Minimize(energy),
        objective_latex=rf"\min_{{Y}}\quad {latex}",
        objective_label="E",
        parts={"cube": equation([y >= 0, y <= 1], r"0 \le Y \le 1")},
        variables={"Y": y},
        source="paper 1, SPEN: the limit of its prediction",
        recover=recover,
    )
