r"""Constraint generation, one step at a time: what is the same for every family.

Each step solves the master problem, that is the formulation with the margin constraints found so far. It then asks the
oracle for the most violated labelling of each example at the master's solution, and adds the constraints that are new.

    slack "n"     a slack for each example: up to N constraints a round
    slack "one"   one slack for the weighted sum of the examples' constraints: one constraint a round
    slack "none"  no slack (the hard margin): up to N constraints a round

Two bounds of the optimum are valid in every round, however inaccurately the master was solved. The upper one is the
objective at a feasible point made from the master's solution. The lower one is the dual at the master's multipliers,
after negative ones are set to 0 and sums above their limit are scaled down. The optimum that the solver claims for the
master is reported and never used as a bound.

A family derives a class from `ConstraintGeneration` and says what the hooks (marked "hook") mean for it.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Flags, Index, Labels, Matrix, Point, Vector
from convexstruct.core.certificates import Problem, certify, least_unit, relative_gap
from convexstruct.core.driver import AHEAD, judged
from convexstruct.core.registry import check_family
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.deadline import DeadlinePassed, within
from convexstruct.models.formulation import Formulation, Reference, beyond_rounding, sums_by
from convexstruct.models.general_solvers import installed
from convexstruct.tolerances import HIGH, ROUNDING, Profile, profile
from convexstruct.validation.arguments import choice, number, refuse, whole

Slack = Literal["n", "one", "none"]
P = TypeVar("P", bound=Problem)


@dataclass(frozen=True)
class Round:
    """What one step did.

    number : of the round, from 1. added : constraints added. violation : the largest by which a constraint is violated
    at the master's solution. primal, lower_bound : the best valid bounds so far. master : the optimum that the solver
    claims for the master. status : the master's CVXPY status. seconds : spent in all steps so far. floor : the lowest
    value that the master allows a variable; -inf where it has no such limit.
    """

    number: int
    added: int
    violation: float
    primal: float
    lower_bound: float
    master: float
    status: str
    seconds: float
    floor: float = -math.inf


class Rows(NamedTuple):
    """Rows of margin constraints. a : sparse (R, d). b : (R,), losses. of : (R,), the slack of each row."""

    a: sp.csr_array
    b: Vector
    of: Index


class ConstraintGeneration(ABC, Generic[P]):
    """A margin problem by constraint generation, to be stepped through in a notebook.

    Attributes
    ----------
    problem : the problem; its oracle decides what is added.
    slack : "n", "one" or "none".
    solver, options : what solves the masters, and its options.
    master : the last master solved, a `Formulation`; None before the first step.
    rounds : what the steps did.
    point : the best feasible point so far; the trivial one before the first step.
    done : nothing is left to add, or the solver found no solution of the last master.
    labels : one labelling of all examples a round. in_master (rounds, N) : whose constraint went into the master.
    """

    #: How often one step runs the oracle over all examples.
    oracle_calls = 1

    def __init__(
        self, problem: P, slack: Slack = "n", solver: str = "CLARABEL", options: Mapping[str, Any] | None = None
    ) -> None:
        check_family("ConstraintGeneration", type(self).__init__, problem)
        self.problem = problem
        self.slack = choice("slack", slack, get_args(Slack))
        self.solver = installed(solver)
        if options is not None and not isinstance(options, Mapping):
            refuse("options", options, "a mapping from the solver's options to their values")
        self.options = dict(options or {})
        self.master: Formulation | None = None
        self.rounds: list[Round] = []
        self.labels: list[Labels] = []
        self.in_master: list[Flags] = []
        self.point: Point = problem.trivial()[0]
        self.done = False
        self._rows: list[Rows] = []
        self._primal, self._lower = math.inf, -math.inf
        self._multipliers: Matrix = np.zeros((0, len(self.weights)))
        self._seconds = 0.0

    def __repr__(self) -> str:
        added = sum(step.added for step in self.rounds)
        bounds = f"{self._lower:.8g} <= optimum <= {self._primal:.8g}"
        return f"ConstraintGeneration({self.name}: {len(self.rounds)} rounds, {added} constraints, {bounds})"

    # -- what a family says ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def name(self) -> str:
        """Hook: the name of the formulation."""

    @property
    @abstractmethod
    def weights(self) -> Vector:
        """Hook: the weights (N,) of the examples."""

    @property
    @abstractmethod
    def starts(self) -> Index:
        """Hook: where (N + 1,) each example begins in a labelling of all examples, and the length of the whole."""

    @abstractmethod
    def limit(self, problem: P) -> float:
        """Hook: what the multipliers of an example of weight 1 may sum to in ``problem``."""

    @abstractmethod
    def formulation(self) -> Formulation:
        """Hook: the master with the constraints found so far. Its slack variable, if any, is called "eps" or "xi"."""

    @abstractmethod
    def rows_of(self, labels: Labels) -> tuple[sp.csr_array, Vector]:
        """Hook: the constraints' a (N, d) and b (N,) for one labelling of all examples."""

    @abstractmethod
    def bound_above(self) -> tuple[Labels, Vector]:
        """Hook: call `improve` with what the master's solution gives, and return the most violated labelling of all
        examples and b - a'x of each (N,), before any slack, at the master's solution x."""

    @abstractmethod
    def bound_below(self) -> None:
        """Hook: call `raise_bound` with what the master's multipliers give."""

    def widen(self) -> bool:
        """Hook: nothing is violated; loosen what the master restricts besides, if anything, and say whether it was."""
        return False

    @property
    def floor(self) -> float:
        """Hook: the lowest value that the master allows a variable."""
        return -math.inf

    def certified(self) -> P:
        """Hook: the problem whose optimum the run finds, and which its points certify."""
        return self.problem

    # -- one round -------------------------------------------------------------------------------------------------

    def step(self) -> Round:
        """Solve the master, bound the optimum, add what is violated. If the solver returns no point, `done` is set: the
        round says its status, and the bounds stay."""
        begin = time.perf_counter()
        self.master = self.formulation()
        said = self.master.reference(self.solver, **self.options)
        violation, added, floor = math.inf, 0, self.floor
        if math.isfinite(said.value):
            self.bound_below()
            labels, each = self.bound_above()
            violation, added = self._separate(labels, each)
            self.done = added == 0 and not self.widen()
        else:
            self.done = True
        self._seconds += time.perf_counter() - begin
        now = Round(
            len(self.rounds) + 1, added, violation, self._primal, self._lower, said.value, said.status, self._seconds,
            floor,
        )  # fmt: skip
        self.rounds.append(now)
        return now

    def _separate(self, labels: Labels, each: Vector) -> tuple[float, int]:
        """Add the most violated constraint of each example (or of all together), if it is new; the labellings there
        already are never added twice, so a master solved inaccurately cannot make the loop run for ever."""
        assert self.master is not None
        named = self.master.variables
        slack = next((np.asarray(named[name].value) for name in ("eps", "xi") if name in named), np.zeros(len(each)))
        if self.slack == "one":
            known: Flags = np.full(len(each), any((row == labels).all() for row in self.labels))
            violations = np.full(len(each), self.weights @ each - slack[0])
        else:
            known = np.zeros(len(each), dtype=bool)
            for row, kept in zip(self.labels, self.in_master):
                known |= kept & np.logical_and.reduceat(row == labels, self.starts[:-1])
            violations = each - slack
        new = (violations > ROUNDING * max(1.0, float(np.abs(each).max()))) & ~known
        if not new.any():
            return float(violations.max()), 0
        a, b = self.rows_of(labels)
        self.labels.append(labels)
        self.in_master.append(new)
        if self.slack == "one":
            together = sp.csr_array((self.weights @ a)[None, :])
            self._rows.append(Rows(together, np.array([self.weights @ b]), np.zeros(1, dtype=np.intp)))
            return float(violations.max()), 1
        at = np.flatnonzero(new)
        self._rows.append(Rows(a[at], b[at], at))
        return float(violations.max()), len(at)

    def found(self) -> Rows | None:
        """The constraints found so far, those of each round after those before; None where there are none."""
        if not self._rows:
            return None
        a, b, of = zip(*self._rows)
        return Rows(sp.csr_array(sp.vstack(a, format="csr")), np.concatenate(b), np.concatenate(of))

    def slack_of(self, rows: Rows) -> sp.csr_array:
        """The sparse (R, slacks) matrix that gives each row its slack."""
        return sums_by(rows.of, 1 if self.slack == "one" else len(self.weights)).T

    # -- bounds ----------------------------------------------------------------------------------------------------

    def improve(self, value: float, point: Point) -> None:
        """Keep ``point`` if its objective ``value`` is the least so far, or if none so far was finite."""
        if value < self._primal or not math.isfinite(self._primal):
            self._primal, self.point = value, point

    def raise_bound(self, value: float, multipliers: Matrix) -> None:
        """Keep the multipliers (rounds, N) if the lower bound ``value`` that they prove is the best so far."""
        if value > self._lower:
            self._lower, self._multipliers = value, multipliers

    def multipliers_of(self, rows: Rows, label: str) -> Vector:
        """The master's multipliers (R,) of its equation ``label``: none below 0, and those of a slack scaled down where
        they sum to more than they may."""
        assert self.master is not None
        alpha: Vector = np.maximum(np.asarray(self.master.dual_values[label], dtype=np.float64), 0.0)
        if self.slack == "none":
            return alpha
        most = self.limit(self.problem) * (self.weights if self.slack == "n" else np.ones(1))
        return alpha / np.maximum(np.bincount(rows.of, weights=alpha, minlength=len(most)) / most, 1.0)[rows.of]

    def by_example(self, alpha: Vector) -> Matrix:
        """Multipliers (R,) of the rows as multipliers (rounds, N) of the labellings of each example."""
        if self.slack == "one":
            return np.outer(alpha, self.weights)
        spread = np.zeros((len(self.labels), len(self.weights)))
        spread[np.asarray(self.in_master)] = alpha
        return spread

    def witness(self) -> Point:
        """The multipliers of the best lower bound, as a mixture of labellings."""
        rounds, limits = len(self._multipliers), self.limit(self.certified()) * self.weights
        labels = np.array(self.labels[:rounds], dtype=np.int64).reshape(rounds, int(self.starts[-1]))
        shares = self._multipliers / limits
        return {"labels": labels, "label_shares": shares / np.maximum(shares.sum(axis=0), 1.0)}

    # -- to the end ------------------------------------------------------------------------------------------------

    def run(
        self, tol: str | float | Profile = HIGH, time_limit: float | None = None, max_rounds: int | None = None
    ) -> Solution:
        """Step until the valid bounds meet within ``tol``, nothing is left to add, or a limit; then certify.

        Limits, interruption and the status of the end are as `convexstruct.solve` has them, except that CVXPY's solver
        is not cut short inside a master. Calling it again goes on from where it stopped.

        Raises
        ------
        ValueError
            If an argument makes no sense.
        """
        wanted = profile(tol)
        most = None if max_rounds is None else whole("max_rounds", max_rounds, least=1)
        limit = None if time_limit is None else number("time_limit", time_limit, above=0)
        least = least_unit(self.problem, wanted.floor)
        status = Status.STALLED
        begin, before = time.perf_counter(), len(self.rounds)
        try:
            with within(limit):
                while not self.done:
                    now = self.step()
                    if relative_gap(now.primal, now.lower_bound, least) <= AHEAD * wanted.gap:
                        status = Status.OPTIMAL
                        break
                    if most is not None and now.number - before >= most:
                        status = Status.ITERATION_LIMIT
                        break
                    if limit is not None and time.perf_counter() - begin >= limit:
                        status = Status.TIME_LIMIT
                        break
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        except DeadlinePassed:
            status = Status.TIME_LIMIT
        return self._solution(status, wanted, least)

    def _solution(self, status: Status, wanted: Profile, least: float) -> Solution:
        """The best points so far with their certificate, as a run that ended with ``status`` returns them."""
        problem, witness, message = self.certified(), self.witness(), ""
        certificate = certify(problem, self.point, witness, wanted.floor)
        if status in (Status.OPTIMAL, Status.STALLED):
            claimed = (self._lower, self._primal) if status is Status.OPTIMAL else None
            status, message = judged(problem, self.point, witness, certificate, wanted, claimed)
        trace = Trace(least=least)
        for each in self.rounds:
            calls = self.oracle_calls * each.number
            trace.append(each.number, each.seconds, calls, each.primal, each.lower_bound)
        if self.rounds:
            last = self.rounds[-1]
            if last.status == "infeasible":
                status = Status.INFEASIBLE
            said = f"{last.number} rounds, {sum(each.added for each in self.rounds)} constraints; "
            said += f"the last master's value by {self.solver} is {last.master:.10g} ({last.status})"
            message = "; ".join(part for part in (message, said) if part)
        return Solution(self.point, witness, certificate, status, trace, f"{self.name}, {self.solver}", message)

    def solve(self, solver: str | None = None, tol: str | float | Profile = HIGH, **options: Any) -> Solution:
        """`run`, with the signature of `Formulation.solve`."""
        self.solver = self.solver if solver is None else installed(solver)
        self.options = {**self.options, **options}
        return self.run(tol)

    def reference(self, solver: str | None = None, **options: Any) -> Reference:
        """Run to the end; the value is the last master's, the bracket the run's, by which it is judged.

        Raises
        ------
        KeyboardInterrupt
            If the run was interrupted: what was cut short is no reference.
        """
        solution = self.solve(solver, HIGH, **options)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        last = self.rounds[-1]
        return Reference(
            self.name, self.solver, last.status, last.master, solution.seconds, solution.lower_bound, solution.primal,
            beyond_rounding(solution.certificate), certified=True,
        )  # fmt: skip
