"""The M3N dual by excessive gap: certified, within (26) at every round, and refused where it does not apply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.excessive_gap import ExcessiveGap, _Run
from convexstruct.tolerances import HIGH, LOW, ROUNDING

LENGTHS = (1, 3, 2)


def problem(
    seed: int, lengths: tuple[int, ...] = LENGTHS, n_labels: int = 3, more: Mapping[str, Any] | None = None
) -> StructuredSVM:
    rng = np.random.default_rng(seed)
    features = [rng.normal(size=(n, 2)) for n in lengths]
    labels = [rng.integers(0, n_labels, n) for n in lengths]
    return StructuredSVM.read(features, labels, n_labels, C=0.5, **(more or {}))


def largest_distance(problem: StructuredSVM) -> float:
    """Dmax = max over Q of |a - a_0|^2 / 2, which labellings attain: with n nodes and S labels,
    sum_i c_i^2 [n (1 - 1/S) + (n - 1) (1 - 1/S^2)] / 2."""
    s, n = problem.features.n_labels, problem.features.lengths
    return 0.5 * float(problem.ceiling**2 @ (n * (1.0 - 1.0 / s) + (n - 1) * (1.0 - 1.0 / s**2)))


@pytest.mark.slow
def test_it_reaches_the_optimum_and_keeps_26_at_every_round() -> None:
    instance = problem(0)
    truth = solve(instance, tol=HIGH)
    most = largest_distance(instance)
    for count, iterate in enumerate(ExcessiveGap().iterate(instance), start=1):
        mu = float(iterate.message.rsplit("mu = ", 1)[1])
        gap = iterate.primal - iterate.lower_bound
        assert gap <= mu * most * (1 + 1e-5) + 1e-6 * truth.primal
        assert iterate.lower_bound <= truth.primal * (1 + ROUNDING)
        assert iterate.primal >= truth.lower_bound * (1 - ROUNDING)
        if gap <= LOW.gap * truth.primal or count >= 300:
            break
    assert gap <= LOW.gap * truth.primal


def test_its_dual_point_is_certified_by_the_problem_alone() -> None:
    instance = problem(7, more={"weights": np.array([1.0, 0.3, 2.0])})
    solution = solve(instance, ExcessiveGap(), tol=LOW, max_iterations=600)
    assert solution.status.solved
    assert solution.certificate.gap <= LOW.gap


@pytest.mark.slow
def test_edge_features_and_one_label_are_served() -> None:
    rng = np.random.default_rng(3)
    instance = problem(3, more={"edge_features": [rng.random((n - 1, 2)) for n in LENGTHS]})
    assert solve(instance, ExcessiveGap(), tol=LOW, max_iterations=600).status.solved
    single = problem(3, n_labels=1)
    assert solve(single, ExcessiveGap(), tol=LOW, max_iterations=5).primal == pytest.approx(0.0, abs=ROUNDING)


def test_the_largest_distance_is_that_of_a_labelling() -> None:
    instance = problem(1, lengths=(2, 1))
    run = _Run(instance, 1e-8)
    centre = run.centre()
    best = 0.0
    for labels in np.ndindex(3, 3, 3):
        node, edge = np.zeros((3, 3)), np.zeros((1, 3, 3))
        node[np.arange(3), labels] = instance.ceiling[instance.features.example]
        edge[0, labels[0], labels[1]] = instance.ceiling[0]
        best = max(best, 0.5 * float(np.sum((node - centre.node) ** 2) + np.sum((edge - centre.edge) ** 2)))
    assert largest_distance(instance) == pytest.approx(best)


@pytest.mark.parametrize(("name", "value"), [("scaling", "slack"), ("loss", "zero_one"), ("edges", "none")])
def test_what_it_cannot_solve_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="ExcessiveGap needs"):
        next(ExcessiveGap().iterate(problem(0, more={name: value})))
