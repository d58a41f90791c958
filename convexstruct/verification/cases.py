"""A case: an instance, the formulation that states its optimum, and who may be asked to solve it.

The cases of a family live in the file that carries its name (``families/generative_margin/cases.py``) under ``CASES``.
Nothing here, in the runner, or in the report knows any family.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from convexstruct.core.certificates import Problem
from convexstruct.core.driver import Solver
from convexstruct.core.solution import Point
from convexstruct.tolerances import HIGH
from convexstruct.verification.systems import SYSTEMS, System


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
    second: str = ""
    arguments: Callable[[Instance], Mapping[str, Any]] | None = None
    unit: Callable[[Any], float] | None = None

    @property
    def described(self) -> System:
        for system in SYSTEMS:
            if system.name == self.system:
                return system
        raise ValueError(f"system {self.system!r} of case {self.name!r} is not in the registry")

    @property
    def family(self) -> str:
        return self.described.family

    @property
    def paper(self) -> str:
        return self.described.paper

    def build(self, seed: int = 0) -> Problem:
        """The problem, made afresh, so that nobody can spoil it for the next."""
        return self.make(seed).problem

    def __repr__(self) -> str:
        return f"Case({self.name})"


def families() -> tuple[str, ...]:
    """The families that have a system, in the order of the registry."""
    return tuple(dict.fromkeys(system.family for system in SYSTEMS))


@cache
def cases_for(family: str, *, quick: bool = False, open_only: bool = False) -> tuple[Case, ...]:
    """The cases of one family: parametrise your own tests with them.

        @pytest.mark.parametrize("case", cases_for("generative_margin", open_only=True), ids=repr)
        def test_my_solver(case):
            check(my_solver, case)

    Raises
    ------
    ValueError
        If there is no such family; the known ones are named.
    """
    if family not in families():
        raise ValueError(f"family {family!r} is unknown, wanted one of {', '.join(families())}")
    known: Sequence[Case] = importlib.import_module(f"convexstruct.families.{family}.cases").CASES
    return tuple(case for case in known if (case.quick or not quick) and (case.open or not open_only))


def select(on: str | None, *, quick: bool = False, open_only: bool = False) -> tuple[Case, ...]:
    """The cases of a family, or the one case of that name, or all.

    Raises
    ------
    ValueError
        If ``on`` is neither; the known names are given. If nothing is left to run.
    """
    every = tuple(case for family in families() for case in cases_for(family))
    if on is None:
        chosen = every
    elif on in families():
        chosen = cases_for(on)
    else:
        chosen = tuple(case for case in every if case.name == on)
        if not chosen:
            names = ", ".join(case.name for case in every)
            raise ValueError(f"{on!r} is no family ({', '.join(families())}) and no case ({names})")
        if open_only and not chosen[0].open:
            raise ValueError(f"case {on!r} is too large for a solver check")
        return chosen
    return tuple(case for case in chosen if (case.quick or not quick) and (case.open or not open_only))
