"""Paper 3, Proposition 2: how often relabelling by predictions raises the margin loss, and what a guard changes.

The paper says that alternating training and relabelling "must make monotonic progress in the objective". For structures
it does not (`convexstruct.families.unsupervised_margin.solvers.relabelling` has the reason and the guard). Here both
variants run from the same labels on the paper's synthetic sets: from the Viterbi labels of one run of EM, as in the
paper, and from random labels. A rise is proved: the lower bound of a labelling's loss lies above the upper bound of the
loss before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Labels
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet, standard_error
from convexstruct.datasets.generated.hidden_markov import SYNTHETIC
from convexstruct.families.unsupervised_margin.experiments.draws import SETTINGS, STARTS, Draw
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.relabelling import Relabelled, relabel
from convexstruct.families.unsupervised_margin.supervised import supervised
from convexstruct.inference.baum_welch import baum_welch
from convexstruct.inference.hidden_markov import random_models
from convexstruct.plots import LOWER, UPPER, finish, panels
from convexstruct.tolerances import HIGH, LOW

NAME = "proposition2"
PAPER = "paper 3, Proposition 2 and section 5"
TITLE = "Relabelling by predictions: how often the margin loss rises, and the guard"
COLUMNS = (
    "beta", "start", "problems", "runs that rise", "rounds", "rounds that rise", "largest rise", "refused",
    "loss, plain", "loss, guarded", "plain less guarded", "its se", "one label, plain", "one label, guarded",
    "alike, plain", "alike, guarded",
)  # fmt: skip

#: The length of the synthetic sequences.
LENGTH = 8
#: Draws of each synthetic set for each row.
DRAWS, QUICK_DRAWS = 10, 1
BEGINNINGS = ("EM", "random")
#: The paper's beta for the synthetic sets, one between, and the paper's for proteins.
BETAS = (0.01, 0.1, 1.0)

#: The smallest known example of a rise: symbols and first labels of two sequences, and beta.
SHOWN, BEGIN, BETA = ((0, 1, 0, 0), (1, 0, 0, 1)), ((1, 1, 1, 0), (1, 0, 0, 0)), 0.5


def run(sheet: Sheet) -> None:
    """Both variants on the same problems; the seed draws them."""
    draws = sheet.pick(DRAWS, QUICK_DRAWS)
    each = list(itertools.product(BETAS, BEGINNINGS, SYNTHETIC, range(draws)))
    sheet.total = len(each) + 1
    calls = [(beta, beginning, name, 1000 * sheet.seed + k) for beta, beginning, name, k in each]
    names = [f"beta {beta:g}, from {beginning}: {name}, draw {k + 1} of {draws}" for beta, beginning, name, k in each]
    every = iter(sheet.in_order(relabelled, calls, names))
    pairs: dict[str, list[tuple[Relabelled, Relabelled]]] = {beginning: [] for beginning in BEGINNINGS}
    for beta, beginning in itertools.product(BETAS, BEGINNINGS):
        both = list(itertools.islice(every, len(SYNTHETIC) * draws))
        sheet.add(beta, beginning, *_counts(both))
        pairs[beginning] += both
    sheet.step("the smallest example")
    problem = UnsupervisedMargin.read([np.array(x) for x in SHOWN], 2, beta=BETA, label_balance=1.0)
    plain, guarded = (relabel(problem, np.concatenate(BEGIN), guarded=g, tol=HIGH) for g in (False, True))
    n, risen = sum(map(len, pairs.values())), sum(p.rises > 0 for both in pairs.values() for p, _ in both)
    sheet.notes += [
        f"plain relabelling raised the loss in {risen} of {n} problems; guarded, in "
        f"{sum(g.rises > 0 for both in pairs.values() for _, g in both)}",
        "largest rise: of the certified loss; refused: first predictions that the guard did not take as they were, in "
        "runs; loss: mean of the last labellings' certified losses; plain less guarded: of these, problem by problem",
        f"the smallest example: symbols {_text(SHOWN)}, beta {BETA:g}, labels {_text(BEGIN)}; predictions at their "
        f"optimal weights {_text(plain.labellings[1].reshape(2, -1))}; the loss goes from between "
        f"{plain.lower[0]:.4f} and {plain.loss[0]:.4f} to between {plain.lower[1]:.4f} and {plain.loss[1]:.4f}",
        "one label: runs that end with one label everywhere; alike: with the same labels in every sequence, whatever "
        "its symbols, of which one label is a case. The loss of either is next to nothing at a small beta, for "
        "transitions alone predict them, and no balance holds the alternation back",
    ]
    sheet.left_out(f"{DRAWS - draws} of {DRAWS} draws of each set left out")
    sheet.figures[
        "Left: certified loss against rounds in the smallest example. Right: last loss, plain against guarded, by what "
        "the run began with; below the line plain is better."
    ] = picture(plain, guarded, pairs)


def relabelled(beta: float, beginning: str, name: str, seed: int) -> tuple[Relabelled, Relabelled]:
    """Plain and guarded relabelling of one draw."""
    draw = SETTINGS[name].draw(seed)
    problem = draw.problem(beta, label_balance=1.0, pair_balance=1.0)  # relabelling ignores the balances
    labels = _begin(beginning, draw, STARTS + seed)
    first = solve(supervised(problem, labels), tol=LOW)
    plain, guarded = (relabel(problem, labels, guarded=g, first=first) for g in (False, True))
    return plain, guarded


def _begin(beginning: str, draw: Draw, seed: int) -> Labels:
    """The labels a run begins with: random, or the Viterbi labels of one run of EM."""
    if beginning == "random":
        return np.random.default_rng(seed).integers(0, draw.n_labels, size=len(draw.truth))
    trained = baum_welch(draw.observed, random_models(1, draw.n_labels, draw.observed.n_symbols, seed))
    return trained.models.decode(draw.observed)[0]


def _counts(both: Sequence[tuple[Relabelled, Relabelled]]) -> list[Any]:
    """The columns from "problems" on."""
    plain, guarded = [p for p, _ in both], [g for _, g in both]
    last = np.array([[p.loss[-1], g.loss[-1]] for p, g in both])
    away = last[:, 0] - last[:, 1]
    rise = max((float((p.lower[1:] - p.loss[:-1]).max(initial=0.0)) for p in plain), default=0.0)
    refused = sum(
        len(p.labellings) > 1 and not (len(g.labellings) > 1 and (p.labellings[1] == g.labellings[1]).all())
        for p, g in both
    )
    return [
        len(both), sum(p.rises > 0 for p in plain), sum(len(p.loss) - 1 for p in plain), sum(p.rises for p in plain),
        rise, refused, *last.mean(axis=0), away.mean(), standard_error(away), sum(p.collapsed for p in plain),
        sum(g.collapsed for g in guarded), sum(map(_alike, plain)), sum(map(_alike, guarded)),
    ]  # fmt: skip


def _alike(found: Relabelled) -> bool:
    """Whether all sequences, of one length here, have the same labels: these do not depend on the symbols."""
    each = found.labels.reshape(-1, LENGTH)
    return bool((each == each[0]).all())


def _text(sequences: Sequence[Sequence[int]] | Labels) -> str:
    return " and ".join("".join(str(int(each)) for each in one) for one in sequences)


def picture(plain: Relabelled, guarded: Relabelled, pairs: dict[str, list[tuple[Relabelled, Relabelled]]]) -> Figure:
    """The smallest example round by round, and the last losses of all problems."""
    figure, (left, right) = panels(2, size=(9.0, 3.6))
    for found, colour, name in ((plain, UPPER, "plain"), (guarded, LOWER, "guarded")):
        left.plot(np.arange(len(found.loss)), found.loss, "o-", color=colour, label=name)
    left.set_xticks(range(max(len(plain.loss), len(guarded.loss))))
    finish(left, xlabel="round", ylabel="certified loss")
    for (beginning, both), marker, colour in zip(pairs.items(), "o^", (LOWER, UPPER)):
        last = np.array([[g.loss[-1], p.loss[-1]] for p, g in both])
        right.plot(*last.T, marker, mfc="none", color=colour, label=f"from {beginning}")
    right.axline((1.0, 1.0), slope=1.0, color="black", lw=0.8)
    finish(right, xscale="log", yscale="log", xlabel="last loss, guarded", ylabel="last loss, plain")
    return figure
