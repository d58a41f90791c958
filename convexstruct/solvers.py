"""Every solver by name, as the families declare them: ``convexstruct.solvers.ColumnGeneration``; and `solve` itself."""

from __future__ import annotations

from typing import Any

from convexstruct.core import registry
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Iterate, Solver
from convexstruct.core.registry import choose
from convexstruct.validation.arguments import no_attribute

__all__ = ["Iterate", "Solver", "choose", "solve"]
__all__ += sorted(registry.solvers())


def __getattr__(name: str) -> Any:
    known = registry.solvers()
    if name in known:
        return known[name]
    no_attribute(__name__, sorted({*known, *__all__}), name)


def __dir__() -> list[str]:
    return __all__
