"""Paper 4, "MAP approximation (perceptron training)": the objective collapses, and a margin prevents it.

With the best joint label in place of ln Z, the likelihood becomes <theta, f(x)> - max_x' <theta, f(x')>, which is at
most 0, and 0 at theta = 0: a model that ignores the data is optimal. Three objectives are shown along a ray from 0, for
a Markov random field on a grid (through the parameters that generated the samples) and for labelled sequences (through
the parameters that likelihood finds):

    ln p            the likelihood itself, whose maximum lies near these parameters
    MAP             the approximation: 0 at the origin, and falling or flat from there, so that it "collapses"
    margin          minus the structural hinge, max_y [E(y) + <theta, f(x, y)>] - <theta, f(x, y_i)>: 0 only where the
                    truth leads every labelling by at least its loss, which is not so at theta = 0

For sequences the MAP approximation is a structural SVM all of whose losses are 0: its optimum is 0, at w = 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Labels, Matrix, Vector
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet
from convexstruct.core.iterate import Solver
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.examples import image, ising
from convexstruct.families.structured_svm import Perceptron, StructuredSVM
from convexstruct.oracles.enumeration import labellings
from convexstruct.plots import GREY, LOWER, UPPER, lines, panels
from convexstruct.tolerances import HIGH

NAME = "collapse"
PAPER = "paper 4, MAP approximation and max-margin training"
TITLE = "The MAP approximation collapses, and a margin prevents it"
COLUMNS = ("model", "lower bound", "optimum at most", "|w|", "training error", "test error", "gap")

#: The grid's side, samples, and the standard deviation of its parameters in nats.
SIDE, SAMPLES, SPREAD = 3, 200, 0.8
#: Sequences to train on and to test on (full, quick), their length, labels, and the label's weight in its features.
SEQUENCES, QUICK_SEQUENCES, LENGTH, LABELS, SIGNAL = 60, 20, 8, 4, 1.0
#: The penalty beta of all models of sequences.
BETA = 1.0
#: Multiples of the parameters that the curves are drawn at.
MULTIPLES = np.linspace(0.0, 2.0, 41)


class Ray(NamedTuple):
    """Means over the samples along a ray: exact (t,) of ln p, mapped (t,) of the MAP approximation, margin (t,)."""

    exact: Vector
    mapped: Vector
    margin: Vector


def on_grid(seed: int) -> Ray:
    """The curves along t theta*, over all joint labels; the margin's loss is 1 for every variable that differs."""
    factors = ising(image(SIDE, SIDE))
    rng, every = np.random.default_rng([seed, 1]), labellings(factors.cards)
    scores = factors.scores(SPREAD * rng.normal(size=factors.dimension), every)
    drawn = rng.choice(len(every), size=SAMPLES, p=np.exp(scores - np.logaddexp.reduce(scores)))
    costs = (every[drawn][:, None] != every).sum(axis=2)
    rows = [
        [
            float(np.mean(t * scores[drawn]) - np.logaddexp.reduce(t * scores)),
            float(np.mean(t * scores[drawn]) - (t * scores).max()),
            float(np.mean(t * scores[drawn] - (costs + t * scores).max(axis=1))),
        ]
        for t in MULTIPLES
    ]
    return Ray(*np.array(rows).T)


class Sequences(NamedTuple):
    """Features and labels, one array a sequence."""

    features: list[Matrix]
    labels: list[Labels]


def sequences(n: int, seed: int) -> Sequences:
    """A Markov chain of labels that stay more often than not; features are noisy indicators."""
    rng = np.random.default_rng(seed)
    features, labels = [], []
    for _ in range(n):
        y = [int(rng.integers(LABELS))]
        while len(y) < LENGTH:
            y.append(y[-1] if rng.random() < 0.6 else int(rng.integers(LABELS)))
        labels.append(np.array(y))
        features.append(SIGNAL * np.eye(LABELS)[y] + rng.normal(size=(LENGTH, LABELS)))
    return Sequences(features, labels)


