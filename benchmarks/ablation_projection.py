"""Each mechanism of the search for a box projection, switched off on the instances of `benchmarks/projection.py`.

The times are those of whole solves, certificate included, of which the search takes a third to a half.
"""

from __future__ import annotations

import functools

import numpy as np

from benchmarks.ablation import Mechanism, Study
from benchmarks.projection import Workload
from convexstruct.families.projection import BoxProjection, BreakpointSearch
from convexstruct.tolerances import HIGH

SEARCH = "convexstruct.oracles.box.projection"
#: More than any number of entries.
ALL = 10**9


def _offset(n: int) -> BoxProjection:
    """A simplex so far from m (entries near 1e9) that no double is near enough to the exact multiplier."""
    return BoxProjection.simplex(1e9 + np.random.default_rng([94, n]).normal(size=n))


MECHANISMS = (
    Mechanism("start from a sample", patches={f"{SEARCH}:_Box.likely": lambda *_: 0.0}),
    Mechanism("sample of the sample (SMALLEST_SAMPLE)", patches={f"{SEARCH}:SMALLEST_SAMPLE": 1 << 15}),
    Mechanism("blocks in cache (BLOCK)", patches={f"{SEARCH}:BLOCK": ALL}),
    Mechanism("Newton's steps before halving (NEWTON_STEPS)", patches={f"{SEARCH}:NEWTON_STEPS": -1}),
)
FAR = (*MECHANISMS, Mechanism("shifted m (MOST_SHIFTS)", patches={f"{SEARCH}:MOST_SHIFTS": 0}))
KINDS = ("simplex", "capped", "bias", "weighted")

STUDIES = [
    *(
        Study(f"box-{n}", [Workload(kind, n).box for kind in KINDS], BreakpointSearch(), HIGH.gap, MECHANISMS)
        for n in (10_000, 100_000, 1_000_000)
    ),
    Study("box-10000000", [Workload("bias", 10_000_000).box], BreakpointSearch(), HIGH.gap, MECHANISMS),
    Study("box-far", [functools.partial(_offset, 100_000)], BreakpointSearch(), HIGH.gap, FAR),
]
