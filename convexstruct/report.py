"""One self-contained page: a heading, facts, tables and pictures; nothing is loaded from elsewhere."""

from __future__ import annotations

import html
import inspect
import itertools
import platform
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from convexstruct.core.cases import Case
    from convexstruct.core.certificates import Problem
    from convexstruct.core.experiment import Experiment
    from convexstruct.core.registry import Family

#: A column with a cell of more characters is prose, whose lines may be folded.
PROSE = 40


#: What a report of a verification says first.
COMPARED = """Each case is solved by a reference, a formulation in CVXPY or its stored optimum, and by the solver on
trial. Bounds on the optimum are computed from the problem and the points alone, and the gap between them is relative. A
case is verified where the bounds agree with the reference and the gap is as small as was asked."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fff; --faint: #555; --line: #ddd; --card: #f5f5f3;
  --good: #00664b; --bad: #a83f00; --open: #7a5500; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e3; --paper: #17181a; --faint: #a9aaad; --line: #3b3d41;
  --card: #222427; --good: #3fcfa4; --bad: #ff9d66; --open: #f0c050; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 76rem;
  margin: 2rem auto; padding: 0 1.2rem; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p.facts { color: var(--faint); margin: .2rem 0; } p.lead { font-size: 1.1rem; }
details { background: var(--card); border-radius: 6px; padding: .5rem .9rem; margin: .6rem 0; max-width: 60rem; }
summary { font-weight: 600; cursor: pointer; }
div.wide, pre { overflow-x: auto; } pre { font-size: .85rem; line-height: 1.35; }
table { border-collapse: collapse; font-size: .87rem; } th { text-align: left; border-bottom: 2px solid var(--faint); }
th.number { text-align: right; } td:first-child { white-space: nowrap; }
th, td { padding: .28rem .7rem .28rem 0; vertical-align: top; } td { border-bottom: 1px solid var(--line); }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; text-align: right; }
td.prose { min-width: 14rem; }
td.verified { color: var(--good); font-weight: 600; } td.failed { color: var(--bad); font-weight: 600; }
td.unverified { color: var(--open); font-weight: 600; }
dl { margin: 0 0 1.2rem; } dt { font-weight: 600; } dd { margin: 0 0 .15rem 1.2rem; } dd b { font-weight: 500;
  color: var(--faint); }
math { margin: .8rem 0; } mtd { text-align: left; }
img { width: 100%; display: block; background: #fff; border-radius: 6px; } figure { margin: 1rem 0; }
figcaption { color: var(--faint); font-size: .87rem; }
@media (prefers-color-scheme: dark) { img { filter: brightness(.88); } }
@media (max-width: 600px) { body { padding: 0 .7rem; margin: 1rem auto; } td:first-child { white-space: normal; } }
"""


