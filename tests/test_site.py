"""The site: the code on its pages runs, and what is built of it has no dead link, no error and no missing formula."""

from __future__ import annotations

import html
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from convexstruct.core.registry import families
from convexstruct.verification import cases_for
from tests.browser import opened

DOCS = Path(__file__).resolve().parents[1] / "docs"
HOW = sorted(DOCS.glob("how/*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("page", HOW, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path) -> None:
    for code in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(code, page.name, "exec"), {"__name__": page.stem})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """The site, built without a warning; None where the extra `docs` is not installed."""
    if not all(importlib.util.find_spec(name) for name in ("sphinx", "furo", "myst_nb", "mathjax")):
        return None
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(built / "trees"), str(DOCS)]
    done = subprocess.run([*command, str(built / "html")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return built / "html"


def links(page: Path) -> list[str]:
    return [html.unescape(link) for link in re.findall(r'(?:href|src)="([^"]*)"', page.read_text(encoding="utf-8"))]


@pytest.mark.slow
def test_no_link_is_dead_and_nothing_is_loaded_from_elsewhere(site: Path | None) -> None:
    if site is None:
        return  # the extra `docs` is not installed
    dead, pages = [], sorted(site.rglob("*.html"))
    assert len(pages) > 20
    names = {page: set(re.findall(r'(?:id|name)="([^"]+)"', page.read_text(encoding="utf-8"))) for page in pages}
    for page in pages:
        assert not re.search(
            r'<(?:script|img|iframe)[^>]*src="https?:|<link[^>]*stylesheet[^>]*href="https?:', page.read_text()
        )
        for link in links(page):
            address, _, fragment = unquote(link).partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            target = (page.parent / address.partition("?")[0]).resolve() if address else page
            if not target.exists() or (fragment and target in names and fragment not in names[target]):
                dead.append(f"{page.relative_to(site)}: {link}")
    assert dead == []


@pytest.mark.slow
def test_every_system_has_a_page_with_what_it_states_and_every_open_case_its_signature(site: Path | None) -> None:
    if site is None:
        return  # the extra `docs` is not installed
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (site / "build" / "systems").glob("*.html")}
    systems = [system for family in families().values() for system in family.systems]
    assert len(pages) == len(systems)
    assert all("optimum" in page and ">def</span>" in page for page in pages.values())
    assert all(system.caution for system in systems)
    assert all(">How it fails<" in page and re.search(r'<img [^>]*\.svg"', page) for page in pages.values())
    estimators = (site / "build" / "api" / "convexstruct.estimators.html").read_text(encoding="utf-8")
    assert all(f'id="convexstruct.estimators.ChainTagger.{name}"' in estimators for name in ("predict", "strongest"))
    assert "set_fit_request" not in estimators
    assert sum("\\quad" in page for page in pages.values()) > 0.8 * len(pages)  # the others are stated by loops
    field = pages["conditional-random-field"]
    assert "LBFGS" in field
    assert "BaumWelch" not in field
    shown = (site / "build" / "signatures.html").read_text(encoding="utf-8")
    cases = [case.name for name in families() for case in cases_for(name, open_only=True)]
    assert [name for name in cases if f">{name}<" not in shown] == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(390, False), (1400, True)])
def test_a_browser_shows_the_pages_without_an_error(site: Path | None, width: int, dark: bool) -> None:
    for name in ("index", "build/systems/max-margin-markov-network", "build/signatures", "search"):
        shown = opened(site / f"{name}.html", width, dark) if site is not None else None
        if shown is None:
            return  # the extra `docs` or Chromium is not installed
        assert shown.errors == []
        assert "convexstruct" in shown.dom


@pytest.mark.slow
def test_search_finds_slack_scaling(site: Path | None) -> None:
    shown = opened(site / "search.html", query="q=slack+scaling") if site is not None else None
    if shown is None:
        return  # the extra `docs` or Chromium is not installed
    assert shown.errors == []
    found = re.findall(r'<li[^>]*><a href="([^"#?]*)', shown.dom.partition('id="search-results"')[2])
    assert any(page.endswith("structural-support-vector-machine.html") for page in found), found


@pytest.mark.slow
def test_errata_are_all_there_with_the_mathematics_of_what_is_right(site: Path | None) -> None:
    if site is None:
        return  # the extra `docs` is not installed
    page = (site / "build" / "errata.html").read_text(encoding="utf-8")
    rows = (DOCS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Errata")[2]
    assert page.count("In print:") == sum(line.startswith("| ") for line in rows.splitlines()) - rows.count("| where |")
    assert page.count(r"\begin{align*}") > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", ["0_generative_margin", "4_likelihood"])
def test_a_browser_renders_the_mathematics_of_a_notebook(site: Path | None, name: str) -> None:
    shown = opened(site / "build" / "notebooks" / f"{name}.html") if site is not None else None
    if shown is None:
        return  # the extra `docs` or Chromium is not installed
    assert shown.errors == []
    assert shown.dom.count("<mjx-container") > 30
    assert "data-mjx-error" not in shown.dom
    assert "<pre" in shown.dom
    assert not re.search(r"\$\$\s*\\\\begin", re.sub(r"<(script|pre)\b.*?</\1>", "", shown.dom, flags=re.DOTALL))
