"""The command line: ``convexstruct list | verify | export | reproduce | data``.

Standard output carries the result alone: tables, or with ``--json`` one object. Progress and errors go to standard
error. Exit status: 0 all verified, 1 something is not, 2 bad usage or input (one sentence, nothing half written), 128
and the signal's number where a verification was interrupted (what was decided until then is reported).
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from convexstruct.cli_parser import parser
from convexstruct.files import check_writable, write_whole
from convexstruct.processes import Ending, one_a_core
from convexstruct.report import PROSE, Page, Table, about_cases, about_experiment, is_number
from convexstruct.streams import in_one_line, mute, say
from convexstruct.tolerances import MID, profile
from convexstruct.validation.arguments import choice, seed, sentence
from convexstruct.validation.arguments import whole as whole_number

if TYPE_CHECKING:
    from rich.console import Console

    from convexstruct.core.experiment import Experiment
    from convexstruct.core.experiment import Result as Found
    from convexstruct.verification.lines import Lines
    from convexstruct.verification.outcome import Outcome, Row

#: Processes that share a verification at most: each takes a second to start, and up to 400 MiB.
VERIFYING = 4
#: Width of tables where standard output is no terminal.
WIDTH = 170
#: Colours of the verdicts: of a cell in a table, and of a whole line, in which "verified" is not coloured.
CELLS = {"verified": "green", "failed": "bold red", "unverified": "yellow"}
COLOURS = {**CELLS, "verified": ""}


@dataclass(frozen=True)
class Result:
    """The result of a command. code : exit status. json : the object for ``--json``. page : tables, notes and pictures.
    shown : the part of the page to print at the end, where the rest has been printed already; None for all of it."""

    code: int
    json: dict[str, Any]
    page: Page
    shown: Page | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    if sys.stderr is None:  # closed: print(file=None) would write errors to standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # it stays open as long as the process
    if sys.stdout is None:
        return _fail("standard output is closed, wanted a place for the result")
    try:
        words = sys.argv[1:] if arguments is None else arguments
        given = parser().parse_args(words or ["--help"])
        given.words = words
        if given.report is not None:
            check_writable(given.report, "report")
        seed("--seed", given.seed)
        if given.tol is not None:
            profile(given.tol)
            if given.command != "verify":
                say(f"--tol has no effect on {given.command}")
        result = COMMANDS[given.command](given)
    except SystemExit as ended:  # --help and --version have printed what they print
        raise SystemExit(_shown(int(ended.code or 0))) from None
    except (ValueError, OSError) as error:
        return _fail(in_one_line(error))
    except KeyboardInterrupt as ended:
        say("interrupted, nothing was written")
        return int(ended.args[0]) if ended.args else 130
    return _deliver(result, given)


def _deliver(result: Result, given: argparse.Namespace) -> int:
    """Write the report and print the result; where the report cannot be written, the result is printed all the same."""
    code = result.code
    if given.report is not None:
        try:
            page = replace(result.page, command=shlex.join(("convexstruct", *given.words)), seed=given.seed)
            write_whole(given.report, page.html(), "report")
            say(f"wrote {given.report}", prefix="")
        except (ValueError, OSError) as error:
            code = _fail(in_one_line(error))
    try:
        _print(result, given.json)
    except BrokenPipeError:
        mute(sys.stdout)
        return code
    except OSError as error:
        return _unprinted(error)
    return _shown(code)


def _shown(code: int) -> int:
    """The exit status, once all of standard output has left the process."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        mute(sys.stdout)
    except OSError as error:
        return _unprinted(error)
    return code


def _unprinted(error: OSError) -> int:
    mute(sys.stdout)
    return _fail(f"standard output cannot be written: {error.strerror or error}")


def _fail(sentence: str) -> int:
    say(sentence)
    return 2


