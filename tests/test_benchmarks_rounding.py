"""Bounds against exact arithmetic: the bookkeeping on invented trials, and a sample of the trials of every family."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from fractions import Fraction

import pytest

from benchmarks.rounding import GOAL, Trial, count, families, main, run
from convexstruct.rounding import Rounded

#: Trials of each family in these tests; the benchmark itself runs many more.
SAMPLE = 300


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
    trial = Trial(side, bound, Fraction(1))
    assert trial.wrong is wrong
    assert len(count("made up", [trial]).wrong) == wrong


def test_the_allowance_counts_on_ordinary_data_alone() -> None:
    trials = [Trial("dual", Rounded(1.0, 0.5), 1), Trial("dual", Rounded(2.0, 1e-14), 2, ordinary=True)]
    found = count("made up", trials)
    assert (found.trials, found.ordinary, found.largest) == (2, 1, 5e-15)


def test_a_warning_is_an_error() -> None:
    def noisy() -> Iterator[Trial]:
        warnings.warn("overflow encountered", RuntimeWarning, stacklevel=1)
        yield Trial("dual", Rounded(0.0), 0)

    with pytest.raises(RuntimeWarning):
        count("made up", noisy())


@pytest.mark.parametrize("family", families())
def test_no_bound_of_a_sample_is_on_the_wrong_side(family: str) -> None:
    found = run(family, SAMPLE)
    assert found.trials == SAMPLE
    assert not found.wrong, found.wrong[:3]
    assert found.ordinary > 0
    assert found.largest <= GOAL


def test_the_table_has_a_row_a_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--trials", "5"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == families()
