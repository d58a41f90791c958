"""The rows of tables 1 to 3, and quick runs: published numbers stand where they are printed, and nothing is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from convexstruct.datasets.real.sources import VARIABLE
from convexstruct.families.unsupervised_margin.experiments import collapse_sdp, errors, table3
from convexstruct.families.unsupervised_margin.experiments.errors import (
    EM_BEST,
    EM_MEAN,
    ONE,
    PLAIN,
    SDP,
    SHOWN,
    Measured,
    rows_of,
)
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from tests.families.quick_runs import quick


def test_rows_hold_means_and_paired_standard_errors() -> None:
    errors = [{EM_MEAN: 10.0, SHOWN: 4.0}, {EM_MEAN: 20.0, SHOWN: 12.0}, {EM_MEAN: 30.0, SHOWN: 26.0}]
    rows = rows_of("a set", [Measured(each, {}) for each in errors], (SHOWN, EM_MEAN, SDP), {EM_MEAN: (15.0, 1.5)})
    table = {(row[1], at): row[2:] for at, row in enumerate(rows)}
    assert table["error", 0] == [14.0, 20.0, None]
    spread = [pytest.approx(float(np.std(each, ddof=1)) / 3**0.5) for each in ([4, 12, 26], [10, 20, 30])]
    assert table["standard error", 1] == [*spread, None]
    assert table[f"less {EM_MEAN}", 2] == [-6.0, None, None]
    assert table["its standard error", 3] == [pytest.approx(2 / 3**0.5), None, None]
    assert table[f"less {SHOWN}", 4] == [None, 6.0, None]
    assert table["published", 6] == [None, 15.0, None]
    assert table["published +-", 7] == [None, 1.5, None]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SYNTH1", "SYNTH4"])
def test_the_sdps_labels_are_the_observed_symbols(name: str) -> None:
    """It explains table 1: the labels found are the symbols, so their error is that of the symbols."""
    measured = errors.measured_draw(name, 0, (SDP, SHOWN))
    assert measured.facts["the SDP's labels are the observed symbols"]
    assert measured.error[SDP] == measured.error[SHOWN]


@pytest.mark.slow
def test_proposition_2_is_counted_and_the_guard_never_lets_the_loss_rise() -> None:
    result = quick("proposition2").result
    assert all(row[result.columns.index("problems")] == 4 for row in result.rows)
    assert "guarded, in 0" in result.notes[0]
    (figure,) = result.figures.values()
    plain, guarded = (line.get_ydata() for line in figure.axes[0].lines)
    assert np.max(np.diff(plain)) > 0.3
    assert np.max(np.diff(guarded)) <= 0


@pytest.mark.slow
def test_table_3_has_every_reading_beside_what_is_printed_and_names_the_nearest() -> None:
    result = quick("table3").result
    *readings, printed = (dict(zip(result.columns, row)) for row in result.rows)
    assert (printed[PLAIN], printed["its se"]) == table3.PUBLISHED["20 x 2"][PLAIN]
    assert [row["names"] for row in readings] == list(table3.NAMES)
    for method in (PLAIN, EM_MEAN, EM_BEST, ONE):
        different, shared, own, both = (float(row[method] or 0) for row in readings)
        assert 0 <= both <= min(shared, own) <= max(shared, own) <= different <= 67
    assert float(readings[1][PLAIN] or 0) <= float(readings[0][ONE] or 0)  # one label is one of the maps
    off = [float(row["off print"] or 0) for row in readings]
    nearest = next(note for note in result.notes if "nearest to print" in note)
    assert f"names {readings[int(np.argmin(off))]['names']}: {min(off):.1f} points off" in nearest


@pytest.mark.slow
def test_tables_1_and_2_agree_and_say_what_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = quick("table2").result
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    first = quick("table1").result
    assert first.column("set") == second.column("set")
    for method in first.columns[1:]:
        assert first.column(method) == second.column(method)
    assert any(note.startswith("PROT1 and PROT2 left out") for note in first.notes)
    assert not any(note.startswith("PROT1 and PROT2 left out") for note in second.notes)
    for name in dict.fromkeys(second.column("set")):
        row = dict(zip(second.columns, second.rows[second.column("set").index(name)]))
        assert all(0 <= float(row[method] or 0) <= 50 for method in second.columns[2:])
        assert f"{name}, {SDP}" in second.published


@pytest.mark.slow
def test_the_sdp_collapses_its_bound_is_below_every_loss_and_c_and_d_go_to_uniform() -> None:
    result = quick("collapse-sdp").result
    for row in result.rows:
        cells = dict(zip(result.columns, row))
        lower, value, of_labels = (float(cells[n] or 0) for n in ("lower bound", "SDP value", "loss of its labels"))
        assert lower <= value <= of_labels
    assert float(result.rows[0][2] or 0) < -1e4  # while no loss is below 0
    problem = unbalanced_pairs()
    uniform, random = (collapse_sdp.stepped(problem, first, 0, 3) for first in ("uniform", "random"))
    for found in (uniform, random):
        assert (found.lower <= found.upper).all()
    assert abs(uniform.c[0] - 0.5).max() < 1e-3
    assert abs(random.c[0] - 0.5).max() > 0.4


def unbalanced_pairs() -> UnsupervisedMargin:
    """Two sequences of three positions."""
    return UnsupervisedMargin.read(
        [np.array([0, 1, 0]), np.array([1, 1, 0])], 2, beta=0.01, label_balance=0.2, pair_balance=0.25
    )
