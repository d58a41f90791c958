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

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.sparse.csgraph import minimum_spanning_tree

from convexstruct.arrays import Index, Labels, Matrix
from convexstruct.core.experiment import Sheet, listed, standard_error
from convexstruct.datasets.real.scene import SCENES, Scenes, divided
from convexstruct.families.structured_svm.experiments.training import NOTHING, Trained, train
from convexstruct.features.graphs.pairwise import read_pairwise
from convexstruct.plots import panels, signed, two_bars
from convexstruct.tolerances import LOW

NAME = "scene"
PAPER = "papers 1 and 4, the structural SVM, on the scenes of M. Boutell and others (2004)"
TITLE = "Several labels an image: Hamming loss and exact match of independent labels, a tree and the full graph"
PUBLISHED = NOTHING
COLUMNS = (
    "graph", "edges", "C", "validated", "training", "Hamming", "se", "not exact", "se of exact", "labels an image",
    "gap", "seconds",
)  # fmt: skip

N_LABELS = len(SCENES)
GRAPHS = ("independent", "tree", "full")
C = (10.0, 30.0, 100.0)
#: Most rounds of a solve.
ROUNDS = 40
#: Images for training and for testing, and C, of a quick run.
QUICK_IMAGES, QUICK_C = 120, (3.0, 10.0)


def run(sheet: Sheet) -> None:
    """Choose C, train and test; the seed draws the images that are held out for the choice."""
    learning, kept, held, test = divided(sheet.seed, sheet.pick(None, QUICK_IMAGES))
    grid = sheet.pick(C, QUICK_C)
    sheet.total = len(GRAPHS) * (len(grid) + 1)
    sheet.add("none of the six", None, None, None, *measured(np.zeros_like(learning.labels), learning, test))
    chosen: list[str] = []
    couplings: dict[str, Matrix] = {}
    for name in GRAPHS:
        first = edges(name, kept.labels)

        def judge(c: float, pairs: Index = first) -> float:
            return float((predict(fit(pairs, kept, c), pairs, held) != held.labels).mean())

        c, validated = sheet.choose(grid, judge, f"{name}: C = {{:g}}".format)
        chosen.append(f"{name} {listed(validated, '{:.2%}')}")
        sheet.step(f"{name}: all {len(learning.labels)} training images, C = {c:g}")
        pairs = edges(name, learning.labels)
        found = fit(pairs, learning, c)
        learned, guessed = predict(found, pairs, learning), predict(found, pairs, test)
        sheet.add(name, len(pairs), c, validated[c], *measured(learned, learning, test, guessed), found.solution.gap,
                  found.seconds)  # fmt: skip
        if len(pairs):
            couplings[name] = coupling(found, pairs)
    named = ", ".join(f"{SCENES[i]} - {SCENES[j]}" for i, j in spanning_tree(learning.labels))
    sheet.notes += [
        f"trained on {len(learning.labels)} images, tested on {len(test.labels)}; Hamming: share of the labels that "
        "are wrong; not exact: share of the images with a wrong label; se: standard error, test images being drawn; "
        "training: Hamming loss on the training images; gap: certified, relative; seconds: processor seconds of the "
        f"last training; solves stop at a gap of {LOW.gap:g} or after {ROUNDS} rounds",
        f"Hamming loss on the {len(held.labels)} images held out, by C: {'; '.join(chosen)}",
        f"the tree: {named}",
        f"labels an image: predicted, on the test images; the truth has {test.labels.sum(axis=1).mean():.2f}",
        "the five papers print no numbers for this set",
    ]
    sheet.left_out(f"{QUICK_IMAGES} training images, every so many of the test images, and C = {QUICK_C} only")
    shown = [row for row in sheet.table() if row["graph"] in GRAPHS]
    wrong = ("Hamming", "se", "labels that are wrong"), ("not exact", "se of exact", "images with a wrong label")
    sheet.figures = {
        "Errors on the test images, whiskers of one standard error.": two_bars(shown, GRAPHS, *wrong),
        "What two labels gain by being equal, w(0,0) + w(1,1) - w(0,1) - w(1,0): below 0 they exclude each "
        "other.": draw_couplings(couplings),
    }


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


# -- training and testing ----------------------------------------------------------------------------------------------


def fit(pairs: Index, scenes: Scenes, c: float) -> Trained:
    """Train on all of ``scenes``."""
    return train(scenes.graphs(pairs), LOW.gap, ROUNDS, C_mean=c)


def predict(found: Trained, pairs: Index, scenes: Scenes) -> Labels:
    """The labels of each image; (n, k)."""
    return np.stack(found.problem.predict(found.solution.point, read_pairwise(**scenes.graphs(pairs).arguments)))


def coupling(found: Trained, pairs: Index) -> Matrix:
    """w(0,0) + w(1,1) - w(0,1) - w(1,0) of each pair, NaN where there is no edge; symmetric (k, k)."""
    tables = found.problem.features.split(found.solution.point["w"])[1]
    table = np.full((N_LABELS, N_LABELS), np.nan)
    table[pairs[:, 0], pairs[:, 1]] = tables[:, 0, 0] + tables[:, 1, 1] - tables[:, 0, 1] - tables[:, 1, 0]
    table[pairs[:, 1], pairs[:, 0]] = table[pairs[:, 0], pairs[:, 1]]
    return table


def measured(learned: Labels, learning: Scenes, test: Scenes, guessed: Labels | None = None) -> list[Any]:
    """The columns from "training" to "labels an image"; guesses are all 0 unless given."""
    guessed = np.zeros_like(test.labels) if guessed is None else guessed
    errors = [each for wrong in [guessed != test.labels] for each in (wrong.mean(axis=1), wrong.any(axis=1))]
    both = [cell for each in errors for cell in (each.mean(), standard_error(each))]
    return [(learned != learning.labels).mean(), *both, guessed.sum(axis=1).mean()]


def draw_couplings(couplings: Mapping[str, Matrix]) -> Figure:
    """The tables of couplings side by side."""
    figure, every = panels(len(couplings), size=(4.6 * len(couplings), 3.9))
    most = max(float(np.nanmax(np.abs(table))) for table in couplings.values()) or 1.0
    for axes, (name, table) in zip(every, couplings.items()):
        image = signed(axes, table, most)
        axes.set_xticks(range(N_LABELS), SCENES, rotation=40, ha="right")
        axes.set_yticks(range(N_LABELS), SCENES)
        axes.set_title(name, fontsize="medium")
        axes.set_facecolor("#e4e4e4")
        for i, j in np.argwhere(np.isfinite(table)):
            colour = "white" if abs(table[i, j]) > 0.6 * most else "black"
            said = f"{round(table[i, j], 1) + 0.0:.1f}"
            axes.annotate(said, (j, i), ha="center", va="center", fontsize="small", color=colour)
    figure.colorbar(image, ax=every, shrink=0.8)
    return figure
