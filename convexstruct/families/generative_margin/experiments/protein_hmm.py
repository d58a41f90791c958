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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Flags, Labels, Vector
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Cell, Progress, Result, Steps, standard_error
from convexstruct.core.solution import Solution
from convexstruct.datasets.real.protein import AMINO_ACIDS, STRUCTURES, Proteins, protein
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.entropic_proximal import EntropicProximal
from convexstruct.families.generative_margin.solvers.maximum_likelihood import maximum_likelihood
from convexstruct.features.counts.window import window
from convexstruct.plots import GREY, LOWER, UPPER
from convexstruct.tolerances import LOW

NAME = "protein-hmm"
PAPER = "paper 0, the method, on N. Qian and T. Sejnowski's chains (1988)"
TITLE = "Secondary structure of proteins: share of residues predicted rightly (Q3)"

#: Neighbours seen on each side, by variant; Qian and Sejnowski's window has 13 residues.
RADIUS = {"plain": 0, "window": 6}
ETAS = (1e-4, 1e-3, 1e-2, 1e-1)
C = ("uniform", "ML")
FOLDS = 3
#: Most rounds of a solve, which needs far fewer. A time limit would make the results depend on the machine.
ROUNDS = 40
SOLVER = EntropicProximal()

PUBLISHED = {"Qian and Sejnowski 1988, neural network, test accuracy": 0.643}

