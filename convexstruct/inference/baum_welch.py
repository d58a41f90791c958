r"""Baum-Welch: maximum likelihood of hidden Markov models by expectation-maximisation, from many starts at once.

    L = sum_k ln sum_y initial[y_1] prod_{t > 1} transition[y_{t-1}, y_t] prod_t prod_c emission[c, y_t, x_{ktc}]

over the sequences x_k, each step t of which shows one symbol on each of C channels. An iteration computes the
posteriors of the states and of their pairs by forward-backward (E), and divides the expected counts of each row of each
table by their sum (M); L never falls (L. Baum, T. Petrie, G. Soules, N. Weiss 1970). L is not concave: what is reached
depends on the start. Paper 3 compares with it under the name EM. Here a transition is [previous, current]; paper 3 has
the current state first.

R models are trained side by side, each from its own start, in arrays whose first axis is the model. Messages are
rescaled at each step to sum to 1; a state whose message is below 1e-308 of the others' is dropped there, and a model
whose messages vanish altogether is summed again in the log domain (`convexstruct.oracles.chain.chain`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import Flags, Index, Labels, Matrix, Tensor, Vector
from convexstruct.graphs import Chains, chains
from convexstruct.oracles.chain import chain
from convexstruct.tolerances import POSTERIOR, SUM_TO_ONE
from convexstruct.validation.arguments import number, refuse, sentence, sequence, sized, whole
from convexstruct.validation.arrays import frozen, raw, real, wholes

#: A row of a table whose expected counts sum to less is kept as it is: its state is not visited.
UNVISITED = 1e-290


@dataclass(frozen=True, eq=False)
class Observations:
    """Sequences of symbols; made by `Observations.read`.

    chains : the layout. symbols (P, C) : of each channel at each packed position. n_symbols : M, of every channel.
    """

    chains: Chains
    symbols: Labels
    n_symbols: int

    @classmethod
    def read(cls, symbols: Sequence[ArrayLike], n_symbols: int) -> Observations:
        """symbols : a list of arrays (T_k,), or (T_k, C) where a step shows several; whole numbers 0 .. M - 1.

        Raises
        ------
        ValueError
            If there is no sequence, one is empty, channels differ in number, or a symbol is out of range.
        """
        given = sequence("symbols", symbols, "a list of at least one sequence", least=1)
        most = whole("n_symbols", n_symbols, least=1) - 1
        shape: tuple[int | str, ...] = ("length",)
        if raw("symbols[0]", given[0]).ndim == 2:
            shape = ("length", wholes("symbols[0]", given[0], ("length", "channels")).shape[1])
        arrays = [wholes(f"symbols[{k}]", one, shape, least=0, most=most) for k, one in enumerate(given)]
        layout = chains([len(one) for one in arrays])
        seen = np.concatenate(arrays).reshape(layout.n_positions, -1)
        return cls(layout, frozen(seen[layout.packed]), most + 1)

    @cached_property
    def gather(self) -> sp.csr_array:
        """(C M, P): sums packed positions by channel and symbol."""
        n, channels = self.symbols.shape
        row = (self.symbols + self.n_symbols * np.arange(channels)).T.ravel()
        places = (np.ones(n * channels), (row, np.tile(np.arange(n), channels)))
        return sp.csr_array(sp.coo_array(places, shape=(channels * self.n_symbols, n)))


@dataclass(frozen=True, eq=False)
class HiddenMarkovModels:
    """R hidden Markov models of S states, C channels and M symbols; probabilities.

    initial (R, S). transition (R, S, S) [previous, current]. emission (R, C, S, M).
    """

    initial: Matrix
    transition: Tensor
    emission: Tensor

    @classmethod
    def read(cls, initial: Any, transition: Any, emission: Any) -> HiddenMarkovModels:
        """One model: initial (S,), transition (S, S), emission (S, M), or (C, S, M) of several channels.

        Raises
        ------
        ValueError
            If a shape does not fit, or a row is no distribution.
        """
        first = real("initial", initial, ("states",), what="probabilities", least=0)
        s = len(first)
        pairs = real("transition", transition, (s, s), what="probabilities", least=0)
        shapes = ((s, "symbols"), ("channels", s, "symbols"))
        seen = real("emission", emission, *shapes, what="probabilities", least=0)
        for name, table in (("initial", first), ("transition", pairs), ("emission", seen)):
            away = float(np.abs(table.sum(axis=-1) - 1.0).max())
            if away > SUM_TO_ONE:
                raise sentence(f"{name} has a row whose sum is off 1 by {away:g}, wanted rows that sum to 1")
        return cls(first[None], pairs[None], seen.reshape(1, -1, s, seen.shape[-1]))

    @property
    def n_models(self) -> int:
        return len(self.initial)

    @property
    def n_states(self) -> int:
        return int(self.initial.shape[1])

    def some(self, which: Index | list[int]) -> HiddenMarkovModels:
        """Some of the models, in the order given."""
        return HiddenMarkovModels(self.initial[which], self.transition[which], self.emission[which])

    def scores(self, observed: Observations) -> Tensor:
        """Log probability of the symbols of each position given its state, plus, at the first position of a sequence,
        that of the initial state; (R, P, S), packed."""
        c, s, m = self.emission.shape[1:]
        seen = observed.symbols
        if (c, m) != (seen.shape[1], observed.n_symbols):
            raise sentence(
                f"observed has {seen.shape[1]} channels of {observed.n_symbols} symbols, wanted {c} of {m} as the model"
            )
        sized("the number of models", self.n_models, self.n_models * len(seen) * s)
        with np.errstate(divide="ignore"):
            logs = np.log(self.emission).transpose(1, 0, 3, 2)  # (C, R, M, S)
            node: Tensor = logs[0][:, seen[:, 0]]
            for table, column in zip(logs[1:], seen.T[1:]):
                node += table[:, column]
            node[:, : observed.chains.n_chains] += np.log(self.initial)[:, None]
        return node

    def decode(self, observed: Observations) -> list[Labels]:
        """The most probable states (Viterbi), one array (P,) a model, sequence after sequence."""
        layout = observed.chains
        with np.errstate(divide="ignore"):
            edges = np.log(self.transition)
        each = zip(self.scores(observed), edges)
        return [chain.viterbi(layout, node, edge)[1][layout.flat] for node, edge in each]


class Expected(NamedTuple):
    """log_likelihood (R,): L. posterior (R, P, S): of the states, packed. pairs (R, S, S): expected transitions."""

    log_likelihood: Vector
    posterior: Tensor
    pairs: Tensor


def expected(observed: Observations, models: HiddenMarkovModels) -> Expected:
    """The E step: forward-backward of every model over every sequence; L = -inf where a model gives them probability
    0."""
    layout, node = observed.chains, models.scores(observed)
    top = node.max(axis=2)
    with np.errstate(invalid="ignore", divide="ignore", under="ignore", over="ignore"):
        potential = np.exp(node - top[:, :, None])
        alpha, beta, scale = np.empty_like(node), np.ones_like(node), np.empty_like(top)
        for t in range(layout.n_steps):
            rows = layout.rows(t)
            here = potential[:, rows]
            if t:
                before = int(layout.start[t - 1])
                here = here * (alpha[:, before : before + int(layout.active[t])] @ models.transition)
            scale[:, rows] = here.sum(axis=2)
            alpha[:, rows] = here / scale[:, rows, None]
        message = potential / scale[:, :, None]
        back = models.transition.transpose(0, 2, 1)
        for t in range(layout.n_steps - 1, 0, -1):
            rows, before = layout.rows(t), int(layout.start[t - 1])
            message[:, rows] *= beta[:, rows]
            np.matmul(message[:, rows], back, out=beta[:, before : before + int(layout.active[t])])
        posterior = alpha * beta
        pairs = alpha[:, layout.previous].transpose(0, 2, 1) @ message[:, layout.later] * models.transition
        likelihood = (np.log(scale) + top).sum(axis=1)
        lost = ~(np.abs(posterior.sum(axis=2) - 1.0) <= POSTERIOR).all(axis=1) | ~np.isfinite(likelihood)
        for r in np.flatnonzero(lost):
            if not np.isfinite(top[r]).all():
                likelihood[r] = -np.inf
                continue
            sums = chain.sum_product(layout, node[r], np.log(models.transition[r]))
            likelihood[r], posterior[r], pairs[r] = sums.log_partition.sum(), sums.node, sums.edge
    return Expected(likelihood, posterior, pairs)


def maximised(
    observed: Observations, models: HiddenMarkovModels, found: Expected, smoothing: float = 0.0
) -> HiddenMarkovModels:
    """The M step: expected counts, ``smoothing`` added to each, divided by the sums of their rows."""
    r, p, s = found.posterior.shape
    c, m = models.emission.shape[1], observed.n_symbols
    first = found.posterior[:, : observed.chains.n_chains].sum(axis=1)
    seen = observed.gather @ found.posterior.transpose(1, 0, 2).reshape(p, r * s)
    emission = seen.reshape(c, m, r, s).transpose(2, 0, 3, 1)
    return HiddenMarkovModels(
        _shares(first + smoothing, models.initial),
        _shares(found.pairs + smoothing, models.transition),
        _shares(emission + smoothing, models.emission),
    )


def _shares(counts: Tensor, otherwise: Tensor) -> Tensor:
    """Rows divided by their sums; those of ``otherwise`` where the sums are nearly 0."""
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(total > UNVISITED, counts / np.maximum(total, UNVISITED), otherwise)


@dataclass(frozen=True, eq=False)
class Trained:
    """The result of training.

    models : R models. log_likelihood (R,) : L of each, none of them proved to be the greatest.
    trace (n + 1, R) : L at the start and after each iteration; a model that has stopped keeps its last value.
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


