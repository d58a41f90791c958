"""Gaussian process sequence labelling in shards: the executor runs forward-backward on each; products with K stay in
this process.

Each shard is sent the scores of its own inputs, and returns posteriors summed by input and by transition. The
certificate is computed by `GaussianProcessSequences` without shards.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Matrix, Vector
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.graphs import Chains, chains, starts
from convexstruct.inference.parallel import in_shards
from convexstruct.inference.shards import Shards, cuts, fields_of
from convexstruct.oracles.chain.chain import sum_product


@dataclass(frozen=True, eq=False)
class Sequences:
    """Some of the sequences. lengths (N,) : positions of each. places (P,) : the input of each position, numbered among
    the inputs of these sequences."""

    lengths: Index
    places: Index

    @cached_property
    def chains(self) -> Chains:
        return chains(self.lengths)

    @cached_property
    def sums(self) -> sp.csr_array:
        """(inputs, P) matrix that sums values at packed positions by their input."""
        n = len(self.places)
        return sp.csr_array((np.ones(n), (self.places[self.chains.packed], np.arange(n))))

    def log_partition(self, label: Matrix, transition: Matrix) -> tuple[float, Matrix, Matrix]:
        """(sum_i ln sum_y exp <z_y, t>, posteriors of labels by input, of transitions) at the scores ``label``
        (inputs, S) and ``transition`` (S, S)."""
        sums = sum_product(self.chains, label[self.places[self.chains.packed]], transition)
        return float(sums.log_partition.sum()), np.asarray(self.sums @ sums.node), sums.edge


@dataclass(frozen=True, eq=False, repr=False)
class ShardedSequences(GaussianProcessSequences):
    """The problem with its sequences in ``shards`` of `Sequences`; ``inputs`` : the distinct inputs of each, rising."""

    shards: Shards = field(kw_only=True, repr=False)
    inputs: tuple[Index, ...] = field(kw_only=True, repr=False)

    def log_partition(self, scores: Vector) -> tuple[float, Vector]:
        """As `GaussianProcessSequences.log_partition`: one map over the shards and one sum."""
        label, transition = self.split(scores)
        edge = np.ascontiguousarray(transition)
        found = self.shards.map_each("log_partition", [(label[own], edge) for own in self.inputs])
        mean = np.zeros(self.dimension)
        of_label, of_transition = self.split(mean)
        for own, (_, by_input, by_pair) in zip(self.inputs, found):
            of_label[own] += by_input
            of_transition += by_pair
        return sum(part[0] for part in found), mean


@in_shards.register
def sharded(problem: GaussianProcessSequences, executor: Executor, n_shards: int | None) -> ShardedSequences:
    """The same problem with its sequences in shards of about as many positions each."""
    first = starts(problem.lengths)
    parts, inputs = [], []
    for low, high in pairwise(cuts(problem.lengths, n_shards)):
        own, places = np.unique(problem.places[first[low] : first[high]], return_inverse=True)
        parts.append(Sequences(problem.lengths[low:high], places.reshape(-1).astype(np.intp)))
        inputs.append(own)
    return ShardedSequences(
        **fields_of(problem, GaussianProcessSequences), shards=Shards(tuple(parts), executor), inputs=tuple(inputs)
    )
