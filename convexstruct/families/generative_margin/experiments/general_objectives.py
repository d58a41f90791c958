"""Objectives (28)-(30) of paper 0 side by side: the error of each at its best eta, on two rings and on proteins.

Each objective is the training problem of the paper with one piece changed: the penalty h of the slacks, slacks that the
loss rescales, the centre c, a term f, or a constraint on theta. eta is chosen by the error on validation examples, the
model is trained again on them and the training examples together, and tested on others. Rings: error is the ring loss a
sequence. Proteins: the plain hidden Markov model of `protein_hmm`, error is the share of residues predicted wrongly.

On the EASY ring most objectives end at one decoder, which reads each state off its symbol: there they cannot be told
apart, and a note counts them. On the HARD ring, whose dynamics say more, they can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from convexstruct import losses
from convexstruct.arrays import Labels, Vector
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet, standard_error
from convexstruct.core.solution import Solution
from convexstruct.datasets.generated.ring import EASY, HARD, Noise, ring
from convexstruct.datasets.real.protein import AMINO_ACIDS, STRUCTURES, protein
from convexstruct.families.generative_margin.constraints import Floor, KLBall
from convexstruct.families.generative_margin.objectives import QuadraticPenalty, ReverseKL, frequencies
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.slack_penalties import Huber, Power, Quadratic
from convexstruct.plots import LOWER, UPPER, bars, named_bars, panels
from convexstruct.tolerances import LOW

NAME = "general-objectives"
PAPER = "paper 0, (28)-(30)"
TITLE = "General objectives: test error of each at its best eta"
COLUMNS = ("data", "objective", "eta", "validation", "test", "se", "gap", "seconds")

ETAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
#: Most rounds of a solve, which needs far fewer. A time limit would make the results depend on the machine.
ROUNDS = 100
#: Ring sequences for training, validation and test, and their length.
RING, LENGTH = (100, 100, 1000), 50
#: One protein chain in so many is for validation.
VALIDATED = 4


class Data(NamedTuple):
    """Examples, and the mean error of predictions. of : a training problem of the first sequences listed, by eta and
    loss of the slacks' scale; first : how many train, then validate."""

    symbols: list[Labels]
    states: list[Labels]
    sizes: tuple[int, int]
    n_states: int
    n_symbols: int
    cost: Any
    loss: str
    share: bool

    def problem(self, low: int, high: int | None, eta: float) -> GenerativeMargin:
        some = slice(low, high)
        return GenerativeMargin.hmm(
            self.symbols[some], self.states[some], self.n_states, self.n_symbols, eta=eta, loss=self.loss
        )

    def errors(self, theta: Vector, low: int, high: int | None) -> tuple[Vector, list[int] | None]:
        """The losses of a range of sequences: of each position, with their lengths, or of each sequence."""
        found = self.problem(low, high, 1.0).predict(theta)
        each = [self.cost[a, b] for a, b in zip(self.states[low:high], found)]
        return (np.concatenate(each), list(map(len, each))) if self.share else (np.array([a.sum() for a in each]), None)

    def read_off(self, theta: Vector, low: int) -> bool:
        """Whether every sequence from ``low`` on is decoded as its own symbols."""
        found = self.problem(low, None, 1.0).predict(theta)
        return all(np.array_equal(a, b) for a, b in zip(found, self.symbols[low:]))


#: By name: the pieces, given the problem (2)-(5) that they change.
OBJECTIVES: dict[str, Callable[[GenerativeMargin], dict[str, Any]]] = {
    "as in (2)": lambda p: {},
    "rescaled slacks": lambda p: {"rescaled": True},
    "quadratic h": lambda p: {"h": Quadratic(1.0)},
    "Huber h, delta 10": lambda p: {"h": Huber(10.0)},
    "power 3/2 h": lambda p: {"h": Power(1.5)},
    "c: frequencies": lambda p: {"c": frequencies(p.features)},
    "c: smaller model": lambda p: {"c": frequencies(p.features, kept={"transition": ()})},
    "f: quadratic": lambda p: {"c": 0.0 * p.c, "f": QuadraticPenalty(0.1, np.log(frequencies(p.features)))},
    "f: reverse KL": lambda p: _reverse(p, ReverseKL(frequencies(p.features))),
    "floor e^-5": lambda p: {"constraints": (Floor(-5.0),)},
    "KL ball, 0.2 nats": lambda p: {"constraints": (KLBall(frequencies(p.features), 0.2),)},
}


