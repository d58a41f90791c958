"""Files of labelled sequences, for problems whose examples are read where they are worked on.

`convexstruct.features.example_files` has their layout; ``from_files`` of problems reads them. ``python -m
convexstruct.datasets`` writes them from the command line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct.datasets.conll import read_conll
from convexstruct.datasets.generated.hidden_markov import sample
from convexstruct.datasets.generated.structured import random_chains
from convexstruct.features.counts.counts import example_weights
from convexstruct.features.graphs.pairwise import read_pairwise
from convexstruct.files import write_whole
from convexstruct.graphs import as_sequences
from convexstruct.inference.hidden_markov import random_models
from convexstruct.validation.arguments import path_of, sentence, whole


def write_examples(
    path: str | os.PathLike[str],
    node_features: Any = None,
    labels: Sequence[ArrayLike] | None = None,
    n_labels: int | None = None,
    *,
    symbols: Sequence[ArrayLike] | None = None,
    n_symbols: int | None = None,
    weights: ArrayLike | None = None,
) -> Path:
    """Write sequences to one file ``.npz``, whole or not at all; returns its path.

    Parameters
    ----------
    node_features, labels : as `ConditionalRandomField.read` takes them; sparse features are stored as such. None where
        the problem needs none, but features have labels.
    symbols : as `HiddenMarkov.read` takes them, of the lengths of the labels; None where the problem needs none.
    n_labels, n_symbols : S and M, the same in all files of a problem.
    weights : (N,) weights of the sequences, 1 by default.

    Raises
    ------
    ValueError
        If an argument is malformed, or the path is none of a file.
    """
    named, arrays = path_of("path", path), dict[str, Any]()
    x: Any = None
    if labels is None and symbols is None:
        raise ValueError("labels and symbols are not given, wanted one of them or both")
    if node_features is not None:
        x = read_pairwise(node_features, labels or (), whole("n_labels", n_labels, least=1)).node_features
    for name, given, size in (("labels", labels, n_labels), ("symbols", symbols, n_symbols)):
        if given is not None:
            most = whole(f"n_{name}", size, least=1)
            codes, lengths = as_sequences(name, given, most)
            if not np.array_equal(arrays.setdefault("lengths", lengths), lengths):
                raise ValueError("symbols have other lengths than labels, wanted the same")
            arrays |= {name: codes, f"n_{name}": np.array(most)}
    if sp.issparse(x):
        arrays |= {"values": x.data, "indices": x.indices, "indptr": x.indptr, "n_features": np.array(x.shape[1])}
    elif x is not None:
        arrays["node_features"] = x
    if weights is not None:
        arrays["weights"] = example_weights(weights, len(arrays["lengths"]))
    return write_whole(named, lambda file: np.savez(file, **arrays))


def write_chains(folder: Path, n_files: int, n_chains: int, seed: int = 0, **drawn: Any) -> list[Path]:
    """Files of `random_chains`, all with the same planted weights, about ``n_chains`` / ``n_files`` chains each.

    drawn : further arguments of `random_chains`. One file at a time is in memory. ValueError as there, or if the folder
    holds other files ``*.npz``.
    """
    ends, planted = _ends(n_chains, n_files), None
    paths = _paths(folder, n_files)
    for i, n in enumerate(np.diff(ends).tolist()):
        data = random_chains(n, seed=seed + i, planted=planted, **drawn)
        planted = data.planted
        write_examples(paths[i], data.node_features, data.labels_each, data.n_labels)
    return paths


def write_hidden_markov(
    folder: Path, n_files: int, n_chains: int, seed: int = 0, length: int = 12, n_labels: int = 8, n_symbols: int = 30
) -> list[Path]:
    """Files of sequences drawn from one hidden Markov model, whose rows are drawn too, with their states as labels,
    about ``n_chains`` / ``n_files`` each. ValueError if a number is out of its range, or the folder holds other files
    ``*.npz``."""
    ends, model = _ends(n_chains, n_files), random_models(1, n_labels, n_symbols, seed)
    paths, rng = _paths(folder, n_files), np.random.default_rng(seed + 1)
    for path, n in zip(paths, np.diff(ends).tolist()):
        states, symbols = sample(model, n, whole("length", length, least=1), rng)
        write_examples(path, labels=list(states), n_labels=n_labels, symbols=list(symbols), n_symbols=n_symbols)
    return paths


def write_conll(folder: Path, n_files: int, text: str | os.PathLike[str], window: int = 1, **read: Any) -> list[Path]:
    """Files of the sentences of a text that `read_conll` takes with the further arguments ``read``.

    A token has a feature of 1 for each column, as "word=the", and for those of the tokens up to ``window`` before and
    behind it, as "-1:word=the". ``names.json`` in the folder lists the labels and the features in the order of their
    numbers. ValueError as `read_conll` raises it, or if the folder holds other files ``*.npz``.
    """
    X, y = read_conll(text, **read)
    number: dict[str, int] = {}
    columns = [
        [number.setdefault(name, len(number)) for name in _names(x, t, window)] for x in X for t in range(len(x))
    ]
    classes = {name: k for k, name in enumerate(sorted({label for each in y for label in each}))}
    indptr = np.concatenate(([0], np.cumsum([len(each) for each in columns])))
    indices = np.fromiter((column for each in columns for column in each), np.int64, indptr[-1])
    table = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(columns), len(number)))
    ends, start = _ends(len(X), n_files), np.concatenate(([0], np.cumsum([len(x) for x in X])))
    paths = _paths(folder, n_files)
    for path, (low, high) in zip(paths, pairwise(ends)):
        labels = [[classes[label] for label in each] for each in y[low:high]]
        write_examples(path, table[start[low] : start[high]], labels, len(classes))
    write_whole(Path(folder) / "names.json", json.dumps({"labels": [*classes], "features": [*number]}))
    return paths


def _names(tokens: list[dict[str, str]], t: int, window: int) -> Iterator[str]:
    """The names of the features of a token."""
    for s in range(max(t - window, 0), min(t + window + 1, len(tokens))):
        yield from (f"{f'{s - t:+d}:' if s != t else ''}{name}={value}" for name, value in tokens[s].items())


def _ends(n: int, n_files: int) -> Any:
    """Where ``n`` examples are cut into ``n_files`` files, at most one an example: 0, .., n."""
    most = whole("the number of examples", n, least=1)
    return np.linspace(0, most, whole("n_files", n_files, least=1, most=most) + 1).astype(int)


def _paths(folder: str | os.PathLike[str], n_files: int) -> list[Path]:
    """The files to write in a folder, which is made. ValueError if it holds others, which `from_files` would take."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = [Path(folder) / f"{i:05d}.npz" for i in range(n_files)]
    if others := sorted(set(Path(folder).glob("*.npz")).difference(paths)):
        raise sentence(f"folder holds {others[0].name!r} already, wanted one without other files *.npz")
    return paths