def _print(result: Result, as_json: bool) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a letter that the terminal lacks is no reason to fail
    if as_json:
        from convexstruct.verification.outcome import strict_json

        print(strict_json(result.json))
        return
    from rich.table import Table as Grid
    from rich.text import Text

    console, page = _console(), result.shown or result.page
    for table in page.tables:
        if table.stanzas:
            for line in table.paragraphs(console.width if sys.stdout.isatty() else None):
                console.print(Text(line, style="" if line.startswith(" ") else "bold"), soft_wrap=True)
            continue
        grid = Grid(title=table.title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
        for position, head in enumerate(table.heads):
            numbers = bool(table.rows) and all(is_number(row[position]) for row in table.rows)
            short = numbers or max((len(row[position]) for row in table.rows), default=0) <= PROSE
            grid.add_column(head, justify="right" if numbers else "left", overflow="fold", no_wrap=short)
        for row in table.rows:
            grid.add_row(*(Text(cell, style=CELLS.get(cell, "")) for cell in row))
        console.print(grid)
    for note in page.notes:
        console.print(Text(note))
    console.print(Text(page.lead, style="bold"))


def _console() -> Console:
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise  # rich would end the process; whoever prints goes on without

    return Ours(width=None if sys.stdout.isatty() else WIDTH, highlight=False)


# -- list --------------------------------------------------------------------------------------------------------------


def list_systems(given: argparse.Namespace) -> Result:
    from convexstruct.core.registry import families, systems

    if given.on is not None:
        choice("--on", given.on, families())
    rows = [system.row() for system in systems() if given.on in (None, system.family)]
    heads = {"system": "name", "family": "family", "paper": "paper", "equations": "equations",
             "formulations": "formulation", "solvers": "solvers", "reproduce": "experiments"}  # fmt: skip
    short = [row | {"formulation": row["formulation"].replace(f"{row['family']}.", "")} for row in rows]
    shown = [[_joined(row[key]) for key in heads.values()] for row in short]
    lead = f"{len(rows)} systems; families: {', '.join(dict.fromkeys(row['family'] for row in rows))}"
    return Result(0, {"systems": rows}, Page("convexstruct list", lead, [Table("", list(heads), shown, stanzas=True)]))


def _joined(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


# -- verify ------------------------------------------------------------------------------------------------------------


def verify(given: argparse.Namespace) -> Result:
    """Each row is printed as it is decided; an interrupted run reports those it has, with exit status 128 + signal."""
    with Ending() as ending, Steps(given.command) as steps, one_a_core(most=VERIFYING) as executor:
        from convexstruct.verification.answers import is_command
        from convexstruct.verification.isolation import split
        from convexstruct.verification.runner import verify as run

        if given.solver is not None and not is_command(given.solver):
            split(given.solver)
        rows = None if given.json else _Rows(given, steps)
        outcome = run(
            given.solver,
            given.on,
            answers=given.answers,
            tol=MID if given.tol is None else given.tol,
            quick=given.quick,
            seed=given.seed,
            limit=given.limit,
            refresh_references=given.refresh,
            progress=steps,
            decided=rows,
            executor=executor,
        )
    if outcome.interrupted and not outcome.rows:
        raise KeyboardInterrupt(ending.code)
    code = ending.code if outcome.interrupted else 0 if outcome.ok else 1
    if rows is not None and rows.trouble is not None:
        code = _unprinted(rows.trouble)
    page = verification_page(outcome, bool(given.report))
    several = len(outcome.families()) > 1
    amiss = [f"{row.case}: {row.note}" for row in outcome if several and row.verdict != "verified"]
    return Result(
        code, outcome.as_json(), page, replace(page, tables=page.tables[:several], notes=[*amiss, *page.notes])
    )


class _Rows:
    """Prints each row of a verification when it is decided. trouble : why standard output cannot be written."""

    def __init__(self, given: argparse.Namespace, steps: Steps) -> None:
        self.trouble: OSError | None = None
        self._given = given
        self._steps = steps
        self._lines: Lines | None = None
        self._console: Any = None

    def __call__(self, row: Row) -> None:
        from rich.text import Text

        if self._lines is None:
            from convexstruct.verification.cases import select
            from convexstruct.verification.lines import Lines

            self._console, given = _console(), self._given
            own = given.solver is not None or given.answers is not None
            cases = select(given.on, quick=given.quick, open_only=own)
            self._lines = Lines(cases, self._console.width, timed=not own)
        try:
            with self._steps.paused():
                for line in self._lines.of(row):
                    self._console.print(Text(line, style=COLOURS[row.verdict]), soft_wrap=True)
                sys.stdout.flush()
        except BrokenPipeError:
            mute(sys.stdout)
        except OSError as error:
            self.trouble = self.trouble or error
            mute(sys.stdout)


def verification_page(outcome: Outcome, pictures: bool) -> Page:
    """A line a family where there are several, the table of each, what was left out, and pictures."""
    families = outcome.families()
    several = len(families) > 1
    tables = [Table("", *outcome.summary())] if several else []
    figures = {}
    for name, part in families.items() if several else [("", outcome)]:
        tables.append(Table(name, *part.cells()))
        if pictures and part.rows:
            from convexstruct.plots import compare, traces

            of = f"{name}: certified" if several else "Certified"
            figures[f"{of} relative gap of each case, and seconds."] = compare(part.rows)
            drawn = traces(part.rows)
            if drawn is not None:
                figures[f"{of} bounds against seconds, and the reference optimum."] = drawn
    notes = [f"left out: {sentence}" for sentence in outcome.left_out]
    about = about_cases({row.case for row in outcome.rows}) if pictures else {}
    return Page(outcome.title, outcome.count(), tables, notes, figures, about)


# -- export ------------------------------------------------------------------------------------------------------------


def export(given: argparse.Namespace) -> Result:
    """What was written before an interruption is whole, and listed."""
    from convexstruct.verification import export_cones, export_folder

    whole_number("--scale", given.scale, least=1)
    if given.conic and given.text:
        raise sentence("--text goes without --conic: cone programs are written as CBF, which is text, and NPZ")
    if given.scale > 1 and not given.conic:
        raise sentence(f"--scale is {given.scale}, wanted --conic with it: cases as such have one size")
    asked = (given.folder, given.on, given.quick, given.seed)
    with Ending() as ending, Steps(given.command) as steps:
        if given.conic:
            whole, shown, page = export_cones.export(*asked, given.scale, steps)
        else:
            whole, shown, page = export_folder.export(*asked, given.text, steps)
    return Result(0 if whole else ending.code, shown, page)


# -- reproduce ---------------------------------------------------------------------------------------------------------


def reproduce(given: argparse.Namespace) -> Result:
    from convexstruct.experiments import EXPERIMENTS

    choice("experiment", given.name, EXPERIMENTS)
    experiment = EXPERIMENTS[given.name]
    with Ending() as ending:

        def next_step(done: int, total: int, name: str) -> None:
            ending.check()
            steps(done, total, name)

        with Steps(given.command) as steps, one_a_core(given.quick) as executor:
            found = experiment.run(given.quick, given.seed, next_step, executor)
        ending.check()
    return Result(0, found.as_json(), experiment_page(experiment, found))


def experiment_page(experiment: Experiment, found: Found) -> Page:
    """The table of an experiment, what was published beside it, and its pictures."""
    tables = [Table(experiment.title, list(found.columns), [[_text(cell) for cell in row] for row in found.rows])]
    if found.published:
        published = [[name, _text(value)] for name, value in found.published.items()]
        tables.append(Table("published", ["what", "value"], published))
    lead = f"{found.name}, {found.paper}: {found.seconds:.1f} s"
    return Page(
        f"convexstruct reproduce {found.name}", lead, tables, found.notes, found.figures, about_experiment(experiment)
    )


def _text(value: Any) -> str:
    from convexstruct.verification.outcome import number

    if value is None:
        return "-"
    return number(value, 5) if isinstance(value, float) else str(value)


# -- data --------------------------------------------------------------------------------------------------------------


def data(given: argparse.Namespace) -> Result:
    from convexstruct.datasets.real.sources import available

    rows = [presence.row() for presence in available()]
    heads = ["name", "state", "title", "detail", "licence"]
    shown = [[_joined(row[head]) for head in heads] for row in rows]
    here = sum(row["state"] == "here" for row in rows)
    lead = f"{here} of {len(rows)} sets are here"
    return Result(0, {"sets": rows}, Page("convexstruct data", lead, [Table("", heads, shown)]))


COMMANDS = {"list": list_systems, "verify": verify, "export": export, "reproduce": reproduce, "data": data}


class Steps:
    """Shows how far a run has come, on standard error: a bar on a terminal, else one line a step."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Steps:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            )  # fmt: skip
            # No thread that refreshes by itself: solvers on trial are forked from this process.
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=None)
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Without the bar, for a line of output in between."""
        if self._bar is not None:
            self._bar.stop()
        try:
            yield
        finally:
            if self._bar is not None:
                self._bar.start()

    def __call__(self, done: int, total: int, name: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, description=name or self._title)
            self._bar.refresh()
        elif name:
            say(f"{self._title} {done + 1}/{total}: {name}", prefix="")
