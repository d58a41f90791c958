"""Bounds against exact arithmetic: what counts as wrong, and a sample of the trials of every family."""

from __future__ import annotations

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from benchmarks import exact
from benchmarks.exact import GOAL, Count, Instance, Trial, families, main, run, trials
from convexstruct.core import registry
from convexstruct.rounding import Rounded

#: Trials of each family in these tests; the benchmark itself runs many more.
SAMPLE = 400


@pytest.mark.parametrize(
    ("side", "bound", "wrong"),
    [
        ("primal", Rounded(1.0), False),
        ("primal", Rounded(0.875), True),
        ("primal", Rounded(0.875, 0.125), False),
        ("primal", Rounded(math.inf), False),
        ("primal", Rounded(math.nan), False),
        ("primal", Rounded(-math.inf), True),
        ("dual", Rounded(1.0), False),
        ("dual", Rounded(1.125), True),
        ("dual", Rounded(1.125, 0.125), False),
        ("dual", Rounded(-math.inf), False),
        ("dual", Rounded(math.inf), True),
    ],
)
def test_a_bound_is_wrong_where_it_claims_what_is_not_so(side: str, bound: Rounded, wrong: bool) -> None:
    assert Trial(side, bound, Fraction(1)).wrong is wrong


def test_a_warning_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy(*_: object) -> Instance:
        warnings.warn("overflow encountered", RuntimeWarning, stacklevel=1)
        raise AssertionError

    monkeypatch.setattr(exact, "rows", lambda _: (noisy,))
    with pytest.raises(RuntimeWarning):
        run("made up", 1)


def test_every_family_with_a_certificate_has_a_row() -> None:
    assert {*families()} == {*registry.families()}


@pytest.mark.parametrize("family", families())
def test_no_bound_of_a_sample_is_on_the_wrong_side_and_some_are_without_their_allowance(family: str) -> None:
    found = Count(family)
    every = list(itertools.islice(trials(family, np.random.default_rng(0)), SAMPLE))
    for each in every:
        found.add(each)
    assert not found.wrong, found.wrong[:3]
    assert found.ordinary > 0
    assert found.largest <= GOAL
    bare = [Trial(each.side, Rounded(float(each.bound)), each.truth) for each in every if math.isfinite(each.end)]
    assert {each.side for each in bare if each.wrong} == {"primal", "dual"}


def test_the_table_has_a_row_a_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--trials", "2"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == families()
