"""The fast default of structural SVMs: every kind of problem against all labellings written out, and larger ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.arrays import Matrix
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.datasets import random_chains
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.column_generation import column_generation, restricted_master
from convexstruct.families.structured_svm.solvers.column_generation.column_generation import ColumnGeneration
from convexstruct.families.structured_svm.solvers.column_generation.components import by_component, witness_of_whole
from convexstruct.models.structured_svm.enumerated import n_slack
from convexstruct.models.structured_svm.max_margin_markov import marginals
from convexstruct.tolerances import HIGH, ROUNDING
from tests.reference import optimum


def random_problem(seed: int) -> StructuredSVM:
    """Chains, graphs of any kind, edge features, associative networks, no edges; all losses, scalings and scales."""
    rng = np.random.default_rng(seed)
    n, s, f = (int(rng.integers(1, high)) for high in (5, 4, 4))
    sizes = rng.integers(1, 5, n)
    more: dict[str, Any] = {"weights": rng.random(n) + 0.1}
    kind = seed % 4
    if kind in (1, 2):
        pairs = [[(u, v) for u in range(m) for v in range(u + 1, m) if rng.random() < 0.7] for m in sizes]
        more["edges"] = [np.array(each, dtype=np.intp).reshape(-1, 2) for each in pairs]
    if kind == 2:
        more["edge_features"] = [rng.random((len(each), 2)) for each in more["edges"]]
        more["associative"] = bool(seed % 8 == 2)
    if kind == 3:
        more["edges"] = "none"
    costs = rng.integers(0, 4, (s, s)).astype(float)
    np.fill_diagonal(costs, 0.0)
    more["loss"] = ("hamming", "zero_one", costs)[int(rng.integers(3))]
    more["scaling"] = ("margin", "slack")[int(rng.integers(2))]
    more[("C", "lam", "beta", "C_mean")[int(rng.integers(4))]] = float(10 ** rng.uniform(-2, 2))
    return StructuredSVM.read(
        [rng.normal(size=(m, f)) for m in sizes], [rng.integers(0, s, m) for m in sizes], s, **more
    )


def test_pools_are_solved_as_exactly_as_a_small_gap_needs() -> None:
    """EXACT_GAP: where no labelling is new, the run ends once the gap over the pools is below it."""
    data = random_chains(10, 6, 3, 8, seed=1)
    problem = StructuredSVM.read(data.node_features, data.labels_each, 3, beta=1.0)
    assert solve(problem, ColumnGeneration(), tol=1e-9).status is Status.OPTIMAL


@pytest.mark.parametrize("seed", range(16))
def test_it_reaches_the_optimum_of_every_kind_of_problem(seed: int) -> None:
    problem = random_problem(seed)
    solution = solve(problem)
    value = optimum(n_slack(problem)).value
    slack = HIGH.gap * max(1.0, abs(value))
    assert solution.status.solved
    assert solution.lower_bound - slack <= value <= solution.primal + slack
    assert solution.lower_bound <= solution.primal + ROUNDING


@pytest.mark.parametrize("edges", ["none", "apart"])
def test_examples_that_fall_apart_are_solved_part_by_part(edges: str) -> None:
    rng = np.random.default_rng(4)
    features, labels = [rng.normal(size=(9, 2)) for _ in range(3)], [rng.integers(0, 4, 9) for _ in range(3)]
    apart = [np.array([[0, 1], [1, 2], [4, 3], [7, 8]])] * 3
    more: dict[str, Any] = {"weights": np.array([0.5, 1.0, 2.0]), "C": 2.0}
    whole = StructuredSVM.read(features, labels, 4, edges="none" if edges == "none" else apart, **more)
    solution, value = solve(whole), optimum(marginals(whole)).value
    assert solution.status.solved
    assert solution.iterations < 40
    slack = HIGH.gap * value
    assert solution.lower_bound - slack <= value <= solution.primal + slack


def test_a_witness_of_the_parts_is_worth_as_much_for_the_whole_with_the_truth_taking_what_is_left() -> None:
    rng = np.random.default_rng(6)
    features, labels = [rng.normal(size=(5, 2)) for _ in range(2)], [rng.integers(0, 3, 5) for _ in range(2)]
    edges = [np.array([[0, 1], [3, 2]])] * 2
    whole = StructuredSVM.read(features, labels, 3, edges=edges, C=0.7, weights=np.array([1.0, 2.5]))
    parts = by_component(whole)
    assert parts is not None
    mixture = {"labels": rng.integers(0, 3, (3, 10)), "label_shares": rng.dirichlet(np.ones(5), parts.n_examples).T[:3]}
    gibbs = {
        "gibbs": rng.normal(size=(1, whole.dimension)), "gibbs_loss": np.array([0.4]),
        "gibbs_shares": np.full((1, parts.n_examples), 0.6),
    }  # fmt: skip
    for witness in (mixture, gibbs):
        psi, loss = parts.aggregate(witness)
        of_whole = whole.aggregate(witness_of_whole(whole, parts, witness))
        np.testing.assert_allclose(of_whole.psi, psi, atol=ROUNDING)
        assert of_whole.loss == pytest.approx(loss, rel=ROUNDING)


def test_slack_scaling_with_a_large_c_does_not_end_before_it_begins() -> None:
    """300 short chains whose first restricted problem the interior point left as it was: STALLED, lower bound 0."""
    data = random_chains(300, 3, 3, 10, seed=0)
    problem = StructuredSVM.read(data.node_features, data.labels_each, data.n_labels, C=100.0, scaling="slack")
    assert solve(problem, max_iterations=60).status is Status.OPTIMAL


#: Offset and factor of a feature: a time stamp, another unit, a year, and one that is nearly 0.
UNITS = {"stamp": (1.7e9, 60.0), "unit": (0.0, 1e8), "year": (2000.0, 1.0), "small": (0.0, 1e-8)}


@pytest.mark.parametrize("unit", UNITS)
def test_a_feature_of_another_size_does_not_stop_it(unit: str) -> None:
    """Rows of two labels with a bias, where one feature of three has another unit."""
    rng = np.random.default_rng(900)
    x, z, noise = rng.normal(size=(3, 150))
    offset, factor = UNITS[unit]
    rows, labels = np.column_stack((np.ones(150), offset + factor * x, z)), (x + 0.5 * z + noise > 0).astype(int)
    problem = StructuredSVM.read(list(rows[:, None]), list(labels[:, None]), 2, C=1.0)
    assert solve(problem, max_iterations=100).status is Status.OPTIMAL


#: Changes of units of five features: years, time stamps, and one of each size.
CHANGES: dict[str, Callable[[Matrix], Matrix]] = {
    "year": lambda x: np.c_[x[:, :4], 2000.0 + 5.0 * x[:, 4]],
    "stamp": lambda x: np.c_[x[:, :4], 1.7e9 + 60.0 * x[:, 4]],
    "mixed": lambda x: x * [1e-8, 1e8, 1.0, 1e3, 1e-3],
}


@pytest.mark.parametrize("change", CHANGES)
def test_twenty_labels_with_features_of_other_sizes_take_no_more_rounds_than_without(change: str) -> None:
    """Fewer columns than weights: the Gram matrix is used. L-BFGS in w itself, one length of a step for all weights,
    left 36 to 42 rounds, and at 50 labels no end."""
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(5, 20))
    x = [rng.normal(size=(5, 5)) for _ in range(15)]
    labels = [(each @ weights + rng.gumbel(size=(5, 20))).argmax(axis=1) for each in x]
    problem = StructuredSVM.read([CHANGES[change](each) for each in x], labels, 20, C=1.0)
    assert solve(problem, max_iterations=25).status is Status.OPTIMAL


def test_a_time_stamp_beside_labels_that_never_occur() -> None:
    """Forty of fifty labels. Their multipliers have to vanish a billion times over; where one of them cut the
    restoration of all others, a restricted master took a thousand steps, and a gap of .2 was left after 10 s."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 6))
    labels = (x @ rng.normal(size=(6, 50)) + 0.5 * rng.normal(size=(24, 50))).argmax(axis=1)
    x[:, 0] = 1.7e9 + 60.0 * np.arange(24)
    problem = StructuredSVM.read(x, np.split(labels, 6), 50, C=100.0)
    assert solve(problem, tol="LOW", time_limit=60.0).status is Status.OPTIMAL


