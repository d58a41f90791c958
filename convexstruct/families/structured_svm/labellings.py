"""Labelled examples of any kind, given by two functions: a joint feature map and a loss.

A labelling is an array of whole numbers of at least 0: tags, the ranks of documents, a permutation, the items chosen,
the head of each word. The labellings of an example are the arrays of the length of its true one for which
``joint_feature`` does not raise ValueError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Flags, Index, Labels, Matrix, Vector
from convexstruct.validation.arguments import number
from convexstruct.validation.arrays import real, wholes

#: Labels are below this, so that they fit 32 bits.
N_LABELS = 2**31
#: Labellings remembered for each example, with joint features and loss; of more, the oldest is forgotten.
REMEMBERED = 64


@dataclass(frozen=True, eq=False)
class Example:
    """x, its true labelling y (n_i,), the labellings met: f(x, y') and the loss, by the bytes of y', and the seconds
    that the last call of the oracle took, if there was one."""

    x: Any
    y: Labels
    met: dict[bytes, tuple[Vector, float]] = field(default_factory=dict, init=False, repr=False)
    took: list[float] = field(default_factory=list, init=False, repr=False)


@dataclass(frozen=True, eq=False)
class Labellings:
    """The labellings of N examples; flat arrays hold one labelling of each, one after the other.

    joint_feature : (x, y) -> f(x, y) (d,). cost : (y, y') -> the loss E(y') >= 0 where y is right, E(y) = 0.
    dimension : d.
    """

    joint_feature: Callable[[Any, Labels], Any]
    cost: Callable[[Labels, Labels], Any]
    examples: tuple[Example, ...]
    dimension: int
    n_labels = N_LABELS
    associative = False

    @property
    def n_examples(self) -> int:
        return len(self.examples)

    @property
    def n_nodes(self) -> int:
        return len(self.truth)

    @cached_property
    def truth(self) -> Labels:
        return np.concatenate([each.y for each in self.examples])

    @cached_property
    def node_start(self) -> Index:
        """Where each example begins in a flat array, and where the last one ends; shape (N + 1,)."""
        return np.cumsum([0, *(len(each.y) for each in self.examples)], dtype=np.intp)

    @cached_property
    def example(self) -> Index:
        """The example of each entry of a flat array; shape (P,)."""
        return np.repeat(np.arange(self.n_examples), np.diff(self.node_start))

    @cached_property
    def nonnegative(self) -> Flags:
        """The weights that must be >= 0: none; shape (d,)."""
        return np.zeros(self.dimension, dtype=bool)

    @cached_property
    def joint_truth(self) -> Matrix:
        """f(x_i, y_i); shape (N, d)."""
        return np.array([self.met(i, each.y)[0] for i, each in enumerate(self.examples)])

    def some(self, examples: Index) -> Labellings:
        """Some of the examples; what is remembered of them is shared."""
        return replace(self, examples=tuple(self.examples[i] for i in examples))

    def split(self, flat: Labels) -> list[Labels]:
        """A flat array as one array (n_i,) an example."""
        return np.split(flat, self.node_start[1:-1])

    def met(self, i: int, labels: Labels) -> tuple[Vector, float]:
        """f(x_i, y) (d,) and E_i(y) of a labelling, remembered.

        Raises
        ------
        ValueError
            If the functions do not return d finite numbers and a finite loss of at least 0.
        """
        example = self.examples[i]
        key = labels.astype(np.int64).tobytes()
        if key not in example.met:
            given = labels.astype(np.int64)
            given.setflags(write=False)
            joint = real(f"joint_feature(x, y) of example {i}", self.joint_feature(example.x, given), (self.dimension,))
            lost = number(f"loss(y, predicted) of example {i}", self.cost(example.y, given), least=0)
            if len(example.met) >= REMEMBERED:
                del example.met[next(iter(example.met))]
            example.met[key] = joint, lost
        return example.met[key]

    def joint_each(self, flat: Labels, examples: Index | None = None) -> sp.csr_array:
        """f(x_i, y), sparse (n, d), of one labelling of each example, or of ``examples`` (which may repeat)."""
        return sp.csr_array(self.joint_rows(flat, examples))

    def joint_rows(self, flat: Labels, examples: Index | None = None) -> Matrix:
        """`joint_each` as an array."""
        chosen = range(self.n_examples) if examples is None else examples.tolist()
        ends = np.cumsum([len(self.examples[i].y) for i in chosen])
        rows = [self.met(i, part)[0] for i, part in zip(chosen, np.split(flat, ends[:-1]))]
        return np.array(rows).reshape(len(rows), self.dimension)

    def joint(self, flat: Labels, weight: Vector) -> Vector:
        """sum_i weight_i f(x_i, y); shape (d,)."""
        total = np.zeros(self.dimension)
        for i, part in enumerate(self.split(flat)):
            total += weight[i] * self.met(i, part)[0]
        return total

    def of(self, flat: Labels) -> Vector:
        """E_i(y); shape (N,)."""
        return np.array([self.met(i, part)[1] for i, part in enumerate(self.split(flat))])


def read_labelling(name: str, value: Any, length: int | None = None) -> Labels:
    """A labelling: an array of whole numbers from 0 to 2^31 - 1, ``length`` of them; ValueError if it is none."""
    return wholes(name, value, ("n" if length is None else length,), least=0, most=N_LABELS - 1)
