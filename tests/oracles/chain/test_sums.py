"""The sums over chains with their errors: every method against recursions in 50 digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from convexstruct.arrays import Tensor
from convexstruct.graphs import Chains, chains
from convexstruct.oracles.chain import chain, log_sums, terms
from convexstruct.oracles.chain.sums import LOST, ChainSums, less_divergence, pairs_of
from convexstruct.rounding import RoundedArray, exact

DIGITS = 50
#: Sizes of node scores, and ranges of edge scores, in nats; from 330 on edge scores are evened, and sums may be so
#: small that they are taken in logs.
SCALES = [(0.0, 0.0), (1.0, 1.0), (30.0, 5.0), (1e3, 150.0), (1e8, 20.0), (1.0, 400.0), (1e3, 600.0), (1e3, 1e3)]
METHODS: dict[str, Callable[..., ChainSums | None]] = {
    "rescaled": chain.rescaled, "log messages": log_sums.log_messages, "terms": terms.sums_by_terms,
    "best": chain.sum_product,
}  # fmt: skip

every_scale = pytest.mark.parametrize(("size", "span"), SCALES)
every_method = pytest.mark.parametrize("method", METHODS)


def drawn(seed: int, size: float, span: float, s: int = 3) -> tuple[Chains, Tensor, Tensor]:
    """Five chains of up to five positions, with scores of the two sizes."""
    rng = np.random.default_rng(seed)
    laid = chains([1, 5, 3, 5, 2])
    edge = rng.uniform(-0.5, 0.5, size=(s, s)) * span
    edge.flat[:2] = -0.5 * span, 0.5 * span
    return laid, size * rng.normal(size=(laid.n_positions, s)), edge


def of(values: Tensor) -> NDArray[Any]:
    return np.array([mpmath.mpf(x) for x in values.ravel().tolist()], dtype=object).reshape(values.shape)


def log_sum(scores: NDArray[Any]) -> Any:
    top = max(scores)
    return top if top == -mpmath.inf else top + mpmath.log(mpmath.fsum(mpmath.exp(x - top) for x in scores))


def truth(laid: Chains, node: Tensor, edge: Tensor) -> tuple[Any, list[NDArray[Any]]]:
    """ln Z of each chain, and the Gibbs distributions' posteriors (P, S), in packed order."""
    scores, steps = of(node), of(edge)
    before: list[NDArray[Any]] = [np.full(len(edge), mpmath.mpf(0))] * laid.n_positions
    after = before.copy()
    labels = range(len(edge))
    for row in laid.later:
        k = laid.previous[row - laid.n_chains]
        before[row] = np.array([log_sum(before[k] + scores[k] + steps[:, j]) for j in labels], dtype=object)
    for row in laid.later[::-1]:
        k = laid.previous[row - laid.n_chains]
        after[k] = np.array([log_sum(after[row] + scores[row] + steps[i]) for i in labels], dtype=object)
    beliefs = [a + b + c for a, b, c in zip(before, scores, after)]
    logs = [log_sum(belief) for belief in beliefs]
    ends: list[Any] = [None] * laid.n_chains
    for row, k in enumerate(laid.chain):
        ends[k] = logs[row]
    posteriors = [np.array([mpmath.exp(x - top) for x in each]) for each, top in zip(beliefs, logs)]
    return np.array(ends), posteriors


@every_scale
@every_method
def test_ln_z_and_posteriors_lie_within_their_errors(method: str, size: float, span: float) -> None:
    with mpmath.workdps(DIGITS):
        off = 0.0
        for seed in range(3):
            laid, node, edge = drawn(seed, size, span)
            found = METHODS[method](laid, node, edge)
            if found is None:
                assert method != "best"
                assert max(size, span) > 100
                continue
            logs, posteriors = truth(laid, node, edge)
            parts = found.rounded(exact(node), exact(edge))
            errors = np.bincount(laid.chain, parts.errors)
            for k in range(laid.n_chains):
                error = abs(mpmath.fsum(found.parts[laid.chain == k].tolist()) - logs[k])
                assert error <= errors[k] <= 4e-13 * laid.lengths[k] * (1.0 + size + span)
                off = max(off, float(error))
            for row, (ours, theirs) in enumerate(zip(found.node, posteriors)):
                e = 4.0 * laid.lengths[laid.chain[row]] * errors[laid.chain[row]]
                assert (abs(of(ours) - theirs) <= (found.relative + e * (1 + e)) * theirs + 9 * LOST).all()
        assert off > 0.0 or size == 0.0 or found is None


