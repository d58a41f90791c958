"""Hidden Markov models whose sequences lie in files, by margin: sums over the sequences of each file.

`CountsInFiles` stands where a problem has the counts of its sequences otherwise. To those who ask it is the feature map
of a single example, whose weight W is the sum of all weights, and whose scores, slacks and counts are the means of
theirs: so w_k times each of these is the sum over all sequences. A dual point has one share of each Gibbs distribution.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import permutations
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct.arrays import Index, Labels, Matrix, Vector
from convexstruct.core.mixtures import Mixture
from convexstruct.families.generative_margin.distributions import default_c
from convexstruct.families.generative_margin.member import Member, combined, member, ruled_out
from convexstruct.features.counts.bounds import excess, gained, shared_columns
from convexstruct.features.counts.counts import Examples, Expected
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.unlabelled import unlabelled
from convexstruct.features.example_files import KEPT_BYTES, SAMPLED, InFiles, Stored, read_files, refuse_all
from convexstruct.graphs import TableLayout, chains
from convexstruct.inference.shards import Shards, Workers, in_files
from convexstruct.losses import Costs, cost_matrix
from convexstruct.rounding import Rounded, RoundedArray, dot
from convexstruct.validation.arrays import frozen


class FiledCounts(InFiles):
    """In place of the `HMMCounts` of sequences in files: labels are the true states."""

    needs: ClassVar[Collection[str]] = ("labels", "symbols")
    alike: ClassVar[Collection[str]] = ("loss_table", "n_channels", "n_states", "n_symbols", "tables")

    @staticmethod
    def made(stored: Stored) -> HMMCounts:
        """With the loss of Hamming."""
        layout = chains(np.diff(stored.start))
        states, symbols = (frozen(codes[layout.packed]) for codes in (stored.labels, stored.symbols))
        s, m = stored.sizes["labels"], stored.sizes["symbols"]
        none = np.zeros(0, dtype=np.intp)
        return HMMCounts(s, m, layout, symbols, states, cost_matrix("hamming", s), states, none, stored.weights)

    @staticmethod
    def sampled(lengths: Index) -> Index:
        """The first: they stand for all in a pilot run, and so have the lengths of all."""
        return np.arange(min(len(lengths), SAMPLED))


def from_files(
    cls: Any,
    paths: Any,
    *,
    eta: float,
    c: ArrayLike | dict[str, ArrayLike] | None = None,
    loss: Costs = "hamming",
    memory: int = KEPT_BYTES,
) -> Any:
    """Hidden Markov models of sequences in files (`convexstruct.features.example_files`): symbols, and labels, the true
    states, all of them hidden. `EntropicProximal` solves it; its state is of the size of theta.

    Parameters
    ----------
    paths, memory : as `ConditionalRandomField.from_files` takes them; what is wrong with files is said as there.
    eta, c : as `GenerativeMargin.hmm` takes them. loss : "hamming", "ring", a cost matrix (S, S) cost[true, predicted],
        or a function (true, predicted) -> cost.

    Raises
    ------
    ValueError
        If an argument is malformed; if a file is missing, damaged, changed, or holds what it must not.
    """
    filed = read_files(paths, memory, FiledCounts)
    filed = replace(filed, sample=replace(filed.sample, loss_table=cost_matrix(loss, filed.n_states)))
    return cls(filed, default_c(c, filed.tables), eta)


@dataclass(frozen=True, eq=False)
class CountsOfFile:
    """The counts of a file's sequences, and their sums."""

    features: HMMCounts

    @classmethod
    def made(cls, loss_table: Matrix, features: HMMCounts, _: Vector) -> CountsOfFile:
        """Of a file's sequences, whose weights they have, with a loss for each true state."""
        return cls(replace(features, loss_table=loss_table))

    @cached_property
    def examples(self) -> Examples:
        return self.features.examples

    def constants(self) -> tuple[Vector, Vector]:
        """The sums of w_k, of the losses at most (without w_k), and of the nodes; and sum_k w_k counts_k(s*)."""
        sums = (self.examples.weights.sum(), self.examples.max_loss.sum(), len(self.examples.truth))
        return np.array(sums, dtype=np.float64), self.features.counts(self.examples.truth)

    def expected(self, theta: Vector, loss_weight: float) -> tuple[float, Vector, float]:
        """sum_k w_k of ln Z_k, of the expected counts, and of the expected loss."""
        found = self.features.expected(theta, loss_weight)
        return float(self.examples.weights @ found.log_partition), found.counts, found.loss

    def violated(self, theta: Vector) -> tuple[float, Vector, float]:
        """sum_k w_k of the slacks, and of the counts and losses of labellings that attain them."""
        with np.errstate(invalid="ignore", over="ignore"):
            best, labels = self.features.best(theta, 1.0)
            slack = best - self.features.counts_each(self.examples.truth) @ theta
        slack = np.where(np.isnan(slack), np.inf, np.maximum(slack, 0.0))
        weights = self.examples.weights
        return float(weights @ slack), self.features.counts(labels), float(weights @ self.features.loss(labels))

    def excess(self, theta: Vector) -> Rounded:
        """sum_k w_k of `convexstruct.features.counts.bounds.excess`."""
        return dot(self.examples.weights, excess(self.features, theta))

    def combined(self, mixture: Mixture) -> tuple[RoundedArray, Rounded]:
        """(mu, omega) of these sequences over eta, with their errors."""
        shares = np.repeat(mixture.gibbs_shares, len(self.examples), axis=1)
        labels, none = np.zeros((0, len(self.examples.truth)), dtype=np.int64), np.zeros((0, len(self.examples)))
        mixture = Mixture(labels, none, mixture.gibbs, mixture.gibbs_loss, shares)
        return combined(self.features, self.features.counts_each(self.examples.truth), mixture)[:2]

    def gained(self, c: Vector) -> tuple[float, dict[tuple[int, int], Index]]:
        """The least w_k; and `convexstruct.features.counts.bounds.gained`, each row once, of any two entries (old, new)
        of a column in which all of c is 0."""
        pairs = [pair for column in ruled_out(self.features, c) for pair in permutations(column.tolist(), 2)]
        rows = {pair: np.unique(np.concatenate(list(gained(self.features, *pair))), axis=0) for pair in pairs}
        return float(self.examples.weights.min()), rows


