"""What structural SVMs refuse; `tests/features` has more of the arguments that their readers share."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np

import convexstruct as cs
from convexstruct.families.structured_svm import (
    ColumnGeneration,
    ExcessiveGap,
    ExponentiatedGradient,
    LatentSVM,
    Mira,
    RelaxedMargin,
    StructuredSVM,
)
from convexstruct.families.structured_svm.oracle_cases import matching
from convexstruct.families.structured_svm.solvers.searn import Searn
from convexstruct.features.graphs.pairwise import read_pairwise
from tests.models.structured_svm.instances import svm
from tests.refusals import Door

WIDE = nx.convert_node_labels_to_integers(nx.grid_2d_graph(6, 6))
COSTLY = np.zeros((13, 2))
COSTLY[:, 1] = 0.1 + np.arange(13) ** 0.5
CHAINS, X = svm(0), np.ones((3, 2))
MATCHING: Any = matching(0).problem
TRIANGLE = svm(0, graphs=(nx.cycle_graph(3),))
GIBBS = {"gibbs": np.zeros((1, 15)), "gibbs_loss": np.ones(1), "gibbs_shares": np.ones((1, 4))}
NODES = {"node_marginals": np.full((10, 3), 1 / 3), "edge_marginals": np.full((6, 3, 3), 1 / 9)}
DECOMPOSED = "margin scaling and node losses"
OF_TRIANGLE = {"node_marginals": np.full((3, 3), 1 / 3), "edge_marginals": np.full((3, 3, 3), 1 / 9)}


def answered(answer: Any) -> None:
    """A run in which `best` returns ``answer``."""
    cs.solve(
        cs.StructuredSVM.from_oracle(
            MATCHING.features.joint_feature, MATCHING.features.cost, lambda x, y, w: answer,
            [(each.x, each.y) for each in MATCHING.features.examples[1:2]], C=1.0,
        ),
        max_iterations=3,
    )  # fmt: skip


REFUSALS = (
    Door(
        StructuredSVM.read,
        {"node_features": [np.ones((2, 2)), np.ones((3, 2))], "labels": [[0, 1], [1, 0, 1]], "C": 1.0},
        [
            ({"node_features": None}, ("node_features is None, wanted a list of arrays", "or a kernel")),
            ({"kernel": np.eye(5)}, "node_features and kernel are both given, wanted one of them"),
            ({"node_features": None, "kernel": np.eye(4)}, "kernel has shape (4, 4), wanted (5, 5)"),
            ({"node_features": None, "kernel": np.eye(5), "labels": []}, "labels is empty, wanted a list of one array"),
            ({"C": None}, "the scale needs exactly one of C, C_mean, lam, beta, got none"),
            ({"lam": 1.0}, "the scale needs exactly one of C, C_mean, lam, beta, got C, lam"),
            (
                {"C": 1e-300, "weights": [1.0, 1e-100]},
                "weights has 1e-100, which times C (1e-300) underflows to 0, wanted larger ones",
            ),
            ({"scaling": "both"}, "scaling is 'both', wanted 'margin' or 'slack'"),
            ({"inference": "lp"}, "inference is 'lp', wanted one of exact, minimum_cut, relaxed"),
            ({"inference": "minimum_cut"}, "'minimum_cut' came with a network that is not associative"),
            ({"inference": "minimum_cut", "associative": True, "n_labels": 3}, "came with 3 labels, wanted two"),
            (
                {"inference": "minimum_cut", "associative": True, "scaling": "slack"},
                "inference is 'minimum_cut', which cannot serve slack scaling, wanted 'exact'",
            ),
            (
                {"inference": "relaxed", "loss": "zero_one"},
                "inference is 'relaxed', which cannot serve the zero-one loss, wanted 'exact'",
            ),
            (
                {"node_features": [np.ones((36, 1))], "labels": [np.arange(36) % 8], "edges": [WIDE]},
                ("the graph of example 0, ", "(tree width 6 or more)", "use inference='relaxed' (the local polytope)"),
            ),
            (
                {
                    "node_features": [np.ones((13, 1))],
                    "labels": [[0] * 13],
                    "n_labels": 2,
                    "loss": [COSTLY],
                    "scaling": "slack",
                },
                ("loss has 13 different costs in example 0, ", " of one coarser unit"),
            ),
        ],
        names=("example 0",),
        name="StructuredSVM",
    ),
    Door(
        cs.StructuredSVM.from_oracle,
        {
            "joint_feature": lambda x, y: [1.0],
            "loss": lambda y, z: 0.0,
            "best": lambda x, y, w: [0],
            "examples": [(0, [0]), (1, [0])],
            "C": 1.0,
        },
        [
            ({"joint_feature": 3}, "joint_feature is 3, wanted a function"),
            ({"examples": [(1, [0], 2)]}, "examples[0] is no pair, wanted (x, y)"),
            ({"examples": [(1, [-1])]}, "the labelling of examples[0][0] is -1, wanted"),
            ({"joint_feature": lambda x, y: [math.nan]}, ("joint_feature", "of example 0 contains NaN")),
            ({"joint_feature": lambda x, y: [1.0] * (1 + int(x))}, "of example 1 has shape (2,), wanted"),
            ({"loss": lambda y, z: 1.0}, "loss(y, y) of example 0 is 1, wanted 0"),
            ({"loss": lambda y, z: -1.0}, "of example 0 is -1.0, wanted a number of at least 0"),
        ],
    ),
    Door(
        answered,
        {"answer": [1, 0, 3, 2, 4]},
        [
            ({"answer": [0, 1]}, "the labelling of best of example 0 has shape (2,), wanted"),
            ({"answer": [0, 1, 2, -1, 3]}, "best of example 0[3] is -1, wanted a whole number from 0"),
            ({"answer": ([0, 1, 2, 3, 4], np.nan)}, "the upper bound of best of example 0 is nan, wanted"),
            ({"answer": ([0, 1, 2, 3, 4], 1.0, 2.0)}, "returns 3 things, wanted a labelling or a pair"),
            ({"answer": [0, 0, 1, 2, 3]}, "y is no permutation of 5"),
        ],
        names=("best", "y "),
    ),
    Door(
        LatentSVM.read,
        {"node_features": [np.ones((2, 1))], "allowed": [[0, -1]], "n_labels": 2, "C": 1.0},
        [
            ({"allowed": [[0, 3]]}, "allowed[0][1] is 3, wanted a whole number from -1 to 1"),
            (
                {"allowed": [[[True, False], [False, False]]]},
                "allowed[0] allows no label at node 1, wanted at least one",
            ),
            ({"n_labels": None}, "n_labels is None, wanted the number of labels"),
            ({"loss": "zero_one"}, "loss is 'zero_one', wanted one of hamming, ring or a cost matrix"),
        ],
        name="LatentSVM",
    ),
    Door(
        CHAINS.predict,
        {"point": np.ones(15), "examples": [X]},
        [
            ({"examples": X}, "examples is an array of shape (3, 2) of float64, wanted a list of one table"),
            ({"examples": []}, "node_features is empty, wanted a list of one table of at least one node"),
            ({"examples": [X[:, :1]]}, "node_features[0] has shape (3, 1), wanted (nodes, 2)"),
            ({"examples": {"edges": "chain"}}, "examples has the keys ['edges'], wanted node_features"),
            (
                {"examples": {"node_features": [X], "edges": [[(0, 3)]]}},
                "edges[0][0, 1] is 3, wanted a whole number from 0 to 2",
            ),
            ({"examples": read_pairwise(X, [[0, 1, 0]])}, "examples have 2 labels and 2 node features, wanted 3 and 2"),
            (
                {"examples": read_pairwise(X, [[0, 1, 2]], edge_features=[np.ones((2, 2))])},
                "examples have 2 edge features, wanted edges without features as in training",
            ),
            (
                {"examples": read_pairwise(X, [[0, 1, 2]], associative=True)},
                "examples have associative edges without features, wanted edges without",
            ),
        ],
        names=("edges", "node_features"),
    ),
    *(
        Door(
            problem.dual,
            {"dual_point": {}},
            [({"dual_point": given}, f"{kind!r}] needs {wanted}") for kind, given in kinds.items()],
            name=f"dual of {what}",
        )
        for what, problem, wanted, kinds in (
            ("a triangle", TRIANGLE, "graphs without cycles, wanted 'labels'", {"node_marginals": OF_TRIANGLE}),
            ("slack scaling", svm(0, scaling="slack"), DECOMPOSED, {"gibbs": GIBBS, "node_marginals": NODES}),
            ("the zero-one loss", svm(0, loss="zero_one"), DECOMPOSED, {"gibbs": GIBBS, "node_marginals": NODES}),
        )
    ),
    Door(Searn, {}, [({"beta": 1.5}, "beta is 1.5"), ({"rounds": 0}, "rounds is 0"), ({"gap": -1.0}, "gap is -1.0")]),
    Door(Mira, {}, [({"k": 3}, "k is 3, wanted 1 or"), ({"k": 2, "augmented": True}, "k is 2, wanted 1 or")]),
    Door(ColumnGeneration, {}, [({"steps": 0}, "steps is 0"), ({"stages": -1}, "stages is -1")]),
    *(
        Door(
            lambda problem, solver=solver: next(solver.iterate(problem)),
            {"problem": CHAINS if sound is None else sound},
            [({"problem": problem}, said)],
            names=(type(solver).__name__,),
            name=type(solver).__name__,
        )
        for solver, sound, problem, said in (
            (ExcessiveGap(), None, svm(0, scaling="slack"), "ExcessiveGap needs margin scaling"),
            (ExponentiatedGradient(), None, svm(0, loss="zero_one"), "problem has zero-one loss, wanted margin"),
            (RelaxedMargin(), svm(0, inference="relaxed"), CHAINS, "problem is not the relaxed one"),
        )
    ),
)
