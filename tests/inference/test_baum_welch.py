"""Baum-Welch against all state sequences written out: posteriors, counts and the M step; and L never falls."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.inference.baum_welch import baum_welch, expected, maximised, posteriors
from convexstruct.inference.hidden_markov import HiddenMarkovModels, Observations, random_models
from convexstruct.oracles.chain import chain
from convexstruct.tolerances import ROUNDING

EXAMPLES = settings(max_examples=40, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Observations, HiddenMarkovModels, list[np.ndarray]]:
    """Up to three sequences of up to four steps, one or two channels, up to three states; some symbols never seen."""
    rng = np.random.default_rng(draw(SEEDS))
    s, m, c = (draw(st.integers(1, most)) for most in (3, 4, 2))
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    symbols = [rng.integers(0, max(1, m - 1), size=(n, c)) for n in lengths]
    given_as = symbols if c > 1 else [one[:, 0] for one in symbols]
    return Observations.read(given_as, m), random_models(2, s, m, seed=draw(SEEDS), n_channels=c), symbols


def joint(model: HiddenMarkovModels, r: int, shown: np.ndarray, states: tuple[int, ...]) -> float:
    """P(states, symbols), a product of table entries."""
    p = float(model.initial[r, states[0]])
    for before, after in itertools.pairwise(states):
        p *= float(model.transition[r, before, after])
    for t, s in enumerate(states):
        for c, symbol in enumerate(shown[t]):
            p *= float(model.emission[r, c, s, symbol])
    return p


@given(batches())
@EXAMPLES
def test_likelihood_posteriors_counts_and_best_states_are_those_of_all_state_sequences(
    batch: tuple[Observations, HiddenMarkovModels, list[np.ndarray]],
) -> None:
    observed, models, symbols = batch
    found = expected(observed, models)
    updated, states_of, decoded = maximised(models, found), posteriors(observed, models), models.decode(observed)
    s = models.n_states
    for r in range(models.n_models):
        likelihood, at = 0.0, 0
        first, pairs, seen = np.zeros(s), np.zeros((s, s)), np.zeros_like(models.emission[r])
        for shown in symbols:
            every = {y: joint(models, r, shown, y) for y in itertools.product(range(s), repeat=len(shown))}
            total = sum(every.values())
            likelihood += np.log(total)
            posterior = np.zeros((len(shown), s))
            for y, p in every.items():
                first[y[0]] += p / total
                for t, state in enumerate(y):
                    posterior[t, state] += p / total
                    seen[np.arange(shown.shape[1]), state, shown[t]] += p / total
                    if t:
                        pairs[y[t - 1], state] += p / total
            np.testing.assert_allclose(states_of[r, at : at + len(shown)], posterior, atol=ROUNDING)
            best = every[tuple(decoded[r][at : at + len(shown)].tolist())]
            assert best == pytest.approx(max(every.values()), rel=ROUNDING)
            at += len(shown)
        assert found.log_likelihood[r] == pytest.approx(likelihood, rel=ROUNDING, abs=ROUNDING)
        np.testing.assert_allclose(found.pairs[r], pairs, atol=ROUNDING)
        np.testing.assert_allclose(updated.initial[r], first / first.sum(), atol=ROUNDING)
        np.testing.assert_allclose(updated.emission[r], seen / seen.sum(axis=-1, keepdims=True), atol=ROUNDING)
        if pairs.any():
            np.testing.assert_allclose(updated.transition[r], pairs / pairs.sum(axis=1, keepdims=True), atol=ROUNDING)
        else:  # every sequence is one step long: there is nothing to learn of transitions
            np.testing.assert_array_equal(updated.transition[r], models.transition[r])


@given(batches())
@EXAMPLES
def test_the_likelihood_never_falls_and_ends_as_that_of_the_models(
    batch: tuple[Observations, HiddenMarkovModels, list[np.ndarray]],
) -> None:
    observed, start, _ = batch
    trained = baum_welch(observed, start, max_iterations=50)
    assert (np.diff(trained.trace, axis=0) >= -ROUNDING).all()
    np.testing.assert_allclose(expected(observed, trained.models).log_likelihood, trained.log_likelihood, atol=ROUNDING)
    for table in (trained.models.initial, trained.models.transition, trained.models.emission):
        np.testing.assert_allclose(table.sum(axis=-1), 1.0, atol=ROUNDING)
    assert trained.iterations.max() == len(trained.trace) - 1
    best = expected(observed, trained.best).log_likelihood[0]
    assert best == pytest.approx(trained.log_likelihood.max(), rel=ROUNDING, abs=ROUNDING)


def test_models_trained_side_by_side_are_those_trained_one_by_one() -> None:
    rng = np.random.default_rng(0)
    observed = Observations.read([rng.integers(0, 3, size=n) for n in (9, 1, 6)], 3)
    start = random_models(4, 2, 3, seed=1)
    together = baum_welch(observed, start)
    assert len(set(together.iterations.tolist())) > 1  # they stop at different times
    for r in range(4):
        alone = baum_welch(observed, start.some([r]))
        assert alone.iterations[0] == together.iterations[r]
        np.testing.assert_allclose(alone.log_likelihood[0], together.log_likelihood[r], rtol=ROUNDING)
        np.testing.assert_allclose(alone.models.emission[0], together.models.emission[r], atol=ROUNDING)


def test_messages_that_vanish_when_rescaled_are_summed_in_the_log_domain() -> None:
    tiny = 1e-200  # of one channel; two of them are below the smallest number
    table = [[1.0 - tiny, tiny], [0.0, 1.0]]
    model = HiddenMarkovModels.read([1.0, 0.0], np.eye(2), [table, table])
    seen = Observations.read([np.ones((8, 2), dtype=int), [[0, 0], [1, 1]]], 2)
    found = expected(seen, model)  # state 1 would show it, and is never reached
    assert found.log_likelihood[0] == pytest.approx(18 * np.log(tiny), rel=ROUNDING)
    np.testing.assert_allclose(posteriors(seen, model)[0], [[1.0, 0.0]] * 10, atol=ROUNDING)
    trained = baum_welch(seen, model, max_iterations=3)
    assert (np.diff(trained.trace, axis=0) >= -ROUNDING).all()


def test_a_state_that_a_message_loses_is_found_where_it_matters_later() -> None:
    """Two states that are never left: after three symbols the second is below 1e-308 of the first, at the end far
    above. Forward messages have lost it by then, and their likelihood, a number, is that of the first state alone."""
    tiny, shown = 1e-120, [0] * 3 + [1] * 6
    model = HiddenMarkovModels(
        np.array([[0.5, 0.5]]), np.eye(2)[None], np.array([[[[1.0, tiny**2], [tiny, 1.0 - tiny]]]])
    )
    found = expected(Observations.read([shown] * 3, 2), model)
    assert found.log_likelihood[0] == pytest.approx(3 * (np.log(0.5) + 3 * np.log(tiny)))
    np.testing.assert_allclose(found.first, [[0.0, 3.0]], atol=ROUNDING)


def test_a_start_that_cannot_show_the_sequences_is_refused() -> None:
    for transition, emission in ((np.full((2, 2), 0.5), [[1.0, 0.0], [1.0, 0.0]]), (np.eye(2), np.eye(2))):
        with pytest.raises(ValueError, match="probability 0 by its model 0"):
            baum_welch(Observations.read([[0, 1]], 2), HiddenMarkovModels.read([1.0, 0.0], transition, emission))


def test_bad_input_is_one_sentence() -> None:
    for symbols in ([[0, 1], [0, 2]], [np.zeros((2, 3), dtype=int), np.zeros((2, 2), dtype=int)]):
        with pytest.raises(ValueError, match=r"symbols\[1\]"):
            Observations.read(symbols, 2)
    with pytest.raises(ValueError, match="transition has a row whose sum is off 1"):
        HiddenMarkovModels.read([1.0], [[0.5]], [[1.0]])
    with pytest.raises(ValueError, match="observed has 1 channels of 2 symbols, wanted 1 of 3"):
        baum_welch(Observations.read([[0, 1]], 2), random_models(1, 2, 3))


def test_a_weight_counts_a_sequence_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    shown = [rng.integers(0, 3, size=n) for n in (6, 2, 9)]
    once = Observations.read(shown, 3, weights=[2.0, 1.0, 3.0])
    often = Observations.read([shown[0]] * 2 + [shown[1]] + [shown[2]] * 3, 3)
    assert once.weight == often.weight == 41
    for start in (random_models(2, 2, 3, seed=0), still()):
        for mine, theirs in zip(expected(once, start), expected(often, start)):
            np.testing.assert_allclose(mine, theirs, rtol=ROUNDING, atol=ROUNDING)


def still() -> HiddenMarkovModels:
    """A model whose messages vanish when rescaled: the second state alone shows symbol 2, and is never reached."""
    return HiddenMarkovModels.read([1.0, 0.0], np.eye(2), [[0.5, 0.5, 1e-320], [0.0, 0.0, 1.0]])


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_what_is_0_at_the_start_stays_0(seed: int) -> None:
    rng = np.random.default_rng(seed)
    observed = Observations.read([rng.integers(0, 3, size=n) for n in (7, 4)], 3)
    start = random_models(2, 3, 3, seed=seed)
    rightwards = np.triu(start.transition)
    rightwards /= rightwards.sum(axis=2, keepdims=True)
    emission = start.emission * (np.arange(9).reshape(3, 3) != 7)  # the last state never shows symbol 1
    emission /= emission.sum(axis=3, keepdims=True)
    start = HiddenMarkovModels(np.array([[1.0, 0.0, 0.0]] * 2), rightwards, emission)
    trained = baum_welch(observed, start, max_iterations=40)
    assert (trained.models.initial[:, 1:] == 0).all()
    assert (np.tril(trained.models.transition, -1) == 0).all()
    assert (trained.models.emission[:, 0, 2, 1] == 0).all()
    assert (np.diff(trained.trace, axis=0) >= -ROUNDING).all()
    np.testing.assert_allclose(trained.models.transition.sum(axis=2), 1.0, atol=ROUNDING)
    np.testing.assert_allclose(trained.log_likelihood, expected(observed, trained.models).log_likelihood, atol=ROUNDING)


@pytest.mark.parametrize("stays", [0.0, 0.999])
def test_few_long_sequences_are_summed_and_decoded_as_many_short_ones_are(stays: float) -> None:
    rng = np.random.default_rng(7)
    observed = Observations.read([rng.integers(0, 4, size=n) for n in (1500, 40, 900)], 4, weights=[1.0, 2.0, 3.0])
    start = random_models(2, 3, 4, seed=3)
    slow = HiddenMarkovModels(start.initial, stays * np.eye(3) + (1.0 - stays) * start.transition, start.emission)
    assert observed.arranged(3).cut is not None
    found, decoded = expected(observed, slow), slow.decode(observed)
    for r in range(2):
        node, edge = slow.scores(observed)[r], np.log(slow.transition[r])
        sums = chain.sum_product(observed.chains, node, edge, observed.weights)
        assert observed.weights is not None
        assert found.log_likelihood[r] == pytest.approx(float(observed.weights @ sums.log_partition), rel=ROUNDING)
        np.testing.assert_allclose(found.pairs[r], sums.edge, rtol=ROUNDING)
        np.testing.assert_allclose(posteriors(observed, slow)[r], sums.node[observed.chains.flat], atol=ROUNDING)
        best, labels = chain.viterbi(observed.chains, node, edge)
        mine = decoded[r][observed.chains.packed]
        score = node[np.arange(len(mine)), mine].sum()
        score += edge[mine[observed.chains.previous], mine[observed.chains.later]].sum()
        assert score == pytest.approx(best.sum(), rel=ROUNDING)
        assert (mine == labels).mean() > 0.99  # equal but for ties
