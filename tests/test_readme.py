"""README.md is right: its example prints what it shows, its solver is verified, the names it lists exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from convexstruct.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def test_the_two_commands_stand_alone_and_first() -> None:
    assert BLOCKS[:2] == [
        ("sh", "pip install . && convexstruct verify\n"),
        ("sh", 'pip install -e ".[test]" && pytest\n'),
    ]


@pytest.mark.slow
def test_the_example_prints_what_is_said() -> None:
    done = subprocess.run([sys.executable, "-c", blocks("python")[0]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == blocks("text")[0]


def test_two_lists_of_dicts_become_tags_in_eight_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = next(text for text in blocks("python") if "ChainTagger" in text)
    assert sum(bool(line) for line in code.splitlines()) <= 8
    monkeypatch.chdir(tmp_path)  # where the tagger is saved
    exec(code, {})
    assert capsys.readouterr().out == next(text for text in blocks("text") if text.startswith("['"))


@pytest.mark.slow
def test_the_solver_shown_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(blocks("python")[1])
    command = next(text for text in blocks("sh") if "mine.py" in text)
    assert main(command.split()[1:]) == 0
    assert capfd.readouterr().out.splitlines()[-1].endswith(" verified")


def test_every_command_is_named() -> None:
    assert all(f"`convexstruct {name}" in README for name in COMMANDS)


def test_the_tree_shown_is_the_tree() -> None:
    named = {"": set[str](), "convexstruct": set[str]()}
    for line in next(text for text in blocks("text") if text.startswith("convexstruct/")).splitlines():
        inside = "convexstruct" if line.startswith(" ") else ""
        names = re.split(r"\s{2,}", line.strip())[0].split(", ")
        assert all((ROOT / inside / name).exists() for name in names), line
        named[inside] |= {name.rstrip("/") for name in names}
    parts = {path.parent.name for path in (ROOT / "convexstruct").glob("*/__init__.py")}
    assert parts - {"models"} <= named["convexstruct"]
    assert {"models", "tests"} <= named[""]


def test_the_papers_are_the_references_of_the_citation_and_of_the_errata() -> None:
    title = r"\[?(.+?)(?:\]\((.+?)\))?(?: \(slides\)| \(a search by title\))?"
    rows = re.findall(rf"^\| (\d) \| (.+?) \| {title} \| (\d+)(\?| or later)? \|$", README, flags=re.MULTILINE)
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8").partition("references:\n")[2].split("  - type: ")[1:]
    errata = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [row[0] for row in rows] == ["0", "1", "2", "3", "4"]
    for (number, authors, title, link, year, doubt), reference in zip(rows, cited, strict=True):
        assert ", ".join(re.findall(r"family-names: (\w+)", reference)) == authors
        assert f'title: "{title}"' in reference
        assert re.findall(r'url: "(.+)"', reference) == [link] * bool(link)
        assert re.findall(r"year: (\d+)", reference) == [year] * (doubt != " or later")
        assert ("not printed on the paper" in reference) == (doubt == "?")
        assert f"Paper {number}: {authors}, *{re.split('[:,]', title)[0]}" in errata
