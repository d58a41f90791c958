r"""`Formulation`: a convex program for use in a notebook, with its parts named as in the paper.

A formulation keeps a CVXPY problem together with the numbers its equations carry in the paper, the LaTeX of each, and
a way to read a solution back as a point and a dual witness of the problem it states. Nothing here depends on a family.

    formulation.variables["theta"]          the CVXPY variable
    formulation.equations["3"]              the constraints of equation (3)
    formulation.dual_values["3"]            their multipliers, after a solve; formulation.value is the optimum then
    formulation.parameters["eta"].value = 2 sweep without compiling again (DPP)
    formulation.without("4")                a changed copy; also `adding`, `minimizing`, `maximizing`

CVXPY's own ``problem.constraints`` is a copy: editing it has no effect and gives no error. A formulation is therefore
changed by making a changed copy of it. A changed copy states another problem: its solve reports the value and the
variables, and certifies nothing. It shares its variables, parameters and remaining constraints with the original (so
that expressions of them remain valid); hence ``.value`` and ``.dual_value`` belong to the last solve of either, while
the `Solution` of each solve keeps its own values.
"""

from __future__ import annotations

import html
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import cvxpy as cp
import numpy as np

from convexstruct.arrays import Point
from convexstruct.core.certificates import Certificate, Problem, certify
from convexstruct.core.options import or_none
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.models.general_solvers import SOLVER_OPTIONS, TIGHTER, installed, own_value, run
from convexstruct.models.latex_text import plain, tag
from convexstruct.tolerances import HIGH, Profile, profile, upside_down
from convexstruct.validation.arguments import Named, choice, number, refuse, sentence, text_of


@dataclass(frozen=True)
class Reference:
    """The optimum that a general solver claims for a formulation, and the bounds that its answer certifies.

    formulation, solver : their names.
    status : CVXPY's status. It is the solver's claim; where there is a certificate, the certificate decides.
    value : the optimum the solver claims, of the formulation as stated (-inf or inf if unbounded or infeasible, NaN if
        it failed). It is the solver's own value: the objective evaluated at the rounded variables can be -inf.
    seconds : wall time of compiling (the first time only) and solving, without the certificate.
    lower_bound, upper_bound : the bracket of the optimum that `certify` computes from the point and the dual witness
        read back; -inf and inf where there is none.
    gap : their relative gap, minus the allowances for rounding in the sums that compute them (near an optimum of 0 the
        gap consists of these allowances alone).
    certified : whether the answer could be read back as a point and a dual witness. The answer of a changed copy cannot
        be, and only the solver's claim is known.
    least : the smallest divisor of the gap, absolute (`Certificate.least`): a smaller objective counts as 0.
    """

    formulation: str
    solver: str
    status: str
    value: float
    seconds: float
    lower_bound: float = -math.inf
    upper_bound: float = math.inf
    gap: float = math.inf
    certified: bool = False
    least: float = 0.0

    @property
    def accurate(self) -> bool:
        """Whether the value may serve as a reference: whether `trouble` finds nothing wrong with it."""
        return not self.trouble()

    def trouble(self, accuracy: float = HIGH.gap) -> str:
        """Why the value is no reference, in one sentence; "" if it is one.

        The gap of its bracket must be at most ``accuracy`` (relative), its lower bound may exceed the upper one by
        rounding only, and the claimed value must lie in the bracket, up to ``accuracy`` of its larger bound, or up to
        ``least`` where the optimum is about 0. Where the status is not "optimal", the claimed value is not compared
        with the bracket, but there must be a certificate.
        """
        who = f"{self.formulation} by {self.solver} says {self.status}"
        if not math.isfinite(self.value):
            return f"{who} and gives no value"
        if self.certified and not math.isfinite(self.gap):
            return f"{who}, but its answer certifies no bracket"
        if self.certified and self.gap > accuracy:
            return f"{who}, but its answer certifies only a gap of {self.gap:.1e}, wanted {accuracy:.0e}"
        if self.certified and upside_down(self.gap):
            return f"{who}, but its bracket is upside down by {-self.gap:.1e}"
        if self.status != "optimal":
            return "" if self.certified else f"{who}, and there is no certificate"
        slack = max(accuracy * max(abs(self.lower_bound), abs(self.upper_bound)), self.least)
        if not self.lower_bound - slack <= self.value <= self.upper_bound + slack:
            bracket = f"[{self.lower_bound:.10g}, {self.upper_bound:.10g}]"
            return f"{who} at {self.value:.10g}, outside the bracket {bracket} that its answer certifies"
        return ""

    @property
    def best(self) -> float:
        """The value claimed; where the status is not "optimal", the point of the certified bracket nearest to it."""
        if self.status == "optimal" or not self.certified:
            return self.value
        return min(max(self.value, self.lower_bound), self.upper_bound)


