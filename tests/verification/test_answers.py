from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.cli import main
from convexstruct.verification import cases_for, check
from convexstruct.verification.answers import Program
from convexstruct.verification.export import write_case

BOX = next(case for case in cases_for("projection") if case.name == "box-planted")
BEST = np.asarray((BOX.make(0).point or {})["a"])
SOURCE = Path(__file__).resolve().parents[2] / "docs" / "box_projection.c"


def verdict(folder: Path, on: str = "box-planted", **options: Any) -> tuple[str, str]:
    (row,) = cs.verify(on=on, answers=folder, **options)
    return row.verdict, row.note


# -- answers in a folder -----------------------------------------------------------------------------------------------


def as_npz(path: Path) -> None:
    np.savez(path / "box-planted.answer.npz", a=BEST)


def as_json(path: Path) -> None:
    (path / "box-planted.answer").write_text(json.dumps({"point": {"a": BEST.tolist()}}))


def as_text(path: Path) -> None:
    (path / "box-planted.answer.csv").write_text(", ".join(map(repr, BEST.tolist())))


@pytest.mark.parametrize("write", [as_npz, as_json, as_text])
def test_the_optimum_is_verified_in_every_form(write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path)
    assert verdict(tmp_path, tol="HIGH")[0] == "verified"


def test_a_dual_point_and_a_claim_are_read_and_judged(tmp_path: Path) -> None:
    solution = cs.solve(BOX.build())
    assert solution.dual_point is not None
    np.savez(tmp_path / "box-planted.answer.npz", **{"a": solution.point["a"], "dual.rho": solution.dual_point["rho"]})  # type: ignore[arg-type]
    assert verdict(tmp_path)[0] == "verified"
    np.savez(tmp_path / "box-planted.answer.npz", **{"a": solution.point["a"], "dual.rho": np.array(np.nan)})  # type: ignore[arg-type]
    assert verdict(tmp_path)[0] == "failed"
    (tmp_path / "box-planted.answer.npz").unlink()
    (tmp_path / "box-planted.answer").write_text(json.dumps({"point": BEST.tolist(), "primal": 1.0}))
    assert "too good to be true" in verdict(tmp_path)[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("1 2 x3", "has 'x3' in line 1, wanted a number"),
        ("1 2 3", "holds 3 numbers, wanted 40: a (40,)"),
        ("{", "is no JSON object"),
        ('{"point": {"a": [1, [2]]}}', "has something else than numbers in 'a'"),
        ('{"point": {"theta": [1, 2]}}', "returns the wrong shape"),
        ('{"primal": 3}', "holds no point"),
        ('{"point": [1], "primal": [1, 2]}', "has 'primal' of shape (2,), wanted one number"),
        ("{" * 100_000, "no JSON object"),
        ("PK not an archive", "is no whole archive of arrays"),
    ],
)
def test_what_is_wrong_with_an_answer_is_one_clear_sentence(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "box-planted.answer").write_text(text)
    found, note = verdict(tmp_path)
    assert found == "failed"
    assert words in note
    assert "\n" not in note
    assert len(note) < 300


def test_a_missing_answer_and_two_answers_fail_with_the_names(tmp_path: Path) -> None:
    write_case(tmp_path, BOX)
    assert verdict(tmp_path)[1].startswith("wrote no answer: there is no box-planted.answer")
    as_npz(tmp_path)
    as_json(tmp_path)
    assert verdict(tmp_path)[1] == "wrote more than one answer: box-planted.answer, box-planted.answer.npz"
    for path in tmp_path.glob("*.answer*"):
        path.unlink()
    (tmp_path / "box-planted.answer").mkdir()
    assert verdict(tmp_path)[1] == "wrote box-planted.answer, which is no regular file"


