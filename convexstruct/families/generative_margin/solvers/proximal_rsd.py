r"""The algorithm of paper 0, sections 2.2 and 2.3: dual proximal point with restricted simplicial decomposition.

Each round solves the master problem over the points kept (`solvers.simplicial_master`), reads theta from
it by (20)-(21), finds new points of script-D by loss-augmented inference at theta (12), and may move the centre
theta^n of the proximal term (14) to the feasible point theta^{n,s}, which is theta shifted block by block.

Where this differs from the printed paper:

* the Hessian (23), (25), (26) is corrected; (20) is solved in closed form;
* (12) lacks the factor eta of script-D (9): its value is wrong unless eta = 1, its point outside script-D if eta < 1;
* the shift *divides* e^theta_i by its sum where that is above 1, as the paper's formula does; its text says "scale";
* rule (ii) is about Q_n; the paper names Q, whose gradient does not exist everywhere;
* lower bounds are certified: along segments inside script-D, with the master *polished* (solved again with gamma times
  0.1 ... 1e-5) every few rounds, since v = c - mu < 0 wherever gamma (theta^n - theta) > lam e^theta. The paper's
  own estimate, which projects mu onto mu <= c and may leave script-D, is no bound; `Record.projected` holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.core.certificates import least_unit, magnitude
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, flag, function, or_none, positive, read_options
from convexstruct.core.rounds import Clock, Patience
from convexstruct.core.solution import Solution
from convexstruct.families.generative_margin.general import only_linear
from convexstruct.families.generative_margin.member import Evaluation
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.inner_approximation import (
    ALL_EXAMPLES,
    InnerApproximation,
    LowerBound,
    Sources,
    subsets_of,
)
from convexstruct.families.generative_margin.solvers.proximal_dual import ProximalDual
from convexstruct.families.generative_margin.solvers.warm_start import starting_theta

#: A master problem is solved within this fraction of the gap of (D_n) or of what rule (ii) allows, whichever is less.
MASTER_SHARE = 1e-2
#: The run ends after so many rounds in which neither bound improved.
PATIENCE = 300


@dataclass(frozen=True)
class Record:
    """Figures of one round, for plots (`ProximalRSD.record`).

    proximal : value of (P_n)'s dual at the master's optimum. upper : P at the shifted point.
    projected : the paper's estimate of the lower bound, D at min(mu, c). **No bound**: it may exceed the optimum.
    outside : how many entries of mu were above c; the paper's indicator of how unreliable the estimate is.
    points : points kept. centre_changed : 0, or the rule, 1 or 2, by which the centre moved.
    """

    proximal: float
    upper: float
    projected: float
    outside: int
    points: int
    centre_changed: int


@dataclass(frozen=True)
class ProximalRSD:
    """The paper's algorithm, with certified bounds.

    Attributes
    ----------
    gamma : weight of the proximal term, fixed (the paper's gamma_n = gamma).
    keep : the most points kept; fewer than about 60 may never reach 1e-6. The paper keeps 100. Points of weight zero
        are dropped first, beginning with the oldest; if all have weight, the lightest are replaced by their weighted
        mean, whose witness keeps all their labellings.
    directions : subsets of examples whose terms of (12) are offered as ascent directions of their own, besides the sum.
        Each is a point of script-D with the truth on the other examples; it is kept only if it points uphill.
    improvement : delta-bar of rule (i), relative to |P(theta^0)|: the centre moves when P improves by that much.
    accuracy : delta_0 of rule (ii), relative likewise; delta_m = delta_0 / (1 + m)^2 after m changes of the centre.
    refind : find directions again right after a change of centre, as the paper does (the "CC" of its Table 1).
    joint : Newton steps in (alpha, lam) together, as in the paper. Otherwise lam is maximised exactly at every alpha.
    polish_every : rounds between polishings of the lower bound; 0 never polishes.
    most_sources : the most labellings in a witness.
    record : called with a `Record` each round.
    """

    gamma: float = 1.0
    keep: int = 100
    directions: int = 1
    improvement: float = 1e-3
    accuracy: float = 1e-1
    refind: bool = False
    joint: bool = True
    polish_every: int = 10
    most_sources: int = 1000
    record: Callable[[Record], None] | None = None

    def __post_init__(self) -> None:
        read_options(
            self,
            gamma=positive,
            keep=at_least(2),
            directions=at_least(1),
            improvement=positive,
            accuracy=positive,
            refind=flag,
            joint=flag,
            polish_every=at_least(0),
            most_sources=at_least(2),
            record=or_none(function),
        )

    def iterate(self, problem: GenerativeMargin, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate at the first theta and one after each round; the run ends where `PATIENCE` rounds brought the
        bounds no nearer. Of ``start`` only theta is used, as the first centre.

        Raises
        ------
        ValueError
            If the theta of ``start`` does not fit the problem.
        """
        only_linear(problem, type(self).__name__)
        clock = Clock("master", "direction finding", "centre change")
        sources = Sources(problem, subsets_of(problem.n_examples, self.directions))
        points = InnerApproximation(problem.dimension)
        bound = LowerBound(problem, sources, self.most_sources)
        theta = starting_theta(problem, start)
        calls = 1
        with clock("direction finding"):
            found = problem.evaluate(theta)
        centre, centre_value = theta, found.value
        scale = magnitude(problem, centre_value)
        improvement, delta = self.improvement * scale, self.accuracy * scale
        self._add(problem, sources, points, found, theta, -np.inf)
        lam: Vector | None = None
        changes, gap = 0, abs(centre_value)
        best, best_value = theta, centre_value
        yield Iterate({"theta": theta}, bound.dual_point, centre_value, bound.value, calls, clock.parts)
        iteration, patience = 0, Patience(PATIENCE, least_unit(problem))
        while True:
            iteration += 1
            function = ProximalDual(problem.c, problem.layout, centre, self.gamma)
            with clock("master"):
                allowed = delta / (1 + changes) ** 2
                tolerance = MASTER_SHARE * min(gap, allowed)
                master = points.master(function, self.joint).solve(points.alpha, lam, tolerance)
                points.alpha, lam = master.alpha, master.dual.lam
                at = master.dual
                bound.improve(at.mu, at.omega, lambda: points.mixture(points.alpha))
                if self.polish_every and iteration % self.polish_every == 0:
                    bound.polish(function, points, lam)
            theta = at.theta
            with clock("direction finding"):
                feasible = problem.shift(theta)
                found = problem.evaluate(theta)
                upper = found.value
                calls += 1
                if (feasible != theta).any():
                    upper = problem.evaluate(feasible).value
                    calls += 1
            here = at.omega + float(theta @ at.mu)
            ascent = found.omega + float(theta @ found.mu) - here
            lam_slope = at.mass - 1.0
            uphill = float(np.linalg.norm(np.where(at.lam > 0, lam_slope, np.maximum(lam_slope, 0.0))))
            gap = max(ascent, 0.0) + uphill
            if upper < best_value:
                best, best_value = feasible, upper
            rule = 1 if upper <= centre_value - improvement else 2 if gap <= allowed else 0
            if self.record is not None:
                self.record(_record(problem, at.mu, at.omega, at.value, upper, len(points), rule))
            self._trim(points, sources, bound)
            self._add(problem, sources, points, found, theta, here)
            if rule:
                centre, centre_value = feasible, upper
                changes += 1
                if self.refind:
                    with clock("centre change"):
                        function = ProximalDual(problem.c, problem.layout, centre, self.gamma)
                        at = function.at(at.mu, at.omega, function.best_lam(at.mu, at.lam))
                        found = problem.evaluate(at.theta)
                        calls += 1
                    self._add(problem, sources, points, found, at.theta, at.omega + float(at.theta @ at.mu))
            done = patience.ended(best_value, bound.value)
            yield Iterate({"theta": best}, bound.dual_point, best_value, bound.value, calls, clock.parts, done)

    def _add(
        self,
        problem: GenerativeMargin,
        sources: Sources,
        points: InnerApproximation,
        found: Evaluation,
        theta: Vector,
        here: float,
    ) -> None:
        """Add the maximiser of (12), and those of its groups of terms whose value at theta is above ``here``."""
        source = sources.add(found.labels)
        mu, omega, mixtures = [found.mu], [found.omega], [{(source, ALL_EXAMPLES): 1.0}]
        if self.directions > 1:
            each, loss = problem.rows(found.labels)
            for subset in range(1, len(sources.subsets)):
                deadline.check()
                weight = problem.eta * problem.examples.weights * sources.subsets[subset]
                some_mu, some_omega = np.asarray(each.T @ weight), float(weight @ loss)
                if some_omega + float(theta @ some_mu) > here:
                    mu.append(some_mu)
                    omega.append(some_omega)
                    mixtures.append({(source, subset): 1.0})
        points.add(np.stack(mu), np.array(omega), mixtures, np.zeros(len(omega), dtype=np.intp))

    def _trim(self, points: InnerApproximation, sources: Sources, bound: LowerBound) -> None:
        points.trim(self.keep, aggregate=len(sources.labels) <= self.most_sources)
        sources.keep_only([*points.mixtures, bound.mixture])


def _record(
    problem: GenerativeMargin, mu: Vector, omega: float, proximal: float, upper: float, n_points: int, rule: int
) -> Record:
    outside = int((mu > problem.c).sum())
    projected = problem.dual_value(np.minimum(mu, problem.c), omega)
    return Record(proximal, upper, projected, outside, n_points, rule)
