"""Chains with a bound on the rounding: both ways to do each pass, against recursions in 50 digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from convexstruct.arrays import Tensor
from convexstruct.graphs import Chains, chains
from convexstruct.oracles.chain import enclosure
from convexstruct.oracles.chain.chain import DROPPED_GAIN, sum_product
from convexstruct.oracles.chain.enclosure import (
    WIDEST_RANGE,
    Backward,
    Markov,
    _backward_by_terms,
    _markov_by_products,
    _weights,
    backward,
    log_losses,
    markov,
    near,
)  # fmt: skip
from convexstruct.rounding import RoundedArray
from convexstruct.tolerances import ROUNDING

DIGITS = 50
#: Sizes of node scores, and ranges of edge scores, in nats.
SCALES = [(0.0, 0.0), (1.0, 1.0), (30.0, 5.0), (1e3, WIDEST_RANGE), (1e8, 20.0), (1e3, 1e3)]

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


def by_terms(found: Backward, edge: Tensor, row: int, first: bool) -> NDArray[Any]:
    """The weights of the steps to a row, by label before and here, as `markov` takes them from ``ahead``."""
    scores = found.ahead[row] + (np.zeros((1, len(edge))) if first else edge)
    return exact(_weights(scores[:, :, None])[2][:, :, 0])


def by_products(transition: Tensor, e: Tensor, row: int, first: bool) -> NDArray[Any]:
    return exact(e[row])[None] * (1 if first else exact(transition))


def declared(
    laid: Chains, weights: Callable[[int, bool], NDArray[Any]], of_pairs: Tensor, certain: bool = False
) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """Marginals, weighted pairs and weighted entropy of the chain with these weights; ``certain`` as in `near`."""
    node: list[NDArray[Any]] = []
    pairs: Any = 0
    terms = []
    for row in range(laid.n_positions):
        first = row < laid.n_chains
        before = None if first else node[laid.previous[row - laid.n_chains]]
        w = weights(row, first)
        p = w / w.sum(axis=-1, keepdims=True)
        joint = p if before is None else before[:, None] * p
        node.append(joint.sum(axis=0))
        share = mpmath.mpf(of_pairs[laid.chain[row]])
        terms += [-share * q * mpmath.log(x) for q, x in zip(joint.ravel(), p.ravel()) if x > 0]
        if before is not None and not (certain and (before > 0).sum() == (node[-1] > 0).sum() == 1):
            pairs = pairs + joint * share
    return np.array(node), pairs, mpmath.fsum(terms)


def assert_within(gibbs: Markov, nodes: NDArray[Any], pairs: NDArray[Any]) -> None:
    for ours, truth in ((gibbs.node, nodes), (gibbs.edge, pairs)):
        assert (abs(exact(ours) - truth) <= gibbs.rounded(ours).errors).all()
    assert (gibbs.possible == (nodes > 0)).all()


@every_scale
def test_ln_z_lies_within_its_errors(size: float, span: float, monkeypatch: pytest.MonkeyPatch) -> None:
    with mpmath.workdps(DIGITS):
        off = 0.0
        for seed in range(4):
            laid, node, edge = drawn(seed, size, span)
            truth = log_partition(laid, node, edge)
            for widest in (WIDEST_RANGE, -1.0):
                monkeypatch.setattr(enclosure, "WIDEST_RANGE", widest)
                found = backward(laid, node, edge)
                assert (found.products is None) == (span > widest)
                error = abs(mpmath.fsum(found.parts.tolist()) - truth)
                assert error <= found.errors.sum()
                assert found.errors.sum() <= 1e-12 * laid.n_positions * (1.0 + size + span)
                off = max(off, float(error))
        assert off > 0.0 or size == 0.0


@pytest.mark.parametrize("errors", [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1)])
def test_the_loss_of_labels_moves_with_scores_as_far_as_is_said(errors: tuple[float, float]) -> None:
    """Label 0 everywhere, which is improbable, scores less, and every other label more."""
    for seed in range(4):
        laid, node, edge = drawn(seed, 1.0, 1.0)
        node[:, 0] -= 30.0
        scores = RoundedArray(node.copy(), errors[0]), RoundedArray(edge.copy(), errors[1])
        found = log_losses(laid, *scores, np.zeros(laid.n_positions, dtype=np.int64))
        node[:, 1:] += errors[0]
        node[:, 0] -= errors[0]
        edge += errors[1]
        edge[0, 0] -= 2.0 * errors[1]
        with mpmath.workdps(DIGITS):
            counted = mpmath.fsum(node[:, 0].tolist()) + len(laid.later) * mpmath.mpf(edge[0, 0])
            off = log_partition(laid, node, edge) - counted - mpmath.fsum(found.value.tolist())
        assert 0.99 * (found.errors.sum() - 1e-12) <= off <= found.errors.sum()


@every_scale
@pytest.mark.parametrize("weighted", [False, True])
def test_marginals_and_entropy_are_those_of_the_weights_within_their_errors(
    size: float, span: float, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mpmath.workdps(DIGITS):
        for seed in range(4):
            laid, node, edge = drawn(seed, size, span)
            shares = np.random.default_rng(seed).uniform(0.1, 3.0, size=laid.n_chains) if weighted else None
            for widest in (WIDEST_RANGE, -1.0):
                monkeypatch.setattr(enclosure, "WIDEST_RANGE", widest)
                found = backward(laid, node, edge)
                if (products := found.products) is not None:
                    gibbs, weights = _markov_by_products(laid, products, shares), partial(by_products, *products[:3:2])
                else:
                    gibbs, weights = markov(laid, found, edge, shares), partial(by_terms, found, edge)
                nodes, pairs, entropy = declared(laid, weights, np.ones(laid.n_chains) if shares is None else shares)
                assert_within(gibbs, nodes, pairs)
                assert abs(mpmath.mpf(gibbs.entropy) - entropy) <= gibbs.entropy_error


@every_scale
@pytest.mark.parametrize("certain", [False, True])
def test_near_gibbs_the_marginals_are_those_of_a_chain_within_their_errors(
    size: float, span: float, certain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, declares = enclosure._forward, []

    def watched(*given: Any) -> Markov:
        declares.append(given[1:3])
        return forward(*given)

    monkeypatch.setattr(enclosure, "_forward", watched)
    with mpmath.workdps(DIGITS):
        for seed in range(4):
            laid, node, edge = drawn(seed, size, span)
            rng = np.random.default_rng(seed)
            node[rng.random(laid.n_positions) < 0.5, 1:] = -np.inf  # one label only
            if seed % 2:
                edge[0, 1] = -1e5  # a weight of 0: after label 0, 1 is impossible
            weights = rng.uniform(0.1, 3.0, size=laid.n_chains)
            for widest in (DROPPED_GAIN, -1.0):
                monkeypatch.setattr(enclosure, "DROPPED_GAIN", widest)
                declares.clear()
                gibbs = near(laid, node, edge, weights, certain)
                assert declares or widest < 0 or size > 100
                terms = partial(by_terms, _backward_by_terms(laid, node, edge), edge)
                of = partial(by_products, *declares[0]) if declares else terms
                assert_within(gibbs, *declared(laid, of, weights, certain)[:2])
                expected = sum_product(laid, node, edge, weights)
                np.testing.assert_allclose(gibbs.node, expected.node, atol=ROUNDING)
                if not certain:
                    np.testing.assert_allclose(gibbs.edge, expected.edge, atol=ROUNDING)


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
    """Scores of 2500 leave nearly one labelling: its entropy is small, and so are the errors of positive terms."""
    laid, node, edge = drawn(1, 2500.0, 100.0)
    found = backward(laid, node, edge)
    assert found.products is not None
    again = markov(laid, found, edge)
    assert again.entropy_error <= ROUNDING * again.entropy < _markov_by_products(laid, found.products).entropy_error


@pytest.mark.parametrize("gap", [10.0, 100.0, 170.0, 600.0])
def test_a_label_far_behind_counts_where_transitions_favour_it(gap: float) -> None:
    laid = chains([2])
    node, edge = np.array([[200.0, 0.0], [0.0, -gap]]), np.array([[-75.0, 75.0], [75.0, -75.0]])
    found = backward(laid, node, edge)
    assert found.products is not None
    with mpmath.workdps(DIGITS):
        assert abs(mpmath.fsum(found.parts.tolist()) - log_partition(laid, node, edge)) <= found.errors.sum() <= 1e-11
