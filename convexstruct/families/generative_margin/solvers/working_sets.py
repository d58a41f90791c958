r"""The two variants of paper 0, section 3.1, that use the training examples a working set at a time.

`CoordinateWorkingSets`, the first: examples are cut into K_1 .. K_m without overlap, each with a point (mu^j, omega^j)
of its own D_j (27), and script-D is the sum of the D_j. One visit optimises over one (mu^j, omega^j) and lambda, the
rest fixed. It solves (P).

`OnlineWorkingSets`, the second: the sets may overlap, and only the one point (mu, omega) is tracked. **It does not
solve (P).** What it can reach is conv(union of the D_t), not their sum, and the dual of (P) over that hull is the dual
of another problem,

    minimise  - c'theta + eta max_t sum_{k in K_t} w_k eps_k     subject to (3)-(5),

where only the worst working set counts. Its optimum lies below that of (P); so does the limit of this variant. The
paper says that "the solution may be confined in a subset of the feasible region" if the sets are badly chosen: it
always is, unless one set holds every example. It is implemented as printed, and its gap is that of (P) on all examples.
The paper's "K_j subset of K_j" means K_j subset of K (corrected): every D_j lies in script-D, so every lower bound is
one on (P).

Of both gamma, the points kept for a set, the labellings of a witness (for each set as many) and the rules for the
centre are those of `ProximalRSD`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.core.certificates import least_unit, magnitude
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, read_options
from convexstruct.core.rounds import Clock, Patience
from convexstruct.core.solution import Solution
from convexstruct.families.generative_margin.general import only_linear
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.inner_approximation import (
    InnerApproximation,
    LowerBound,
    Mixture,
    Sources,
)
from convexstruct.families.generative_margin.solvers.proximal_dual import DualPoint, ProximalDual
from convexstruct.families.generative_margin.solvers.proximal_rsd import MASTER_SHARE, PATIENCE, ProximalRSD
from convexstruct.families.generative_margin.solvers.simplicial_master import Master
from convexstruct.families.generative_margin.solvers.warm_start import starting_theta
from convexstruct.features.counts.part import part
from convexstruct.tolerances import HIGH
from convexstruct.validation.arguments import sequence, whole

#: Runs [low, high) of examples.
Runs = Sequence[tuple[int, int]]


def runs(working_sets: int | Runs, n_examples: int, partition: bool) -> list[tuple[int, int]]:
    """Working sets as runs [low, high) of examples; a number n means n runs whose sizes differ by at most one.
    ValueError if a run is empty or outside 0 .. n_examples, or they do not cover the examples (once each, if
    ``partition``)."""
    if isinstance(working_sets, (int, np.integer)):
        working_sets = whole("working_sets", working_sets, least=1, most=n_examples)
        cuts = np.linspace(0, n_examples, int(working_sets) + 1).astype(int).tolist()
        return list(pairwise(cuts))
    found = _pairs("working_sets", working_sets)
    times = np.zeros(n_examples, dtype=int)
    for low, high in found:
        if not 0 <= low < high <= n_examples:
            raise ValueError(f"working_sets holds ({low}, {high}), wanted 0 <= low < high <= {n_examples}")
        times[low:high] += 1
    if (times == 0).any():
        raise ValueError(f"working_sets leave out example {int(np.argmin(times))}, wanted every example covered")
    if partition and (times > 1).any():
        raise ValueError(f"working_sets hold example {int(np.argmax(times))} more than once, wanted a partition")
    return found


def _pairs(name: str, value: Any) -> list[tuple[int, int]]:
    """A list of pairs of whole numbers."""
    wanted = "a number, or a list of pairs (low, high)"
    given = sequence(name, value, wanted, least=1)
    pairs = (sequence(name, pair, wanted, length=2) for pair in given)
    return [(whole(name, low, least=0), whole(name, high, least=0)) for low, high in pairs]


def _read_options(options: CoordinateWorkingSets | OnlineWorkingSets) -> None:
    """Check the options of both variants; `runs` checks runs, once the number of examples is known."""
    listed = isinstance(options.working_sets, (list, tuple))
    read_options(options, rounds=at_least(1), polish_every=at_least(0), working_sets=_pairs if listed else at_least(1))


@dataclass(frozen=True)
class CoordinateWorkingSets:
    """Section 3.1, first variant: dual coordinate ascent over working sets, with certified bounds.

    Attributes
    ----------
    working_sets : number of runs of examples, or the runs [low, high), which must cover each example once.
    rounds : rounds of direction finding and master in each visit of a set.
    polish_every : sweeps between polishings of the lower bound.

    The rules for the centre are applied after each sweep over the sets, when P is evaluated on all examples.
    """

    working_sets: int | Runs = 4
    rounds: int = 3
    polish_every: int = 5

    def __post_init__(self) -> None:
        _read_options(self)

    def iterate(self, problem: GenerativeMargin, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield once a sweep over the sets. Of ``start`` only theta is used."""
        only_linear(problem, type(self).__name__)
        return _sweeps(self, problem, start, online=False)


