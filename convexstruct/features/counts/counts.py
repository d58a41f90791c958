"""The interface of a joint feature map: its `Examples`, an `Oracle` over all labellings, and `Counts` of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct.arrays import Flags, Index, Labels, Vector
from convexstruct.graphs import TableLayout
from convexstruct.validation.arrays import real


@dataclass(frozen=True)
class Expected:
    """Sums under the Gibbs distributions q_k(s) proportional to e^score_k(s).

    log_partition (K,): ln sum_s e^score_k(s), per example.
    counts (d,): sum_k w_k E counts_k.
    loss: sum_k w_k E loss_k.
    """

    log_partition: Vector
    counts: Vector
    loss: float


@dataclass(frozen=True, eq=False)
class Examples:
    """K examples with P hidden variables in all; ``len`` is K.

    weights (K,) : w_k > 0.
    truth (P,) : the true labelling.
    example (P,) : the example of each hidden variable, non-decreasing.
    cards (P,) : the number of labels of each hidden variable.
    free (P,) : False where a variable of the labelling is observed after all and must stay at the truth.
    max_loss (K,) : max_s loss_k(s).
    """

    weights: Vector
    truth: Labels
    example: Index
    cards: Index
    free: Flags
    max_loss: Vector

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def start(self) -> Index:
        """Where each example begins in a labelling, and P; shape (K + 1,)."""
        return np.searchsorted(self.example, np.arange(len(self) + 1))


class Oracle(Protocol):
    """Maximum and sums over all labellings s of score_k(s) = theta' counts_k(s) + loss_weight * loss_k(s); theta is
    (d,)."""

    def best(self, theta: Vector, loss_weight: float = 1.0) -> tuple[Vector, Labels]:
        """(max_s score_k(s) for each k (K,), a labelling that attains them (P,))."""
        ...

    def expected(self, theta: Vector, loss_weight: float = 1.0, share: Vector | None = None) -> Expected:
        """Log partition functions, expected counts and loss under e^score; share (K,) multiplies w, where given."""
        ...


class Counts(Oracle, Protocol):
    """A feature map: the examples, counts and losses of one labelling of them, and the oracle over all labellings."""

    @property
    def tables(self) -> TableLayout:
        """The layout of theta, of dimension d."""
        ...

    @property
    def examples(self) -> Examples: ...

    def counts(self, labels: Labels, share: Vector | None = None) -> Vector:
        """sum_k w_k share_k counts_k(labels); shape (d,)."""
        ...

    def counts_each(self, labels: Labels) -> sp.csr_array:
        """counts_k(labels) for each example, unweighted; sparse, shape (K, d)."""
        ...

    def loss(self, labels: Labels) -> Vector:
        """loss_k(labels) for each example, unweighted; shape (K,)."""
        ...


def example_weights(weights: ArrayLike | None, n_examples: int, C: float = 1.0) -> Vector:
    """Weights (K,) of the examples, 1 each by default; ValueError unless there is one positive number for each, whose
    product with C is no 0 in floating point."""
    if weights is None:
        return np.ones(n_examples)
    found = real("weights", weights, (n_examples,), positive=True, why="one weight an example")
    with np.errstate(over="ignore"):
        shares = C * found
    if not shares.all():
        raise ValueError(f"weights has {found.min():g}, which times C ({C:g}) underflows to 0, wanted larger ones")
    return found
