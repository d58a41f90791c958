r"""Structural SVMs by constraint generation, one step at a time: n-slack, one-slack, and without slack.

Each step solves the master with the constraints found so far, asks the problem's oracle for the most violated labelling
of each example at its w, and adds what is new. With a_r = e df, e = 1 (margin scaling) or E (slack scaling),

    n-slack       <w, a_i(y)> >= E_i(y) - xi_i                           up to N constraints a round
    one-slack     sum_i omega_i <w, a_i(y_i)> >= sum_i omega_i E_i(y_i) - xi     one (Joachims, Finley and Yu 2009)
    hard margin   <w, a_i(y)> >= E_i(y)                                  up to N

Bounds, valid every round whatever the solver's accuracy:

* upper: P at the master's w. Without slack: lam/2 |w|^2 at w scaled up until every margin holds, if some factor does;
* lower: the master's multipliers, cleared of rounding, are alpha of (D). D at their best multiple between 0 and 1 (any
  multiple >= 0 without slack) is the bound. What the solver claims of the master is reported, never used.

xi >= 0 stands in every master, so that no example earns a negative slack. With an oracle that is approximate or relaxed
the bounds hold, and need not meet.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from convexstruct.arrays import Point, Vector
from convexstruct.core.certificates import certify, least_unit, relative_gap
from convexstruct.core.registry import one_family
from convexstruct.core.solution import Solution, Status, Trace
from convexstruct.families.structured_svm.problem import Evaluation, Scale, StructuredSVM
from convexstruct.models.formulation import Formulation, Reference, beyond_rounding, equation
from convexstruct.models.structured_svm.enumerated import (
    NO_SLACK_BELOW_0,
    PAPER_1,
    PAPER_4,
    entry,
    scale_parameters,
    sign,
    sums_by,
)
from convexstruct.tolerances import HIGH, ROUNDING, Profile, profile

Slack = Literal["n", "one", "none"]

CUTS = {
    "n": r"w'a_i(y) \ge E_i(y) - \xi_i, \quad y \in \mathcal{W}_i,\ \forall i",
    "one": r"\sum_i \omega_i\, w'a_i(y_i) \ge \sum_i \omega_i E_i(y_i) - \xi, \quad (y_i)_i \in \mathcal{W}",
    "none": r"w'a_i(y) \ge E_i(y), \quad y \in \mathcal{W}_i,\ \forall i",
}
NAMES = {"n": "n_slack_cuts", "one": "one_slack_cuts", "none": "hard_margin_cuts"}


@dataclass(frozen=True)
class Round:
    """What one step did.

    number : of the round, from 1. added : constraints added. violation : the largest by which a constraint is violated
    at the master's (w, xi). primal, lower_bound : the best valid bounds so far. master : the value the solver claims
    for the master, its own word. status : the master's CVXPY status. seconds : since the start.
    """

    number: int
    added: int
    violation: float
    primal: float
    lower_bound: float
    master: float
    status: str
    seconds: float


@dataclass(eq=False, repr=False)
class ConstraintGeneration:
    """A structural SVM by constraint generation, to be stepped through in a notebook.

    Attributes
    ----------
    problem : the problem; its scaling and its oracle decide what is added.
    slack : "n", "one" or "none".
    solver, options : what solves the masters, and its options.
    master : the last master solved, a `Formulation`; None before the first step.
    rounds : what the steps did.
    w : the best point so far (0 before the first step). done : nothing is left to add, or the master has no solution.
    labels : one labelling of all examples a round. in_master (rounds, N) : whose constraint went into the master.
    """

    problem: StructuredSVM
    slack: Slack = "n"
    solver: str = "CLARABEL"
    options: dict[str, Any] = field(default_factory=dict)
    master: Formulation | None = field(default=None, init=False)
    rounds: list[Round] = field(default_factory=list, init=False)
    labels: list[NDArray[np.int64]] = field(default_factory=list, init=False)
    in_master: list[NDArray[np.bool_]] = field(default_factory=list, init=False)
    w: Vector = field(init=False)
    done: bool = field(default=False, init=False)
    _rows: list[tuple[sp.csr_array, Vector, NDArray[np.intp]]] = field(default_factory=list, init=False)
    _primal: float = field(default=np.inf, init=False)
    _lower: float = field(default=0.0, init=False)
    _alpha: Vector = field(init=False)
    _seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.w = np.zeros(self.problem.dimension)
        self._alpha = np.zeros((0, self.problem.n_examples))

    @property
    def name(self) -> str:
        return NAMES[self.slack]

    def __repr__(self) -> str:
        added = sum(step.added for step in self.rounds)
        bounds = f"{self._lower:.8g} <= optimum <= {self._primal:.8g}"
        return f"ConstraintGeneration({self.name}: {len(self.rounds)} rounds, {added} constraints, {bounds})"

    # -- the master ------------------------------------------------------------------------------------------------

    def formulation(self) -> Formulation:
        r"""The master with the constraints found so far:

        min lam/2 |w|^2 + C sum_i omega_i xi_i  (one slack: C xi; none: nothing)  s.t. the cuts, xi >= 0, w_edge >= 0.
        """
        problem = self.problem
        w = cp.Variable(problem.dimension, name="w")
        lam, C = scale_parameters(problem)
        cost, parts, variables, shown = lam / 2 * cp.sum_squares(w), {}, {"w": w}, ""
        of_cuts: Any = 0
        if self.slack != "none":
            xi = cp.Variable(1 if self.slack == "one" else problem.n_examples, name="xi")
            cost += C * (cp.sum(xi) if self.slack == "one" else problem.weights @ xi)
            shown = r" + C\, \xi" if self.slack == "one" else r" + C \sum_i \omega_i \xi_i"
            variables["xi"] = xi
            if self._rows:
                of_cuts = sums_by(np.concatenate([rows[2] for rows in self._rows]), xi.size).T @ xi
            parts["xi"] = equation(xi >= 0, NO_SLACK_BELOW_0)
        if self._rows:
            a = sp.csr_array(sp.vstack([rows[0] for rows in self._rows], format="csr"))
            loss = np.concatenate([rows[1] for rows in self._rows])
            parts = {"margin": equation(a @ w >= loss - of_cuts, CUTS[self.slack]), **parts}
        return Formulation(
            name=f"{self.name} master",
            objective=cp.Minimize(cost),
            objective_latex=rf"\min\quad \tfrac{{\lambda}}{{2}} \|w\|^2{shown}",
            objective_label="P",
            parts=parts | sign(problem, w[problem.features.n_node_weights :]),
            variables=variables,
            parameters={"lam": lam} | ({} if self.slack == "none" else {"C": C}),
            source=f"paper 1, cutting-plane algorithm, {problem.scaling} scaling",
        )

    # -- one round -------------------------------------------------------------------------------------------------

    def step(self) -> Round:
        """Solve the master, bound the optimum, add what is violated. If the solver returns no point (without slack:
        inseparable data make the master infeasible), `done` is set: the round says its status, and the bounds stay."""
        begin = time.perf_counter()
        self.master = self.formulation()
        said = self.master.reference(self.solver, **self.options)
        violation, added = math.inf, 0
        if math.isfinite(said.value):
            self._raise_lower_bound()
            w = self.problem.project(np.asarray(self.master.variables["w"].value, dtype=np.float64))
            found = self.problem.most_violated(w)
            self._lower_upper_bound(w, found)
            violation, added = self._separate(found)
            self.done = added == 0
        else:
            self.done = True
        self._seconds += time.perf_counter() - begin
        now = Round(
            len(self.rounds) + 1, added, violation, self._primal, self._lower, said.value, said.status, self._seconds
        )
        self.rounds.append(now)
        return now

    def _separate(self, found: Evaluation) -> tuple[float, int]:
        """Add the most violated constraint of each example (or of all together), if it is new; the labellings there
        already are never added twice, so a master solved inaccurately cannot make the loop run for ever."""
        problem, features = self.problem, self.problem.features
        assert self.master is not None
        each = found.violation
        slack = self.master.variables.get("xi")
        xi = np.zeros(problem.n_examples) if slack is None else np.asarray(slack.value)
        known = np.zeros(problem.n_examples, dtype=bool)
        first = features.node_start[:-1]
        for row, kept in zip(self.labels, self.in_master):
            known |= kept & np.logical_and.reduceat(row == found.labels, first)
        if self.slack == "one":
            known[:] = any((row == found.labels).all() for row in self.labels)
            violations = np.full(problem.n_examples, problem.weights @ each - xi[0])
        else:
            violations = each - xi
        new = (violations > ROUNDING * max(1.0, float(each.max()))) & ~known
        if new.any():
            a, loss = self._rows_of(found.labels)
            self.labels.append(found.labels)
            self.in_master.append(new)
            if self.slack == "one":
                row = sp.csr_array((problem.weights @ a)[None, :])
                self._rows.append((row, np.array([problem.weights @ loss]), np.zeros(1, dtype=np.intp)))
            else:
                at = np.flatnonzero(new)
                self._rows.append((a[at], loss[at], at))
        return float(violations.max()), (int(new.any()) if self.slack == "one" else int(new.sum()))

    def _rows_of(self, labels: NDArray[np.int64]) -> tuple[sp.csr_array, Vector]:
        """a (N, d) and E (N,) of one labelling of all examples."""
        features, loss = self.problem.features, self.problem.loss.of(labels)
        difference = sp.csr_array(features.joint_each(features.truth) - features.joint_each(labels))
        if self.problem.scaling == "slack":
            difference = sp.csr_array(difference.multiply(loss[:, None]))
        return difference, loss

    # -- bounds ----------------------------------------------------------------------------------------------------

    def _lower_upper_bound(self, w: Vector, found: Evaluation) -> None:
        value = found.value
        if self.slack == "none":
            factor = stretch(self.problem, found.hinge)
            w = w if factor is None else factor * w
            value = np.inf if factor is None else 0.5 * self.problem.lam * float(w @ w)
        if value < self._primal or not math.isfinite(self._primal):
            self._primal, self.w = value, w

    def _raise_lower_bound(self) -> None:
        """D at the master's multipliers, cleared of rounding."""
        assert self.master is not None
        if not self._rows:
            return
        problem = self.problem
        alpha = np.maximum(np.asarray(self.master.dual_values["margin"], dtype=np.float64), 0.0)
        a = sp.csr_array(sp.vstack([rows[0] for rows in self._rows], format="csr"))
        loss = np.concatenate([rows[1] for rows in self._rows])
        of = np.concatenate([rows[2] for rows in self._rows])
        if self.slack != "none":
            most = problem.ceiling if self.slack == "n" else np.full(1, problem.scale.C)
            alpha = alpha / np.maximum(np.bincount(of, weights=alpha, minlength=len(most)) / most, 1.0)[of]
        else:
            psi = problem.project(np.asarray(a.T @ alpha))
            square = float(psi @ psi) / problem.lam
            alpha = alpha * (max(0.0, float(loss @ alpha)) / square if square > 0 else 1.0)
        value = problem.best_on_ray(np.asarray(a.T @ alpha), float(loss @ alpha))
        if value > self._lower:
            self._lower = value
            self._alpha = np.zeros((len(self.labels), problem.n_examples))
            if self.slack == "one":
                self._alpha[:] = alpha[:, None] * problem.weights
            else:
                self._alpha[np.asarray(self.in_master)] = alpha

    def certified(self) -> StructuredSVM:
        """The problem whose optimum the run finds. Without slack, that of a C so large that the best multipliers found
        fit: it has the hard margin's optimum once they are optimal."""
        if self.slack != "none":
            return self.problem
        most = float(np.max(self._alpha.sum(axis=0) / self.problem.weights))
        return replace(self.problem, scale=Scale(self.problem.lam, max(self.problem.scale.C, most)))

    def witness(self) -> Point:
        """The best alpha found, as a mixture of labellings."""
        problem = self.certified()
        shape = (len(self._alpha), problem.features.n_nodes)
        labels = np.array(self.labels[: len(self._alpha)], dtype=np.int64).reshape(shape)
        shares = self._alpha / problem.ceiling
        return {"labels": labels, "label_shares": shares / np.maximum(shares.sum(axis=0), 1.0)}

    # -- to the end ------------------------------------------------------------------------------------------------

    def run(
        self, tol: str | float | Profile = HIGH, time_limit: float | None = None, max_rounds: int | None = None
    ) -> Solution:
        """Step until the valid bounds meet within ``tol``, nothing is left to add, or a limit; then certify.

        Calling it again goes on from where it stopped.
        """
        wanted = profile(tol)
        least = least_unit(self.problem, wanted.floor)
        trace = Trace(least=least)
        for old in self.rounds:
            trace.append(old.number, old.seconds, old.number, old.primal, old.lower_bound)
        status = Status.STALLED
        begin, taken = time.perf_counter(), 0
        while not self.done:
            now = self.step()
            taken += 1
            trace.append(now.number, now.seconds, now.number, now.primal, now.lower_bound)
            if relative_gap(now.primal, now.lower_bound, least) <= wanted.gap:
                break
            if max_rounds is not None and taken >= max_rounds:
                status = Status.ITERATION_LIMIT
                break
            if time_limit is not None and time.perf_counter() - begin >= time_limit:
                status = Status.TIME_LIMIT
                break
        witness = self.witness()
        certificate = certify(self.certified(), {"w": self.w}, witness, wanted.floor)
        met = self.done or relative_gap(self._primal, self._lower, least) <= wanted.gap
        last = self.rounds[-1]
        if last.status == "infeasible":
            status = Status.INFEASIBLE
        elif met and wanted.met_by(certificate.gap):
            status = Status.OPTIMAL
        message = f"{last.number} rounds, {sum(r.added for r in self.rounds)} constraints; "
        message += f"the last master's value by {self.solver} is {last.master:.10g} ({last.status})"
        name = f"{self.name}, {self.solver}"
        return Solution({"w": self.w}, witness, certificate, status, trace, name, message)

    def solve(self, solver: str | None = None, tol: str | float | Profile = HIGH, **options: Any) -> Solution:
        """`run`, with the signature of `Formulation.solve`."""
        self.solver = solver or self.solver
        self.options = {**self.options, **options}
        return self.run(tol)

    def reference(self, solver: str | None = None, **options: Any) -> Reference:
        """Run to the end; the value is the last master's, the bracket the run's, by which it is judged."""
        solution = self.solve(solver, HIGH, **options)
        last = self.rounds[-1]
        return Reference(
            self.name, self.solver, last.status, last.master, solution.seconds, solution.lower_bound, solution.primal,
            beyond_rounding(solution.certificate), certified=True,
        )  # fmt: skip


