"""Mutants of structural SVM solvers, each wrong on purpose by one plausible slip: verification must fail them all.

Each is the package's own solver, or a formulation of ``convexstruct.models``, with one thing changed: in the problem it
is given (weights dropped, the other scaling), in its equations (one taken out), or in what it returns. `honest` is
the solver unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.core.scale import Scale
from convexstruct.families.structured_svm.latent import LatentSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from tests.mutants import (
    ABOVE,
    TOO_GOOD,
    Mutant,
    flattered_value,
    honest,
    loosened_bound,
    not_a_number,
    shares_above_one,
    write_to,
)


def _stated(problem: StructuredSVM, name: str, *without: str) -> Any:
    """A formulation with some equations taken out, solved; its w, and the optimum its solver claims."""
    from convexstruct.models import FORMULATIONS

    formulation = FORMULATIONS[f"structured_svm.{name}"].builder(problem).without(*without)
    claimed = formulation.reference().value
    parts = [formulation.variables[key].value for key in ("w", "w_node", "w_edge") if key in formulation.variables]
    return {"w": np.concatenate([np.ravel(part) for part in parts])}, claimed


# -- another problem ---------------------------------------------------------------------------------------------------


def wrong_sign(problem: StructuredSVM) -> Any:
    """df = f(x, y) - f(x, y_i): the same optimum, at -w."""
    return {"w": -honest(problem).point["w"]}


def no_loss(problem: StructuredSVM) -> Any:
    """max_y <w, f(x, y)> - <w, f(x, y_i)>, the perceptron's: its optimum is w = 0."""
    return honest(replace(problem, loss=replace(problem.loss, costs=np.zeros_like(problem.loss.costs)))).point


def no_weights(problem: StructuredSVM) -> Any:
    return honest(replace(problem, weights=np.ones_like(problem.weights))).point


def slack_as_margin(problem: StructuredSVM) -> Any:
    return honest(replace(problem, scaling="margin")).point


def margin_as_slack(problem: StructuredSVM) -> Any:
    return honest(replace(problem, scaling="slack")).point


def constant_margin(problem: StructuredSVM) -> Any:
    """A margin of 1 whatever the labelling."""
    return honest(replace(problem, loss=replace(problem.loss, zero_one=True))).point


def swapped_scale(problem: StructuredSVM) -> Any:
    return honest(replace(problem, scale=Scale(problem.scale.C, problem.lam))).point


def mean_for_sum(problem: StructuredSVM) -> Any:
    return honest(replace(problem, scale=Scale(problem.lam, problem.scale.C / problem.n_examples))).point


def whole_square(problem: StructuredSVM) -> Any:
    """lam |w|^2 where lam/2 |w|^2 is wanted."""
    return honest(replace(problem, scale=Scale(2.0 * problem.lam, problem.scale.C))).point


def transposed_cost(problem: StructuredSVM) -> Any:
    """cost[predicted, true]: rows of the cost matrix, as far as the true labels show them, read as columns."""
    size, costs = problem.features.n_labels, problem.loss.costs
    matrix = np.zeros((size, size))
    matrix[problem.loss.truth] = costs
    return honest(replace(problem, loss=replace(problem.loss, costs=matrix.T[problem.loss.truth]))).point


def no_edges(problem: StructuredSVM) -> Any:
    """Every node is trained alone, and the transitions get weight 0."""
    features = problem.features
    alone = StructuredSVM.read(
        features.node_features, np.split(features.truth, features.node_start[1:-1]), features.n_labels,
        edges="none", weights=problem.weights, C=problem.scale.C / problem.lam,
    )  # fmt: skip
    return {"w": np.pad(honest(alone).point["w"], (0, problem.dimension - alone.dimension))}


# -- equations left out ------------------------------------------------------------------------------------------------


def one_way(problem: StructuredSVM) -> Any:
    """(5) of paper 3 as printed: nu agrees with mu at the later position of each pair alone."""
    return _stated(problem, "marginals", "5.3")[0]


def one_way_bound(problem: StructuredSVM) -> Any:
    """The same, and its optimum is returned as a lower bound of the problem."""
    return {"point": honest(problem).point, "lower_bound": _stated(problem, "marginals", "5.3")[1]}


def negative_slack(problem: StructuredSVM) -> Any:
    """Slack scaling without xi >= 0, as on the slides."""
    return _stated(problem, "n_slack", "xi")[0]


def unsigned(problem: StructuredSVM) -> Any:
    """w_edge >= 0 is forgotten."""
    return _stated(problem, "n_slack", "sign")[0]


def clipped(problem: StructuredSVM) -> Any:
    """w_edge >= 0 is left out, and negative entries are set to 0 at the end."""
    return {"w": problem.project(unsigned(problem)["w"])}


def relaxed_bound(problem: StructuredSVM) -> Any:
    """The optimum over the local polytope of graphs with cycles, which is larger, is returned as a lower bound."""
    return {"point": honest(problem).point, "lower_bound": _stated(problem, "local_relaxation")[1]}


# -- what is returned --------------------------------------------------------------------------------------------------


def another_witness(problem: StructuredSVM) -> Any:
    """The bound is right; the alpha returned with it is not the one that proves it."""
    solution = honest(problem)
    rows = np.tile(problem.features.truth, (1, 1))
    witness = {"labels": rows, "label_shares": np.ones((1, problem.n_examples))}
    return {"point": solution.point, "dual_point": witness, "lower_bound": solution.lower_bound}


def transposed_transitions(problem: StructuredSVM) -> Any:
    """[current, previous], as paper 3 has it."""
    node, edge = problem.features.split(honest(problem).point["w"])
    return {"w": np.concatenate((node.ravel(), edge.transpose(0, 2, 1).ravel()))}


