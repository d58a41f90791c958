"""Bounds with allowances for rounding, against rational arithmetic with all labellings written out."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.exact import exactly
from benchmarks.exact_labellings import Margin
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear import ConditionalRandomField
from convexstruct.families.structured_svm.dual import enclosed
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.witness import read_witness
from convexstruct.tolerances import ROUNDING
from tests.models.structured_svm.instances import svm


def test_what_makes_rounding_large_is_named() -> None:
    """The feature of claim 8, one in a sparse table, an edge feature, an entry of a kernel, and a large C."""
    rng = np.random.default_rng(3)
    labels = [[0, 1, 0], [1, 1, 0]]
    ordinary = [rng.normal(size=(3, 2)) for _ in labels]
    large = [np.column_stack((part, np.full(3, 1.7e18))) for part in ordinary]
    solution = solve(StructuredSVM.read(large, labels, 2, C=1.0), max_iterations=30)
    assert solution.status is Status.ROUNDING
    assert "node feature 2 reaches 1.7e+18" in solution.message
    edges = [np.array([[1.0, 3.0], [1.0, 4e9]])] * 2
    K = np.diag([1.0, 4e12, 1.0, 1.0, 1.0, 1.0])
    sparse = [sp.csr_array(part) for part in large]
    for problem, named in {
        StructuredSVM.read(sparse, labels, 2, C=1.0): "node feature 2 reaches 1.7e+18",
        StructuredSVM.read(ordinary, labels, 2, C=1.0, edge_features=edges): "edge feature 1 reaches 4.0e+09",
        StructuredSVM.read(None, labels, 2, kernel=K, C=1.0): "the square root of kernel[1, 1] reaches 2.0e+06",
        StructuredSVM.read(ordinary, labels, 2, C=1e20): "C / lam = 1.0e+20 lets large terms cancel",
    }.items():
        assert problem.rounding_reason({}, None).startswith(named)


def test_shares_that_sum_beyond_one_by_rounding_prove_no_more() -> None:
    """The bound is that of shares which sum to 1 exactly: scaling down by a unit or two is part of it."""
    problem = svm(0)
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(7), size=problem.n_examples).T
    witness = {"labels": rng.integers(3, size=(7, problem.features.n_nodes)), "label_shares": shares}
    found = enclosed(problem, read_witness(problem, witness))
    exact = Margin(problem)
    parts = [(exact.graphs.tables(i, witness["labels"][:, at]), exact.ceiling[i] * exactly(shares[:, i]))
             for i, at in enumerate(exact.graphs.nodes)]  # fmt: skip
    psi = -exact.graphs.joint(parts)
    loss = sum(alpha @ exact.loss(i, tables[0]) for i, (tables, alpha) in enumerate(parts))
    assert exactly(shares).sum(axis=0).max() <= 1 + found.excess
    assert abs(loss - float(found.loss)) <= found.loss.allowance + float(loss) * found.excess
    for each, value, error in zip(psi, found.psi.value.tolist(), found.psi.errors.tolist()):
        assert abs(each - value) <= error


@pytest.mark.parametrize("edges", ["chain", "tree", "cycle"])
@pytest.mark.parametrize("problem", [StructuredSVM, ConditionalRandomField])
@pytest.mark.parametrize("large", ["node", "edge"])
def test_gibbs_parameters_whose_scores_overflow_prove_nothing_and_are_no_error(
    edges: str, problem: Any, large: str
) -> None:
    """The edges' weights score -inf on every pair, which forbids none of them."""
    graph = {"chain": "chain", "tree": [nx.star_graph(2)], "cycle": [nx.cycle_graph(3)]}[edges]
    n_edges = 3 if edges == "cycle" else 2
    given = {} if edges == "chain" else {"edge_features": [np.full((n_edges, 1), 1e200)]}
    read = problem.read([np.full((3, 1), 1e200)], [[0, 1, 0]], 2, edges=graph, C=1.0, **given)
    theta = np.zeros(read.dimension)
    at = slice(0, 2) if large == "node" else slice(2, None)
    theta[at] = -1e200 if large == "node" or given else -1.7e308
    witness = {"gibbs": theta[None], "gibbs_loss": np.zeros(1), "gibbs_shares": np.ones((1, 1))}
    assert certify(read, np.zeros(read.dimension), witness).lower_bound in (-math.inf, 0.0)


def test_sparse_features_have_the_allowance_of_their_entries_alone() -> None:
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((6, 400)) < 0.02, 1.0, 0.0)
    options: dict[str, Any] = {"labels": [[0, 1, 2], [2, 0, 1]], "n_labels": 3, "C": 1.0}
    w = rng.normal(size=3 * 400 + 9)
    narrow = StructuredSVM.read(sp.csr_array(dense), **options).primal({"w": w})
    wide = StructuredSVM.read(dense, **options).primal({"w": w})
    assert float(narrow) == pytest.approx(float(wide), rel=ROUNDING)
    assert narrow.allowance < wide.allowance
