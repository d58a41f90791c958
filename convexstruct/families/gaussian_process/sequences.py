"""Forward-backward over sequences whose positions show one of some distinct inputs (or a pair of a position and an
input, where kernels depend on the position); a shard holds some sequences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Matrix
from convexstruct.graphs import Chains, chains, starts
from convexstruct.marginals.triplets import sums_by
from convexstruct.oracles.chain.chain import sum_product


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences of places. lengths (N,) : positions of each. places (P,) : the row of ``inputs`` of each position, one
    sequence after the other. inputs (D,) : the distinct inputs that occur, by their numbers in the problem."""

    lengths: Index
    places: Index
    inputs: Index

    def some(self, which: Index) -> Sequences:
        """The sequences ``which``, a range, with the inputs that occur in them."""
        first = starts(self.lengths)
        inputs, places = np.unique(self.places[first[which[0]] : first[which[-1] + 1]], return_inverse=True)
        return Sequences(self.lengths[which], places.reshape(-1).astype(np.intp), self.inputs[inputs])

    @cached_property
    def chains(self) -> Chains:
        return chains(self.lengths)

    @cached_property
    def packed_places(self) -> Index:
        """The input of each packed position; (P,)."""
        return np.asarray(self.places[self.chains.packed])

    @cached_property
    def sums(self) -> sp.csr_array:
        """(D, P) matrix that sums values at packed positions by their input."""
        return sums_by(self.packed_places, len(self.inputs))

    def log_partition(self, label: Matrix, transition: Matrix) -> tuple[float, Matrix, Matrix]:
        """(sum_i ln sum_y exp <z_y, t>, posteriors of labels by input (D, S), of transitions) at the scores
        ``label`` (D, S) and ``transition`` (S, S), or (T - 1, S, S), a table a step."""
        found = sum_product(self.chains, label[self.packed_places], transition)
        return float(found.log_partition.sum()), np.asarray(self.sums @ found.node), found.edge


def same_lengths(found: Index, lengths: Index, name: str) -> None:
    """ValueError, which names ``name``, unless its sequences are as long as those of labels."""
    if len(found) != len(lengths):
        raise ValueError(f"{name} holds {len(found)} sequences, labels holds {len(lengths)}")
    apart = np.flatnonzero(found != lengths)
    if len(apart):
        i = int(apart[0])
        raise ValueError(f"{name}[{i}] has {found[i]} positions, labels[{i}] has {lengths[i]}")
