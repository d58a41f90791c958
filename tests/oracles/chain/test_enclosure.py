"""Chains with a bound on the rounding: both ways to do each pass, against recursions in 50 digits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from convexstruct.arrays import Tensor
from convexstruct.graphs import Chains, chains
from convexstruct.oracles.chain import enclosure
from convexstruct.oracles.chain.enclosure import RANGE, Backward, _markov_by_products, _weights, backward, markov

DIGITS = 50
#: Sizes of node scores, and ranges of edge scores, in nats.
SCALES = [(0.0, 0.0), (1.0, 1.0), (30.0, 5.0), (1e3, RANGE), (1e8, 20.0), (1e3, 1e3)]

every_scale = pytest.mark.parametrize(("size", "span"), SCALES)


def drawn(seed: int, size: float, span: float, s: int = 3) -> tuple[Chains, Tensor, Tensor]:
    """Five chains of up to five positions, with scores of the two sizes."""
    rng = np.random.default_rng(seed)
    laid = chains([1, 5, 3, 5, 2])
    edge = rng.uniform(-0.5, 0.5, size=(s, s)) * span
    edge.flat[:2] = -0.5 * span, 0.5 * span
    return laid, size * rng.normal(size=(laid.n_positions, s)), edge


def exact(values: Tensor) -> NDArray[Any]:
    return np.array([mpmath.mpf(x) for x in values.ravel().tolist()], dtype=object).reshape(values.shape)


def log_sum_exp(scores: NDArray[Any]) -> Any:
    top = max(scores)
    return top + mpmath.log(mpmath.fsum(mpmath.exp(x - top) for x in scores))


def log_partition(laid: Chains, node: Tensor, edge: Tensor) -> Any:
    """The sum of ln Z over the chains, forwards."""
    node_scores, edge_scores = exact(node), exact(edge)
    here: list[NDArray[Any]] = []
    for row in range(laid.n_positions):
        arriving = np.zeros(len(edge), dtype=object)
        if row >= laid.n_chains:
            before = here[laid.previous[row - laid.n_chains]]
            arriving = np.array([log_sum_exp(before + edge_scores[:, j]) for j in range(len(edge))], dtype=object)
        here.append(node_scores[row] + arriving)
    return mpmath.fsum(log_sum_exp(here[row]) for row in laid.last)


def weights(laid: Chains, found: Backward, edge: Tensor, row: int) -> NDArray[Any]:
    """Of the steps to a row, as `markov` takes them."""
    first = row < laid.n_chains
    if found.products is None:
        return exact(_weights(found.ahead[row] + (0.0 if first else edge))[2])
    here = exact(found.products.weights[row])
    return here if first else exact(found.products.transition) * here


def declared(laid: Chains, found: Backward, edge: Tensor) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """Marginals, pairs and entropy of the chain with these weights."""
    node: list[NDArray[Any]] = []
    pairs: Any = 0
    terms = []
    for row in range(laid.n_positions):
        w = weights(laid, found, edge, row)
        p = w / w.sum(axis=-1, keepdims=True)
        joint = p
        if row >= laid.n_chains:
            joint = node[laid.previous[row - laid.n_chains]][:, None] * p
            pairs = pairs + joint
        terms += [-q * mpmath.log(x) for q, x in zip(joint.ravel(), p.ravel()) if x > 0]
        node.append(joint if joint.ndim == 1 else joint.sum(axis=0))
    return np.array(node), pairs, mpmath.fsum(terms)


@every_scale
def test_ln_z_lies_within_its_errors(size: float, span: float, monkeypatch: pytest.MonkeyPatch) -> None:
    with mpmath.workdps(DIGITS):
        off = 0.0
        for seed in range(4):
            laid, node, edge = drawn(seed, size, span)
            truth = log_partition(laid, node, edge)
            for widest in (RANGE, -1.0):
                monkeypatch.setattr(enclosure, "RANGE", widest)
                found = backward(laid, node, edge)
                assert (found.products is None) == (span > widest)
                error = abs(mpmath.fsum(found.parts.tolist()) - truth)
                assert error <= found.errors.sum()
                assert found.errors.sum() <= 1e-12 * laid.n_positions * (1.0 + size + span)
                off = max(off, float(error))
        assert off > 0.0 or size == 0.0


@every_scale
def test_marginals_and_entropy_are_those_of_the_weights_within_their_errors(
    size: float, span: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mpmath.workdps(DIGITS):
        for seed in range(4):
            laid, node, edge = drawn(seed, size, span)
            for widest in (RANGE, -1.0):
                monkeypatch.setattr(enclosure, "RANGE", widest)
                found = backward(laid, node, edge)
                gibbs = _markov_by_products(laid, found.products) if found.products else markov(laid, found, edge)
                nodes, pairs, entropy = declared(laid, found, edge)
                for ours, truth in ((gibbs.node, nodes), (gibbs.edge, pairs)):
                    assert (abs(exact(ours) - truth) <= gibbs.relative * ours + gibbs.absolute).all()
                assert abs(mpmath.mpf(gibbs.entropy) - entropy) <= gibbs.entropy_error


def test_matrix_products_serve_on_ordinary_scores_and_agree_with_term_by_term(monkeypatch: pytest.MonkeyPatch) -> None:
    laid, node, edge = drawn(0, 3.0, 5.0, s=26)
    found = backward(laid, node, edge)
    slow = markov(laid, replace(found, products=None), edge)
    for each in ("_backward_by_terms", "_markov_by_terms"):
        monkeypatch.setattr(enclosure, each, None)  # whoever calls it fails
    quick = markov(laid, backward(laid, node, edge), edge)
    assert abs(quick.entropy - slow.entropy) <= quick.entropy_error + slow.entropy_error + 1e-13 * slow.entropy
    np.testing.assert_allclose(quick.node, slow.node, rtol=1e-12)
    np.testing.assert_allclose(quick.edge, slow.edge, rtol=1e-12)


def test_an_entropy_that_cancels_is_summed_again_term_by_term() -> None:
    """Scores of 1e3 leave one labelling: its entropy is small, and so are the errors of positive terms alone."""
    laid, node, edge = drawn(1, 1e3, 100.0)
    found = backward(laid, node, edge)
    assert found.products is not None
    again = markov(laid, found, edge)
    assert again.entropy_error <= 1e-12 * again.entropy < _markov_by_products(laid, found.products).entropy_error


@pytest.mark.parametrize("gap", [10.0, 100.0, 170.0, 600.0])
def test_a_label_far_behind_counts_where_transitions_favour_it(gap: float) -> None:
    laid = chains([2])
    node, edge = np.array([[200.0, 0.0], [0.0, -gap]]), np.array([[-75.0, 75.0], [75.0, -75.0]])
    found = backward(laid, node, edge)
    assert found.products is not None
    with mpmath.workdps(DIGITS):
        assert abs(mpmath.fsum(found.parts.tolist()) - log_partition(laid, node, edge)) <= found.errors.sum() <= 1e-11
