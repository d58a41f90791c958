"""Mutants of structural SVM solvers, each wrong on purpose by one plausible slip: verification must fail them all.

Each is the package's own solver, or a formulation of ``convexstruct.models``, with one thing changed: in the problem it
is given (weights dropped, the other scaling), in its equations (one taken out), or in what it returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.scale import Scale
from convexstruct.families.structured_svm.latent import LatentSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from tests.mutants import ABOVE, TOO_GOOD, Mutant, common, honest, writes_to

Solver = Callable[[Any], Any]


def of_another(change: Callable[[Any], Any]) -> Solver:
    """The solution of another problem."""
    return lambda problem: honest(change(problem)).point


def of_another_loss(**change: Any) -> Solver:
    """The same, with fields of the loss changed, each given as it is or as a function of the problem."""
    return of_another(
        lambda problem: replace(
            problem,
            loss=replace(problem.loss, **{k: v(problem) if callable(v) else v for k, v in change.items()}),
        )
    )


def of_another_scale(lam: Callable[[StructuredSVM], float], C: Callable[[StructuredSVM], float]) -> Solver:
    return of_another(lambda problem: replace(problem, scale=Scale(lam(problem), C(problem))))


def returned(change: Callable[[StructuredSVM, Vector], Any]) -> Solver:
    """The right solution, returned in another form."""
    return lambda problem: {"w": change(problem, honest(problem).point["w"])}


def stated(name: str, *without: str) -> Callable[[StructuredSVM], tuple[Any, float]]:
    """A formulation with some equations taken out, solved: its w, and the optimum that its solver claims."""

    def solved(problem: StructuredSVM) -> tuple[Any, float]:
        from convexstruct.models import FORMULATIONS

        formulation = FORMULATIONS[f"structured_svm.{name}"].builder(problem).without(*without)
        claimed = formulation.reference().value
        parts = [formulation.variables[key].value for key in ("w", "w_node", "w_edge") if key in formulation.variables]
        return {"w": np.concatenate([np.ravel(part) for part in parts])}, claimed

    return solved


def claimed_bound(name: str, *without: str) -> Solver:
    """Our point, and that optimum as a lower bound."""
    return lambda problem: {"point": honest(problem).point, "lower_bound": stated(name, *without)(problem)[1]}


def transposed_costs(problem: StructuredSVM) -> Any:
    """cost[predicted, true]: rows of the cost matrix, as far as the true labels show them, read as columns."""
    size = problem.features.n_labels
    matrix = np.zeros((size, size))
    matrix[problem.loss.truth] = problem.loss.costs
    return matrix.T[problem.loss.truth]


def no_edges(problem: StructuredSVM) -> Any:
    """Every node is trained alone, and the transitions get weight 0."""
    features = problem.features
    alone = StructuredSVM.read(
        features.node_features, features.split_labels(features.truth), features.n_labels,
        edges="none", weights=problem.weights, C=problem.scale.C / problem.lam,
    )  # fmt: skip
    return {"w": np.pad(honest(alone).point["w"], (0, problem.dimension - alone.dimension))}


def another_witness(problem: StructuredSVM) -> Any:
    """The bound is right; the alpha returned with it is not the one that proves it."""
    solution = honest(problem)
    witness = {"labels": problem.features.truth[None], "label_shares": np.ones((1, problem.n_examples))}
    return {"point": solution.point, "dual_point": witness, "lower_bound": solution.lower_bound}


def transposed_transitions(problem: StructuredSVM, w: Vector) -> Any:
    """[current, previous], as paper 3 has it."""
    node, edge = problem.features.split(w)
    return np.concatenate((node.ravel(), edge.transpose(0, 2, 1).ravel()))


def transposed_nodes(problem: StructuredSVM, w: Vector) -> Any:
    """w_node as (F, S)."""
    node, edge = problem.features.split(w)
    return np.concatenate((node.T.ravel(), edge.ravel()))


def completed_at_random(problem: LatentSVM) -> Any:
    drawn = np.where(problem.known, np.random.default_rng(0).random(problem.known.shape), -1.0)
    return problem.machine(drawn.argmax(axis=1))


def completed_as_first(problem: LatentSVM) -> Any:
    return problem.machine(problem.known.argmax(axis=1))


def latent_bound(problem: LatentSVM) -> Any:
    """The convex bound's own lower bound, of a completion that is none of the best, claimed for P."""
    found = honest(completed_as_first(problem))
    return replace(found, dual_point={}, certificate=replace(found.certificate, gap=0.0))


#: w_edge >= 0 is forgotten.
unsigned = stated("n_slack", "sign")

