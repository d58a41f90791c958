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

**`Relabelling`** is the guarded alternation as a solver of `MarginLabelling`. It accepts changes only where H_i falls
and the balance of labels is kept, and where no prediction does, it tries every single label of every sequence. So it
ends at a stationary point of the two blocks: w is certified to be the labels' best up to ``gap``, and neither the
predictions nor any one label in place of another lowers the loss at w. `solve` reports STATIONARY, with the lower bound
that the relaxation proves, or, where there are more than ``most_rows`` rows, its largest eigenvalue alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Index, Labels, Point, Vector
from convexstruct.core.alternation import solved_within, trainings
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, positive, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.families.unsupervised_margin.labelling import MarginLabelling
from convexstruct.families.unsupervised_margin.labels_from_gram import labels_from_gram
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.supervised import supervised
from convexstruct.tolerances import HIGH, LOW, ROUNDING, Profile
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

    labellings: list[Labels] = []
    loss, lower, settled = [], [], False

    def move(machine: StructuredSVM, w: Vector) -> Labels:
        nonlocal settled
        found, now = machine.decode(w), machine.features.truth
        if guarded:
            found = _accepted(machine, supervised(problem, found), w)
        settled = bool((found == now).all())
        returns = not guarded and any((found == each).all() for each in labellings)
        return now if returns else found

    for machine, solution in itertools.islice(trainings(partial(supervised, problem), labels, move, tol, first), limit):
        labellings.append(machine.features.truth)
        loss.append(solution.primal)
        lower.append(solution.lower_bound)
        w = solution.point["w"]
    return Relabelled(labellings[-1], w, np.array(labellings), np.array(loss), np.array(lower), settled)


def _accepted(now: StructuredSVM, predicted: StructuredSVM, w: Vector) -> Labels:
    """The predicted labels of the sequences whose hinge loss at w does not rise, the present labels of the others."""
    keep = predicted.most_violated(w).hinge > now.most_violated(w).hinge
    return np.where(keep[now.features.example], now.features.truth, predicted.features.truth)


@dataclass(frozen=True)
class Relabelling:
    """restarts : starts from random labels, beside that from the relaxation's where it is solved. seed : of the draws.
    gap : certified relative gap of each training. most_rows : rows up to which the relaxation is solved, to `LOW`, for
    the lower bound and for labels to start from; its time grows with their cube, to some seconds at 150."""

    restarts: int = 1
    seed: int = 0
    gap: float = HIGH.gap
    most_rows: int = 100

    def __post_init__(self) -> None:
        read_options(self, restarts=at_least(1), seed=seed, gap=positive, most_rows=at_least(0))

    def iterate(self, problem: MarginLabelling, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield labels and weights after each training; ``start`` gives the first labels, in place of the relaxation's.

        The message tells whether the best labels are all one, where a start's were not.
        """
        data, begin = problem.data, []
        witness: Point = {}
        solved = data.n_rows <= self.most_rows
        if solved:
            relaxed = solved_within(data, LOW)
            witness = relaxed.dual_point or {}
            begin.append(labels_from_gram(relaxed.point["M"], data.n_labels))
        if start is not None:
            begin[:1] = [problem.as_point(start.point)["labels"]]
        rng = np.random.default_rng(self.seed)
        begin += [rng.integers(data.n_labels, size=data.n_rows) for _ in range(self.restarts)]
        bound, calls, collapsed = problem.dual(witness).lower, 0, 0
        best: Iterate | None = None
        for labels in begin:
            first = problem.repair({"labels": labels})["labels"]
            for machine, solution in trainings(problem.machine, first, partial(fallen, problem), self.gap):
                calls += solution.trace.oracle_calls[-1]
                now = machine.features.truth
                here = Iterate({"labels": now, "w": solution.point["w"]}, witness, solution.primal, bound, calls)
                yield here
            collapsed += bool((now == now[0]).all())
            best = here if best is None or here.primal < best.primal else best
        assert best is not None
        source = "solved" if solved else "not solved, by its largest eigenvalues alone"
        said = (
            "no prediction and no single label within the balance lowers the loss at w, which is the labels' best to "
            f"{self.gap:.0e}; {collapsed} of {len(begin)} starts end with one label for all rows; the lower bound is "
            f"that of the relaxation, {source}"
        )
        yield replace(best, oracle_calls=calls, done=True, message=said, stationary=True)


def fallen(problem: MarginLabelling, machine: StructuredSVM, w: Vector) -> Labels:
    """Labels whose hinges at w are below the machine's, each sequence's or its own as they are: its prediction, else
    the best single label in place of another. Sequences change in the order of their gains, if the balance allows."""
    labels, example = machine.features.truth, machine.features.example
    now = machine.most_violated(w).hinge

    def best_of(offered: Iterable[Labels]) -> Labels:
        least, best = now - ROUNDING * (1.0 + now), labels.copy()
        for found in offered:
            deadline.check()
            hinge = problem.machine(found).most_violated(w).hinge
            better = hinge < least
            least[better] = hinge[better]
            best[better[example]] = found[better[example]]
        return _balanced(problem, labels, best, example, least - now)

    predicted = best_of([machine.decode(w)])
    if (predicted != labels).any():
        return predicted
    place, kappa = np.arange(len(labels)) - machine.features.node_start[example], problem.data.n_labels
    changes = itertools.product(range(int(place.max()) + 1), range(1, kappa))
    return best_of(np.where(place == at, (labels + step) % kappa, labels) for at, step in changes)


def _balanced(problem: MarginLabelling, labels: Labels, best: Labels, example: Index, gain: Vector) -> Labels:
    """``best`` if it is within the balance; else ``labels`` with those sequences as in ``best`` that can change within
    it, one after the other, the largest fall first."""
    fewest, most = problem.counts
    counts, found = problem.occurring(best), labels.copy()
    if counts.min() >= fewest and counts.max() <= most:
        return best
    for i in np.argsort(gain, kind="stable"):
        rows = example == i
        if (best[rows] == labels[rows]).all():
            continue
        tried = np.where(rows, best, found)
        counts = problem.occurring(tried)
        if counts.min() >= fewest and counts.max() <= most:
            found = tried
    return found
