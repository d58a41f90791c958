"""Paper 3, section 3: the relaxation collapses: its bound is weak, and its C and D are uniform.

**Bounds.** The minimiser of the reduced SDP does not depend on beta, so one solve gives bounds for every beta. As beta
falls to 0 the bound falls like -1/beta, while no labelling has a margin loss below 0; as beta grows the bound rises to
p1 (1 - 1/kappa), and the losses rise to p1. The table has the bound for several beta beside the losses of the labels
read from the SDP's M, of the true labels and of one label everywhere.

**C and D.** On a small set scheme (12) is run round by round in CVXPY, with C and D as variables. From the uniform cut
it ends at once. From the cut of a random labelling the first C and D are indicators of labels, and each further cut
brings them nearer to uniform; M, from which labels are read, is found many rounds earlier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Matrix, Tensor, Vector
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet
from convexstruct.datasets.generated.hidden_markov import hidden_markov
from convexstruct.families.unsupervised_margin.experiments.draws import SETTINGS
from convexstruct.families.unsupervised_margin.labels_from_gram import best_names, labels_from_gram
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.supervised import supervised
from convexstruct.plots import GREY, LOWER, UPPER, lines, panels
from convexstruct.tolerances import HIGH, LOW

NAME = "collapse-sdp"
PAPER = "paper 3, section 3, (9)-(12)"
TITLE = "The relaxation collapses: its bounds, and C and D on their way to uniform"
COLUMNS = (
    "set", "beta", "lower bound", "SDP value", "gap", "loss of its labels", "loss of true labels", "loss of one label",
    "wrong, percent", "off y = x, percent",
)  # fmt: skip

#: Values of beta; the paper's are the first for the synthetic sets and 1 for proteins.
BETAS = (0.01, 1.0, 100.0, 10_000.0)
SETS, QUICK_SETS = ("SYNTH1", "SYNTH4"), ("SYNTH1",)
#: The small set: sequences and their length. Rounds of (12) on it, at most.
SMALL, ROUNDS, QUICK_ROUNDS = (2, 4), 60, 8


@dataclass(frozen=True, eq=False)
class Steps12:
    """Scheme (12) from one first cut. master, lower, upper (R,) : the master's value, not proved, and the proved bounds
    so far. c (R, p1, kappa), d (R, p2, kappa^2), m (R, p1, p1) : C, D and M of each round. done : nothing was left to
    add."""

    master: Vector
    lower: Vector
    upper: Vector
    c: Tensor
    d: Tensor
    m: Tensor
    done: bool


def run(sheet: Sheet) -> None:
    """Bounds on draws of the synthetic sets, and (12) on a small one; the seed draws them."""
    sets, rounds = sheet.pick((SETS, ROUNDS), (QUICK_SETS, QUICK_ROUNDS))
    sheet.total = len(sets) + 2
    seed = 1000 * sheet.seed
    names = [f"{name}: the SDP, and losses of labels" for name in sets]
    for name, found in zip(sets, sheet.in_order(bounds, [(name, seed) for name in sets], names)):
        for beta, cells in found.items():
            sheet.add(name, beta, *cells)
    data = hidden_markov(0.8, *SMALL, seed=seed)
    problem = UnsupervisedMargin.read(data.symbols, 2, beta=BETAS[0], label_balance=0.2, pair_balance=0.25)
    optimum = solve(problem, tol=HIGH).point["M"]
    firsts = ("uniform", "random")
    calls = [(problem, first, sheet.seed, rounds) for first in firsts]
    begun, end = sheet.in_order(stepped, calls, [f"(12) from a {first} cut" for first in firsts])
    sheet.notes += [
        f"one draw a set, 10 sequences of length 8, eps {SETTINGS['SYNTH1'].label_balance:g} and "
        f"{SETTINGS['SYNTH1'].pair_balance:g}; lower bound and SDP value are certified, and the losses are certified "
        f"upper bounds to {LOW.gap:g}; 'off y = x' compares the SDP's labels with the symbols",
        f"(12) on {SMALL[0]} sequences of length {SMALL[1]}, beta {BETAS[0]:g}: from the uniform cut it "
        f"{'ends' if begun.done else 'has not ended'} after {len(begun.master)} round{'s'[: len(begun.master) > 1]}; "
        f"from a random labelling it {'ends' if end.done else 'has not ended'} after {len(end.master)} rounds, with C "
        f"up to {float(np.abs(end.c[-1] - 0.5).max()):.2g} from uniform, D up to "
        f"{float(np.abs(end.d[-1] - 0.25).max()):.2g}, and M up to {float(np.abs(end.m[-1] - optimum).max()):.1g} from "
        "that of the reduced SDP",
        "C and D of the relaxation say nothing about labels: exchange the labels of any solution, take the mean with "
        "it, and C is 1/kappa",
        "the bound is one for balanced labels; one label everywhere is not balanced, and may cost less. Labels that are"
        " a function of the symbols cost next to nothing at a small beta, as y = x does; the true labels are none",
    ]
    sheet.left_out(f"{', '.join(sorted(set(SETS) - set(sets)))} and {ROUNDS - rounds} rounds of (12) left out")
    sheet.figures = {
        "The SDP's value, a bound for balanced labels, and losses of labels against beta; one label everywhere is not "
        "balanced.": draw_bounds(sheet.table()),
        "Scheme (12) from the cut of a random labelling. Left: what the master claims, and proved bounds. Right: "
        "largest entries by which C, D and M differ from uniform and from the optimum.": draw_rounds(end, optimum),
    }


def bounds(name: str, seed: int) -> dict[float, list[float]]:
    """The columns from "lower bound" on of one draw, by beta."""
    setting = SETTINGS[name]
    draw = setting.draw(seed)
    problem = setting.problem(draw)
    solution = solve(problem, tol=LOW)
    labels = labels_from_gram(solution.point["M"], draw.n_labels)
    assert draw.shown is not None
    errors = [100.0 * best_names(labels, other).error for other in (draw.truth, draw.shown)]
    found = {}
    for beta in BETAS:
        posed = replace(problem, beta=beta)
        proved = certify(posed, solution.point, solution.dual_point)
        each = (labels, draw.truth, np.zeros_like(labels))
        losses = [solve(supervised(posed, y), tol=LOW).primal for y in each]
        found[beta] = [proved.lower_bound, proved.primal, proved.gap, *losses, *errors]
    return found


def stepped(problem: UnsupervisedMargin, first: str, seed: int, rounds: int) -> Steps12:
    """(12) from the first cut that ``first`` names."""
    from convexstruct.models.unsupervised_margin import delta_cuts  # imported here because it loads CVXPY

    scheme = delta_cuts(problem, first=first, seed=seed)
    tables: dict[str, list[Matrix]] = {"C": [], "D": [], "M": []}
    while not scheme.done and len(scheme.rounds) < rounds:
        scheme.step()
        assert scheme.master is not None
        for name, values in tables.items():
            values.append(np.asarray(scheme.master.variables[name].value))
    each = scheme.rounds
    return Steps12(
        np.array([r.master for r in each]), np.array([r.lower_bound for r in each]), np.array([r.primal for r in each]),
        np.array(tables["C"]), np.array(tables["D"]), np.array(tables["M"]), scheme.done,
    )  # fmt: skip


def draw_bounds(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """The SDP's value and the losses of labels against beta, a panel a set."""
    names = list(dict.fromkeys(row["set"] for row in rows))
    named = {
        "value of the SDP": ("SDP value", LOWER), "loss of its labels": ("loss of its labels", UPPER),
        "loss of true labels": ("loss of true labels", GREY), "loss of one label": ("loss of one label", "black"),
    }  # fmt: skip
    figure, every = panels(len(names), size=(1.0 + 4.2 * len(names), 3.6), sharey=True)
    for axes, name in zip(every, names):
        table = [row for row in rows if row["set"] == name]
        curves = {said: ([row[head] for row in table], colour, "o-") for said, (head, colour) in named.items()}
        first = axes is every[0]
        lines(axes, [row["beta"] for row in table], curves, legend="lower right" if first else None, xscale="log",
              xlabel="beta", title=name, ylabel="value or loss" if first else "")  # fmt: skip
        axes.axhline(0.0, color="black", lw=0.6)
        axes.set_yscale("symlog", linthresh=1.0)
        axes.margins(y=0.1)
    return figure


def draw_rounds(found: Steps12, optimum: Matrix) -> Figure:
    """Bounds and distances round by round."""
    figure, (left, right) = panels(2, size=(9.0, 3.4))
    at = np.arange(1, len(found.master) + 1)
    values = {
        "master's value, claimed": (found.master, GREY, "-"), "proved upper bound": (found.upper, UPPER, "-"),
        "proved lower bound": (found.lower, LOWER, "-"),
    }  # fmt: skip
    lines(left, at, values, xlabel="round", ylabel="value of the relaxation")
    away = {
        "C from uniform": (found.c - 1 / found.c.shape[2], UPPER),
        "D from uniform": (found.d - 1 / found.d.shape[2], LOWER),
        "M from the reduced SDP's": (found.m - optimum, GREY),
    }
    largest = {label: (np.abs(each).max(axis=(1, 2)), colour, "-") for label, (each, colour) in away.items()}
    lines(right, at, largest, xlabel="round", ylabel="largest difference", yscale="log")
    return figure