def test_scores_with_errors_move_ln_z_by_no_more_than_the_largest_of_each_position() -> None:
    """All labels rise but one labelling, which is unlikely: that takes twice the error of each position and step."""
    laid, node, edge = drawn(0, 1.0, 1.0)
    labels, off = np.zeros(laid.n_positions, dtype=np.int64), 1e-3
    node[:, 0] -= 40.0
    errors = [np.full(x.shape, off) for x in (node, edge)]
    found = chain.sum_product(laid, node, edge)
    losses = found.log_losses(laid, RoundedArray(node, errors[0]), RoundedArray(edge, errors[1]), labels)
    up = [x + off for x in (node, edge)]
    up[0][:, 0], up[1][0, 0] = node[:, 0] - off, edge[0, 0] - off
    moved = chain.sum_product(laid, up[0], up[1]).log_losses(laid, exact(up[0]), exact(up[1]), labels)
    apart, bound = (np.bincount(laid.chain, x) for x in (np.abs(moved.value - losses.value), losses.errors))
    assert (bound - 1.01 * off <= apart).all()  # the first position counts the error of a step too
    assert (apart <= bound).all()


# -- the distribution to which the posteriors belong -------------------------------------------------------------------


def flow(
    laid: Chains, first: list[NDArray[Any]], step: Callable[[int], NDArray[Any]], weights: Tensor, certain: bool
) -> tuple[NDArray[Any], Any]:
    """Marginals and weighted pairs of the chain with these weights of labels, and of labels after labels."""
    node: list[NDArray[Any]] = []
    pairs: Any = np.zeros((len(first[0]), len(first[0])), dtype=object)
    for row in range(laid.n_positions):
        if row < laid.n_chains:
            node.append(first[row] / first[row].sum())
            continue
        w, before = step(row), node[laid.previous[row - laid.n_chains]]
        total = w.sum(axis=1)
        joint = before[:, None] * w / np.where(total == 0, 1, total)[:, None]
        node.append(joint.sum(axis=0))
        if not (certain and (before > 0).sum() == (node[-1] > 0).sum() == 1):
            pairs = pairs + joint * mpmath.mpf(weights[laid.chain[row]])
    return np.array(node), pairs


def assert_of(found: ChainSums, node: NDArray[Any], pairs: NDArray[Any], weight: float) -> None:
    for ours, exactly, most in ((found.node, node, 1.0), (found.edge, pairs, 1.0 + weight)):
        assert (abs(of(ours) - exactly) <= found.relative * ours + found.absolute * most).all()