@dataclass(frozen=True, eq=False)
class CountsInFiles:
    """The counts of ``filed`` sequences by sums of the size of theta; see the head of the module. c (d,) : that of the
    problem."""

    filed: FiledCounts
    c: Vector
    workers: Workers | None

    @cached_property
    def shards(self) -> Shards:
        return in_files(self.filed, self.workers, partial(CountsOfFile.made, self.filed.loss_table))

    @cached_property
    def constants(self) -> tuple[Vector, Vector]:
        """`CountsOfFile.constants` of all files."""
        return self.shards.total_each(CountsOfFile.constants, [()])

    @property
    def tables(self) -> TableLayout:
        tables: TableLayout = self.filed.tables
        return tables

    @cached_property
    def examples(self) -> Examples:
        """The single example: of weight W, with one hidden variable, which costs what a node costs in the mean."""
        (weight, most, nodes), one = self.constants[0], np.zeros(1, dtype=np.intp)
        cards = np.array([self.filed.n_states])
        return Examples(np.array([weight]), one, one, cards, np.ones(1, dtype=bool), np.array([most / nodes]))

    @cached_property
    def sample(self) -> HMMCounts:
        """Some of the sequences, with the weight of all: for metrics, and pilot runs."""
        sample: HMMCounts = self.filed.sample
        more = float(self.examples.weights[0] / sample.weights.sum())
        return replace(sample, weights=more * sample.weights)

    def _truth(self, labels: Labels, what: str) -> Vector:
        if labels is not self.examples.truth:
            refuse_all(what)
        return self.constants[1]

    def counts(self, labels: Labels, share: Vector | None = None) -> Vector:
        """Those of the truth alone."""
        return self._truth(labels, "counts")

    def counts_each(self, labels: Labels) -> sp.csr_array:
        """Those of the truth alone, in the mean."""
        return sp.csr_array(self._truth(labels, "counts_each")[None] / self.examples.weights[0])

    def loss(self, labels: Labels) -> Vector:
        return 0.0 * self._truth(labels, "loss")[:1]

    def best(self, theta: Vector, loss_weight: float = 1.0) -> tuple[Vector, Labels]:
        refuse_all("best")

    def expected(self, theta: Vector, loss_weight: float = 1.0, share: Vector | None = None) -> Expected:
        logs, counts, loss = self.shards.total_each(CountsOfFile.expected, [(theta, loss_weight)])
        return Expected(logs / self.examples.weights, counts, loss)

    def violated(self, theta: Vector) -> tuple[Vector, Vector, float]:
        """(slack (1,), counts (d,), loss) of labellings that attain the slack; the latter times w."""
        slack, counts, loss = self.shards.total_each(CountsOfFile.violated, [(theta,)])
        return slack / self.examples.weights, counts, loss

    @cached_property
    def gained(self) -> list[tuple[float, dict[tuple[int, int], Index]]]:
        """`CountsOfFile.gained` of each file."""
        return self.shards.map("gained", self.c)

    def member(self, eta: float, mixture: Mixture) -> Member:
        """The member of script-D that Gibbs distributions define: near the sum of those of the files, for where c rules
        a column out mu is 0 in the sum alone."""
        if len(mixture.labels):
            refuse_all("labels")
        rise, omega = self.shards.total_each(CountsOfFile.combined, [(mixture,)])
        lightest = min(least for least, _ in self.gained) if ruled_out(self, self.c) else 1.0
        return member(self, self.c, eta, rise, omega, np.zeros(0), lightest)


