r"""Problem (P) of paper 0 by constraint generation, n-slack and one-slack, one step at a time.

Each step solves the master (P) with the constraints (3) found so far, asks the oracle for the most violated ones at its
theta, and adds them. Bounds, valid every round whatever the solver's accuracy:

* upper: P at theta shifted into (4); the oracle run at the *unshifted* theta gives the cuts;
* lower: the master's multipliers of (3), made feasible, are a beta of (9), so they give a member of script-D, which
  `GenerativeMargin.best_on_segment` turns into a bound. The value the solver claims for the master is a bound only up
  to its tolerance, and only if the box is not active; it is reported and never used as a bound.

**The box.** With few cuts some V_i is near 0, theta_ij falls to -100 and below, and the interior point method fails on
e^theta (Clarabel in the third one-slack round). The masters therefore have the constraint theta >= floor. A floor that
no solution violates follows from any upper bound U of the optimum (ours): with H(c_i) the entropy,
-c_i'theta_i >= H(c_i) under (4), so

    -theta_ij <= (U - sum_{i' != i} H(c_i') - H_rest) / c_ij,   H_rest = -sum_{j' != j} c_ij' ln(c_ij' / (1 - c_ij)).

This floor is far too low to help (-1e4 on the ring). Masters therefore start from ``START_FLOOR``, and the floor is
doubled, down to the valid one, when nothing is violated and the bounds have not met. The bounds are valid with any
floor.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Labels, Matrix, Point, Vector
from convexstruct.families.generative_margin.general import only_linear
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.models.constraint_generation import Round as Round
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, equation
from convexstruct.models.generative_margin.enumerated import PAPER, SUB_DISTRIBUTION, block_sums
from convexstruct.models.generative_margin.pieces import limits, penalty, term
from convexstruct.models.labelling_cuts import LabellingCuts
from convexstruct.validation.arguments import flag

#: The first floor of theta: e^-30 is far below what a probability of the optimum usually is.
START_FLOOR = -30.0
#: A floor below this one is not lowered further: e^-600 is near the smallest number that double precision holds.
LEAST_FLOOR = -600.0


class ConstraintGeneration(LabellingCuts[GenerativeMargin]):
    """(P) by constraint generation; what it shares with other families is in `convexstruct.models.labelling_cuts`.

    problem : (P).
    one_slack : one constraint a round for all examples together, sum_k w_k [a_k(s_k)'theta + b_k(s_k)] <= xi, in place
        of one for each example.
    theta : the best feasible point so far (uniform before the first step).
    """

    oracle_calls = 2  # at theta for the cuts, at the shifted theta for the upper bound

    def __init__(self, problem: GenerativeMargin, one_slack: bool = False) -> None:
        if flag("one_slack", one_slack):
            only_linear(problem, "one_slack, whose h(xi) would be another problem,")
        super().__init__(problem, "one" if one_slack else "n")
        self._kap: Vector = np.zeros(0)
        self._floor: Vector = np.full(problem.dimension, START_FLOOR)
        self._safe: tuple[Vector, float] = (np.zeros(problem.dimension), 0.0)

    @property
    def one_slack(self) -> bool:
        return self.slack == "one"

    @property
    def theta(self) -> Vector:
        return np.asarray(self.point["theta"])

    @property
    def name(self) -> str:
        return "one_slack" if self.one_slack else "n_slack"

    @property
    def weights(self) -> Vector:
        return self.problem.examples.weights

    @property
    def starts(self) -> Index:
        return self.problem.examples.start

    @property
    def floor(self) -> float:
        return float(self._floor.min())

    def limit(self, problem: GenerativeMargin) -> float:
        return problem.eta * (1.0 if problem.h is None else problem.h.steepest)

    def formulation(self) -> Formulation:
        r"""The master with the constraints found so far and the present box:

        min -c'theta + eta sum_k w_k eps_k  (one slack: eta xi)  s.t. (3) found so far, (4), (5), theta >= floor.
        """
        problem = self.problem
        theta = cp.Variable(problem.dimension, name="theta")
        slack = cp.Variable(1 if self.one_slack else problem.n_examples, name="xi" if self.one_slack else "eps")
        eta = cp.Parameter(pos=True, name="eta", value=problem.eta)
        paid, inside = penalty(problem.h, slack)
        cost = cp.sum(slack) if self.one_slack else problem.examples.weights @ paid
        parts = limits(problem, theta)
        rows = self.found()
        if rows is not None:
            shown = (
                r"\sum_k w_k \big[ a_k(s_k)'\theta + b_k(s_k) \big] \le \xi, \quad (s_k)_k \in \mathcal{W}"
                if self.one_slack
                else r"a_k(s)'\theta + b_k(s) \le \epsilon_k, \quad s \in \mathcal{W}_k,\ k \in \mathcal{K}"
            )
            parts["3"] = equation(rows.a @ theta + rows.b <= self.slack_of(rows) @ slack, shown)
        parts["4"] = equation(block_sums(problem.layout) @ cp.exp(theta) <= 1, SUB_DISTRIBUTION)
        letter = r"\xi" if self.one_slack else r"\epsilon"
        parts["5"] = equation([theta <= 0, slack >= 0, *inside], rf"\theta \le 0, \quad {letter} \ge 0")
        parts["box"] = equation(theta >= self._floor, rf"\theta \ge {self._floor.max():.6g}")
        weighted = r"\xi" if self.one_slack else r"\sum_k w_k \epsilon_k"
        return Formulation(
            name=f"{self.name} master",
            objective=cp.Minimize(-problem.c @ theta + term(problem, theta) + eta * cost),
            objective_latex=rf"\min_{{\theta,{letter}}}\quad -\sum_i c_i'\theta_i + \eta\, {weighted}",
            objective_label="2",
            parts=parts,
            variables={"theta": theta, slack.name(): slack},
            parameters={"eta": eta},
            source="paper 0, (2)-(5), by constraint generation",
        )

    def rows_of(self, labels: Labels) -> tuple[sp.csr_array, Vector]:
        return self.problem.rows(labels)

    def bound_above(self) -> tuple[Labels, Vector]:
        """P at the master's theta shifted into (4); the cuts are those at the unshifted theta."""
        assert self.master is not None
        problem = self.problem
        theta = np.asarray(self.master.variables["theta"].value, dtype=np.float64)
        feasible = np.asarray(problem.repair({"theta": theta})["theta"])
        self.improve(problem.evaluate(feasible).value, {"theta": feasible})
        violations, labels = problem.violated(theta)
        return labels, violations

    def bound_below(self) -> None:
        """The best bound on the segments from the best multipliers so far, and from 0, to the master's multipliers."""
        problem, rows = self.problem, self.found()
        if rows is None:
            self.raise_bound(float(problem.dual({})), self._multipliers)
            return
        beta = self.multipliers_of(rows, "3")
        if problem.general is not None:
            assert self.master is not None
            kap = self.master.dual_values["rows"] if "rows" in self.master.equations else np.zeros(0)
            before, self._kap = (self._multipliers, self._kap), np.maximum(np.asarray(kap, dtype=np.float64), 0.0)
            self._multipliers = self.by_example(beta)
            value = float(problem.dual(self.witness()))
            if value > self._lower:
                self._lower = value
            else:
                self._multipliers, self._kap = before
            return
        mu, omega = np.asarray(rows.a.T @ beta), float(rows.b @ beta)
        # the segment from 0 too: from a safe point with v_ij = 0 no step is possible if the master's v_ij is -1e-9
        origin = (np.zeros_like(mu), 0.0)
        base, (t, value) = max(
            ((safe, problem.best_on_segment(mu, omega, safe)) for safe in (self._safe, origin)),
            key=lambda found: found[1][1],
        )
        if value <= self._lower:
            return
        each = self.by_example(beta)
        old: Matrix = np.zeros_like(each)
        if base is self._safe:
            old[: len(self._multipliers)] = self._multipliers
        self._safe = (base[0] + t * (mu - base[0]), base[1] + t * (omega - base[1]))
        self.raise_bound(value, old + t * (each - old))

    def witness(self) -> Point:
        """The multipliers of the best lower bound, as a mixture of labellings, with masses where these are free."""
        if self.problem.general is None:
            return super().witness()
        rounds = len(self._multipliers)
        labels = np.array(self.labels[:rounds], dtype=np.int64).reshape(rounds, int(self.starts[-1]))
        shares = self._multipliers / (self.problem.eta * self.weights)
        mass = shares.sum(axis=0)
        shares = shares / np.maximum(np.where(mass > 0, mass, 1.0), shares.sum(axis=0))
        return {"labels": labels, "label_shares": shares, "mass": mass, "rows": self._kap}

    def widen(self) -> bool:
        """Double the floor, down to the valid one; True if that lowers it and it was not below `LEAST_FLOOR` before."""
        wider = np.maximum(valid_floor(self.problem, self._primal), 2 * self._floor)
        lower = bool((wider < self._floor).any()) and self.floor >= LEAST_FLOOR
        self._floor = np.minimum(self._floor, wider)
        return lower


def valid_floor(problem: GenerativeMargin, upper: float) -> Vector:
    """A lower bound (d,) of every theta that satisfies (4) and P(theta) <= upper; -inf where c_ij = 0 (see the head of
    this module)."""
    c, layout = problem.c, problem.layout
    log_c = np.log(np.where(c > 0, c, 1.0))
    entropy = -layout.block_sum(c * log_c)
    others = (entropy.sum() - entropy)[layout.block_of]
    left = np.maximum(1.0 - c, 0.0)
    log_left = np.log(np.where(left > 0, left, 1.0))
    rest = entropy[layout.block_of] + c * log_c + left * log_left
    room = np.maximum(upper - others - rest, 0.0)
    return np.asarray(np.where(c > 0, -room / np.where(c > 0, c, 1.0), -np.inf))


@stated("(P) by constraint generation, a slack for each example", PAPER, "(2)-(5)")
def n_slack(problem: GenerativeMargin) -> ConstraintGeneration:
    """(P) by constraint generation with a slack for each example: up to K constraints a round."""
    return ConstraintGeneration(problem)


@stated("(P) by constraint generation, one slack for all", PAPER, "(2)-(5)")
def one_slack(problem: GenerativeMargin) -> ConstraintGeneration:
    """(P) by constraint generation with one slack xi = sum_k w_k eps_k for all examples: one constraint a round."""
    return ConstraintGeneration(problem, one_slack=True)
