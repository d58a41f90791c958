"""The notebooks as committed: executed from top to bottom, without errors, small, and without paths of a machine."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
#: The most bytes of a notebook with its outputs.
MOST = 1_500_000
#: An absolute path of at least two names: /home/someone, C:\Users.
ABSOLUTE = re.compile(r"(?<![\w.:/<\\)}\]])/[A-Za-z][\w-]*/[\w.-]|\b[A-Z]:\\\\?[A-Za-z]")

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def outputs(path: Path) -> list[dict[str, Any]]:
    return [output for cell in code_cells(path) for output in cell["outputs"]]


def test_the_notebooks_that_the_readers_are_sent_to_are_there() -> None:
    names = {path.name for path in NOTEBOOKS}
    assert "0_generative_margin.ipynb" in names
    for path in NOTEBOOKS:
        for mentioned in re.findall(r"\b[\w-]+\.ipynb\b", path.read_text(encoding="utf-8")):
            assert mentioned in names, f"{path.name} sends its readers to {mentioned}"


@every_notebook
def test_every_code_cell_has_been_executed_in_order(path: Path) -> None:
    numbers = [cell["execution_count"] for cell in code_cells(path)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers
    assert read(path)["metadata"]["kernelspec"]["name"] == "python3"


@every_notebook
def test_outputs_are_kept_and_small_and_no_cell_ended_in_an_error_or_a_warning(path: Path) -> None:
    assert path.stat().st_size < MOST
    assert outputs(path)
    for output in outputs(path):
        assert output["output_type"] != "error"
        assert output.get("name") != "stderr", "".join(output["text"])


@every_notebook
def test_every_cell_has_its_place_among_the_slides(path: Path) -> None:
    kinds = [cell["metadata"].get("slideshow", {}).get("slide_type") for cell in read(path)["cells"]]
    assert kinds[0] == "slide"
    assert set(kinds) <= {"slide", "subslide", "fragment", "-", "skip"}
    assert kinds.count("slide") >= 4


@every_notebook
def test_nothing_names_a_path_of_one_machine(path: Path) -> None:
    for cell in read(path)["cells"]:
        assert not ABSOLUTE.search(source(cell)), source(cell)
    for output in outputs(path):
        shown = [text for kind, text in output.get("data", {}).items() if not kind.startswith("image/")]
        for text in ["".join(output.get("text", "")), *("".join(text) for text in shown)]:
            assert not ABSOLUTE.search(text), text


def test_a_path_of_one_machine_is_recognised_and_other_strokes_are_no_path() -> None:
    for text in ("/home/someone/x", "see /opt/lib/x", "'/Users/me/'", r"C:\Users", '"/srv/data"'):
        assert ABSOLUTE.search(text)
    for text in ("../data/x.csv", "https://a.org/b/c", "n / m / k", "</td></tr>", r"\gamma/2/\mu"):
        assert not ABSOLUTE.search(text)


@every_notebook
def test_a_notebook_checks_what_it_says(path: Path) -> None:
    """A notebook has assertions, so that a wrong one fails when it is executed."""
    python = [re.sub(r"^%.*$", "", source(cell), flags=re.MULTILINE) for cell in code_cells(path)]
    asserts = sum(isinstance(node, ast.Assert) for text in python for node in ast.walk(ast.parse(text)))
    assert asserts >= 5


@every_notebook
def test_a_notebook_says_what_is_to_be_learned_and_imports_the_package_by_name(path: Path) -> None:
    cells = read(path)["cells"]
    assert cells[0]["cell_type"] == "markdown"
    assert source(cells[0]).startswith("# ")
    assert "**You will learn**" in source(cells[0])
    assert any("import convexstruct as cs" in source(cell) for cell in code_cells(path))


def answers(path: Path) -> list[str]:
    """The code in the hidden answers of a notebook."""
    cells = [source(cell) for cell in read(path)["cells"] if cell["cell_type"] == "markdown"]
    hidden = [text for text in cells if "<details" in text]
    return [answer for text in hidden for answer in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]


@every_notebook
def test_a_notebook_says_what_to_know_how_long_it_takes_and_ends_with_exercises(path: Path) -> None:
    cells = [source(cell) for cell in read(path)["cells"] if cell["cell_type"] == "markdown"]
    assert "**What you need to know.**" in cells[0]
    assert re.search(r"About \d+ minutes", cells[0])
    hidden = [answer for text in cells for answer in re.findall(r"<details>(.*?)</details>", text, re.DOTALL)]
    assert sum("```python" in answer for answer in hidden) >= 4


@every_notebook
def test_answers_to_exercises_hold(path: Path) -> None:
    """What stands in the hidden answers as code is run after the notebook's first cell, each by itself."""
    first = re.sub(r"^%.*$", "", source(code_cells(path)[0]), flags=re.MULTILINE)
    assert all("assert" in answer for answer in answers(path))
    for answer in answers(path):
        exec(compile(f"{first}\n{answer}", path.name, "exec"), {})
