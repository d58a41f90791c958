"""Labelled sequences in files, which are read where they are worked on.

A file is a ``.npz`` archive, as `numpy.savez` or `convexstruct.datasets.write_examples` writes it, of N sequences with
P nodes in all, one sequence after the other:

    lengths (N,)         nodes of each sequence, integers of at least 1, with the sum P
    labels (P,)          the true labels, integers from 0 to S - 1
    n_labels ()          S, an integer
    node_features (P, F) numbers; or, where most are 0, in their place the arrays of a CSR matrix:
                         indptr (P + 1,), indices, values, and n_features (), which is F
    weights (N,)         optional: positive weights of the sequences, 1 by default

All files of a problem have the same S and F. The edges of a sequence join neighbours and share one table of weights.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from convexstruct.arrays import Flags, Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.files import Heads, read_arrays, read_heads
from convexstruct.graphs import chain_pairs, starts
from convexstruct.validation.arguments import cut, listed, path_of, sentence, sequence, sized, whole
from convexstruct.validation.arrays import frozen, real, wholes
from convexstruct.validation.sparse import sparse

Made = TypeVar("Made")

#: The arrays that every file has, those of sparse features in place of "node_features", and those that it may have.
NEEDED, SPARSE, OPTIONAL = {"lengths", "labels", "n_labels"}, {"indptr", "indices", "values", "n_features"}, {"weights"}
#: So many sequences, the longest of a file, stand for all where the size of features decides about a solver: enough
#: nodes for the correlations of features to a few percent.
SAMPLED = 1000
#: Bytes of examples that a process keeps by default: half a GiB, so that two workers fit a small machine.
KEPT_BYTES = 2**29
#: What `PairwiseFeatures` of files have in common with those of any of their examples.
ALIKE = (
    "associative", "dimension", "edge_features", "edge_shape", "is_chain", "n_edge_features", "n_labels",
    "n_node_features", "n_node_weights", "nonnegative", "shared", "split",
)  # fmt: skip


@dataclass(frozen=True)
class ExampleFile:
    """A file and what its head says. n_entries : numbers in its node features. n_bytes : of all its arrays. check : see
    `convexstruct.files.Heads`."""

    path: str
    n_examples: int
    n_nodes: int
    n_node_features: int
    n_labels: int
    n_entries: int
    n_bytes: int
    check: int

    @classmethod
    def of(cls, path: str) -> ExampleFile:
        """Read the head of a file. ValueError, which names the file, if there is none or its arrays do not fit."""
        with named(path):
            heads = _opened(path, read_heads)
            shapes = heads.shapes
            features = SPARSE if SPARSE & shapes.keys() else {"node_features"}
            if missing := (NEEDED | features) - shapes.keys():
                raise ValueError(f"it has no array {listed(sorted(missing))}")
            if more := shapes.keys() - NEEDED - features - OPTIONAL:
                raise ValueError(f"it has the array {listed(sorted(more))}, which means nothing there")
            n, p = (_length(heads, name) for name in ("lengths", "labels"))
            width = _scalar(heads, "n_features") if features is SPARSE else (*shapes["node_features"], 0, 0)[1]
            if features is not SPARSE and (shapes["node_features"] != (p, width) or not width):
                raise ValueError(f"node_features has shape {shapes['node_features']}, wanted ({p}, features)")
            entries = _length(heads, "values") if features is SPARSE else p * width
            size = _scalar(heads, "n_labels")
            sized("n_labels", size, size * max(width, size, p))
            return cls(path, n, p, width, size, entries, heads.n_bytes, heads.check)

    @property
    def n_edges(self) -> int:
        return self.n_nodes - self.n_examples

    def read(self) -> tuple[PairwiseFeatures, Vector]:
        """(features, weights (N,)) of its sequences. ValueError, which names the file and the first sequence at fault,
        if it is gone, damaged, changed since its head was read, or holds what it must not."""
        with named(self.path):
            return self._features(_opened(self.path, self._arrays))

    def _arrays(self, file: BinaryIO) -> dict[str, NDArray[Any]]:
        if read_heads(file).check != self.check:
            raise ValueError("has changed since the problem was made")
        arrays = read_arrays(file, self.n_bytes)
        for array in arrays.values():  # so that readers need no copy of their own
            array.setflags(write=False)
        return arrays

    def _features(self, arrays: dict[str, NDArray[Any]]) -> tuple[PairwiseFeatures, Vector]:
        lengths = wholes("lengths", arrays["lengths"], least=1, most=self.n_nodes)
        start = starts(lengths)
        if start[-1] != self.n_nodes:
            raise ValueError(f"lengths add up to {start[-1]}, wanted {self.n_nodes}, the number of labels")

        def refuse(array: str, bad: Flags, wanted: str) -> NoReturn:
            """``bad`` (n,) : at which of the nodes, or of the sequences."""
            at = int(np.flatnonzero(bad)[0])
            example = at if array == "weights" else int(np.searchsorted(start, at, side="right")) - 1
            came = np.atleast_1d(arrays[array][at])
            came = came[~np.isfinite(came)] if array == "node_features" else came
            raise ValueError(f"sequence {example} has {came[0]} in {array}, wanted {wanted}")

        labels = arrays["labels"]
        if labels.dtype.kind not in "iu":
            raise ValueError(f"labels are {labels.dtype}, wanted integers")
        if (bad := (labels < 0) | (labels >= self.n_labels)).any():
            refuse("labels", bad, f"labels from 0 to {self.n_labels - 1}")
        weights = real("weights", arrays.get("weights", np.ones(len(lengths))), (len(lengths),), finite=False)
        if (bad := ~((weights > 0) & np.isfinite(weights))).any():
            refuse("weights", bad, "positive numbers")
        if "values" in arrays:
            of = (arrays["values"], arrays["indices"], arrays["indptr"])
            bad = ~np.isfinite(real("values", of[0], finite=False))
            # numbers that are finite show first whether the indices are those of a matrix, so that rows have a meaning
            finite = (np.where(bad, 0.0, of[0]) if bad.any() else of[0], *of[1:])
            x: Any = sparse("the CSR matrix", _csr(*finite, (self.n_nodes, self.n_node_features)))
            if bad.any():
                row = int(np.searchsorted(of[2], np.argmax(bad), side="right")) - 1
                example = int(np.searchsorted(start, row, side="right")) - 1
                raise ValueError(f"sequence {example} has {of[0][bad][0]} in values, wanted finite numbers")
        else:
            x = real("node_features", arrays["node_features"], (self.n_nodes, self.n_node_features), finite=False)
            if (bad := ~np.isfinite(x).all(axis=1)).any():
                refuse("node_features", bad, "finite numbers")
        return PairwiseFeatures(x, frozen(labels.astype(np.int64)), self.n_labels, start, chain_pairs(start)), weights


def _csr(values: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> sp.csr_array:
    """A CSR array of arrays that nobody has checked."""
    if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
        raise ValueError("indices and indptr must be integers")
    made = sp.csr_array(shape)
    made.data, made.indices, made.indptr = values, indices.astype(np.int64), indptr.astype(np.int64)
    return made


def _opened(path: str, read: Callable[[BinaryIO], Made]) -> Made:
    """``read`` of the open file; what is wrong with it is the rest of a sentence that begins with "it"."""
    with open(path, "rb") as file:
        try:
            return read(file)
        except ValueError as error:
            raise ValueError(f"it {error}") from None


def _length(heads: Heads, name: str) -> int:
    if len(heads.shapes[name]) != 1 or not heads.shapes[name][0]:
        raise ValueError(f"{name} has shape {heads.shapes[name]}, wanted one number or more in a row")
    return heads.shapes[name][0]


def _scalar(heads: Heads, name: str) -> int:
    if heads.scalars.get(name, 0) < 1:
        raise ValueError(f"{name} is {heads.scalars.get(name, 'no integer')}, wanted a whole number of at least 1")
    return heads.scalars[name]


@contextmanager
def named(path: str) -> Iterator[None]:
    """What goes wrong inside, as one sentence that names the file."""
    try:
        yield
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise sentence(f"{path} is no file of sequences to work on: {why}") from None


@dataclass(frozen=True, eq=False)
class FiledFeatures:
    """In place of the `PairwiseFeatures` of a problem whose examples lie in files: their sizes.

    files : where the examples are. memory : bytes of examples that a process keeps between two rounds. sample :
    features of some of the examples. What a problem asks besides is refused: it would need all of them here.
    """

    files: tuple[ExampleFile, ...]
    memory: int
    sample: PairwiseFeatures = field(repr=False)

    @cached_property
    def n_examples(self) -> int:
        return sum(each.n_examples for each in self.files)

    @cached_property
    def n_nodes(self) -> int:
        return sum(each.n_nodes for each in self.files)

    @property
    def n_edges(self) -> int:
        return self.n_nodes - self.n_examples

    @cached_property
    def at(self) -> tuple[int, ...]:
        """File i has the examples at[i] .. at[i + 1] - 1."""
        return tuple(starts([each.n_examples for each in self.files]).tolist())

    @cached_property
    def node_start(self) -> Borders:
        """The flat node at which a file begins, by the number of its first example; and P."""
        return Borders(zip(self.at, starts([each.n_nodes for each in self.files]).tolist()))

    @cached_property
    def edge_start(self) -> Borders:
        return Borders(zip(self.at, starts([each.n_edges for each in self.files]).tolist()))

    def __getattr__(self, name: str) -> Any:
        if name in ALIKE:
            return getattr(self.sample, name)
        if not (hasattr(PairwiseFeatures, name) or name in PairwiseFeatures.__dataclass_fields__):
            raise AttributeError(name)
        _refuse(name)


class Borders(dict[int, int]):
    """What is known of ``node_start`` where examples lie in files: its entries at the first example of each file."""

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("node_start")


def _refuse(name: str) -> NoReturn:
    raise sentence(
        f"the examples lie in files, and {cut(name)!r} would need all of them here, wanted the default solver, "
        "whose memory does not grow with them; for predictions, examples"
    )


def elsewhere(features: PairwiseFeatures) -> Vector:
    """In place of the weights of examples in files: NaN (N,), without memory."""
    return np.broadcast_to(np.nan, (features.n_examples,))


def read_files(paths: Any, memory: Any) -> PairwiseFeatures:
    """The `FiledFeatures` of a problem.

    paths : files, or one folder, of which all files ``*.npz`` are meant, in the order of their names.

    Raises
    ------
    ValueError
        If there is no file, a file cannot be read or its arrays have shapes that do not fit, or files differ in S or F.
        Of the first file that has an edge the arrays are checked too, of all others where they are first worked on.
    """
    files = tuple(ExampleFile.of(path) for path in listed_paths(paths))
    for other in files[1:]:
        for name in ("n_labels", "n_node_features"):
            if getattr(other, name) != getattr(files[0], name):
                raise sentence(
                    f"{other.path} has {name} = {getattr(other, name)}, wanted {getattr(files[0], name)} as in "
                    f"{files[0].path}"
                )
    first = next((each for each in files if each.n_edges), files[0])
    features = first.read()[0]
    longest = np.sort(np.argsort(-features.lengths, kind="stable")[:SAMPLED])
    kept = whole("memory", memory, least=0)
    return cast(PairwiseFeatures, FiledFeatures(files, kept, features.some(longest)))


def listed_paths(paths: Any) -> Sequence[str]:
    wanted = "a list of paths of files, or one folder"
    if isinstance(paths, str | os.PathLike):
        folder = Path(path_of("paths", paths))
        found = sorted(map(str, folder.glob("*.npz"))) if folder.is_dir() else []
        if not found:
            raise sentence(f"paths is {str(folder)!r}, wanted {wanted} that holds files *.npz")
        return found
    return [path_of(f"paths[{i}]", path) for i, path in enumerate(sequence("paths", paths, wanted, least=1))]
