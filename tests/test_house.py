"""The rules of the house, read from the tree: what imports what, what is packed, and how long a file may be."""

from __future__ import annotations

import ast
import importlib
import inspect
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

import convexstruct as cs
from convexstruct.models import FORMULATIONS
from convexstruct.verification import SYSTEMS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "convexstruct"

#: How long a file may be: what can be read in one sitting.
LONGEST = 450

#: Each part and the parts it may import from, itself included. What stands apart (tolerances, solution) serves all.
APART = {"deadline", "files", "tolerances", "solution", "rounding", "validation", "arrays", "sparse_matrices"}
GROUND = APART | {"graphs", "losses", "junction_trees"}
ORACLES = GROUND | {"oracles"}
FEATURES = ORACLES | {"features"}
PROBLEMS = FEATURES | {"problems"}
JUDGED = PROBLEMS | {"certificates"}
SOLVED = JUDGED | {"solvers", "progress", "parallel"}
DRAWN = APART | {"plots", "certificates"}
MODELLED = JUDGED | {"models"}
VERIFIED = SOLVED | MODELLED | {"datasets", "verification", "report"}
SHOWN = VERIFIED | DRAWN | {"experiments"}
MAY_IMPORT = {
    "files": {"files"},
    "tolerances": {"tolerances", "validation"},
    "deadline": {"deadline"},
    "rounding": {"rounding"},
    "validation": {"validation"},
    "arrays": {"arrays", "validation"},
    "sparse_matrices": {"sparse_matrices", "arrays", "validation"},
    "solution": APART | {"certificates", "plots"},  # for type checkers, and where a method asks for them
    "graphs": GROUND,
    "losses": GROUND,
    "junction_trees": GROUND,
    "oracles": ORACLES,
    "features": FEATURES,
    "problems": PROBLEMS,
    "certificates": JUDGED,
    "progress": APART | {"certificates", "progress"},
    "parallel": JUDGED | {"parallel"},
    "solvers": SOLVED,
    "models": MODELLED,
    "datasets": GROUND | {"datasets"},
    "plots": DRAWN | {"verification"},  # for type checkers alone
    "report": {"report", "plots", "files"},
    "verification": VERIFIED,
    "experiments": SHOWN,
    "cli": SHOWN | {"report", "cli"},
    "__init__": SHOWN,
    "__main__": {"cli"},
}


def sources(*folders: Path) -> list[Path]:
    """The Python files below ``folders``; convexstruct/models is a link and is listed as models/ alone."""
    found = {file.resolve() for folder in folders for file in folder.rglob("*.py")}
    return sorted(found | {file.resolve() for file in (ROOT / "models").glob("*.py")})


def part(file: Path) -> str:
    """ "problems" for convexstruct/problems/..., "cli" for convexstruct/cli.py, "models" for models/..."""
    inside = file.relative_to(ROOT).parts
    return inside[0] if inside[0] == "models" else inside[1].removesuffix(".py")


