"""Mutants of solvers of the reduced SDP, each wrong on purpose by one plausible slip: verification must fail them all.

Each is the package's own solver on a problem with one thing changed, or returns something else than its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.unsupervised_margin import MarginLabelling, PermutationInvariantMargin, UnsupervisedMargin
from convexstruct.tolerances import HIGH
from tests.mutants import ABOVE, TOO_GOOD, Mutant, honest


def one_way(problem: UnsupervisedMargin) -> Any:
    """(11) at the current rows alone, as consistency is printed in (8)."""
    both = np.stack((problem.current, problem.current), axis=1)
    return honest(replace(problem, pairs=both)).point


def no_row_sums(problem: UnsupervisedMargin) -> Any:
    """Without C e = e and D e = e: M and N are semidefinite, and M - 11'/kappa need not be."""
    many = 2 * problem.n_labels
    moved = [
        balance + 1 / kappa - 1 / more
        for balance, kappa, more in (
            (problem.label_balance, problem.n_labels, many), (problem.pair_balance, problem.n_labels**2, many**2)
        )
    ]  # fmt: skip
    return honest(replace(problem, n_labels=many, label_balance=moved[0], pair_balance=moved[1])).point


def from_c(problem: UnsupervisedMargin) -> Any:
    """M and N that C = 1/kappa and D = 1/kappa^2 make: those of independent uniform labels."""
    kappa = problem.n_labels
    found = {}
    for name, size, share in (("M", problem.n_rows, 1 / kappa), ("N", problem.n_pairs, 1 / kappa**2)):
        found[name] = np.full((size, size), share)
        np.fill_diagonal(found[name], 1.0)
    return found


def no_transitions(problem: UnsupervisedMargin) -> Any:
    """M as if there were no pairs, N the largest that (11) allows."""
    alone = replace(problem, pairs=np.zeros((0, 2), dtype=np.intp))
    m = honest(alone).point["M"]
    return {"M": m, "N": np.minimum(*problem.feasible.at_pairs(m))}


def taken_blindly(problem: MarginLabelling) -> Any:
    """A move is accepted whatever it does to the loss: every row takes the label of the row before it."""
    moved = np.roll(honest(problem).point["labels"], 1)
    return {"labels": moved, "w": honest(problem.machine(moved)).point["w"]}


def claims_optimal(problem: MarginLabelling) -> Any:
    """A start that the alternation does not leave, with its own loss as the lower bound."""
    labels = problem.trivial()[0]["labels"]
    found = solve(problem.machine(labels), tol=HIGH)
    point = {"labels": labels, "w": found.point["w"]}
    claimed = replace(found.certificate, lower_bound=found.primal, gap=0.0)
    return replace(found, point=point, dual_point={}, certificate=claimed, status=Status.OPTIMAL)


def one_half(problem: PermutationInvariantMargin) -> Any:
    """lambda = 1/2 in place of the maximum: the multiclass SDP of two labels."""
    n = problem.problem.n_rows
    return {**honest(problem.problem).point, "x": np.full(n, 0.5), "z": np.zeros(2 * n)}


def solves(**changes: Any) -> Callable[[Any], Any]:
    """The answer for other data: ``changes`` are what their fields are replaced by, as functions of the data."""

    def solver(problem: UnsupervisedMargin | PermutationInvariantMargin) -> Any:
        data = problem if isinstance(problem, UnsupervisedMargin) else problem.problem
        other = replace(data, **{name: of(data) for name, of in changes.items()})
        return honest(other if problem is data else PermutationInvariantMargin(other)).point

    return solver


NO_LABEL_BALANCE, NO_PAIR_BALANCE = solves(label_balance=lambda data: 1.0), solves(pair_balance=lambda data: 1.0)
#: Rows that are alike are put apart.
WRONG_SIGN = solves(features=lambda data: None, kernel=lambda data: -data.gram)
#: Inner products of other rows with the other sign.
APART = solves(features=lambda data: None, kernel=lambda data: 2.0 * np.diag(np.diagonal(data.gram)) - data.gram)
#: beta in place of its half in (3).
WHOLE_BETA = solves(beta=lambda data: 2.0 * data.beta)

MUTANTS: tuple[Mutant, ...] = (
    Mutant("one_way", "(11) at the current rows alone", one_way, "planted-chains", "M and N not tied (11)"),
    Mutant("no_row_sums", "C e = e and D e = e left out", no_row_sums, "centred-points", "M not semidefinite"),
    Mutant("from_c", "M made of C", from_c, "unsupervised-features", ABOVE),
    Mutant(
        "one_label",
        "one label for all rows",
        lambda problem: {name: np.ones_like(each) for name, each in problem.trivial()[0].items()},
        "repeated-point",
        "rows of M out of balance",
    ),
    Mutant("no_label_balance", "(9) of M left out", NO_LABEL_BALANCE, "repeated-point", "rows of M out of balance"),
    Mutant(
        "no_pair_balance", "(9) of N left out", NO_PAIR_BALANCE, "transitions-alone", "rows of N out of balance (9)"
    ),
    Mutant("no_transitions", "E left out", no_transitions, "unsupervised-symbols", ABOVE),
    Mutant("taken_blindly", "moves that raise the loss", taken_blindly, "labelling-groups", ABOVE),
    Mutant("claims_optimal", "OPTIMAL without proof", claims_optimal, "labelling-groups", TOO_GOOD),
    Mutant("wrong_sign", "the kernel's sign", WRONG_SIGN, "two-clusters", ABOVE),
    Mutant("no_balance", "M e of (3) left out", NO_LABEL_BALANCE, "two-class-alike", "rows of M out of balance"),
    Mutant("apart", "the kernel's sign", APART, "two-class-centred", ABOVE),
    Mutant("whole_beta", "beta in place of its half", WHOLE_BETA, "two-class-clusters", ABOVE),
    Mutant("one_half", "no maximum over lambda", one_half, "two-class-similar", ABOVE),
)