@dataclass(frozen=True)
class Table:
    """A titled table of text; columns that read as numbers are set to the right. stanzas : whether a row is shown as a
    paragraph, with a line for each cell, because its cells are long."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    stanzas: bool = False

    def paragraphs(self, width: int | None) -> Iterator[str]:
        """The lines of a paragraph a row: its first cell, then each other cell that is not empty beside its heading,
        folded to ``width`` characters; None folds nothing, so that a program reads a cell a line."""
        indent = max(map(len, self.heads[1:])) + 4
        for row in self.rows:
            for at, (head, cell) in enumerate(zip(self.heads, row)):
                lead = f"  {head}".ljust(indent) if at else ""
                if cell:
                    yield from textwrap.wrap(
                        cell, len(lead + cell) if width is None else max(width, 2 * indent), initial_indent=lead,
                        subsequent_indent=" " * len(lead), break_on_hyphens=False,
                    )  # fmt: skip
            yield ""


@dataclass(frozen=True)
class Page:
    """What a report shows.

    lead : the result in one line. notes : sentences. figures : by caption. about : what is solved and why, by title,
    as docstrings write it (`prose`). command : the command line; seed : that of generated instances, None for none.
    """

    title: str
    lead: str
    tables: Sequence[Table]
    notes: Sequence[str] = ()
    figures: Mapping[str, Figure] | None = None
    about: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    seed: int | None = None

    def html(self) -> str:
        seed = "" if self.seed is None else f" · seed {self.seed}"
        run = f'<p class="facts"><code>{html.escape(self.command)}</code>{seed}</p>' if self.command else ""
        parts = [
            f"<h1>{html.escape(self.title)}</h1>",
            f'<p class="facts">{html.escape(facts())}</p>',
            run,
            f'<p class="lead">{html.escape(self.lead)}</p>',
        ]
        for title, text in self.about.items():
            shown = " open" if len(self.about) <= 2 else ""
            parts.append(f"<details{shown}><summary>{html.escape(title)}</summary>{prose(text)}</details>")
        parts.extend(_table(table) for table in self.tables)
        parts.extend(_figure(caption, figure) for caption, figure in (self.figures or {}).items())
        if self.notes:
            items = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
            parts.append(f"<h2>Notes</h2><ul>{items}</ul>")
        head = (
            '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(self.title)}</title><style>{STYLE}</style>"
        )
        body = "\n".join(parts)
        return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _figure(caption: str, figure: Figure) -> str:
    from convexstruct.plots import embedded

    # At 72 pixels an inch text of 10 points is 10 pixels high; on narrower screens the picture is scrolled.
    inches = figure.get_figwidth()
    width = f"min-width: {72 * inches:.0f}px; max-width: {120 * inches:.0f}px"
    said = html.escape(caption)
    image = f'<div class="wide"><img src="{embedded(figure)}" alt="{said}" style="{width}"></div>'
    return f"<figure>{image}<figcaption>{said}</figcaption></figure>"


def prose(text: str) -> str:
    """A docstring as HTML: paragraphs, indented blocks as they stand, lists, ``code``, and **bold** words; blocks of
    LaTeX as mathematics."""
    parts = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if block.startswith(r"\begin{align*}"):
            parts.append(f'<div class="wide">{mathematics(block)}</div>')
            continue
        if all(line.startswith("  ") for line in block.splitlines()):
            parts.append(f"<pre>{html.escape(textwrap.dedent(block))}</pre>")
            continue
        lines = html.escape(block)
        lines = re.sub(r"(``?)(.+?)\1", r"<code>\2</code>", lines, flags=re.DOTALL)
        lines = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", lines, flags=re.DOTALL)
        lines = re.sub(r"(?<!\S)\*(\w[^*]*?)\*(?!\w)", r"<i>\1</i>", lines)
        if lines.startswith("* "):
            lines = "".join(f"<li>{item}</li>" for item in re.split(r"^\* ", lines, flags=re.MULTILINE)[1:])
        parts.append(f"<ul>{lines}</ul>" if lines.startswith("<li>") else f"<p>{lines}</p>")
    return "".join(parts)


def mathematics(align: str) -> str:
    """An ``align*`` environment of LaTeX as MathML, which a browser shows without a script; what ``\\tag`` numbers its
    lines with stands in a column of its own."""
    from latex2mathml.converter import convert

    tags = re.sub(r"\\tag\{((?:[^{}]|\{[^{}]*\})*)\}", r"& \\quad \\text{(\1)}", align).replace(r"\_", "_")
    table = tags.replace("{align*}", "{array}").replace(r"\begin{array}", r"\begin{array}{lll}")
    shown: str = convert(table.replace(r"\{", r"\lbrace ").replace(r"\}", r"\rbrace "), display="block")
    return shown


def statement(family: Family, names: Collection[str] = ()) -> str:
    """The problem of a family as the file that defines it states it: its docstring up to the paragraph after the
    formula. names : the problem's class, where the family has several; the first class of the family unless named."""
    blocks = re.split(r"\n\s*\n", inspect.getdoc(sys.modules[_problem(family, names).__module__]) or "")
    formula = [i for i, block in enumerate(blocks) if block.startswith("  ")]
    ends = (i for i, block in enumerate(blocks) if formula and i > formula[0] and i not in formula)
    last = next((i for i in ends if not blocks[i].endswith((",", ":"))), len(blocks))
    return "\n\n".join(block for block in blocks[: last + 1] if not block.startswith("**"))


