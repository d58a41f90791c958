"""One self-contained page: a heading, facts, tables and pictures; nothing is loaded from elsewhere."""

from __future__ import annotations

import html
import platform
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A column with a cell of more characters is prose, whose lines may be folded.
PROSE = 40

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1c1c1c; max-width: 76rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p.facts { color: #555; margin-top: 0; } p.lead { font-size: 1.1rem; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; } th { text-align: left; border-bottom: 2px solid #999; }
th.number { text-align: right; } td:first-child { white-space: nowrap; }
th, td { padding: .28rem .7rem .28rem 0; vertical-align: top; } td { border-bottom: 1px solid #e4e4e4; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; text-align: right; }
td.verified { color: #2e7d4f; font-weight: 600; } td.failed { color: #b3261e; font-weight: 600; }
td.unverified { color: #8a6508; font-weight: 600; }
img { max-width: 100%; display: block; } figure { margin: 1rem 0; } figcaption { color: #555; font-size: .87rem; }
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
    """What a report shows. lead : the result in one line. notes : sentences. figures : by caption."""

    title: str
    lead: str
    tables: Sequence[Table]
    notes: Sequence[str] = ()
    figures: Mapping[str, Figure] | None = None

    def html(self) -> str:
        from convexstruct.plots import embedded

        parts = [
            f"<h1>{html.escape(self.title)}</h1>",
            f'<p class="facts">{html.escape(facts())}</p>',
            f'<p class="lead">{html.escape(self.lead)}</p>',
        ]
        parts.extend(_table(table) for table in self.tables)
        for caption, figure in (self.figures or {}).items():
            image = f'<img src="{embedded(figure)}" alt="{html.escape(caption)}">'
            parts.append(f"<figure>{image}<figcaption>{html.escape(caption)}</figcaption></figure>")
        if self.notes:
            items = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
            parts.append(f"<h2>Notes</h2><ul>{items}</ul>")
        head = (
            '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(self.title)}</title><style>{STYLE}</style>"
        )
        body = "\n".join(parts)
        return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def release(name: str) -> str:
    """A package and its installed version, "numpy 2.0.1"; the name alone where it is not installed."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name


def facts() -> str:
    """When and with what: the date, the versions, the machine's architecture."""
    found = map(release, ("convexstruct", "numpy", "scipy", "cvxpy"))
    today = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{today} · {', '.join(found)} · Python {platform.python_version()} · {platform.machine()}"


def _table(table: Table) -> str:
    numbers = [bool(table.rows) and all(is_number(row[at]) for row in table.rows) for at in range(len(table.heads))]
    head = "".join(
        f"<th{' class=number' if right else ''}>{html.escape(cell)}</th>" for cell, right in zip(table.heads, numbers)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row, numbers))}</tr>" for row in table.rows)
    title = f"<h2>{html.escape(table.title)}</h2>" if table.title else ""
    return f'{title}<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(text: str, right: bool) -> str:
    kind = text if text in ("verified", "failed", "unverified") else "number" if right else ""
    return f'<td class="{kind}">{html.escape(text)}</td>' if kind else f"<td>{html.escape(text)}</td>"


def is_number(text: str) -> bool:
    """Whether a cell reads as a number; a dash stands for one that is missing."""
    try:
        float(text)
    except ValueError:
        return text == "-"
    return True