def test_sparse_words_with_a_year_beside_them_are_tempered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ascent an example at a time hardly moves there: it left a gap of 1.0 after 40 rounds."""
    monkeypatch.setattr(column_generation, "CHEAP_WORK", 0.0)
    rng = np.random.default_rng(0)
    size, weights = 300, rng.normal(size=(300, 4))
    frequency = 1.0 / np.arange(1, size + 1)
    x, labels = [], []
    for _ in range(20):
        words = rng.choice(size, size=6, p=frequency / frequency.sum())
        counts = sp.csr_array((np.ones(6), words, np.arange(7)), (6, size))
        x.append(sp.csr_array(sp.hstack([counts, 2000.0 + 5.0 * rng.normal(size=(6, 1))])))
        labels.append((weights[words] + rng.gumbel(size=(6, 4))).argmax(axis=1))
    problem = StructuredSVM.read(x, labels, 4, C=0.2)
    assert solve(problem, max_iterations=25).status is Status.OPTIMAL


def chains(size: float) -> StructuredSVM:
    """Features of this size."""
    data = random_chains(4, 5, 3, 6, seed=0)
    return StructuredSVM.read(size * data.node_features, data.labels_each, 3, C=1.0)


@pytest.mark.parametrize("size", [1e-8, 1e4, 1e8])
def test_features_of_every_size_are_solved(size: float) -> None:
    assert solve(chains(size), max_iterations=100).status is Status.OPTIMAL


@pytest.mark.parametrize(("size", "C"), [(1e241, 1e-300), (1e200, 1e-300), (1e241, 1e-287)])
def test_a_complementarity_of_which_only_the_mean_underflows_ends_with_a_sentence(size: float, C: float) -> None:
    """Divided by, it ended these in a ZeroDivisionError."""
    rng = np.random.default_rng(0 if C < 1e-290 else 3)
    nodes, labels = [size * rng.normal(size=(2, 2)) for _ in range(2)], [rng.integers(2, size=2) for _ in range(2)]
    found = solve(StructuredSVM.read(nodes, labels, 2, C=C))
    assert found.status.solved or "scale the features" in found.message


def test_where_a_gram_matrix_alone_is_solved_with_large_features_stop_it_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`WIDEST` of the restricted_master."""
    monkeypatch.setattr(restricted_master, "WIDEST", 0)
    solution = solve(chains(1e8), max_iterations=100)
    assert not solution.status.solved
    assert "rounding ends the quadratic program" in solution.message
    assert "node feature" in solution.message
