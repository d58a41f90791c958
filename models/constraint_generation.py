r"""Constraint generation, one step at a time: the part that all families share.

Each step solves the master problem, that is the formulation with the constraints found so far, and adds constraints
that its solution violates.

Two bounds of the optimum are valid in every round, however inaccurately the master was solved. The upper one is the
objective at a feasible point made from the master's solution, the lower one the dual at the master's multipliers, made
feasible. The optimum that the solver claims for the master is reported and never used as a bound.

A family derives a class from `ConstraintGeneration`, or from `LabellingCuts` where constraints belong to labellings,
and implements its hooks (docstrings that begin with "Hook").
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from convexstruct.arrays import Point
from convexstruct.core.certificates import Certificate, Problem, certify, least_unit, relative_gap
from convexstruct.core.driver import OWN_GAP_SHARE
from convexstruct.core.judgement import judged
from convexstruct.core.registry import check_family
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.deadline import DeadlinePassed, within
from convexstruct.models.formulation import Formulation, Reference, beyond_rounding
from convexstruct.models.general_solvers import installed
from convexstruct.tolerances import HIGH, Profile, profile
from convexstruct.validation.arguments import number, whole

P = TypeVar("P", bound=Problem)


@dataclass(frozen=True)
class Round:
    """The result of one step.

    number : of the round, from 1.
    added : how many constraints were added.
    violation : the largest violation of a constraint at the master's solution.
    primal, lower_bound : the best valid bounds so far.
    master, status : the optimum that the solver claims for the master, and CVXPY's status.
    seconds : the time of all steps so far.
    floor : the lowest value that the master allows a variable; -inf where it has no such limit.
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


class ConstraintGeneration(ABC, Generic[P]):
    """Constraint generation for one problem, one step at a time (`step`) or to the end (`run`).

    Attributes
    ----------
    problem : the problem.
    solver, options : the name of the solver of the masters and its options; to be set before a step, or by `solve`.
    master : the last master solved, a `Formulation`; None before the first step.
    rounds : a `Round` for each step so far.
    point : the best feasible point so far; the trivial one before the first step.
    done : whether nothing is left to add, or the solver found no solution of the last master.
    """

    #: Calls of the oracle in one step.
    oracle_calls = 1

    def __init__(self, problem: P) -> None:
        check_family("ConstraintGeneration", type(self).__init__, problem)
        self.problem = problem
        self.solver = "CLARABEL"
        self.options: dict[str, Any] = {}
        self.master: Formulation | None = None
        self.rounds: list[Round] = []
        self.point: Point = problem.trivial()[0]
        self.done = False
        self._primal, self._lower = math.inf, -math.inf
        self._multipliers: Any = None
        self._seconds = 0.0

    def __repr__(self) -> str:
        added = sum(step.added for step in self.rounds)
        bounds = f"{self._lower:.8g} <= optimum <= {self._primal:.8g}"
        return f"ConstraintGeneration({self.name}: {len(self.rounds)} rounds, {added} constraints, {bounds})"

    # -- hooks of a family -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def name(self) -> str:
        """Hook: the name of the formulation."""

    @abstractmethod
    def formulation(self) -> Formulation:
        """Hook: the master with the constraints found so far."""

    @abstractmethod
    def bound_below(self) -> None:
        """Hook: call `raise_bound` with the lower bound that the master's multipliers prove."""

    @abstractmethod
    def separate(self) -> tuple[float, int]:
        """Hook: call `improve` with a feasible point made from the master's solution, and add constraints that the
        solution violates. Returns the largest violation, and how many constraints were added."""

    @abstractmethod
    def witness(self) -> Point:
        """Hook: the dual point of the best lower bound."""

    def widen(self) -> bool:
        """Hook, called where no constraint is violated: loosen another restriction of the master, such as `floor`, if
        any, and return whether there was one."""
        return False

    @property
    def floor(self) -> float:
        """Hook: the lowest value that the master allows a variable."""
        return -math.inf

    def certified(self) -> P:
        """Hook: the problem whose optimum the run finds, and by which its points are certified."""
        return self.problem

    def certificate(self, floor: float) -> Certificate:
        """Hook: the certificate of the best points, with the least divisor of its gap as `certify` takes it."""
        return certify(self.certified(), self.point, self.witness(), floor)

    # -- one round -------------------------------------------------------------------------------------------------

    def step(self) -> Round:
        """Solve the master, bound the optimum, add violated constraints. If the solver returns no point, `done` is set,
        the round has the solver's status, and the bounds stay."""
        begin = time.perf_counter()
        self.master = self.formulation()
        said = self.master.reference(self.solver, **self.options)
        violation, added, floor = math.inf, 0, self.floor
        if math.isfinite(said.value):
            self.bound_below()
            violation, added = self.separate()
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

    def improve(self, value: float, point: Point) -> None:
        """Keep ``point`` if its objective ``value`` is the least so far, or if none so far was finite."""
        if value < self._primal or not math.isfinite(self._primal):
            self._primal, self.point = value, point

    def raise_bound(self, value: float, multipliers: Any) -> None:
        """Keep the multipliers, in the form that `witness` reads, if the lower bound ``value`` that they prove is the
        best so far."""
        if value > self._lower:
            self._lower, self._multipliers = value, multipliers

    # -- to the end ------------------------------------------------------------------------------------------------

    def run(
        self, tol: str | float | Profile = HIGH, time_limit: float | None = None, max_rounds: int | None = None
    ) -> Solution:
        """Step until the valid bounds meet within ``tol``, nothing is left to add, or a limit is reached; then certify.

        Limits, interruption and the final status are those of `convexstruct.solve`, except that the time limit does
        not stop CVXPY's solver inside a master. A second call continues where the first stopped.

        Raises
        ------
        ValueError
            If ``tol`` is no tolerance, ``time_limit`` is not positive, or ``max_rounds`` is no whole number from 1.
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
                    if relative_gap(now.primal, now.lower_bound, least) <= OWN_GAP_SHARE * wanted.gap:
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
        certificate = self.certificate(wanted.floor)
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
        """Run to the end. The value is that of the last master; it is judged by the bounds of the run.

        Raises
        ------
        KeyboardInterrupt
            If the run was interrupted: its last master's value is no reference.
        """
        solution = self.solve(solver, HIGH, **options)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        last = self.rounds[-1]
        return Reference(
            self.name, self.solver, last.status, last.master, solution.seconds, solution.lower_bound, solution.primal,
            beyond_rounding(solution.certificate), certified=True, least=solution.certificate.least,
        )  # fmt: skip
