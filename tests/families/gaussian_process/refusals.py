"""What the kernel CRF refuses."""

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
            ({"inputs": [INPUTS[0], np.array([[np.nan, 0.0]])]}, "inputs[1] contains NaN or infinity"),
            ({"inputs": [INPUTS[0], np.array([[1.0]])]}, "inputs[1] has 1 columns, inputs[0] has 2"),
            ({"inputs": [INPUTS[0], np.zeros((0, 2))]},
             "inputs[1] is empty, of shape (0, 2), wanted (positions,) or (positions, features)"),
            ({"inputs": [INPUTS[0], [["a", "b"]]]}, "inputs[1] holds strings, wanted real numbers"),
            ({"inputs": [[[1, 2], [1]], [[1, 2]]]},
             "inputs[0] has rows of unequal lengths, wanted (positions,) or (positions, features) numbers"),
            ({"labels": []}, "labels is empty"),
            ({"labels": [[0, 2], [1]]}, "labels[0][1] is 2, wanted a whole number from 0 to 1"),
            ({"labels": [[0, -1], [1]]}, "labels[0][1] is -1"),
            ({"labels": [[0, 0.5], [1]]}, "labels[0][1] is 0.5"),
            ({"labels": [[0, 1], []]}, "labels[1] is empty"),
            ({"n_labels": 0}, "n_labels is 0, wanted a whole number of at least 1"),
            ({"n_labels": 2.0}, "n_labels is 2.0"),
            ({"eta": -1.0}, "eta is -1.0, wanted a number of at least 0"),
            ({"eta": np.nan}, "eta is nan, wanted a number of at least 0"),
            ({"lam": 0.0}, "lam is 0.0, wanted a positive number"),
            ({"lam": True}, "lam is True, wanted a positive number"),
            ({"lam": "1"}, "lam is '1', wanted a positive number"),
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
            ({"gram": np.full((3, 3), np.inf)}, "gram contains NaN or infinity"),
            ({"gram": np.eye(3) * 1j}, "gram holds complex numbers, wanted real numbers"),
            ({"gram": np.triu(np.ones((3, 3)))}, "gram is not symmetric, entries differ by 1, wanted a symmetric"),
            ({"gram": np.diag([1.0, 1.0, -0.25])}, "gram has the eigenvalue -0.25, wanted a positive semidefinite"),
            ({"gram": 1.0 - np.eye(3)}, "gram has the eigenvalue -1, wanted a positive semidefinite matrix"),
            ({"places": [[0, 1]]}, "places holds 1 sequences, labels holds 2"),
            ({"places": [[0], [1]]}, "places[0] has 1 positions, labels[0] has 2"),
            ({"places": [[0, 3], [1]]}, "places[0][1] is 3, wanted a whole number from 0 to 2"),
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
        PROBLEM.as_point,
        {"value": np.zeros(PROBLEM.dimension)},
        [
            ({"value": np.zeros(3)}, f"u has shape (3,), wanted ({PROBLEM.dimension},)"),
            ({"value": {"w": np.zeros(3)}}, "point has the keys ['w'], wanted u, or label and transition"),
            ({"value": "u"}, f"u is 'u', wanted ({PROBLEM.dimension},) numbers"),
        ],
        names=("u ", "point"),
    ),
    Door(
        PROBLEM.dual,
        {"dual_point": {"u": np.zeros(PROBLEM.dimension)}},
        [({"dual_point": {"w": np.zeros(3)}}, "dual_point has the keys ['w'], wanted u")],
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
