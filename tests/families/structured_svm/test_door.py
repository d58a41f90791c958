"""Input that `StructuredSVM.read` refuses, in one clear sentence; `tests/features` has more of each argument."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct.families.structured_svm.problem import StructuredSVM

GIVEN: dict[str, Any] = {
    "node_features": [np.ones((2, 2)), np.ones((3, 2))], "labels": [[0, 1], [1, 0, 1]], "C": 1.0
}  # fmt: skip
NO_C: dict[str, Any] = {"C": None}
KERNEL: dict[str, Any] = {"node_features": None}
WIDE: dict[str, Any] = {
    "node_features": [np.ones((36, 1))],
    "labels": [np.arange(36) % 8],
    "edges": [nx.convert_node_labels_to_integers(nx.grid_2d_graph(6, 6))],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": []}, "labels is empty, wanted a list of one array for each of at least one example"),
        ({"labels": [[0, 1]]}, "node_features has 2 entries, wanted 1: a matrix, or a list of one for each of labels"),
        ({"labels": [[0, 1], [1, 0]]}, r"node_features\[1\] has shape \(3, 2\), wanted \(2, 2\): one row a label"),
        ({"labels": [[0, 1], [1, 0, 2]], "n_labels": 2}, r"labels\[1\]\[2\] is 2, wanted a whole number from 0 to 1"),
        ({"node_features": None}, "node_features is None, wanted a list of arrays.*or a kernel"),
        ({"node_features": np.full((5, 2), np.nan)}, "node_features contains NaN or infinity"),
        ({"C": 0.0}, "C is 0.0, wanted a positive number"),
        ({**NO_C, "lam": 0.0}, "lam is 0.0, wanted a positive number"),
        (NO_C, "the scale needs exactly one of C, C_mean, lam, beta, got none"),
        ({"lam": 1.0}, "the scale needs exactly one of C, C_mean, lam, beta, got C, lam"),
        ({"scaling": "both"}, "scaling is 'both', wanted 'margin' or 'slack'"),
        ({"loss": "hinge"}, "loss is 'hinge', wanted 'hamming', 'zero_one'"),
        ({"loss": [np.zeros((2, 2)), np.zeros((3, 3))]}, r"loss\[1\] has shape \(3, 3\), wanted \(3, 2\)"),
        ({"weights": [1.0]}, r"weights has shape \(1,\), wanted \(2,\): one weight an example"),
        ({"weights": [1.0, 0.0]}, "weights holds 0, wanted positive numbers"),
        ({"inference": "lp"}, "inference is 'lp', wanted one of exact, minimum_cut, expansion, relaxed"),
        ({"inference": "minimum_cut"}, "'minimum_cut' came with a network that is not associative"),
        ({"inference": "minimum_cut", "associative": True, "n_labels": 3}, "came with 3 labels, wanted two"),
        (
            {"inference": "minimum_cut", "associative": True, "scaling": "slack"},
            "inference is 'minimum_cut', which cannot serve slack scaling, wanted 'exact'",
        ),
        (
            {"inference": "relaxed", "loss": "zero_one"},
            "inference is 'relaxed', which cannot serve the zero-one loss, wanted 'exact'",
        ),
        ({"kernel": np.eye(5)}, "node_features and kernel are both given, wanted one of them"),
        ({**KERNEL, "kernel": np.eye(4)}, r"kernel has shape \(4, 4\), wanted \(5, 5\): one row and column a node"),
        ({**KERNEL, "kernel": -np.eye(5)}, "kernel has the eigenvalue -1, wanted a positive semidefinite matrix"),
        ({**KERNEL, "kernel": np.full((5, 5), np.nan)}, "kernel contains NaN or infinity"),
        ({**KERNEL, "kernel": np.triu(np.ones((5, 5)))}, "kernel is not symmetric"),
        ({**KERNEL, "kernel": np.eye(5), "labels": []}, "labels is empty, wanted a list of one array for each of at"),
        ({**KERNEL, "kernel": np.eye(5), "labels": None}, "labels is None, wanted a list"),
        (WIDE, r"the graph of example 0, .*\(tree width 6 or more\).*use inference='relaxed' \(the local polytope\)"),
    ],
)  # fmt: skip
def test_what_makes_no_problem_is_refused_in_one_sentence(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        StructuredSVM.read(**{**GIVEN, **change})
    assert "\n" not in str(refused.value)


def test_what_was_given_makes_a_problem_and_so_does_the_relaxation_of_a_wide_graph() -> None:
    problem = StructuredSVM.read(**GIVEN)
    assert (problem.n_examples, problem.dimension, problem.lam, problem.scale.C) == (2, 8, 1.0, 1.0)
    assert StructuredSVM.read(**{**GIVEN, **WIDE, "inference": "relaxed"}).oracle.relaxed
