"""P, D and predictions of a structural SVM, in the conventions of the papers, against all labellings written out."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.core.certificates import certify
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.features.graphs.pairwise import read_pairwise
from convexstruct.inference.loopy import choose_oracle
from convexstruct.marginals.pairwise_enumeration import EnumeratedPairwise, enumerate_pairwise
from convexstruct.tolerances import ROUNDING
from tests.models.structured_svm.instances import INSTANCES, LOOPY, svm

EXAMPLES = settings(max_examples=100, deadline=None, derandomize=True)


@cache
def written_out(name: str) -> tuple[StructuredSVM, EnumeratedPairwise]:
    problem = INSTANCES[name]()
    return problem, enumerate_pairwise(problem.features, problem.loss)


def violations(problem: StructuredSVM, every: EnumeratedPairwise, w: Any) -> Any:
    """E - <w, df>, or E (1 - <w, df>), of every labelling."""
    margin = every.difference @ w
    return every.loss * (1.0 - margin) if problem.scaling == "slack" else every.loss - margin


@EXAMPLES
@given(st.sampled_from(list(INSTANCES)), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.1, 1.0, 10.0]))
def test_the_hinge_is_the_largest_violation_of_all_labellings(name: str, seed: int, scale: float) -> None:
    problem, every = written_out(name)
    w = scale * np.random.default_rng(seed).normal(size=problem.dimension)  # of any sign, associative or not
    found = problem.most_violated(w)
    each = violations(problem, every, w)
    hinge = np.array([max(0.0, each[every.example == i].max()) for i in range(problem.n_examples)])
    size = max(1.0, float(np.abs(each).max()))
    np.testing.assert_allclose(found.hinge, hinge, atol=ROUNDING * size)
    np.testing.assert_array_equal(found.violation, found.hinge)
    value = 0.5 * problem.lam * w @ w + problem.ceiling @ hinge
    assert found.value == pytest.approx(value, rel=ROUNDING, abs=ROUNDING)
    assert problem.primal({"w": w}) == found.value
    for i, y in enumerate(np.split(found.labels, problem.features.node_start[1:-1])):
        rows = np.flatnonzero(every.example == i)
        at = next(r for r in rows if np.array_equal(every.labels[r], y))
        assert max(0.0, each[at]) == pytest.approx(hinge[i], abs=ROUNDING * size)
        if hinge[i] == 0:  # nothing is violated: the truth
            assert at == every.truth[i]


# -- points ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["exact", "minimum_cut", "relaxed"])
def test_weights_below_zero_in_an_associative_network_are_named_and_repaired(inference: str) -> None:
    problem = svm(0, graphs=LOOPY, n_labels=2, associative=True, inference=inference)
    w = np.random.default_rng(0).normal(size=problem.dimension)
    w[-2:] = (-0.25, 0.5)
    repaired = problem.repair({"w": w})["w"]
    np.testing.assert_array_equal(repaired[:-2], w[:-2])
    np.testing.assert_array_equal(repaired[-2:], (0.0, 0.5))
    assert problem.residuals({"w": w}) == {"w_edge below 0": 0.25}
    assert problem.residuals({"w": repaired}) == {"w_edge below 0": 0.0}
    certificate = certify(problem, w)  # no error: cuts cannot serve it, and its value is undefined
    assert certificate.infeasibility == 0.25
    assert certificate.primal == pytest.approx(problem.primal({"w": repaired}), rel=ROUNDING)
    assert (certificate.claimed == np.inf) == (inference == "minimum_cut")


# -- the dual value ----------------------------------------------------------------------------------------------------


@EXAMPLES
@given(st.integers(0, 2**32 - 1), st.booleans(), st.floats(-2.0, 20.0))
def test_the_best_multiple_between_0_and_1_is_found(seed: int, associative: bool, loss: float) -> None:
    problem = svm(4, associative=associative, lam=0.3)
    psi = np.random.default_rng(seed).normal(size=problem.dimension)
    t = np.linspace(0.0, 1.0, 401)
    on_a_grid = max(problem.dual_value(s * psi, s * loss) for s in t)
    best = problem.best_on_ray(psi, loss)
    assert best >= on_a_grid - ROUNDING * max(1.0, abs(on_a_grid))
    assert best <= on_a_grid + 1e-3 * max(1.0, abs(loss))
    assert best >= 0.0 or loss < 0


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_how_far_edge_weights_lie_below_0_is_relative_where_they_are_large(size: float) -> None:
    problem = svm(0, associative=True)
    w = np.zeros(problem.dimension)
    w[np.flatnonzero(problem.features.nonnegative)[:2]] = (size, -1e-4 * size)
    assert problem.residuals({"w": w})["w_edge below 0"] == pytest.approx(1e-4 * min(size, 1.0))


# -- prediction --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chains, edge features, lam", "cycles", "slack scaling, Hamming", "a kernel"])
def test_a_prediction_is_the_labelling_of_the_greatest_score(name: str) -> None:
    problem, every = written_out(name)
    w = np.random.default_rng(2).normal(size=problem.dimension)
    score = every.joint @ w
    for i, y in enumerate(problem.predict(w)):
        rows = np.flatnonzero(every.example == i)
        np.testing.assert_array_equal(every.labels[rows[score[rows].argmax()]], y)


@pytest.mark.parametrize("associative", [False, True])
@pytest.mark.parametrize("kind", ["a list", "graphs", "edge features", "no edges"])
def test_examples_without_labels_get_the_labelling_of_the_greatest_score(kind: str, associative: bool) -> None:
    """Against the scores of all labellings, summed node by node and edge by edge."""
    rng, sizes = np.random.default_rng(5), (3, 1, 4)
    with_features = kind == "edge features"
    graphs = "none" if kind == "no edges" else "chain"
    problem = svm(1, graphs=graphs, n_edge_features=2 * with_features, associative=associative)
    w = problem.project(rng.normal(size=problem.dimension))
    nodes = [rng.normal(size=(n, 2)) for n in sizes]
    edges = [np.column_stack((np.arange(n - 1), np.arange(1, n))) for n in sizes]
    if kind == "graphs":
        edges[2] = np.array([(0, 3), (0, 1), (1, 2), (3, 2)])
    z = [np.abs(rng.normal(size=(len(pairs), 2))) if with_features else np.ones((len(pairs), 1)) for pairs in edges]
    given: dict[str, Any] = {"node_features": nodes}
    given |= {"edges": edges} if kind == "graphs" else {"edge_features": z} if with_features else {}
    of_nodes, of_edges = problem.features.split(w)
    found = problem.predict(w, nodes if len(given) == 1 else given)
    for x, pairs, values, y in zip(nodes, edges, z, found, strict=True):
        scores = {}
        for labels in product(range(3), repeat=len(x)):
            score = sum(float(of_nodes[label] @ row) for label, row in zip(labels, x))
            for (u, v), value in zip(pairs.tolist() if kind != "no edges" else [], values):
                if not associative:
                    score += float(value @ of_edges[:, labels[u], labels[v]])
                elif labels[u] == labels[v]:
                    score += float(value @ of_edges[:, labels[u]])
            scores[labels] = score
        assert tuple(y.tolist()) == max(scores, key=lambda labels: scores[labels])


def test_others_are_labelled_by_the_inference_of_training() -> None:
    """Minimum cuts label a grid that is far too wide for a junction tree."""
    rng = np.random.default_rng(0)
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(30, 30))
    small = svm(0, graphs=(nx.cycle_graph(4),), n_labels=2, associative=True, inference="minimum_cut")
    wide = read_pairwise(rng.normal(size=(900, 2)), [np.zeros(900, dtype=int)], 2, [grid], associative=True)
    w = np.concatenate((rng.normal(size=4), [0.5, 0.5]))
    (labels,) = small.predict(w, wide)
    greatest = choose_oracle(wide, "minimum_cut").best(wide.node_scores(w), wide.edge_scores(w)).scores
    assert float(wide.joint(labels) @ w) == pytest.approx(greatest[0], rel=ROUNDING * 10)


def test_new_inputs_of_a_kernel_are_labelled_through_their_products_with_the_training_inputs() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 2))
    labels = [[0, 1, 0], [1, 1, 0]]
    problem = StructuredSVM.read(None, labels, kernel=x @ x.T, C=1.0)
    linear = StructuredSVM.read(x, labels, C=1.0)
    assert problem.kernel is not None
    new = rng.normal(size=(4, 2))
    w = rng.normal(size=problem.dimension)
    back = np.linalg.lstsq(x, problem.features.node_features)[0]  # the linear map between the two feature spaces
    same = np.concatenate(((w[:4].reshape(2, 2) @ back.T).ravel(), w[4:]))
    values = new @ x.T
    found, expected = problem.predict(w, [values[:1], values[1:]]), linear.predict(same, [new[:1], new[1:]])
    assert [y.tolist() for y in found] == [y.tolist() for y in expected]


def test_the_trivial_value_is_a_number_where_a_share_overflows() -> None:
    given: dict[str, Any] = {"edges": "none", "loss": [[[0.0, 0.0]] * 2, [[0.0, 1.0]]], "weights": [10.0, 1e-300]}
    large = StructuredSVM.read([np.ones((2, 1)), np.ones((1, 1))], [[0, 0], [0]], 2, C=1e308, **given)
    assert large.trivial_value == pytest.approx(1e8)  # the first C omega_i overflows, its losses are all 0
