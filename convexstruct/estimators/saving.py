"""Estimators in one file without pickle: a JSON header and arrays of numbers, in NumPy's ``.npz`` format.

The header holds the format, the version of the package, the estimator's name and those of its parameters that are plain
values (a solver, a progress bar and callbacks are left out), the labels and the vectorizer's vocabulary; the arrays are
the learned weights. Nothing of the training data is kept, and nothing in a file is executed: `load` checks names, types
and shapes, and calls the constructor of the class on which it was called, and no other.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.utils.validation import check_is_fitted

from convexstruct.core.solution import LARGEST_SAVED
from convexstruct.files import read_saved, write_whole
from convexstruct.tolerances import Profile
from convexstruct.validation.arguments import path_of

#: The format of a saved estimator.
FORMAT = 1
#: Types of the entries of the header.
HEAD = {
    "format": int, "convexstruct": str, "estimator": str, "params": dict, "names": dict, "words": dict,
    "n_features": int,
    "vectorizer": (dict, type(None)),
}  # fmt: skip
VECTORIZERS = {"DictVectorizer": DictVectorizer, "FeatureHasher": FeatureHasher}

Kept = TypeVar("Kept", bound="Saved")


class Saved:
    """`save` and `load` for an estimator whose learned attributes are named here; it has ``n_features_in_`` besides,
    and may have a ``vectorizer_``."""

    #: The attributes that are arrays of weights, arrays of labels or symbols, and single words.
    learned: ClassVar[tuple[str, ...]] = ()
    named: ClassVar[tuple[str, ...]] = ("classes_",)
    words: ClassVar[tuple[str, ...]] = ()

    n_features_in_: int

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted estimator to one ``.npz`` file, whole or not at all; no pickle.

        Raises
        ------
        ValueError
            If ``path`` cannot be a file. NotFittedError (a ValueError) if the estimator is not fitted.
        """
        check_is_fitted(self)
        path = path_of("path", path)
        head = {
            "format": FORMAT,
            "convexstruct": _version(),
            "estimator": type(self).__name__,
            "params": _plain_params(self),
            "names": {name: _listed(getattr(self, name)) for name in self.named},
            "words": {name: getattr(self, name) for name in self.words},
            "n_features": int(self.n_features_in_),
            "vectorizer": _described(getattr(self, "vectorizer_", None)),
        }
        arrays: dict[str, Any] = {name: getattr(self, name) for name in self.learned}
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
        return write_whole(path, lambda file: np.savez_compressed(file, **arrays), "estimator")

    @classmethod
    def load(cls: type[Kept], path: str | os.PathLike[str], largest: int = LARGEST_SAVED) -> Kept:
        """Read what `save` wrote: an estimator that predicts, without ``solution_`` and ``certificate_``.

        path : the file. largest : bytes that it may take when unpacked, 256 MiB by default.

        Raises
        ------
        ValueError
            If the file is no saved estimator of this class, is cut off, or comes from a newer version.
        FileNotFoundError
            If there is no such file.
        """
        return read_saved(path, largest, cls.__name__, lambda arrays: _made(cls, arrays))

    def _fits(self) -> bool:
        """Whether the arrays read have the shapes that ``classes_`` and ``n_features_in_`` ask for."""
        raise NotImplementedError


def _version() -> str:
    try:
        return importlib.metadata.version("convexstruct")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _plain_params(estimator: Any) -> dict[str, Any]:
    """The parameters that JSON can hold; a profile as its gap, an array as lists."""
    found = {}
    for name, value in estimator.get_params(deep=False).items():
        plain = value.gap if isinstance(value, Profile) else value
        plain = plain.tolist() if isinstance(plain, (np.ndarray, np.generic)) else plain
        try:
            kept = json.loads(json.dumps(plain))
        except (TypeError, ValueError):
            continue
        if isinstance(plain, dict) and kept != plain:  # JSON has no keys but strings
            continue
        found[name] = plain
    return found


def _listed(names: NDArray[Any]) -> dict[str, Any]:
    return {"dtype": names.dtype.str, "values": names.tolist()}


def _described(vectorizer: Any) -> dict[str, Any] | None:
    """A vectorizer as JSON: its class, its parameters, and the names of its features in order."""
    if vectorizer is None:
        return None
    params = vectorizer.get_params()
    params["dtype"] = np.dtype(params["dtype"]).name
    names = vectorizer.feature_names_ if isinstance(vectorizer, DictVectorizer) else None
    return {"name": type(vectorizer).__name__, "params": params, "features": names}


