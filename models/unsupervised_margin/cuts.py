r"""Paper 3's scheme (12): the relaxation by constraint generation, one step at a time.

    master      min delta  s.t.  delta >= omega(M, N, C, D; mu_c, nu_c) for the cuts c found so far, (9), (10), (11)
    new cut     mu and nu of the quadratic program of Theorem 1 at the master's M, N, C and D

Bounds, valid every round whatever the solver's accuracy: the upper one is the problem's objective at the master's (M,
N), repaired; the lower one the dual at the master's multipliers. ``violation`` is the paper's own measure, the value of
the quadratic program minus the master's delta, both as the solver claims them.

**With a uniform first cut the run ends in one round.** In this cut omega is constant in C and D, so a solver that
treats labels alike returns C = 1/kappa and D = 1/kappa^2, where the most violated cut is the uniform one again. From
the cut of a random labelling the run takes many rounds to reach the same optimum.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Matrix, Point
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.models import constraint_generation
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, equation
from convexstruct.models.unsupervised_margin.margin_loss import indicators, relaxed_loss
from convexstruct.models.unsupervised_margin.relaxation import PAPER, Indicators, recovered
from convexstruct.tolerances import HIGH
from convexstruct.validation.arguments import choice, whole

START = ("uniform", "random")


class ConstraintGeneration(constraint_generation.ConstraintGeneration[UnsupervisedMargin]):
    """The relaxation by constraint generation (12).

    problem : the problem.
    first : the mu and nu of the first cut: "uniform", those of a "random" labelling, or those of given labels (p1,).
    seed : of the random labelling.
    cuts : mu (p1, kappa) and nu (p2, kappa^2) of every cut found so far, in the order of the rounds.
    violations : of each round, by how much the new cut was violated at the master's solution.
    """

    def __init__(self, problem: UnsupervisedMargin, first: str | ArrayLike = "uniform", seed: int = 0) -> None:
        super().__init__(problem)
        if isinstance(first, str):
            choice("first", first, START, "or labels (p1,)")
        self.cuts: list[tuple[Matrix, Matrix]] = [_first(problem, first, whole("seed", seed, least=0))]
        self.violations: list[float] = []
        self._loss = relaxed_loss(problem)
        self._of: Indicators | None = None
        self._multipliers: Point = problem.trivial()[1]

    @property
    def name(self) -> str:
        return "delta_cuts"

    def formulation(self) -> Formulation:
        r"""The master with the cuts found so far, with d = beta (delta - p1):

        min p1 + d / beta  s.t.  d >= beta (omega(M, N, C, D; mu_c, nu_c) - p1),  (9), (10), (11).
        """
        problem, of = self.problem, Indicators(self.problem)
        d = cp.Variable(name="d")
        spread = np.ones(problem.n_pairs)
        above = []
        for mu, nu in self.cuts:
            squares = float(np.sum(mu * (problem.gram @ mu)) + np.sum((spread @ nu) ** 2))
            value = cp.sum(cp.multiply(problem.gram @ mu - problem.beta * mu, of.C)) - (of.similarity + squares) / 2
            if of.N is not None:
                value += (spread @ nu) @ cp.sum(of.own["D"], axis=0)
            above.append(d >= value)
        self._of = of
        shown = r"\delta \ge \omega(M, N, C, D; \mu_c, \nu_c) \quad \forall c \in \mathcal{C}"
        return Formulation(
            name="delta_cuts master",
            objective=cp.Minimize(problem.n_rows + d / problem.beta),
            objective_latex=r"\min_{M, N, C, D, \delta}\quad \delta",
            parts={
                "12": equation(above, shown), **of.balance(), **of.above(), **of.ones(), **of.rows(), **of.ties(),
                **of.signs(),
            },
            variables={**of.matrices, **of.indicators, "d": d},
            source="paper 3, (12)",
        )  # fmt: skip

    def separate(self) -> tuple[float, int]:
        """Bound from above by the objective at the master's M and N, repaired; add the most violated cut at its M, N, C
        and D, unless the violation is within a solver's accuracy."""
        assert self._of is not None
        assert self.master is not None
        point = self.problem.repair(recovered(self._of).point)
        self.improve(float(self.problem.primal(point)), point)
        for name, parameter in self._loss.parameters.items():
            parameter.value = np.asarray(self.master.variables[name].value)
        found = self._loss.reference(self.solver, **self.options)
        claimed = self.master.problem.value
        violation = float(found.value - claimed)
        self.violations.append(violation)
        if not violation > HIGH.gap * max(1.0, abs(float(claimed))):
            return violation, 0
        values = [np.asarray(variable.value) for variable in self._loss.variables.values()]
        self.cuts.append((values[0], values[1] if len(values) > 1 else np.zeros((0, self.problem.n_labels**2))))
        return violation, 1

    def bound_below(self) -> None:
        """The dual at the multipliers of the constraints on M and N alone."""
        assert self._of is not None
        witness = recovered(self._of).dual_point
        assert witness is not None
        self.raise_bound(float(self.problem.dual(witness)), witness)

    def witness(self) -> Point:
        return self._multipliers


def _first(problem: UnsupervisedMargin, first: str | ArrayLike, seed: int) -> tuple[Matrix, Matrix]:
    """mu and nu of the first cut."""
    kappa = problem.n_labels
    if isinstance(first, str) and first == "uniform":
        return np.full((problem.n_rows, kappa), 1 / kappa), np.full((problem.n_pairs, kappa**2), kappa**-2.0)
    labels = np.random.default_rng(seed).integers(kappa, size=problem.n_rows) if isinstance(first, str) else first
    found = indicators(problem, labels)
    return found["C"], found["D"]


@stated("the relaxation by constraint generation, a cut a round", PAPER, "(12), corrected")
def delta_cuts(problem: UnsupervisedMargin, first: str | ArrayLike = "uniform", seed: int = 0) -> ConstraintGeneration:
    """The relaxation by the constraint generation (12), from a first cut that is "uniform", that of a "random"
    labelling, or that of given labels (p1,).

    Raises
    ------
    ValueError
        If ``first`` is none of these, or ``seed`` is no whole number from 0.
    """
    return ConstraintGeneration(problem, first, seed)
