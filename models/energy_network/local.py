r"""A convex upper bound on the training of the slides' energy network (paper 1, SPEN), in CVXPY.

With the local energy -y'U x alone the loss is sum_j |y_j - t_j| (1 - (2 t_j - 1) u_j'x) at y_T, at most the hinge of
each label, whatever the steps do in the cube. The least sum of hinges is thus at least the optimum of J, which is not
convex; the two are equal where labels separate and nothing is penalised: both are 0.
"""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np

from convexstruct.families.energy_network.unrolled import UnrolledEnergyNetwork
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation

#: Without a penalty the weights are returned at twice their size: margins of 2 leave room for a solver's tolerance.
ROOM = 2.0


@stated(
    "an upper bound on the slides' training: the local energy alone",
    "paper 1, SPEN",
    "training objective",
    optimum="H*",
)
def local_energy(problem: UnrolledEnergyNetwork) -> Formulation:
    r"""One hinge a label, an upper bound on the optimum of J:

        min  lam/2 |U|^2 + sum_ij xi_ij                                         (H)
        s.t. (2 t_ij - 1) u_j'x_i >= 1 - xi_ij,    xi >= 0                        ("margin")

    Source: ours, from paper 1, SPEN. Variables U (L, d), xi (n, L); parameter lam. The bound below is J >= 0.
    """
    lam = cp.Parameter(nonneg=True, name="lam", value=problem.lam)
    u, xi = cp.Variable(problem.shapes["U"], name="U"), cp.Variable(problem.T.shape, name="xi")
    margins = cp.multiply(2.0 * problem.T - 1.0, problem.X @ u.T)

    def recover(_: Formulation) -> Recovered:
        instance = replace(problem, lam=float(lam.value))
        found = np.asarray(u.value) * (ROOM if instance.lam == 0.0 else 1.0)
        return Recovered(instance, {**instance.trivial()[0], "U": found}, {})

    return Formulation(
        name="local_energy",
        objective=cp.Minimize(lam * (0.5 * cp.sum_squares(u)) + cp.sum(xi)),
        objective_latex=r"\min_{U, \xi}\quad \tfrac{\lambda}{2} |U|^2 + \sum_{ij} \xi_{ij}",
        objective_label="H",
        parts={
            "margin": equation(
                [margins >= 1 - xi, xi >= 0], r"(2 t_{ij} - 1) u_j'x_i \ge 1 - \xi_{ij}, \quad \xi \ge 0"
            )
        },
        variables={"U": u, "xi": xi},
        parameters={"lam": lam},
        source="ours, from paper 1, SPEN with the local energy alone",
        recover=recover,
    )
