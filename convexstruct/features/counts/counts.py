"""What a problem asks of a joint feature map (`Counts`), and what it gets back (`Expected`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from convexstruct.arrays import Index, Labels, Vector
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


class Counts(Protocol):
    """What a problem asks of a feature map: K examples of weight w_k, d parameters, P hidden variables in all."""

    @property
    def tables(self) -> TableLayout: ...

    @property
    def n_examples(self) -> int: ...

    @property
    def n_hidden(self) -> int:
        """P, the length of a labelling."""
        ...

    @property
    def weights(self) -> Vector:
        """w_k > 0, shape (K,)."""
        ...

    @property
    def truth(self) -> Labels:
        """The true labelling, shape (P,)."""
        ...

    @property
    def example(self) -> Index:
        """The example of each hidden variable, shape (P,), non-decreasing."""
        ...

    @property
    def cards(self) -> Index:
        """The number of labels of each hidden variable, shape (P,)."""
        ...

    @property
    def free(self) -> NDArray[np.bool_]:
        """False where a variable in the labelling is observed after all and must stay at the truth; shape (P,)."""
        ...

    @property
    def max_loss(self) -> Vector:
        """max_s loss_k(s) for each example, shape (K,)."""
        ...

    def best(self, theta: Vector, loss_weight: float = 1.0) -> tuple[Vector, Labels]:
        """(max_s score_k(s) for each k (K,), a labelling that attains them (P,)). Ties: see `convexstruct.oracles`."""
        ...

    def expected(self, theta: Vector, loss_weight: float = 1.0) -> Expected:
        """Log partition functions, expected counts and loss under e^score."""
        ...

    def sample(self, theta: Vector, loss_weight: float, rng: np.random.Generator) -> Labels:
        """A labelling drawn from e^score, each example by itself."""
        ...

    def counts(self, labels: Labels, share: Vector | None = None) -> Vector:
        """sum_k w_k share_k counts_k(labels); shape (d,)."""
        ...

    def counts_each(self, labels: Labels) -> sp.csr_array:
        """counts_k(labels) for each example, unweighted; sparse, shape (K, d)."""
        ...

    def loss(self, labels: Labels) -> Vector:
        """loss_k(labels) for each example, unweighted; shape (K,)."""
        ...


def example_weights(weights: ArrayLike | None, n_examples: int) -> Vector:
    """Validate positive weights of the examples; None means one each."""
    if weights is None:
        return np.ones(n_examples)
    return real("weights", weights, (n_examples,), positive=True, why="one weight an example")
