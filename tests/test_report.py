from __future__ import annotations

import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from convexstruct.core import registry
from convexstruct.core.experiment import Experiment
from convexstruct.experiments import EXPERIMENTS
from convexstruct.report import Page, Table, about_cases, about_experiment, facts, mathematics, prose
from tests.browser import opened


def page() -> Page:
    figure = Figure()
    figure.subplots().plot([1, 2])
    about = {"What is solved": "A problem.\n\n    min x'Q x  <= 1\n\nWith `Q` positive."}
    table = Table("a <title>", ["case", "gap", "verdict"], [["one & two", "1e-5", "verified"], ["x", "-", "failed"]])
    return Page("A report", "1 verified, 1 failed", [table], ["a note"], {"A picture": figure}, about)


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


def test_docstrings_are_shown_with_their_formulas_as_they_stand() -> None:
    shown = prose("First, `code` and **bold** of ``a < b``.\n\n    min  x'x\n      s.t. x > 0\n\n* one\n* two *words*")
    assert shown == (
        "<p>First, <code>code</code> and <b>bold</b> of <code>a &lt; b</code>.</p>"
        "<pre>min  x&#x27;x\n  s.t. x &gt; 0</pre><ul><li>one\n</li><li>two <i>words</i></li></ul>"
    )


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda one: one.name)
def test_a_report_says_what_is_solved_and_why_with_the_formula(experiment: Experiment) -> None:
    why, problem = about_experiment(experiment).values()
    assert len(why) > 60
    assert "\n    " in problem
    assert not problem.endswith((",", ":"))
    assert "<pre>" in prose(problem)
    # Contrastive divergence trains what no formulation states: the sums of its fields are sampled.
    assert ("<math " in prose(problem)) == (experiment.name != "contrastive-divergence")


def test_a_verification_says_what_is_compared_and_the_problem_of_each_family() -> None:
    families = registry.families().values()
    told = about_cases({case.name for family in families for case in family.cases})
    assert len(told) == 1 + len(families)
    assert all("<math " in prose(text) for text in list(told.values())[1:])


def test_the_commit_is_named_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convexstruct.report.commit", lambda: "commit 0123456789ab")
    assert "commit 0123456789ab" in facts()


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_shows_the_page_without_errors_and_without_scrolling_sideways(tmp_path: Path, dark: bool) -> None:
    measure = """<script>
      const paper = getComputedStyle(document.body).backgroundColor, page = document.documentElement;
      document.title = JSON.stringify([page.scrollWidth - page.clientWidth, paper, document.images[0].complete]);
    </script>"""
    (tmp_path / "page.html").write_text(page().html().replace("</body>", f"{measure}</body>"))
    shown = opened(tmp_path / "page.html", width=400, dark=dark)
    if shown is None:
        return  # no Chromium here
    assert shown.errors == []
    title = re.search(r"<title>\[(\d+),\"(.*?)\",(\w+)\]</title>", shown.dom)
    assert title is not None
    assert title.groups() == ("0", "rgb(23, 24, 26)" if dark else "rgb(255, 255, 255)", "true")


def test_mathematics_has_its_equation_numbers_and_braces() -> None:
    shown = mathematics(
        r"""\begin{align*}
\min_w\quad & \max\{ w, \tfrac12 \} \tag{P} \\
\text{subject to}\quad & w \ge 0 \tag{a\_b}
\end{align*}"""
    )
    assert shown.count("<mtr>") == 2
    assert "(P)" in shown
    assert "\\" not in shown
