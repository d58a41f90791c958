"""Builds the site: `sphinx-build -W docs OUT`. Nothing is fetched: MathJax comes from a package, notebooks keep their
committed outputs, and what the package knows (systems, docstrings) is read from it."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import mathjax

import convexstruct as cs
from convexstruct.core.registry import families
from convexstruct.report import release as installed

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

from pages import errata, signatures, systems  # noqa: E402  # beside this file

project, author = "convexstruct", "The convexstruct developers"
release = installed("convexstruct").removeprefix("convexstruct").strip()
extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "myst_nb"]
exclude_patterns: list[str] = []
html_theme = "furo"
html_title = "convexstruct"
html_static_path = html_css_files = ["site.css"]
html_copy_source = html_show_copyright = False
#: Numbers of equations and names of sections in the papers are no links.
suppress_warnings = ["myst.xref_missing", "mystnb.unknown_mime_type"]

# -- notebooks: as committed, never run here
nb_execution_mode = "off"
nb_mime_priority_overrides = [("html", "text/html", 0), ("html", "text/latex", 10)]
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3
myst_update_mathjax = False  # the classes below are its own, and those of the outputs of notebooks

# -- mathematics: MathJax's files beside the pages, in place of a server's
MATHJAX = Path(mathjax.__file__).parent / "static" / "mathjax" / "es5" / "tex-svg-full.js"
mathjax_path = "tex-svg-full.js"
mathjax3_config = {
    "tex": {"processEscapes": True},
    "options": {"processHtmlClass": "tex2jax_process|mathjax_process|math|output_area|text_html"},
}
mathjax4_config = mathjax3_config

# -- docstrings: formulas keep their lines, text is text
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True}
#: The modules whose public names the reference has; of the package itself, those that are defined nowhere else here.
MODULES = {
    "convexstruct": cs,
    "convexstruct.solvers": cs.solvers,
    "convexstruct.estimators": cs.estimators,
    "convexstruct.datasets": cs.datasets,
    "convexstruct.models": cs.models,
    **{f"convexstruct.models.{name}": import_module(f"convexstruct.models.{name}") for name in families()},
    "convexstruct.plots": cs.plots,
    "convexstruct.verification": cs.verification,
}


def as_rst(lines: list[str]) -> list[str]:
    """A docstring of this house as reStructuredText: indented blocks become literal ones, underlined words headings,
    and whatever means something to reStructuredText alone is escaped."""
    out: list[str] = []
    for block in re.split(r"\n[ ]*\n", "\n".join(lines).strip("\n")):
        rows = block.splitlines()
        if not block.strip():
            continue
        if len(rows) > 1 and re.fullmatch(r"-{3,}", rows[1].strip()):
            out += [f".. rubric:: {rows[0]}", ""]
            rows = rows[2:]
            for row in rows:  # an entry a paragraph, what is indented belongs to the one above
                if not row.startswith(" ") and out[-1]:
                    out.append("")
                out.append(_escaped(row.strip()))
        elif all(row.startswith("  ") for row in rows):
            out += [".. code-block:: text", "", *(f"   {row}" for row in rows)]
        elif rows[0].startswith("* "):
            out += [_escaped(row) if not row.startswith("* ") else f"* {_escaped(row[2:])}" for row in rows]
        else:
            out += [_escaped(row.strip()) for row in rows]
        out.append("")
    return out


def _escaped(text: str) -> str:
    parts = re.split(r"(``.+?``|`.+?`|\*\*[^*]+\*\*)", text)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = re.sub(r"([\\*|_`<>])", r"\\\1", part)
        elif part.startswith("**"):
            parts[i] = "\\ **" + re.sub(r"([\\|_`])", r"\\\1", part[2:-2]) + "**\\ "
        else:
            parts[i] = f"\\ ``{part.strip('`')}``\\ "
    return "".join(parts)


def _docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    lines[:] = as_rst(lines)


def _skipped(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Whether a member is left out of the reference: what estimators inherit from scikit-learn, and what files keep."""
    of_others = callable(value) and not str(getattr(value, "__module__", "")).startswith("convexstruct")
    return True if what == "class" and (of_others or name in ("learned", "words")) else None


def _write(path: str, text: str) -> None:
    file = HERE / "build" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def reference() -> None:
    """A page for each public module: its classes with their members, its functions and values."""
    for title, module in MODULES.items():
        rows = [title, "=" * len(title), "", *as_rst((module.__doc__ or "").splitlines())]
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if isinstance(value, type):
                rows += [f".. autoclass:: {title}.{name}"]
                rows += ["   :inherited-members:"] * (module is cs.estimators) + [""]
            elif callable(value):
                rows += [f".. autofunction:: {title}.{name}", ""]
        _write(f"api/{title}.rst", "\n".join(rows))


def _prepare(app: Any) -> None:
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        target = HERE / "build" / "notebooks" / notebook.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(notebook, target)
    _write("errata.md", errata())
    (HERE / "build" / "systems").mkdir(parents=True, exist_ok=True)
    for name, text in systems(HERE / "build" / "systems").items():
        _write(f"systems/{name}.md" if name else "systems.md", text)
    _write("signatures.md", signatures())
    reference()


def _math_beside(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        shutil.copy(MATHJAX, Path(app.outdir) / "_static" / MATHJAX.name)


def setup(app: Any) -> None:
    app.connect("builder-inited", _prepare)
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("autodoc-skip-member", _skipped)
    app.connect("build-finished", _math_beside)
