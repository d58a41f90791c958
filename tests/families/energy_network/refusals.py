"""What convex energy networks refuse."""

from __future__ import annotations

import numpy as np

from convexstruct.families.energy_network import ConvexEnergyNetwork, EnergyInference, UnrolledEnergyNetwork
from tests.refusals import Door

X, LABELS = np.ones((3, 2)), np.array([[0, 1], [1, 1], [0, 0]])
PROBLEM = ConvexEnergyNetwork(X, LABELS, 1.0)
ENERGY = EnergyInference(np.ones((3, 2)), np.eye(2))

STEPS = UnrolledEnergyNetwork(X, LABELS, 1.0, 2, np.full(9, 1e9), "plain")
FAR = {name: np.ones(shape) for name, shape in STEPS.shapes.items()}

REFUSALS = (
    Door(
        UnrolledEnergyNetwork,
        {"X": X, "labels": LABELS, "lam": 1.0, "n_units": 3, "steps": [0.5, 0.1], "kind": "plain", "loss": "hamming"},
        [
            ({"labels": LABELS[:2]}, "labels has 2 rows, X has 3: wanted one an example"),
            ({"labels": 2 * LABELS}, "wanted a whole number from 0 to 1"),
            ({"lam": -1.0}, "lam is -1.0, wanted a number of at least 0"),
            ({"steps": []}, "steps is empty, of shape (0,), wanted (T,): at least one"),
            ({"steps": [0.1, -0.1]}, "steps holds -0.1, wanted numbers of at least 0"),
            ({"kind": "newton"}, "kind is 'newton', wanted one of plain, projected, entropic"),
            ({"loss": "zero_one"}, "loss is 'zero_one', wanted one of hamming, squared which have a gradient"),
        ],
    ),
    Door(
        STEPS.predict,
        {"point": STEPS.trivial()[0]},
        [({"point": FAR}, "steps[0] is 1e+09, after which y of example 0 is")],
        names=("steps",),
    ),
    Door(
        ConvexEnergyNetwork,
        {"X": X, "labels": LABELS, "lam": 1.0, "hidden": None},
        [
            ({"labels": LABELS[:2]}, "labels has 2 rows, X has 3: wanted one an example"),
            ({"labels": LABELS + 1}, "wanted a whole number from 0 to 1"),
            ({"labels": LABELS[:, 0]}, "labels has shape (3,), wanted (examples, labels)"),
            ({"lam": 0.0}, "lam is 0.0, wanted a positive number"),
            ({"hidden": np.ones((2, 2))}, "hidden has shape (2, 2), wanted (units, 3): a weight a label and an offset"),
        ],
    ),
    Door(
        EnergyInference,
        {"scores": np.ones((3, 2)), "Q": np.eye(2), "hidden": None, "v": None},
        [
            ({"scores": np.ones(3)}, "scores has shape (3,), wanted (examples, labels)"),
            ({"Q": np.eye(3)}, "Q has shape (3, 3), wanted (2, 2): one row and one column a label"),
            ({"Q": -np.eye(2)}, "Q has the eigenvalue -1, wanted a positive semidefinite matrix"),
            ({"Q": np.triu(np.ones((2, 2)))}, "Q is not symmetric, entries differ by 1"),
            ({"v": np.ones(2)}, "v and hidden are given one without the other"),
            ({"hidden": np.ones((1, 3)), "v": [-1.0]}, "v holds -1, wanted numbers of at least 0"),
            ({"hidden": np.ones((1, 3)), "v": [1.0, 1.0]}, "v has shape (2,), wanted (1,): one a hidden unit"),
        ],
    ),
    Door(
        PROBLEM.predict,
        {"point": PROBLEM.trivial()[0], "examples": X},
        [
            ({"examples": np.ones((2, 3))}, "examples has shape (2, 3), wanted (examples, 2): features as in training"),
            ({"point": {"U": np.ones((2, 2)), "Q": np.full((2, 2), np.inf)}}, "point['Q'] contains NaN or infinity"),
        ],
    ),
    Door(ENERGY.predict, {"point": np.ones((3, 2)), "examples": None}, [({"examples": X}, "examples are given")]),
)