def _problem(family: Family, names: Collection[str]) -> type[Problem]:
    return next((each for each in family.problems if each.__name__ in names), family.problems[0])


def about_experiment(experiment: Experiment) -> dict[str, str]:
    """What an experiment does and why, the docstring of its file; and the problem of its family, in words and as the
    first formulation of its cases that is one program states it."""
    from convexstruct.core.registry import families

    told = {experiment.title: inspect.getdoc(experiment.file) or ""}
    if (family := families().get(experiment.family)) is not None:
        names = vars(experiment.file)
        cases = (case for case in family.cases if isinstance(case.build(), _problem(family, names)))
        stated = itertools.islice(formulations(cases), 2)
        told["The problem"] = "\n\n".join([statement(family, names), *stated])
    return told


def about_cases(names: Collection[str]) -> dict[str, str]:
    """What a verification of these cases compares; of each of their families the problem, and as mathematics what the
    formulations state that the cases have for their references."""
    from convexstruct.core.registry import families

    told = {"What is compared": COMPARED}
    for family in families().values():
        cases = [case for case in family.cases if case.name in names]
        stated = [statement(family), *formulations(cases)]
        told |= {f"The problem: {family.title}": "\n\n".join(stated)} if cases else {}
    return told


def formulations(cases: Iterable[Case]) -> Iterator[str]:
    """Who states each of the formulations that these cases have for references, and its LaTeX, where it is one program
    and no loop."""
    from convexstruct.verification.references import formulate

    for case in {case.formulation: case for case in cases}.values():
        latex = getattr(formulate(case, case.make(0)), "latex", "")
        if latex:
            yield f"``{case.formulation}``, by ``convexstruct.models.{case.family}.{case.formulation}``:"
            yield latex


def release(name: str) -> str:
    """A package and its installed version, "numpy 2.0.1"; the name alone where it is not installed."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name


def facts() -> str:
    """When and with what: the date, the versions, the commit where there is one, the machine's architecture."""
    found = [*map(release, ("convexstruct", "numpy", "scipy", "cvxpy")), f"Python {platform.python_version()}"]
    today = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return " · ".join(part for part in (today, ", ".join(found), commit(), platform.machine()) if part)


def commit() -> str:
    """ "commit 0123456789ab" of the checkout that runs, with "-dirty" where files were changed; "" outside of one."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists() or shutil.which("git") is None:
        return ""
    command = ["git", "-c", "safe.directory=*", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return f"commit {done.stdout.strip()}" if done.returncode == 0 else ""


def _table(table: Table) -> str:
    if table.stanzas:
        return "".join(_stanza(table.heads, row) for row in table.rows)
    numbers = [bool(table.rows) and all(is_number(row[at]) for row in table.rows) for at in range(len(table.heads))]
    head = "".join(
        f"<th{' class=number' if right else ''}>{html.escape(cell)}</th>" for cell, right in zip(table.heads, numbers)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row, numbers))}</tr>" for row in table.rows)
    title = f"<h2>{html.escape(table.title)}</h2>" if table.title else ""
    return f'{title}<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _stanza(heads: Sequence[str], row: Sequence[str]) -> str:
    name, *cells = map(html.escape, row)
    facts = "".join(f"<dd><b>{head}</b> {cell}</dd>" for head, cell in zip(heads[1:], cells) if cell)
    return f"<dl><dt>{name}</dt>{facts}</dl>"


def _cell(text: str, right: bool) -> str:
    kind = text if text in ("verified", "failed", "unverified") else "number" if right else ""
    kind = kind or ("prose" if len(text) > PROSE else "")
    return f'<td class="{kind}">{html.escape(text)}</td>' if kind else f"<td>{html.escape(text)}</td>"


def is_number(text: str) -> bool:
    """Whether a cell reads as a number; a dash stands for one that is missing."""
    try:
        float(text)
    except ValueError:
        return text == "-"
    return True
