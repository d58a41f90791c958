"""What the formulations of risks refuse: planes, and what is smoothed."""

from __future__ import annotations

import numpy as np

from convexstruct.models.regularized_risk import bmrm, smoothed, smoothed_dual
from convexstruct.models.regularized_risk.smoothing import SmoothedProblem
from tests.models.regularized_risk.risks import binary
from tests.refusals import Door

PROBLEM = binary()
SMOOTHED = SmoothedProblem(PROBLEM, 1.0, np.zeros(6))

REFUSALS = (
    Door(bmrm, {"problem": PROBLEM, "planes": None}, [({"planes": []}, "planes is empty, wanted at least one")]),
    Door(smoothed, {"problem": PROBLEM, "mu": 1.0}, [({"mu": 0.0}, "mu is 0.0, wanted a positive number")]),
    Door(
        smoothed_dual,
        {"problem": PROBLEM, "mu": 1.0, "centre": None},
        [({"centre": np.zeros(5)}, "centre has shape (5,), wanted (6,)")],
    ),
    Door(
        SMOOTHED.as_point,
        {"value": {"w": np.zeros(3), "rho": np.zeros(6)}},
        [
            ({"value": np.zeros(3)}, "point must be a mapping with w, rho, and b"),
            ({"value": {"w": np.zeros(3), "rho": np.zeros(2)}}, "rho has shape (2,), wanted (6,)"),
        ],
        names=("point", "rho"),
    ),
)
