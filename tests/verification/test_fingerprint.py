from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from convexstruct.families.generative_margin import GenerativeMargin
from convexstruct.families.generative_margin.cases import weights
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.families.structured_svm.cases import words
from convexstruct.inference.shards import sharded
from convexstruct.verification import cases_for
from convexstruct.verification.fingerprint import fingerprint


def test_the_last_bit_counts_only_when_asked() -> None:
    c = np.array([0.1, 0.2, 0.7])
    moved = np.nextafter(c, 1.0)
    assert fingerprint(c) == fingerprint(moved)
    assert fingerprint(c, exact=True) != fingerprint(moved, exact=True)
    assert fingerprint(c) != fingerprint(c * (1 + 1e-8))


def test_bounds_of_rounding_differ_from_machine_to_machine_and_count_only_when_asked() -> None:
    (case,) = (case for case in cases_for("log_linear") if case.name == "mrf-planted-free")
    problem: Any = case.build()
    elsewhere = replace(problem, off=0.7 * problem.off)
    assert fingerprint(elsewhere) == fingerprint(problem)
    assert fingerprint(elsewhere, exact=True) != fingerprint(problem, exact=True)


def test_any_changed_part_of_a_problem_is_noticed() -> None:
    problem = weights(0).problem
    assert isinstance(problem, GenerativeMargin)
    before = fingerprint(problem, exact=True)
    assert fingerprint(replace(problem, eta=problem.eta * 1.001), exact=True) != before
    stored = problem.features.examples.weights
    stored.setflags(write=True)
    stored[0] += 1e-12
    assert fingerprint(problem, exact=True) != before


def test_a_sparse_matrix_counts_by_its_entries_not_their_order() -> None:
    dense = np.array([[0.0, 2.0], [3.0, 0.0]])
    assert fingerprint(sp.csr_array(dense)) != fingerprint(sp.csr_array(2 * dense))
    coordinates = sp.coo_array(([3.0, 2.0], ([1, 0], [0, 1])), shape=(2, 2))
    ordered = sp.coo_array(([2.0, 3.0], ([0, 1], [1, 0])), shape=(2, 2))
    assert fingerprint(coordinates) == fingerprint(ordered)


def test_a_graph_counts_by_nodes_edges_and_attributes() -> None:
    one = nx.DiGraph([("a", "b")])
    other = nx.DiGraph([("b", "a")])
    assert fingerprint(one) != fingerprint(other)
    one.nodes["a"]["states"] = 2
    assert fingerprint(one) != fingerprint(nx.DiGraph([("a", "b")]))


def test_an_oracle_that_was_built_is_no_data_but_the_word_for_it_is() -> None:
    problem = words(0).problem
    assert isinstance(problem, StructuredSVM)
    fresh = fingerprint(replace(problem))
    assert not problem.oracle.relaxed
    assert "oracle" in vars(problem)
    assert fingerprint(problem) == fresh
    assert fingerprint(replace(problem, inference="relaxed")) != fresh


def test_where_the_examples_lie_is_no_data() -> None:
    rng = np.random.default_rng(0)
    problem = StructuredSVM.read([rng.normal(size=(3, 2)) for _ in range(4)], [[0, 1, 0]] * 4, 2, C=1.0)
    with ThreadPoolExecutor(2) as executor:
        placed = sharded(problem, executor)
        assert fingerprint(placed) == fingerprint(problem)
