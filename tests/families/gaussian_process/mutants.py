"""Solvers of the kernel CRF (32) that are wrong on purpose, each by one plausible slip; verification must name them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.oracles.chain.chain import viterbi
from convexstruct.tolerances import HIGH
from tests.mutants import ABOVE, Mutant, common, honest, instead, writes_to


def wrong_sign(problem: GaussianProcessSequences) -> Any:
    """<z, Ku> is added, not subtracted."""
    return -honest(problem).point["u"]


def no_transitions(problem: GaussianProcessSequences) -> Any:
    u = honest(replace(problem, eta=0.0)).point["u"].copy()
    problem.split(u)[1][:] = 0.0
    return u


def transposed(problem: GaussianProcessSequences) -> Any:
    """Transitions read as [current, previous]."""
    u = honest(problem, HIGH).point["u"].copy()
    transition = problem.split(u)[1]
    transition[:] = transition.T.copy()
    return u


def scores_for_coefficients(problem: GaussianProcessSequences) -> Any:
    """t = K u is handed back in place of u."""
    return problem.multiply(honest(problem).point["u"])


def repeats_counted_again(problem: GaussianProcessSequences) -> Any:
    """Coefficients of an input that repeats are multiplied by how often it does."""
    u = honest(problem, HIGH).point["u"].copy()
    problem.split(u)[0][:] *= np.bincount(problem.places, minlength=problem.n_inputs)[:, None]
    return u


def one_for_all_positions(problem: GaussianProcessSequences) -> Any:
    """The stationary problem's coefficients, shared out among the positions at which an input stands."""
    whole = replace(problem, stationary=True)
    label, transition = whole.split(honest(whole).point["u"])
    inputs = np.concatenate(problem.blocks)
    often = np.bincount(inputs, minlength=len(label))[inputs]
    shared = [transition / problem.transitions[0]] * problem.transitions[0]
    return np.concatenate(((label[inputs] / often[:, None]).ravel(), np.ravel(shared)))


def best_labelling(problem: GaussianProcessSequences) -> Any:
    """Counts of the best labelling in place of expected counts: a perceptron, not (32)."""
    u = np.zeros(problem.dimension)
    for step in range(1, 200):
        label, transition = problem.split(problem.multiply(u))
        found = viterbi(problem.chains, label[problem.packed_places], np.ascontiguousarray(transition))[1]
        decoded = replace(problem, labels=found[problem.chains.flat])
        u = u + ((problem.truth - decoded.truth) / problem.lam - u) / step
    return u


def jitter(problem: GaussianProcessSequences) -> Any:
    """A tenth of the mean variance is added to the diagonal of the Gram matrix, so that it can be inverted."""
    matrix = problem.gram.matrix
    ridge = 0.1 * np.trace(matrix) / len(matrix)
    return honest(replace(problem, gram=replace(problem.gram, matrix=matrix + ridge * np.eye(len(matrix))))).point


def empty_witness(problem: GaussianProcessSequences) -> Any:
    solution = honest(problem)
    return replace(solution, dual_point={"u": np.full(problem.dimension, np.inf)})


MUTANTS: tuple[Mutant, ...] = (
    Mutant("wrong_sign", "the data term has the wrong sign", wrong_sign, "gp-enumerated", ABOVE, "is a sign wrong"),
    Mutant(
        "twice_the_prior", "the 1/2 of the prior is forgotten", instead(lam=lambda problem: 2.0 * problem.lam),
        "gp-enumerated", ABOVE, "twice the prior",
    ),
    Mutant(
        "mean_for_sum", "the likelihood is a mean, not a sum",
        instead(lam=lambda problem: problem.lam * len(problem.lengths)), "gp-planted-two", ABOVE, "lam N",
    ),
    Mutant("no_transitions", "transitions are left out", no_transitions, "gp-strong-transitions", ABOVE),
    Mutant("transposed", "the transition table is transposed", transposed, "gp-windows-rbf", ABOVE, "table transposed"),
    Mutant(
        "one_sequence", "a transition from the end of each sequence to the start of the next",
        instead(lengths=lambda problem: np.array([problem.lengths.sum()])), "gp-length-one", ABOVE, "one long sequence",
    ),
    Mutant(
        "scores_for_coefficients", "t = Ku is returned", scores_for_coefficients, "gp-planted-three", ABOVE, "t = K u"
    ),
    Mutant(
        "repeats_counted_again", "repeats count twice", repeats_counted_again, "gp-windows-linear", ABOVE,
        "divided by how often",
    ),
    Mutant(
        "one_for_all_positions", "one function for all positions, where each has its own", one_for_all_positions,
        "gp-by-position", ABOVE,
    ),
    Mutant("best_labelling", "the best labelling stands for the mean", best_labelling, "gp-polynomial", ABOVE),
    Mutant("jitter", "the Gram matrix is made invertible first", jitter, "gp-singular", ABOVE),
    Mutant("empty_witness", "the witness is infinite", empty_witness, "gp-flat", "proves nothing"),
    Mutant("changed_input", "it writes to its input", writes_to(lambda problem: problem.labels),
           "gp-planted-two", "changes its input"),
    *common(
        loosened_bound="gp-enumerated",
        flattered_value="gp-enumerated",
        borrowed_bound="gp-enumerated",
        stops_early="gp-weak-prior",
        not_a_number="gp-planted-two",
    ),
)  # fmt: skip
