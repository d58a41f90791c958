r"""Gaussian process sequence labelling, (32) of paper 2, in CVXPY: all labellings written out, primal and dual.

    primal        (32) over u, one exponential a labelling
    dual          its Fenchel dual over distributions of labellings: ours

The forms of polynomial size, over messages and over edge marginals, are in `compact`.

Symbols: D distinct inputs, S labels, n = D S + S^2; u (n,) and t = K u (n,); z (n,) counts of the true labellings; R
labellings in all, row r of z_y (R, n) belonging to sequence i(r). Where the kernel depends on the position, D counts
pairs of a position and an input, and n = D S + (T - 1) S^2. K = R R' (in products R is this factor) is factored
once, by Cholesky with pivots, so that u'Ku = |R'u|^2. The primal forms are stated in v = R'u: t = R v, u'Ku = |v|^2.
They thus have no variables for the directions of u that K maps to 0, which the objective does not determine; u is read
back from v at the pivots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.linalg import block_diag

from convexstruct.arrays import Vector
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.features.graphs.gram import factor
from convexstruct.features.graphs.pairwise import read_pairwise
from convexstruct.marginals.enumeration import MOST_LABELLINGS
from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise
from convexstruct.marginals.triplets import sums_by
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered, equation

PAPER = "paper 2, appendix E.2: Altun, Hofmann and Smola, Gaussian process sequence labelling"

QUADRATIC = r"\tfrac{\lambda}{2} u'Ku"
FUNCTION = r"t = R v"
SUBSTITUTED = r"\tfrac{\lambda}{2} |v|^2"


@dataclass(frozen=True)
class Labellings:
    """Every labelling of every sequence. counts : sparse (R, n), z_y. of_sequence : sparse (N, R), sums rows by i."""

    counts: sp.csr_array
    of_sequence: sp.csr_array


def write_out(problem: GaussianProcessSequences, limit: int = MOST_LABELLINGS) -> Labellings:
    """All labellings, sequence after sequence, by their counts z_y.

    Raises
    ------
    ValueError
        If there are more than ``limit``.
    """
    s = problem.n_labels
    total = sum(s ** int(length) for length in problem.lengths)
    if total > limit:
        raise ValueError(
            f"problem has {total} labellings, enumeration holds at most {limit}: use a compact formulation"
        )
    d, positions = problem.n_inputs, np.arange(len(problem.places))
    seen = sp.csr_array((np.ones(len(positions)), (positions, problem.rows)), shape=(len(positions), d))
    labels = np.split(problem.labels, np.cumsum(problem.lengths)[:-1])
    steps = (
        None if problem.stationary else [np.eye(int(length) - 1, problem.transitions[0]) for length in problem.lengths]
    )
    rows = enumerate_pairwise(read_pairwise(seen, labels, s, edge_features=steps), None, limit)
    joint = rows.joint.copy()
    joint.resize(total, problem.dimension)  # where no sequence has a step, there are no transitions yet
    order = np.concatenate((np.arange(s * d).reshape(s, d).T.ravel(), np.arange(s * d, problem.dimension)))
    return Labellings(joint[:, order], sums_by(rows.example, len(problem.lengths)))


class FunctionValues:
    """The factor R of K = R R', lam, and the variables u and v = R'u, of which a formulation uses one.

    u : variable (n,). v : variable (r,). lam : parameter. root : sparse (n, r), R. quadratic : lam/2 u'Ku.
    """

    def __init__(self, problem: GaussianProcessSequences) -> None:
        s = problem.n_labels
        self.problem = problem
        self.factor = problem.gram.factor() if problem.stationary else factor(block_diag(*problem.grams))
        blocks = [sp.kron(sp.csr_array(self.factor.rows), sp.eye_array(s))]
        if problem.eta:
            blocks.append(np.sqrt(problem.eta) * sp.eye_array(math.prod(problem.transitions)))
        root = sp.csr_array(sp.block_diag(blocks))
        root.resize(problem.dimension, max(root.shape[1], 1))  # one column of 0 where K = 0: no variable may be empty
        self.root = root
        self.u = cp.Variable(problem.dimension, name="u")
        self.v = cp.Variable(root.shape[1], name="v")
        self.lam = cp.Parameter(pos=True, name="lam", value=problem.lam)

    @property
    def quadratic(self) -> Any:
        """lam/2 |R'u|^2."""
        return self.lam * (0.5 * cp.sum_squares(self.root.T @ self.u))

    @property
    def substituted(self) -> Any:
        """`quadratic` in terms of v, lam/2 |v|^2."""
        return self.lam * (0.5 * cp.sum_squares(self.v))

    @property
    def scores(self) -> Any:
        """t = R v."""
        return self.root @ self.v

    def coefficients(self, v: Vector) -> Vector:
        """A u with R'u = v: 0 except at the pivots of the Gram matrix and, if eta > 0, at the transitions."""
        s, rank = self.problem.n_labels, len(self.factor.pivots)
        label = self.factor.solve(v[: rank * s].reshape(rank, s))
        n = math.prod(self.problem.transitions)
        transition = v[rank * s :] / np.sqrt(self.problem.eta) if self.problem.eta else np.zeros(n)
        return np.concatenate((label.ravel(), transition))

    def recover(self, formulation: Formulation) -> Recovered:
        """The point u; the dual witness is u too, which stands for the Gibbs marginals at u."""
        instance = replace(self.problem, lam=float(self.lam.value))
        by_v = "v" in formulation.variables
        u = self.coefficients(np.asarray(self.v.value)) if by_v else np.asarray(self.u.value, dtype=np.float64)
        return Recovered(instance, {"u": u}, {"u": u})


