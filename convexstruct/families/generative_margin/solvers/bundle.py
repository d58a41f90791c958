r"""A proximal bundle method for problem (P) of paper 0: the paper's master problem, with gamma and centre adapted.

The points (mu_j, omega_j) of script-D are cutting planes of P,

    P(theta) >= m(theta) = -c'theta + sum over groups g of max_{j in g} [omega_j + mu_j'theta],

and the master problem of `solvers.simplicial_master` is the dual of minimising m + gamma/2 |theta -
theta^n|^2 over (4). With theta its solution, the predicted decrease is P(theta^n) - m(theta). If the actual decrease is
at least a tenth of it, the step is *serious*: the centre moves to theta. Otherwise it is *null*: the centre stays, and
the new planes improve the model. gamma falls while serious steps follow each other quickly, faster as long as the
predicted decrease is a good part of P, and rises again, at most to its first value, in long runs of null steps.

It needs fewer rounds than the paper's algorithm on hard instances, where a fixed gamma is far too large or too small.
Without the fast fall of gamma small rings took half the rounds, but on 15,000 positions of Connect-4 the gap after a
minute was 2.9e-3 in place of 1.3e-3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.core.certificates import least_unit
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, or_none, positive, read_options, share
from convexstruct.core.rounds import Clock, Patience
from convexstruct.core.solution import Solution
from convexstruct.families.generative_margin.problem import Evaluation, GenerativeMargin
from convexstruct.families.generative_margin.solvers.inner_approximation import (
    ALL_EXAMPLES,
    InnerApproximation,
    LowerBound,
    Sources,
    subsets_of,
)
from convexstruct.families.generative_margin.solvers.proximal_dual import ProximalDual
from convexstruct.families.generative_margin.solvers.warm_start import adopt, starting_theta

#: While the predicted decrease is above this fraction of |P| the centre counts as far from the optimum: each quick
#: serious step then halves gamma.
FAR_DECREASE = 1e-2
#: gamma is kept above this fraction of its first value: with less, theta moves to where the planes are far below P.
LEAST_GAMMA = 1e-2
#: The run ends after so many rounds in which neither bound improved: dozens of null steps may follow one another.
PATIENCE = 100


@dataclass(frozen=True)
class ProximalBundle:
    """Proximal bundle with adapted gamma and certified bounds.

    Attributes
    ----------
    gamma : first and largest weight of the proximal term; None takes 10 eta.
    groups : the examples are split into so many runs, each with planes of its own: the model is tighter, the master
        larger by that factor. The witness of a start is used with one group only, its theta always.
    keep : the most points kept in each group.
    serious : the least fraction of the predicted decrease that makes a step serious.
    polish_every : rounds between polishings of the lower bound; 0 never polishes.
    most_sources : the most labellings in a witness.
    """

    gamma: float | None = None
    groups: int = 1
    keep: int = 200
    serious: float = 0.1
    polish_every: int = 10
    most_sources: int = 2000

    def __post_init__(self) -> None:
        read_options(
            self,
            gamma=or_none(positive),
            groups=at_least(1),
            keep=at_least(2),
            serious=share,
            polish_every=at_least(0),
            most_sources=at_least(2),
        )

    def iterate(self, problem: GenerativeMargin, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate at the first centre and one after each round; the run ends where `PATIENCE` rounds brought the
        bounds no nearer. Of ``start`` theta is the first centre, and with one group its witness the first point kept.

        Raises
        ------
        ValueError
            If the theta of ``start`` does not fit the problem.
        """
        clock = Clock("master", "direction finding", "polishing")
        subsets = subsets_of(problem.n_examples, self.groups)
        n_groups = 1 if subsets is None else len(subsets)
        sources = Sources(problem, subsets)
        points = InnerApproximation(problem.dimension, n_groups)
        bound = LowerBound(problem, sources, self.most_sources)
        centre = starting_theta(problem, start)
        if start is not None and n_groups == 1:
            adopt(problem, start, sources, points, bound)
        with clock("direction finding"):
            found = problem.evaluate(centre)
        centre_value = found.value
        calls = 1
        self._add(problem, sources, points, found)
        most = 10.0 * problem.eta if self.gamma is None else self.gamma
        gamma, least = most, LEAST_GAMMA * most
        lam: Vector | None = None
        predicted = abs(centre_value)
        yield Iterate({"theta": centre}, bound.dual_point, centre_value, bound.value, calls, clock.parts)
        iteration, nulls = 0, 0
        patience = Patience(PATIENCE, least_unit(problem))
        while True:
            iteration += 1
            function = ProximalDual(problem.c, problem.layout, centre, gamma)
            with clock("master"):
                tolerance = 1e-3 * predicted
                for _ in range(4):
                    deadline.check()
                    master = points.master(function).solve(points.alpha, lam, tolerance)
                    points.alpha, lam, at = master.alpha, master.dual.lam, master.dual
                    model = at.omega + float((at.mu - problem.c) @ at.theta) + master.gap
                    predicted = centre_value - model
                    if master.gap <= 0.1 * predicted or master.steps == 0:
                        break
                    tolerance = 0.01 * max(predicted, master.gap * 1e-2)
            theta = problem.shift(at.theta)
            with clock("polishing"):
                bound.improve(at.mu, at.omega, lambda: points.mixture(points.alpha))
                if self.polish_every and iteration % self.polish_every == 0:
                    bound.polish(function, points, at.lam)
            with clock("direction finding"):
                found = problem.evaluate(theta)
                calls += 1
            actual = centre_value - found.value
            points.trim(self.keep, aggregate=len(sources) <= self.most_sources)
            sources.keep_only([*points.mixtures, bound.mixture])
            self._add(problem, sources, points, found)
            if actual >= self.serious * predicted:
                if nulls <= 2 and predicted > FAR_DECREASE * abs(found.value):
                    gamma = max(0.5 * gamma, least)
                elif nulls <= 3 and actual >= 0.5 * predicted:
                    gamma = max(0.8 * gamma, least)
                centre, centre_value, nulls = theta, found.value, 0
            else:
                nulls += 1
                if nulls % 10 == 0:
                    gamma = min(1.5 * gamma, most)
            done = patience.ended(centre_value, bound.value)
            yield Iterate({"theta": centre}, bound.dual_point, centre_value, bound.value, calls, clock.parts, done)

    def _add(self, problem: GenerativeMargin, sources: Sources, points: InnerApproximation, found: Evaluation) -> None:
        """Add the cutting plane of every group."""
        source = sources.add_labels(found.labels)
        n = points.n_simplices
        if n == 1:
            points.add(
                found.mu[None], np.array([found.omega]), [{(source, ALL_EXAMPLES): 1.0}], np.zeros(1, dtype=np.intp)
            )
            return
        weight = problem.eta * problem.examples.weights * sources.subsets[1 : n + 1]
        each = problem.features.counts_each(found.labels) - problem.truth_each
        mixtures = [{(source, subset): 1.0} for subset in range(1, n + 1)]
        mu, omega = np.asarray(each.T @ weight.T).T, weight @ problem.features.loss(found.labels)
        points.add(mu, omega, mixtures, np.arange(n))
