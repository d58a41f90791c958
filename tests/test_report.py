from __future__ import annotations

import re

from matplotlib.figure import Figure

from convexstruct.report import Page, Table


def page() -> Page:
    figure = Figure()
    figure.subplots().plot([1, 2])
    table = Table("a <title>", ["case", "gap", "verdict"], [["one & two", "1e-5", "verified"], ["x", "-", "failed"]])
    return Page("A report", "1 verified, 1 failed", [table], ["a note"], {"A picture": figure})


def test_the_page_loads_nothing_from_elsewhere() -> None:
    text = page().html()
    assert not re.findall(r'(?:src|href)="(?!data:)', text)
    assert "<script" not in text
    assert "url(" not in text
    assert text.count("data:image/svg+xml") == 1


def test_text_is_escaped_and_numbers_and_verdicts_are_marked() -> None:
    text = page().html()
    assert "a &lt;title&gt;" in text
    assert "one &amp; two" in text
    assert '<td class="number">1e-5</td>' in text
    assert '<td class="number">-</td>' in text
    assert '<td class="failed">failed</td>' in text
    assert "<th class=number>gap</th>" in text


def test_the_page_says_when_and_with_what() -> None:
    text = page().html()
    for part in ("convexstruct ", "cvxpy ", "Python 3", "UTC", "A report", "a note", "A picture"):
        assert part in text
