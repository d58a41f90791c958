r"""A regularised risk as a maximum of planes (paper 2): all of them, (9)-(12), or those that touch at some points, (3).

    piecewise, piecewise_adjoint    (9)-(12)  one plane for every combination of pieces; small instances
    bmrm, bmrm_dual                 (3)       the subproblem of bundle methods, J_t, and its dual; optimum J_t*

The risk R(w) = sum_g share_g max_p (...) is the maximum of the planes <a, w> + b, one for every way to choose a piece
from each group (a vertex alpha of Q). That is the form (8), (9) for which the paper states its adjoint. Bundle methods
have only the planes that touch at the points visited, so that J_t <= J, and its optimum is a lower bound on J*.

    planes = [problem.subgradient(w_0)]                              (a_1, b_1)
    w_1 = bmrm(problem, planes).solve().point["w"]                   J_1(w_1)
    planes.append(problem.subgradient(w_1)), and so on
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Point, Vector
from convexstruct.families.regularized_risk.problem import Plane, RegularizedRisk
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation
from convexstruct.models.regularized_risk.risk import NORM, PAPER, Parts, at_lam, lam_parameter, point_of
from convexstruct.validation.arguments import number, refuse, sequence
from convexstruct.validation.arrays import real

#: Most combinations of pieces for which (9) is stated.
LIMIT = 5000

PLANES = r"\langle a_i, w \rangle + b_i \le t, \quad \forall i"
SIMPLEX = r"\beta \in \Delta: \quad \beta \ge 0, \quad \mathbf{1}^\top \beta = 1"
STATIONARY = r"\lambda w + \sum_i \beta_i a_i = 0"


def combinations(problem: RegularizedRisk, limit: int = LIMIT) -> sp.csr_array:
    """Every way to choose one piece (or the zero piece) from each group, as alpha; sparse (planes, m).

    Raises
    ------
    ValueError
        If there are more than ``limit``.
    """
    loss = problem.loss
    sizes = np.diff(loss.start) + int(loss.floor)
    total = float(np.prod(sizes.astype(np.float64)))
    if total > limit:
        raise ValueError(
            f"the problem has {total:.4g} combinations of pieces, wanted at most {limit}: use primal or adjoint"
        )
    chosen = np.stack(np.unravel_index(np.arange(int(total)), tuple(sizes)), axis=1)
    row, group = np.nonzero(chosen < np.diff(loss.start))  # with a floor, a group's last choice is the zero piece
    piece = loss.start[:-1][group] + chosen[row, group]
    return sp.csr_array(sp.coo_array((problem.shares[group], (row, piece)), (int(total), problem.n_pieces)))


class AllPlanes:
    """The planes of (9). alpha : sparse (planes, m). a (planes, d), b (planes,), signs (planes, n_biases)."""

    def __init__(self, problem: RegularizedRisk, limit: int) -> None:
        of = Parts(problem)
        self.problem = problem
        self.alpha = combinations(problem, limit)
        self.a: Any = self.alpha @ of.a
        self.b: Vector = np.asarray(self.alpha @ of.c)
        self.signs = sp.csr_array(self.alpha @ of.signs)
        self.parts = of

    def witness(self, beta: Any) -> Point:
        """The dual witness of the planes' mixture with weights beta."""
        return {"alpha": np.asarray(self.alpha.T @ np.asarray(beta))}


def _above(of: AllPlanes, label: str, name: str, source: str, shown: str = "") -> Formulation:
    """The primal with the risk as a variable t above the planes ``of``; ``label`` : of the planes' rows. ``shown`` :
    LaTeX of the name of its value, if it has one."""
    problem = of.problem
    w = cp.Variable(problem.dimension, name="w")
    t = cp.Variable(name="t")
    lam = lam_parameter(problem)
    free = {"b": cp.Variable(problem.n_biases, name="b")} if problem.n_biases else {}
    shift = of.signs @ free["b"] if free else 0.0
    variables = {"w": w, **free, "t": t}

    def recover(formulation: Formulation) -> Recovered:
        witness = of.witness(formulation.dual_values[label])
        return Recovered(at_lam(problem, formulation), point_of(variables), witness)

    return Formulation(
        name=name,
        objective=cp.Minimize(lam / 2 * cp.sum_squares(w) + t),
        objective_latex=rf"\min_{{w,t}}\quad {shown}{NORM} + t",
        parts={label: equation(of.a @ w + shift + of.b <= t, PLANES)},
        variables=variables,
        parameters={"lam": lam},
        source=source,
        recover=recover,
    )


def _mixed(of: AllPlanes, name: str, source: str) -> Formulation:
    """The adjoint: a mixture beta of the planes ``of``."""
    problem = of.problem
    beta = cp.Variable(len(of.b), name="beta")
    w = cp.Variable(problem.dimension, name="w")
    lam = lam_parameter(problem)
    parts = {
        "11": equation(lam * w + of.a.T @ beta == 0, STATIONARY),
        "simplex": equation([beta >= 0, cp.sum(beta) == 1], SIMPLEX),
    }
    if problem.n_biases:
        parts["bias"] = equation(of.signs.T @ beta == 0, of.parts.balance)

    def recover(formulation: Formulation) -> Recovered:
        return Recovered(at_lam(problem, formulation), {"w": np.asarray(w.value)}, of.witness(beta.value))

    return Formulation(
        name=name,
        objective=cp.Maximize(of.b @ beta - lam / 2 * cp.sum_squares(w)),
        objective_latex=rf"\max_{{\beta,w}}\quad \langle b, \beta \rangle - {NORM}",
        objective_label="10",
        parts=parts,
        variables={"beta": beta, "w": w},
        parameters={"lam": lam},
        source=source,
        recover=recover,
    )