@stated("(32), every labelling written out", PAPER, "(32)", enumerated=True)
def primal(problem: GaussianProcessSequences, limit: int = MOST_LABELLINGS) -> Formulation:
    r"""(32), every labelling written out:

        min  lam/2 |v|^2 - <z, t> + sum_i a_i,     t = R v       (32)
        s.t. sum_y exp(<z_y, t> - a_i) <= 1   for every i        ("log-sum-exp")

    Source: paper 2, (32), with v = R'u in place of u. Variables v (r,), a (N,); parameter lam. The multipliers of
    "log-sum-exp" are 1 and its terms at the optimum are the probabilities of the labellings.

    Raises
    ------
    ValueError
        If there are more than ``limit`` labellings.
    """
    of, every = FunctionValues(problem), write_out(problem, limit)
    a = cp.Variable(len(problem.lengths), name="a")
    exponents = cp.exp(every.counts @ of.scores - every.of_sequence.T @ a)
    return Formulation(
        name="primal",
        objective=cp.Minimize(of.substituted - problem.truth @ of.scores + cp.sum(a)),
        objective_latex=rf"\min_{{v}}\quad {SUBSTITUTED} - \langle z, t \rangle + \sum_i a_i, \quad {FUNCTION}",
        objective_label="32",
        parts={
            "log-sum-exp": equation(
                every.of_sequence @ exponents <= 1, r"\sum_{y} e^{\langle z_y, t \rangle - a_i} \le 1, \quad \forall i"
            ),
        },
        variables={"v": of.v, "a": a},
        parameters={"lam": of.lam},
        source="paper 2, (32), enumerated",
        recover=of.recover,
    )


@stated("the dual of (32) over distributions of labellings", PAPER, "ours, from (32)", enumerated=True)
def dual(problem: GaussianProcessSequences, limit: int = MOST_LABELLINGS) -> Formulation:
    r"""The Fenchel dual, every labelling written out:

        max  - sum_i sum_y beta_i(y) ln beta_i(y) - lam/2 u'Ku
        s.t. lam u = z - sum_i sum_y beta_i(y) z_y               ("u")
             sum_y beta_i(y) = 1   for every i                   ("sum")

    Source: ours, from paper 2, (32). Variables beta (R,), u (n,); parameter lam.

    Raises
    ------
    ValueError
        If there are more than ``limit`` labellings.
    """
    of, every = FunctionValues(problem), write_out(problem, limit)
    beta = cp.Variable(every.counts.shape[0], name="beta")
    return Formulation(
        name="dual",
        objective=cp.Maximize(cp.sum(cp.entr(beta)) - of.quadratic),
        objective_latex=rf"\max_{{\beta}}\quad - \sum_{{i, y}} \beta_i(y) \ln \beta_i(y) - {QUADRATIC}",
        parts={
            "u": equation(
                of.lam * of.u == problem.truth - every.counts.T @ beta,
                r"\lambda u = z - \sum_{i, y} \beta_i(y)\, z_y",
            ),
            "sum": equation(every.of_sequence @ beta == 1, r"\sum_{y} \beta_i(y) = 1, \quad \forall i"),
        },
        variables={"beta": beta, "u": of.u},
        parameters={"lam": of.lam},
        source="ours, from paper 2, (32), enumerated",
        recover=of.recover,
    )
