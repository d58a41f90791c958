"""What the kernel CRF refuses; `tests/validation` has what every reader of numbers, labels and arrays does."""

from __future__ import annotations

import numpy as np

from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from tests.families.gaussian_process.kernel_chains import small
from tests.refusals import Door

INPUTS = [np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([[2.0, 0.0]])]
LABELS = [[0, 1], [1]]
WHOLE, PROBLEM = small(0), small(1)
BARE = GaussianProcessSequences.from_gram(np.eye(3), LABELS, 2)

REFUSALS = (
    Door(
        GaussianProcessSequences.read,
        {"inputs": INPUTS, "labels": LABELS, "n_labels": 2},
        [
            ({"inputs": []}, "inputs is empty, wanted a list of at least one sequence"),
            ({"inputs": INPUTS[:1]}, "inputs holds 1 sequences, labels holds 2"),
            ({"inputs": [INPUTS[0][:1], INPUTS[1]]}, "inputs[0] has 1 positions, labels[0] has 2"),
            ({"inputs": [INPUTS[0], np.array([[1.0]])]}, "inputs[1] has 1 columns, inputs[0] has 2"),
            ({"labels": [[0, 2], [1]]}, "labels[0][1] is 2, wanted a whole number from 0 to 1"),
            ({"n_labels": 0}, "n_labels is 0, wanted a whole number of at least 1"),
            ({"eta": -1.0}, "eta is -1.0, wanted a number of at least 0"),
            ({"lam": 0.0}, "lam is 0.0, wanted a positive number"),
            ({"kernel": "gauss"}, "kernel is 'gauss', wanted one of rbf, linear, polynomial"),
            ({"kernel": 3}, "kernel is 3, wanted a name or a pair"),
            ({"kernel": ("rbf", {"sigma": 1.0})}, "kernel rbf has the keys ['sigma'], wanted among gamma"),
            ({"kernel": ("rbf", {"gamma": 0.0})}, "kernel parameter gamma is 0.0, wanted a positive number"),
            ({"kernel": ("linear", {"offset": -1.0})}, "kernel parameter offset is -1.0, wanted a number of at least"),
            ({"kernel": ("polynomial", {"degree": 1.5})}, "degree is 1.5, wanted a whole number of at least 1"),
        ],
        names=("degree",),
    ),
    Door(
        GaussianProcessSequences.from_gram,
        {"gram": np.eye(3), "labels": LABELS, "n_labels": 2},
        [
            ({"gram": np.eye(2)}, "gram is 2 x 2, the sequences have 3 positions"),
            ({"gram": np.ones((3, 2))}, "gram has shape (3, 2), wanted a square matrix"),
            ({"gram": np.triu(np.ones((3, 3)))}, "gram is not symmetric, entries differ by 1, wanted a symmetric"),
            ({"gram": np.diag([1.0, 1.0, -0.25])}, "gram has the eigenvalue -0.25, wanted a positive semidefinite"),
            ({"places": [[0], [1]]}, "places[0] has 1 positions, labels[0] has 2"),
            ({"places": [[0, 3], [1]]}, "places[0][1] is 3, wanted a whole number from 0 to 2"),
            ({"stationary": 2}, "stationary is 2"),
            ({"labels": [np.zeros(40, int)], "places": [np.zeros(40, int)], "n_labels": 3000, "stationary": False},
             "n_labels is 3000"),
        ],
    ),
    Door(
        GaussianProcessSequences,
        {"gram": WHOLE.gram, "places": WHOLE.places, "labels": WHOLE.labels, "lengths": WHOLE.lengths, "n_labels": 3},
        [
            ({"labels": WHOLE.labels[:2]}, "labels has 2 entries, the sequences have 10 positions"),
            ({"places": WHOLE.places[:3]}, "places has 3 entries, the sequences have 10 positions"),
        ],
    ),
    Door(
        PROBLEM.predict,
        {"point": np.zeros(PROBLEM.dimension), "examples": [np.zeros((2, 2))]},
        [({"examples": [np.zeros((2, 3))]}, "examples have 3 columns, wanted 2: as many as in training")],
    ),
    Door(
        BARE.predict,
        {"point": np.zeros(BARE.dimension), "examples": [np.zeros((2, 3))]},
        [({"examples": [np.zeros((2, 2))]},
          ("examples have 2 columns, wanted 3: the kernel is not known", "give k of each new position against each"))],
    ),
)  # fmt: skip
