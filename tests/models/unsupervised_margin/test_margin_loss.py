"""Theorem 1 against every labelling written out, for labels and between them."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.unsupervised_margin.planted import relations
from convexstruct.models.unsupervised_margin import indicators, margin_loss, relaxed_loss
from convexstruct.tolerances import HIGH, LOW
from tests.models.unsupervised_margin.instances import INSTANCES, losses
from tests.reference import optimum, with_solvers


@pytest.mark.parametrize(("name", "solver"), with_solvers(INSTANCES))
def test_theorem_1_is_the_margin_loss_with_every_alternative_written_out(name: str, solver: str) -> None:
    problem = INSTANCES[name]()
    for labels, expected in list(losses(name).items())[:1]:
        formulation = margin_loss(problem, labels)
        said = optimum(formulation, solver)
        assert said.certified
        assert said.value == pytest.approx(expected, abs=HIGH.gap * max(1.0, expected))
        assert formulation.problem.is_dcp(dpp=True)
        assert r"\tag{8}" in formulation.latex


@pytest.mark.parametrize("name", ["chains", "three labels"])
def test_theorem_1_as_printed_overestimates_in_one_direction_as_in_the_other(name: str) -> None:
    problem = INSTANCES[name]()
    labels, expected = max(losses(name).items(), key=lambda item: item[1])
    formulation = margin_loss(problem, labels)
    for label in ("5.2", "5.3"):
        assert formulation.without(label).reference().value > expected * (1 + LOW.gap)


def test_the_indicators_are_those_of_7() -> None:
    problem = INSTANCES["three labels"]()
    labels = [2, 0, 2, 1]
    found = indicators(problem, labels)
    M, N = relations(problem, labels)
    np.testing.assert_array_equal(found["M"], M)
    np.testing.assert_array_equal(found["N"], N)
    np.testing.assert_array_equal(found["C"].argmax(axis=1), labels)
    np.testing.assert_array_equal(found["D"].argmax(axis=1), [2 * 3 + 0, 2 * 3 + 1])


@pytest.mark.parametrize("name", ["chains", "points"])
def test_the_relaxed_loss_is_that_of_labels_and_convex_between_them(name: str) -> None:
    problem = INSTANCES[name]()
    (one, first), (other, second) = list(losses(name).items())[:2]
    formulation = relaxed_loss(problem)

    def at(share: float) -> float:
        ends = [indicators(problem, y) for y in (one, other)]
        for key, parameter in formulation.parameters.items():
            parameter.value = share * ends[0][key] + (1 - share) * ends[1][key]
        said = optimum(formulation)
        assert said.certified
        return said.value

    slack = HIGH.gap * max(1.0, first, second)
    assert at(1.0) == pytest.approx(first, abs=slack)
    assert at(0.0) == pytest.approx(second, abs=slack)
    assert at(0.5) <= (first + second) / 2 + slack


@pytest.mark.parametrize("name", ["chains", "three labels", "points"])
def test_where_c_and_d_are_uniform_the_maximum_is_known(name: str) -> None:
    """p1 (1 - 1/kappa) - (<K, M> + <E, N> - 1'K1/kappa - p2^2/kappa^2) / (2 beta), here with M and N the identity."""
    problem = INSTANCES[name]()
    k = problem.n_labels
    left = np.trace(problem.gram) + problem.n_pairs - problem.gram.sum() / k - problem.n_pairs**2 / k**2
    expected = problem.n_rows * (1 - 1 / k) - left / (2 * problem.beta)
    assert relaxed_loss(problem).reference().value == pytest.approx(expected, rel=HIGH.gap, abs=HIGH.gap)