MUTANTS: tuple[Mutant, ...] = (
    Mutant("wrong_sign", "df has the wrong sign: the optimum is at -w", returned(lambda _, w: -w), "svm-enumerated",
           ABOVE, "is a sign wrong"),
    Mutant("no_loss", "the loss is left out of the margin",
           of_another_loss(costs=lambda problem: 0.0 * problem.loss.costs), "svm-planted", ABOVE,
           "where solvers start"),
    Mutant("no_weights", "the examples' weights are forgotten",
           of_another(lambda problem: replace(problem, weights=np.ones_like(problem.weights))), "svm-costs", ABOVE,
           "weights of 1"),
    Mutant("slack_as_margin", "losses shift the margin, not the slack",
           of_another(lambda problem: replace(problem, scaling="margin")), "svm-slack", ABOVE, "with margin scaling"),
    Mutant("margin_as_slack", "losses scale the slack, not the margin",
           of_another(lambda problem: replace(problem, scaling="slack")), "svm-enumerated", ABOVE,
           "with slack scaling"),
    Mutant("constant_margin", "a margin of 1 for every labelling", of_another_loss(zero_one=True), "m3n-theorem-1",
           ABOVE, "a margin of 1"),
    Mutant("swapped_scale", "C and lam are mixed up",
           of_another_scale(lambda problem: problem.scale.C, lambda problem: problem.lam), "svm-slack", ABOVE,
           "lam and C exchanged"),
    Mutant("mean_for_sum", "C / N where C is wanted",
           of_another_scale(lambda problem: problem.lam, lambda problem: problem.scale.C / problem.n_examples),
           "svm-nodes", ABOVE, "C / N"),
    Mutant("whole_square", "lam |w|^2 for lam/2 |w|^2",
           of_another_scale(lambda problem: 2.0 * problem.lam, lambda problem: problem.scale.C), "svm-planted", ABOVE,
           "twice the penalty"),
    Mutant("transposed_cost", "the cost matrix is transposed", of_another_loss(costs=transposed_costs),
           "svm-slack-costs", ABOVE, "cost matrix transposed"),
    Mutant("no_edges", "every node is trained for itself", no_edges, "m3n-chains", ABOVE, "without edges"),
    Mutant("one_way", "paper 3's (5) as printed", lambda problem: stated("marginals", "5.3")(problem)[0],
           "m3n-theorem-1", ABOVE),
    Mutant("one_way_bound", "its optimum claimed as a bound", claimed_bound("marginals", "5.3"), "m3n-planted",
           TOO_GOOD),
    Mutant("negative_slack", "xi >= 0 is not stated", lambda problem: stated("n_slack", "xi")(problem)[0],
           "svm-slack-costs", ABOVE),
    Mutant("unsigned", "w_edge >= 0 is forgotten", lambda problem: unsigned(problem)[0], "amn-planted-signs",
           "infeasible: w_edge below 0"),
    Mutant("clipped", "w_edge >= 0 is seen to afterwards", lambda problem: problem.repair(unsigned(problem)[0]),
           "amn-planted-signs", ABOVE),
    Mutant("relaxed_bound", "a relaxation's optimum claimed as a bound", claimed_bound("local_relaxation"),
           "m3n-triangle", TOO_GOOD),
    Mutant("another_witness", "its alpha is another", another_witness, "svm-enumerated", "proves only"),
    Mutant("transposed_transitions", "[current, previous]", returned(transposed_transitions), "m3n-theorem-1", ABOVE,
           "transitions transposed"),
    Mutant("transposed_nodes", "w_node is transposed", returned(transposed_nodes), "svm-length-one", ABOVE,
           "node weights transposed"),
    Mutant("nodes_only", "w without its transitions",
           returned(lambda problem, w: w[: problem.features.n_node_weights]), "svm-enumerated", "wrong shape"),
    Mutant("stops_early", "it stops at w = 0, where it starts", returned(lambda _, w: 0.0 * w), "svm-examples", ABOVE,
           "where solvers start"),
    Mutant("changed_input", "it writes to its input", writes_to(lambda problem: problem.features.node_features),
           "svm-kernel", "changes its input"),
    Mutant("completes_at_random", "a completion by no score raises the loss", of_another(completed_at_random),
           "latent-chains", ABOVE),
    Mutant("latent_as_first", "latent labels are taken for the first allowed", of_another(completed_as_first),
           "latent-chains", ABOVE, "the first allowed labels"),
    Mutant("latent_bound", "the bound of a completion is claimed for P", latent_bound, "latent-loops", TOO_GOOD),
    *common(
        loosened_bound="hm-svm",
        flattered_value="m3n-chains",
        shares_above_one="svm-ties",
        not_a_number="svm-planted-slack",
    ),
)  # fmt: skip
