"""The message of a test about the rows of a run: every row, whole, because pytest cuts the repr of an object short."""

from __future__ import annotations

from convexstruct.verification.outcome import Outcome


def told(outcome: Outcome) -> str:
    """A line for each row that is not verified, or for every row if all are: case, verdict, reason, bounds."""
    wrong = [row for row in outcome.rows if row.verdict != "verified"] or list(outcome.rows)
    lines = [f"{row.case}: {row.verdict}, {row.note} ({row.fast}, {row.reference})" for row in wrong]
    return "\n".join(lines) or "no rows"
