"""What the estimators refuse when they are fitted: parameters, data, labels."""

from __future__ import annotations

import networkx as nx
import numpy as np
from sklearn.feature_extraction import DictVectorizer

from convexstruct.estimators import ChainTagger, GenerativeTagger, GraphTagger, LinearRisk
from tests.refusals import Door

TABLES = [np.eye(3)[:2], np.eye(3)]
NUMBERS = [[5, 6], [6, 5, 5]]
SKY = [["wet", "dry", "dry"], ["wet", "wet"], ["dry"], ["dry", "wet", "snow", "wet"]]
WEATHER = [["rain", "sun", "sun"], ["rain", "rain"], ["sun"], ["sun", "rain", "sun", "rain"]]
PATH = nx.path_graph(3)
nx.set_node_attributes(PATH, [1.0, 0.0], "x")
X = np.random.default_rng(0).normal(size=(30, 3))
NAMES = np.array(["low", "middle", "top"] * 10)
TABLE = np.eye(3, dtype=int)[[0, 1, 2] * 10]

REFUSALS = (
    Door(
        lambda X, y: ChainTagger("likelihood").fit(X, y),
        {"X": [[{"a": 1}, {}]], "y": [["A", "B"]]},
        [
            ({"X": [], "y": []}, "X is empty, wanted a list of one sequence"),
            ({"X": [[]], "y": [[]]}, "X has no position of a positive weight"),
            ({"X": [[{"a": 1}, 3]], "y": [["A", "B"]]}, "X[0][1] is 3, wanted a feature dict"),
            (
                {"X": [[{"a": 1}], np.ones((1, 2))], "y": [["A"], ["B"]]},
                "X holds sequences of feature dicts and tables",
            ),
            ({"X": [np.ones((1, 2)), np.ones((1, 3))], "y": [["A"], ["B"]]}, "X[1] has shape (1, 3)"),
            ({"X": [[{"a": float("nan")}]], "y": [["A"]]}, "y holds one class, 'A', wanted at least two"),
            ({"X": [np.full((2, 1), np.inf)], "y": [["A", "B"]]}, "X[0] contains NaN or infinity"),
            ({"X": [[{}, {}]], "y": [["A", "B"]]}, "X has no features"),
            ({"X": [[{"a": object()}, {}]], "y": [["A", "B"]]}, "X holds features that DictVectorizer cannot read"),
            ({"X": [[{1: 2}, {}]], "y": [["A", "B"]]}, "X has the feature 1, wanted names that are strings"),
            ({"X": [[{"a": 1}, {}]], "y": [["A"]]}, "y[0] has 1 entries, wanted 2: one label a position"),
            ({"X": [[{"a": 1}, {}]], "y": [["A", "B"], ["A"]]}, "y has 2 entries, wanted 1"),
            ({"X": [[{"a": 1}, {}]], "y": [["A", 1]]}, "a label in y is of another type than one before"),
            ({"X": [[{"a": 1}, {}]], "y": [["A", 1.5]]}, "a label in y is 1.5, wanted a string or a whole number"),
            ({"X": [[{"a": 1}, {}]], "y": [[1, 2**70]]}, "a label in y is a whole number beyond 64 bits"),
            ({"X": [[{"a": 1}, {}]], "y": [[None, None]]}, "y holds no label, wanted at least two classes"),
        ],
        name="ChainTagger.fit",
    ),
    Door(
        lambda **given: ChainTagger(**given).fit(TABLES, NUMBERS),
        {"loss": "margin"},
        [
            ({"loss": "hinge"}, "loss is 'hinge', wanted one of margin, slack, likelihood"),
            ({"C": None}, "C is None, wanted a positive number"),
            ({"C": "scale"}, "C is 'scale', wanted auto"),
            ({"l1": 0.1}, "only the likelihood has that penalty"),
            ({"cost": "ring"}, "cost is 'ring', wanted 'hamming'"),
            ({"loss": "likelihood", "cost": "zero_one"}, "cost is 'zero_one', wanted 'hamming' with loss"),
            ({"loss": "likelihood", "cost": np.ones((2, 2))}, "float64, wanted 'hamming'"),
            ({"vectorizer": DictVectorizer}, "vectorizer is the class DictVectorizer"),
        ],
        name="ChainTagger",
    ),
    Door(
        lambda X, y, **given: GenerativeTagger(**given).fit(X, y),
        {"X": SKY, "y": WEATHER},
        [
            ({"loss": "slack", "X": SKY, "y": WEATHER}, "loss is 'slack', wanted one of likelihood, margin"),
            ({"smoothing": 0.0, "X": SKY, "y": WEATHER}, "smoothing is 0.0, wanted a positive number"),
            ({"X": SKY, "y": [["rain", None, "sun"], *WEATHER[1:]]}, "y has a state that is None or a set"),
            ({"X": [[{"a": 1}], *SKY], "y": [["sun"], *WEATHER]}, "a symbol in X is a dict of 1"),
            ({"X": SKY, "y": [["sun"] * len(each) for each in SKY]}, "y holds one class, 'sun'"),
            ({"X": SKY[:1], "y": WEATHER}, "y has 4 entries, wanted 1"),
            ({"X": ["wet"], "y": WEATHER}, "X[0] is 'wet', wanted a list of symbols"),
            ({"X": [[]], "y": [[]]}, "X has no position of a positive weight"),
        ],
        name="GenerativeTagger",
    ),
    Door(
        lambda X, y, **given: GraphTagger(**given).fit(X, y),
        {"X": [PATH], "y": [[0, 1, 0]], "loss": "likelihood", "features": "x"},
        [
            ({"X": PATH, "y": [[0]]}, "X is a"),
            ({"X": [nx.MultiGraph()], "y": [[]]}, "X[0] is a MultiGraph"),
            ({"features": "y"}, "X[0], a node has no attribute 'y'"),
            ({"edge_features": "y"}, "X[0], an edge has no attribute 'y'"),
            ({"features": ["x"]}, "the attribute of X[0], a node is"),
            ({"y": [[0, 1]]}, "y[0] has 2 entries, wanted 3"),
            ({"y": [{"q": 1}]}, "y[0] has a label for 'q', wanted labels of the nodes of X[0]"),
            ({"associative": True}, "associative is True, wanted False"),
            ({"inference": "relaxed"}, "inference is 'relaxed', wanted 'exact'"),
            ({"loss": "margin", "inference": "best"}, "inference is 'best', wanted one"),
        ],
        name="GraphTagger",
    ),
    Door(
        lambda y, **given: LinearRisk(**given).fit(X, y),
        {"y": NAMES},
        [
            ({"loss": "hinge"}, "loss is 'hinge', wanted one of auto, binary"),
            ({"loss": "binary"}, "y holds 3 classes, wanted two classes"),
            ({"loss": "binary", "y": TABLE}, "y holds a table of 0 and 1, wanted one class a row with loss='binary'"),
            ({"loss": "multilabel"}, "y holds one class a row, wanted a table with loss='multilabel'"),
            ({"y": np.zeros(30)}, "y holds one class, wanted at least two classes"),
            ({"loss": "ordinal", "y": X[:, 0]}, "Unknown label type: continuous"),
            ({"loss": "ordinal", "cost": np.ones((3, 3))}, "cost is given, wanted None with the loss 'ordinal'"),
            ({"cost": np.ones((2, 2)), "y": TABLE}, "cost is given, wanted None with the loss 'multilabel'"),
            ({"cost": np.ones((2, 2))}, "cost has shape (2, 2), wanted (3, 3)"),
        ],
        name="LinearRisk",
    ),
)
