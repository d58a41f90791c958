"""A case: an instance, the formulation that its reference optimum is computed with, and the solvers that may be run on
it.

The cases of a family live in its folder (``families/<family>/cases.py``) under ``CASES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexstruct.arrays import Point
from convexstruct.core.certificates import Problem
from convexstruct.core.iterate import Solver
from convexstruct.tolerances import HIGH


@dataclass(frozen=True, eq=False)
class Instance:
    """A problem, and its optimum where the problem was constructed to have a given one.

    optimum : the optimal value, exact by construction. point : a point that attains it.
    """

    problem: Problem
    optimum: float | None = None
    point: Point | None = None


#: seed -> instance.
Make = Callable[[int], Instance]


def seeded(number: int, make: Callable[..., Any], *arguments: Any, **data: Any) -> Make:
    """seed -> the instance, or the problem, that ``make(rng, *arguments, **data)`` draws; rng is the generator of
    [number, seed]."""

    def of_seed(seed: int) -> Instance:
        made = make(np.random.default_rng([number, seed]), *arguments, **data)
        return made if isinstance(made, Instance) else Instance(made)

    return of_seed


@dataclass(frozen=True, eq=False)
class Case:
    """One instance that every path to its optimum must agree on.

    Attributes
    ----------
    name : unique among all cases, as the command line takes it.
    system : the name of its `System`, which names the family, the paper and the equations.
    equations : the equations that the case tests.
    purpose : one phrase: which kind of error this case would show.
    make : seed -> `Instance`; deterministic. Where it takes ``scale`` too (default 1), so many times as many examples,
        variables or entries are made: larger instances of the same kind.
    formulation, formulation_solver : which formulation of ``convexstruct.models.<family>`` is the reference, and the
        CVXPY solver that solves it.
    second : the formulation that is solved where that one fails; by default the next in the family's list with the same
        optimum.
    arguments : instance -> the arguments that the formulation takes besides the problem; default none.
    unit : problem -> the case's optimum divided by the formulation's; default 1 (lam where the formulation divides the
        objective by lam).
    accuracy : the largest relative error of the reference's value that the CVXPY solver's tolerance allows.
    quick : whether the case is run with ``--quick``.
    open : whether the case is small enough for a user's own solver to be tested on it.
    certified : False where no certificate exists (non-convex training): the verification then reports that nothing can
        be verified.
    solver : the project's own solver with its options; None lets `solve` choose.
    family, paper : filled in by the `Family` that the case belongs to.
    """

    name: str
    system: str
    equations: str
    purpose: str
    make: Make
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
        """The problem, made anew at each call, so that a solver that changes its arrays cannot affect the next
        solver."""
        return self.make(seed).problem

    def __repr__(self) -> str:
        return f"Case({self.name})"
