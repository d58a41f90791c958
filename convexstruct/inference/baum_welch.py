r"""Baum-Welch: maximum likelihood of hidden Markov models by expectation-maximisation, from many starts at once.

    L = sum_k ln sum_y initial[y_1] prod_{t > 1} transition[y_{t-1}, y_t] prod_t prod_c emission[c, y_t, x_{ktc}]

over the sequences x_k, each step t of which shows one symbol on each of C channels; with weights, the sum of omega_k
times the logarithms. An iteration computes the posteriors of the states and of their pairs by forward-backward (E), and
divides the expected counts of each row of each table by their sum (M); L never falls (L. Baum, T. Petrie, G. Soules, N.
Weiss 1970). L is not concave: the end is a stationary point, which depends on the start, and nothing more is claimed of
it. Paper 3 compares with it under the name EM. Here a transition is [previous, current]; paper 3 has the current state
first.

R models are trained side by side, each from its own start, in arrays whose first axis is the model: `random_models` of
`convexstruct.inference.hidden_markov` draws starts, and `Trained.best` is the likeliest end. Messages are rescaled at
each step to sum to 1 (`convexstruct.oracles.chain.probabilities`); a state whose message is below 1e-308 of the others'
is dropped there, and a model whose messages vanish altogether is summed again in the log domain
(`convexstruct.oracles.chain.terms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Matrix, Tensor, Vector
from convexstruct.inference.hidden_markov import Arranged, HiddenMarkovModels, Observations
from convexstruct.oracles.chain.probabilities import forward_backward
from convexstruct.oracles.chain.probabilities import pairs as expected_pairs
from convexstruct.oracles.chain.sums import ChainSums
from convexstruct.oracles.chain.terms import sums_by_terms
from convexstruct.tolerances import POSTERIOR
from convexstruct.validation.arguments import number, refuse, sentence, whole

#: A row of a table whose expected counts sum to less is kept as it is: its state is not visited.
UNVISITED = 1e-290


class Expected(NamedTuple):
    """log_likelihood (R,): L. first (R, S), pairs (R, S, S), seen (R, C, S, M): expected numbers of first states, of
    transitions, and of symbols shown by each state, each sequence's with its weight."""

    log_likelihood: Vector
    first: Matrix
    pairs: Tensor
    seen: Tensor


def room_for(observed: Observations, models: HiddenMarkovModels) -> Tensor:
    """Arrays for `expected`; ``[:, :R]`` of them will do for fewer models."""
    return np.empty((4, models.n_models, models.n_states, observed.chains.n_positions))


def expected(observed: Observations, models: HiddenMarkovModels, room: Tensor | None = None) -> Expected:
    """The E step: forward-backward of every model over every sequence; L = -inf where a model gives them
    probability 0.

    ``room`` (4, R, S, P) is where it works, see `room_for`; memory of its own by default.
    """
    models.check(observed)
    work = room_for(observed, models) if room is None else room
    data = observed.arranged(models.n_states)
    potential, top = _potentials(data, models, work[0])
    passed = forward_backward(data.layout, potential, models.transition, data.cut, work[1:])
    if passed is None:  # messages at the cuts do not agree
        data = observed.arranged()
        potential, top = _potentials(data, models, work[0])
        passed = forward_backward(data.layout, potential, models.transition, None, work[1:])
    assert passed is not None
    with np.errstate(invalid="ignore", divide="ignore", under="ignore", over="ignore"):
        posterior = np.multiply(passed.alpha, passed.beta, out=passed.beta)
        off = np.abs(posterior[:, :, data.layout.rows(0)].sum(axis=1) - 1.0).max(axis=1)
        steps = np.log(passed.scale) + top
        likelihood = steps.sum(axis=1) if data.share is None else steps @ data.share
        pairs = expected_pairs(data.layout, passed, data.cut, data.share) * models.transition
        if data.share is not None:
            posterior *= data.share
        first, seen = posterior[:, :, data.first].sum(axis=2), _seen(data, posterior, observed.n_symbols)
    for r in np.flatnonzero(~(off <= POSTERIOR) | ~np.isfinite(likelihood)):
        likelihood[r], first[r], pairs[r], seen[r] = _in_logs(observed, models.some([int(r)]))
    return Expected(likelihood, first, pairs, seen)


def posteriors(observed: Observations, models: HiddenMarkovModels) -> Tensor:
    """Probability of each state at each position, given the whole sequence; (R, P, S), sequence after sequence."""
    models.check(observed)
    data = observed.arranged()
    work = room_for(observed, models)
    passed = forward_backward(data.layout, _potentials(data, models, work[0])[0], models.transition, None, work[1:])
    assert passed is not None
    with np.errstate(invalid="ignore", under="ignore"):
        posterior = (passed.alpha * passed.beta).transpose(0, 2, 1)
    for r in np.flatnonzero(~(np.abs(posterior.sum(axis=2) - 1.0) <= POSTERIOR).all(axis=1)):
        posterior[r] = _log_sums(observed, models.some([int(r)])).node
    return posterior[:, observed.chains.flat]


