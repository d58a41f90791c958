"""What the family refuses: data, labels that are forbidden or not known, and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np

from convexstruct.families.log_linear import (
    LBFGS,
    ApproximateField,
    BoltzmannTraining,
    ConditionalRandomField,
    DoubleLoop,
    HiddenField,
    HiddenMarkov,
    ImportanceSampling,
    MarkovRandomField,
    PseudoLikelihood,
    importance_log_partition,
)
from convexstruct.families.log_linear.examples import triangle
from convexstruct.features.graphs.factors import read_factors, tabular_factors
from tests.refusals import Door, Words

TRIANGLE = triangle((1.5, 0.3)).factors
PATH, UNEQUAL = tabular_factors(nx.path_graph(3), 2), tabular_factors(nx.path_graph(3), [2, 3, 2])
#: No pair of labels (0, 1): along a path from left to right labels never rise.
RISING = np.array([[False, True], [False, False]])
#: Sets of labels of two samples: of the second no label of the last variable.
SETS = np.ones((2, 3, 3), dtype=bool)
SETS[:, [0, 2], 2] = SETS[1, 2] = False

#: Of whatever reads samples of factors.
SAMPLES: list[tuple[dict[str, Any], Words]] = [
    ({"samples": np.zeros((0, 3), int)}, "samples is empty"),
    ({"samples": [[0, 1]]}, "one row a sample, one label a variable"),
    ({"samples": [[0, 2, 0]]}, "samples has label 2 of variable 1, wanted labels below 2"),
    ({"samples": [[0, -1, 1]]}, ("samples[0, 1] is -1, ", "HiddenField and LatentSVM take labels that are not known")),
    ({"samples": [[0, -2, 1]]}, "samples[0, 1] is -2, wanted a whole number of at least 0"),
    ({"weights": [0.0]}, "weights holds 0, wanted positive"),
    ({"l1": -1.0}, "l1 is -1.0, wanted a number of at least 0"),
    ({"lam": 1.0, "C": 1.0}, "exactly one of C, C_mean, lam, beta"),
    ({"factors": "grid"}, "factors is 'grid', wanted Factors"),
    ({"forbidden": [[True, False, False]]}, "forbidden has shape (1, 3), wanted (2, 2): one entry a pair of labels"),
    ({"forbidden": [[1, 0], [0, 0]]}, "forbidden holds int64, wanted True and False"),
    ({"forbidden": [((0, 1), [[True], [False]])]}, "forbidden[0][1] has shape (2, 1), wanted (2, 2)"),
    ({"forbidden": [((0, 7), RISING)]}, "forbidden[0][0] names variable 7, wanted variables from 0 to 2"),
    ({"forbidden": [((1, 1), RISING)]}, "forbidden[0][0] names a variable twice"),
    ({"forbidden": RISING.T}, "samples[0] has labels (1, 0) of variables (1, 2), which are forbidden"),
    ({"factors": UNEQUAL, "forbidden": RISING}, ("forbidden is no list of pairs", "wanted one where variables have")),
]
COUNTS = [np.ones((2, 2))] * 3


def reads(read: Callable[..., object], *more: tuple[dict[str, Any], Words]) -> Door:
    return Door(read, {"factors": PATH, "samples": [[1, 1, 0]]}, [*SAMPLES, *more], names=("samples",))


REFUSALS = (
    reads(MarkovRandomField.read, ({"samples": None}, "data are none, wanted exactly one of samples, counts, moments")),
    reads(ApproximateField.read),
    reads(
        PseudoLikelihood.read,
        ({"targets": [3]}, "targets"),
        ({"targets": [False] * 3}, "targets is empty, wanted at least one variable"),
    ),
    Door(
        MarkovRandomField.read,
        {"factors": TRIANGLE, "moments": [1.5, 0.3]},
        [
            ({"counts": []}, "data are counts, moments, wanted exactly one"),
            ({"weights": [1.0]}, "weights are given with moments"),
            ({"moments": [3.5, 0.0]}, "moments are those of no distribution: moments[0] (variables (0, 1) with la"),
            ({"moments": [1.0, -0.1]}, "moments are those of no distribution: moments[1]"),
        ],
        "a field of moments",
    ),
    Door(
        MarkovRandomField.read,
        {"factors": TRIANGLE, "counts": COUNTS},
        [
            ({"counts": COUNTS[:1]}, "counts is a list of 1, wanted a list of 3 tables, one a factor"),
            ({"counts": [*COUNTS[:2], 2 * COUNTS[2]]}, "counts[2] sum to 8 and counts[0]"),
            ({"counts": [-one for one in COUNTS]}, "counts[0] has -1, wanted numbers of at least 0"),
            (
                {"factors": read_factors([2, 2], [[0], [0, 1]]), "counts": [[3.0, 1.0], [[1.0, 1.0], [1.0, 1.0]]]},
                ("moments are those of no distribution: ", "variables (0,) with labels"),
            ),
            (
                {
                    "factors": PATH,
                    "counts": [*[[1, 1]] * 3, [[1, 1], [0, 0]], [[1, 0], [1, 0]]],
                    "forbidden": RISING,
                },
                "counts[3] counts forbidden labels of variables (0, 1), wanted 0 of them",
            ),
            ({"forbidden": np.ones((2, 2), dtype=bool)}, "forbidden leaves no joint label, wanted at least one that"),
            (
                {"factors": tabular_factors(nx.complete_graph(21), 2)},
                ("tree width 19 or more", "use pseudolikelihood, contrastive divergence"),
            ),
        ],
        "a field of counts",
        names=("moments", "exact inference"),
    ),
    Door(
        ConditionalRandomField.read,
        {"node_features": [np.ones((2, 1)), np.zeros((1, 1))], "labels": [[0, 1], [1]], "n_labels": 2},
        [
            ({"C": 1.0, "lam": 1.0}, "exactly one of C, C_mean, lam, beta, got C, lam"),
            ({"l1": -1.0}, "l1 is -1"),
            ({"weights": [1.0]}, "weights has shape"),
            ({"forbidden": [True]}, "forbidden has shape"),
            ({"forbidden": RISING}, "forbidden[0, 1] is True, but the true labels of example 0 have this pair"),
        ],
        names=("labels",),
    ),
    Door(
        HiddenField.conditional,
        {"node_features": [np.ones((2, 1))], "allowed": [[0, -1]], "n_labels": 2},
        [
            ({"allowed": [[[True, True], [False, False]]]}, "allowed[0] allows no label at node 1, wanted at least"),
            (
                {"allowed": [np.eye(2, dtype=bool)], "forbidden": RISING},
                "allowed[0] and forbidden leave no labelling of example 0",
            ),
            ({"allowed": [[0, 2]]}, "allowed[0]"),
        ],
    ),
    Door(
        HiddenField.unconditional,
        {"factors": UNEQUAL, "samples": [[0, -1, 1]]},
        [
            ({"samples": [[0, 3, 0]]}, "wanted labels below 3"),
            ({"samples": np.ones((2, 3, 3), dtype=bool)}, "samples allows labels of variable 0 that it has not"),
            ({"samples": SETS}, "samples[1] allows no label of variable 2, wanted at least one"),
            (
                {"factors": PATH, "samples": [[-1, -1, -1], [0, -1, 1]], "forbidden": RISING},
                "samples[1] leaves forbidden labels only, wanted one labelling that is no",
            ),
        ],
    ),
    Door(
        HiddenMarkov.read,
        {"symbols": [[0, 1]], "n_states": 2, "n_symbols": 2},
        [
            ({"symbols": [[[0, 1]]]}, "2 channels, wanted one symbol a step"),
        ],
        names=("sequences",),
    ),
    Door(
        importance_log_partition,
        {"factors": PATH, "theta": np.zeros(14), "n": 5},
        [
            ({"n": 1}, "n is 1"),
            ({"temperatures": 0}, "temperatures is 0"),
            ({"theta_0": [1.0]}, "theta_0 has shape"),
        ],
    ),
    Door(
        MarkovRandomField.read(PATH, [[1, 1, 0]], forbidden=RISING, beta=1.0).predict,
        {"point": np.zeros(14), "examples": [[1, -1, 0]]},
        [
            ({"examples": [[0, 1, -1]]}, "examples[0] leaves forbidden labels only"),
            ({"examples": [[0, 2, 0]]}, "label 2 of variable 1"),
            ({"examples": [[0, 1]]}, "-1 where it is to be"),
        ],
        "a field's predict",
    ),
    Door(
        lambda data: next(BoltzmannTraining(2, epochs=1).train(data)),
        {"data": [[0.0, 1.0]]},
        [
            ({"data": np.zeros((0, 3))}, "data is empty"),
            ({"data": [[0.0, 2.0]]}, "data holds 2, wanted numbers from 0 to 1"),
        ],
        "BoltzmannTraining.train",
    ),
    Door(BoltzmannTraining, {"n_hidden": 2}, [({"momentum": 1.0}, "momentum is 1"), ({"k": 0}, "k is 0")]),
    Door(DoubleLoop, {}, [({"entropy": "exact"}, "entropy is 'exact'"), ({"damping": 1.0}, "damping is 1.0")]),
    Door(ImportanceSampling, {}, [({"samples": 1}, "samples is 1, wanted"), ({"renew": 1.0}, "renew is 1")]),
    Door(LBFGS, {}, [({"restarts": 0}, "restarts is 0, wanted"), ({"metric": "full"}, "metric is 'full'")]),
)
