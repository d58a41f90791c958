"""What a test says of a run that is not as it should be: every row, whole; pytest cuts the repr of an object short."""

from __future__ import annotations

from convexstruct.verification.outcome import Outcome


def told(outcome: Outcome) -> str:
    """One line a row that is not verified, or for every row if all are: case, verdict, reason, what was reached."""
    wrong = [row for row in outcome.rows if row.verdict != "verified"] or list(outcome.rows)
    lines = [f"{row.case}: {row.verdict}, {row.note} ({row.fast}, {row.reference})" for row in wrong]
    return "\n".join(lines) or "no rows"
