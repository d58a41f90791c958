"""What `verify` refuses."""

from __future__ import annotations

import math

import convexstruct as cs
from tests.refusals import Door

REFUSALS = (
    Door(
        cs.verify,
        {"on": "hmm-ties"},
        [
            ({"on": "hmm"}, "wanted a family"),
            ({"tol": "fine"}, "LOW, MID, HIGH"),
            ({"seed": -1}, "seed is -1"),
            ({"limit": 0}, "limit is 0"),
            ({"limit": 1e308}, "limit is 1e+308"),
            ({"limit": math.nan}, "limit is nan"),
            ({"solver": 3, "on": "generative_margin"}, "wanted a function"),
            ({"solver": "nowhere.py:solve", "on": "generative_margin"}, "no file"),
            ({"solver": repr, "on": None}, "on is missing"),
        ],
        names=("no file",),
    ),
)