def _potentials(data: Arranged, models: HiddenMarkovModels, potential: Tensor) -> tuple[Tensor, Matrix]:
    """(R, S, P), in ``potential``: probability of what each position shows in each state, over the largest of them,
    e^top, times that of the first state; top (R, P)."""
    emission = models.emission
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        if len(data.symbols) == 1:
            best = emission[:, 0].max(axis=1)
            table = emission[:, 0] / np.where(best > 0, best, 1.0)[:, None]
            top = np.log(best)[:, data.symbols[0]]
            np.take(table, data.symbols[0], axis=2, out=potential, mode="clip")  # "raise" would make a copy
            potential[:, :, data.first] *= models.initial[:, :, None]
        else:  # a product of many channels may be below all numbers
            potential[:] = models.logs(data)
            top = potential.max(axis=1)
            potential -= top[:, None]
            np.exp(potential, out=potential)
    return potential, top


def _seen(data: Arranged, posterior: Tensor, n_symbols: int) -> Tensor:
    """Expected numbers of each symbol of each channel in each state; (R, C, S, M)."""
    each = [[[np.bincount(x, p, n_symbols) for p in states] for x in data.symbols] for states in posterior]
    return np.array(each)


@np.errstate(invalid="ignore", divide="ignore", under="ignore", over="ignore")
def _log_sums(observed: Observations, model: HiddenMarkovModels) -> ChainSums:
    """The same sums of one model in the log domain, where messages vanish; -inf for a sequence of probability 0."""
    edge = np.log(model.transition[0])
    return sums_by_terms(observed.chains, model.scores(observed)[0], edge, observed.weights)


def _in_logs(observed: Observations, model: HiddenMarkovModels) -> tuple[float, Vector, Matrix, Tensor]:
    """`expected` of one model in the log domain; zeros where it cannot show the sequences."""
    s, (c, _, m) = model.n_states, model.emission.shape[1:]
    sums = _log_sums(observed, model) if np.isfinite(model.scores(observed).max(axis=2)).all() else None
    if sums is None or not np.isfinite(sums.log_partition).all():
        return -np.inf, np.zeros(s), np.zeros((s, s)), np.zeros((c, s, m))
    data = observed.arranged()
    weights = np.ones(observed.chains.n_chains) if observed.weights is None else observed.weights
    posterior = np.ascontiguousarray(sums.node.T) * weights[observed.chains.chain]
    seen = _seen(data, posterior[None], m)[0]
    return float(weights @ sums.log_partition), posterior[:, data.first].sum(axis=1), sums.edge, seen


def maximised(models: HiddenMarkovModels, found: Expected) -> HiddenMarkovModels:
    """The M step: expected counts divided by the sums of their rows. What has probability 0 in ``models`` keeps it."""
    return HiddenMarkovModels(
        _shares(found.first, models.initial),
        _shares(found.pairs, models.transition),
        _shares(found.seen, models.emission),
    )


def _shares(counts: Tensor, otherwise: Tensor) -> Tensor:
    """Rows divided by their sums; those of ``otherwise`` where the sums are nearly 0."""
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(total > UNVISITED, counts / np.maximum(total, UNVISITED), otherwise)


@dataclass(frozen=True, eq=False)
class Trained:
    """The result of training.

    models : R models. log_likelihood (R,) : L of each, none of them proved to be the greatest.
    trace (n + 1, R) : L, which never falls, at the start and after each iteration. A model that has stopped keeps its
    last value.
    iterations (R,) : of each model. converged (R,) : whether it stopped by ``tol``, not by ``max_iterations``.
    """

    models: HiddenMarkovModels
    log_likelihood: Vector
    trace: Matrix
    iterations: Index
    converged: Flags

    @property
    def best(self) -> HiddenMarkovModels:
        """The model of greatest likelihood; the first of several."""
        return self.models.some([int(self.log_likelihood.argmax())])


def baum_welch(
    observed: Observations, start: HiddenMarkovModels, *, tol: float = 1e-6, max_iterations: int = 1000
) -> Trained:
    """Iterate from every model of ``start`` until L rises by less than ``tol`` nats a position. ValueError if the
    models have other channels or symbols, or one of them gives the sequences probability 0.

    Probabilities that are 0 in ``start`` are forbidden, and stay 0: transitions that only go from left to right, for
    example.
    """
    if not isinstance(observed, Observations):
        refuse("observed", observed, "Observations")
    tol = number("tol", tol, least=0)
    limit = whole("max_iterations", max_iterations, least=0)
    enough = tol * observed.weight
    tables = [table.copy() for table in (start.initial, start.transition, start.emission)]
    models = HiddenMarkovModels(*tables)
    room = room_for(observed, models)
    found = expected(observed, models, room)
    if not np.isfinite(found.log_likelihood).all():
        r = int(np.argmin(np.isfinite(found.log_likelihood)))
        raise sentence(f"start gives the sequences probability 0 by its model {r}, wanted a positive probability")
    trace = [found.log_likelihood]
    running, iterations = np.arange(models.n_models), np.zeros(models.n_models, dtype=np.intp)
    while len(running) and len(trace) <= limit:
        deadline.check()
        updated = maximised(models.some(running), found)
        for table, new in zip(tables, (updated.initial, updated.transition, updated.emission)):
            table[running] = new
        found = expected(observed, updated, room[:, : len(running)])
        value = trace[-1].copy()
        value[running] = found.log_likelihood
        iterations[running] += 1
        goes_on = np.abs(value - trace[-1])[running] > enough
        running = running[goes_on]
        found = Expected(*(part[goes_on] for part in found))
        trace.append(value)
    converged = np.ones(models.n_models, dtype=bool)
    converged[running] = False
    return Trained(models, trace[-1], np.array(trace), iterations, converged)
