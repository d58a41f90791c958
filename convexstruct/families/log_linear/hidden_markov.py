r"""Hidden Markov models by maximum likelihood: a log-linear model with hidden states, locally normalised.

    P = - sum_k omega_k ln p(x_k)

    p(x) = sum_y initial[y_1] prod_{t > 1} transition[y_{t-1}, y_t] prod_t emission[y_t, x_t]

is minimised over tables whose rows are distributions. P is not convex. Baum-Welch never raises P and ends at a
stationary point; nothing else is claimed of that point. What is 0 at its start stays 0, as in a model from left to
right.

**Lower bound.** No distribution gives sequences a greater likelihood than their own frequencies (Gibbs' inequality),
and p is a distribution over the sequences of each length. So

    P >= sum over lengths of W H(frequencies of the sequences of that length),

where W is the weight of the sequences of that length. The bound is the optimum where some model has exactly these
frequencies, as for sequences of length one, and far below it otherwise. Sequences are told apart by a hash of 64 bits:
two that share one count as the same, which lowers the bound.

**Rounding.** ln p is computed in logarithms with the error bound of `.entropy`, where each score is a sum of one or two
logarithms. Rows are read as if divided by their exact sums, which are 1 up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convexstruct.arrays import OPTIONAL, Index, Labels, Point, Vector
from convexstruct.brief import brief
from convexstruct.features.example_files import KEPT_BYTES, read_files
from convexstruct.graphs import starts
from convexstruct.inference.baum_welch import Expected, expected, room_for
from convexstruct.inference.hidden_markov import FiledObservations, HiddenMarkovModels, Observations
from convexstruct.inference.shards import Shards, Workers, in_files, in_shards, joined
from convexstruct.oracles.chain.chain import sum_product
from convexstruct.rounding import FUNCTION, UNIT, Rounded, RoundedArray, gamma, log, summed
from convexstruct.validation.arguments import mapping, sentence, whole
from convexstruct.validation.arrays import predictive, real

#: The tables of a point.
TABLES = ("initial", "transition", "emission")


@dataclass(frozen=True, eq=False)
class HiddenMarkov:
    """Sequences to be explained by a hidden Markov model; made by `HiddenMarkov.read`.

    observed : the sequences, their symbols and weights. n_states : S. workers : where the sequences are worked on, if
    not here.
    """

    observed: Observations
    n_states: int
    workers: Workers | None = field(default=None, repr=False, kw_only=True, metadata=OPTIONAL)
    family: ClassVar[str] = "log_linear"

    __repr__ = brief

    @classmethod
    def read(
        cls, symbols: Sequence[ArrayLike], n_states: int, n_symbols: int, *, weights: ArrayLike | None = None
    ) -> HiddenMarkov:
        """Validate the data.

        Parameters
        ----------
        symbols : a list of arrays (T_k,) of whole numbers 0 .. M - 1. n_states, n_symbols : S and M.
        weights : (N,) omega_k, 1 by default.

        Raises
        ------
        ValueError
            If an argument is malformed or out of range.
        """
        observed = Observations.read(symbols, n_symbols, weights)
        size = whole("n_states", n_states, least=1)
        if observed.symbols.shape[1] != 1:
            raise sentence(f"symbols show {observed.symbols.shape[1]} channels, wanted one symbol a step")
        return cls(observed, size)

    @classmethod
    def from_files(cls, paths: Any, n_states: int, *, memory: int = KEPT_BYTES) -> HiddenMarkov:
        """Sequences of symbols in files (`convexstruct.features.example_files`), each read by who works on it.

        Parameters
        ----------
        paths, memory : as `ConditionalRandomField.from_files` takes them. n_states : as `read` does.

        Raises
        ------
        ValueError
            As `ConditionalRandomField.from_files`, but for the penalty.
        """
        observed: Any = read_files(paths, memory, FiledObservations)
        return cls(observed, whole("n_states", n_states, least=1))

    # -- sizes ---------------------------------------------------------------------------------------------------------

    @cached_property
    def weight(self) -> float:
        """sum_k omega_k T_k, the number of observed positions with their weights."""
        if isinstance(self.observed, FiledObservations) and self.shards is not None:
            return self.shards.total(self.positions)
        return self.positions()

    def positions(self) -> float:
        """`weight`, computed."""
        return self.observed.weight

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Those of the tables."""
        s = self.n_states
        return dict(zip(TABLES, ((s,), (s, s), (s, self.observed.n_symbols))))

    def trivial(self) -> tuple[Point, Point]:
        """Uniform rows; the lower bound needs no witness."""
        return {name: np.full(shape, 1.0 / shape[-1]) for name, shape in self.shapes.items()}, {}

    @cached_property
    def trivial_value(self) -> float:
        """P at uniform rows; 1 where it is 0."""
        return float(self.primal(self.trivial()[0])) or 1.0

    # -- points --------------------------------------------------------------------------------------------------------

    def as_point(self, value: Any) -> Point:
        """Read a mapping with initial (S,), transition (S, S) and emission (S, M)."""
        named = mapping("point", value, set(TABLES))
        return {n: real(n, named[n], shape, finite=False, keep=False) for n, shape in self.shapes.items()}

    def models(self, point: Point) -> HiddenMarkovModels:
        """The tables as one model."""
        initial, transition, emission = (np.asarray(point[name], dtype=np.float64) for name in TABLES)
        return HiddenMarkovModels(initial[None], transition[None], emission[None, None])

    @staticmethod
    def point_of(models: HiddenMarkovModels, r: int = 0) -> Point:
        """The tables of model ``r``."""
        return dict(zip(TABLES, (models.initial[r], models.transition[r], models.emission[r, 0])))

    def residuals(self, point: Point) -> Mapping[str, float]:
        """How far the rows are from distributions."""
        if not all(np.isfinite(point[name]).all() for name in TABLES):
            return {"rows off 1": math.inf}
        off = max(float(np.abs(point[name].sum(axis=-1) - 1.0).max()) for name in TABLES)
        off = off if off > gamma(max(self.n_states, self.observed.n_symbols) + 4) else 0.0
        return {"rows off 1": off, "below 0": max(0.0, *(-float(point[name].min()) for name in TABLES))}

    def repair(self, point: Point) -> Point:
        """Rows with negative entries set to 0, divided by their sums; uniform where all are 0."""
        repaired = {}
        for name in TABLES:
            kept = np.where(np.isfinite(point[name]), np.maximum(point[name], 0.0), 0.0)
            total = kept.sum(axis=-1, keepdims=True)
            repaired[name] = np.where(total > 0, kept / np.where(total > 0, total, 1.0), 1.0 / kept.shape[-1])
        return repaired

    # -- what solvers ask ----------------------------------------------------------------------------------------------

    @cached_property
    def shards(self) -> Shards | None:
        if isinstance(self.observed, FiledObservations):
            bare = replace(self, observed=None, workers=None)  # type: ignore[arg-type]
            return in_files(self.observed, self.workers, bare.of_file)
        return in_shards(self.workers, self.observed.chains.lengths, self.some)

    def some(self, sequences: Index) -> HiddenMarkov:
        """The problem of neighbouring sequences."""
        return self.of_file(self.observed.some(slice(sequences[0], sequences[-1] + 1)))

    def of_file(self, observed: Observations, weights: Vector | None = None) -> HiddenMarkov:
        """The problem of other sequences; their weights are those of ``observed``."""
        return replace(self, observed=observed, workers=None)

    def expected(self, models: HiddenMarkovModels) -> Expected:
        """The expected counts of the sequences under each model."""
        if self.shards is not None:
            return Expected(*self.shards.total(self.expected, models))
        return expected(self.observed, models)

    def expectation(self, models: HiddenMarkovModels) -> Callable[[HiddenMarkovModels], Expected]:
        """`expected` for as many models as ``models`` are, with arrays that are allocated once."""
        if self.shards is not None:
            return self.expected
        room = room_for(self.observed, models)
        return lambda others: expected(self.observed, others, room)

    # -- bounds --------------------------------------------------------------------------------------------------------

    def primal(self, point: Point) -> Rounded:
        """P with its allowance; inf where a sequence has probability 0."""
        if max(self.residuals(point).values()) == math.inf:
            return Rounded(math.inf)
        with np.errstate(all="ignore"):
            value = self.misfit(self.models(point))
            if not math.isfinite(value):
                return Rounded(math.inf)
            # rows are read as if divided by their exact sums: the relative error of each probability that is used
            rows = gamma(max(self.n_states, self.observed.n_symbols) + 4) + self.residuals(point)["rows off 1"]
            return Rounded.of(value, value.allowance, 4.0 * rows * self.weight)

    def misfit(self, models: HiddenMarkovModels) -> Rounded:
        """-sum_n omega_n ln P(x_n) under the one model, with its allowance; inf where a sequence has probability 0."""
        if self.shards is not None:
            return self.shards.total(self.misfit, models)
        laid = self.observed.chains
        weights = np.ones(laid.n_chains) if self.observed.weights is None else self.observed.weights
        with np.errstate(all="ignore"):
            node, edge = models.scores(self.observed)[0], np.log(models.transition[0])
            if not np.isfinite(expected(self.observed, models).log_likelihood[0]):
                return Rounded(math.inf)
            scores = [
                RoundedArray(x, (2 * FUNCTION + 4) * UNIT * np.abs(np.where(np.isfinite(x), x, 0.0)))
                for x in (node, edge)
            ]
            value: Rounded = summed(sum_product(laid, node, edge).rounded(*scores) * -weights[laid.chain])
        return value

    def dual(self, dual_point: Point) -> Rounded:
        """The lower bound above, which needs no dual point."""
        self.dual_residuals(dual_point)
        return self.frequencies

    @cached_property
    def frequencies(self) -> Rounded:
        """Entropy of the sequences' own frequencies, length by length."""
        if isinstance(self.observed, FiledObservations) and self.shards is not None:
            different = _merged(*joined(self.shards.map("different")))
            n = self.observed.n_examples
        else:
            different, n = self.different(), self.observed.chains.n_chains
        lengths, _, weights = different
        value = Rounded(0.0)
        for group in np.split(weights, np.flatnonzero(np.diff(lengths)) + 1):
            counts = RoundedArray(group, gamma(n) * group)  # sums of weights
            value = value + summed(counts * log(summed(counts) / counts))
        return value

    def different(self) -> tuple[Index, NDArray[np.uint64], Vector]:
        """Of the different sequences, by length: lengths, hashes, and the weights of all that are the same."""
        layout = self.observed.chains
        factors = np.random.default_rng(0).integers(2**64, size=layout.n_steps, dtype=np.uint64)
        start = starts(layout.lengths)
        each = self.observed.symbols[layout.flat, 0].astype(np.uint64) + np.uint64(1)
        each *= factors[np.arange(len(each)) - np.repeat(start[:-1], layout.lengths)]  # modulo 2^64, as their sums are
        weights = np.ones(layout.n_chains) if self.observed.weights is None else self.observed.weights
        return _merged(layout.lengths, np.add.reduceat(each, start[:-1]), weights)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """Empty: there are no dual points."""
        mapping("dual_point", dual_point, ())
        return {}

    # -- what else -----------------------------------------------------------------------------------------------------

    def stationarity(self, point: Any) -> float:
        """`slopes` of one point; 0 where it is stationary."""
        models = self.models(self.as_point(point))
        return float(self.slopes(models, self.expected(models))[0])

    def slopes(self, models: HiddenMarkovModels, found: Expected) -> Vector:
        """(R,) the largest entry of P's gradient in the logits of each model's rows, in nats per observed position.

        A row is p = softmax(z), and dP/dz = W p - c (Baum-Welch's counts; the gradient of ln p is that of its
        expectation under the posterior), where c are the row's expected counts, given as ``found``, and W is their sum.
        Probabilities that are 0 have no logit, and no counts.
        """
        largest = np.zeros(models.n_models)
        tables = (models.initial, models.transition, models.emission)
        for counts, table in zip((found.first, found.pairs, found.seen), tables):
            away = np.abs(counts.sum(axis=-1, keepdims=True) * table - counts)
            largest = np.maximum(largest, away.reshape(len(table), -1).max(axis=1))
        return np.asarray(largest / self.weight)

    def predict(self, point: Any, examples: Sequence[ArrayLike] | None = None) -> list[Labels]:
        """The most probable states of each sequence; of ``symbols`` as `read` takes them, the problem's by default."""
        other = self.observed
        if examples is not None:
            other = Observations.read(examples, self.observed.n_symbols)
        return other.chains.split(self.models(predictive(self.as_point(point))).decode(other)[0])


def _merged(lengths: Index, hashes: NDArray[np.uint64], weights: Vector) -> tuple[Index, NDArray[np.uint64], Vector]:
    """Each pair (length, hash) once, in order, with the sum of its weights."""
    order = np.lexsort((hashes, lengths))
    lengths, hashes = lengths[order], hashes[order]
    new = np.append(True, (np.diff(lengths) != 0) | (hashes[1:] != hashes[:-1]))
    return lengths[new], hashes[new], np.add.reduceat(weights[order], np.flatnonzero(new))
