"""Each mechanism of `SemismoothNewton`, switched off on the instances of `benchmarks/regularized_risk.py`.

All data are generated except a9a, whose study is left out if the set is not on this machine, and the digits of
scikit-learn, left out if that is not installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import numpy as np

from benchmarks.ablation import Mechanism, Study
from benchmarks.regularized_risk import CLASSES, DENSE, DIGITS, LOSSES, REAL, SPARSE, STRENGTHS, Workload
from convexstruct.datasets.real.sources import available
from convexstruct.families.regularized_risk import RegularizedRisk, SemismoothNewton
from convexstruct.tolerances import HIGH

NEWTON = "convexstruct.families.regularized_risk.solvers.semismooth_newton.direction"
STEP = "convexstruct.families.regularized_risk.solvers.semismooth_newton.proximal_step"
SEARCH = "convexstruct.families.regularized_risk.solvers.semismooth_newton.line_search"
METHOD = "convexstruct.families.regularized_risk.solvers.semismooth_newton.proximal_point"
GROUPS = "convexstruct.families.regularized_risk.solvers.semismooth_newton.groups"
CELLS = "convexstruct.families.regularized_risk.solvers.semismooth_newton.cells"
ROWS = "convexstruct.families.regularized_risk.solvers.semismooth_newton.row_space"
RISK = "convexstruct.families.regularized_risk.solvers.semismooth_newton.smoothed_risk"

MECHANISMS = (
    Mechanism("groups held (moving)", {"moving": 1e-9}),
    Mechanism("conjugate gradients", patches={f"{NEWTON}:_step_work": lambda *_: float("inf")}),
    Mechanism("Newton's matrices", patches={f"{NEWTON}:_matrix_work": lambda *_, **__: float("inf")}),
    Mechanism("Woodbury's formula (ROWS_SHARE)", patches={f"{NEWTON}:ROWS_SHARE": 0.0}),
    Mechanism("products of matrices count less (DENSE_PRODUCT)", patches={f"{NEWTON}:DENSE_PRODUCT": 1.0}),
    Mechanism("diagonal preconditioner", patches={f"{NEWTON}:_diagonal": lambda X, weight: 0.0 * X.shape[1]}),
    Mechanism("blocks of outputs (LARGEST_BLOCK)", patches={f"{GROUPS}:LARGEST_BLOCK": 0}),
    Mechanism("one block for all outputs (SHARED_BLOCK)", patches={f"{GROUPS}:SHARED_BLOCK": 2.0}),
    Mechanism(
        "rows of cells copied (CELLS_SHARE)", patches={f"{CELLS}:CELLS_SHARE": 0.0, f"{NEWTON}:CELLS_SHARE": 0.0}
    ),
    Mechanism("tau by one example's lift (TAU_LIFTS)", patches={f"{METHOD}:TAU_LIFTS": 0.0}),
    Mechanism("tau falls less after many steps (EASY_STEPS)", patches={f"{STEP}:EASY_STEPS": 1e9}),
    Mechanism("wider tau in a long first proximal step (WIDENINGS)", patches={f"{METHOD}:WIDENINGS": 0}),
    Mechanism("row space (MOST_ROWS)", patches={f"{ROWS}:MOST_ROWS": 0}),
    Mechanism("no row space where few steps suffice (LEAST_LIFT)", patches={f"{METHOD}:LEAST_LIFT": 0.0}),
    Mechanism("wider tau after row space (ROWS_TAU)", patches={f"{METHOD}:ROWS_TAU": 0.0}),
    Mechanism("A of few pieces written out (WRITTEN_OUT)", patches={f"{RISK}:WRITTEN_OUT": 0}),
    Mechanism("stretched point", patches={f"{METHOD}:STRETCH": 0.0}),
)


def _levels(name: str, module: str, said: str, *values: float) -> tuple[Mechanism, ...]:
    """Other values of a number, of which some switch its mechanism off."""
    return tuple(Mechanism(f"{said} ({name} = {value:g})", patches={f"{module}:{name}": value}) for value in values)


#: Numbers that weigh one end against another: at a third of the value, three times it, or where the number has no
#: effect (a part's gap need not fall, a search ends anywhere, sparse entries are as cheap as others, NumPy's calls take
#: no time).
LEVELS = (
    *_levels("HELD_FALL", METHOD, "a part's gap falls as far", 0.07, 0.6, 1.0),
    *_levels("SLOPE_FALL", SEARCH, "searches as near", 0.03, 0.3, 0.9),
    *_levels("RESIDUAL_FALL", NEWTON, "residuals fall as far", 0.01, 0.03, 0.3),
    *_levels("SPARSE_ENTRY", NEWTON, "sparse entries cost as much", 1.0, 15.0),
    *_levels("STEP_WORK", NEWTON, "a step costs as much", 0.0, 3e4, 3e5, 1e6),
    *_levels("WIDE", ROWS, "row space of as many features", 1.2, 6),
    *_levels("ROWS_GAP", METHOD, "gap of row space", 1e-8, 1e-6, 1e-4),
)

#: The width of the first proximal step, where Newton's steps with a narrow one are many; and few free pieces.
WIDTHS = (
    Mechanism("first tau as wide", {"first": 0.3}),
    Mechanism("wider tau in a long first proximal step (WIDENINGS)", patches={f"{METHOD}:WIDENINGS": 0}),
    *_levels("WIDENINGS", METHOD, "as many times wider", 1, 9),
    *_levels("MANY_STEPS", METHOD, "wider after as many steps", 3, 12),
    *_levels("WIDER", METHOD, "as much wider", 2.0, 10.0),
    *_levels("OUTPUTS_SHARE", NEWTON, "Woodbury's formula of outputs for as many pieces", 0.0, 0.25, 1.0),
)

#: The most steps of conjugate gradients, reached only where these take long.
LONG_DIRECTIONS = _levels("GRADIENT_STEPS", NEWTON, "conjugate gradients take as many steps", 80, 750)


#: More features than examples; the last, sparse, has no row space.
MORE_FEATURES = (Workload("dense", 500, 2000), Workload("dense", 1000, 5000), Workload("sparse", 2000, 20_000))
#: Sparse sets so small that NumPy's calls take much of the time.
SMALL_SPARSE = [
    Workload("sparse", n, d, C, words=words)
    for n, d, words in ((1000, 1000, 10), (2000, 500, 5), (600, 3000, 30), (4000, 300, 4), (1000, 1500, 100))
    for C in (1.0, 100.0)
]
#: Few examples and a large C: most Newton steps have few free rows. A small C: few Newton steps suffice.
FEW_EXAMPLES = (
    Workload("dense", 500, 2000, 100.0),
    Workload("dense", 300, 3000, 1e3),
    Workload("dense", 100, 5000, 1e3),
)
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


def _study(name: str, workloads: Sequence[Workload]) -> Study:
    return Study(
        f"risk, {name}", [workload.build for workload in workloads], SemismoothNewton(), HIGH.gap, MECHANISMS + LEVELS
    )


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
    Study(
        "risk, separable",
        [partial(_separable, 500, 100, C, seed) for C in (1e5, 1e7, 1e9) for seed in (1, 2)],
        SemismoothNewton(),
        HIGH.gap,
        MECHANISMS + LEVELS,
    ),
    Study(
        "risk, features of unequal lengths",
        [partial(_unequal, 400, 300, 3, 1e-5, seed) for seed in (1, 2, 3)],
        SemismoothNewton(),
        HIGH.gap,
        LONG_DIRECTIONS,
    ),
    _study("other losses", LOSSES),
    *(
        Study(
            f"risk, {each.data}", [replace(each, C=C).build for C in (0.01, 1.0)], SemismoothNewton(), HIGH.gap, WIDTHS
        )
        for each in DIGITS
        if find_spec("sklearn")
    ),
    _study("many classes", [CLASSES, replace(CLASSES, n=2000, C=10.0), replace(CLASSES, classes=100, C=0.1)]),
]
