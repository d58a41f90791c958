"""Training and relabelling in turn: what the solvers of problems over labels and weights have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from convexstruct import deadline
from convexstruct.arrays import Labels, Vector
from convexstruct.core.driver import solve
from convexstruct.core.solution import Solution, Status
from convexstruct.tolerances import Profile

#: A machine and its w -> the labels that it is trained on next; its own where the alternation ends.
Move = Callable[[Any, Vector], Labels]


def trainings(
    machine: Callable[[Labels], Any],
    labels: Labels,
    move: Move,
    tol: str | float | Profile,
    first: Solution | None = None,
) -> Iterator[tuple[Any, Solution]]:
    """Each machine that the alternation trains, with its solution, until ``move`` changes no label.

    A training starts from the weights before, so that its loss is at most theirs on the new labels.

    machine : labels -> the convex problem of these labels, with the point {"w": (d,)}. first : a solution of that of
    ``labels`` that replaces the first training.
    """
    trained = machine(labels)
    solution = solved_within(trained, tol) if first is None else first
    while True:
        yield trained, solution
        found = move(trained, solution.point["w"])
        if (found == labels).all():
            return
        labels, trained = found, machine(found)
        solution = solved_within(trained, tol, solution)


def solved_within(problem: Any, tol: str | float | Profile, start: Solution | None = None) -> Solution:
    """A solution inside another run, which an interruption or the deadline of that run ends too."""
    found = solve(problem, tol=tol, start=start)
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    deadline.check()
    return found
