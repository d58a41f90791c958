"""Adding a family is adding a folder: a toy family in a copy of the tree is listed, solved and verified."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROBLEM = '''
"""Half the squared distance to a target: min 1/2 |x - target|^2, optimum 0 at the target."""

from dataclasses import dataclass

import numpy as np

from convexstruct.rounding import Rounded


@dataclass(frozen=True, eq=False)
class Distance:
    target: np.ndarray
    family = "toy"

    @property
    def trivial_value(self):
        return float(0.5 * self.target @ self.target)

    def trivial(self):
        return {"x": np.zeros_like(self.target)}, {}

    def as_point(self, value):
        return value if isinstance(value, dict) else {"x": np.asarray(value, dtype=float)}

    def primal(self, point):
        return Rounded(float(0.5 * ((point["x"] - self.target) ** 2).sum()))

    def dual(self, dual_point):
        return Rounded(0.0)

    def repair(self, point):
        return point

    def residuals(self, point):
        return {}

    def dual_residuals(self, dual_point):
        return {}
'''

SOLVER = '''
"""Gradient descent with step 1/2."""

from dataclasses import dataclass

from convexstruct.core.iterate import Iterate


@dataclass(frozen=True)
class Halving:
    def iterate(self, problem, start=None):
        x = problem.trivial()[0]["x"]
        while True:
            x = x - 0.5 * (x - problem.target)
            yield Iterate({"x": x}, {}, float(problem.primal({"x": x})), 0.0)
'''

CASES = '''
"""The cases of the toy family."""

import numpy as np

from convexstruct.core.cases import Case, Instance
from convexstruct.families.toy.problem import Distance


def make(seed):
    return Instance(Distance(np.random.default_rng(seed).normal(size=3)), optimum=0.0)


CASES = (Case("toy-three", "toy distance", "(1)", "a case of a family that was added", make, "primal"),)
'''

FAMILY = '''
"""A toy."""

from convexstruct.core.registry import Family, System, register
from convexstruct.families.toy.problem import Distance
from convexstruct.families.toy.solvers.halving import Halving

FAMILY = register(
    Family(
        __name__,
        title="A toy",
        problems=(Distance,),
        solvers=(Halving,),
        best=lambda problem, wanted: (Halving(), "there is no other"),
        systems=(System("toy distance", "no paper", "(1)", ("primal",)),),
    )
)
'''

MODEL = '''
"""The toy in CVXPY."""

import cvxpy as cp

from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation, Recovered


@stated("distance to a target", "no paper", "(1)")
def primal(problem):
    x = cp.Variable(len(problem.target), name="x")
    objective = cp.Minimize(0.5 * cp.sum_squares(x - problem.target))
    return Formulation(
        "primal",
        objective,
        r"\\min_x \\tfrac12 |x - t|^2",
        {},
        {"x": x},
        recover=lambda _: Recovered(problem, {"x": x.value}, {}),
    )
'''

SCRIPT = """
import json
import numpy as np
import convexstruct as cs
from convexstruct.cli import main
from convexstruct.families.toy import FAMILY

problem = FAMILY.cases[0].build()
solution = cs.solve(problem)
assert main(["list", "--json"]) == 0
assert main(["verify", "--on", "toy", "--json"]) == 0
print(json.dumps({
    "solver": solution.solver, "primal": solution.primal, "named": cs.solvers.Halving.__name__,
    "formulation": "toy.primal" in cs.models.FORMULATIONS,
}))
"""


@pytest.mark.slow
def test_a_family_in_its_folders_is_listed_solved_and_verified(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "convexstruct", tmp_path / "convexstruct", symlinks=True)
    shutil.copytree(ROOT / "models", tmp_path / "models")
    folder = tmp_path / "convexstruct" / "families" / "toy"
    for name, text in (
        ("problem.py", PROBLEM),
        ("solvers/__init__.py", '"""How it is solved."""\n'),
        ("solvers/halving.py", SOLVER),
        ("cases.py", CASES),
        ("__init__.py", FAMILY),
        ("../../../models/toy/__init__.py", MODEL),
    ):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    # no -P: the copy in the working directory is what is imported
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    decoder, text, shown = json.JSONDecoder(), done.stdout.strip(), []
    while text:
        found, end = decoder.raw_decode(text)
        shown.append(found)
        text = text[end:].lstrip()
    listed, verified, said = shown
    assert said["solver"].startswith("Halving (there is no other)")
    assert 0 <= said["primal"] < 1e-6
    assert said["named"] == "Halving"
    assert said["formulation"]
    assert [row["formulation"] for row in listed["systems"] if row["family"] == "toy"] == ["toy.primal"]
    assert [(row["case"], row["verdict"]) for row in verified["rows"]] == [("toy-three", "verified")]