@dataclass(frozen=True)
class OnlineWorkingSets:
    """Section 3.1, second variant, as printed: **its limit is not the optimum of (P)**, see the module's text.

    Attributes
    ----------
    working_sets : number of runs of examples, or the runs [low, high), which may overlap and must cover the examples.
    rounds : rounds of direction finding and master for each set of the stream (the paper's Connect-4 run: 3).
    polish_every : passes between polishings of the lower bound, which is one on (P) too, since D_t lies in script-D.

    The rules for the centre are applied after each pass over the sets, to the objective that this variant minimises
    (`worst_set_value`).
    """

    working_sets: int | Runs = 4
    rounds: int = 3
    polish_every: int = 5

    def __post_init__(self) -> None:
        _read_options(self)

    def iterate(self, problem: GenerativeMargin, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield once a sweep over the sets. The primal is P on all examples; its gap to the bound usually stays open.

        Of ``start`` only theta is used.
        """
        only_linear(problem, type(self).__name__)
        return _sweeps(self, problem, start, online=True)


def _sweeps(
    options: CoordinateWorkingSets | OnlineWorkingSets, problem: GenerativeMargin, start: Solution | None, online: bool
) -> Iterator[Iterate]:
    """Both variants: the first has a simplex of points for each set and minimises P, ``online`` has one simplex for
    all sets and minimises the objective of `worst_set_value`."""
    sets = _Sets(problem, runs(options.working_sets, problem.n_examples, partition=not online))
    points = InnerApproximation(problem.dimension, 1 if online else len(sets.runs))
    most_sources = len(sets.runs) * ProximalRSD.most_sources
    bound = LowerBound(problem, sets.sources, most_sources)
    clock = Clock("master", "direction finding", "polishing")
    centre = starting_theta(problem, start)
    with clock("direction finding"):
        found = problem.evaluate(centre)
    best, best_value = centre, found.value
    centre_value = worst_set_value(problem, sets.runs, centre, found.slack) if online else found.value
    least, scale = centre_value, magnitude(problem, centre_value)
    theta, lam, gap, changes, sweep = centre, None, scale, 0, 0
    patience = Patience(PATIENCE, least_unit(problem))
    calls, message, done = 1.0, "", False
    yield Iterate({"theta": best}, bound.dual_point, best_value, bound.value, 1, clock.parts)
    while True:
        sweep += 1
        function = ProximalDual(problem.c, problem.layout, centre, ProximalRSD.gamma)
        for t in range(len(sets.runs)):
            simplex = 0 if online else t
            for _ in range(options.rounds):
                deadline.check()
                with clock("direction finding"):
                    mu, omega, mixture = sets.direction(t, theta)
                    calls += sets.share(t)
                points.add(mu[None], np.array([omega]), [mixture], np.array([simplex]))
                with clock("master"):
                    at = _visit(function, points, simplex, lam, MASTER_SHARE * gap)
                theta, lam = at.theta, at.lam
            points.trim(ProximalRSD.keep, aggregate=len(sets.sources.labels) <= most_sources)
        with clock("polishing"):
            bound.improve(at.mu, at.omega, lambda: points.mixture(points.alpha))
            if options.polish_every and sweep % options.polish_every == 0:
                bound.polish(function, points, at.lam)
        with clock("direction finding"):
            feasible = problem.shift(theta)
            found = problem.evaluate(feasible)
            calls += 1
        value, support = found.value, found.omega + float(theta @ found.mu)
        if online:  # the hull's support function is the largest of the D_t's, each a sum of slacks
            value = worst_set_value(problem, sets.runs, feasible, found.slack)
            support = value + float(problem.c @ feasible)
        least = min(least, value)
        if found.value < best_value:
            best, best_value = feasible, found.value
        gap = max(support - at.omega - float(theta @ at.mu), 0.0)
        sets.sources.keep_only([*points.mixtures, bound.mixture])
        allowed = ProximalRSD.accuracy * scale / (1 + changes) ** 2
        if value <= centre_value - ProximalRSD.improvement * scale or gap <= allowed:
            centre, centre_value = feasible, value
            changes += 1
        if online:
            done = least - bound.value <= HIGH.gap * magnitude(problem, least)
            message = f"not (P): the worst working set alone has its optimum in [{bound.value:.8g}, {least:.8g}]"
        done = patience.ended(least, bound.value) or done
        dual_point, parts = bound.dual_point, clock.parts
        yield Iterate({"theta": best}, dual_point, best_value, bound.value, round(calls), parts, done, message)


def _visit(
    function: ProximalDual, points: InnerApproximation, simplex: int, lam: Vector | None, tolerance: float
) -> DualPoint:
    """Solve the master over one simplex. The others' fixed sum is added to each of its points (weights sum to 1)."""
    mine = points.simplex == simplex
    others = np.where(mine, 0.0, points.alpha)
    mu, omega = points.mu[mine] + others @ points.mu, points.omega[mine] + others @ points.omega
    master = Master(function, mu, omega, np.zeros(len(omega), dtype=np.intp))
    found = master.solve(points.alpha[mine], lam, tolerance)
    points.alpha = others
    points.alpha[mine] = found.alpha
    return found.dual


class _Sets:
    """The problems of the working sets, which give points of D_t."""

    def __init__(self, problem: GenerativeMargin, sets: list[tuple[int, int]]) -> None:
        self.runs = sets
        self._truth = problem.examples.truth
        self._inside = [(problem.examples.example >= low) & (problem.examples.example < high) for low, high in sets]
        parts = [part(problem.features, low, high) for low, high in sets]
        self._problems = [replace(problem, features=features, workers=None) for features in parts]
        k = np.arange(problem.n_examples)
        subsets = np.array([(k >= low) & (k < high) for low, high in sets], dtype=np.float64)
        self.sources = Sources(problem, subsets)

    def share(self, t: int) -> float:
        """The fraction of all hidden variables that set t has, by which oracle calls are counted."""
        return float(self._inside[t].mean())

    def direction(self, t: int, theta: Vector) -> tuple[Vector, float, Mixture]:
        """The maximiser (mu, omega) of (12) over D_t at theta, and its mixture of sources."""
        found = self._problems[t].evaluate(theta)
        labels = self._truth.copy()
        labels[self._inside[t]] = found.labels
        mixture = {(self.sources.add(labels), t + 1): 1.0}
        return found.mu, found.omega, mixture


def worst_set_value(problem: GenerativeMargin, sets: list[tuple[int, int]], theta: Vector, slack: Vector) -> float:
    """-c'theta + eta max_t sum_{k in K_t} w_k eps_k, the objective that the online variant minimises, at theta with its
    slacks eps (K,)."""
    violation = problem.examples.weights * slack
    used = problem.c > 0
    worst = max(float(violation[low:high].sum()) for low, high in sets)
    return float(-(problem.c[used] @ theta[used]) + problem.eta * worst)
