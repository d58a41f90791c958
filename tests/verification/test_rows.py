"""The rows of a run as a failing test prints them."""

from __future__ import annotations

from convexstruct.verification.outcome import Fast, Outcome, Reference, Row, Verdict
from tests.verification.rows import told

#: More than pytest shows of an object.
LONG = 300 * "x"


def test_a_row_that_fails_is_told_whole_and_the_others_are_left_out() -> None:
    reference = Reference("primal", "CLARABEL", "optimal", 1.0, 0.1)
    verdicts: list[tuple[str, Verdict]] = [("good", "verified"), ("bad", "failed"), ("odd", "unverified")]
    rows = [
        Row("family", "system", name, "paper", "(1)", reference, Fast("honest"), verdict, f"note of {name} " + LONG)
        for name, verdict in verdicts
    ]
    text = told(Outcome(rows))
    assert "bad: failed, note of bad " + LONG in text
    assert "odd: unverified" in text
    assert "good" not in text
    assert "good: verified" in told(Outcome(rows[:1]))
    assert told(Outcome([])) == "no rows"
