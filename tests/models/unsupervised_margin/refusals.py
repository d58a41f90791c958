"""What the formulations of unsupervised margins refuse: labels, matrices, cuts, and problems of another kind."""

from __future__ import annotations

import numpy as np

from convexstruct.models.unsupervised_margin import (
    alternating_matrix,
    delta_cuts,
    dual,
    margin_loss,
    multiclass,
    primal,
    proposition_1,
    two_class,
    two_class_dual,
)
from tests.models.unsupervised_margin.instances import INSTANCES, points
from tests.refusals import Door

CHAINS, POINTS = INSTANCES["chains"](), points()
THREE = {"problem": INSTANCES["points, three labels"]()}, "wanted 2 labels and no pairs: use 'keep_or_flip'"
LABELS = [0, 0, 1, 1]

REFUSALS = (
    Door(
        margin_loss,
        {"problem": CHAINS, "labels": [0, 1, 0, 0, 1]},
        [
            ({"labels": [0, 1]}, "labels has shape (2,), wanted (5,)"),
            ({"labels": [0, 1, 2, 0, 0]}, "labels[2] is 2"),
            ({"labels": [0, 1, 0.5, 0, 0]}, "labels[2] is 0.5, wanted a whole number"),
        ],
    ),
    Door(multiclass, {"problem": POINTS}, [({"problem": CHAINS}, ("3 pairs, wanted one without", "'full'"))]),
    Door(delta_cuts, {"problem": CHAINS, "first": "uniform"}, [({"first": "zero"}, "first is 'zero'")]),
    Door(two_class, {"problem": POINTS}, [({"problem": CHAINS}, THREE[1]), THREE]),
    Door(two_class_dual, {"problem": POINTS}, [({"problem": CHAINS}, THREE[1]), THREE]),
    Door(primal, {"problem": POINTS, "labels": LABELS}, [THREE]),
    Door(dual, {"problem": POINTS, "labels": LABELS}, [THREE]),
    Door(
        proposition_1,
        {"problem": POINTS, "labels": None, "M": np.eye(4)},
        [
            ({"M": None}, "neither of labels and M"),
            ({"labels": LABELS}, "both of labels and M"),
            ({"M": np.eye(3)}, "M has shape (3, 3)"),
            ({"M": 2 * np.eye(4)}, "M reaches from 0 to 2, wanted entries from -1 to 1"),
            ({"M": np.triu(np.ones((4, 4)))}, "M is not symmetric"),
            ({"M": -np.eye(4)}, ("K o M has the eigenvalue -", "wanted a positive semidefinite matrix")),
        ],
    ),
    Door(
        alternating_matrix,
        {"problem": POINTS, "multipliers": np.ones(4)},
        [({"multipliers": [0.0, 1.0, 2.0, 0.5]}, "reach from 0 to 2, wanted numbers from 0 to 1")],
    ),
)