def transposed_nodes(problem: StructuredSVM) -> Any:
    """w_node as (F, S)."""
    node, edge = problem.features.split(honest(problem).point["w"])
    return {"w": np.concatenate((node.T.ravel(), edge.ravel()))}


def nodes_only(problem: StructuredSVM) -> Any:
    """The transitions are not returned."""
    return honest(problem).point["w"][: problem.features.n_node_weights]


def stops_early(problem: StructuredSVM) -> Any:
    """w = 0, where cutting planes start, and where exponentiated gradient that starts on the truth stays."""
    return np.zeros(problem.dimension)


def changed_input(problem: StructuredSVM) -> Any:
    """Writes to the features in place."""
    x = problem.features.node_features
    write_to(x.data if sp.issparse(x) else x)
    return honest(problem).point


def completes_at_random(problem: LatentSVM) -> Any:
    """Labels are completed by no score, so that the loss rises from the convex step before."""
    drawn = np.where(problem.known, np.random.default_rng(0).random(problem.known.shape), -1.0).argmax(axis=1)
    return honest(problem.machine(drawn)).point


def latent_as_first(problem: LatentSVM) -> Any:
    """A latent label is taken for the first that is allowed."""
    return honest(problem.machine(problem.known.argmax(axis=1))).point


def latent_bound(problem: LatentSVM) -> Any:
    """The convex bound's own lower bound, of a completion that is none of the best, claimed for P."""
    found = honest(problem.machine(problem.known.argmax(axis=1)))
    claimed = replace(found.certificate, gap=0.0)
    return replace(found, dual_point={}, certificate=claimed)


MUTANTS: tuple[Mutant, ...] = (
    Mutant("wrong_sign", "df has the wrong sign", wrong_sign, "svm-enumerated", ABOVE, "is a sign wrong"),
    Mutant("no_loss", "the loss is left out of the margin", no_loss, "svm-planted", ABOVE, "where solvers start"),
    Mutant("no_weights", "the examples' weights are forgotten", no_weights, "svm-costs", ABOVE, "weights of 1"),
    Mutant(
        "slack_as_margin",
        "losses shift the margin, not the slack",
        slack_as_margin,
        "svm-slack",
        ABOVE,
        "with margin scaling",
    ),
    Mutant(
        "margin_as_slack",
        "losses scale the slack, not the margin",
        margin_as_slack,
        "svm-enumerated",
        ABOVE,
        "with slack scaling",
    ),
    Mutant(
        "constant_margin", "a margin of 1 for every labelling", constant_margin, "m3n-theorem-1", ABOVE, "a margin of 1"
    ),
    Mutant("swapped_scale", "C and lam are mixed up", swapped_scale, "svm-slack", ABOVE, "lam and C exchanged"),
    Mutant("mean_for_sum", "C / N where C is wanted", mean_for_sum, "svm-nodes", ABOVE, "C / N"),
    Mutant("whole_square", "lam |w|^2 for lam/2 |w|^2", whole_square, "svm-planted", ABOVE, "twice the penalty"),
    Mutant(
        "transposed_cost",
        "the cost matrix is transposed",
        transposed_cost,
        "svm-slack-costs",
        ABOVE,
        "cost matrix transposed",
    ),
    Mutant("no_edges", "every node is trained for itself", no_edges, "m3n-chains", ABOVE, "without edges"),
    Mutant("one_way", "paper 3's (5) as printed", one_way, "m3n-theorem-1", ABOVE),
    Mutant("one_way_bound", "its optimum claimed as a bound", one_way_bound, "m3n-planted", TOO_GOOD),
    Mutant("negative_slack", "xi >= 0 is not stated", negative_slack, "svm-slack-costs", ABOVE),
    Mutant("unsigned", "w_edge >= 0 is forgotten", unsigned, "amn-planted-signs", "infeasible: w_edge below 0"),
    Mutant("clipped", "w_edge >= 0 is seen to afterwards", clipped, "amn-planted-signs", ABOVE),
    Mutant("relaxed_bound", "a relaxation's optimum claimed as a bound", relaxed_bound, "m3n-triangle", TOO_GOOD),
    Mutant("loosened_bound", "the lower bound is raised by 1%", loosened_bound, "hm-svm", TOO_GOOD),
    Mutant("flattered_value", "the value is lowered by 1%", flattered_value, "m3n-chains", TOO_GOOD),
    Mutant("shares_above_one", "alpha sums to 1.01 C omega", shares_above_one, "svm-ties", "proves nothing"),
    Mutant("another_witness", "its alpha is another", another_witness, "svm-enumerated", "proves only"),
    Mutant(
        "transposed_transitions",
        "[current, previous]",
        transposed_transitions,
        "m3n-theorem-1",
        ABOVE,
        "transitions transposed",
    ),
    Mutant(
        "transposed_nodes", "w_node is transposed", transposed_nodes, "svm-length-one", ABOVE, "node weights transposed"
    ),
    Mutant("nodes_only", "w without its transitions", nodes_only, "svm-enumerated", "wrong shape"),
    Mutant("stops_early", "it stops at its start", stops_early, "svm-examples", ABOVE, "where solvers start"),
    Mutant("changed_input", "it writes to its input", changed_input, "svm-kernel", "changes its input"),
    Mutant("completes_at_random", "a completion that raises the loss", completes_at_random, "latent-chains", ABOVE),
    Mutant(
        "latent_as_first",
        "latent labels are taken for the first allowed",
        latent_as_first,
        "latent-chains",
        ABOVE,
        "the first allowed labels",
    ),
    Mutant("latent_bound", "the bound of a completion is claimed for P", latent_bound, "latent-loops", TOO_GOOD),
    Mutant("not_a_number", "one entry is NaN", not_a_number, "svm-planted-slack", "NaN"),
)
