"""Each mechanism of `SemismoothNewton`, switched off on the instances of `benchmarks/regularized_risk.py`.

All data are generated except a9a, whose study is left out if the set is not on this machine, and the digits of
scikit-learn, left out if that is not installed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.ablation import Mechanism, Study, numbers, seeds
from benchmarks.regularized_risk import CLASSES, DENSE, DIGITS, LOSSES, REAL, SPARSE, STRENGTHS, Workload
from convexstruct.datasets.real.sources import available
from convexstruct.families.regularized_risk import RegularizedRisk, SemismoothNewton
from convexstruct.tolerances import HIGH

#: Numbers that weigh one end against another are tried at a third of the value, three times it, and where they have no
#: effect (a part's gap need not fall, a search ends anywhere, sparse entries are as cheap as others, NumPy's calls take
#: no time).
MECHANISMS = (
    *numbers("proximal_point", MOVING=(1e-9,), ZONE=(1.0, 4.0), SHRINK=(0.25, 0.7), INEXACT=(0.1, 0.9)),
    Mechanism("conjugate gradients", patches={"direction:_step_work": lambda *_: math.inf}),
    Mechanism("Newton's matrices", patches={"direction:_matrix_work": lambda *_, **__: math.inf}),
    Mechanism("diagonal preconditioner", patches={"direction:score_diagonal": lambda *_: 0.0}),
    Mechanism(
        "rows of cells copied (CELLS_SHARE)",
        patches={f"{each}:CELLS_SHARE": 0.0 for each in ("cells", "direction")},
    ),
    *numbers("direction", ROWS_SHARE=(0.0,), DENSE_PRODUCT=(1.0,), RESIDUAL_FALL=(0.01, 0.03, 0.3)),
    *numbers("direction", SPARSE_ENTRY=(1.0, 15.0), STEP_WORK=(0.0, 3e4, 3e5, 1e6)),
    *numbers("groups", LARGEST_BLOCK=(0,), SHARED_BLOCK=(2.0,), BLOCK_RIDGE=(0.0,)),
    *numbers("proximal_point", TAU_LIFTS=(0.0,), WIDENINGS=(0,), LEAST_LIFT=(0.0,), ROWS_TAU=(0.0,), STRETCH=(0.0,)),
    *numbers("proximal_point", HELD_FALL=(0.07, 0.6, 1.0), ROWS_GAP=(1e-8, 1e-6, 1e-4)),
    *numbers("proximal_step", EASY_STEPS=(1e9,)),
    *numbers("row_space", MOST_ROWS=(0,), WIDE=(1.2, 6)),
    *numbers("smoothed_risk", WRITTEN_OUT=(0,)),
    *numbers("line_search", SLOPE_FALL=(0.03, 0.3, 0.9)),
)
#: The width of the first proximal step, where Newton's steps with a narrow one are many; and few free pieces.
WIDTHS = (
    *numbers("proximal_point", FIRST=(0.3,)),
    *numbers("proximal_point", WIDENINGS=(0, 1, 9), MANY_STEPS=(3, 12), WIDER=(2.0, 10.0)),
    *numbers("direction", OUTPUTS_SHARE=(0.0, 0.25, 1.0)),
)
#: The most steps of conjugate gradients, reached only where these take long.
LONG_DIRECTIONS = numbers("direction", GRADIENT_STEPS=(80, 750))


#: More features than examples; the last, sparse, has no row space.
MORE_FEATURES = (Workload("dense", 500, 2000), Workload("dense", 1000, 5000), Workload("sparse", 2000, 20_000))
#: Sparse sets so small that NumPy's calls take much of the time.
SMALL_SPARSE = [
    Workload("sparse", n, d, C, words=words)
    for n, d, words in ((1000, 1000, 10), (2000, 500, 5), (600, 3000, 30), (4000, 300, 4), (1000, 1500, 100))
    for C in (1.0, 100.0)
]
#: Few examples and a large C: most Newton steps have few free rows. A small C: few Newton steps suffice.
FEW_EXAMPLES = [Workload("dense", n, d, C) for n, d, C in ((500, 2000, 100.0), (300, 3000, 1e3), (100, 5000, 1e3))]
SMALL_C = (Workload("dense", 2000, 5000, 1e-4), Workload("dense", 2000, 5000, 1e-3))


def _separable(n: int, d: int, C: float, seed: int) -> RegularizedRisk:
    """Labels by the sign of a planted score; with C = 1e7 and more a loss of one rounding exceeds the gap wanted."""
    rng = np.random.default_rng([98, seed])
    X = rng.normal(size=(n, d))
    return RegularizedRisk.binary(X, np.where(X @ rng.normal(size=d) > 0, 1, -1), 1.0 / (C * n))


def _unequal(n: int, d: int, classes: int, lam: float, seed: int) -> RegularizedRisk:
    """Labels at random and features whose lengths spread over two decades: conjugate gradients take long."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, size=d)
    return RegularizedRisk.multiclass(X, rng.permutation(np.arange(n) % classes), lam)


def _study(
    name: str, instances: Sequence[Workload | Callable[[], Any]], mechanisms: Sequence[Mechanism] = MECHANISMS
) -> Study:
    builds = [each.build if isinstance(each, Workload) else each for each in instances]
    return Study(f"risk, {name}", builds, SemismoothNewton(), HIGH.gap, mechanisms)


def _a9a_is_here() -> bool:
    return any(each.source.name == "a9a" and each.state == "here" for each in available())


STUDIES = [
    *(
        _study(workload.name.rsplit("-C", 1)[0], [replace(workload, C=C) for C in STRENGTHS])
        for workload in (DENSE, REAL, SPARSE)
        if workload is not REAL or _a9a_is_here()
    ),
    _study("more features than examples", [replace(workload, C=C) for workload in MORE_FEATURES for C in STRENGTHS]),
    _study("few examples", FEW_EXAMPLES),
    _study("small sparse sets", SMALL_SPARSE),
    _study("small C", SMALL_C),
    _study("separable", [partial(_separable, 500, 100, C, seed) for C in (1e5, 1e7, 1e9) for seed in (1, 2)]),
    _study("features of unequal lengths", seeds(_unequal, 400, 300, 3, 1e-5), LONG_DIRECTIONS),
    _study("other losses", LOSSES),
    *(_study(each.data, [replace(each, C=C) for C in (0.01, 1.0)], WIDTHS) for each in DIGITS if find_spec("sklearn")),
    _study("many classes", [CLASSES, replace(CLASSES, n=2000, C=10.0), replace(CLASSES, classes=100, C=0.1)]),
]
