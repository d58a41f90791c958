"""Secondary structure of proteins by a hidden Markov model: paper 0's training on real chains.

Hidden: helix, sheet or coil at each residue. Observed, in two variants:

* ``plain``: the residue itself, one of 20 (tables: initial 3, transition 3 x 3, emission 3 x 20);
* ``window``: the 13 residues around it, as in Qian and Sejnowski, each with a table of its own (product emissions,
  `convexstruct.features.counts.hmm`). As a generative model of the chain it counts every residue 13 times;
  maximum likelihood does not correct for that, discriminative training can.

Trained on the 111 training chains by maximum likelihood (ML, add-one counts) and discriminatively (DT, Hamming loss);
eta and c (uniform, or the ML estimate) are chosen by cross-validation over the training chains, never by the test
chains. Accuracy is the share of residues predicted rightly (Q3), on the 17 test chains.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Flags, Labels, Vector
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet, standard_error
from convexstruct.core.solution import Solution
from convexstruct.datasets.real.protein import AMINO_ACIDS, STRUCTURES, Proteins, protein
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.entropic_proximal import EntropicProximal
from convexstruct.families.generative_margin.solvers.maximum_likelihood import maximum_likelihood
from convexstruct.features.counts.window import window
from convexstruct.plots import GREY, LOWER, UPPER, bars, finish, named_bars, panels
from convexstruct.tolerances import LOW

NAME = "protein-hmm"
PAPER = "paper 0, the method, on N. Qian and T. Sejnowski's chains (1988)"
TITLE = "Secondary structure of proteins: share of residues predicted rightly (Q3)"
PUBLISHED = {"Qian and Sejnowski 1988, neural network, test accuracy": 0.643}
COLUMNS = (
    "variant", "model", "c", "eta", "parameters", "cross-validated", "train", "test", "se", "helix", "sheet", "coil",
    "gap", "seconds",
)  # fmt: skip

#: Neighbours seen on each side, by variant; Qian and Sejnowski's window has 13 residues.
RADIUS = {"plain": 0, "window": 6}
ETAS = (1e-4, 1e-3, 1e-2, 1e-1)
C = ("uniform", "ML")
FOLDS = 3
#: Most rounds of a solve, which needs far fewer. A time limit would make the results depend on the machine.
ROUNDS = 40
SOLVER = EntropicProximal()


@dataclass(frozen=True)
class Choice:
    """What is chosen by cross-validation: eta, and c "uniform" or "ML" (the ML estimate)."""

    eta: float
    c: str


def run(sheet: Sheet) -> None:
    """Train, choose and test; the seed draws the folds."""
    train, test = protein("train"), protein("test")
    etas, folds = sheet.pick((ETAS, FOLDS), (ETAS[1:3], 2))
    n_all = train.n_chains
    if sheet.quick:
        train = train.some(np.random.default_rng(sheet.seed).permutation(n_all)[:24])
    choices = [Choice(eta, c) for c in C for eta in etas]
    sheet.total = len(RADIUS) * (len(choices) + 1)
    sheet.add("published", "neural network", test=0.643)
    truth = np.concatenate(test.structures)
    coil = truth == STRUCTURES.index("_")
    se = standard_error(coil, test.lengths)
    sheet.add("none", "always coil", test=coil.mean(), se=se, helix=0.0, sheet=0.0, coil=1.0)
    validated: dict[str, dict[Choice, float]] = {}
    compared: list[str] = []

    def row(variant: str, model: str, theta: Vector, chosen: tuple[Any, ...] = (None,) * 3, **end: Any) -> Flags:
        """chosen : c, eta and the accuracy in cross-validation. The result says which test residues are right."""
        of = right(test, RADIUS[variant], theta)
        by_structure = [of[truth == STRUCTURES.index(letter)].mean() for letter in "he_"]
        known = right(train, RADIUS[variant], theta).mean()
        c, eta, share = chosen
        sheet.add(variant, model, c, eta, len(theta), share, known, of.mean(), standard_error(of, test.lengths),
                  *by_structure, **end)  # fmt: skip
        return of

    for variant, radius in RADIUS.items():
        others, ml = {}, add_one(train, radius)
        if radius:
            others["ML, each by itself"] = row(variant, "ML, each by itself", without_chain(train, radius, ml))
        others["ML"] = row(variant, "ML", ml)
        judge = partial(cross_validated, train, radius, deal(train.n_chains, folds, sheet.seed))
        name = f"{variant}, {{0.c}} c, eta {{0.eta:g}}: {folds} folds".format
        best, shares = sheet.choose(choices, judge, name, largest=True)
        validated[variant] = shares
        sheet.step(f"{variant}: {best.c} c, eta {best.eta:g} on all {train.n_chains} chains")
        found = discriminative(train, radius, best)
        chosen = best.c, best.eta, shares[best]
        trained = row(variant, "DT", found.point["theta"], chosen, gap=found.gap, seconds=found.seconds)
        for model, hits in others.items():
            away = trained * 1.0 - hits
            side = "above" if away.mean() > 0 else "below"
            error = standard_error(away, test.lengths)
            compared.append(
                f"{variant}, DT against {model}: {side} by {abs(away.mean()):.1%}, standard error {error:.1%}"
            )
    sheet.notes += [
        f"trained on {train.n_chains} chains ({train.n_residues} residues), tested on {test.n_chains} "
        f"({test.n_residues}); eta from {', '.join(f'{eta:g}' for eta in etas)} and c chosen by {folds}-fold "
        f"cross-validation over training chains; every problem solved to a certified gap of {LOW.gap:g}",
        "helix, sheet, coil: share of the residues of that structure predicted rightly on the test chains",
        "the 64.3% of Qian and Sejnowski are context, not a result to reproduce: a neural network on the same windows",
        f"se: standard error of the test accuracy, the test chains being drawn; {'; '.join(compared)}",
        "'ML, each by itself' drops the chain (every residue by its window and the frequency of the structures): the "
        "window's ML chain is worse because it takes overlapping windows for independent evidence; DT need not",
    ]
    sheet.left_out(f"{n_all - train.n_chains} training chains, eta {ETAS[0]:g} and {ETAS[-1]:g} and a fold left out")
    sheet.figures = {
        "Left: accuracy in cross-validation against eta. Right: accuracy on the test chains, whiskers of one standard "
        "error.": picture(validated, sheet.table(), test.n_chains)
    }


def problem(chains: Proteins, radius: int, eta: float = 1.0, c: Vector | None = None) -> GenerativeMargin:
    """The training problem: structure hidden, Hamming loss; ``radius`` 0 is the plain hidden Markov model."""
    n_symbols = len(AMINO_ACIDS) + (radius > 0)  # beyond the ends of a chain a window shows a symbol of its own
    seen = window(chains.residues, len(AMINO_ACIDS), radius) if radius else chains.residues
    return GenerativeMargin.hmm(seen, chains.structures, len(STRUCTURES), n_symbols, eta=eta, c=c)


def add_one(chains: Proteins, radius: int) -> Vector:
    """theta by add-one counts."""
    return maximum_likelihood(problem(chains, radius), smoothing=1.0)


def without_chain(chains: Proteins, radius: int, ml: Vector) -> Vector:
    """``ml`` with the logarithm of each structure's frequency in place of initial and transition weights."""
    wanted = problem(chains, radius)
    theta = ml.copy()
    tables = wanted.layout.tables(theta)
    share = np.log(np.bincount(wanted.examples.truth) / len(wanted.examples.truth))
    tables["initial"][:] = share
    tables["transition"][:] = share
    return theta