def stretch(problem: StructuredSVM, hinge: Vector) -> float | None:
    """A factor by which w has every hard margin, from H_i(w) (N,) (upper bounds will do); None if none is known.

    With e_i > 0 the least positive loss of the example, <w, df_i(y)> >= E_i(y) - H_i >= E_i(y) (1 - H_i / e_i), under
    slack scaling >= 1 - H_i / e_i. Where another labelling than y_i has no loss, a factor does not mend its margin.
    """
    if problem.loss.zero_one:
        least = np.ones(problem.n_examples)
    else:
        costs = np.where(problem.loss.costs > 0, problem.loss.costs, np.inf).min(axis=1)
        least = np.minimum.reduceat(costs, problem.features.node_start[:-1])
        free = bool(((problem.loss.costs == 0).sum(axis=1) > 1).any())
        if free and problem.scaling == "margin" and hinge.any():
            return None
    left = 1.0 - float(np.max(hinge / least, initial=0.0))
    return 1.0 / left if left > 0 else None


@one_family
def n_slack_cuts(problem: StructuredSVM, solver: str = "CLARABEL", **options: Any) -> ConstraintGeneration:
    """The problem by constraint generation with a slack for each example: up to N constraints a round."""
    return ConstraintGeneration(problem, "n", solver, options)


@one_family
def one_slack_cuts(problem: StructuredSVM, solver: str = "CLARABEL", **options: Any) -> ConstraintGeneration:
    """The problem by constraint generation with one slack xi = sum_i omega_i xi_i for all: one constraint a round."""
    return ConstraintGeneration(problem, "one", solver, options)


@one_family
def hard_margin_cuts(problem: StructuredSVM, solver: str = "CLARABEL", **options: Any) -> ConstraintGeneration:
    """The hard margin by constraint generation; the run ends INFEASIBLE where no w separates the data."""
    return ConstraintGeneration(problem, "none", solver, options)


ENTRIES = (
    entry(
        "n_slack_cuts", "(P) by constraint generation, a slack for each example", PAPER_1, "cutting-plane algorithm",
        n_slack_cuts,
    ),
    entry(
        "one_slack_cuts", "(P) by constraint generation, one slack for all", PAPER_1, "single slack formulation",
        one_slack_cuts,
    ),
    entry(
        "hard_margin_cuts", "the hard margin by constraint generation", PAPER_4, "cutting plane optimization",
        hard_margin_cuts, optimum="hard-margin p*",
    ),
)  # fmt: skip
