"""Online learners beside the batch M3N, on handwritten words (paper 1, "Online training"; the letters of R. Kassel).

The words of one fold are the training words, those of the next the test words; `.ocr` describes the set. After each of
some passes over the training words: the letter and word error on the test words, the seconds so far, and P of the M3N
at the learner's w, less the certified lower bound of the batch solver, in units of P there:

    perceptron     averaged (Collins 2002)
    MIRA           with the best labelling, and with the two best; averaged
    LaRank         the M3N itself, by pairs of multipliers: its own lower bound is certified too
    SEARN          rounds of a policy learnt by cost-sensitive classification, in place of passes
    M3N, batch     the default solver

The constants (C of MIRA, SEARN and the M3N) are chosen by the letter error on a third of the training words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Labels, Vector
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet, listed, timed
from convexstruct.datasets.real.ocr_letters import Words, ocr_letters
from convexstruct.families.structured_svm.experiments.ocr import first, hold_out
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.larank import LaRank
from convexstruct.families.structured_svm.solvers.mira import Mira
from convexstruct.families.structured_svm.solvers.perceptron import Perceptron
from convexstruct.families.structured_svm.solvers.searn import Searn
from convexstruct.features.graphs.pairwise import read_pairwise
from convexstruct.plots import finish, panels
from convexstruct.tolerances import LOW

NAME = "online-learners"
PAPER = "paper 1, online training, on the letters of R. Kassel as B. Taskar prepared them (2003)"
TITLE = "Online learners: letter error and distance from the M3N's optimum against passes and seconds"
PUBLISHED = {"papers 0 to 4": "no numbers on this set"}
COLUMNS = ("learner", "constant", "passes", "letter error", "word error", "above the optimum", "gap", "seconds")

#: Passes after which a learner is judged; the last is the number it makes.
PASSES: tuple[int, ...] = (1, 2, 3, 5, 10)
QUICK_PASSES: tuple[int, ...] = (1, 2)
#: Folds of the training and the test words.
TRAIN, TEST = 0, 1
#: The constants to choose from; a quick run takes the middle one.
GRIDS: dict[str, tuple[float, ...]] = {
    "MIRA, best": (0.001, 0.01, 0.1),
    "MIRA, two best": (0.001, 0.01, 0.1),
    "SEARN": (0.01, 0.05, 0.25),
    "M3N, batch": (10.0, 30.0, 100.0),
}
LEARNERS = ("perceptron", *GRIDS, "LaRank")


class State(NamedTuple):
    """A learner after a pass. predict : labels of the letters of some words. w : None where it has none. lower : its
    own lower bound of P, -inf where it has none."""

    predict: Callable[[Words], Labels]
    w: Vector | None = None
    lower: float = -np.inf


def run(sheet: Sheet) -> None:
    """Choose the constants, then learn pass by pass; the seed draws the words held out and the order of the words."""
    every = ocr_letters()
    learning, test = (every.some(every.fold == fold) for fold in (TRAIN, TEST))
    if sheet.quick:
        learning, test = first(learning), first(test)
    passes = QUICK_PASSES if sheet.quick else PASSES
    grids = {name: grid[1:2] if sheet.quick else grid for name, grid in GRIDS.items()}
    sheet.total = sum(map(len, grids.values())) + len(LEARNERS)
    kept, held = hold_out(learning, "one", sheet.seed)
    constants: dict[str, float] = {}
    for name, grid in grids.items():

        def judge(c: float, name: str = name) -> float:
            *_, (last, _) = states(name, kept, c, passes, sheet.seed)
            return error(last, held)[0]

        constants[name], found = sheet.choose(grid, judge, f"{name}: {{:g}}".format)
        sheet.notes.append(f"{name}: {constants[name]:g} (letter error on words held out: {listed(found, '{:.1%}')})")
    constants["LaRank"] = constants["M3N, batch"]
    problem = m3n(learning, constants["M3N, batch"])
    lowest = solve(problem, tol=LOW.gap).lower_bound
    for name in LEARNERS:
        sheet.step(name)
        for at, (state, seconds) in zip(passes, states(name, learning, constants.get(name, 0.0), passes, sheet.seed)):
            letters, words = error(state, test)
            above = None if state.w is None else float(problem.primal({"w": state.w}))
            gap = None if above is None or state.lower == -np.inf else (above - state.lower) / abs(above)
            away = None if above is None else (above - lowest) / abs(above)
            shown = None if name == "M3N, batch" else at
            sheet.add(name, constants.get(name), shown, letters, words, away, gap, seconds)
    sheet.notes += [
        "above the optimum: (P(w) - the certified lower bound of the batch solver) / P(w), P that of the M3N with the "
        "chosen C; the perceptron and MIRA solve another task, or none, so it only says how far their w is from one",
        "gap: between a learner's own two bounds, for those that have them; seconds: processor seconds of learning so "
        f"far; the batch solver ends at {LOW.gap:g}; passes of SEARN are rounds",
        f"{learning.n_words} training and {test.n_words} test words, one fold each; the papers print no numbers here",
    ]
    sheet.left_out(f"{QUICK_PASSES[-1]} passes, the first words of each fold, constants given and not chosen")
    sheet.figures["Left: letter error on the test words; right: how far P is above the lower bound."] = draw(sheet)


def states(name: str, words: Words, c: float, passes: tuple[int, ...], seed: int) -> Iterator[tuple[State, float]]:
    """The learner after each of ``passes``, and its processor seconds so far; the batch solver once."""
    walk, spent, done = learner(name, words, c, passes[-1], seed), 0.0, 0
    for wanted in (1,) if name == "M3N, batch" else passes:
        found, seconds = timed(lambda more=wanted - done: list(islice(walk, more)))
        spent, done = spent + seconds, wanted
        if not found:  # it has ended: nothing changes any more
            return
        yield found[-1], spent


def learner(name: str, words: Words, c: float, passes: int, seed: int) -> Iterator[State]:
    """The states of a learner, pass by pass."""
    if name == "SEARN":
        g = words.chains()
        x = np.split(g.node_features, words.word_start[1:-1])
        for learned in Searn(rounds=passes, C=c, seed=seed).learn(x, g.labels_each, g.n_labels):

            def predict(other: Words, learned: Any = learned) -> Labels:
                rows = np.split(other.chains().node_features, other.word_start[1:-1])
                return np.concatenate(learned.predict(rows, seed))

            yield State(predict)
        return
    problem = m3n(words, c if name in ("LaRank", "M3N, batch") else 1.0)

    def state(w: Vector, lower: float = -np.inf) -> State:
        def predict(other: Words) -> Labels:
            return np.concatenate(problem.predict({"w": w}, read_pairwise(**other.chains().arguments)))

        return State(predict, w, lower)

    if name == "M3N, batch":
        found = solve(problem, tol=LOW.gap)
        yield state(found.point["w"], found.lower_bound)
    elif name == "LaRank":
        for iterate in LaRank(seed=seed).iterate(problem):
            yield state(iterate.point["w"], iterate.lower_bound)
    else:
        online = Perceptron(passes, seed=seed) if name == "perceptron" else Mira(c, passes, k=2 if "two" in name else 1)
        for each in online.walk(problem, np.zeros(problem.dimension)):
            yield state(each.mean)


def m3n(words: Words, c: float) -> StructuredSVM:
    return StructuredSVM.read(**words.chains().arguments, C_mean=c)


def error(state: State, words: Words) -> tuple[float, float]:
    """Letter and word error."""
    wrong = state.predict(words) != words.labels
    return float(wrong.mean()), float(np.logical_or.reduceat(wrong, words.word_start[:-1]).mean())


def draw(sheet: Sheet) -> Figure:
    """Both against seconds, a line a learner; the batch solver is one point."""
    figure, both = panels(2, size=(9.0, 3.4))
    table = sheet.table()
    for axes, what, scale in zip(both, ("letter error", "above the optimum"), ("linear", "log")):
        for k, name in enumerate(LEARNERS):
            rows = [row for row in table if row["learner"] == name and row[what] is not None]
            seconds, cells = ([row[column] for row in rows] for column in ("seconds", what))
            axes.plot(seconds, cells, color=f"C{k}", marker="o", ms=3, label=name)
        finish(axes, None, xscale="log", yscale=scale, xlabel="seconds", ylabel=what)
    figure.legend(*both[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure
