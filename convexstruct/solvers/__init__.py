"""How it is solved: one algorithm a file, and the one driver. `choose` picks the best solver known for a problem."""

from __future__ import annotations

from convexstruct.certificates import Problem
from convexstruct.problems import GenerativeMargin
from convexstruct.solvers.bundle import ProximalBundle
from convexstruct.solvers.driver import Iterate, Solver, solve
from convexstruct.solvers.entropic_proximal import EntropicProximal
from convexstruct.solvers.maximum_likelihood import MaximumLikelihood
from convexstruct.solvers.proximal_rsd import ProximalRSD
from convexstruct.solvers.working_sets import CoordinateWorkingSets, OnlineWorkingSets
from convexstruct.tolerances import Profile

__all__ = [
    "CoordinateWorkingSets",
    "EntropicProximal",
    "Iterate",
    "MaximumLikelihood",
    "OnlineWorkingSets",
    "ProximalBundle",
    "ProximalRSD",
    "Solver",
    "choose",
    "solve",
]


def choose(problem: Problem, wanted: Profile) -> tuple[Solver, str]:
    """The best solver known for ``problem`` at this accuracy, and one phrase that says why."""
    if isinstance(problem, GenerativeMargin):
        return EntropicProximal(), "entropic proximal point: certifies every accuracy fastest on all sizes measured"
    raise ValueError(f"no solver is known for the family {problem.family!r}; pass solver=")
