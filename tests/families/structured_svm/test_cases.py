"""The cases of structural SVMs: general solvers find their known optima, and each has the property that it names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct.core.cases import Instance
from convexstruct.families.structured_svm import cases
from convexstruct.families.structured_svm.planted import plant, plant_slack
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.inference.loopy import choose_oracle
from convexstruct.models import FORMULATIONS
from convexstruct.models.structured_svm.enumerated import MarginRows
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.mutants import honest, judged
from tests.reference import optimum


def made(instance: Instance) -> StructuredSVM:
    assert isinstance(instance.problem, StructuredSVM)
    return instance.problem


@pytest.mark.parametrize("scaling", ["margin", "slack"])
@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_planted_is_optimal(seed: int, scaling: str) -> None:
    """Against every labelling written out, on random graphs with any number of labels."""
    rng = np.random.default_rng(seed)
    graphs = [nx.gnp_random_graph(int(n), 0.5, seed=seed) for n in rng.integers(1, 6, size=4)]
    problem = cases.drawn(
        rng, [len(graph) for graph in graphs], int(rng.integers(2, 4)), 2, graphs=graphs,
        n_edge_features=seed % 2, associative=scaling == "margin" and seed % 3 == 0, lam=float(rng.uniform(0.5, 5.0)),
    )  # fmt: skip
    instance = plant_slack(problem, rng) if scaling == "slack" else plant(problem, rng, without_alpha=(3,))
    said = optimum(FORMULATIONS["structured_svm.n_slack"].builder(instance.problem))
    assert said.value == pytest.approx(instance.optimum, rel=HIGH.gap, abs=HIGH.gap)


def violations(instance: Instance) -> tuple[MarginRows, np.ndarray]:
    """E_i(y) - <w, df_i(y)> of every labelling at the planted w."""
    assert instance.point is not None
    rows = MarginRows(made(instance))
    return rows, rows.loss - np.asarray(rows.a @ instance.point["w"])


def test_several_labellings_tie_in_the_planted_instances() -> None:
    for make in (cases.planted_edges, cases.planted_signs):
        rows, violated = violations(make(0))
        most = np.maximum.reduceat(violated, np.searchsorted(rows.example, np.arange(rows.problem.n_examples)))
        tied = np.bincount(rows.example, violated >= most[rows.example] - ROUNDING * np.maximum(1.0, most).max())
        assert (tied > 1).sum() >= 2
        assert tied.max() > 2


def test_alpha_shares_with_the_truth_in_examples_of_one_node() -> None:
    """No violation, and yet labellings on their margin: multipliers between 0 and C omega."""
    rows, violated = violations(cases.planted_edges(0))
    of_one = np.flatnonzero(rows.problem.features.lengths == 1)
    assert any(np.abs(violated[rows.example == i]).max() < ROUNDING for i in of_one)


def test_the_examples_beyond_their_margin_have_costs_and_no_violation() -> None:
    instance = cases.planted(0)
    assert instance.point is not None
    problem = made(instance)
    hinge = problem.most_violated(instance.point["w"]).hinge
    assert (hinge[:6] > ROUNDING).any()
    assert (hinge[6:] == 0).all()
    assert (problem.loss.most[6:] > 0).all()


def test_part_of_psi_is_negative_where_signs_count() -> None:
    for make in (cases.planted_signs, cases.planted_grid):
        instance = make(0)
        assert instance.point is not None
        edge = instance.point["w"][made(instance).features.nonnegative]
        assert (edge == 0).any()
        assert (edge > 0).any()


def test_some_nodes_and_examples_reach_their_margin_and_others_do_not() -> None:
    for make in (cases.separate_nodes, cases.separate_examples):
        instance = make(0)
        assert instance.point is not None
        hinge = made(instance).most_violated(instance.point["w"]).hinge
        assert (hinge > HIGH.gap).any()
        assert (hinge < ROUNDING).any() or make is cases.separate_nodes


def test_the_extreme_cases_are_what_they_say() -> None:
    hard, bound = made(cases.large_C(0)), made(cases.small_C(0))
    stated = FORMULATIONS["structured_svm.hard_margin"].builder(hard)
    assert optimum(stated).value == pytest.approx(
        optimum(FORMULATIONS["structured_svm.n_slack"].builder(hard)).value, rel=HIGH.gap
    )
    solution = FORMULATIONS["structured_svm.dual_alpha"].builder(bound).solve()
    assert solution.dual_point is not None
    np.testing.assert_allclose(solution.dual_point["label_shares"].sum(axis=0), 1.0, atol=HIGH.feasibility)
    assert (bound.most_violated(solution.point["w"]).hinge > 0).all()


@pytest.mark.slow
def test_the_planted_grids_are_too_wide_for_junction_trees() -> None:
    with pytest.raises(ValueError, match="tree width"):
        choose_oracle(made(cases.planted_grid(0)).features.some([0]), "exact")


def test_half_a_label_beats_every_labelling_in_the_frustrated_case() -> None:
    problem = made(cases.frustrated(0))
    assert problem.inference == "relaxed"
    relaxed = optimum(FORMULATIONS["structured_svm.local_relaxation"].builder(problem)).value
    over_labellings = replace(problem, inference="exact")
    exact = optimum(FORMULATIONS["structured_svm.n_slack"].builder(over_labellings)).value
    assert relaxed > exact * (1 + LOW.gap)


def test_weights_of_the_wrong_sign_are_named_where_cuts_cannot_even_value_them() -> None:
    def negative(problem: StructuredSVM) -> Any:
        return np.where(problem.features.nonnegative, -0.5, honest(problem).point["w"])

    (row,) = judged(negative, on="amn-planted-grid")
    assert row.verdict == "failed"
    assert "infeasible: w_edge below 0 by 0.5" in row.note
