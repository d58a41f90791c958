from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from convexstruct.tolerances import LOW, MID, Profile
from convexstruct.verification.isolation import Answer
from convexstruct.verification.judge import judge
from convexstruct.verification.outcome import Reference
from tests.verification.toy import BEST, COSTS, OPTIMUM, Box

STORED = Reference("none", "by hand", "optimal", OPTIMUM, 0.0, OPTIMUM, OPTIMUM)
WITNESS = {"q": np.maximum(COSTS, 0.0)}


def verdict(answer: Answer, reference: Reference = STORED, wanted: Profile = MID, certified: bool = True) -> Any:
    return judge(Box(COSTS, certified), reference, answer, wanted, "mine")


def test_the_optimum_is_verified_by_the_stored_bound_alone() -> None:
    fast, said, note, profile = verdict(Answer(point=BEST))
    assert (said, profile) == ("verified", "HIGH")
    assert "by the stored bound" in note
    assert (fast.primal, fast.lower_bound, fast.gap) == (OPTIMUM, OPTIMUM, 0.0)


def test_a_dual_point_earns_its_own_bound_where_the_stored_one_is_loose() -> None:
    loose = Reference("none", "by hand", "optimal", OPTIMUM, 0.0, OPTIMUM - 1, OPTIMUM + 1)
    assert verdict(Answer(point=BEST), loose)[1] == "failed"
    fast, said, note, _ = verdict(Answer(point=BEST, dual_point=WITNESS), loose)
    assert said == "verified"
    assert "by its own dual point" in note
    assert fast.lower_bound == OPTIMUM


def test_a_point_above_the_optimum_fails_with_its_gap_and_what_it_does_meet() -> None:
    _, said, note, profile = verdict(Answer(point=BEST * (1 - 5e-4)))
    assert (said, profile) == ("failed", "LOW")
    assert "5.0e-04" in note
    assert verdict(Answer(point=BEST * (1 - 5e-4)), wanted=LOW)[1] == "verified"


def test_an_infeasible_point_fails_by_how_much_and_at_what() -> None:
    _, said, note, _ = verdict(Answer(point=BEST * 1.5))
    assert said == "failed"
    assert note.startswith("is infeasible: |x| above 1 by 0.5; 0.666667 times it is optimal: is it a scale")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(trouble="raises ValueError: x"), "raises ValueError: x"),
        (Answer(point=BEST, changed=True), "changes its input"),
        (Answer(point=np.zeros(4)), "wrong shape: x has shape (4,), wanted (3,)"),
        (Answer(point=np.array([np.nan, 0, 0])), "returns NaN"),
        (Answer(point=np.array([-np.inf, 0, 0])), "infeasible"),
        (Answer(point=BEST, primal=OPTIMUM - 1), "too good to be true: claims the value -7"),
        (Answer(point=BEST, lower_bound=OPTIMUM + 1), "too good to be true: claims the lower bound -5"),
        (Answer(point=BEST, primal=OPTIMUM + 1), "claims the value -5, its point has -6"),
        (Answer(point=BEST, dual_point={"q": np.zeros(3)}), "proves nothing: q below max(c, 0) by 3"),
        (Answer(point=BEST, dual_point={"q": np.zeros(2)}), "dual point that cannot be read: q has shape (2,)"),
        (
            Answer(point=BEST, dual_point={"q": WITNESS["q"] + 1}, lower_bound=OPTIMUM),
            "claims the lower bound -6, its dual point proves only -12",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(answer: Answer, words: str) -> None:
    _, said, note, _ = verdict(answer)
    assert said == "failed"
    assert words in note


def test_without_any_certificate_nothing_is_verified() -> None:
    unknown = Reference("none", "by hand", "optimal", OPTIMUM, 0.0)
    fast, said, note, _ = verdict(Answer(point=BEST), unknown, certified=False)
    assert said == "unverified"
    assert "no certificate" in note
    assert fast.primal == OPTIMUM
    assert fast.gap == math.inf


def test_a_bound_above_the_point_verifies_nothing_also_where_no_bracket_is_stored() -> None:
    class Wrong(Box):
        def dual(self, dual_point: Any) -> float:
            return OPTIMUM * (1 - 0.18)

    unknown = Reference("none", "by hand", "optimal", OPTIMUM, 0.0)
    _, said, note, _ = judge(Wrong(COSTS), unknown, Answer(point=BEST, dual_point=WITNESS), MID, "mine")
    assert said == "unverified"
    assert "contradicts" in note


def test_a_point_that_truly_beats_the_stored_bracket_accuses_the_reference() -> None:
    wrong = Reference("none", "by hand", "optimal", OPTIMUM + 1, 0.0, OPTIMUM + 1, OPTIMUM + 1)
    _, said, note, _ = verdict(Answer(point=BEST), wrong)
    assert said == "unverified"
    assert "please report" in note