def beyond_rounding(certificate: Certificate) -> float:
    """The relative gap minus the allowances for rounding in its bounds' sums, at least 0; a negative gap is returned
    unchanged."""
    return min(certificate.gap, max(certificate.gap - certificate.rounding, 0.0))


@dataclass(frozen=True, eq=False)
class Equation:
    """The constraints that carry one equation number, and the LaTeX that shows them."""

    constraints: tuple[Any, ...]
    latex: str


@dataclass(frozen=True)
class Sizes:
    """How large a formulation is: scalar variables, scalar rows of its constraints, and rows by cone once compiled."""

    variables: int
    rows: int
    cones: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Recovered:
    """What was read from a solved formulation: its problem at the present parameters, a point and a dual witness."""

    problem: Problem
    point: Point
    dual_point: Point | None


def equation(constraints: Any, latex: str) -> Equation:
    """One constraint, or several, as an `Equation`."""
    several = tuple(constraints) if isinstance(constraints, (list, tuple)) else (constraints,)
    return Equation(several, latex)


@dataclass(frozen=True, eq=False)
class Formulation:
    """A convex program with its parts named as in the paper.

    Attributes
    ----------
    name : as `FORMULATIONS` lists it; a changed copy's name says what was changed.
    objective : ``cvxpy.Minimize`` or ``cvxpy.Maximize``.
    objective_latex : its LaTeX, with "min" or "max". objective_label : its equation number, or "".
    variables : CVXPY variables by name. parameters : CVXPY parameters by name; set ``.value`` and solve again.
    parts : equation number -> `Equation`, in the order of the paper.
    recover : reads a solved formulation back for the certificate; None in a changed copy.
    source : where the formulation is stated, e.g. "paper 0, (2)-(5)".
    """

    name: str
    objective: Any
    objective_latex: str
    parts: Mapping[str, Equation]
    variables: Mapping[str, Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    objective_label: str = ""
    source: str = ""
    recover: Callable[[Formulation], Recovered] | None = None

    def __post_init__(self) -> None:
        for label, part in self.parts.items():
            for constraint in part.constraints:
                constraint.label = f"({label})"
        object.__setattr__(self, "variables", Named(f"variable of {self.name}", self.variables))
        object.__setattr__(self, "parameters", Named(f"parameter of {self.name}", self.parameters))

    # -- parts -----------------------------------------------------------------------------------------------------

    @cached_property
    def problem(self) -> Any:
        """The CVXPY problem."""
        return cp.Problem(self.objective, [c for part in self.parts.values() for c in part.constraints])

    @cached_property
    def equations(self) -> Mapping[str, tuple[Any, ...]]:
        """The constraints by equation number, in the order of the paper."""
        parts = {label: part.constraints for label, part in self.parts.items()}
        return MappingProxyType(Named(f"equation of {self.name}", parts))

    @property
    def dual_values(self) -> Mapping[str, Any]:
        """The multipliers of the last solve by equation number: an array, or a tuple of arrays if there are several."""
        values = {label: tuple(c.dual_value for c in part.constraints) for label, part in self.parts.items()}
        return Named(f"equation of {self.name}", {label: v[0] if len(v) == 1 else v for label, v in values.items()})

    @property
    def value(self) -> float:
        """The optimum as the solver of the last solve claims it; NaN before the first, inf or -inf without a point."""
        return own_value(self.problem)

    @cached_property
    def sizes(self) -> Sizes:
        """Variables, rows and cones; compiles the problem for a conic solver the first time."""
        variables = sum(v.size for v in self.problem.variables())
        rows = sum(_rows(c) for c in self.problem.constraints)
        if not self.problem.is_dcp():
            return Sizes(variables, rows, {"not convex by CVXPY's rules": 0})
        dims = self.problem.get_problem_data(cp.CLARABEL)[0]["dims"]
        cones = {
            "zero": dims.zero,
            "non-negative": dims.nonneg,
            "second-order": sum(dims.soc),
            "exponential": 3 * dims.exp,
            "semidefinite": sum(n * (n + 1) // 2 for n in dims.psd),
            "power": 3 * len(dims.p3d),
        }
        return Sizes(variables, rows, {name: int(count) for name, count in cones.items() if count})

    # -- changed copies --------------------------------------------------------------------------------------------

    def without(self, *labels: str) -> Formulation:
        """A copy without the equations called ``labels``.

        Raises
        ------
        ValueError
            If there is no equation of that number.
        """
        for label in labels:
            choice("equation", label, self.parts, f"of {self.name}")
        kept = {label: part for label, part in self.parts.items() if label not in labels}
        return replace(self, name=f"{self.name} without ({'), ('.join(labels)})", parts=kept, recover=None)

    def adding(self, name: str, constraint: Any, latex: str | None = None) -> Formulation:
        """A copy with one more constraint (or a list of them), called ``name``; ``latex`` shows it, else CVXPY's text.

        Raises
        ------
        ValueError
            If the name is taken, or ``constraint`` is no CVXPY constraint and no list of them.
        """
        if text_of("name", name) in self.parts:
            raise sentence(f"{self.name} already has an equation ({name}), wanted another name")
        or_none(text_of)("latex", latex)
        part = equation(constraint, "")
        for one in part.constraints:
            if not isinstance(one, cp.constraints.constraint.Constraint):
                refuse("constraint", one, "a CVXPY constraint")
        if not part.constraints:
            refuse("constraint", constraint, "a CVXPY constraint, or a list of them")
        shown = latex if latex is not None else r",\ ".join(plain(str(c)) for c in part.constraints)
        parts = {**self.parts, name: Equation(part.constraints, shown)}
        return replace(self, name=f"{self.name} with ({name})", parts=parts, recover=None)

    def minimizing(self, expression: Any, latex: str | None = None) -> Formulation:
        """A copy that minimises ``expression``, one number, under the same constraints."""
        return self._with_objective(cp.Minimize, r"\min", expression, latex)

    def maximizing(self, expression: Any, latex: str | None = None) -> Formulation:
        """A copy that maximises ``expression``, one number, under the same constraints."""
        return self._with_objective(cp.Maximize, r"\max", expression, latex)

    def _with_objective(self, kind: Any, sense: str, expression: Any, latex: str | None) -> Formulation:
        """A copy with another objective; ValueError unless it is a real number or a CVXPY expression of one."""
        expression = expression if isinstance(expression, cp.Expression) else number("expression", expression)
        if isinstance(expression, cp.Expression) and (expression.size != 1 or expression.is_complex()):
            raise sentence(f"expression has shape {expression.shape}, wanted one real number")
        or_none(text_of)("latex", latex)
        objective = kind(expression)
        shown = rf"{sense}\quad {latex if latex is not None else plain(str(expression))}"
        name = f"{self.name} with another objective"
        return replace(self, name=name, objective=objective, objective_latex=shown, objective_label="", recover=None)

    # -- solving ---------------------------------------------------------------------------------------------------

    def reference(self, solver: str = "CLARABEL", **options: Any) -> Reference:
        """Solve with CVXPY and report what the solver claims and what its answer certifies; ``options`` are the
        solver's.

        `Reference.accurate` and, in words, `Reference.trouble` judge by the certificate and not by the solver's status.
        CVXPY's warning about an inaccurate solution is therefore not shown.

        Raises
        ------
        ValueError
            If there is no such solver.
        KeyboardInterrupt
            If Ctrl-C ended the solver.
        """
        return self._answer(solver, options)[0]

    def solve(self, solver: str = "CLARABEL", tol: str | float | Profile = HIGH, **options: Any) -> Solution:
        """Solve with CVXPY, read the solution back and certify it by the problem alone.

        The status is OPTIMAL if the certificate confirms ``tol``, whatever status the solver reports; it is INACCURATE
        if not, or if the solver reports as optimal a value that its certificate excludes. It is UNCERTIFIED where no
        dual witness can be read, as for a changed copy, whose ``value`` is what the solver reports and whose ``point``
        holds the variables by name. ``message`` keeps the solver's own status and value.

        Raises
        ------
        ValueError, KeyboardInterrupt
            As `reference`; ValueError also if ``tol`` is no tolerance.
        """
        wanted = profile(tol)
        said, read, certificate = self._answer(solver, options, wanted)
        message = f"{solver} says {said.status}, value {said.value:.10g}"
        name = f"{self.name}, {solver}"
        trace = Trace()
        if read is None or certificate is None:
            present = self._present and said.status != "solver_error"
            values = {key: np.asarray(v.value) for key, v in self.variables.items() if v.value is not None}
            status = _NO_SOLUTION.get(said.status, Status.FAILED) if not present else Status.UNCERTIFIED
            certificate = Certificate(math.inf, -math.inf, math.inf, said.value)
            trace.append(1, said.seconds, 0, math.inf, -math.inf)
            return Solution(values if present else {}, None, certificate, status, trace, name, message)
        trace.append(1, said.seconds, 0, certificate.primal, certificate.lower_bound)
        if read.dual_point is None:
            status = Status.UNCERTIFIED
        elif trouble := said.trouble(wanted.gap):
            status, message = Status.INACCURATE, f"{message}: {trouble}"
        else:
            feasible = wanted.met_by(certificate.gap, certificate.infeasibility)
            status = Status.OPTIMAL if feasible else Status.INACCURATE
        return Solution(read.point, read.dual_point, certificate, status, trace, name, message)

    def _answer(
        self, solver: str, options: Mapping[str, Any], wanted: Profile = HIGH
    ) -> tuple[Reference, Recovered | None, Certificate | None]:
        """What the solver claims, its answer read back, and the certificate of that; None where nothing can be read.

        If the answer can be certified but its gap is above the one wanted, the solver runs a second time with the
        options of `TIGHTER` where it has any, and the answer with the smaller gap is returned.
        """
        solver = installed(solver)
        first = self._asked(solver, {**SOLVER_OPTIONS.get(solver, {}), **options}, wanted)
        if solver not in TIGHTER or not first[0].certified or first[0].gap <= wanted.gap:
            return first
        again = self._asked(solver, {**TIGHTER[solver], **options}, wanted)
        said, read, certificate = again if again[0].gap < first[0].gap else first
        return replace(said, seconds=first[0].seconds + again[0].seconds), read, certificate

    def _asked(
        self, solver: str, settings: Mapping[str, Any], wanted: Profile
    ) -> tuple[Reference, Recovered | None, Certificate | None]:
        """As `_answer`, for a single solve with ``settings``."""
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            try:
                run(self.problem, solver, settings)
            except cp.error.SolverError:
                failed = Reference(self.name, solver, "solver_error", math.nan, time.perf_counter() - begin)
                return failed, None, None
        seconds = time.perf_counter() - begin
        said = Reference(self.name, solver, self.problem.status, own_value(self.problem), seconds)
        if self.recover is None or not self._present:
            return said, None, None
        read = self.recover(self)
        certificate = certify(read.problem, read.point, read.dual_point, wanted.floor)
        judged = replace(
            said, lower_bound=certificate.lower_bound, upper_bound=certificate.primal, gap=beyond_rounding(certificate),
            certified=read.dual_point is not None, least=certificate.least,
        )  # fmt: skip
        return judged, read, certificate

    @property
    def _present(self) -> bool:
        """Whether the last solve returned a point."""
        return self.problem.status in cp.settings.SOLUTION_PRESENT

    # -- display ---------------------------------------------------------------------------------------------------

    @property
    def latex(self) -> str:
        """The program as one LaTeX ``align*`` environment, each line with its equation number."""
        lines = [self.objective_latex.replace(r"\quad", r"\quad &", 1) + tag(self.objective_label)]
        for position, (label, part) in enumerate(self.parts.items()):
            lead = r"\text{subject to}\quad &" if position == 0 else "&"
            lines.append(f"{lead} {part.latex}{tag(label)}")
        return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"

    def _repr_latex_(self) -> str:
        return f"$${self.latex}$$"

    def _repr_html_(self) -> str:
        sizes = self.sizes
        facts = {"variables": sizes.variables, "constraint rows": sizes.rows}
        facts |= {f"{name} cone rows": count for name, count in sizes.cones.items()}
        head = "".join(f"<th>{html.escape(name)}</th>" for name in facts)
        body = "".join(f"<td>{count}</td>" for count in facts.values())
        title = html.escape(f"{self.name} ({self.source})" if self.source else self.name)
        table = f"<table><thead><tr>{head}</tr></thead><tbody><tr>{body}</tr></tbody></table>"
        return f"<div><p><b>{title}</b></p>{html.escape(self._repr_latex_(), quote=False)}{table}</div>"

    def __repr__(self) -> str:
        labels = ", ".join(f"({label})" for label in self.parts)
        return (
            f"Formulation({self.name}: equations {labels}; {self.problem.size_metrics.num_scalar_variables} variables)"
        )


#: The status of a solution by CVXPY's status, where there is no point.
_NO_SOLUTION = {
    "unbounded": Status.UNBOUNDED,
    "unbounded_inaccurate": Status.UNBOUNDED,
    "infeasible": Status.INFEASIBLE,
    "infeasible_inaccurate": Status.INFEASIBLE,
}


def _rows(constraint: Any) -> int:
    """The number of scalar rows of a constraint; of a cone, those of all its arguments together."""
    return int(constraint.size) if isinstance(constraint.size, (int, np.integer)) else int(sum(constraint.size))