def _reverse(p: GenerativeMargin, f: ReverseKL) -> dict[str, Any]:
    return {"c": 0.0 * p.c, "f": f, "constraints": (f.floor(p.layout),)}


def run(sheet: Sheet) -> None:
    """The seed draws the ring's sequences, and which chains validate."""
    etas = sheet.pick(ETAS, ETAS[1:3])
    names = sheet.pick(tuple(OBJECTIVES), tuple(OBJECTIVES)[:2])
    data = {"easy ring": _ring(sheet, EASY), "hard ring": _ring(sheet, HARD), "protein": _proteins(sheet)}
    read_off = dict.fromkeys(data, 0)
    sheet.total = len(data) * len(names) * (len(etas) + 1)
    for of, examples in data.items():
        n, m = examples.sizes
        for name in names:
            best, found = sheet.choose(
                etas, partial(_validated, examples, name), f"{of}, {name}: eta {{:g}}".format, largest=False
            )
            sheet.step(f"{of}, {name}: eta {best:g} on all examples")
            solution = train(examples, name, best, n + m)
            each, lengths = examples.errors(solution.point["theta"], n + m, None)
            read_off[of] += examples.read_off(solution.point["theta"], n + m)
            se = standard_error(each, lengths)
            sheet.add(of, name, best, found[best], each.mean(), se, solution.gap, solution.seconds)
    sheet.notes += [
        f"eta from {', '.join(f'{eta:g}' for eta in etas)}, by the error on the validation examples; test: a model "
        f"trained on those and the training examples; se: standard error of the test error over sequences; every "
        f"problem is solved to a certified gap of {LOW.gap:g}, or as far as the engine comes (gap: of this model)",
        "rings: ring loss a sequence; protein: share of residues predicted wrongly",
        f"of {len(names)} objectives, so many decode every test position as its own symbol, and cannot differ: "
        + ", ".join(f"{of} {count}" for of, count in read_off.items()),
        "frequencies are counts of the training data plus 1; the smaller model's transitions forget the state",
    ]
    sheet.figures["Test error of each objective at its best eta, whiskers of one standard error."] = draw(sheet)
    sheet.left_out(
        f"{len(OBJECTIVES) - len(names)} objectives, {len(ETAS) - len(etas)} etas and most examples left out"
    )


def draw(sheet: Sheet) -> Figure:
    """A panel a data set, a bar an objective."""
    table = sheet.table()
    of = list(dict.fromkeys(row["data"] for row in table))
    figure, every = panels(len(of), size=(9.0, 1.2 + 0.2 * len(table)), sharey=True)
    for axes, name, colour in zip(every, of, (LOWER, LOWER, UPPER)):
        rows = [row for row in table if row["data"] == name]
        form = "{:.1%}" if name == "protein" else "{:.1f}"
        bars(axes, [row["test"] for row in rows], [row["se"] for row in rows], colour, form)
        axes.set(xlabel="test error" if name == "protein" else "ring loss a sequence", title=name)
    named_bars(every[0], [row["objective"] for row in table if row["data"] == of[0]])
    return figure


def train(data: Data, name: str, eta: float, n: int) -> Solution:
    plain = data.problem(0, n, eta)
    return solve(replace(plain, **OBJECTIVES[name](plain)), tol=LOW, max_iterations=ROUNDS)


def _validated(data: Data, name: str, eta: float) -> float:
    n, m = data.sizes
    return float(data.errors(train(data, name, eta, n).point["theta"], n, n + m)[0].mean())


def _ring(sheet: Sheet, noise: Noise) -> Data:
    n, m, test = sheet.pick(RING, (10, 10, 40))
    data = ring(n + m + test, LENGTH, noise=noise, seed=sheet.seed)
    cost = losses.ring(data.n_states)
    return Data(list(data.symbols), list(data.states), (n, m), data.n_states, data.n_symbols, cost, "ring", False)


def _proteins(sheet: Sheet) -> Data:
    known, test = protein("train"), protein("test")
    order = np.random.default_rng(sheet.seed).permutation(known.n_chains)
    order = order[: sheet.pick(len(order), 6)]
    symbols = [known.residues[k] for k in order] + list(test.residues)
    states = [known.structures[k] for k in order] + list(test.structures)
    m, cost = len(order) // VALIDATED, 1.0 - np.eye(len(STRUCTURES))
    return Data(symbols, states, (len(order) - m, m), len(STRUCTURES), len(AMINO_ACIDS), cost, "hamming", True)
