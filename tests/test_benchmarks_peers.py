"""The table of peers: which cases a package can state, and what is said of one that is not here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import convexstruct as cs
from benchmarks import peers
from benchmarks.peers import PEERS, Peer, rows_of
from convexstruct.verification import cases_for


def test_a_package_that_is_absent_is_said_so() -> None:
    (row,) = rows_of(Peer("nothing", "no_such_module", "projection", lambda _: True, lambda _: None), 1.0)
    assert row["case"] is None
    assert row["note"] == "not installed here (no module no_such_module)"


def test_a_package_is_judged_on_the_cases_that_it_can_state() -> None:
    def few(problem: Any) -> bool:
        return isinstance(problem, cs.BoxProjection) and len(problem.m) < 8

    rows = rows_of(Peer("ours", "numpy", "projection", few, lambda problem: cs.solve(problem).point), 20.0)
    assert 0 < len(rows) < len(cases_for("projection", open_only=True))
    assert all(row["meets"] == "HIGH" and row["gap"] <= 1e-6 for row in rows)


def test_every_package_has_cases_and_what_it_cannot_state_is_left_out() -> None:
    for peer in PEERS:
        fitting = [case.name for case in cases_for(peer.family, open_only=True) if peer.fits(case.build())]
        assert len(fitting) >= 5, peer.name
        assert not set(fitting) & {"svm-slack", "risk-planted-bias", "crf-stars", "crf-forbidden", "m3n-frustrated"}


def test_the_command_prints_a_line_a_case_and_writes_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = Peer("none", "no_such_module", "projection", lambda _: True, lambda _: None)
    monkeypatch.setattr(peers, "PEERS", (made,))
    monkeypatch.setattr(sys, "argv", ["peers.py", "--json", str(tmp_path / "rows.json")])
    assert peers.main() == 0
    assert "none: not installed here" in capsys.readouterr().out
    assert json.loads((tmp_path / "rows.json").read_text())[0]["package"] == "none"
