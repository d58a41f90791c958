"""Bounds against exact arithmetic: what counts as wrong, and a sample of the trials of every family."""

from __future__ import annotations

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from benchmarks import exact
from benchmarks.exact import GOAL, Count, Instance, Trial, families, run, trials
from convexstruct.rounding import Rounded

#: Trials of each family in these tests; the benchmark itself runs many more.
SAMPLE = 120


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_bound_is_wrong_where_it_claims_what_is_not_so(sign: float) -> None:
    """An upper bound below the truth beyond its allowance; a lower one is its mirror image."""
    side = "primal" if sign > 0 else "dual"
    for value, allowance, wrong in (
        (1.0, 0.0, False), (0.875, 0.0, True), (0.875, 0.125, False), (math.inf, 0.0, False), (-math.inf, 0.0, True),
    ):  # fmt: skip
        assert Trial(side, Rounded(sign * value, allowance), Fraction(sign)).wrong is wrong
    assert not Trial("primal", Rounded(math.nan), Fraction(1)).wrong


def test_a_warning_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy(*_: object) -> Instance:
        warnings.warn("overflow encountered", RuntimeWarning, stacklevel=1)
        raise AssertionError

    monkeypatch.setattr(exact, "rows", lambda _: (noisy,))
    with pytest.raises(RuntimeWarning):
        run("made up", 1)


@pytest.mark.parametrize("family", families())
def test_no_bound_of_a_sample_is_on_the_wrong_side_and_some_are_without_their_allowance(family: str) -> None:
    found = Count()
    every = list(itertools.islice(trials(family, np.random.default_rng(0)), SAMPLE))
    for each in every:
        found.add(each)
    assert not found.wrong, found.wrong[:3]
    assert found.ordinary > 0
    assert found.largest <= GOAL
    bare = [Trial(each.side, Rounded(float(each.bound)), each.truth) for each in every if math.isfinite(each.end)]
    assert {each.side for each in bare if each.wrong} == {"primal", "dual"}
