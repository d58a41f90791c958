"""Low-rank factors: their augmented Lagrangian, their certificates, and ADMM started from their multipliers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import convexstruct as cs
from convexstruct.core.solution import Status
from convexstruct.families.unsupervised_margin import InteriorPoint, LowRank, UnsupervisedMargin
from convexstruct.families.unsupervised_margin.solvers.low_rank import _Lagrangian
from convexstruct.families.unsupervised_margin.solvers.reduced_admm import ReducedADMM
from convexstruct.families.unsupervised_margin.solvers.splitting import Splitting
from convexstruct.models import FORMULATIONS
from convexstruct.tolerances import HIGH, ROUNDING
from tests.reference import optimum


def problem(seed: int, **changes: Any) -> UnsupervisedMargin:
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(n, 2)) for n in (4, 1, 5)]
    given: dict[str, Any] = {"beta": 0.1, "label_balance": 0.2, "pair_balance": 0.4} | changes
    return UnsupervisedMargin.read(rows, given.pop("n_labels", 2), **given)


KINDS: list[dict[str, Any]] = [
    {}, {"n_labels": 3}, {"pairs": "none"}, {"label_balance": 0.01},
]  # fmt: skip


@cache
def known(kind: int) -> float:
    return optimum(FORMULATIONS["unsupervised_margin.reduced"].builder(problem(0, **KINDS[kind]))).value


SOLVERS = [InteriorPoint(), LowRank(), ReducedADMM(), ReducedADMM(memory=0)]


@pytest.mark.parametrize(
    ("solver", "kind"), [(each, kind) for at, each in enumerate(SOLVERS) for kind in range(at % 2, len(KINDS), 2)]
)
def test_it_certifies_the_optimum_that_a_general_solver_finds(solver: Any, kind: int) -> None:
    made = problem(0, **KINDS[kind])
    solution = cs.solve(made, solver, tol=1e-4)
    assert solution.status is Status.OPTIMAL
    wanted = known(kind)
    slack = HIGH.gap * abs(wanted)
    assert solution.lower_bound - slack <= wanted <= solution.primal + slack
    assert max(made.residuals(solution.point).values()) <= ROUNDING


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_the_gradient_is_that_of_finite_differences(kind: int) -> None:
    rng = np.random.default_rng([1, kind])
    lagrangian = _Lagrangian(problem(1, **KINDS[kind]), 3.0)
    x, way = rng.normal(size=(2, len(lagrangian.first(rng, None))))
    lagrangian.update(lagrangian.matrices(lagrangian.normal(rng.normal(size=x.shape))[0]))
    step = 1e-5
    found = (lagrangian.at(x + step * way)[0] - lagrangian.at(x - step * way)[0]) / (2.0 * step)
    assert found == pytest.approx(float(lagrangian.at(x)[1] @ way), rel=1e-6, abs=1e-6)


def test_admm_reads_the_multipliers_as_it_writes_them() -> None:
    made = problem(1)
    solution = cs.solve(made, ReducedADMM(), tol=1e-4)
    assert solution.dual_point is not None
    splitting = Splitting(made)
    given = dict(solution.dual_point)
    m = np.where(given["P"] < 0, 0.0, np.where(given["P"] > 0, 1.0, 0.5))  # P belongs to entries at 0 and 1
    back = splitting.witness(splitting.multipliers(given, 7.0), 7.0, m)
    for name, array in given.items():
        np.testing.assert_allclose(back[name], array, atol=ROUNDING * max(1.0, np.abs(array).max()), err_msg=name)


@pytest.mark.parametrize(
    ("solver", "size"), [(LowRank(), 1e8), (LowRank(), 0.0), (ReducedADMM(), 1e-8), (ReducedADMM(), 0.0)]
)
def test_features_of_any_size_are_solved(solver: Any, size: float) -> None:
    x = size * np.random.default_rng(0).normal(size=(7, 2))
    problem = UnsupervisedMargin.read([x[:4], x[4:]], 2, beta=1.0, label_balance=0.3)
    assert cs.solve(problem, solver).status is Status.OPTIMAL
