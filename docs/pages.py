"""Pages of the site that are made of the registry: one a system, and the signatures of the cases."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import convexstruct as cs
from convexstruct.core.cases import Case
from convexstruct.core.registry import Family, System, families
from convexstruct.models import FORMULATIONS
from convexstruct.tolerances import HIGH

ROOT = Path(__file__).resolve().parents[1]
#: What a page runs, and a reader can: at most ten lines.
PROGRAM = """import convexstruct as cs
from convexstruct.verification import cases_for

case = next(case for case in cases_for("{family}") if case.name == "{case}")
problem = case.build()
solution = cs.solve(problem)
low, high = solution.lower_bound, solution.primal
print(f"{{solution.status.name}}: {{low:.6g}} <= optimum <= {{high:.6g}}")
"""
#: Two more, where the formulation is one program that needs the problem alone.
STATED = """stated = cs.models.FORMULATIONS["{entry}"].builder(problem)
print(f"CVXPY: {{stated.reference().value:.6g}}")
"""


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def linked(name: str, module: str = "convexstruct.solvers") -> str:
    """A name as a link into the reference."""
    return f"{{py:obj}}`{name} <{module}.{name}>`"


def takes(solver: type, problem: Any) -> bool:
    """Whether the solver takes the problem: what it does not, it refuses before its first round."""
    try:
        cs.solve(problem, solver(), max_iterations=1, time_limit=5.0)
    except (ValueError, TypeError, AttributeError):
        return False
    return True


def system_page(family: Family, system: System, picture: Path) -> str:
    """The page of one system: what is stated, by which code, what solves it, and how it fails. The picture of the run
    that the page shows is drawn into the file ``picture``."""
    cases = [case for case in family.cases if case.system == system.name and case.open]
    stated = {name: _shown(cases, name) for name in system.formulation}
    first = min(cases, key=lambda case: (not stated.get(case.formulation), case.arguments is not None, not case.quick))
    problem = first.build()
    solver, why = family.best(problem, HIGH)
    default = type(solver).__name__
    others = [one.__name__ for one in family.solvers if one.__name__ in system.solvers and takes(one, problem)]
    rest = ", ".join(linked(name) for name in others if name != default)
    kind = type(problem).__name__
    parts = [
        f"# {system.name[0].upper()}{system.name[1:]}\n",
        f"{system.paper}: {system.equations}. Family [{family.name}](../api/convexstruct.models.{family.name}.rst): "
        f"{family.title}. Problems are {linked(kind, 'convexstruct') if kind in cs.__all__ else f'`{kind}`'}.\n",
        "## What is solved\n",
    ]
    for name, latex in stated.items():
        entry = FORMULATIONS[f"{family.name}.{name}"]
        link = linked(name, f"convexstruct.models.{family.name}")
        parts.append(f"{link}: {entry.title} ({entry.paper}; {entry.equations})\n")
        if latex:
            parts.append(f"$$\n{latex}\n$$\n")
        code = inspect.getsource(inspect.unwrap(entry.builder)).rstrip()
        parts.append(f"<details><summary><code>{file_of(entry.builder)}</code></summary>\n")
        parts.append(f"```python\n{code}\n```\n\n</details>\n")
    parts += [
        "## Who solves it\n",
        f"By default {linked(default)}: {why}. " + (f"It is also taken by {rest}.\n" if rest else "\n"),
        "## How it fails\n" * bool(system.caution),
        system.caution + "\n",
        "## Ten lines\n",
        _run(family, first, bool(stated.get(first.formulation)), picture),
    ]
    if system.experiments:
        shown = ", ".join(f"`convexstruct reproduce {name}`" for name in system.experiments)
        parts.append(f"Figures and tables: {shown}.\n")
    return "\n".join(parts)


def file_of(builder: Any) -> str:
    """The file that defines a function, as it stands in the checkout."""
    return Path(inspect.getsourcefile(inspect.unwrap(builder)) or "").resolve().relative_to(ROOT).as_posix()


def _shown(cases: list[Case], name: str) -> str:
    """The LaTeX of a formulation, of a case that has it for its reference; "" where it is a loop, or there is none."""
    for case in sorted(cases, key=lambda case: not case.quick):
        if case.formulation == name:
            instance = case.make(0)
            arguments = dict(case.arguments(instance)) if case.arguments else {}
            stated = FORMULATIONS[f"{case.family}.{name}"].builder(instance.problem, **arguments)
            return str(getattr(stated, "latex", ""))
    return ""


def _run(family: Family, case: Case, one_program: bool, picture: Path) -> str:
    """What the case is, the lines, what they print, and a picture of the run, or of the point after a single round: run
    here."""
    code = PROGRAM.format(family=family.name, case=case.name)
    if one_program and case.arguments is None and case.certified:
        code += STATED.format(entry=f"{family.name}.{case.formulation}")
    printed, names = io.StringIO(), dict[str, Any]()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, case.name, "exec"), names)
    solution = names["solution"]
    if len(solution.trace) > 2:
        drawn(cs.plots.bounds(solution, against="iteration").figure, picture)
        shown = "`solution.plot()` shows the run, here against iterations"
    else:
        drawn(_point(solution.point), picture)
        shown = f"{_counted(len(solution.trace), 'round')} did it; the point is"
    return (
        f"The case `{case.name}`: {case.purpose}.\n\n```python\n{code}```\n\nprints\n\n"
        f"```text\n{printed.getvalue()}```\n\n{shown}\n\n![{shown.replace('`', '')}]({picture.name})\n"
    )


def _counted(n: int, what: str) -> str:
    return f"One {what}" if n == 1 else f"{n} {what}s"


def _point(point: Any) -> Figure:
    """The arrays of a point side by side: tables in colours, blue below 0 and red above, vectors as bars."""
    figure, panels = cs.plots.panels(len(point), size=(7.0, 3.6))
    for axes, (name, array) in zip(panels, point.items()):
        axes.set_title(name)
        if np.ndim(array) == 1:
            axes.bar(range(len(array)), array, color=cs.plots.LOWER)
            axes.set_xlabel("entry")
        else:
            image = cs.plots.signed(axes, array, float(np.abs(array).max()) or 1.0)
            figure.colorbar(image, ax=axes, shrink=0.7)
    return figure


def systems(pictures: Path) -> dict[str, str]:
    """The pages by the names of their files, and "", which lists them by family; their pictures go to a folder."""
    pages, index = {}, ["# The systems\n"]
    for family in families().values():
        index.append(f"## {family.title}\n\n`--on {family.name}`\n")
        for system in family.systems:
            name = slug(system.name)
            pages[name] = system_page(family, system, pictures / f"{name}.svg")
            index.append(f"- [{system.name}](systems/{name}.md): {system.paper}, {system.equations}")
        index.append("")
    listed = "\n".join(f"systems/{name}" for name in pages)
    return pages | {"": "\n".join(index) + f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"}


def errata() -> str:
    """The errata of CONTRIBUTING.md, a paragraph each: its tables are too wide for a page. After those of a paper the
    formulations that state what is right, as mathematics."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Errata of the papers\n")[2]
    parts, stating = ["# Errata of the papers\n"], dict[str, None]()
    for line in [*text.splitlines(), "Paper"]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0] != "where" and not cells[0].startswith("-"):
            where, printed, right, stated, shown = cells
            parts.append(f"- **{where}** In print: {printed}. Right: {right}. Stated in {stated}; shown by {shown}.")
            stating[stated.strip("`")] = None
        elif line.startswith("Paper"):
            parts += [part for file in stating for part in _stated_in(file)]
            parts.append(f"\n## {line.partition(':')[0]}\n\n{line.partition(':')[2].strip()}\n" if ":" in line else "")
            stating = {}
        elif not line.startswith("|"):
            parts.append(line)
    return "\n".join(parts)


