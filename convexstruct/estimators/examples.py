"""What users give estimators, as arrays: sequences of feature dicts or tables, labels of any names, weights."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.feature_extraction import DictVectorizer, FeatureHasher

from convexstruct.arrays import Flags, Index, Labels, Matrix, Vector
from convexstruct.estimators.words import word_features
from convexstruct.graphs import starts
from convexstruct.losses import cost_matrix
from convexstruct.validation.arguments import choice, described, listed, refuse, sentence, sequence
from convexstruct.validation.arrays import real
from convexstruct.validation.sparse import matrix

SEQUENCES = "a list of one sequence an example, each a list of feature dicts or a table (positions, features)"
#: Computes the features of the positions of one sequence: dicts, or lists of names.
Features = Callable[[Any], Sequence[Any]]
#: The kinds of labels that may stand together, by the types that they have.
KINDS: tuple[tuple[type, ...], ...] = ((str,), (bool, np.bool_), (int, np.integer))


@dataclass(frozen=True)
class Examples:
    """Examples without labels, position after position.

    rows : P feature dicts, or a table (P, F). lengths (N,) : positions of each example, 0 allowed. edges : "chain", or
    one array (q_i, 2) an example. edge_features : one array (q_i, E) an example, or None. nodes : the names of the
    nodes of each example's graph, or None for sequences.
    """

    rows: Any
    lengths: Index
    edges: str | list[Index] = "chain"
    edge_features: list[Matrix] | None = None
    nodes: list[list[Any]] | None = None

    def some(self, kept: Flags) -> Examples:
        """The examples of a mask (N,)."""
        if kept.all():
            return self
        at = np.flatnonzero(np.repeat(kept, self.lengths))
        rows = [self.rows[i] for i in at] if isinstance(self.rows, list) else self.rows[at]

        def chosen(parts: Any) -> Any:
            return [parts[i] for i in np.flatnonzero(kept)] if isinstance(parts, list) else parts

        more = {name: chosen(getattr(self, name)) for name in ("edges", "edge_features", "nodes")}
        return replace(self, rows=rows, lengths=self.lengths[kept], **more)

    def split(self, flat: Any) -> list[Any]:
        """An array with one row a position, as one array an example."""
        return np.split(flat, starts(self.lengths)[1:-1]) if len(self.lengths) else []


def feature_function(features: Any) -> Features | None:
    """What the parameter ``features`` says: None, "words" or a function. ValueError if it is nothing of these."""
    if features is None:
        return None
    function: Features = features if callable(features) else word_features
    if not callable(features):
        choice("features", features, ("words",))
    return function


def are_sentences(X: Any) -> bool:
    """Whether the first sequence of X that is not empty begins with a word, or with a tuple that does."""
    several = (list, tuple, np.ndarray)
    for one in X if isinstance(X, several) else ():
        if not isinstance(one, several):
            return False
        if len(one):
            return isinstance(one[0], str) or _is_word_with_columns(one[0])
    return False


def read_sequences(X: Any, features: Features | None = None, least: int = 0) -> Examples:
    """Sequences of feature dicts or of lists of names, or tables (positions, features), dense or sparse; a sequence may
    be empty. ``features``, where given, makes them of each entry of X first. ValueError if X is no list of at least
    ``least`` sequences, mixes dicts and tables, or a table has another width or holds NaN."""
    given = sequence("X", X, SEQUENCES if features is None else "a list of one sequence an example", least=least)
    dicts: list[Any] = []
    tables: list[Any] = []
    lengths = []
    for i, one in enumerate(given):
        name = f"X[{i}]"
        if features is not None:
            one = _made(name, one, features)
        is_table = sp.issparse(one) or (isinstance(one, np.ndarray) and one.ndim == 2)
        items = [] if is_table else sequence(name, one, "a list of feature dicts or a table (positions, features)")
        if is_table and one.shape[0] == 0:
            lengths.append(0)
        elif is_table or _is_row_of_numbers(items):
            width = int(tables[0].shape[1]) if tables else "features"
            tables.append(matrix(name, one, "positions", width, why="one row a position"))
            lengths.append(tables[-1].shape[0])
        else:
            dicts += _dicts(name, items)
            lengths.append(len(items))
    if dicts and tables:
        raise ValueError("X holds sequences of feature dicts and tables of numbers, wanted one kind")
    return Examples(stacked(tables) if tables else dicts, np.array(lengths, dtype=np.intp))


def stacked(tables: Sequence[Any]) -> Any:
    """Tables of one width, one below the other; sparse if one is."""
    return sp.vstack(tables, format="csr") if any(map(sp.issparse, tables)) else np.concatenate(tables)


def _made(name: str, one: Any, features: Features) -> Any:
    """What a function of features makes of one sequence, as many entries as there are positions."""
    length = len(sequence(name, one, "a list of the positions of a sequence"))
    try:
        made = features(one)
    except ValueError as error:
        raise sentence(f"{name}: {error}") from None
    return sequence(f"features({name})", made, "the features of each position", length=length)


def _is_row_of_numbers(items: list[Any]) -> bool:
    """Whether a sequence is a table given as lists: neither dicts nor lists of names, nor words."""
    first = next((item for item in items if not isinstance(item, list) or item), None)
    if isinstance(first, list):
        return not isinstance(first[0], str)
    return not (first is None or isinstance(first, (Mapping, str)) or _is_word_with_columns(first))


def _is_word_with_columns(item: Any) -> bool:
    return isinstance(item, tuple) and bool(item) and isinstance(item[0], str)


def _dicts(name: str, items: list[Any]) -> list[Any]:
    """Feature dicts as they are, a list of names as a dict in which each is 1."""
    found = []
    for t, item in enumerate(items):
        if isinstance(item, list) and all(isinstance(each, str) for each in item):
            item = dict.fromkeys(item, 1.0)
        if not isinstance(item, Mapping):
            hint = "; features='words' reads words" if isinstance(item, str) or _is_word_with_columns(item) else ""
            refuse(f"{name}[{t}]", item, f"a feature dict or a list of names of features{hint}")
        found.append(item)
    return found


# -- vectorising -------------------------------------------------------------------------------------------------------


def fitted_vectorizer(vectorizer: Any, rows: Any) -> Any:
    """A copy of ``vectorizer`` (None: a DictVectorizer) fitted to feature dicts; None where ``rows`` is a table.
    ValueError unless ``vectorizer`` is None, a DictVectorizer or a FeatureHasher."""
    if vectorizer is not None and type(vectorizer) not in (DictVectorizer, FeatureHasher):
        refuse("vectorizer", vectorizer, "a DictVectorizer, a FeatureHasher or None")
    if not isinstance(rows, list):
        return None
    made = DictVectorizer() if vectorizer is None else clone(vectorizer)
    made = _told(made, lambda: made.fit(rows))
    strange = next((name for name in getattr(made, "vocabulary_", ()) if not isinstance(name, str)), None)
    if strange is not None:
        raise sentence(f"X has the feature {described(strange)}, wanted names that are strings")
    return made


def vectorised(vectorizer: Any, rows: Any, width: int | str = "features") -> Any:
    """The table (P, F) of feature dicts, or of a table itself; ``width`` is the F of training. ValueError if the
    vectorizer cannot read a dict, dicts come where training had tables or tables where it had dicts, F is another,
    there is no feature, or a value is NaN or infinite."""
    if isinstance(rows, list) != (vectorizer is not None):
        came, wanted = ("feature dicts", "tables of numbers") if vectorizer is None else ("tables", "feature dicts")
        raise ValueError(f"X holds {came}, wanted {wanted} as in training")
    if vectorizer is None:
        return matrix("X", rows, "positions", width, why="the features of training")
    table = _told(vectorizer, lambda: vectorizer.transform(rows))
    if table.shape[1] == 0:
        raise ValueError("X has no features, wanted at least one in some dict")
    return matrix("X", table, "positions", width)


def _told(vectorizer: Any, call: Any) -> Any:
    """What ``call`` returns; its errors in one sentence."""
    try:
        return call()
    except Exception as error:  # any: features of any type, read by scikit-learn
        name, said = type(vectorizer).__name__, " ".join(str(error).split())
        text = f"X holds features that {name} cannot read ({said}), wanted names with numbers or strings"
        raise sentence(text) from None


# -- labels and weights ------------------------------------------------------------------------------------------------


def read_labels(y: Any, lengths: Index) -> list[Any]:
    """The labels of all positions in one list, from one list or array an example. ValueError if an example has another
    number of labels than positions."""
    given = sequence("y", y, "one list of labels for each of X", length=len(lengths))
    flat: list[Any] = []
    for i, (one, n) in enumerate(zip(given, lengths)):
        flat += sequence(f"y[{i}]", one, "one label a position", length=int(n))
    return flat


def is_partial(label: Any) -> bool:
    """Whether a label is not known: None, or a set of the labels that are possible."""
    return label is None or isinstance(label, (set, frozenset))


@contextmanager
def called_cost() -> Iterator[None]:
    """Errors about the loss of labellings, ``loss`` to the families, under its name among the estimators' parameters,
    ``cost``: their ``loss`` is another."""
    try:
        yield
    except ValueError as error:
        raise ValueError(re.sub(r"^loss\b", "cost", str(error))) from None


def classes_of(labels: list[Any]) -> NDArray[Any]:
    """The distinct labels in order, those in sets included. ValueError as `distinct`, or if fewer than two differ."""
    classes = distinct("a label in y", _members(labels))
    if len(classes) < 2:
        came = f"one class, {described(classes.tolist()[0])}" if len(classes) else "no label"
        raise sentence(f"y holds {came}, wanted at least two classes")
    return classes


def _members(labels: list[Any]) -> list[Any]:
    """The labels, those in sets included, without None."""
    return [each for label in labels if label is not None for each in (label if is_partial(label) else (label,))]


def distinct(name: str, labels: list[Any]) -> NDArray[Any]:
    """The distinct labels or symbols, in order. ValueError if they are neither all strings nor all whole numbers (or
    all booleans)."""
    kinds = set()
    for label in labels:
        kind = next((k for k, types in enumerate(KINDS) if isinstance(label, types)), None)
        if kind is None:
            refuse(name, label, "a string or a whole number")
        kinds.add(kind)
    if len(kinds) > 1:
        raise ValueError(f"{name} is of another type than one before, wanted strings alone or whole numbers alone")
    found = np.array(sorted(set(labels)))
    if len(found) and found.dtype.kind not in "Uiub":
        raise ValueError(f"{name} is a whole number beyond 64 bits, wanted smaller ones")
    return found


def coded(labels: list[Any], classes: NDArray[Any]) -> tuple[Labels, Flags | None]:
    """Places in ``classes`` (P,), and which labels each position may have (P, S) where some are not known, else None.

    A label that is not in ``classes`` has the code -2, a position without a label the code -1.
    """
    number = {label: i for i, label in enumerate(classes.tolist())}
    codes = np.array([-1 if is_partial(label) else number.get(label, -2) for label in labels], dtype=np.int64)
    unknown = np.flatnonzero(codes == -1)
    if not len(unknown):
        return codes, None
    allowed = codes[:, None] == np.arange(len(classes))
    for at in unknown:
        if labels[at] is None:
            allowed[at] = True
        else:
            places = [number[label] for label in labels[at] if label in number]
            allowed[at, places] = True
    return codes, allowed


def weighted_cost(cost: Any, class_weight: Any, labels: list[Any], classes: NDArray[Any]) -> Any:
    """The loss ``cost`` of labellings with the cost of each wrong position times the weight of its true class.

    ValueError if ``class_weight`` is no mapping from classes to positive weights, "balanced" or None, or is given where
    the loss is no sum over positions.
    """
    if class_weight is None:
        return cost
    if isinstance(cost, str) and cost == "zero_one":
        raise ValueError("class_weight is given, wanted None with cost='zero_one': that is no sum over positions")
    names = classes.tolist()
    if isinstance(class_weight, str) and class_weight == "balanced":
        counts = Counter(label for label in labels if not is_partial(label))
        n = counts.total()
        weights = [n / (len(names) * counts[name]) if counts[name] else 1.0 for name in names]
    elif isinstance(class_weight, Mapping):
        strange = next((name for name in class_weight if name not in names), None)
        if strange is not None:
            raise sentence(f"class_weight has {described(strange)}, wanted labels of y: {listed(names)}")
        weights = [class_weight.get(name, 1.0) for name in names]
    else:
        refuse("class_weight", class_weight, "None, 'balanced' or a mapping from labels to weights")
    with called_cost():
        return cost_matrix(cost, len(names)) * real("class_weight", weights, (len(names),), least=0)[:, None]


def read_weights(sample_weight: ArrayLike | None, n: int) -> Vector:
    """One weight of at least 0 an example, 1 by default; an example of weight 0 counts as absent. ValueError if there
    is not one finite weight of at least 0 for each example, or all are 0."""
    if sample_weight is None:
        return np.ones(n)
    read = real("sample_weight", sample_weight, (n,), what="weights", least=0, why="one an example")
    if not read.any():
        raise ValueError("sample_weight is zero everywhere, wanted at least one positive weight")
    return np.asarray(read)


def accuracy(labels: list[Any], predicted: Labels, weights: Vector, classes: NDArray[Any]) -> float:
    """The share of positions, weighted, whose predicted class is the label, or lies in the set of possible labels.
    ValueError if a label is of another type than those of training, or no position counts.

    Positions without a label (None) do not count.
    """
    distinct("a label in y", [*classes.tolist(), *_members(labels)])
    codes, allowed = coded(labels, classes)
    right = codes == predicted
    if allowed is not None:
        right = np.where(codes == -1, allowed[np.arange(len(codes)), predicted], right)
    weights = np.where([label is None for label in labels], 0.0, weights)
    total = float(weights.sum())
    if not total > 0:
        raise ValueError("X and y have no position with a label and a positive weight, wanted at least one")
    return float(weights @ right) / total
