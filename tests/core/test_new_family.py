"""Adding a family is adding a folder: the squares of these tests, in a copy of the tree, are listed, solved and
verified."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CASES = '''
"""The cases of the family of squares."""

from convexstruct.core.cases import Case, Instance
from convexstruct.families.square.problem import Square


def make(seed):
    return Instance(Square(), optimum=1.0)


CASES = (Case("one-square", "a square", "(1)", "a case of a family that was added", make, "primal"),)
'''

FAMILY = '''
"""Squares."""

from convexstruct.core.registry import Family, System, register
from convexstruct.families.square.problem import Square
from convexstruct.families.square.solvers.halving import Endless

FAMILY = register(
    Family(
        __name__,
        title="Squares",
        problems=(Square,),
        solvers=(Endless,),
        best=lambda problem, wanted: (Endless(), "there is no other"),
        systems=(System("a square", "no paper", "(1)", ("primal",)),),
    )
)
'''

MODEL = '''
"""A square in CVXPY."""

import cvxpy as cp

from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered


@stated("a square", "no paper", "(1)")
def primal(problem):
    x = cp.Variable(nonneg=True, name="x")
    return Formulation(
        "primal",
        cp.Minimize(cp.square(x) + 1),
        r"\\min_{x \\ge 0} x^2 + 1",
        {},
        {"x": x},
        recover=lambda _: Recovered(problem, {"x": x.value}, {"y": 0 * x.value}),
    )
'''

SCRIPT = """
import json
import convexstruct as cs
from convexstruct.cli import main
from convexstruct.families.square import FAMILY

solution = cs.solve(FAMILY.cases[0].build())
assert solution.solver.startswith("Endless (there is no other)")
assert 0 <= solution.primal - 1.0 < 1e-6
assert cs.solvers.Endless.__name__ == "Endless"
assert "square.primal" in cs.models.FORMULATIONS
assert main(["list", "--json"]) == 0
assert main(["verify", "--on", "square", "--json"]) == 0
"""


@pytest.mark.slow
def test_a_family_in_its_folders_is_listed_solved_and_verified(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "convexstruct", tmp_path / "convexstruct", symlinks=True)
    shutil.copytree(ROOT / "models", tmp_path / "models")
    folder = tmp_path / "convexstruct" / "families" / "square"
    for name, text in (
        ("problem.py", (ROOT / "tests" / "core" / "squares.py").read_text(encoding="utf-8")),
        ("solvers/__init__.py", '"""How it is solved."""\n'),
        ("solvers/halving.py", "from convexstruct.families.square.problem import Endless as Endless\n"),
        ("cases.py", CASES),
        ("__init__.py", FAMILY),
        ("../../../models/square/__init__.py", MODEL),
    ):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    # no -P: the copy in the working directory is what is imported
    command, path = [sys.executable, "-c", SCRIPT], {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    listed, verified = map(json.loads, done.stdout.splitlines())
    assert [row["formulation"] for row in listed["systems"] if row["family"] == "square"] == ["square.primal"]
    assert [(row["case"], row["verdict"]) for row in verified["rows"]] == [("one-square", "verified")]