@every_scale
@pytest.mark.parametrize("certain", [False, True])
@pytest.mark.parametrize("method", ["rescaled", "terms"])
def test_the_posteriors_are_those_of_a_chain_within_their_errors(
    method: str, certain: bool, size: float, span: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def pairs(share: Tensor, message: Tensor) -> Tensor:
        seen.append(message.base)
        return pairs_of(share, message)

    def conditionals(*given: Any) -> list[Tensor]:
        seen.append(conditional := given_conditionals(*given))
        seen.append(given[3][:, : len(given[2]) and given[2][0].stop].copy())
        return conditional

    given_conditionals = terms._conditionals
    monkeypatch.setattr(chain, "pairs_of", pairs)
    monkeypatch.setattr(terms, "_conditionals", conditionals)
    with mpmath.workdps(DIGITS):
        for seed in range(4):
            laid, node, edge = drawn(seed, size, span)
            rng = np.random.default_rng(seed)
            node[rng.random(laid.n_positions) < 0.5, 1:] = -np.inf  # one label only
            if seed % 2:
                edge[0, 1] = -np.inf
            weights = rng.uniform(0.1, 3.0, size=laid.n_chains)
            seen.clear()
            found = METHODS[method](laid, node, edge, weights, certain=certain)
            if found is None:
                assert max(size, span) > 100
                continue
            if method == "rescaled":
                v, transition = of(seen[0]), of(np.exp(edge - edge.max()))
                nodes, wanted = flow(laid, list(v), lambda row: v[row] * transition, weights, certain)  # noqa: B023
            else:
                conditional, first = seen
                at = {row: (t, row - laid.start[t]) for t in range(1, laid.n_steps)
                      for row in range(laid.rows(t).start, laid.rows(t).stop)}  # fmt: skip
                step = lambda row: of(conditional[at[row][0]][:, :, at[row][1]])  # noqa: B023, E731
                nodes, wanted = flow(laid, list(of(first.T)), step, weights, certain)
            assert_of(found, nodes, wanted, float(weights.max()))


@every_scale
def test_log_messages_give_the_posteriors_of_a_chain_that_runs_backwards(size: float, span: float) -> None:
    with mpmath.workdps(DIGITS):
        for seed in range(4):
            laid, node, edge = drawn(seed, size, span)
            found, passed = log_sums.log_messages(laid, node, edge), log_sums.messages(laid, node, edge)
            if found is None or passed is None:
                assert span > 100
                continue
            share, w = of(passed.share), of(passed.large)
            if passed.small is not None:
                w = w + of(passed.small) * mpmath.exp(-log_sums.DEPTH)
            nodes: list[NDArray[Any]] = [np.zeros(3)] * laid.n_positions
            pairs: Any = 0
            for row in laid.last:
                ends = of(np.exp(passed.message[row]))
                nodes[row] = ends / ends.sum()
            for row in laid.later[::-1]:
                k = laid.previous[row - laid.n_chains]
                joint = share[k][:, None] * w
                joint = joint / joint.sum(axis=0) * nodes[row]
                nodes[k], pairs = joint.sum(axis=1), pairs + joint
            assert_of(found, np.array(nodes), pairs, 1.0)


@pytest.mark.parametrize("error", [1e-9, 1e-3, 0.3, 0.5, 2.0])
def test_the_divergence_of_a_distribution_near_gibbs_is_in_the_error(error: float) -> None:
    """Label by label, q is proportional to e^(score + up to ``error``)."""
    with mpmath.workdps(DIGITS):
        for seed in range(200):
            rng = np.random.default_rng(seed)
            s = int(rng.integers(2, 6))
            scores = of(rng.normal(size=s) * rng.choice([0.1, 1.0, 10.0]))
            moved = scores + error * of(rng.choice([-1.0, 1.0], size=s))
            log_q, log_z = moved - log_sum(moved), log_sum(scores)
            value = sum(mpmath.exp(x) * (score - x) for x, score in zip(log_q, scores))
            found = less_divergence(RoundedArray([float(log_z)], [error]), np.array([1]), s)
            off = error + 2.0 * 2.0**-53 * abs(float(log_z))  # the float of ln Z, and its own error
            assert (
                abs(value - float(found.value[0])) <= found.errors[0] - off + 4.0 * 2.0**-53 * abs(float(log_z)) + 1e-15
            )
        nothing = less_divergence(RoundedArray([0.0], [0.0]), np.array([4]), 3)
        assert 4 * 27 * LOST <= nothing.errors[0] <= 1e-18


@pytest.mark.parametrize("gap", [10.0, 100.0, 170.0, 600.0])
def test_a_label_far_behind_counts_where_transitions_favour_it(gap: float) -> None:
    laid = chains([2])
    node, edge = np.array([[200.0, 0.0], [0.0, -gap]]), np.array([[-75.0, 75.0], [75.0, -75.0]])
    found = chain.rescaled(laid, node, edge)
    assert found is not None
    with mpmath.workdps(DIGITS):
        errors = found.rounded(exact(node), exact(edge)).errors
        assert abs(mpmath.fsum(found.parts.tolist()) - truth(laid, node, edge)[0][0]) <= errors.sum() <= 1e-11
