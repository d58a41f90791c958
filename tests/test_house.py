"""The rules of the house, read from the tree: what imports what, what is packed, and how long a file may be."""

from __future__ import annotations

import ast
import gc
import inspect
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

import convexstruct as cs
from convexstruct.core import registry

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "convexstruct"

#: The most lines of a file, so that it can be read in one sitting.
LONGEST = 450
#: How the line of a named constant, or of several, begins.
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*(, [A-Z][A-Z0-9_]*)*(: [^=]*)? = ")

#: The storeys of the house above the ground: a part imports its own storey and those below it. What has no storey here
#: is the ground, which imports the ground alone.
STOREYS: tuple[tuple[str, ...], ...] = (
    ("oracles",),
    ("features",),
    ("inference",),
    ("marginals",),
    ("datasets",),
    ("core", "plots"),
    ("families", "models"),
    ("estimators", "solvers", "experiments"),
    ("report", "verification"),
    ("__init__", "cli", "cli_parser", "__main__"),
)
HEIGHT = {part: level for level, parts in enumerate(STOREYS, start=1) for part in parts}


def sources() -> dict[str, Path]:
    """Every module of the package by its dotted name; convexstruct/models is a link and is listed as models/ alone."""
    found = {}
    for top, folder in (("convexstruct", PACKAGE), ("convexstruct.models", ROOT / "models")):
        for file in sorted(folder.rglob("*.py")):
            inside = file.relative_to(folder)
            if top == "convexstruct" and inside.parts[0] == "models":
                continue
            found[".".join((top, *inside.with_suffix("").parts)).removesuffix(".__init__")] = file
    return found


MODULES = sources()
EVERY = (*MODULES.values(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py"))


def without_empty(found: dict[str, set[str]]) -> dict[str, list[str]]:
    """The files that break a rule, with what breaks it, so that one failing test shows all of them."""
    return {where: sorted(names) for where, names in found.items() if names}


def part(module: str) -> str:
    """ "families" for convexstruct.families.projection.box, "__init__" for the package itself."""
    names = module.split(".")
    return names[1] if len(names) > 1 else "__init__"


@pytest.fixture(scope="module", autouse=True)
def _without_collections() -> Iterator[None]:
    """Nothing of the trees is garbage before the last test: to look for it takes three times as long as to parse."""
    gc.disable()
    yield
    gc.enable()
    tree.cache_clear()


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imports(file: Path) -> list[tuple[int, str]]:
    """(level, dotted name) of every import in ``file``, wherever it stands; "from a import b" gives a.b."""
    found = []
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            found += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.level, f"{node.module}.{alias.name}") for alias in node.names]
    return found


@cache
def asked(module: str) -> frozenset[str]:
    """The modules of the package that ``module`` imports, anywhere in its file."""
    found = set()
    for _, name in imports(MODULES[module]):
        while name and name not in MODULES:
            name = name.rpartition(".")[0]
        if name and name != module:
            found.add(name)
    return frozenset(found)


def test_no_arrow_runs_up() -> None:
    height = {module: HEIGHT.get(part(module), 0) for module in MODULES}
    up = {module: {name for name in asked(module) if height[name] > height[module]} for module in MODULES}
    assert without_empty(up) == {}


