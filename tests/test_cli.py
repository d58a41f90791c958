from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from convexstruct import cli, experiments
from convexstruct.cli import COMMANDS, Steps, main
from convexstruct.cli_parser import parser
from convexstruct.core.experiment import Experiment, Sheet
from convexstruct.verification import SYSTEMS, Case, cases_for, families, runner
from convexstruct.verification.outcome import Fast, Reference, Row, Verdict

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command line in an empty folder: (exit status, standard output, standard error). In this process alone:
    others know nothing of what a test replaces."""
    monkeypatch.setattr(cli, "one_a_core", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setenv("CONVEXSTRUCT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def command(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(arguments)
        out, err = capfd.readouterr()
        return code, out, err

    return command


def only_object(out: str) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(out, parse_constant=lambda token: pytest.fail(f"{token} is no JSON"))
    return shown


HONEST = "from neighbour import cs\ndef solve(problem):\n    print('noise')\n    return cs.solve(problem)\n"


def test_list_names_each_system_with_paper_and_equations(run: Run) -> None:
    code, out, err = run("list", "--json")
    assert (code, err) == (0, "")
    systems = only_object(out)["systems"]
    assert [system["name"] for system in systems] == [system.name for system in SYSTEMS]
    wanted = ["name", "family", "paper", "equations", "formulation", "solvers", "experiments"]
    assert all(list(system) == wanted for system in systems)
    assert any("generative_margin.primal" in system["formulation"] for system in systems)
    code, out, _ = run("list")
    assert code == 0
    assert "families: energy_network, gaussian_process, generative_margin" in out
    assert len(run("list", "--on", "projection")[1].split("\n\n")) == 3
    assert "--on is 'svm', wanted one of energy_network" in run("list", "--on", "svm")[2]


def test_verify_one_case_as_a_table(run: Run) -> None:
    code, out, err = run("verify", "--on", "hmm-planted")
    assert code == 0
    assert "hmm-planted" in out
    assert "verified" in out.splitlines()[-1]
    assert "verify 1/1: hmm-planted" in err
    assert "--tol has no effect on list" in run("list", "--json", "--tol", "HIGH")[2]


def test_a_solver_from_a_file_is_verified_even_if_it_prints_and_imports_its_neighbour(run: Run) -> None:
    Path("there").mkdir()
    Path("there/mine.py").write_text(HONEST)
    Path("there/neighbour.py").write_text("import convexstruct as cs\n")
    code, out, _ = run("verify", "there/mine.py:solve", "--on", "hmm-planted", "--json")
    shown = only_object(out)
    assert code == 0
    assert shown["rows"][0]["fast"]["solver"] == "mine.py:solve"
    assert shown["rows"][0]["verdict"] == "verified"


def test_a_wrong_solver_ends_with_status_one_and_a_report_all_the_same(run: Run) -> None:
    Path("mine.py").write_text("def solve(problem):\n    return problem.uniform()\n")
    code, out, err = run("verify", "mine.py:solve", "--on", "hmm-planted", "--report", "page.html")
    assert code == 1
    assert "above the optimum" in " ".join(out.split())
    assert "wrote page.html" in err
    page = Path("page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert "above the optimum" in page


def test_no_command_prints_help_and_each_command_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    assert "verify" in capsys.readouterr().out
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        example = capsys.readouterr().out.split("example: ")[1].split()
        assert example[0] == "convexstruct"
        assert parser().parse_args(example[1:]).command == command


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("prove",), "invalid choice: 'prove'"),
        (("verify", "--tol", "fine"), "LOW, MID, HIGH"),
        (("verify", "--seed", "x"), "--seed"),
        (("verify", "--seed", "-1"), "--seed is -1"),
        (("verify", "--limit", "0"), "limit is 0"),
        (("verify", "--on", "hmm"), "on is 'hmm', wanted a family, a system or a case: one of"),
        (("verify", "mine.py"), "wanted FILE.py:NAME"),
        (("verify", "broken.py:solve", "--on", "generative_margin"), "does not load: SyntaxError"),
        (("verify", "ends.py:solve", "--on", "generative_margin"), "ended its process (exit code 1) while loading"),
        (("verify", "--report", "no/page.html"), "there is no folder"),
        (("list", "--report", "/dev/null"), "report '/dev/null' is a device, wanted a regular file"),
        (("verify", "--answers", ""), "answers is '', wanted a folder"),
        (("verify", "--answers", "."), "holds no exported case and no answer"),
        (("export", "new", "--conic", "--text"), "--text goes without --conic"),
        (("export", "new", "--scale", "2"), "--scale is 2, wanted --conic with it"),
        (("list", "--on", "projecton"), "wanted one of 8 names, the nearest projection"),
        (("reproduce", "everything"), "wanted one of"),
        (("verify", "--on", "hmm", "--report", "page.html"), "on is 'hmm'"),
    ],
)
def test_bad_usage_is_one_sentence_status_two_and_writes_nothing(
    run: Run, arguments: tuple[str, ...], words: str
) -> None:
    Path("broken.py").write_text("def solve(:\n")
    Path("ends.py").write_text("import os\nos._exit(1)\n")
    before = sorted(Path().iterdir())
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert [p for p in sorted(Path().iterdir()) if p.name != "__pycache__"] == before


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Commands started by a test take SIGINT even where the tests run in the background, which makes them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("where", ["built_in", "profile"])  # of the first case, and before it
def test_a_signal_before_the_first_row_writes_nothing_and_says_so(
    ending: signal.Signals, where: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, where, lambda *arguments, **options: os.kill(os.getpid(), ending))
    code, out, err = run("verify", "--report", "page.html")
    assert (code, out) == (128 + ending, "")
    assert "interrupted" in err
    assert not list(Path().iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_rows_are_printed_as_they_are_decided_and_an_interrupted_run_reports_those_that_it_has(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "convexstruct", "verify", "--on", "projection"]
    page = tmp_path / "page.html"
    with subprocess.Popen(
        [*command, "--report", str(page)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert any("verify 3/" in line for line in process.stderr)
        head, first = (process.stdout.readline() for _ in range(2))
        assert process.poll() is None  # rows are printed as they are decided
        process.send_signal(signal.SIGTERM)
        out = process.stdout.read()
    assert process.returncode == 128 + signal.SIGTERM
    assert head.split()[:2] == ["case", "reference"]
    assert first.startswith("box-planted ")
    assert "verified" in first
    assert out.splitlines()[-1].startswith("interrupted: ")
    assert "interrupted: " in page.read_text()


def test_a_reader_that_stops_reading_is_no_error() -> None:
    command = [sys.executable, "-m", "convexstruct", "list", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("list --json > /dev/full", "standard output cannot be written: No space left on device"),
        ("--help > /dev/full", "standard output cannot be written: No space left on device"),
        ("list >&-", "standard output is closed, wanted a place for the result"),
    ],
)
def test_a_result_that_cannot_be_written_is_one_sentence_and_status_two(command: str, sentence: str) -> None:
    if "/dev/full" in command and not Path("/dev/full").exists():
        return  # a system without the device that is always full
    line = f"{sys.executable} -m convexstruct {command}"
    done = subprocess.run(line, shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"convexstruct: {sentence}\n")


@pytest.mark.slow
def test_standard_error_that_cannot_be_written_spoils_neither_the_result_nor_the_status() -> None:
    for command, wanted in (("list --json --tol HIGH 2>&-", 0), ("lists 2> /dev/full", 2)):
        if "/dev/full" in command and not Path("/dev/full").exists():
            continue
        line = f"{sys.executable} -m convexstruct {command}"
        done = subprocess.run(line, shell=True, stdout=subprocess.PIPE, text=True, check=False)
        assert done.returncode == wanted
        assert bool(only_object(done.stdout or "{}")) is (wanted == 0)


def test_a_report_that_fits_on_no_disk_does_not_cost_the_result(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code, out, err = run("list", "--json", "--report", "page.html")
    assert code == 2
    assert only_object(out)["systems"]
    assert err == "convexstruct: report 'page.html' cannot be read or written: No space left on device\n"
    assert not list(Path().iterdir())


def toy(monkeypatch: pytest.MonkeyPatch, run: Callable[[Sheet], None], **names: Any) -> None:
    """An experiment called toy."""
    file = ModuleType("toy", "What it shows.")
    vars(file).update(run=run, **names)
    monkeypatch.setitem(experiments.EXPERIMENTS, "toy", Experiment("toy", "none", "paper 9", "A toy", file))


@pytest.fixture
def toy_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    def go(sheet: Sheet) -> None:
        sheet.total = 1
        sheet.step("the only step")
        sheet.rows += [["a", 1.5 + sheet.seed, float("nan")], ["b", None, 2]]
        sheet.notes.append(f"quick is {sheet.quick}")

    toy(monkeypatch, go, COLUMNS=("what", "x", "y"), PUBLISHED={"x": "1.4"})


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", [0, 1])
def test_an_interrupted_solve_of_an_experiment_is_no_result(
    ending: signal.Signals, step: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted solver returns its best iterate, so a table made of it would show a result that is not final."""

    def go(sheet: Sheet) -> None:
        for at in range(2):
            sheet.step("a solve")
            if at == step:
                with contextlib.suppress(KeyboardInterrupt):
                    os.kill(os.getpid(), ending)
        sheet.add("half done")

    toy(monkeypatch, go, COLUMNS=("what",))
    code, out, err = run("reproduce", "toy", "--quick", "--report", "page.html")
    assert (code, out) == (128 + ending, "")
    assert err.endswith("interrupted, nothing was written\n")
    assert not list(Path().iterdir())


