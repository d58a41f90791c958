"""What tables 1 to 3 of paper 3 have in common: every method on one draw, and the table over the draws.

Errors are shares of positions labelled wrongly, in percent, under the best map of names for the whole set
(`labels_from_gram.best_names`). Standard errors are over the draws; a difference is taken draw by draw, and its
standard error with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from convexstruct.arrays import Labels
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Cell, Sheet, standard_error
from convexstruct.families.unsupervised_margin.experiments.draws import SETTINGS, STARTS, Draw
from convexstruct.families.unsupervised_margin.labels_from_gram import best_names, labels_from_gram
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.relabelling import relabel
from convexstruct.families.unsupervised_margin.supervised import supervised
from convexstruct.inference.baum_welch import baum_welch
from convexstruct.inference.hidden_markov import random_models
from convexstruct.plots import GREY, LOWER, UPPER, finish, named_bars, panels
from convexstruct.tolerances import LOW

RESTARTS = 10
SDP, RETRAINED, PLAIN, GUARDED = "SDP", "SDP, retrained", "ACDHMM", "ACDHMM, guarded"
EM_BEST, EM_MEAN, SHOWN, ORACLE, ONE = "EM best", "EM mean", "y = x", "oracle", "one label"

#: What the columns are, for the notes.
MEANING = {
    SDP: "labels read from M of the reduced SDP",
    RETRAINED: "predictions of the network trained on those labels",
    PLAIN: "relabel and retrain from one run of EM",
    GUARDED: "the same, a prediction taken only where the hinge does not rise",
    EM_BEST: f"the likeliest of {RESTARTS} runs of Baum-Welch",
    EM_MEAN: "the mean error of these runs",
    SHOWN: "the observed symbol is the label",
    ORACLE: "Viterbi with the true parameters",
    ONE: "one label everywhere",
}

#: The paper's mean and the number after its +-, by method.
Published = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Measured:
    """One draw. error : of each method, in percent. facts : numbers for the notes, by name."""

    error: Mapping[str, float]
    facts: Mapping[str, float]


def errors_of(
    found: Mapping[str, Labels], of_runs: Sequence[Labels], methods: Sequence[str], error: Callable[[Labels], float]
) -> dict[str, float]:
    """The error of each method's labels, in percent; EM's mean is that over its runs."""
    every = {name: 100.0 * error(labels) for name, labels in found.items()}
    every[EM_MEAN] = 100.0 * float(np.mean([error(labels) for labels in of_runs]))
    return {name: every[name] for name in methods if name in every}


def labels_of(
    draw: Draw,
    problem: UnsupervisedMargin,
    seed: int,
    methods: Sequence[str],
    max_rounds: int = 100,
    gap: float = LOW.gap,
) -> tuple[dict[str, Labels], list[Labels], dict[str, float]]:
    """The labels of each method in ``methods`` on one draw, those of each run of EM, and facts for the notes.
    ``seed`` draws the starts of EM, ``gap`` is the tolerance of the SDP."""
    found: dict[str, Labels] = {ONE: np.zeros_like(draw.truth)}
    facts: dict[str, float] = {}
    if draw.shown is not None and draw.oracle is not None:
        found |= {SHOWN: draw.shown, ORACLE: draw.oracle}
    channels = draw.observed.symbols.shape[1]
    start = random_models(RESTARTS, draw.n_labels, draw.observed.n_symbols, seed, channels)
    trained = baum_welch(draw.observed, start)
    of_runs = trained.models.decode(draw.observed)
    found[EM_BEST] = of_runs[int(trained.log_likelihood.argmax())]
    facts["EM runs that reached the limit of iterations"] = float((~trained.converged).sum())
    if SDP in methods:
        solution = solve(problem, tol=gap)
        found[SDP] = labels_from_gram(solution.point["M"], draw.n_labels)
        machine = supervised(problem, found[SDP])
        found[RETRAINED] = machine.decode(solve(machine, tol=LOW).point["w"])
        facts["largest gap of an SDP"] = solution.gap
        if draw.shown is not None:
            same = best_names(found[SDP], draw.shown).error == 0
            facts["the SDP's labels are the observed symbols"] = same
    alternating = [(name, guarded) for name, guarded in ((PLAIN, False), (GUARDED, True)) if name in methods]
    first = solve(supervised(problem, of_runs[0]), tol=LOW) if alternating else None
    for name, guarded in alternating:
        run = relabel(problem, of_runs[0], guarded=guarded, max_rounds=max_rounds, first=first)
        found[name] = run.labels
        facts[f"rounds of {name} in which the loss rose"] = run.rises
        facts[f"{name} collapsed to one label"] = run.collapsed
        facts[f"{name} changed no label"] = len(run.loss) == 1
    return found, of_runs, facts


def measured_draw(which: str, seed: int, methods: Sequence[str]) -> Measured:
    """The methods on one draw of a set."""
    setting = SETTINGS[which]
    draw = setting.draw(seed)
    found, of_runs, facts = labels_of(draw, setting.problem(draw), STARTS + seed, methods, gap=setting.gap)
    return Measured(errors_of(found, of_runs, methods, lambda labels: best_names(labels, draw.truth).error), facts)


def compare(sheet: Sheet, sets: Sequence[str], draws: int) -> None:
    """Every method of the columns on ``draws`` draws of each of the ``sets``, beside what is published of it."""
    methods = list(sheet.columns[2:])
    each = [(which, k) for which in sets for k in range(draws)]
    sheet.total = len(each)
    names = [f"{which}: draw {k + 1} of {draws}" for which, k in each]
    every = sheet.in_order(measured_draw, [(which, 1000 * sheet.seed + k, methods) for which, k in each], names)
    sheet.notes += [
        "errors in percent under the best names for a draw's labels; 'less' is the difference draw by draw, with the "
        "standard error of its mean",
        "; ".join(f"{method}: {MEANING[method]}" for method in methods),
        f"{draws} draws a set",
        "published: the paper's means and its +- over 10 repeats, its one EM column under 'EM mean', CDHMM under "
        "'SDP'; they are compared with, not aimed at",
    ]
    published, sheet.published = sheet.published, {}
    for which in sets:
        measured = [one for one, (of, _) in zip(every, each) if of == which]
        printed = {m: published[which][m] for m in methods if m in published[which]}
        sheet.rows += rows_of(which, measured, methods, printed)
        sheet.notes.append(f"{which}: " + "; ".join(facts_of(measured)))
        if not which.startswith("SYNTH"):
            one, least = np.mean([each.error[ONE] for each in measured]), min(mean for mean, _ in printed.values())
            sheet.notes.append(
                f"{which}: one label everywhere errs by {one:.1f} percent; the least error published is {least:g}"
            )
        sheet.published |= {f"{which}, {m}": mean for m, (mean, _) in printed.items()}
    caption = "Mean error, whiskers of one standard error; triangles: published."
    sheet.figures[caption] = picture(sheet.rows, methods)


def rows_of(name: str, measured: Sequence[Measured], methods: Sequence[str], published: Published) -> list[list[Cell]]:
    """The rows of one data set: mean, standard error, differences to EM's mean and to y = x, and what is published."""
    by = {m: [each.error[m] for each in measured] for m in methods if m in measured[0].error}
    kinds: dict[str, Mapping[str, Sequence[float]]] = {"error": by}
    for other in (EM_MEAN, SHOWN):
        if other in by:
            kinds[f"less {other}"] = {m: np.subtract(by[m], by[other]).tolist() for m in by if m != other}
    rows: list[list[Cell]] = []
    for kind, of in kinds.items():
        rows.append([name, kind, *(float(np.mean(of[m])) if m in of else None for m in methods)])
        said = "standard error" if kind == "error" else "its standard error"
        rows.append([name, said, *(standard_error(of[m]) if m in of else None for m in methods)])
    for at, word in enumerate(("published", "published +-")):
        rows.append([name, word, *(published[m][at] if m in published else None for m in methods)])
    return rows


