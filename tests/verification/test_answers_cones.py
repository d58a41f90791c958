from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

import convexstruct as cs
from convexstruct.arrays import Vector
from convexstruct.cli import main
from convexstruct.models.formulation import Recovered
from convexstruct.tolerances import HIGH
from convexstruct.verification import answers_cones
from convexstruct.verification.answers_cones import holds_programs
from convexstruct.verification.cases import cases_for, families, select
from convexstruct.verification.cone_program import ConeProgram
from convexstruct.verification.export_cones import HEADS, scales, write_programs


def exported(folder: Path, *names: str) -> list[str]:
    left_out: list[str] = []
    list(write_programs(folder, [case for name in names for case in select(name)], 0, left_out))
    return left_out


def solution(folder: Path, name: str) -> dict[str, Any]:
    """x and y of a program by Clarabel, from its arrays alone, as its page explains them."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as found:
        parts = dict(found)
    b, c = parts["b"], parts["c"]
    A = sp.csr_matrix((parts["A.data"], parts["A.indices"], parts["A.indptr"]), shape=(len(b), len(c))).tocsc()
    cones = [clarabel.ZeroConeT(int(parts["zero"])), clarabel.NonnegativeConeT(int(parts["nonnegative"]))]
    cones += [clarabel.SecondOrderConeT(int(size)) for size in parts["second_order"]]
    cones += [clarabel.PSDTriangleConeT(int(n)) for n in parts["semidefinite"]]
    cones += [clarabel.ExponentialConeT() for _ in range(int(parts["exponential"]))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    answer = clarabel.DefaultSolver(sp.csc_matrix((len(c), len(c))), c, A, b, cones, settings).solve()
    return {"x": np.array(answer.x), "y": np.array(answer.z)}


def verdict(folder: Path, on: str, **options: Any) -> tuple[str, str]:
    (row,) = cs.verify(on=on, answers=folder, **options)
    return row.verdict, row.note


@pytest.mark.parametrize(
    ("case", "formulation"),
    [("risk-planted", "primal"), ("hmm-ties", "dual"), ("planted-points", "reduced"), ("gp-flat", "dual")],
)
def test_x_and_y_give_a_point_that_is_certified(case: str, formulation: str, tmp_path: Path) -> None:
    exported(tmp_path, case)
    name = f"{case}.{formulation}"
    np.savez(tmp_path / f"{name}.answer.npz", **solution(tmp_path, name))
    found, note = verdict(tmp_path, case)
    assert found == "verified", note
    assert note.endswith("certified")
    assert "no more is certified" not in note


def test_x_alone_of_a_primal_formulation_is_enough_if_it_is_optimal_and_bears_out_its_claim(tmp_path: Path) -> None:
    exported(tmp_path, "risk-planted")
    x = solution(tmp_path, "risk-planted.primal")["x"]
    file = tmp_path / "risk-planted.primal.answer"
    file.write_text(" ".join(map(repr, x.tolist())))
    found, note = verdict(tmp_path, "risk-planted")
    assert found == "verified"
    assert "its point is optimal" in note
    file.write_text(json.dumps({"x": x.tolist(), "value": 0.3}))
    assert verdict(tmp_path, "risk-planted")[1].startswith("claims the value 0.3, its x has 0.334")
    x[np.argmax(np.abs(x))] *= 3.0
    file.write_text(" ".join(map(repr, x.tolist())))
    assert verdict(tmp_path, "risk-planted")[0] == "failed"


def test_x_alone_of_a_dual_is_compared_with_the_bracket_and_said_so(tmp_path: Path) -> None:
    exported(tmp_path, "hmm-ties")
    x = solution(tmp_path, "hmm-ties.dual")["x"]
    np.savez(tmp_path / "hmm-ties.dual.answer.npz", x=x)
    found, note = verdict(tmp_path, "hmm-ties")
    assert found == "verified"
    assert "without y" in note
    assert note.endswith("and no more is certified")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ('{"value": 0.33438763}', "the value alone was given: it lies in the certified bracket"),
        ('{"value": 0.34}', "misses the certified bracket"),
        ('{"value": null}', "holds neither x nor a value"),
        ('{"value": [1, 2]}', "has value of shape (2,), wanted ()"),
        ("1 2 3", "has x of shape (3,), wanted (31,)"),
        ('{"x": ["a"]}', "has something else than numbers in 'x'"),
        ("nan " * 31, "has x with entries that are not finite"),
        ("0 " * 31, "x is infeasible: outside a nonnegative cone by 1"),
    ],
)
def test_every_other_answer_gets_its_sentence(answer: str, words: str, tmp_path: Path) -> None:
    exported(tmp_path, "risk-planted")
    (tmp_path / "risk-planted.primal.answer").write_text(answer)
    found, note = verdict(tmp_path, "risk-planted")
    assert words in note
    assert found == ("verified" if "it lies in" in words else "failed")


def test_a_missing_answer_and_other_data_fail(tmp_path: Path) -> None:
    exported(tmp_path, "risk-planted")
    assert verdict(tmp_path, "risk-planted")[1].startswith("wrote no answer: there is no risk-planted.primal.answer")
    header = tmp_path / "risk-planted.primal.json"
    text = header.read_text()
    header.write_text(text.replace('"seed": 0', '"seed": 1'))
    assert verdict(tmp_path, "risk-planted")[1].startswith("answers other data")
    for part, instead in (('"seed": 0', '"seed": "x"'), ('"scale": 1', '"scale": 0'), ('"scale": 1', '"scale": 2')):
        header.write_text(text.replace(part, instead))
        assert "no header of a program" in verdict(tmp_path, "risk-planted")[1]


def test_a_folder_without_a_program_of_the_case_is_refused(tmp_path: Path) -> None:
    exported(tmp_path, "risk-planted")
    with pytest.raises(ValueError, match="holds no cone program of box-planted, wanted some to judge"):
        cs.verify(on="box-planted", answers=tmp_path)


def test_the_command_writes_a_table_with_bracket_sizes_and_cones(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "--conic", "--on", "planted-points", str(tmp_path), "--json"]) == 0
    (head,) = json.loads(capfd.readouterr().out)["programs"]
    assert holds_programs(tmp_path)
    with open(tmp_path / "programs.csv", newline="") as file:
        heads, row = csv.reader(file)
    assert heads == HEADS
    assert row[0] == "planted-points.reduced"
    assert float(row[2]) <= -129.0 <= float(row[3])
    assert row[4:] == ["78", "180", "444", "12 zero, 90 nonnegative, 12 semidefinite"]
    assert head["optimum"] == {"lower_bound": float(row[2]), "upper_bound": float(row[3])}
    page = (tmp_path / "README.md").read_text()
    assert "g_0 >= g_1 e^(g_2 / g_1)" in page
    assert "| planted-points.reduced | MIN |" in page


def test_a_case_is_made_larger_on_demand_with_a_bracket_of_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "--conic", "--scale", "3", "--on", "box-planted", str(tmp_path), "--json"]) == 0
    (head,) = json.loads(capfd.readouterr().out)["programs"]
    make: Any = select("box-planted")[0].make
    optimum = make(0, scale=3).optimum
    assert head["program"] == "box-planted-x3.box"
    assert head["optimum"]["lower_bound"] <= optimum <= head["optimum"]["upper_bound"]
    np.savez(tmp_path / "box-planted-x3.box.answer.npz", **solution(tmp_path, "box-planted-x3.box"))
    found, note = verdict(tmp_path, "box-planted")
    assert found == "verified"
    assert "its point is optimal" in note


def test_every_family_has_a_case_that_can_be_made_larger() -> None:
    cases = [case for name in families() for case in cases_for(name, open_only=True) if scales(case)]
    assert {case.family for case in cases} == set(families())


@pytest.mark.parametrize(("on", "scale"), [("box-single", "2"), ("box-planted", "0")])
def test_a_scale_that_makes_no_sense_is_refused(
    on: str, scale: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "--conic", "--scale", scale, "--on", on, str(tmp_path / "new")]) == 2
    assert "scale is" in capfd.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_point_is_not_certified_where_it_is_infeasible_or_below_the_bound() -> None:
    """The upper bound is that of the repaired point, which the answer need not be; no optimum is below its bound."""
    case = next(case for case in cases_for("projection") if case.name == "box-planted")
    problem = case.build()
    assert isinstance(problem, cs.BoxProjection)
    best = cs.solve(problem, tol=1e-9)
    high = best.point["a"] >= np.broadcast_to(problem.upper, best.point["a"].shape)
    assert high.any()

    def certified(a: Vector, lower: float) -> tuple[float, float]:
        program = SimpleNamespace(recovered=lambda x, y: Recovered(problem, {"a": a}, None))
        return answers_cones._certified(cast(ConeProgram, program), np.zeros(1), None, lower, HIGH)

    assert certified(best.point["a"], best.lower_bound)[1] <= HIGH.gap
    assert certified(best.point["a"] + high, best.lower_bound) == (math.inf, math.inf)
    assert certified(best.point["a"], best.primal + 1.0)[1] == math.inf
