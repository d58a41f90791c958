"""The only door of the tests to cvxpy's solve: a reference optimum, or a failing test that says why there is none."""

from __future__ import annotations

from typing import Any, Protocol

from convexstruct.models import Reference

SOLVERS = ("CLARABEL", "SCS")


class Stated(Protocol):
    """A formulation, or constraint generation."""

    def reference(self, solver: str, **options: Any) -> Reference: ...


def optimum(formulation: Stated, solver: str = "CLARABEL", **options: Any) -> Reference:
    """What ``solver`` says is the optimum of ``formulation``: its value, and the seconds it took.

    One whose answer does not certify it fails the test: it verifies nothing.
    """
    said = formulation.reference(solver, **options)
    assert said.accurate, f"{said.trouble()}: no reference, so nothing is verified"
    return said