def most_violated(problem: Any, theta: Vector) -> tuple[Vector, Labels, Vector, float]:
    """(slack (K,), labels (P,), sum_k w_k counts_k (d,), sum_k w_k loss_k) of labellings that attain the slacks, in the
    map of the rows (3) of a `GenerativeMargin`; of sequences in files without the labels."""
    if isinstance(problem.counts, CountsInFiles):
        slack, counts, loss = problem.counts.violated(theta)
        return slack, problem.examples.truth[:0], counts, loss
    slack, labels = problem.violated(theta)
    slack = np.where(np.isnan(slack), np.inf, np.maximum(slack, 0.0))
    return slack, labels, problem.margins.counts(labels), float(problem.examples.weights @ problem.counts.loss(labels))


def member_of(problem: Any, mixture: Mixture, mass: Vector | None, steepest: float) -> Member:
    """The `Member` of script-D of a `GenerativeMargin` that a mixture defines; ``mass`` and ``steepest`` as there."""
    if isinstance(problem.counts, CountsInFiles):
        return problem.counts.member(problem.eta, mixture)
    found = combined(problem.margins, problem.truth_each, mixture, mass, steepest)
    return member(problem.margins, problem.c, problem.eta, *found, float(problem.examples.weights.min()))


@excess.register
def _(features: CountsInFiles, theta: Vector) -> RoundedArray:
    found: Rounded = features.shards.total_each(CountsOfFile.excess, [(theta,)]) / float(features.examples.weights[0])
    if not math.isfinite(found):
        return RoundedArray(np.full(1, np.inf))
    return RoundedArray(np.array([float(found)]), np.array([found.allowance]))


@shared_columns.register
def _(features: CountsInFiles) -> Any:
    return shared_columns(features.filed.sample)


@gained.register
def _(features: CountsInFiles, old: int, new: int) -> Iterator[Index]:
    yield np.concatenate([rows[old, new] for _, rows in features.gained])


@unlabelled.register
def _(features: FiledCounts, examples: Any) -> Any:
    return unlabelled(features.sample, examples)
