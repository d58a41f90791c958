"""Small problems of every class in the registry: those of the cases, and what has no case."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from convexstruct.core import registry
from convexstruct.core.cases import Case
from convexstruct.families.log_linear import ApproximateField
from convexstruct.features.graphs.factors import read_factors

#: Every class of problems.
KINDS: tuple[type, ...] = tuple(kind for family in registry.families().values() for kind in family.problems)


@cache
def kind_of(case: Case) -> type:
    """The class of its problem, which is built only once to find out."""
    return type(case.build())


def small_problems(kinds: tuple[type, ...] = KINDS) -> Iterator[Any]:
    """The problems of open cases that are of one of these classes, those of quick ones first; anew each time."""
    for family in registry.families().values():
        for case in sorted(family.cases, key=lambda case: not case.quick):
            if case.open and issubclass(kind_of(case), kinds):
                yield case.build()
    if ApproximateField in kinds:
        yield ApproximateField.read(read_factors([2, 2], [[0, 1]]), [[0, 1], [1, 1], [0, 0]], lam=1.0)


@cache
def one_of_each() -> dict[str, Any]:
    """A problem of each class, by its name."""
    found: dict[str, Any] = {}
    for problem in small_problems():
        found.setdefault(type(problem).__name__, problem)
    return found
