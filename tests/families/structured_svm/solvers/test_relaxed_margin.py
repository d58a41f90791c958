"""Training over the local polytope against the relaxation in CVXPY, and against the exact problem where both agree."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.relaxed_margin import RelaxedMargin
from convexstruct.inference.forests import forests
from convexstruct.models.structured_svm.max_margin_markov import local_relaxation
from convexstruct.oracles.loopy.linear_relaxation import linear_relaxation
from convexstruct.oracles.loopy.pairwise import pairwise
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.reference import optimum

SIZES = (3, 4, 1, 3)


def complete(n: int) -> list[tuple[int, int]]:
    return [(u, v) for u in range(n) for v in range(u + 1, n)]


def problem(seed: int, inference: str = "relaxed", grid: bool = False, associative: bool = False) -> StructuredSVM:
    """Complete graphs, or grids of two rows and three columns; three labels."""
    rng = np.random.default_rng(seed)
    sizes = (6, 6) if grid else SIZES
    across = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    edges = [np.array(across if grid else complete(n), dtype=np.intp).reshape(-1, 2) for n in sizes]
    return StructuredSVM.read(
        [rng.normal(size=(n, 2)) for n in sizes], [rng.integers(0, 3, n) for n in sizes], 3,
        edges=edges, edge_features=[rng.random((len(e), 2)) for e in edges], associative=associative,
        inference=inference, C=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(("seed", "grid"), [(0, False), (1, True)])
def test_it_closes_on_the_relaxation_of_cvxpy(seed: int, grid: bool) -> None:
    instance = problem(seed, grid=grid)
    solution = solve(instance, RelaxedMargin(), tol=LOW)
    assert solution.status.solved
    value = optimum(local_relaxation(instance)).value
    slack = HIGH.gap * abs(value)
    assert solution.lower_bound - slack <= value <= solution.primal + slack


def test_weights_of_an_associative_network_stay_non_negative() -> None:
    instance = problem(5, associative=True)
    solution = solve(instance, tol=LOW)
    assert solution.status.solved
    assert solution.point["w"][instance.features.nonnegative].min() >= 0.0


@pytest.mark.parametrize("seed", range(4))
def test_any_shares_bound_the_relaxation_from_above(seed: int) -> None:
    instance = problem(seed)
    features, rng = instance.features, np.random.default_rng(seed)
    node, edge = instance.scores(rng.normal(size=instance.dimension))
    split = forests(features)
    exact = linear_relaxation(pairwise(node, features.edges, edge, features.example)).upper
    for scale in (0.0, 1.0):
        shifts = scale * rng.normal(size=(len(split.nodes), features.n_labels))
        np.testing.assert_allclose(split.gather(split.shared(node, shifts)), node, atol=ROUNDING)
        assert (split.upper(node, edge, shifts) >= exact - HIGH.gap).all()


def test_a_point_with_shifts_is_certified_without_a_linear_program() -> None:
    instance = problem(2)
    solution = solve(instance, tol=LOW)
    plain = certify(instance, solution.point["w"], solution.dual_point)
    assert solution.primal >= plain.primal - HIGH.gap * abs(plain.primal)
    with pytest.raises(ValueError, match=r"shifts has shape \(1, 3\), wanted"):
        certify(instance, {"w": solution.point["w"], "shifts": np.zeros((1, 3))})
