r"""A relaxation that is tighter than `reduced` (ours), and does not collapse:

    keep_or_flip    min over (M, N) of a maximum over keeping or exchanging labels, as (3) is; never below 0

**Results** on three draws of three chains of length 3 (symbols of a two-state model that keeps its state with
probability 0.05 and emits the wrong symbol with probability 0.05; eps1 = 0.2, eps2 = 0.4), beside the least margin loss
of all balanced labellings, by Clarabel:

    beta = 0.01                        draw 0      draw 1      draw 2
    least margin loss                  0.0050      0.0050      0.0050
    keep_or_flip                       0.0043      0.0044      0.0039
    reduced (the paper's)              -1507       -1555       -1741

* keep_or_flip is near the least loss (0.43 of 0.50 at beta = 1, where the paper's is -10.6), because its maximum does
  not contain C or D. It needs one more semidefinite matrix, of size p1 + p2 + 1. For kappa = 2 it is (3) extended to
  chains.
* Known labels, added to `full`, break the symmetry of labels; the bound stays far below 0 until the last label is
  known, since it is too low by <M - CC', K> / (2 beta).
* A tight bound shows which labels the criterion itself prefers: those equal to the symbols. On six draws of five chains
  of length 5 (moving with probability 0.9 or 0.8, beta = 0.01) the labels read from its M were the symbols every time;
  their loss is 0.0050, while that of the true states is up to 10. No relaxation of this criterion, however tight, would
  label better than y = x there.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from convexstruct.arrays import Point
from convexstruct.families.unsupervised_margin.label_exchanges import gram, polytope
from convexstruct.families.unsupervised_margin.permutation_invariant import PermutationInvariantMargin
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Equation, Formulation, Recovered, equation
from convexstruct.models.unsupervised_margin.relaxation import PAPER, Equivalences, recovered


@stated("the SDP in (M, N) that does not collapse", PAPER, "ours, after (3)", optimum="exchanges p*")
def keep_or_flip(problem: PermutationInvariantMargin | UnsupervisedMargin) -> Formulation:
    r"""A relaxation in (M, N) alone, which does not collapse, because it has no C and D:

        min  r'z + tau
        s.t. [[G(M, N) / beta, a - A'z], [(a - A'z)', 2 tau]] semidefinite,   z >= 0                 "G"
             M - 11'/kappa >= 0,  N - 11'/kappa^2 >= 0, diag(M) = e, diag(N) = e, (9), (11), signs

    by the dual of the maximum over labels kept or exchanged, x = (lambda, delta) and a'x = e'lambda, with A x <= r and
    G, affine in M and N, of `families.unsupervised_margin.label_exchanges`. It is a lower bound on the margin loss of
    every balanced labelling, and at least 0, because lambda = 0 and delta = 0 keep all labels. For kappa = 2 the
    maximum is the margin loss itself where M and N are a labelling's, and without pairs the whole is (3). Certified by
    `PermutationInvariantMargin`.

    Source: ours, after paper 3, (3). Variables M (p1, p1), N (p2, p2), z, tau; parameters eps1, eps2.
    """
    problem = unwrapped(problem)
    of, (A, r) = Equivalences(problem), polytope(problem)
    a = np.concatenate((np.ones(problem.n_rows), np.zeros(problem.n_pairs)))
    z, tau = cp.Variable(len(r), nonneg=True, name="z"), cp.Variable(name="tau")
    side = cp.reshape(a - A.T @ z, (len(a), 1), order="C")
    corner = cp.reshape(2 * tau, (1, 1), order="C")
    block = cp.bmat([[gram(problem, of.M, of.N, cp.multiply, cp.kron) / problem.beta, side], [side.T, corner]])
    shown = r"\begin{bmatrix} G(M, N) / \beta & a - A'z \\ (a - A'z)' & 2\tau \end{bmatrix} \succeq 0,\ z \ge 0"
    parts: dict[str, Equation] = {"G": equation(block >> 0, shown), **of.balance(), **of.lifted()}
    return Formulation(
        name="keep_or_flip",
        objective=cp.Minimize(r @ z + tau),
        objective_latex=r"\min_{M, N, z, \tau}\quad r'z + \tau",
        parts={**parts, **of.ones(), **of.ties(), **of.signs()},
        variables={**of.matrices, "z": z, "tau": tau},
        parameters={name: value for name, value in of.parameters.items() if name != "beta"},
        source="ours, after paper 3, (3)",
        recover=lambda formulation: _of_exchanges(of, z, formulation.dual_values["G"]),
    )


def unwrapped(problem: PermutationInvariantMargin | UnsupervisedMargin) -> UnsupervisedMargin:
    """The data of the problem. ValueError if its x is fixed."""
    if isinstance(problem, UnsupervisedMargin):
        return problem
    if problem.fixed is not None:
        raise ValueError("problem has x fixed, wanted it free: use 'alternating_matrix'")
    return problem.problem


def _of_exchanges(of: Equivalences, z: Any, multiplier: Any) -> Recovered:
    """M, N, z and the multiplier of the semidefinite matrix, [[W, -x], [-x', 1]] / 2."""
    read = recovered(of)
    found = with_multiplier(multiplier)
    point = {**read.point, "x": found["x"], "z": np.asarray(z.value)}
    return Recovered(PermutationInvariantMargin(of.present()), point, {**of.witness(), **found})


def with_multiplier(multiplier: Any) -> Point:
    """x and W of [[W, -x], [-x', 1]] / 2, scaled by its last entry, which a solver returns with an error."""
    whole = np.asarray(multiplier, dtype=np.float64)
    whole = 0.5 * (whole + whole.T) / whole[-1, -1]
    return {"x": -whole[:-1, -1], "W": whole[:-1, :-1]}