def test_answers_to_other_data_are_refused(tmp_path: Path) -> None:
    as_npz(tmp_path)
    write_case(tmp_path, BOX, seed=1)
    assert verdict(tmp_path)[1].startswith("answers other data")
    write_case(tmp_path, BOX)
    assert verdict(tmp_path)[0] == "verified"
    (tmp_path / "box-planted.json").write_text("[]")
    assert verdict(tmp_path)[1] == "answers box-planted.json, which is no header of a case"


def test_only_the_exported_cases_are_judged_and_the_others_named(tmp_path: Path) -> None:
    write_case(tmp_path, BOX)
    as_npz(tmp_path)
    outcome = cs.verify(on="projection", answers=tmp_path)
    assert [row.case for row in outcome] == ["box-planted"]
    (left_out,) = [said for said in outcome.left_out if said.startswith("not exported to this folder: ")]
    assert "box-signs" in left_out


def test_a_folder_that_is_not_there_and_two_kinds_of_solver_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no folder"):
        cs.verify(answers=tmp_path / "nothing")
    with pytest.raises(ValueError, match="there is no folder"):
        cs.verify(answers="x" * 10_000)
    with pytest.raises(ValueError, match="holds no exported case and no answer, wanted some to judge"):
        cs.verify(answers=tmp_path, on="box-planted")
    with pytest.raises(ValueError, match="a solver and a folder of answers are given"):
        cs.verify(lambda problem: problem, answers=tmp_path)
    with pytest.raises(ValueError, match="answers is 3, wanted a folder with answers"):
        cs.verify(answers=3)  # type: ignore[arg-type]


# -- programs ----------------------------------------------------------------------------------------------------------


def script(tmp_path: Path, text: str) -> str:
    file = tmp_path / "mine.py"
    file.write_text(text)
    return shlex.join([sys.executable, str(file), "{case}", "{answer}"])


def test_a_program_is_run_on_the_case_in_either_form(tmp_path: Path) -> None:
    command = script(
        tmp_path,
        "import json, sys\nimport numpy as np\n"
        "case, answer = sys.argv[1:]\n"
        "header, m = json.load(open(case + '.json')), np.load(case + '.npz')['m']\n"
        "assert m.tolist() == [float(line) for line in open(case + '.m.csv')] and header['point'] == {'a': [40]}\n"
        f"print('noise')\njson.dump({{'point': {BEST.tolist()}}}, open(answer, 'w'))\n",
    )
    row = check(command, BOX)
    assert row.fast.solver.startswith("python")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "wrote no answer: there is no box-planted.answer"),
        ("raise SystemExit(3)", "ended with exit code 3"),
        ("import os; os.abort()", "ended with signal 6"),
        ("import time; time.sleep(60)", "did not return within 1 s"),
    ],
)
def test_a_program_that_fails_is_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    answer = Program(script(tmp_path, text)).answer(BOX, 0, 1.0 if "sleep" in text else 60.0)
    assert words in answer.trouble
    assert not answer.trouble.startswith("raises")


@pytest.mark.parametrize("command", ["./mine {case}", "{case} {answer}x", "./mine '{case} {answer}"])
def test_a_command_without_its_two_places_is_refused(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", command, "--on", "box-planted"]) == 2
    assert "{case}" in capfd.readouterr().err


def test_the_program_in_c_verifies_every_box(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The example of the documentation; where there is no C compiler its text alone is looked at."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert "int main" in SOURCE.read_text()
    if compiler is None:
        return
    program = tmp_path / "box_projection"
    subprocess.run([compiler, "-std=c99", "-Wall", "-Werror", "-o", program, SOURCE, "-lm"], check=True)
    for case in ("box-planted", "box-open", "box-single", "box-corner"):
        command = f"{shlex.quote(str(program))} {{case}} {{answer}}"
        assert main(["verify", command, "--on", case, "--tol", "HIGH", "--json"]) == 0
        (row,) = json.loads(capfd.readouterr().out)["rows"]
        assert row["fast"]["solver"] == "box_projection"