@pytest.mark.usefixtures("toy_experiment")
def test_reproduce_prints_the_table_beside_what_was_published(run: Run) -> None:
    code, out, err = run("reproduce", "toy", "--quick", "--seed", "2", "--report", "page.html")
    assert code == 0
    for part in ("A toy", "3.5", "published", "1.4", "quick is True", "paper 9"):
        assert part in out
        assert part in Path("page.html").read_text()
    assert (
        "<code>convexstruct reproduce toy --quick --seed 2 --report page.html</code> · seed 2"
        in Path("page.html").read_text()
    )
    assert "the only step" in err

    shown = only_object(run("reproduce", "toy", "--json")[1])
    assert list(shown) == ["name", "paper", "columns", "rows", "published", "notes", "seconds"]
    assert shown["rows"][0] == ["a", 1.5, None]


def test_data_says_which_sets_are_here(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONVEXSTRUCT_DATA", str(tmp_path))
    code, out, _ = run("data", "--json")
    assert code == 0
    sets = only_object(out)["sets"]
    assert {row["state"] for row in sets} == {"missing"}
    assert "protein" in [row["name"] for row in sets]
    assert "0 of" in run("data")[1]


@pytest.mark.parametrize("width", [cli.WIDTH, 80])
def test_rows_of_several_families_stand_under_their_names_and_what_is_amiss_is_said_again(
    width: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a narrow terminal too every case and its verdict are shown."""

    def decide(case: Case, *arguments: Any, **options: Any) -> Row:
        reference, fast = Reference("primal", "CLARABEL", "optimal", 1.0, 1.0), Fast("x", 1.0, 1.0, 0.0, 1, 0.1)
        verdict: Verdict = "failed" if case.name == "box-kink" else "verified"
        note = "much too far away " * 9 if verdict == "failed" else "as it should be"
        return Row(case.family, case.system, case.name, "p", "e", reference, fast, verdict, note)

    monkeypatch.setattr(runner, "built_in", decide)
    monkeypatch.setattr(cli, "WIDTH", width)
    code, out, _ = run("verify")
    assert code == 1
    lines = out.splitlines()
    for family in families():
        at = lines.index(family)
        assert lines[at + 1].startswith("case ")
        assert lines[at + 2].startswith(cases_for(family)[0].name)
    shown = {line.split()[0]: line for line in lines if line}
    assert {case.name for family in families() for case in cases_for(family)} <= set(shown)
    assert "failed" in shown["box-kink"]
    its = slice(lines.index(shown["box-kink"]), lines.index(shown["box-kink"]) + 6)
    said = " ".join(" ".join(lines[its]).split())  # with the note, in a column or below
    assert ("much too far away " * 9).strip() in said
    assert ("as it should be" in out) == (width > 80)
    assert max(map(len, lines[: its.stop])) <= width
    assert lines.count("box-kink: " + ("much too far away " * 9).strip()) <= 1
    assert "box-kink: much too far away" in out
    assert lines[-1].endswith("verified, 1 failed")


def test_refresh_recomputes_the_references_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refresh(family: str, step: Callable[[Case], None]) -> None:
        for case in cases_for(family, open_only=True)[:2]:
            step(case)

    monkeypatch.setattr(runner, "refresh", refresh)
    code, _, err = run("verify", "--on", "hmm-ties", "--refresh")
    assert code == 0
    steps = [line.split(": ", 1)[1] for line in err.splitlines()]
    assert steps == ["reference of hmm-planted", "reference of hmm-planted-kink", "hmm-ties"]


def test_a_terminal_shows_a_bar_on_standard_error_alone(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Steps("verify") as steps:
        steps(0, 2, "the first")
        steps(2, 2, "")
    out, err = capfd.readouterr()
    assert out == ""
    assert "the first" in err
