r"""Relabel and retrain: the heuristic without semidefinite programming (paper 3, section 5, "ACDHMM"; corrected).

    omega(y) = min_w beta/2 |w|^2 + sum_i H_i(w; y_i),
    H_i(w; y_i) = max_u [Delta(u, y_i) + <w, phi(x_i, u)>] - <w, phi(x_i, y_i)>

is minimised heuristically over labellings y: train the max-margin Markov network on a labelling, replace each
sequence's labels by the network's predictions at that w, and repeat until the labels do not change.

**Proposition 2 is false for structures.** It says that for a fixed network the labelling of least loss is the network's
prediction, so that omega never rises. But the prediction maximises the score without Delta, and H contains Delta, so
that another labelling may have a smaller H. Example: with scores 0 of 00, -1/4 of 01 and of 11, -1 of 10, the
prediction is 00; H(00) = 7/4, attained at u = 11, which differs in two labels, and H(01) = 5/4. The proposition is true
for single positions (univariate, w fixed). For the binary machine it is worded with lambda fixed, and then it does not
hold either, since w = sum_j lambda_j y_j x_j / beta changes with the labels.

**Guarded** (ours): a sequence takes its prediction only if H_i at the present w does not rise. Then with y', w' the
next labelling and weights, omega(y') <= value of y' at w' <= value of y' at w <= value of y at w, and the losses never
rise; the alternation ends at a fixed point. Neither variant excludes the labelling with one label for all positions,
whose loss may be the least of all; `Relabelled.collapsed` reports this case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexstruct.arrays import Labels, Vector
from convexstruct.core.driver import solve
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.supervised import supervised
from convexstruct.tolerances import LOW, Profile
from convexstruct.validation.arguments import flag, whole


@dataclass(frozen=True, eq=False)
class Relabelled:
    """Result and history of the alternation; R is the number of trainings.

    labels (p1,) : the last labelling. w : the weights trained on it.
    labellings (R, p1) : the labelling of each training; the first is the start.
    loss (R,) : certified upper bounds on omega of each: the objective at the w found there. lower (R,) : lower bounds.
    settled : whether it ended at a fixed point; an unguarded run may end by returning to an earlier labelling instead.
    """

    labels: Labels
    w: Vector
    labellings: Labels
    loss: Vector
    lower: Vector
    settled: bool

    @property
    def rises(self) -> int:
        """Number of rounds in which omega has provably risen."""
        return int((self.lower[1:] > self.loss[:-1]).sum())

    @property
    def collapsed(self) -> bool:
        """Whether all positions have one label at the end but not at the start."""
        return bool((self.labels == self.labels[0]).all() and (self.labellings[0] != self.labellings[0][0]).any())


def relabel(
    problem: UnsupervisedMargin,
    labels: Any,
    *,
    guarded: bool = True,
    tol: str | float | Profile = LOW,
    max_rounds: int = 100,
    first: Solution | None = None,
) -> Relabelled:
    """Alternate from ``labels`` (p1,) until they do not change or, if not guarded, an earlier labelling returns.
    ValueError as `supervised`, or if an option makes no sense.

    tol : certified relative gap of each training. max_rounds : trainings, at most.
    first : a solution of ``supervised(problem, labels)`` that replaces the first training.
    """
    guarded, limit = flag("guarded", guarded), whole("max_rounds", max_rounds, least=1)
    machine = supervised(problem, labels)
    solution = solve(machine, tol=tol) if first is None else first
    labellings, loss, lower = [machine.features.truth], [solution.primal], [solution.lower_bound]
    settled = False
    while not settled and len(labellings) < limit:
        before, w = machine.features.truth, solution.point["w"]
        found = machine.decode(w)
        if guarded:
            found = _accepted(machine, supervised(problem, found), w)
        settled = bool((found == before).all())
        if settled or (not guarded and any((found == each).all() for each in labellings)):
            break
        machine = supervised(problem, found)
        solution = solve(machine, tol=tol, start=solution)  # starts from the weights before, so the result is no worse
        labellings.append(found)
        loss.append(solution.primal)
        lower.append(solution.lower_bound)
    return Relabelled(
        machine.features.truth, solution.point["w"], np.array(labellings), np.array(loss), np.array(lower), settled
    )


def _accepted(now: StructuredSVM, predicted: StructuredSVM, w: Vector) -> Labels:
    """The predicted labels of the sequences whose hinge loss at w does not rise, the present labels of the others."""
    keep = predicted.most_violated(w).hinge > now.most_violated(w).hinge
    return np.where(keep[now.features.example], now.features.truth, predicted.features.truth)