COLUMNS = (
    "variant", "model", "c", "eta", "parameters", "cross-validated", "train", "test", "se", "helix", "sheet", "coil",
    "gap", "seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """What is chosen by cross-validation: eta, and c "uniform" or "ML" (the ML estimate)."""

    eta: float
    c: str


def run(quick: bool = False, seed: int = 0, progress: Steps | None = None) -> Result:
    """Train, choose and test; ``seed`` draws the folds.

    Raises
    ------
    ValueError
        If the chains are not installed; the message says how to get them and where to put them.
    """
    train, test = protein("train"), protein("test")
    etas, folds = (ETAS[1:3], 2) if quick else (ETAS, FOLDS)
    n_all = train.n_chains
    if quick:
        train = _some(train, np.random.default_rng(seed).permutation(n_all)[:24])
    choices = [Choice(eta, c) for c in C for eta in etas]
    steps = Progress(progress, len(RADIUS) * (len(choices) * folds + 1))
    majority = np.concatenate(test.structures) == STRUCTURES.index("_")
    rows: list[list[Cell]] = [
        ["published", "neural network", None, None, None, None, None, 0.643, *[None] * 6],
        [
            "none",
            "always coil",
            None,
            None,
            None,
            None,
            None,
            float(majority.mean()),
            standard_error(test.lengths, majority),
            0.0,
            0.0,
            1.0,
            None,
            None,
        ],
    ]
    validated: dict[str, dict[Choice, float]] = {}
    fitted: dict[tuple[str, str], Vector] = {}
    for variant, radius in RADIUS.items():
        ml = add_one(train, radius)
        if radius:
            fitted[variant, "ML, each by itself"] = without_chain(train, radius, ml)
        fitted[variant, "ML"] = ml
        rows += [_row(*key, train, test, radius, theta) for key, theta in fitted.items() if key[0] == variant]
        validated[variant] = {}
        for choice in choices:
            found = []
            for fold, held_out in enumerate(deal(train.n_chains, folds, seed)):
                steps.next(f"{variant}, {choice.c} c, eta {choice.eta:g}: fold {fold + 1} of {folds}")
                kept = np.setdiff1d(np.arange(train.n_chains), held_out)
                solution = discriminative(_some(train, kept), radius, choice)
                found.append(right(_some(train, held_out), radius, solution.point["theta"]))
            validated[variant][choice] = float(np.concatenate(found).mean())
        best = max(choices, key=lambda choice: validated[variant][choice])
        steps.next(f"{variant}: {best.c} c, eta {best.eta:g} on all {train.n_chains} chains")
        solution = discriminative(train, radius, best)
        fitted[variant, "DT"] = theta = solution.point["theta"]
        rows.append(_row(variant, "DT", train, test, radius, theta, best, validated[variant][best], solution))
    compared = {
        f"{v}, DT against {name}": (float(np.mean(away)), standard_error(test.lengths, away))
        for (v, name), theta in fitted.items()
        if name != "DT"
        for away in [right(test, RADIUS[v], fitted[v, "DT"]) * 1.0 - right(test, RADIUS[v], theta)]
    }
    figures = {
        "Left: accuracy in cross-validation against eta. Right: accuracy on the test chains, whiskers of one standard "
        "error.": picture(validated, rows, test.n_chains)
    }
    notes = [
        f"trained on {train.n_chains} chains ({train.n_residues} residues), tested on {test.n_chains} "
        f"({test.n_residues}); eta from {', '.join(f'{eta:g}' for eta in etas)} and c chosen by {folds}-fold "
        f"cross-validation over training chains; every problem solved to a certified gap of {LOW.gap:g}",
        "helix, sheet, coil: share of the residues of that structure predicted rightly on the test chains",
        "the 64.3% of Qian and Sejnowski are context, not a result to reproduce: a neural network on the same windows",
        "se: standard error of the test accuracy, the test chains being drawn; "
        + "; ".join(
            f"{name}: {'above' if mean > 0 else 'below'} by {abs(mean):.1%}, standard error {error:.1%}"
            for name, (mean, error) in compared.items()
        ),
        "'ML, each by itself' drops the chain (every residue by its window and the frequency of the structures): the "
        "window's ML chain is worse because it takes overlapping windows for independent evidence; DT need not",
    ]
    if quick:
        notes.append(
            f"quick: {n_all - train.n_chains} training chains, eta {ETAS[0]:g} and {ETAS[-1]:g} and a fold left out"
        )
    return Result(NAME, PAPER, COLUMNS, rows, PUBLISHED, notes, steps.seconds, figures)


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


def deal(n_chains: int, folds: int, seed: int) -> list[Labels]:
    """The chains dealt into folds of about equal numbers; each chain in one."""
    order = np.random.default_rng(seed).permutation(n_chains)
    return [np.sort(order[fold::folds]) for fold in range(folds)]


def _some(chains: Proteins, which: Sequence[int] | Labels) -> Proteins:
    return Proteins([chains.residues[i] for i in which], [chains.structures[i] for i in which])


def _row(
    variant: str,
    model: str,
    train: Proteins,
    test: Proteins,
    radius: int,
    theta: Vector,
    choice: Choice | None = None,
    validated: float | None = None,
    solution: Solution | None = None,
) -> list[Cell]:
    hits = right(test, radius, theta)
    truth = np.concatenate(test.structures)
    by_structure = [float(hits[truth == STRUCTURES.index(letter)].mean()) for letter in "he_"]
    return [
        variant, model, choice.c if choice else None, choice.eta if choice else None, len(theta), validated,
        float(right(train, radius, theta).mean()), float(hits.mean()), standard_error(test.lengths, hits),
        *by_structure, solution.gap if solution else None, solution.seconds if solution else None,
    ]  # fmt: skip


def picture(validated: dict[str, dict[Choice, float]], rows: Sequence[Sequence[Cell]], n_chains: int) -> Figure:
    """Cross-validated accuracy against eta, and test accuracy of each model."""
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    left, bars = figure.subplots(1, 2, width_ratios=(1, 1.2))
    for variant, style in zip(validated, ("--", "-")):
        for c, colour in zip(C, (UPPER, LOWER)):
            points = {choice.eta: share for choice, share in validated[variant].items() if choice.c == c}
            left.plot(list(points), list(points.values()), style, marker="o", color=colour, label=f"{variant}, c {c}")
    left.set_xscale("log")
    left.set_xlabel("eta")
    left.set_ylabel("accuracy in cross-validation")
    left.legend(frameon=False, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    table = [dict(zip(COLUMNS, row)) for row in rows]
    shown = [row for row in table if row["variant"] in validated]
    share = np.array([row["test"] for row in shown], dtype=float)
    names = [f"{row['variant']}: {row['model']}" for row in shown]
    colours = [LOWER if row["model"] == "DT" else GREY for row in shown]
    errors = [float(row["se"] or 0.0) for row in shown]
    bars.barh(np.arange(len(shown)), share, xerr=errors, color=colours, alpha=0.8, error_kw={"lw": 1.0, "capsize": 2})
    for at, value in enumerate(share):
        bars.annotate(f"{value:.1%}", (value, at), xytext=(-30, 0), textcoords="offset points", ha="right", va="center",
                      color="white", fontsize="small")  # fmt: skip
    for row, style in ((table[0], "-"), (table[1], ":")):
        bars.axvline(float(row["test"] or 0.0), color="black", lw=0.8, ls=style, label=f"{row['model']}")
    bars.set_yticks(np.arange(len(shown)), names)
    bars.invert_yaxis()
    bars.set_xlim(0.4, 0.7)
    bars.set_xlabel(f"accuracy on {n_chains} test chains")
    bars.legend(frameon=False, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure
