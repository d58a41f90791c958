"""Instances with reference optima, the runner, the door for everyone's own solver, and the mutants that must fail.

`verify` runs the package's fast paths, or your solver; `cases_for` and `check` do the same case by case under pytest.
"""

from convexstruct.verification.cases import Case, Instance, cases_for, families
from convexstruct.verification.outcome import Fast, Outcome, Reference, Row
from convexstruct.verification.runner import check, verify
from convexstruct.verification.systems import SYSTEMS, System

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
