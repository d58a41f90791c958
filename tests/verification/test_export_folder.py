from __future__ import annotations

import json
from pathlib import Path

import pytest

from convexstruct.cli import main
from convexstruct.verification import cases_for
from convexstruct.verification.export_folder import made, write_cases


def test_the_page_explains_every_class_once_and_how_to_answer(tmp_path: Path) -> None:
    cases = [case for case in cases_for("projection", quick=True) if case.name in ("box-planted", "tables-tree")]
    assert list(write_cases(tmp_path, cases)) == cases
    page = (tmp_path / "README.md").read_text()
    for part in ("### BoxProjection", "### MarginalProjection", "<s, a> = z", "{answer}", "known by construction"):
        assert page.count(part) >= 1
    assert page.count("### CliqueTables\n") == 1


def test_an_export_that_stops_leaves_whole_cases_and_no_page(tmp_path: Path) -> None:
    export = write_cases(tmp_path, cases_for("projection", quick=True))
    assert next(export).name == "box-planted"
    export.close()  # type: ignore[attr-defined]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["box-planted.json", "box-planted.npz"]


def test_a_folder_is_made_and_a_file_is_refused(tmp_path: Path) -> None:
    assert made(str(tmp_path / "a" / "b")).is_dir()
    (tmp_path / "file").write_text("")
    for path in ("file", "file/inside"):
        with pytest.raises(ValueError, match="is a file or lies in one, wanted a folder to write to"):
            made(str(tmp_path / path))


def test_the_command_writes_a_family_and_lists_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--on", "box-single", "--text", str(tmp_path / "cases"), "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert shown == {"folder": str(tmp_path / "cases"), "cases": ["box-single"], "left_out": [], "whole": True}
    assert (tmp_path / "cases" / "box-single.m.csv").read_text().count("\n") == 1
    assert not list((tmp_path / "cases").glob("*.npz"))


@pytest.mark.parametrize("on", ["nothing", "box-many", "oracle-ranking"])
def test_what_cannot_be_exported_is_refused_before_anything_is_written(
    on: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "--on", on, str(tmp_path / "new")]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert not (tmp_path / "new").exists()
