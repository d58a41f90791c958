"""The doors of `convexstruct.estimators` and of their files, for `benchmarks.malformed`.

`LinearRisk` is tried by its parameters and weights alone: scikit-learn reads its X and y, with errors of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import convexstruct as cs

Doors = dict[str, tuple[Callable[..., Any], dict[str, Any]]]


def of_estimators() -> Doors:
    """Constructors, whose parameters ``fit`` reads, ``fit``, ``predict``, ``save`` and ``load``; `read_conll`."""
    from convexstruct.estimators import ChainTagger, GenerativeTagger, GraphTagger, LinearRisk

    rng = np.random.default_rng(0)
    tables, labels = [rng.normal(size=(2, 3)), rng.normal(size=(4, 3))], [[0, 1], [1, 0, 1, 0]]
    graphs = [nx.path_graph(3)]
    nx.set_node_attributes(graphs[0], {v: [float(v), 1.0] for v in range(3)}, "x")
    symbols, omega = [[0, 1], [2, 1]], [1.0, 2.0]
    chain = ChainTagger("likelihood", tol="LOW").fit(tables, labels)
    generative = GenerativeTagger().fit(symbols, labels[:1] * 2)
    linear = {"X": tables[1], "y": np.array([0, 1, 2, 0])}
    run = {"solver": None, "tol": "LOW", "max_iterations": 1000, "time_limit": 60.0, "progress": False}
    own = {**run, "C": 1.0, "warm_start": False}
    folder = Path(tempfile.mkdtemp())
    path = chain.save(folder / "tagger.npz")
    (folder / "tagged.txt").write_text("word NN O\n")
    conll = {"path": folder / "tagged.txt", "columns": ["w", "t", "c"], "label": -1, "delimiter": None, "comment": None}
    found: Doors = {
        "ChainTagger": (
            lambda **given: ChainTagger(**given).fit(tables, labels),
            {**own, "loss": "likelihood", "cost": "hamming", "l1": 0.0, "vectorizer": None},
        ),
        "ChainTagger.fit": (ChainTagger(tol="LOW").fit, {"X": tables, "y": labels, "sample_weight": omega}),
        "ChainTagger.predict": (chain.predict, {"X": tables}),
        "ChainTagger.save": (chain.save, {"path": path}),
        "ChainTagger.load": (ChainTagger.load, {"path": path, "largest": 10_000}),
        "GraphTagger": (
            lambda **given: GraphTagger("likelihood", tol="LOW", features="x", **given).fit(graphs, [[0, 1, 0]]),
            {"associative": False, "inference": "exact"},
        ),
        "GraphTagger.fit": (
            GraphTagger("likelihood", tol="LOW", features="x").fit,
            {"X": graphs, "y": [[0, 1, 0]], "sample_weight": [1.0]},
        ),
        "GenerativeTagger": (
            lambda **given: GenerativeTagger(**given).fit(symbols, labels[:1] * 2),
            {"loss": "likelihood", "C": 1.0, "smoothing": 1.0, "warm_start": False},
        ),
        "GenerativeTagger.fit": (
            GenerativeTagger().fit,
            {"X": symbols, "y": labels[:1] * 2, "sample_weight": omega},
        ),
        "GenerativeTagger.predict": (generative.predict, {"X": symbols}),
        "LinearRisk": (
            lambda **given: LinearRisk(**given).fit(**linear),
            {**own, "loss": "auto", "cost": 1.0 - np.eye(3), "fit_intercept": True},
        ),
        "LinearRisk.fit": (
            lambda sample_weight: LinearRisk(tol="LOW").fit(**linear, sample_weight=sample_weight),
            {"sample_weight": np.ones(4)},
        ),
        "read_conll": (cs.datasets.read_conll, conll),
    }
    return found
