"""Estimators with scikit-learn's interface: train on labelled data, predict labels for new data, keep in one file.

`ChainTagger` and `GraphTagger` (structural SVMs and conditional random fields), `GenerativeTagger` (hidden Markov
models) and `LinearRisk` (binary, multiclass, multilabel and ordinal hinges) read the data, build a problem of a family,
call `convexstruct.solve` and keep the weights; the mathematics is that of the families, whose public names alone are
used here. `word_features` makes features of the words of a sentence, `Strongest` shows what a tagger learnt.

The room needs scikit-learn (`pip install "convexstruct[estimators]"`); the rest of the package does not.

A new estimator takes a file here, a constructor that only stores its arguments, and `Saved` for its files.
"""

import importlib.util
from functools import partial
from typing import TYPE_CHECKING

if importlib.util.find_spec("sklearn") is None:
    raise ImportError("convexstruct.estimators needs scikit-learn: pip install 'convexstruct[estimators]'")

from convexstruct.estimators.chain_tagger import ChainTagger
from convexstruct.estimators.generative_tagger import GenerativeTagger
from convexstruct.estimators.graph_tagger import GraphTagger
from convexstruct.estimators.linear_risk import LinearRisk
from convexstruct.estimators.strongest import Strongest
from convexstruct.estimators.words import word_features
from convexstruct.validation.arguments import no_attribute

__all__ = ["ChainTagger", "GenerativeTagger", "GraphTagger", "LinearRisk", "Strongest", "word_features"]

if not TYPE_CHECKING:  # a type checker knows the names
    __getattr__ = partial(no_attribute, __name__, __all__)