def facts_of(measured: Sequence[Measured]) -> list[str]:
    """One sentence for each fact: its sum or maximum over the draws."""
    names = dict.fromkeys(name for each in measured for name in each.facts)
    found = []
    for name in names:
        values = [float(each.facts[name]) for each in measured if name in each.facts]
        if name.startswith("largest"):
            found.append(f"{name}: {max(values):.1e}")
        elif name.startswith(("rounds", "EM runs")):
            found.append(f"{name}: {sum(values):g}")
        else:
            found.append(f"{name} in {sum(values):g} of {len(values)} draws")
    return found


def picture(rows: Sequence[Sequence[Cell]], methods: Sequence[str]) -> Figure:
    """Mean errors with whiskers of one standard error, a panel a data set; triangles are published."""
    names = list(dict.fromkeys(str(row[0]) for row in rows))
    size = 2.4 + 1.9 * len(names), 1.4 + 0.32 * len(methods)
    figure, every = panels(len(names), size=size, sharey=True)
    colours = {SDP: LOWER, RETRAINED: LOWER, PLAIN: UPPER, GUARDED: UPPER}
    for axes, name in zip(every, names):
        table = {str(row[1]): row[2:] for row in rows if row[0] == name}
        for at, method in enumerate(methods):
            mean, se, known = (table[kind][at] for kind in ("error", "standard error", "published"))
            if mean is not None:
                axes.errorbar(float(mean), at, xerr=None if se is None else float(se), fmt="o", ms=4, capsize=2,
                              color=colours.get(method, GREY))  # fmt: skip
            if known is not None:
                axes.plot([float(known)], [at], "^", ms=6, mfc="none", color="black")
        axes.grid(axis="x", alpha=0.3)
        finish(axes, None, title=name, xlabel="error, percent", xlim=(0.0, None))
    named_bars(every[0], methods)
    marks = [
        Line2D([], [], ls="", color=colour, marker=marker, mfc=fill, label=label)
        for marker, colour, fill, label in (("o", GREY, GREY, "here"), ("^", "black", "none", "published"))
    ]
    figure.legend(handles=marks, loc="outside lower right", ncols=2, frameon=False, fontsize="small")
    return figure
