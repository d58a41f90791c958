"""What the formulations of structural SVMs refuse."""

from __future__ import annotations

from typing import Any

import networkx as nx

from convexstruct.families.structured_svm.oracle_cases import matching
from convexstruct.models.structured_svm import (
    associative,
    dual_kernel,
    local_relaxation,
    marginals,
    matrix_form,
    some_labellings,
)
from tests.models.structured_svm.instances import COSTS, svm, tree
from tests.refusals import Door

GRID = nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 5))
MATCHING: Any = matching(0).problem
TRUTHS = [[each.y] for each in MATCHING.features.examples]
SUMS = "wanted margin scaling and a loss that is a sum over nodes: use 'n_slack' or 'n_slack_cuts'"

REFUSALS = (
    Door(
        marginals,
        {"problem": svm(0)},
        [
            ({"problem": svm(0, scaling="slack")}, f"marginals came with slack scaling, {SUMS}"),
            ({"problem": svm(0, loss="zero_one")}, f"marginals came with the zero-one loss, {SUMS}"),
            ({"problem": svm(0, graphs=(GRID,), n_labels=8)}, ("tree width", "relaxed")),
        ],
        names=("marginals", "example 0"),
    ),
    Door(
        local_relaxation,
        {"problem": svm(0)},
        [({"problem": svm(0, scaling="slack")}, f"local_relaxation came with slack scaling, {SUMS}")],
        names=("local_relaxation",),
    ),
    Door(
        associative,
        {"problem": svm(0, associative=True)},
        [
            ({"problem": svm(0)}, "a network that is not, wanted StructuredSVM.read(..., associative=True)"),
            ({"problem": svm(0, associative=True, loss="zero_one")}, "associative came with the zero-one loss, wanted"),
        ],
        names=("associative",),
    ),
    Door(
        dual_kernel,
        {"problem": svm(0)},
        [({"problem": svm(0, lengths=(7,))}, ("2187 labellings, wanted at most 1500", "'n_slack_cuts'"))],
        names=("examples",),
    ),
    Door(
        matrix_form,
        {"problem": svm(0)},
        [
            ({"problem": problem}, (f"without {why}", "use 'marginals'"))
            for problem, why in (
                (svm(0, graphs=(tree(0),)), "chains"),
                (svm(0, n_edge_features=2), "chains whose edges share one table"),
                (svm(0, associative=True), "chains whose edges share one table"),
                (svm(0, loss=COSTS), "the Hamming loss"),
                (svm(0, loss="zero_one"), "the Hamming loss"),
                (svm(0, lengths=(1600,)), "at most 1500 nodes"),
            )
        ],
    ),
    Door(
        some_labellings,
        {"problem": MATCHING, "labellings": TRUTHS},
        [
            ({"labellings": [[]] * 5}, "labellings has no labelling at all"),
            ({"labellings": [[]]}, "labellings has 1 entries, wanted 5"),
        ],
    ),
)
