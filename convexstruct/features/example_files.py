"""Sequences in files, which are read where they are worked on: what all families share of it.

A file is a ``.npz`` archive, as `numpy.savez` or `convexstruct.datasets.write_examples` writes it, of N sequences with
P nodes in all, one sequence after the other:

    lengths (N,)         nodes of each sequence, integers of at least 1, with the sum P
    weights (N,)         optional: positive weights of the sequences, 1 by default
    labels (P,)          the true labels, integers from 0 to S - 1, and n_labels (), which is S
    symbols (P,)         what was seen, integers from 0 to M - 1, and n_symbols (), which is M
    node_features (P, F) numbers; or, where most are 0, in their place the arrays of a CSR matrix:
                         indptr (P + 1,), indices, values, and n_features (), which is F

A problem names what it needs; other arrays of these names are left unread. All files of a problem have the same S, M
and F. A family reads them by a kind of `InFiles`, which stands where its problem has the examples otherwise.

A file is read whole, with its check sums, not mapped into memory: the process would end without a word (SIGBUS) where a
file that it has mapped is cut off, and damage would go unseen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple, NoReturn, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from convexstruct.arrays import Flags, Index, Labels, Vector
from convexstruct.files import Heads, read_arrays, read_heads
from convexstruct.graphs import ranges, starts
from convexstruct.validation.arguments import cut, listed, path_of, sentence, sequence, sized, whole
from convexstruct.validation.arrays import frozen, real, wholes
from convexstruct.validation.sparse import sparse

Made = TypeVar("Made")

#: The arrays of codes, each with its number of values, those of sparse features in place of "node_features", and all.
CODES = {"labels": "n_labels", "symbols": "n_symbols"}
SPARSE = {"indptr", "indices", "values", "n_features"}
KNOWN = {"lengths", "weights", "node_features", *CODES, *CODES.values(), *SPARSE}
#: So many sequences stand for all where some must: enough nodes for the correlations of features to a few percent.
SAMPLED = 2000
#: Bytes of examples that a process keeps by default: half a GiB, so that two workers fit a small machine.
KEPT_BYTES = 2**29
#: Numbers that a problem without features takes for each node, roughly: its codes, and places in the layout of chains.
OF_A_NODE = 3


class Stored(NamedTuple):
    """What a file holds: start (N + 1,), where each sequence begins, and P; weights (N,); labels and symbols (P,) and
    node_features (P, F), None where they are not needed; sizes, how many values labels and symbols have, by name."""

    start: Index
    weights: Vector
    labels: Any
    symbols: Any
    node_features: Any
    sizes: dict[str, int]

    def some(self, examples: Index) -> Stored:
        """Some of the sequences, in the order given."""
        nodes, start = ranges(self.start, examples)
        labels, symbols, x = (None if array is None else array[nodes] for array in self[2:5])
        return Stored(start, self.weights[examples], labels, symbols, x, self.sizes)


@dataclass(frozen=True)
class ExampleFile:
    """A file and what its head says. kind : for whom it is read. n_entries : numbers in its node features, or about as
    many as its problem takes. n_bytes : of all its arrays. check : see `convexstruct.files.Heads`."""

    path: str
    kind: type[InFiles]
    n_examples: int
    n_nodes: int
    n_node_features: int
    n_labels: int
    n_symbols: int
    n_entries: int
    n_bytes: int
    check: int

    @classmethod
    def of(cls, path: str, kind: type[InFiles]) -> ExampleFile:
        """Read the head of a file. ValueError, which names the file, if there is none or its arrays do not fit."""
        with named(path):
            heads = _opened(path, read_heads)
            shapes = heads.shapes
            codes = [name for name in CODES if name in kind.needs]
            wanted = {"lengths", *codes, *(CODES[name] for name in codes)}
            by_rows = SPARSE & shapes.keys()
            if "node_features" in kind.needs:
                wanted |= SPARSE if by_rows else {"node_features"}
            if missing := wanted - shapes.keys():
                raise ValueError(f"it has no array {listed(sorted(missing))}")
            if more := shapes.keys() - KNOWN:
                raise ValueError(f"it has the array {listed(sorted(more))}, which means nothing there")
            n, p = _length(heads, "lengths"), _length(heads, codes[0])
            sizes = {name: _scalar(heads, name) if name in wanted else 0 for name in CODES.values()}
            width, entries = 0, OF_A_NODE * p
            if "values" in wanted:
                width, entries = _scalar(heads, "n_features"), _length(heads, "values")
            elif "node_features" in wanted:
                width = (*shapes["node_features"], 0, 0)[1]
                entries = p * width
                if shapes["node_features"] != (p, width) or not width:
                    raise ValueError(f"node_features has shape {shapes['node_features']}, wanted ({p}, features)")
            for name, size in sizes.items():
                sized(name, size, size * max(width, *sizes.values(), p))
            of = sizes["n_labels"], sizes["n_symbols"]
            return cls(path, kind, n, p, width, *of, entries, heads.n_bytes, heads.check)

    def read(self) -> tuple[Any, Vector]:
        """(examples, as its kind makes them, weights (N,)). ValueError, which names the file and the first row at
        fault, if it is gone, damaged, changed since its head was read, or holds what it must not."""
        with named(self.path):
            stored = self._stored(_opened(self.path, self._arrays))
            return self.kind.made(stored), stored.weights

    def sample(self) -> tuple[Any, Vector]:
        """`read`, of some of its examples, which stand for all."""
        with named(self.path):
            stored = self._stored(_opened(self.path, self._arrays))
            some = stored.some(self.kind.sampled(np.diff(stored.start)))
            return self.kind.made(some), some.weights

    def _arrays(self, file: BinaryIO) -> dict[str, NDArray[Any]]:
        if read_heads(file).check != self.check:
            raise ValueError("has changed since the problem was made")
        arrays = read_arrays(file, self.n_bytes)
        for array in arrays.values():  # so that readers need no copy of their own
            array.setflags(write=False)
        return arrays

    def _stored(self, arrays: dict[str, NDArray[Any]]) -> Stored:
        lengths = wholes("lengths", arrays["lengths"], least=1, most=self.n_nodes)
        start = starts(lengths)
        if start[-1] != self.n_nodes:
            raise ValueError(f"lengths add up to {start[-1]}, wanted {self.n_nodes}, the number of nodes")

        def refuse(array: str, bad: Flags, came: Any, wanted: str) -> NoReturn:
            """``bad`` (n,) : at which of the rows of the array; ``came`` (n,) or (n, F) are these."""
            row = int(np.flatnonzero(bad)[0])
            value = np.atleast_1d(came[row])
            value = value[~np.isfinite(value)] if value.size > 1 else value
            of = "" if array == "weights" else f" of sequence {int(np.searchsorted(start, row, side='right')) - 1}"
            raise ValueError(f"{array}[{row}]{of} is {value[0]}, wanted {wanted}")

        def codes(name: str, size: int) -> Labels | None:
            if name not in self.kind.needs:
                return None
            given = arrays[name]
            if given.dtype.kind not in "iu":
                raise ValueError(f"{name} are {given.dtype}, wanted integers")
            if given.shape != (self.n_nodes,):
                raise ValueError(f"{name} has shape {given.shape}, wanted ({self.n_nodes},)")
            if (bad := (given < 0) | (given >= size)).any():
                refuse(name, bad, given, f"{name} from 0 to {size - 1}")
            return frozen(given.astype(np.int64))

        weights = real("weights", arrays.get("weights", np.ones(len(lengths))), (len(lengths),), finite=False)
        if (bad := ~((weights > 0) & np.isfinite(weights))).any():
            refuse("weights", bad, weights, "positive numbers")
        x: Any = None
        if "node_features" in self.kind.needs and "values" in arrays:
            of = (arrays["values"], arrays["indices"], arrays["indptr"])
            bad = ~np.isfinite(real("values", of[0], finite=False))
            # numbers that are finite show first whether the indices are those of a matrix, so that rows have a meaning
            finite = (np.where(bad, 0.0, of[0]) if bad.any() else of[0], *of[1:])
            x = sparse("the CSR matrix", _csr(*finite, (self.n_nodes, self.n_node_features)))
            if bad.any():
                row = np.arange(self.n_nodes) == int(np.searchsorted(of[2], np.argmax(bad), side="right")) - 1
                refuse("the CSR matrix", row, np.broadcast_to(of[0][bad][0], row.shape), "finite numbers")
        elif "node_features" in self.kind.needs:
            x = real("node_features", arrays["node_features"], (self.n_nodes, self.n_node_features), finite=False)
            if (bad := ~np.isfinite(x).all(axis=1)).any():
                refuse("node_features", bad, x, "finite numbers")
        sizes = {"labels": self.n_labels, "symbols": self.n_symbols}
        return Stored(start, weights, codes("labels", self.n_labels), codes("symbols", self.n_symbols), x, sizes)


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
class InFiles:
    """In place of what a problem holds of its examples where these lie in files: their sizes.

    files : where the examples are. memory : bytes of examples that a process keeps between two rounds. sample : some of
    the examples, with their weights. What a problem asks besides is refused: it would need all of them here.

    A kind of it says what it ``needs`` of a file, by the names of the arrays, what is ``alike`` in any of the examples,
    and how they are ``made`` of what a file holds.
    """

    files: tuple[ExampleFile, ...]
    memory: int
    sample: Any = field(repr=False)
    sample_weights: Vector = field(repr=False)
    needs: ClassVar[Collection[str]]
    alike: ClassVar[Collection[str]]

    @staticmethod
    def made(stored: Stored) -> Any:
        """The examples of a file as their problem takes them."""
        raise NotImplementedError

    @staticmethod
    def sampled(lengths: Index) -> Index:
        """Which sequences of a file, of these ``lengths`` (N,), stand for all: the longest."""
        return np.sort(np.argsort(-lengths, kind="stable")[:SAMPLED])

    @cached_property
    def n_examples(self) -> int:
        return sum(each.n_examples for each in self.files)

    @cached_property
    def n_nodes(self) -> int:
        return sum(each.n_nodes for each in self.files)

    @cached_property
    def at(self) -> tuple[int, ...]:
        """File i has the examples at[i] .. at[i + 1] - 1."""
        return tuple(starts([each.n_examples for each in self.files]).tolist())

    def __getattr__(self, name: str) -> Any:
        if name in type(self).alike:
            return getattr(self.sample, name)
        kind = type(self.sample) if "sample" in vars(self) else object
        if not (hasattr(kind, name) or (is_dataclass(kind) and name in {each.name for each in fields(kind)})):
            raise AttributeError(name)
        refuse_all(name)


def refuse_all(name: str) -> NoReturn:
    """ValueError: ``name`` would need all examples here."""
    raise sentence(
        f"the examples lie in files, and {cut(name)!r} would need all of them here, wanted the default solver, "
        "whose memory does not grow with them; for predictions, examples"
    )


def elsewhere(examples: InFiles) -> Vector:
    """In place of the weights of examples in files: NaN (N,), without memory."""
    return np.broadcast_to(np.nan, (examples.n_examples,))


Kind = TypeVar("Kind", bound=InFiles)


def read_files(paths: Any, memory: Any, kind: type[Kind]) -> Kind:
    """What stands for the examples of a problem.

    paths : files, or one folder, of which all files ``*.npz`` are meant, in the order of their names. memory : bytes.

    Raises
    ------
    ValueError
        If there is no file, a file cannot be read or its arrays have shapes that do not fit, or files differ in S, M or
        F. Of the first file that has an edge the arrays are checked too, of all others where they are first worked on.
    """
    files = tuple(ExampleFile.of(path, kind) for path in listed_paths(paths))
    for other in files[1:]:
        for name in ("n_labels", "n_symbols", "n_node_features"):
            if getattr(other, name) != getattr(files[0], name):
                raise sentence(
                    f"{other.path} has {name} = {getattr(other, name)}, wanted {getattr(files[0], name)} as in "
                    f"{files[0].path}"
                )
    first = next((each for each in files if each.n_nodes > each.n_examples), files[0])
    return kind(files, whole("memory", memory, least=0), *first.sample())


def listed_paths(paths: Any) -> Sequence[str]:
    wanted = "a list of paths of files, or one folder"
    if isinstance(paths, str | os.PathLike):
        folder = Path(path_of("paths", paths))
        found = sorted(map(str, folder.glob("*.npz"))) if folder.is_dir() else []
        if not found:
            raise sentence(f"paths is {str(folder)!r}, wanted {wanted} that holds files *.npz")
        return found
    return [path_of(f"paths[{i}]", path) for i, path in enumerate(sequence("paths", paths, wanted, least=1))]