def along(data: Sequences, w: Vector) -> Ray:
    """The three objectives, per sequence, along t w."""
    likelihood = ConditionalRandomField.read(data.features, data.labels, LABELS)
    margin = margin_of(data, "hamming")
    flat = margin_of(data, np.zeros((LABELS, LABELS)))
    n = len(data.labels)
    rows = [
        [
            -likelihood.value_and_gradient(t * w)[0] / n,
            -float(flat.most_violated(t * w).hinge.sum()) / n,
            -float(margin.most_violated(t * w).hinge.sum()) / n,
        ]
        for t in MULTIPLES
    ]
    return Ray(*np.array(rows).T)


def margin_of(data: Sequences, loss: str | Matrix) -> StructuredSVM:
    """The structural SVM of some data; with losses of 0 the MAP approximation."""
    return StructuredSVM.read(data.features, data.labels, LABELS, loss=loss, beta=BETA)


def run(sheet: Sheet) -> None:
    """Both rays, and four ways to train a model of the sequences; the seed draws the data."""
    n, seed = sheet.pick(SEQUENCES, QUICK_SEQUENCES), sheet.seed
    train, test = sequences(n, 1000 * seed + 1), sequences(n, 1000 * seed + 2)
    mapped, hamming = margin_of(train, np.zeros((LABELS, LABELS))), margin_of(train, "hamming")
    likelihood = ConditionalRandomField.read(train.features, train.labels, LABELS, beta=BETA)
    models: dict[str, tuple[Any, Solver | None]] = {
        "MAP approximation": (mapped, None), "MAP, perceptron": (mapped, Perceptron(seed=seed)),
        "margin, Hamming loss": (hamming, None), "likelihood": (likelihood, None),
    }  # fmt: skip
    sheet.total = 1 + len(models)
    for name, (problem, solver) in models.items():
        sheet.step(name)
        found = solve(problem, solver, tol=HIGH)
        (w,) = found.point.values()
        errors = [
            np.mean(np.concatenate(problem.predict(found.point, data.features)) != np.concatenate(data.labels))
            for data in (train, test)
        ]
        sheet.add(name, found.lower_bound, found.primal, np.linalg.norm(w), *errors, found.gap)
    sheet.step("rays")
    rays = {"Markov random field on a grid": on_grid(seed), "labelled sequences": along(train, w)}
    sheet.notes += [
        "the MAP approximation is minimised by w = 0, with the optimum 0: the lower bound and the value are both 0, "
        f"and every labelling scores the same; {LABELS} labels by chance err {1 - 1 / LABELS:.2f} of the time",
        "the perceptron stops short of that optimum: it is its early stopping, and no objective, that makes it useful; "
        "its row is valued at the MAP objective and has no certificate of its own",
        "errors are of single labels; optimum at most: the proved upper bound of each model's own objective",
    ]
    sheet.left_out(f"{SEQUENCES - n} of {SEQUENCES} sequences left out")
    sheet.figures[
        "Objectives along the ray from 0 through the parameters (left: those that generated the grid; right: those "
        "that likelihood finds for the sequences). The MAP approximation is nowhere above its value at 0."
    ] = picture(rays)


def picture(rays: dict[str, Ray]) -> Figure:
    """The three objectives along both rays."""
    figure, every = panels(len(rays), size=(9.0, 3.4))
    for axes, (title, ray) in zip(every, rays.items()):
        curves = {
            "ln p": (ray.exact, "black", "-"),
            "MAP": (ray.mapped, UPPER, "-"),
            "margin": (ray.margin, LOWER, "--"),
        }
        across = {"xlabel": "multiple t of the parameters", "ylabel": "mean over the samples (nats)"}
        lines(axes, MULTIPLES, curves, title=title, legend="best" if axes is every[0] else None, **across)
        for values, colour in ((ray.exact, "black"), (ray.margin, LOWER)):
            axes.plot(MULTIPLES[values.argmax()], values.max(), "o", color=colour, ms=4)
        axes.plot(0.0, 0.0, "o", color=UPPER, ms=5)
        axes.axhline(0.0, color=GREY, lw=0.6, ls=":")
    return figure
