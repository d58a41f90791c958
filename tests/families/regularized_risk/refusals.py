"""What the family refuses: labels, weights, costs and pieces. Features are refused as `tests/validation` has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexstruct.families.regularized_risk import RegularizedRisk
from tests.refusals import Door

X = np.random.default_rng(0).normal(size=(6, 3))
Y = np.array([1, -1, 1, 1, -1, -1])
CODES = np.array([0, 1, 2, 1, 0, 2])
HAS = np.array([[1, 0, 0], [0, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 0, 1]])
BINARY: dict[str, Any] = {"X": X, "y": Y, "lam": 1.0}
CLASSES: dict[str, Any] = {"X": X, "y": CODES, "lam": 1.0}
PREDICTED: dict[str, Any] = {"point": np.ones(3), "examples": X[:2]}

REFUSALS = (
    Door(
        RegularizedRisk.binary,
        BINARY,
        [
            ({"X": X[0]}, "X has shape (3,), wanted (examples, features)"),
            ({"X": X[:, :0]}, "X is empty, of shape (6, 0), wanted (examples, features)"),
            ({"lam": 0.0}, "lam is 0.0, wanted a positive number"),
            ({"lam": "1"}, "lam is '1', wanted a positive number"),
            ({"y": CODES}, "y holds 3 values (0, 1, 2), wanted two values, such as -1 and +1"),
            ({"y": [7] * 6}, "y holds 1 value (7), wanted two values"),
            ({"y": [1] * 6, "bias": True}, "y holds 1 alone, wanted both classes where there is a bias"),
            ({"y": Y[:-1]}, "y has shape (5,), wanted (6,): one label an example"),
            ({"weights": [1, 0, 1, 1, 1, 1]}, "weights holds 0, wanted positive"),
            ({"weights": [np.nan] * 6}, "weights contains NaN or infinity"),
        ],
    ),
    Door(
        RegularizedRisk.multiclass,
        CLASSES,
        [
            ({"y": [3] * 6}, "y holds 1 value (3), wanted at least two classes (or say n_classes)"),
            ({"n_classes": 2}, "y holds 2, wanted classes 0 .. 1, for n_classes is 2"),
            ({"n_classes": 1}, "n_classes is 1, wanted a whole"),
            ({"cost": np.eye(2)}, "cost has shape (2, 2), wanted (3, 3)"),
            ({"cost": np.eye(3)}, "with zeros on its diagonal"),
            ({"cost": np.eye(3) - 1}, "cost holds -1, wanted costs of at least 0"),
        ],
    ),
    Door(
        RegularizedRisk.multilabel,
        {"X": X, "Y": HAS, "lam": 1.0},
        [
            ({"Y": CODES}, "Y has shape (6,), wanted (6, labels) with at least two labels"),
            ({"Y": HAS[:, :1]}, "with at least two labels"),
            ({"Y": HAS * 2}, "Y holds 2, wanted 0 and 1"),
            ({"Y": HAS.astype(str)}, ("Y holds ", "wanted 0 and 1")),
            ({"Y": np.ones((6, 2))}, "Y gives every example all labels or none"),
        ],
    ),
    Door(
        RegularizedRisk.ordinal,
        CLASSES,
        [
            ({"y": [1] * 6}, "y holds 1 value (1), wanted at least two levels"),
            ({"thresholds": [0.0]}, "wanted levels 0 .. 1 with the thresholds given"),
            ({"thresholds": [1.0, 0.0]}, "in rising order"),
            ({"weights": [1.0]}, "weights has shape (1,), wanted (6,): one an example"),
        ],
    ),
    Door(
        RegularizedRisk.pieces,
        {"A": X, "b": np.zeros(6), "lam": 1.0, "example": [0, 0, 0, 1, 1, 1]},
        [
            ({"b": [0.0]}, "b has shape (1,), wanted (6,): one offset a row of A"),
            ({"b": [np.inf] * 6}, "b contains NaN or infinity"),
            ({"example": [1, 1, 0, 0, 2, 2]}, "example must number the examples 0, 1, .. in rising order"),
            ({"example": [0, 0, 2, 2, 3, 3]}, "example must number the examples 0, 1, .. in rising order"),
            ({"example": X[:, 0]}, "example[0] is"),
            ({"floor": 3}, "floor is 3, wanted True or False"),
            ({"weights": np.ones(6)}, "weights has shape (6,), wanted (2,): one an example"),
        ],
    ),
    Door(
        RegularizedRisk,
        {"X": X, "loss": RegularizedRisk.binary(**BINARY).loss, "lam": 1.0},
        [
            ({"X": X[:3]}, "loss is of 6 scores, wanted 3 x 1"),
            ({"loss": "hinge"}, "loss is 'hinge', wanted a PiecewiseLoss"),
        ],
    ),
    Door(
        RegularizedRisk.binary(**BINARY).predict,
        PREDICTED,
        [
            ({"examples": X[:, :2]}, ("examples has shape", "3)")),
            ({"examples": np.full((2, 3), np.nan)}, "examples contains NaN or infinity"),
            ({"examples": X[0]}, "examples has shape (3,)"),
        ],
        names=("w",),
    ),
)
