"""CVXPY's solvers as formulations call them: their names, their options, and how Ctrl-C ends them."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from convexstruct.tolerances import REFERENCE_ACCURACY
from convexstruct.validation.arguments import choice

#: Default options of CVXPY's solvers, by the names that each solver gives them.
SOLVER_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "SCS": {"eps_abs": REFERENCE_ACCURACY, "eps_rel": REFERENCE_ACCURACY, "max_iters": 200_000},
}
#: Options of a second solve, where the answer of the first does not certify the gap wanted. Clarabel measures its gap
#: absolutely where the optimum is below 1, by default to 1e-8, while a gap here is relative to the optimum however
#: small: at an optimum of 1e-3 the default certifies five digits. The first solve does not have these options, because
#: it would take a tenth more time and end "inaccurate" more often; of a changed copy only that status is known.
TIGHTER: Mapping[str, Mapping[str, Any]] = {"CLARABEL": {"tol_gap_abs": 1e-15, "tol_gap_rel": 1e-15}}


#: CVXPY tries to import each solver whenever it is asked, which takes longer than to state a small program.
_installed = functools.cache(cp.installed_solvers)


def installed(solver: Any) -> str:
    """The name of a solver of CVXPY, in capitals however it is given; ValueError if no such solver is installed."""
    known = _installed()
    if isinstance(solver, str) and solver.upper() in known:
        return str(solver.upper())
    return choice("solver", solver, known, "that is installed")


def run(problem: cp.Problem, solver: str, settings: Mapping[str, Any]) -> None:
    """Solve as ``problem.solve`` does, and raise KeyboardInterrupt on Ctrl-C with SCS too.

    SCS catches Ctrl-C itself and reports it as its status, which CVXPY would turn into a failed solve. What SCS prints
    ("Failure:interrupted") goes to standard error, so that it does not mix with the output of a command. It refuses
    problems without constraints: these get one that always holds, 0'x <= 1.
    """
    if solver != "SCS":
        problem.solve(solver=solver, **settings)
        return
    options = {name: value for name, value in settings.items() if name not in ("verbose", "warm_start")}
    data, chain, inverse = problem.get_problem_data(solver, solver_opts=options)
    if not len(data["b"]):
        data |= {"A": sp.csc_array((1, len(data["c"]))), "b": np.ones(1)}
        data["dims"].nonneg = 1
    warm, verbose = settings.get("warm_start", True), settings.get("verbose", False)
    with contextlib.nullcontext() if verbose else contextlib.redirect_stdout(sys.stderr):
        answer = chain.solve_via_data(problem, data, warm, verbose, options)
    if answer["info"]["status"] == "interrupted":
        raise KeyboardInterrupt
    problem.unpack_results(answer, chain, inverse)


def own_value(problem: Any) -> float:
    """The optimum as the solver reports it. CVXPY's ``problem.value`` evaluates the objective at the rounded variables
    instead, where an entry of -1e-9 makes rel_entr infinite."""
    value = problem.solution.opt_val if problem.solution is not None else None
    return math.nan if value is None else float(value)
