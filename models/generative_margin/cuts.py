r"""Problem (P) of paper 0 by constraint generation, n-slack and one-slack, one step at a time.

Each step solves the master (P) with the constraints (3) found so far, asks the oracle for the most violated ones at its
theta, and adds them. Bounds, valid every round whatever the solver's accuracy:

* upper: P at theta shifted into (4); the oracle run at the *unshifted* theta gives the cuts;
* lower: the master's multipliers of (3), cleared of rounding, are beta of (9), so they give a member of script-D, which
  `GenerativeMargin.best_on_segment` turns into a bound. The value the solver claims for the master is a bound only up
  to its tolerance, and only if the box is not active; it is reported, never used.

**The box.** With few cuts some V_i is near 0, theta_ij runs to -100 and further, and e^theta spoils the interior point
(Clarabel breaks in the third one-slack round). The masters therefore carry theta >= floor. A floor that cuts nothing
off follows from any upper bound U of the optimum (ours): with H(c_i) the entropy, -c_i'theta_i >= H(c_i) under (4), so

    -theta_ij <= (U - sum_{i' != i} H(c_i') - H_rest) / c_ij,   H_rest = -sum_{j' != j} c_ij' ln(c_ij' / (1 - c_ij)).

It is far too loose to help (-1e4 on the ring), so masters start from ``START_FLOOR``, and the floor is doubled, down to
the valid one, when nothing is violated and the bounds have not met. The bounds never depend on it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from convexstruct.arrays import Point, Vector
from convexstruct.core.certificates import certify, least_unit, relative_gap
from convexstruct.core.registry import one_family
from convexstruct.core.solution import Solution, Status, Trace
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.models.formulation import Formulation, Reference, beyond_rounding, equation
from convexstruct.models.generative_margin.enumerated import SUB_DISTRIBUTION, block_sums, entry, sums_by
from convexstruct.tolerances import HIGH, ROUNDING, Profile, profile

#: The first floor of theta: e^-30 is far below what a probability of the optimum usually is.
START_FLOOR = -30.0


@dataclass(frozen=True)
class Round:
    """What one step did.

    number : of the round, from 1. added : constraints added. violation : the largest violation of (3) found.
    primal, lower_bound : the best valid bounds so far. master : the value the solver claims for the master, its own
    word. status : the master's CVXPY status. floor : the lowest value the box allows theta. seconds : since the start.
    """

    number: int
    added: int
    violation: float
    primal: float
    lower_bound: float
    master: float
    status: str
    floor: float
    seconds: float


@dataclass(eq=False, repr=False)
class ConstraintGeneration:
    """(P) by constraint generation, to be stepped through in a notebook.

    Attributes
    ----------
    problem : (P).
    one_slack : one constraint a round for all examples together, sum_k w_k [a_k(s_k)'theta + b_k(s_k)] <= xi, in place
        of one for each example.
    solver, options : what solves the masters, and its options.
    master : the last master solved, a `Formulation`; None before the first step.
    rounds : what the steps did.
    theta : the best feasible point so far (uniform before the first step). done : nothing is left to add.
    labels : one labelling of all examples a round. in_master (rounds, K) : whose constraint went into the master.
    """

    problem: GenerativeMargin
    one_slack: bool = False
    solver: str = "CLARABEL"
    options: dict[str, Any] = field(default_factory=dict)
    master: Formulation | None = field(default=None, init=False)
    rounds: list[Round] = field(default_factory=list, init=False)
    labels: list[NDArray[np.int64]] = field(default_factory=list, init=False)
    in_master: list[NDArray[np.bool_]] = field(default_factory=list, init=False)
    theta: Vector = field(init=False)
    done: bool = field(default=False, init=False)
    _rows: list[tuple[sp.csr_array, Vector, NDArray[np.intp]]] = field(default_factory=list, init=False)
    _floor: Vector = field(init=False)
    _primal: float = field(default=np.inf, init=False)
    _lower: float = field(default=-np.inf, init=False)
    _safe: tuple[Vector, float] = field(init=False)
    _safe_shares: Vector = field(init=False)
    _seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.theta = self.problem.uniform()
        self._floor = np.full(self.problem.dimension, START_FLOOR)
        self._safe = (np.zeros(self.problem.dimension), 0.0)
        self._safe_shares = np.zeros((0, self.problem.n_examples))

    @property
    def name(self) -> str:
        return "one_slack" if self.one_slack else "n_slack"

    def __repr__(self) -> str:
        added = sum(step.added for step in self.rounds)
        bounds = f"{self._lower:.8g} <= optimum <= {self._primal:.8g}"
        return f"ConstraintGeneration({self.name}: {len(self.rounds)} rounds, {added} constraints, {bounds})"

    # -- the master ------------------------------------------------------------------------------------------------

    def formulation(self) -> Formulation:
        r"""The master with the constraints found so far and the present box:

        min -c'theta + eta sum_k w_k eps_k  (one slack: eta xi)  s.t. (3) found so far, (4), (5), theta >= floor.
        """
        problem = self.problem
        theta = cp.Variable(problem.dimension, name="theta")
        slack = cp.Variable(1 if self.one_slack else problem.n_examples, name="xi" if self.one_slack else "eps")
        eta = cp.Parameter(pos=True, name="eta", value=problem.eta)
        cost = cp.sum(slack) if self.one_slack else problem.features.weights @ slack
        parts = {}
        if self._rows:
            a = sp.csr_array(sp.vstack([rows[0] for rows in self._rows], format="csr"))
            b = np.concatenate([rows[1] for rows in self._rows])
            of = np.concatenate([rows[2] for rows in self._rows])
            shown = (
                r"\sum_k w_k \big[ a_k(s_k)'\theta + b_k(s_k) \big] \le \xi, \quad (s_k)_k \in \mathcal{W}"
                if self.one_slack
                else r"a_k(s)'\theta + b_k(s) \le \epsilon_k, \quad s \in \mathcal{W}_k,\ k \in \mathcal{K}"
            )
            parts["3"] = equation(a @ theta + b <= sums_by(of, slack.size).T @ slack, shown)
        parts["4"] = equation(block_sums(problem.layout) @ cp.exp(theta) <= 1, SUB_DISTRIBUTION)
        letter = r"\xi" if self.one_slack else r"\epsilon"
        parts["5"] = equation([theta <= 0, slack >= 0], rf"\theta \le 0, \quad {letter} \ge 0")
        parts["box"] = equation(theta >= self._floor, rf"\theta \ge {self._floor.max():.6g}")
        weighted = r"\xi" if self.one_slack else r"\sum_k w_k \epsilon_k"
        return Formulation(
            name=f"{self.name} master",
            objective=cp.Minimize(-problem.c @ theta + eta * cost),
            objective_latex=rf"\min_{{\theta,{letter}}}\quad -\sum_i c_i'\theta_i + \eta\, {weighted}",
            objective_label="2",
            parts=parts,
            variables={"theta": theta, slack.name(): slack},
            parameters={"eta": eta},
            source="paper 0, (2)-(5), by constraint generation",
        )

    # -- one round -------------------------------------------------------------------------------------------------

    def step(self) -> Round:
        """Solve the master, bound the optimum, add what is violated. If the solver returns no point, `done` is set: the
        round says its status, and the bounds stay."""
        begin = time.perf_counter()
        problem = self.problem
        self.master = self.formulation()
        said = self.master.reference(self.solver, **self.options)
        floor = float(self._floor.min())
        if math.isfinite(said.value):
            self._raise_lower_bound()
            theta = np.asarray(self.master.variables["theta"].value, dtype=np.float64)
            feasible = problem.shift(theta)
            at_feasible = problem.evaluate(feasible).value
            if at_feasible < self._primal:
                self._primal, self.theta = at_feasible, feasible
            violation, added = self._separate(theta)
            if added == 0:
                self._lower_floor()
        else:
            self.done, violation, added = True, math.inf, 0
        self._seconds += time.perf_counter() - begin
        now = Round(
            len(self.rounds) + 1, added, violation, self._primal, self._lower, said.value, said.status, floor,
            self._seconds,
        )  # fmt: skip
        self.rounds.append(now)
        return now

    def _separate(self, theta: Vector) -> tuple[float, int]:
        """Add the most violated constraint of each example (or of all together), if it is new; the labellings there
        already are never added twice, so a master solved inaccurately cannot make the loop run for ever."""
        problem, features = self.problem, self.problem.features
        assert self.master is not None
        slack = np.asarray(next(v for n, v in self.master.variables.items() if n != "theta").value)
        best, labels = features.best(theta, 1.0)
        each = best - np.asarray(problem.truth_each @ theta)
        known = np.zeros(problem.n_examples, dtype=bool)
        first = np.searchsorted(features.example, np.arange(problem.n_examples))
        for row, kept in zip(self.labels, self.in_master):
            known |= kept & np.logical_and.reduceat(row == labels, first)
        if self.one_slack:
            known[:] = any((row == labels).all() for row in self.labels)
            violations = np.full(problem.n_examples, features.weights @ each - slack[0])
        else:
            violations = each - slack
        scale = ROUNDING * max(1.0, float(np.abs(each).max()))
        new = (violations > scale) & ~known
        if new.any():
            a = sp.csr_array(features.counts_each(labels) - problem.truth_each)
            b = features.loss(labels)
            self.labels.append(labels)
            self.in_master.append(new)
            if self.one_slack:
                row = sp.csr_array((features.weights @ a)[None, :])
                self._rows.append((row, np.array([features.weights @ b]), np.zeros(1, dtype=np.intp)))
            else:
                self._rows.append((a[np.flatnonzero(new)], b[new], np.flatnonzero(new)))
        return float(violations.max()), (int(new.any()) if self.one_slack else int(new.sum()))

    # -- bounds ----------------------------------------------------------------------------------------------------

    def _raise_lower_bound(self) -> None:
        """The master's multipliers as shares of the labellings, mixed with the best shares so far as far as it pays."""
        assert self.master is not None
        if not self._rows:
            self._lower = max(self._lower, self.problem.dual_value(*self._safe))
            return
        problem, weights = self.problem, self.problem.features.weights
        beta = np.maximum(np.asarray(self.master.dual_values["3"], dtype=np.float64), 0.0)
        of = np.concatenate([rows[2] for rows in self._rows])
        cap = problem.eta * (np.ones(1) if self.one_slack else weights)
        beta = beta / np.maximum(np.bincount(of, weights=beta, minlength=len(cap)) / cap, 1.0)[of]
        a = sp.csr_array(sp.vstack([rows[0] for rows in self._rows], format="csr"))
        mu, omega = np.asarray(a.T @ beta), float(np.concatenate([rows[1] for rows in self._rows]) @ beta)
        # from 0 too: a safe point with some v_ij = 0 cannot move where this one has v_ij = -1e-9
        origin = (np.zeros_like(mu), 0.0)
        base, (t, value) = max(
            ((safe, problem.best_on_segment(mu, omega, safe)) for safe in (self._safe, origin)),
            key=lambda found: found[1][1],
        )
        shares = np.zeros((len(self.labels), problem.n_examples))
        which = np.asarray(self.in_master)
        if self.one_slack:
            shares[:] = (beta / problem.eta)[:, None]
        else:
            shares[which] = beta / (problem.eta * weights[of])
        if value <= self._lower:
            return
        old = np.zeros_like(shares)
        if base is self._safe:
            old[: len(self._safe_shares)] = self._safe_shares
        self._safe = (base[0] + t * (mu - base[0]), base[1] + t * (omega - base[1]))
        self._safe_shares = old + t * (shares - old)
        self._lower = value

    def _lower_floor(self) -> None:
        """Nothing is violated: if theta may still go lower, let it; otherwise there is nothing left to do."""
        valid = valid_floor(self.problem, self._primal)
        wider = np.maximum(valid, 2 * self._floor)
        self.done = bool((wider >= self._floor).all()) or bool(self._floor.min() < -600)
        self._floor = np.minimum(self._floor, wider)

    def witness(self) -> Point:
        """The best member of script-D found, as a mixture of labellings."""
        shares = self._safe_shares
        labels = np.array(self.labels[: len(shares)], dtype=np.int64).reshape(
            len(shares), self.problem.features.n_hidden
        )
        return {"labels": labels, "label_shares": shares}

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
            trace.append(old.number, old.seconds, 2 * old.number, old.primal, old.lower_bound)
        status = Status.STALLED
        begin, taken = time.perf_counter(), 0
        while not self.done:
            now = self.step()
            taken += 1
            trace.append(now.number, now.seconds, 2 * now.number, now.primal, now.lower_bound)
            if relative_gap(now.primal, now.lower_bound, least) <= wanted.gap:
                break
            if max_rounds is not None and taken >= max_rounds:
                status = Status.ITERATION_LIMIT
                break
            if time_limit is not None and time.perf_counter() - begin >= time_limit:
                status = Status.TIME_LIMIT
                break
        witness = self.witness()
        certificate = certify(self.problem, {"theta": self.theta}, witness, wanted.floor)
        if wanted.met_by(certificate.gap):
            status = Status.OPTIMAL
        last = self.rounds[-1]
        message = f"{last.number} rounds, {sum(r.added for r in self.rounds)} constraints; "
        message += f"the last master's value by {self.solver} is {last.master:.10g} ({last.status})"
        name = f"{self.name}, {self.solver}"
        return Solution({"theta": self.theta}, witness, certificate, status, trace, name, message)

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


def valid_floor(problem: GenerativeMargin, upper: float) -> Vector:
    """A lower bound (d,) of every theta that satisfies (4) and P(theta) <= upper; -inf where c_ij = 0 (see above)."""
    c, layout = problem.c, problem.layout
    log_c = np.log(np.where(c > 0, c, 1.0))
    entropy = -layout.block_sum(c * log_c)
    others = (entropy.sum() - entropy)[layout.block_of]
    left = np.maximum(1.0 - c, 0.0)
    log_left = np.log(np.where(left > 0, left, 1.0))
    rest = entropy[layout.block_of] + c * log_c + left * log_left
    room = np.maximum(upper - others - rest, 0.0)
    return np.asarray(np.where(c > 0, -room / np.where(c > 0, c, 1.0), -np.inf))


@one_family
def n_slack(problem: GenerativeMargin, solver: str = "CLARABEL", **options: Any) -> ConstraintGeneration:
    """(P) by constraint generation with a slack for each example: up to K constraints a round."""
    return ConstraintGeneration(problem, False, solver, options)


@one_family
def one_slack(problem: GenerativeMargin, solver: str = "CLARABEL", **options: Any) -> ConstraintGeneration:
    """(P) by constraint generation with one slack xi = sum_k w_k eps_k for all examples: one constraint a round."""
    return ConstraintGeneration(problem, True, solver, options)


ENTRIES = (
    entry("n_slack", "(P) by constraint generation, a slack for each example", "(2)-(5)", n_slack, enumerated=False),
    entry("one_slack", "(P) by constraint generation, one slack for all", "(2)-(5)", one_slack, enumerated=False),
)