# -- reading, each error the rest of a sentence that begins with "it" --------------------------------------------------


def _made(cls: type[Kept], arrays: dict[str, NDArray[Any]]) -> Kept:
    """The estimator in an archive."""
    head = _head(arrays.pop("head", None))
    if head["estimator"] != cls.__name__:
        raise ValueError(f"holds a {head['estimator']:.40}, wanted a {cls.__name__}")
    known = cls._get_param_names()  # type: ignore[attr-defined]  # of BaseEstimator, the other base
    if strange := [name for name in head["params"] if name not in known]:
        raise ValueError(f"has the parameter {strange[0]!r:.60}, which is unknown")
    estimator: Any = cls(**head["params"])
    for part, wanted in (("names", cls.named), ("words", cls.words)):
        if set(head[part]) != set(wanted):
            raise ValueError(f"has other {part} than {', '.join(wanted) or 'none'}")
    for name, found in head["names"].items():
        setattr(estimator, name, _names(name, found))
    for name, word in head["words"].items():
        setattr(estimator, name, str(word))
    estimator.n_features_in_ = head["n_features"]
    estimator.vectorizer_ = None
    if head["vectorizer"] is not None:
        estimator.vectorizer_ = _vectorizer(head["vectorizer"], head["n_features"])
        estimator.set_params(vectorizer=clone(estimator.vectorizer_))
    if set(arrays) != set(cls.learned):
        raise ValueError(f"holds other arrays than {', '.join(cls.learned)}")
    for name, array in arrays.items():
        if array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"holds {name!r} with entries that are no finite numbers in double precision")
        setattr(estimator, name, array)
    if not estimator._fits():
        raise ValueError("holds weights that do not fit its labels and features")
    return estimator  # type: ignore[no-any-return]  # built as Any


def _head(text: NDArray[Any] | None) -> dict[str, Any]:
    if text is None or text.dtype != np.uint8 or text.ndim != 1:
        raise ValueError("has no head")
    head = json.loads(text.tobytes().decode())
    if not isinstance(head, dict) or type(head.get("format")) is not int:
        raise ValueError("has a head without a format")
    if head["format"] != FORMAT:
        newer = f", from version {head.get('convexstruct')!r:.40}" if head["format"] > FORMAT else ""
        raise ValueError(f"has the format {head['format']}{newer}; this version reads {FORMAT}")
    for name, kind in HEAD.items():
        if not isinstance(head.get(name), kind):  # type: ignore[arg-type]  # a type, or a tuple of them
            raise ValueError(f"has {name} {head.get(name)!r:.60}, which is of the wrong type")
    return head


def _names(name: str, found: Any) -> NDArray[Any]:
    """Labels or symbols: at least one, at least two classes, all different, in the type of training; strings take as
    much room as the longest of them, whatever the file asks for."""
    values = found.get("values") if isinstance(found, dict) else None
    if not isinstance(values, list) or len(values) < (2 if name == "classes_" else 1):
        raise ValueError(f"has no list {name!r} of at least {2 if name == 'classes_' else 1}")
    if not all(isinstance(value, (str, bool, int, float)) for value in values) or len(set(values)) < len(values):
        raise ValueError(f"has {name!r} that are neither strings nor numbers, each once")
    dtype = np.dtype(str(found.get("dtype")))
    if dtype.kind not in "UbiufO":
        raise ValueError(f"has {name!r} of the type {dtype}")
    made = np.array(values, dtype=None if dtype.kind == "U" else dtype)
    if made.dtype.kind != dtype.kind or made.tolist() != values:
        raise ValueError(f"has {name!r} that are not of the type {dtype}")
    return made


def _vectorizer(found: dict[str, Any], width: int) -> Any:
    """The vectorizer of a header, as if fitted."""
    kind, params, names = VECTORIZERS.get(str(found.get("name"))), found.get("params"), found.get("features")
    if kind is None or not isinstance(params, dict) or not set(params) <= set(kind._get_param_names()):
        raise ValueError(f"has the vectorizer {found.get('name')!r:.60}, wanted one of {', '.join(VECTORIZERS)}")
    made = kind(**{**params, "dtype": np.dtype(str(params.get("dtype"))).type})
    if kind is DictVectorizer:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("has no list of the names of features")
        made.feature_names_ = names
        made.vocabulary_ = {name: i for i, name in enumerate(names)}
        if len(made.vocabulary_) != width:
            raise ValueError(f"names {len(made.vocabulary_)} features, and has {width}")
    elif made.n_features != width:
        raise ValueError(f"hashes to {made.n_features!r:.40} features, and has {width}")
    return made
