"""What the family refuses: data that are no chains, balances without labellings, labels and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

import convexstruct as cs
from convexstruct.families.unsupervised_margin import (
    Alternation,
    MarginLabelling,
    PermutationInvariantMargin,
    UnsupervisedMargin,
)
from convexstruct.families.unsupervised_margin.labels_from_gram import best_names, labels_from_gram
from convexstruct.families.unsupervised_margin.solvers.reduced_admm import ReducedADMM
from convexstruct.families.unsupervised_margin.solvers.relabelling import relabel
from tests.refusals import Door

ROWS = [np.arange(5) % 2]
GOOD: dict[str, Any] = {"n_labels": 2, "beta": 0.1, "label_balance": 0.3, "pair_balance": 0.5}
SYMBOLS: dict[str, Any] = {"observations": [[0, 1, 1, 0], [1, 0, 1]], **GOOD}
KERNEL: dict[str, Any] = {"observations": None, "kernel": np.eye(3), "lengths": [3], **GOOD}


def read(**options: Any) -> UnsupervisedMargin:
    return UnsupervisedMargin.read(ROWS, 2, beta=1.0, **options)


POINTS = UnsupervisedMargin.multiclass(np.eye(4), 2, 1.0, 0.2)
THREE = UnsupervisedMargin.multiclass(np.eye(4), 3, 1.0, 0.2)
FREE = {"problem": PermutationInvariantMargin(POINTS)}
NEITHER = [
    ({"problem": PermutationInvariantMargin(THREE)}, "problem has 3 labels and 0 pairs, wanted 2 labels and no pairs"),
    ({"problem": PermutationInvariantMargin(read(label_balance=0.3))}, "problem has 2 labels and 4 pairs, wanted 2"),
]
FIXED = {"problem": PermutationInvariantMargin(POINTS, np.ones(4))}

REFUSALS = (
    Door(
        UnsupervisedMargin.read,
        SYMBOLS,
        [
            ({"beta": 0.0}, "beta is 0.0, wanted a positive number"),
            ({"n_labels": 1}, "n_labels is 1, wanted a whole number of at least 2"),
            ({"n_labels": 8}, "n_labels is 8, wanted at most the number of rows, 7"),
            ({"label_balance": 0}, "label_balance is 0, wanted a positive number"),
            ({"n_labels": 3, "pair_balance": 0.05}, ("pair_balance is 0.05, ", "above 0.0888888889, ", "N exists")),
            ({"observations": []}, "observations is empty"),
            ({"observations": [[0, 1], [[1.0]]]}, "observations[1]"),
            ({"observations": [[[1.0]], [[1.0, 2.0]]]}, "observations[1] has 2 columns, observations[0] has 1"),
            ({"n_symbols": 1}, "observations[0][1] is 1"),
            ({"pairs": "tree"}, "pairs is 'tree', wanted one of chain, none"),
            ({"kernel": np.eye(7)}, "observations and kernel are both given"),
            ({"lengths": [4, 3]}, ("lengths is ", "wanted None")),
        ],
    ),
    Door(
        UnsupervisedMargin.read,
        KERNEL,
        [
            ({"lengths": [4]}, "kernel has shape (3, 3), wanted (4, 4)"),
            ({"kernel": np.diag([1.0, -1, 1])}, "kernel has the eigenvalue -1"),
            ({"lengths": None}, "lengths is None"),
        ],
        name="UnsupervisedMargin.read, of a kernel",
    ),
    Door(
        UnsupervisedMargin.multiclass,
        {"x": np.eye(3), "n_labels": 3, "beta": 1.0, "balance": 0.1},
        [({"balance": 1e-300}, "label_balance is 1e-300, too tight for 3 rows and 3 labels")],
        names=("label_balance",),
    ),
    Door(
        POINTS.predict,
        {"point": np.eye(4), "examples": None},
        [({"examples": [[0]]}, "wanted None: M says the labels of the problem's own rows alone")],
    ),
    Door(
        MarginLabelling,
        {"data": read(label_balance=0.11)},
        [
            ({"data": 3}, "data is 3, wanted an UnsupervisedMargin"),
            ({"data": read(label_balance=0.3, pair_balance=0.5)}, "data has pair_balance 0.5, wanted 1"),
            (
                {"data": read(label_balance=0.05)},
                ("label_balance 0.05, which no labelling of 5 rows with 2 labels keeps", "0.1 or more"),
            ),
        ],
    ),
    Door(
        lambda labels: MarginLabelling(read(label_balance=1.0)).as_point({"labels": labels, "w": np.zeros(8)}),
        {"labels": [0, 1, 1, 0, 0]},
        [({"labels": [0, 1, 2, 0, 0]}, "wanted whole numbers from 0 to 1")],
        name="MarginLabelling.as_point",
    ),
    Door(
        relabel,
        {"problem": UnsupervisedMargin.read([[0, 1]], 2, beta=1.0, label_balance=1.0), "labels": [0, 1]},
        [
            ({"labels": [0, 2]}, "labels[1] is 2"),
            ({"labels": [0]}, "labels has shape"),
            ({"problem": [0]}, "wanted an UnsupervisedMargin"),
        ],
    ),
    Door(labels_from_gram, {"M": np.eye(3), "n_labels": 3}, [({"M": np.eye(2)}, "a square of at least 3 rows")]),
    Door(
        best_names,
        {"predicted": [0, 1], "true": [1, 0]},
        [({"true": [0, 1, 1]}, "predicted has 2 labels"), ({"true": [[0], object()]}, "true[1] is")],
    ),
    Door(ReducedADMM, {}, [({"relaxation": 2.0}, "from 1 to below 2")]),
    Door(cs.solve, FREE, [*NEITHER, (FIXED, "problem has x fixed, wanted x free")], name="solve, of two classes"),
    Door(
        lambda problem: cs.solve(problem, Alternation()),
        FREE,
        [*NEITHER, (FIXED, "problem has a fixed lambda, wanted one that is free")],
        name="solve by Alternation",
    ),
)
