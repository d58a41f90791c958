"""Dual witnesses of structural SVMs: their bound is D of the alpha that they name, summed over all labellings."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.arrays import Vector
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.witness import agreeing, consistent
from convexstruct.marginals.pairwise_enumeration import EnumeratedPairwise, enumerate_pairwise
from convexstruct.tolerances import DUAL_ROUNDING, ROUNDING
from tests.models.structured_svm.instances import DECOMPOSABLE, INSTANCES, svm

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
SEEDS = st.integers(0, 2**32 - 1)
#: Instances whose witness may be marginals.
FORESTS = [name for name in DECOMPOSABLE if "cycle" not in name and "ladder" not in name]


def best_multiple(problem: StructuredSVM, every: EnumeratedPairwise, alpha: Vector) -> float:
    """max over 0 <= t <= 1 of D(t alpha), alpha (R,) over all labellings; D is a parabola in t."""
    scale = every.loss if problem.scaling == "slack" else np.ones_like(every.loss)
    psi = problem.project(np.asarray(every.difference.T @ (alpha * scale)))
    loss, square = float(every.loss @ alpha), float(psi @ psi) / problem.lam
    t = 1.0 if square == 0 else min(1.0, loss / square)
    return t * loss - 0.5 * t * t * square


def of_labellings(problem: StructuredSVM, every: EnumeratedPairwise, labels: Any, shares: Any) -> Vector:
    """alpha (R,) of a mixture of labellings."""
    alpha = np.zeros(every.n_rows)
    for row, share in zip(labels, shares):
        for i, y in enumerate(np.split(row, problem.features.node_start[1:-1])):
            at = next(r for r in np.flatnonzero(every.example == i) if np.array_equal(every.labels[r], y))
            alpha[at] += problem.ceiling[i] * share[i]
    return alpha


def drawn_labels(problem: StructuredSVM, rng: np.random.Generator, m: int = 3) -> dict[str, Any]:
    """m labellings; the shares of an example may leave something for the truth."""
    features = problem.features
    shares = rng.dirichlet(np.ones(m + 1), size=problem.n_examples).T[:m]
    return {"labels": rng.integers(features.n_labels, size=(m, features.n_nodes)), "label_shares": shares}


@EXAMPLES
@given(st.sampled_from(list(INSTANCES)), SEEDS)
def test_labellings_bound_by_d_of_their_alpha(name: str, seed: int) -> None:
    problem = INSTANCES[name]()
    every = enumerate_pairwise(problem.features, problem.loss)
    witness = drawn_labels(problem, np.random.default_rng(seed))
    value = best_multiple(problem, every, of_labellings(problem, every, witness["labels"], witness["label_shares"]))
    assert problem.dual(witness) == pytest.approx(value, rel=ROUNDING, abs=ROUNDING)
    assert problem.dual_residuals(witness)["shares outside the simplex"] == pytest.approx(0.0, abs=ROUNDING)


@EXAMPLES
@given(st.sampled_from(list(DECOMPOSABLE)), SEEDS)
def test_gibbs_measures_bound_by_d_of_their_alpha(name: str, seed: int) -> None:
    problem = DECOMPOSABLE[name]()
    every = enumerate_pairwise(problem.features, problem.loss)
    rng = np.random.default_rng(seed)
    theta, b = rng.normal(size=(2, problem.dimension)), rng.uniform(0.0, 3.0, size=2)
    shares = rng.dirichlet(np.ones(3), size=problem.n_examples).T[:2]
    alpha = np.zeros(every.n_rows)
    for k in range(2):
        score = every.joint @ theta[k] + b[k] * every.loss
        for i in range(problem.n_examples):
            rows = every.example == i
            q = np.exp(score[rows] - score[rows].max())
            alpha[rows] += problem.ceiling[i] * shares[k, i] * q / q.sum()
    witness = {"gibbs": theta, "gibbs_loss": b, "gibbs_shares": shares}
    value = best_multiple(problem, every, alpha)
    assert problem.dual(witness) == pytest.approx(value, rel=1e2 * ROUNDING, abs=1e2 * ROUNDING)


@EXAMPLES
@given(st.sampled_from(FORESTS), SEEDS)
def test_marginals_of_a_distribution_bound_by_d_of_it(name: str, seed: int) -> None:
    problem = DECOMPOSABLE[name]()
    features = problem.features
    every = enumerate_pairwise(features, problem.loss)
    rng = np.random.default_rng(seed)
    drawn = rng.exponential(size=every.n_rows) ** 4
    size = features.n_labels
    node, edge = np.zeros((features.n_nodes, size)), np.zeros((features.n_edges, size, size))
    alpha = np.zeros(every.n_rows)
    for i in range(problem.n_examples):
        rows = np.flatnonzero(every.example == i)
        q = drawn[rows] / drawn[rows].sum()
        alpha[rows], first = problem.ceiling[i] * q, int(features.node_start[i])
        labels = np.array([every.labels[r] for r in rows])
        for v in range(int(features.lengths[i])):
            np.add.at(node[first + v], labels[:, v], q)
        for e in np.flatnonzero(features.edge_example == i):
            u, v = features.edges[e] - first
            np.add.at(edge[e], (labels[:, u], labels[:, v]), q)
    settled = consistent(features, node, edge)
    np.testing.assert_allclose(settled[0], node, atol=ROUNDING)
    np.testing.assert_allclose(settled[1], edge, atol=ROUNDING)
    witness = {"node_marginals": node, "edge_marginals": edge}
    assert problem.dual(witness) == pytest.approx(best_multiple(problem, every, alpha), rel=ROUNDING, abs=ROUNDING)
    half = {**witness, "marginal_shares": np.full(problem.n_examples, 0.5)}  # the rest lies on the truth
    value = best_multiple(problem, every, 0.5 * alpha)
    assert problem.dual(half) == pytest.approx(value, rel=ROUNDING, abs=ROUNDING)


@EXAMPLES
@given(st.sampled_from(FORESTS), SEEDS)
def test_marginals_that_disagree_are_read_as_those_of_a_distribution(name: str, seed: int) -> None:
    """Any nonnegative numbers, zeros among them: the marginals that they are read as agree, so their bound holds."""
    problem = DECOMPOSABLE[name]()
    features, size = problem.features, problem.features.n_labels
    rng = np.random.default_rng(seed)
    node = rng.random((features.n_nodes, size)) * (rng.random((features.n_nodes, size)) < 0.7)
    edge = rng.random((features.n_edges, size, size)) * (rng.random((features.n_edges, size, size)) < 0.7)
    settled, pairs = consistent(features, node, edge)
    for read_node, read_edge in ((settled, pairs), agreeing(features, node, edge)):
        assert min(read_node.min(), read_edge.min(initial=0.0)) >= 0.0
        np.testing.assert_allclose(read_node.sum(axis=1), 1.0)
        np.testing.assert_allclose(read_edge.sum(axis=2), read_node[features.edges[:, 0]], atol=ROUNDING)
        np.testing.assert_allclose(read_edge.sum(axis=1), read_node[features.edges[:, 1]], atol=ROUNDING)
    w = rng.normal(size=problem.dimension)
    bound = problem.dual({"node_marginals": node, "edge_marginals": edge})
    assert bound <= problem.primal({"w": problem.project(w)}) * (1 + ROUNDING)


def test_kinds_add_up() -> None:
    problem = svm(0)
    rng = np.random.default_rng(0)
    labels = drawn_labels(problem, rng)
    labels["label_shares"] = 0.5 * labels["label_shares"]
    theta = rng.normal(size=(1, problem.dimension))
    gibbs = {"gibbs": theta, "gibbs_loss": np.ones(1), "gibbs_shares": np.full((1, 4), 0.5)}
    one, other, both = (problem.aggregate(w) for w in (labels, gibbs, {**labels, **gibbs}))
    np.testing.assert_allclose(both.psi, one.psi + other.psi, atol=ROUNDING)
    assert both.loss == pytest.approx(one.loss + other.loss)


def test_labels_in_one_byte_each_are_read_as_numbers() -> None:
    """With 20 labels the place of a pair in its table is beyond 127."""
    problem = svm(0, lengths=(4, 3), n_labels=20)
    witness = drawn_labels(problem, np.random.default_rng(1))
    assert problem.dual({**witness, "labels": witness["labels"].astype(np.int8)}) == problem.dual(witness)


def test_in_the_relaxed_problem_any_point_of_the_local_polytope_will_do() -> None:
    """Marginals of 1/2 on a triangle that no distribution has: a bound on the relaxed problem alone."""
    triangle = (nx.cycle_graph(3),)
    relaxed = svm(0, graphs=triangle, n_labels=2, inference="relaxed")
    apart = np.tile(0.5 * (1.0 - np.eye(2)), (3, 1, 1))
    witness = {"node_marginals": np.full((3, 2), 0.5), "edge_marginals": apart}
    assert np.isfinite(relaxed.dual(witness))
    node, edge = agreeing(relaxed.features, witness["node_marginals"], apart)
    psi = relaxed.truth_joint - relaxed.features.adjoint(node, edge)
    loss = float((node * relaxed.loss.costs).sum())
    assert relaxed.dual(witness) == pytest.approx(relaxed.best_on_ray(psi, loss), rel=ROUNDING)


# -- what is no witness ------------------------------------------------------------------------------------------------


def test_shares_above_one_prove_nothing_and_rounding_is_cleared_away() -> None:
    problem = svm(0)
    witness = drawn_labels(problem, np.random.default_rng(0))
    witness["label_shares"] /= witness["label_shares"].sum(axis=0)
    value = problem.dual(witness)
    slightly = {**witness, "label_shares": witness["label_shares"] * (1 + 0.5 * DUAL_ROUNDING)}
    assert problem.dual(slightly) == pytest.approx(value, rel=1e-3 * DUAL_ROUNDING)  # as if they summed to 1
    more = {**witness, "label_shares": witness["label_shares"] * 1.01}
    assert problem.dual(more) == -np.inf
    assert problem.dual_residuals(more)["shares outside the simplex"] == pytest.approx(0.01)


@pytest.mark.parametrize("key", ["label_shares", "gibbs_shares", "marginal_shares", "node_marginals", "edge_marginals"])
def test_a_negative_entry_or_none_at_all_proves_nothing(key: str) -> None:
    problem = svm(0)
    n, p, q = 4, problem.features.n_nodes, problem.features.n_edges
    witness: dict[str, Any] = {
        "labels": np.zeros((1, p), dtype=int), "label_shares": np.full((1, n), 0.2),
        "gibbs": np.zeros((1, 15)), "gibbs_loss": np.ones(1), "gibbs_shares": np.full((1, n), 0.2),
        "node_marginals": np.full((p, 3), 1 / 3), "edge_marginals": np.full((q, 3, 3), 1 / 9),
        "marginal_shares": np.full(n, 0.2),
    }  # fmt: skip
    assert np.isfinite(problem.dual(witness))
    for bad in (-0.1, np.nan, np.inf):
        witness[key].flat[0] = bad
        assert problem.dual(witness) == -np.inf
        assert problem.dual_residuals(witness)["shares outside the simplex"] >= 0.1
