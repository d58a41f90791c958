"""(9)-(11): every labelling is feasible, the optimum lies below every margin loss, and the whole collapses."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.models.unsupervised_margin import full, indicators, multiclass, reduced
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.models.unsupervised_margin.instances import INSTANCES, least, losses
from tests.reference import SOLVERS, optimum, with_solvers


@pytest.mark.parametrize(("name", "solver"), with_solvers(INSTANCES))
def test_the_full_and_the_reduced_sdp_have_one_optimum_below_every_margin_loss(name: str, solver: str) -> None:
    problem = INSTANCES[name]()
    expected = optimum(reduced(problem), solver).value
    assert optimum(full(problem)).value == pytest.approx(expected, rel=HIGH.gap)
    assert expected < least(name)


@pytest.mark.parametrize("name", INSTANCES)
def test_every_balanced_labelling_is_feasible_for_9_10_and_11(name: str) -> None:
    problem = INSTANCES[name]()
    formulation = full(problem)
    labels_alone = ("9", "10", "diag", "rows", "11", "signs")
    for labels in losses(name):
        for key, value in indicators(problem, labels).items():
            if key in formulation.variables:
                formulation.variables[key].value = value
        for label in labels_alone:
            for constraint in formulation.equations.get(label, ()):
                assert np.max(constraint.violation()) <= ROUNDING, label


@pytest.mark.parametrize("name", ["chains", "three labels", "points"])
def test_c_and_d_may_be_uniform_at_no_cost(name: str) -> None:
    """The collapse: no label is told apart from another."""
    problem = INSTANCES[name]()
    formulation, k = full(problem), problem.n_labels
    uniform = [formulation.variables["C"] == 1 / k]
    if problem.n_pairs:
        uniform.append(formulation.variables["D"] == k**-2)
    fixed = formulation.adding("uniform", uniform).reference()
    assert fixed.value == pytest.approx(optimum(reduced(problem)).value, rel=HIGH.gap)


# -- errata: what is printed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chains", "three labels"])
def test_10_as_printed_without_row_sums_lies_lower(name: str) -> None:
    """C = D = 0 is allowed then."""
    problem = INSTANCES[name]()
    formulation = full(problem)
    expected = optimum(formulation).value
    printed = formulation.without("rows")
    assert printed.reference().value < expected - LOW.gap * abs(expected)
    nothing = printed.adding("0", [formulation.variables[key] == 0 for key in "CD"])
    assert nothing.reference().value < expected - LOW.gap * abs(expected)


@pytest.mark.parametrize("name", ["points", "points, three labels"])
def test_the_multiclass_sdp_as_printed_without_row_sums_lies_lower(name: str) -> None:
    formulation = multiclass(INSTANCES[name]())
    expected = optimum(formulation).value
    assert formulation.without("rows").reference().value < expected - LOW.gap * abs(expected)


def test_without_9_all_rows_have_one_label() -> None:
    """The scan has lost (9); where K >= 0, M = N = 11' is best without it, whatever the data."""
    problem = INSTANCES["a kernel"]()
    assert (problem.gram >= 0).all()
    gained = problem.gram.sum() / 2 + problem.n_pairs**2 * 3 / 4
    one_label = problem.n_rows / 2 - gained / (2 * problem.beta)
    formulation = reduced(problem)
    assert formulation.without("9").reference().value == pytest.approx(one_label, rel=HIGH.gap)
    assert one_label < optimum(formulation).value * (1 + LOW.gap) < 0


def test_the_collapse_does_not_even_notice_that_nu_agrees_in_one_direction() -> None:
    """At uniform C and D the printed maximum is the corrected one."""
    formulation = full(INSTANCES["chains"]())
    one_way = formulation.adding("one way", formulation.variables["b"] == 0)
    assert one_way.reference().value == pytest.approx(optimum(formulation).value, rel=HIGH.gap)


# -- the multiclass case ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", ["points", "points, three labels"])
def test_the_multiclass_sdp_is_the_relaxation_without_pairs(name: str, solver: str) -> None:
    problem = INSTANCES[name]()
    said = optimum(multiclass(problem), solver)
    assert said.value == pytest.approx(optimum(reduced(problem)).value, rel=HIGH.gap)
    assert said.value < least(name)
