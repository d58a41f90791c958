"""Mutants, solvers that are wrong on purpose, each by one plausible slip: verification must fail every one of them.

Each mutant is our own solver, or a general one, with one thing changed, either in the problem that it is given or in
what it returns. `honest` is the solver unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from convexstruct.arrays import Labels, Vector
from convexstruct.core.driver import solve
from convexstruct.families.generative_margin.constraints import Tied
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.slack_penalties import Quadratic
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.rescaled import LossRescaled
from convexstruct.models.generative_margin.enumerated import MarginRows, primal
from convexstruct.tolerances import HIGH
from tests.mutants import ABOVE, Mutant, common, honest, of_changed, writes_to


def wrong_sign(problem: GenerativeMargin) -> Any:
    """A general solver's answer where the counts of the truth are what must not exceed eps."""
    rows, right = MarginRows(problem), primal(problem)
    theta, eps = right.variables["theta"], right.variables["eps"]
    wrong = right.without("3").adding("3'", -rows.a @ theta + rows.b <= rows.of_example.T @ eps)
    assert wrong.reference("CLARABEL").accurate
    return theta.value


def no_loss(problem: GenerativeMargin) -> Any:
    features = problem.features
    assert isinstance(features, HMMCounts)
    return honest(replace(problem, features=replace(features, loss_table=0.0 * features.loss_table))).point


def no_weights(problem: GenerativeMargin) -> Any:
    features = problem.features
    assert isinstance(features, HMMCounts)
    return honest(replace(problem, features=replace(features, weights=np.ones(len(features.examples))))).point


def no_mask(problem: GenerativeMargin) -> Any:
    features = problem.features
    if isinstance(features, HMMCounts):
        problem = replace(problem, features=replace(features, observed=np.zeros(0, dtype=np.intp)))
    return honest(problem).point


def mean_for_sum(problem: GenerativeMargin) -> Any:
    return honest(replace(problem, eta=problem.eta / problem.n_examples)).point


def no_normalisation(problem: GenerativeMargin) -> Any:
    """Every block sums to 1.01."""
    return honest(problem).point["theta"] + np.log(1.01)


def likelihood(problem: GenerativeMargin) -> Any:
    """The point of maximum likelihood, smoothed, which does not minimise P."""
    theta = np.log(problem.c + problem.eta * problem.truth_counts)
    return theta - problem.layout.block_logsumexp(theta)[problem.layout.block_of]


def transposed(problem: GenerativeMargin) -> Any:
    """Transitions read as [current, previous]."""
    theta = honest(problem).point["theta"].copy()
    table = problem.layout.tables(theta).get("transition")
    if table is not None:
        table[:] = table.T.copy()
    return problem.shift(theta)


def one_block_late(problem: GenerativeMargin) -> Any:
    """An index off by one: every entry is in the place of the next one."""
    return problem.shift(np.roll(honest(problem).point["theta"], 1))


def twice_the_square(problem: GenerativeMargin) -> Any:
    """kappa eps^2 stands for kappa eps^2 / 2."""
    assert isinstance(problem.h, Quadratic)
    return honest(replace(problem, h=replace(problem.h, kappa=2.0 * problem.h.kappa))).point


def untied(problem: GenerativeMargin) -> Any:
    kept = [piece for piece in problem.constraints or () if not isinstance(piece, Tied)]
    return honest(replace(problem, constraints=kept)).point


def floor_of_probability(problem: GenerativeMargin) -> Any:
    """A floor that is meant for theta is taken for one of e^theta: it is clipped, and then normalised."""
    theta = np.maximum(honest(replace(problem, constraints=None)).point["theta"], -1.5)
    return theta - problem.layout.block_logsumexp(theta)[problem.layout.block_of]


class DecodesOnce(LossRescaled):
    """The labelling that violates most where the loss does not rescale the slacks, taken for that where it does."""

    def best(self, theta: Vector, loss_weight: float = 1.0) -> tuple[Vector, Labels]:
        labels = self.features.best(theta, loss_weight)[1]
        return self.counts_each(labels) @ theta + loss_weight * self.loss(labels), labels


def decodes_once(problem: GenerativeMargin) -> Any:
    wrong = replace(problem)
    wrong.__dict__["margins"] = DecodesOnce(problem.features)
    return solve(wrong, tol=HIGH).point


MUTANTS: tuple[Mutant, ...] = (
    Mutant("wrong_sign", "the margin term has the wrong sign", wrong_sign, "hmm-enumerated", ABOVE),
    # The note names the mistake on an Intel Xeon and did not on an AMD EPYC.
    Mutant("no_loss", "the loss of (3) is forgotten", no_loss, "hmm-enumerated", ABOVE, "without the loss", may=True),
    Mutant("no_weights", "the examples' weights are forgotten", no_weights, "hmm-weights", ABOVE, "weights of 1"),
    Mutant("no_mask", "observed states are decoded too", no_mask, "hmm-hidden-masks", ABOVE, "observed states decoded"),
    Mutant("mean_for_sum", "eta weighs the mean of the slacks", mean_for_sum, "hmm-planted", ABOVE, "eta / K"),
    Mutant(
        "no_normalisation", "(4) is dropped", no_normalisation, "hmm-planted", "infeasible: (4)", "sums of its blocks"
    ),
    Mutant("likelihood", "the likelihood is maximised instead", likelihood, "hmm-enumerated", ABOVE),
    Mutant("transposed", "the transition table is transposed", transposed, "hmm-enumerated", ABOVE),
    Mutant("one_block_late", "the answer is shifted by one entry", one_block_late, "network-mixed", ABOVE),
    Mutant(
        "changed_input",
        "it writes to its input",
        writes_to(lambda problem: problem.c),
        "hmm-planted",
        "changes its input",
    ),
    Mutant("linear_slacks", "h is linear", of_changed(h=None), "hmm-quadratic-slacks", ABOVE, "with the linear h"),
    Mutant("twice_the_square", "kappa eps^2, without the half", twice_the_square, "hmm-quadratic-slacks", ABOVE),
    Mutant(
        "no_limits", "(30) is dropped", of_changed(constraints=None), "hmm-huber-floor", "infeasible", "without the"
    ),
    Mutant("untied", "tied entries are left free", untied, "hmm-exponential-ball", "infeasible"),
    Mutant("floor_of_probability", "the floor is applied last", floor_of_probability, "hmm-huber-floor", "infeasible"),
    Mutant("no_cap", "no cap", of_changed(h=None), "hmm-capped", "infeasible: slacks above their cap", "the linear h"),
    Mutant(
        "not_rescaled", "no slack is rescaled", of_changed(rescaled=None), "hmm-rescaled", ABOVE, "without rescaling"
    ),
    Mutant("decodes_once", "one decoding for all losses", decodes_once, "hmm-rescaled", ABOVE),
    Mutant("no_term", "f is left out", of_changed(f=None), "hmm-pulled", ABOVE, "without f"),
    *common(
        loosened_bound="hmm-enumerated",
        flattered_value="hmm-enumerated",
        shares_above_one="hmm-planted",
        stops_early="hmm-enumerated",
        not_a_number="hmm-planted",
    ),
)
