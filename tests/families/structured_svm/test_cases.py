"""The cases of structural SVMs: general solvers find their known optima, and each has the property that it names."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct.core.cases import Instance
from convexstruct.families.structured_svm import cases
from convexstruct.families.structured_svm.planted import plant, plant_slack
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.models import FORMULATIONS
from convexstruct.tolerances import HIGH
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


def test_weights_of_the_wrong_sign_are_named_where_cuts_cannot_even_value_them() -> None:
    def negative(problem: StructuredSVM) -> Any:
        return np.where(problem.features.nonnegative, -0.5, honest(problem).point["w"])

    (row,) = judged(negative, on="amn-planted-grid")
    assert row.verdict == "failed"
    assert "infeasible: w_edge below 0 by 0.5" in row.note