@stated("one maximum over every combination of pieces", PAPER, "(8), (9)", enumerated=True)
def piecewise(problem: RegularizedRisk, limit: int = LIMIT) -> Formulation:
    r"""(1) with the risk as one maximum of planes, all written out:

        min  lam/2 |w|^2 + max_i { <a_i, w> + b_i }                              (9)

    where the maximum is a variable t, at least each plane; free offsets are variables besides w, not regularised. For
    the binary hinge there are 2^n planes.

    Source: paper 2, (8), (9). Variables w (d,), t, and the free offsets; parameter lam. The multipliers of (9) are beta
    in the simplex of (10).

    Raises
    ------
    ValueError
        If there are more than ``limit`` combinations of pieces.
    """
    return _above(AllPlanes(problem, limit), "9", "piecewise", "paper 2, (8), (9), every combination of pieces")


@stated("its adjoint over the simplex", PAPER, "(10)-(12)", enumerated=True)
def piecewise_adjoint(problem: RegularizedRisk, limit: int = LIMIT) -> Formulation:
    r"""The adjoint of (9), all planes written out:

        max  <b, beta> - lam/2 |w|^2       over beta in the simplex              (10)
        s.t. lam w + sum_i beta_i a_i = 0                                        (11)

    whose optimum is that of (9), (12). Where the loss has free offsets, their coefficients in the mixture are 0.

    Source: paper 2, (10)-(12). Variables beta (planes,), w (d,); parameter lam.

    Raises
    ------
    ValueError
        If there are more than ``limit`` combinations of pieces.
    """
    of = AllPlanes(problem, limit)
    return _mixed(of, "piecewise_adjoint", "paper 2, (10)-(12), every combination of pieces")


def subproblem(problem: RegularizedRisk, planes: Sequence[Plane] | None) -> AllPlanes:
    """J_t as a `RegularizedRisk` with one group, whose pieces are the planes; by default the plane at w_0 = 0.

    Raises
    ------
    ValueError
        If there is no plane.
    """
    wanted = "planes as problem.subgradient(w) gives them"
    known = [problem.subgradient(np.zeros(problem.shape))] if planes is None else sequence("planes", planes, wanted)
    if not known:
        raise ValueError("planes is empty, wanted at least one: problem.subgradient(w) gives the one at w")
    for plane in known:
        if not isinstance(plane, Plane):
            refuse("planes", planes, wanted)
    slopes = [real("planes", p.a, problem.shape, (problem.dimension,), why="one slope a weight").ravel() for p in known]
    master = RegularizedRisk.pieces(np.stack(slopes), [number("planes", p.b) for p in known], problem.lam)
    return AllPlanes(master, len(known))


def mixture(planes: Sequence[Plane], beta: Any) -> Point:
    """The dual witness of the whole problem that belongs to a solution beta of `bmrm_dual`, or multipliers of (3).

    Its dual value is at least J_t(w_t), so that `certify` confirms the bound by which a bundle method stops.
    """
    weights = np.maximum(np.asarray(beta), 0.0)
    return {"alpha": np.asarray(sum(share * plane.alpha for share, plane in zip(weights / weights.sum(), planes)))}


@stated("the subproblem of bundle methods", PAPER, "(3)", optimum="J_t*")
def bmrm(problem: RegularizedRisk, planes: Sequence[Plane] | None = None) -> Formulation:
    r"""The subproblem of a bundle method after t planes:

        min  J_t(w) = lam/2 |w|^2 + max_{i <= t} { <a_i, w> + b_i }              (3)

    planes : from `RegularizedRisk.subgradient`; by default the one at w_0 = 0. The solution is certified as that of
    J_t (`subproblem`); `mixture` turns its multipliers into a dual witness of the whole problem.

    Source: paper 2, (3). Variables w (d,), t; parameter lam.

    Raises
    ------
    ValueError
        If ``planes`` is empty.
    """
    return _above(subproblem(problem, planes), "3", "bmrm", "paper 2, (3)", "J_t(w) = ")


@stated("its dual, what qp-bmrm solves in every round", PAPER, "(10)-(11)", optimum="J_t*")
def bmrm_dual(problem: RegularizedRisk, planes: Sequence[Plane] | None = None) -> Formulation:
    r"""The dual of (3): (10)-(11) on the planes found so far.

        max  <b, beta> - lam/2 |w|^2,      beta in the simplex                   (10)
        s.t. lam w + sum_{i <= t} beta_i a_i = 0                                 (11)

    Source: paper 2, (10)-(11) for J_t; this is what qp-bmrm solves in every round. Variables beta (t,), w (d,).

    Raises
    ------
    ValueError
        If ``planes`` is empty.
    """
    return _mixed(subproblem(problem, planes), "bmrm_dual", "paper 2, (10)-(11), for J_t")