def random_models(
    n_models: int, n_states: int, n_symbols: int, seed: int = 0, n_channels: int = 1
) -> HiddenMarkovModels:
    """Starts: every row of every table uniform on the simplex.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    r, s = whole("n_models", n_models, least=1), whole("n_states", n_states, least=1)
    m, c = whole("n_symbols", n_symbols, least=1), whole("n_channels", n_channels, least=1)
    sized("n_models", r, r * s * max(s, c * m))
    rng = np.random.default_rng(whole("seed", seed, least=0))
    shapes = ((r, s), (r, s, s), (r, c, s, m))
    drawn = [np.maximum(rng.exponential(size=shape), np.finfo(float).tiny) for shape in shapes]
    return HiddenMarkovModels(*(each / each.sum(axis=-1, keepdims=True) for each in drawn))


def baum_welch(
    observed: Observations,
    start: HiddenMarkovModels,
    *,
    tol: float = 1e-6,
    max_iterations: int = 1000,
    smoothing: float = 0.0,
) -> Trained:
    """Iterate from every model of ``start`` until L rises by less than ``tol`` nats a position.

    smoothing : added to every expected count; what never falls is then L + smoothing * (sum of the logarithms of all
    probabilities), which ``trace`` does not show.

    Raises
    ------
    ValueError
        If the models have other channels or symbols, or one of them gives the sequences probability 0.
    """
    if not isinstance(observed, Observations):
        refuse("observed", observed, "Observations")
    tol, smoothing = number("tol", tol, least=0), number("smoothing", smoothing, least=0)
    limit = whole("max_iterations", max_iterations, least=0)
    enough = tol * observed.chains.n_positions
    tables = [table.copy() for table in (start.initial, start.transition, start.emission)]
    models = HiddenMarkovModels(*tables)
    found = expected(observed, models)
    if not np.isfinite(found.log_likelihood).all():
        r = int(np.argmin(np.isfinite(found.log_likelihood)))
        raise sentence(f"start gives the sequences probability 0 by its model {r}, wanted a positive probability")
    trace = [found.log_likelihood]
    running, iterations = np.arange(models.n_models), np.zeros(models.n_models, dtype=np.intp)
    while len(running) and len(trace) <= limit:
        deadline.check()
        updated = maximised(observed, models.some(running), found, smoothing)
        for table, new in zip(tables, (updated.initial, updated.transition, updated.emission)):
            table[running] = new
        found = expected(observed, updated)
        likelihood = trace[-1].copy()
        likelihood[running] = found.log_likelihood
        iterations[running] += 1
        goes_on = np.abs(likelihood - trace[-1])[running] > enough
        running = running[goes_on]
        found = Expected(*(part[goes_on] for part in found))
        trace.append(likelihood)
    converged = np.ones(models.n_models, dtype=bool)
    converged[running] = False
    return Trained(models, trace[-1], np.array(trace), iterations, converged)
