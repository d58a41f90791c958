"""Instances with reference optima, and the runner that solves them by the package's solvers or by one of your own.

A solver is any function of one problem. It returns a point (an array, or a mapping by the problem's names), a mapping
with "point" and perhaps "dual_point", "primal" and "lower_bound", or a `Solution`:

    # my_solver.py
    def solve(problem):
        return problem.uniform()

    convexstruct verify my_solver.py:solve --on generative_margin      from the command line
    cs.verify(my_solver.solve, on="generative_margin")                  from Python

and under pytest, case by case:

    @pytest.mark.parametrize("case", cases_for("generative_margin", open_only=True), ids=repr)
    def test_my_solver(case):
        check(my_solver.solve, case)

Another family is a folder in ``families/`` that registers itself; nothing here changes.
"""

from functools import partial
from typing import TYPE_CHECKING

from convexstruct.core.cases import Case, Instance
from convexstruct.core.registry import System, systems
from convexstruct.validation.arguments import no_attribute
from convexstruct.verification.cases import cases_for, families
from convexstruct.verification.outcome import Fast, Outcome, Reference, Row
from convexstruct.verification.runner import check, verify

__all__ = [
    "SYSTEMS",
    "Case",
    "Fast",
    "Instance",
    "Outcome",
    "Reference",
    "Row",
    "System",
    "cases_for",
    "check",
    "families",
    "verify",
]

#: The systems of every family.
SYSTEMS: tuple[System, ...] = systems()

if not TYPE_CHECKING:  # a type checker knows the names
    __getattr__ = partial(no_attribute, __name__, __all__)
