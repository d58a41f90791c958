"""Labelled chains in files: what stands for their joint features, and the features of a file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn

from convexstruct.features.example_files import InFiles, Stored, refuse_all
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.graphs import chain_pairs, starts


@dataclass(frozen=True, eq=False)
class FiledFeatures(InFiles):
    """In place of the `PairwiseFeatures` of chains in files, whose edges join neighbours and share one table."""

    needs: ClassVar[Collection[str]] = ("labels", "node_features")
    alike: ClassVar[Collection[str]] = (
        "associative", "dimension", "edge_features", "edge_shape", "is_chain", "n_edge_features", "n_labels",
        "n_node_features", "n_node_weights", "nonnegative", "shared", "split",
    )  # fmt: skip

    @staticmethod
    def made(stored: Stored) -> PairwiseFeatures:
        start = stored.start
        return PairwiseFeatures(stored.node_features, stored.labels, stored.sizes["labels"], start, chain_pairs(start))

    @property
    def n_edges(self) -> int:
        return self.n_nodes - self.n_examples

    @cached_property
    def node_start(self) -> Borders:
        """The flat node at which a file begins, by the number of its first example; and P."""
        return Borders(zip(self.at, starts([each.n_nodes for each in self.files]).tolist()))

    @cached_property
    def edge_start(self) -> Borders:
        return Borders(zip(self.at, starts([each.n_nodes - each.n_examples for each in self.files]).tolist()))


class Borders(dict[int, int]):
    """What is known of ``node_start`` where examples lie in files: its entries at the first example of each file."""

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        refuse_all("node_start")