def _stated_in(file: str) -> list[str]:
    """The formulations of a file of ``models``, each with its LaTeX and a link to its code."""
    parts = []
    for entry in FORMULATIONS.values():
        latex = _shown(list(families()[entry.family].cases), entry.name) if file_of(entry.builder) == file else ""
        if latex:
            link = linked(entry.name, f"convexstruct.models.{entry.family}")
            parts.append(f"\n`{file}`: {link}, {entry.title}\n\n$$\n{latex}\n$$\n")
    return parts


def signatures() -> str:
    """What a solver gets and returns in each case: the class of the problem, the point, and a dual point."""
    parts = [
        "# The signature of each case\n",
        "A solver of a case takes a problem of the class, and returns the point: these arrays by name. The dual point "
        "is optional, and here that of the default solver; none where it gives none. Shapes are those of seed 0.\n",
    ]
    for family in families().values():
        parts += [f"## {family.name}\n", "| case | problem | point | dual point |", "|---|---|---|---|"]
        for case in (case for case in family.cases if case.open):
            problem = case.build()
            dual = cs.solve(problem, max_iterations=1, time_limit=5.0).dual_point or {}
            cells = (f"`{case.name}`", f"`{type(problem).__name__}`", _arrays(problem.trivial()[0]), _arrays(dual))
            parts.append(f"| {' | '.join(cells)} |")
        parts.append("")
    return "\n".join(parts)


def picture(file: Path) -> None:
    """The picture of README and of the first page: the bounds of a run of cutting planes, and the certificate."""
    data = cs.datasets.random_chains(20, (4, 9), 4, 6, seed=0)
    problem = cs.StructuredSVM.read(data.node_features, data.labels_each, data.n_labels, C_mean=10.0)
    axes = cs.plots.bounds(cs.solve(problem, cs.solvers.OneSlack()), against="iteration")
    axes.set_title("A structural SVM by cutting planes: two bounds close on the optimum")
    drawn(axes.figure, file)


def drawn(figure: Any, file: Path) -> None:
    """Write a picture as SVG, the same file from the same picture."""
    figure.set_size_inches(7.0, 3.6)
    with matplotlib.rc_context({"svg.hashsalt": "certificate", "svg.fonttype": "path"}):
        figure.savefig(file, metadata={"Date": None}, bbox_inches="tight")


def _arrays(arrays: Any) -> str:
    return ", ".join(f"`{name}` {np.shape(value)}" for name, value in arrays.items()) or "none"


if __name__ == "__main__":
    picture(ROOT / "docs" / "certificate.svg")
