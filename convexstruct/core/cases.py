"""A case: an instance, the formulation that states its optimum, and who may be asked to solve it.

The cases of a family live in its folder (``families/<family>/cases.py``) under ``CASES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from convexstruct.arrays import Point
from convexstruct.core.certificates import Problem
from convexstruct.core.iterate import Solver
from convexstruct.tolerances import HIGH


@dataclass(frozen=True, eq=False)
class Instance:
    """A problem and, where it was built backwards from it, its optimum.

    problem : the problem. optimum : its optimal value, exact by construction. point : where it is attained.
    """

    problem: Problem
    optimum: float | None = None
    point: Point | None = None


@dataclass(frozen=True, eq=False)
class Case:
    """One instance that every path to its optimum must agree on.

    Attributes
    ----------
    name : unique among all cases, as the command line takes it.
    system : the name of its `System`, which says the family, the paper and where to read.
    equations : the equations it exercises.
    purpose : one phrase: what goes wrong here if something is wrong.
    make : seed -> `Instance`; deterministic.
    formulation, formulation_solver : which formulation of ``convexstruct.models.<family>`` is the reference, and the
        CVXPY solver that solves it.
    second : the formulation to ask where that one fails; default the next of the family's list with the same optimum.
    arguments : what the formulation is built with besides the problem, from the instance; default nothing.
    unit : the case's optimum over the formulation's, from the problem; default 1 (lam where it is divided by lam).
    accuracy : how far, relative, the reference's value may be off by that solver's own tolerance.
    quick : part of ``--quick``.
    open : small enough to be given to anyone's solver.
    certified : False where no certificate exists (non-convex training): then nothing can be verified, and it says so.
    solver : options of the fast path; None lets `solve` choose.
    family, paper : filled in by the family that lists the case.
    """

    name: str
    system: str
    equations: str
    purpose: str
    make: Callable[[int], Instance]
    formulation: str
    formulation_solver: str = "CLARABEL"
    accuracy: float = HIGH.gap
    quick: bool = True
    open: bool = True
    certified: bool = True
    solver: Solver | None = None
    family: str = ""
    paper: str = ""
    second: str = ""
    arguments: Callable[[Instance], Mapping[str, Any]] | None = None
    unit: Callable[[Any], float] | None = None

    def build(self, seed: int = 0) -> Problem:
        """The problem, made anew at each call: a solver that changes its arrays does no harm to the next one."""
        return self.make(seed).problem

    def __repr__(self) -> str:
        return f"Case({self.name})"
