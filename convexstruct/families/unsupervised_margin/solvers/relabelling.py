r"""Relabel and retrain: the heuristic without semidefinite programming (paper 3, section 5, "ACDHMM"; corrected).

    omega(y) = min_w beta/2 |w|^2 + sum_i H_i(w; y_i),
    H_i(w; y_i) = max_u [Delta(u, y_i) + <w, phi(x_i, u)>] - <w, phi(x_i, y_i)>

is to be small over labellings y. From a labelling, train the max-margin Markov network on it, replace each sequence's
labels by its predictions at that w, and so on until nothing changes.

**Proposition 2 is false for structures.** It says that the labelling of least loss, the network being fixed, is the
network's prediction, so that omega never rises. A prediction is best without the Delta; with it, another labelling may
cost less. Scores 0 of 00, -1/4 of 01 and of 11, -1 of 10: 00 is predicted, H(00) = 7/4 for the sake of 11, which is
two labels away, and H(01) = 5/4. It is true of one position at a time (univariate, w fixed). Nor does it hold for the
binary machine with lambda fixed, as it is worded, since w = sum_j lambda_j y_j x_j / beta changes with the labels.

**Guarded** (ours): a sequence takes its prediction only if H_i at the present w does not rise. Then with y', w' the
next labelling and weights, omega(y') <= value of y' at w' <= value of y' at w <= value of y at w, and the losses fall
to a fixed point. Nothing keeps either variant from giving all positions one label, whose loss may be the least of all:
it is reported (`Relabelled.collapsed`), never mended.
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
    """What the alternation reached, and the way there; one entry a training, R in all.

    labels (p1,) : the last labelling. w : the weights trained on it.
    labellings (R, p1) : each that was trained on, the first one the start.
    loss (R,) : certified upper bounds on omega of each: the value of ``w`` found there. lower (R,) : lower bounds.
    settled : whether it ended at a fixed point; a plain run may come back to an earlier labelling instead.
    """

    labels: Labels
    w: Vector
    labellings: Labels
    loss: Vector
    lower: Vector
    settled: bool

    @property
    def rises(self) -> int:
        """Rounds in which omega has provably risen."""
        return int((self.lower[1:] > self.loss[:-1]).sum())

    @property
    def collapsed(self) -> bool:
        """Whether all positions have one label, and had not at the start."""
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
    """Alternate from ``labels`` (p1,) until they do not change, or, if not guarded, one labelling comes back.

    tol : certified relative gap of each training. max_rounds : trainings, at most.
    first : a solution of ``supervised(problem, labels)``, where one is at hand.

    Raises
    ------
    ValueError
        As `supervised`, or if an option makes no sense.
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
        solution = solve(machine, tol=tol, start=solution)  # no worse than the weights before
        labellings.append(found)
        loss.append(solution.primal)
        lower.append(solution.lower_bound)
    return Relabelled(
        machine.features.truth, solution.point["w"], np.array(labellings), np.array(loss), np.array(lower), settled
    )


def _accepted(now: StructuredSVM, predicted: StructuredSVM, w: Vector) -> Labels:
    """The predicted labels of the sequences whose hinge at w does not rise, the present ones of the others."""
    keep = predicted.most_violated(w).hinge > now.most_violated(w).hinge
    return np.where(keep[now.features.example], now.features.truth, predicted.features.truth)
