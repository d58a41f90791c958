"""Several labels an image as one structure: six independent labels, a tree of them, and the full graph (papers 1 and 4:
the structural SVM and the M3N, on the scenes of M. Boutell and others, 2004).

An image is a graph of six nodes, one a label, each of which is on or off. Each node has weights of its own for the 294
colour features and a constant; each edge has a table of its own, 2 x 2. The loss is Hamming's. The sets of edges:

    independent    none
    tree           the maximum spanning tree of the mutual information between the training labels
    full           all 15 pairs, exact over a junction tree of one clique

C (of 1/2 |w|^2 + (C/N) sum_i H_i) is chosen for each by the Hamming loss on a third of the training images.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree

from convexstruct.arrays import Index, Labels, Matrix
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Cell, Progress, Result, Steps
from convexstruct.core.solution import Solution
from convexstruct.datasets.labelled import LabelledGraphs
from convexstruct.datasets.real.scene import SCENES, Scenes, scene
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.features.graphs.pairwise import PairwiseFeatures, read_pairwise
from convexstruct.plots import LOWER, UPPER
from convexstruct.tolerances import LOW

NAME = "scene"
PAPER = "papers 1 and 4, the structural SVM, on the scenes of M. Boutell and others (2004)"
TITLE = "Several labels an image: Hamming loss and exact match of independent labels, a tree and the full graph"

N_LABELS = len(SCENES)
GRAPHS = ("independent", "tree", "full")
C = (10.0, 30.0, 100.0)
#: Most rounds of a solve. A time limit would make the results depend on the machine.
ROUNDS = 40
#: Images for training and for testing, and C, of a quick run.
QUICK_IMAGES, QUICK_C = 120, (3.0, 10.0)

COLUMNS = (
    "graph", "edges", "C", "validated", "training", "Hamming", "se", "not exact", "se of exact", "labels an image",
    "gap", "seconds",
)  # fmt: skip


class Trained(NamedTuple):
    """The problem, its solution, and the processor seconds both took."""

    problem: StructuredSVM
    solution: Solution
    seconds: float


def run(quick: bool = False, seed: int = 0, progress: Steps | None = None) -> Result:
    """Choose C, train and test; ``seed`` draws the images that are held out for the choice.

    Raises
    ------
    ValueError
        If the scenes are not installed; the message says how to get them and where to put them.
    """
    train, test = scene("train"), scene("test")
    order = np.random.default_rng(seed).permutation(len(train.labels))
    grid = QUICK_C if quick else C
    if quick:
        train, order = some(train, order[:QUICK_IMAGES]), np.arange(QUICK_IMAGES)
        test = some(test, np.arange(0, len(test.labels), max(1, len(test.labels) // QUICK_IMAGES)))
    third = len(order) // 3
    kept, held = some(train, order[third:]), some(train, order[:third])
    steps = Progress(progress, len(GRAPHS) * (len(grid) + 1))
    rows: list[list[Cell]] = [_row("none of the six", None, None, None, train, test, None)]
    chosen: list[str] = []
    couplings: dict[str, Matrix] = {}
    tree = spanning_tree(train.labels)
    for name in GRAPHS:
        validated = {}
        for c in grid:
            steps.next(f"{name}: C = {c:g}")
            found = fit(edges(name, kept.labels), kept, c)
            validated[c] = float((predict(found, held) != held.labels).mean())
        best = min(grid, key=lambda c: (validated[c], c))
        chosen.append(f"{name} {', '.join(f'{validated[c]:.2%} at {c:g}' for c in grid)}")
        steps.next(f"{name}: all {len(train.labels)} training images, C = {best:g}")
        pairs = edges(name, train.labels)
        found = fit(pairs, train, best)
        rows.append(_row(name, len(pairs), best, validated[best], train, test, found))
        if len(pairs):
            couplings[name] = coupling(found, pairs)
    named = ", ".join(f"{SCENES[i]} - {SCENES[j]}" for i, j in tree)
    notes = [
        f"trained on {len(train.labels)} images, tested on {len(test.labels)}; Hamming: share of the labels that are "
        "wrong; not exact: share of the images with a wrong label; se: standard error, test images being drawn; "
        "training: Hamming loss on the training images; gap: certified, relative; seconds: processor seconds of the "
        f"last training; solves stop at a gap of {LOW.gap:g} or after {ROUNDS} rounds",
        f"Hamming loss on the {third} images held out, by C: {'; '.join(chosen)}",
        f"the tree: {named}",
        f"labels an image: predicted, on the test images; the truth has {test.labels.sum(axis=1).mean():.2f}",
        "the five papers print no numbers for this set",
    ]
    if quick:
        notes.append(f"quick: {QUICK_IMAGES} training images, every so many of the test images, and C = {QUICK_C} only")
    figures = {
        "Errors on the test images, whiskers of one standard error.": picture(rows),
        "What two labels gain by being equal, w(0,0) + w(1,1) - w(0,1) - w(1,0): below 0 they exclude each "
        "other.": draw_couplings(couplings),
    }
    published = {"papers 0 to 4": "no numbers on this set"}
    return Result(NAME, PAPER, COLUMNS, rows, published, notes, steps.seconds, figures)


# -- graphs ------------------------------------------------------------------------------------------------------------


def mutual_information(labels: Labels) -> Matrix:
    """Of each pair of columns of ``labels`` (n, k) of 0 and 1, in nats; (k, k), above the diagonal."""
    k = labels.shape[1]
    found = np.zeros((k, k))
    for i, j in combinations(range(k), 2):
        joint = np.bincount(2 * labels[:, i] + labels[:, j], minlength=4).reshape(2, 2) / len(labels)
        apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        seen = joint > 0
        found[i, j] = float((joint[seen] * np.log(joint[seen] / apart[seen])).sum())
    return found


def spanning_tree(labels: Labels) -> Index:
    """Edges (k - 1, 2) of the tree with the greatest sum of mutual information (Chow, Liu 1968)."""
    k = labels.shape[1]
    # the least length is sought; a length of 0 would mean no edge, so lengths are 1 + ln 2 - information >= 1
    length = np.triu(1.0 + np.log(2.0) - mutual_information(labels), 1)
    tree = minimum_spanning_tree(length).tocoo()
    pairs = np.sort(np.column_stack(tree.coords), axis=1).astype(np.intp)
    assert len(pairs) == k - 1
    return pairs[np.lexsort(pairs.T[::-1])]


def edges(name: str, labels: Labels) -> Index:
    """The edges of a graph by name; (q, 2)."""
    if name == "tree":
        return spanning_tree(labels)
    pairs = list(combinations(range(labels.shape[1]), 2)) if name == "full" else []
    return np.array(pairs, dtype=np.intp).reshape(-1, 2)


def graphs(scenes: Scenes, pairs: Index) -> LabelledGraphs:
    """One graph an image. Node features: those of the image and a constant, in the block of the label; sparse.
    Edge features: an indicator of the pair."""
    n, k = scenes.labels.shape
    seen = np.column_stack((scenes.features, np.ones(n)))
    width = seen.shape[1]
    columns = (width * np.tile(np.arange(k), n)[:, None] + np.arange(width)).ravel()
    nodes = sp.csr_array(
        (np.repeat(seen, k, axis=0).ravel(), columns, width * np.arange(n * k + 1)), shape=(n * k, k * width)
    )
    start = k * np.arange(n + 1)
    flat = (start[:-1, None, None] + pairs).reshape(-1, 2)
    which = np.tile(np.eye(len(pairs)), (n, 1)) if len(pairs) else None
    return LabelledGraphs(nodes, flat, start, scenes.labels.ravel(), 2, which)


# -- training and testing ----------------------------------------------------------------------------------------------


def fit(pairs: Index, scenes: Scenes, c: float) -> Trained:
    """Train on all of ``scenes``."""
    begin = time.process_time()
    g = graphs(scenes, pairs)
    posed = StructuredSVM.read(
        g.node_features, g.labels_each, g.n_labels, edges=g.edges_each if len(pairs) else "none",
        edge_features=g.edge_features_each, C_mean=c,
    )  # fmt: skip
    solution = solve(posed, tol=LOW, max_iterations=ROUNDS)
    return Trained(posed, solution, time.process_time() - begin)


def features(scenes: Scenes, pairs: Index) -> PairwiseFeatures:
    """The feature map of other images."""
    g = graphs(scenes, pairs)
    return read_pairwise(
        g.node_features, g.labels_each, g.n_labels, g.edges_each if len(pairs) else "none", g.edge_features_each
    )


def predict(found: Trained, scenes: Scenes) -> Labels:
    """The labels of each image; (n, k)."""
    own = found.problem.features
    first = own.edges[own.edge_example == 0]
    return np.stack(found.problem.predict(found.solution.point, features(scenes, first)))


def coupling(found: Trained, pairs: Index) -> Matrix:
    """w(0,0) + w(1,1) - w(0,1) - w(1,0) of each pair, NaN where there is no edge; symmetric (k, k)."""
    tables = found.problem.features.split(found.solution.point["w"])[1]
    table = np.full((N_LABELS, N_LABELS), np.nan)
    table[pairs[:, 0], pairs[:, 1]] = tables[:, 0, 0] + tables[:, 1, 1] - tables[:, 0, 1] - tables[:, 1, 0]
    table[pairs[:, 1], pairs[:, 0]] = table[pairs[:, 0], pairs[:, 1]]
    return table


def some(scenes: Scenes, which: NDArray[Any]) -> Scenes:
    """Some of the images."""
    return Scenes(scenes.features[which], scenes.labels[which])


def _row(
    name: str, n_edges: int | None, c: float | None, validated: float | None, train: Scenes, test: Scenes,
    found: Trained | None,
) -> list[Cell]:  # fmt: skip
    guessed = np.zeros_like(test.labels) if found is None else predict(found, test)
    wrong = guessed != test.labels
    learned = np.zeros_like(train.labels) if found is None else predict(found, train)
    cells: list[Cell] = [name, n_edges, c, validated, float((learned != train.labels).mean())]
    for each in (wrong.mean(axis=1), wrong.any(axis=1)):
        cells += [float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each)))]
    cells.append(float(guessed.sum(axis=1).mean()))
    return [*cells, *((None, None) if found is None else (found.solution.gap, found.seconds))]


# -- pictures ----------------------------------------------------------------------------------------------------------


def picture(rows: Sequence[Sequence[Cell]]) -> Figure:
    """Bars of both errors by graph."""
    table: list[Mapping[str, Any]] = [dict(zip(COLUMNS, row)) for row in rows]
    table = [row for row in table if row["graph"] in GRAPHS]
    figure = Figure(figsize=(8.0, 2.4), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    place = np.arange(len(table))
    for axes, error, se, colour in zip(panels, ("Hamming", "not exact"), ("se", "se of exact"), (LOWER, UPPER)):
        values = [row[error] for row in table]
        axes.barh(place, values, xerr=[row[se] for row in table], color=colour, alpha=0.85, height=0.6,
                  error_kw={"lw": 1.0, "capsize": 2})  # fmt: skip
        for at, value in enumerate(values):
            axes.annotate(f"{value:.1%}", (0.0, at), xytext=(5, 0), textcoords="offset points", va="center",
                          color="white", fontsize="small")  # fmt: skip
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    panels[0].set_xlabel("labels that are wrong")
    panels[1].set_xlabel("images with a wrong label")
    panels[0].set_yticks(place, [row["graph"] for row in table])
    panels[0].invert_yaxis()
    return figure


def draw_couplings(couplings: Mapping[str, Matrix]) -> Figure:
    """The tables of couplings side by side, blue below 0 and red above."""
    figure = Figure(figsize=(4.6 * len(couplings), 3.9), layout="constrained")
    panels = figure.subplots(1, len(couplings), squeeze=False)[0]
    most = max(float(np.nanmax(np.abs(table))) for table in couplings.values()) or 1.0
    for axes, (name, table) in zip(panels, couplings.items()):
        image = axes.imshow(table, cmap="RdBu_r", vmin=-most, vmax=most)
        axes.set_xticks(range(N_LABELS), SCENES, rotation=40, ha="right")
        axes.set_yticks(range(N_LABELS), SCENES)
        axes.set_title(name, fontsize="medium")
        axes.set_facecolor("#e4e4e4")
        axes.tick_params(length=0)
        for i, j in np.argwhere(np.isfinite(table)):
            dark = abs(table[i, j]) > 0.6 * most
            axes.annotate(f"{round(table[i, j], 1) + 0.0:.1f}", (j, i), ha="center", va="center", fontsize="small",
                          color="white" if dark else "black")  # fmt: skip
    figure.colorbar(image, ax=list(panels), shrink=0.8)
    return figure