def discriminative(chains: Proteins, radius: int, choice: Choice) -> Solution:
    """Discriminative training with the chosen eta and c, to 0.1%."""
    c = None if choice.c == "uniform" else np.exp(add_one(chains, radius))
    return solve(problem(chains, radius, choice.eta, c), SOLVER, tol=LOW, max_iterations=ROUNDS)


def right(chains: Proteins, radius: int, theta: Vector) -> Flags:
    """Whether each residue is predicted rightly; chains are concatenated."""
    wanted = problem(chains, radius)
    return np.asarray(np.concatenate(wanted.predict(theta)) == wanted.examples.truth)


def cross_validated(chains: Proteins, radius: int, folds: list[Labels], choice: Choice) -> float:
    """Share of residues predicted rightly, each fold after training on the others."""
    found = []
    for held_out in folds:
        kept = chains.some(np.setdiff1d(np.arange(chains.n_chains), held_out))
        found.append(right(chains.some(held_out), radius, discriminative(kept, radius, choice).point["theta"]))
    return float(np.concatenate(found).mean())


def deal(n_chains: int, folds: int, seed: int) -> list[Labels]:
    """The chains dealt into folds of about equal numbers; each chain in one."""
    order = np.random.default_rng(seed).permutation(n_chains)
    return [np.sort(order[fold::folds]) for fold in range(folds)]


def picture(validated: dict[str, dict[Choice, float]], table: list[dict[str, Any]], n_chains: int) -> Figure:
    """Cross-validated accuracy against eta, and test accuracy of each model."""
    figure, (left, right) = panels(2, size=(9.0, 3.6), width_ratios=(1, 1.2))
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2, "frameon": False, "fontsize": "small"}
    for variant, style in zip(validated, ("--", "-")):
        for c, colour in zip(C, (UPPER, LOWER)):
            points = {choice.eta: share for choice, share in validated[variant].items() if choice.c == c}
            left.plot(list(points), list(points.values()), style, marker="o", color=colour, label=f"{variant}, c {c}")
    finish(left, None, xscale="log", xlabel="eta", ylabel="accuracy in cross-validation")
    shown = [row for row in table if row["variant"] in validated]
    right.set_xlim(0.4, 0.7)
    colours = [LOWER if row["model"] == "DT" else GREY for row in shown]
    bars(right, [row["test"] for row in shown], [row["se"] for row in shown], colours)
    named_bars(right, [f"{row['variant']}: {row['model']}" for row in shown])
    for row, style in ((table[0], "-"), (table[1], ":")):
        right.axvline(row["test"], color="black", lw=0.8, ls=style, label=row["model"])
    finish(right, None, xlabel=f"accuracy on {n_chains} test chains")
    for axes in (left, right):
        axes.legend(**above)
    return figure