def test_no_imports_run_in_a_circle() -> None:
    graph = nx.DiGraph([(module, other) for module in MODULES for other in asked(module)])
    assert [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


def family(module: str) -> str | None:
    """The family in whose folder, or whose folder of models, ``module`` stands."""
    names = module.split(".")
    return names[2] if len(names) > 2 and names[1] in ("families", "models") else None


def inside(module: str) -> set[str]:
    """What ``module`` imports from the inside of families, its own or others."""
    return {name for name in asked(module) if part(name) == "families" and len(name.split(".")) > 3}


def test_no_familys_inside_is_imported_from_outside_it() -> None:
    strange = {module: {name for name in inside(module) if family(name) != family(module)} for module in MODULES}
    assert without_empty(strange) == {}


def test_models_and_solvers_do_not_know_each_other() -> None:
    found = {}
    for module in MODULES:
        if part(module) == "models":
            found[module] = {name.split(".")[3] for name in inside(module)} & {"solvers", "cases", "experiments"}
        elif part(module) == "families" and "experiments" not in module.split("."):
            found[module] = {name for name in asked(module) if part(name) == "models"}
    assert without_empty(found) == {}


def test_inside_a_family_problems_know_no_solver_and_solvers_no_case() -> None:
    above, found = {"cases", "planted", "experiments"}, {}
    for module in MODULES:
        names = module.split(".")
        if part(module) == "families" and len(names) > 3 and names[3] not in above:
            forbidden = above if names[3] == "solvers" else above | {"solvers"}
            found[module] = {name.split(".")[3] for name in inside(module)} & forbidden
    assert without_empty(found) == {}


def test_only_models_and_verification_import_cvxpy() -> None:
    found = {}
    for module, file in MODULES.items():
        if part(module) not in ("models", "verification"):
            found[module] = {name.split(".")[0] for _, name in imports(file)} & {"cvxpy", "clarabel", "scs"}
    assert without_empty(found) == {}


def test_imports_are_absolute_and_none_is_of_a_pickle() -> None:
    found = {}
    for file in EVERY:
        forbidden = {"models", "pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
        if ROOT / "tests" in file.parents:  # a test writes a pickle to see it refused
            forbidden = {"models"}
        found[str(file)] = {name.split(".")[0] for _, name in imports(file)} & forbidden
        found[str(file)] |= {name for level, name in imports(file) if level}
    assert without_empty(found) == {}


def test_no_attribute_is_read_for_its_side_effect() -> None:
    for name, file in MODULES.items():
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Attribute):
                targets = node.targets if isinstance(node, ast.Assign) else []
                assert {ast.unparse(each) for each in targets} - {"_"}, name


def test_a_file_can_be_read_in_one_sitting() -> None:
    lines = {str(file): file.read_text(encoding="utf-8").count("\n") for file in EVERY}
    assert {file: n for file, n in lines.items() if n >= LONGEST} == {}
    assert not {file.stem for file in EVERY} & {"utils", "helpers", "base", "common", "misc"}


def test_every_number_with_a_name_has_a_comment() -> None:
    """Above it, or above those that it follows line by line; experiments name the numbers of the papers."""
    found: dict[str, set[str]] = {}
    for module, file in MODULES.items():
        lines = file.read_text(encoding="utf-8").splitlines()
        for node in tree(file).body:
            at = node.lineno - 1
            constants = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
            if not CONSTANT.match(lines[at]) or not any(type(each) in (int, float) for each in constants):
                continue
            while CONSTANT.match(lines[at]):
                at -= 1
            if not lines[at].startswith("#") and "experiments" not in module.split("."):
                found.setdefault(module, set()).add(lines[node.lineno - 1])
    assert without_empty(found) == {}


def test_every_number_of_a_solver_is_switched_off_by_an_ablation_or_a_test() -> None:
    """A test lifts it, or names it and fails without it."""
    files = [*ROOT.glob("benchmarks/ablation*.py"), *ROOT.glob("tests/families/**/*.py")]
    words = [set(re.findall(r"\w+", file.read_text(encoding="utf-8"))) for file in files]
    unseen = []
    for file in sorted(PACKAGE.glob("families/*/solvers/**/*.py")):
        for line in file.read_text(encoding="utf-8").splitlines():
            found = CONSTANT.match(line)
            if not found or not re.search(r"[0-9]|EPS|UNIT", line[found.end() :]):
                continue
            names = re.findall(r"[A-Z][A-Z0-9_]*", found[0].partition(":")[0])
            unseen += [f"{file.stem}.{name}" for name in names if not any({name, file.stem} <= each for each in words)]
    assert not unseen, f"numbers without an ablation row or a test: {unseen}"


def test_no_test_asserts_that_anything_takes_fewer_seconds_than_a_number() -> None:
    found: dict[str, set[str]] = {}
    for file in (ROOT / "tests").rglob("*.py"):
        asserts = [node for node in ast.walk(tree(file)) if isinstance(node, ast.Assert)]
        for compared in (node for each in asserts for node in ast.walk(each) if isinstance(node, ast.Compare)):
            sides = zip((compared.left, *compared.comparators), compared.ops, compared.comparators)
            for left, sign, right in sides:
                measured = isinstance(left, ast.Attribute) and left.attr == "seconds"
                if measured and isinstance(sign, ast.Lt | ast.LtE) and isinstance(right, ast.Constant):
                    found.setdefault(str(file), set()).add(ast.unparse(compared))
    assert without_empty(found) == {}


def test_every_folder_of_the_tree_is_a_package_and_packages_are_found() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert settings["packages"]["find"] == {"include": ["convexstruct*"], "namespaces": False}
    assert not [file for file in MODULES.values() if not (file.parent / "__init__.py").exists()]


def test_the_formulations_are_reached_through_a_relative_link_that_is_committed_as_one() -> None:
    link = PACKAGE / "models"
    assert link.is_symlink()
    assert link.readlink() == Path("../models")
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return  # a tree without its history
    command = ["git", "-c", "safe.directory=*", "ls-files", "-s", "convexstruct/models"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert listed.startswith("120000 ")


def test_every_public_name_says_what_it_is() -> None:
    for module in (cs, cs.models, cs.datasets, cs.estimators, cs.solvers, cs.verification):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
                assert (inspect.getdoc(value) or "").strip(), f"{module.__name__}.{name} has no docstring"


@pytest.mark.parametrize("name", registry.families())
def test_a_family_has_the_same_rooms_as_every_other(name: str) -> None:
    folder = PACKAGE / "families" / name
    assert {"__init__.py", "solvers", "cases.py", "optima.json"} <= {path.name for path in folder.iterdir()}
    assert (ROOT / "models" / name / "__init__.py").exists()
    assert (ROOT / "tests" / "families" / name).is_dir()
    assert registry.families()[name].folder == folder


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