@cache
def imports(file: Path) -> list[tuple[int, str]]:
    """(level, dotted name) of every import in ``file``, wherever it stands; "from a import b" gives a.b."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.level, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def ours(name: str) -> str | None:
    """The part of convexstruct that "convexstruct.x.y" imports, None for other packages."""
    first, _, rest = name.partition(".")
    return rest.split(".")[0] if first == "convexstruct" else None


NAMED = [pytest.param(file, id=file.relative_to(ROOT).as_posix()) for file in sources(PACKAGE)]
EVERY = [pytest.param(file, id=file.relative_to(ROOT).as_posix()) for file in sources(PACKAGE, ROOT / "tests")]


@pytest.mark.parametrize("file", NAMED)
def test_imports_run_one_way(file: Path) -> None:
    wrong = {name for _, name in imports(file) if (asked := ours(name)) and asked not in MAY_IMPORT[part(file)]}
    assert not wrong, f"{part(file)} may not import {', '.join(sorted(wrong))}"


def test_the_arrows_leave_models_and_solvers_apart_and_know_every_part() -> None:
    assert "solvers" not in MAY_IMPORT["models"]
    assert "models" not in MAY_IMPORT["solvers"]
    assert not MAY_IMPORT["oracles"] & {"features", "problems", "certificates"}
    assert set(MAY_IMPORT) == {part(file) for file in sources(PACKAGE)}


@pytest.mark.parametrize("file", NAMED)
def test_only_models_and_verification_import_cvxpy(file: Path) -> None:
    packages = {name.split(".")[0] for _, name in imports(file)}
    if part(file) not in ("models", "verification"):
        assert not packages & {"cvxpy", "clarabel", "scs"}


@pytest.mark.parametrize("file", EVERY)
def test_imports_are_absolute_and_none_is_of_a_pickle(file: Path) -> None:
    found = imports(file)
    assert not [name for level, name in found if level]
    packages = {name.split(".")[0] for _, name in found}
    assert "models" not in packages
    if ROOT / "tests" not in file.parents:  # a test writes one to see it refused
        assert not packages & {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


@pytest.mark.parametrize("file", EVERY)
def test_a_file_can_be_read_in_one_sitting(file: Path) -> None:
    assert file.read_text(encoding="utf-8").count("\n") < LONGEST
    assert file.stem not in {"utils", "helpers", "base", "common", "misc"}


def test_the_packages_are_those_of_the_tree() -> None:
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    found = {"convexstruct"} | {
        f"convexstruct.{file.parent.relative_to(PACKAGE).as_posix().replace('/', '.')}"
        for file in (*PACKAGE.glob("*/**/__init__.py"), PACKAGE / "models" / "__init__.py")
    }
    assert sorted(stated) == sorted(found)
    loose = {file.parent for file in sources(PACKAGE)} - {ROOT / "models"}
    assert all((folder / "__init__.py").exists() for folder in loose)


def test_the_formulations_are_reached_through_a_relative_link() -> None:
    link = PACKAGE / "models"
    assert link.is_symlink()
    assert link.readlink() == Path("../models")


def test_the_link_is_committed_as_a_link() -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return  # a tree without its history; the test above has looked at the link itself
    command = ["git", "-c", "safe.directory=*", "ls-files", "-s", "convexstruct/models"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert listed.startswith("120000 ")


def test_every_public_name_says_what_it_is() -> None:
    for module in (cs, cs.models, cs.datasets, importlib.import_module("convexstruct.solvers"), cs.verification):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
                assert (inspect.getdoc(value) or "").strip(), f"{module.__name__}.{name} has no docstring"


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_what_a_system_names_is_there(system: object) -> None:
    from convexstruct import solvers
    from convexstruct.experiments import EXPERIMENTS
    from convexstruct.verification.systems import System

    assert isinstance(system, System)
    assert {f"{system.family}.{name}" for name in system.formulation} <= set(FORMULATIONS)
    assert set(system.solvers) <= set(solvers.__all__)
    assert set(system.experiments) <= set(EXPERIMENTS)
    for folder in ("problems", "models", "verification"):
        assert (PACKAGE / folder / f"{system.family}.py").exists()


def test_every_erratum_names_a_test_and_a_file_that_are_there() -> None:
    rows = [line for line in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines() if "::" in line]
    assert len(rows) >= 9
    for row in rows:
        _, where, _, _, stated, shown, _ = (cell.strip() for cell in row.split("|"))
        path = stated.strip("`")
        assert (ROOT / path if path.startswith("models/") else PACKAGE / path).exists(), f"{where}: no file {path}"
        file = ""
        for reference in shown.split(", "):
            named, name = reference.strip("`").split("::")
            file = named or file
            assert f"\ndef {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{where}: no test {reference}"


def test_the_oldest_versions_that_are_tested_are_those_that_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    }
    lines = (ROOT / ".ci" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    assert {line.replace("==", ">=") for line in lines if not line.startswith("#")} == declared
