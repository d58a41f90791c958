"""What projections refuse: bounds, weights and sums that do not fit, and tables that do not fit their cliques."""

from __future__ import annotations

from typing import Any

import numpy as np

import convexstruct as cs
from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.tables import MarginalProjection
from tests.refusals import Door

EDGE, NODE = np.zeros((1, 2, 2)), np.zeros((2, 2))
PAIR: dict[str, Any] = {"cliques": [("a",), ("a", "b")], "m": [[1.0, 2.0], np.ones((2, 2))]}
#: No names of variables.
NAMELESS = (np.nan, -np.inf, np.datetime64("2020"), np.timedelta64(1), 1j, [1], None)

REFUSALS = (
    Door(
        BoxProjection,
        {"m": [1.0, 2.0], "lower": 0.0, "upper": np.inf, "s": 1.0, "z": 1.0, "d": 1.0},
        [
            ({"m": []}, "m is empty, of shape (0,), wanted (n,): at least one of each"),
            ({"m": [[1.0]]}, "m has shape (1, 1)"),
            ({"m": [1.0, np.nan]}, "m contains NaN or infinity"),
            ({"m": ["x", "y"]}, "m holds strings, wanted real numbers"),
            ({"d": 0.0}, "d has the entry 0, wanted positive numbers"),
            ({"d": [1.0, -2.0]}, "d has the entry -2, wanted positive numbers"),
            ({"d": [1.0]}, "d has shape (1,), wanted (2,) or one number"),
            ({"s": [1.0, np.inf]}, "s contains NaN or infinity"),
            ({"s": True}, "s holds booleans, wanted real numbers"),
            ({"lower": np.nan}, "lower contains NaN"),
            ({"lower": [0.0, 2.0], "upper": 1.0}, "the bounds of entry 1 are 2 and 1, wanted lower <= upper"),
            ({"lower": np.inf}, "the bounds of entry 0 are inf and inf"),
            ({"upper": -np.inf, "lower": -np.inf}, "the bounds of entry 0 are -inf and -inf"),
            ({"z": 3.0, "upper": 1.0}, "z is 3, wanted a value that <s, a> takes inside the bounds: from 0 to 2"),
            ({"z": -1.0}, "from 0 to inf"),
            ({"z": 1.0, "s": 0.0}, "from 0 to 0"),
            ({"z": [1.0, 1.0]}, "z is [1.0, 1.0], wanted a finite number"),
            ({"z": np.inf}, "z is inf, wanted a finite number"),
        ],
    ),
    Door(
        cs.solve,
        {"problem": BoxProjection.simplex([1.0, 2.0], d=[1e-100, 1.0])},
        [
            (
                {"problem": BoxProjection.simplex([1.0, 2.0], d=[1e-200, 1.0])},
                "d reaches from 1e-200 to 1, wanted at most 2^510 = 3.4e+153 times as much",
            )
        ],
        names=("d",),
    ),
    Door(
        MarginalProjection.graph,
        {**PAIR, "d": 1.0, "scale": 1.0},
        [
            ({"cliques": [], "m": []}, "cliques is empty, wanted a list of at least one clique"),
            ({"m": []}, "m has 0 entries, wanted 2: one table a clique"),
            ({"cliques": [("a",), ("b", "b")]}, "at least one variable, each once"),
            ({"cliques": [(), ("b",)]}, "at least one variable"),
            ({"m": [np.zeros((1, 2, 2)), EDGE]}, "m[0] has shape (1, 2, 2)"),
            ({"m": [np.zeros(0), EDGE]}, "m[0] has shape (0,)"),
            ({"m": [np.zeros(3), np.zeros((2, 2))]}, "gives 'a' 2 labels, an earlier table gives it 3"),
            ({"m": [np.zeros((4, 2)), np.zeros((3, 2, 2))]}, "m[1] has shape (3, 2, 2)"),
            ({"m": [[1.0, np.nan], NODE]}, "m[0] contains NaN"),
            ({"d": 0.0}, "d holds 0, wanted positive numbers"),
            ({"d": [1.0, 1.0, 1.0]}, "d has shape (3,), wanted one number or (2,): one for each of"),
            ({"scale": -1.0}, "scale holds -1, wanted positive numbers"),
            *(
                ({"cliques": [("a",), ("a", name)]}, ("cliques[1] holds", "wanted names or numbers of variables"))
                for name in NAMELESS
            ),
        ],
    ),
    Door(
        MarginalProjection.chains,
        {"lengths": [2], "edge": EDGE, "node": None, "scale": 1.0},
        [
            ({"lengths": []}, "lengths is empty, of shape (0,), wanted (chains,): at least one of each"),
            ({"lengths": [3]}, "edge has shape (1, 2, 2), wanted (2, 2, 2)"),
            ({"lengths": [2, 1]}, "lengths has a chain of 1 position, wanted node tables too"),
            ({"node": np.zeros((1, 2))}, "node has shape (1, 2), wanted (2, 2)"),
            ({"edge": EDGE * np.nan}, "edge contains NaN"),
            ({"scale": [1.0, 2.0]}, "scale has shape (2,)"),
        ],
    ),
)
