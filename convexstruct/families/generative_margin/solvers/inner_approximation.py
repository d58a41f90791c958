r"""The points of script-D that a decomposition method keeps, with the labellings that prove that they belong to it.

An inner approximation is a convex hull of points (mu_j, omega_j) of script-D (9), or a product of hulls, one for each
group of examples. Each point is a mixture of sources: labellings, taken on a subset of the examples with the truth on
the rest. So every weighted sum of points is a dual witness, from which `GenerativeMargin.aggregate` recomputes
(mu, omega) from the data alone.

`LowerBound` turns members of script-D into valid lower bounds on (P): ours, in place of the paper's projection of mu
onto mu <= c, which may leave script-D and then gives no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from convexstruct.arrays import Index, Matrix, Point, Vector
from convexstruct.core.certificates import magnitude
from convexstruct.core.mixtures import label_type
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.proximal_dual import ProximalDual
from convexstruct.families.generative_margin.solvers.simplicial_master import Master
from convexstruct.tolerances import DUAL_ROUNDING

#: Weights by (source, subset of the examples).
Mixture = dict[tuple[int, int], float]

#: Factors on gamma, one after another, when a lower bound is polished: few enough to cost little, and small enough for
#: mu <= c.
POLISH_GAMMAS = (1e-2, 1e-4)
#: The subset of the examples that holds all of them.
ALL_EXAMPLES = 0


def mixed(mixtures: Iterable[tuple[float, Mixture]]) -> Mixture:
    """The weighted sum of mixtures."""
    total: Mixture = {}
    for weight, mixture in mixtures:
        if weight > 0:
            for key, share in mixture.items():
                total[key] = total.get(key, 0.0) + weight * share
    return total


def subsets_of(n_examples: int, n_subsets: int) -> Matrix | None:
    """``n_subsets`` disjoint runs of examples, at most one an example, as rows of 0 and 1; None for one."""
    if n_subsets == 1:
        return None
    place = np.arange(n_examples) * n_subsets // n_examples
    return np.asarray(place == np.unique(place)[:, None], dtype=np.float64)


class Sources:
    """The labellings that mixtures refer to by number, and the subsets of the examples.

    ``subsets`` (n, K) holds rows of 0 and 1: whether a labelling stands for each example. Row 0 is all ones. Labels are
    kept in the smallest integer type that holds them: one byte a variable, up to 128 states.
    """

    def __init__(self, problem: GenerativeMargin, subsets: Matrix | None = None) -> None:
        everyone = np.ones((1, problem.n_examples))
        self.subsets = everyone if subsets is None else np.concatenate((everyone, subsets))
        self.dtype = label_type(int(problem.examples.cards.max()))
        self.n_hidden = len(problem.examples.truth)
        self.labels: dict[int, NDArray[np.integer]] = {}
        self._count = 0

    def add(self, labels: NDArray[np.integer]) -> int:
        self._count += 1
        self.labels[self._count] = labels.astype(self.dtype)
        return self._count

    def keep_only(self, mixtures: Iterable[Mixture]) -> None:
        """Drop the labellings that none of the mixtures uses."""
        used = {source for mixture in mixtures for source, _ in mixture}
        self.labels = {source: kept for source, kept in self.labels.items() if source in used}

    def dual_point(self, mixture: Mixture) -> Callable[[], Point]:
        """A function that returns a mixture as a dual point of `GenerativeMargin`, unaffected by later changes."""
        labels = {source: self.labels[source] for source, _ in mixture}
        frozen, subsets, nothing = dict(mixture), self.subsets, np.zeros((0, self.n_hidden), dtype=self.dtype)

        def write() -> Point:
            row = {source: at for at, source in enumerate(labels)}
            shares = np.zeros((len(row), len(subsets)))
            for (source, subset), weight in frozen.items():
                shares[row[source], subset] += weight
            return {"labels": np.stack(list(labels.values())) if labels else nothing, "label_shares": shares @ subsets}

        return write


class InnerApproximation:
    """The points kept, each in one simplex, with their weights alpha (which sum to one over each simplex).

    The origin, the truth in every example, is the first point of every simplex and is never dropped: it is the one
    member of script-D known in advance, and with it the weights of the rest sum to at most one.

    Attributes
    ----------
    mu (m, d), omega (m,), simplex (m,), alpha (m,) : the points; arrays are replaced, never written into.
    mixtures : the mixture of sources that each point is.
    """

    def __init__(self, dimension: int, n_simplices: int = 1) -> None:
        self.mu = np.zeros((n_simplices, dimension))
        self.omega = np.zeros(n_simplices)
        self.simplex = np.arange(n_simplices)
        self.alpha = np.ones(n_simplices)
        self.mixtures: list[Mixture] = [{} for _ in range(n_simplices)]
        self.n_simplices = n_simplices

    def __len__(self) -> int:
        return len(self.omega)

    def add(self, mu: Matrix, omega: Vector, mixtures: list[Mixture], simplex: Index) -> None:
        """Append points mu (n, d), omega (n,) with weight 0, except those that their simplex already holds."""
        new = [j for j in range(len(omega)) if not self._holds(mu[j], float(omega[j]), int(simplex[j]))]
        if len(new) < len(omega):
            mu, omega, simplex, mixtures = mu[new], omega[new], simplex[new], [mixtures[j] for j in new]
        self.mu = np.concatenate((self.mu, mu))
        self.omega = np.concatenate((self.omega, omega))
        self.simplex = np.concatenate((self.simplex, simplex))
        self.alpha = np.concatenate((self.alpha, np.zeros(len(omega))))
        self.mixtures = self.mixtures + mixtures

    def _holds(self, mu: Vector, omega: float, simplex: int) -> bool:
        alike = np.flatnonzero((self.omega == omega) & (self.simplex == simplex))
        return bool((self.mu[alike] == mu).all(axis=1).any())

    def master(self, function: ProximalDual, joint: bool = False) -> Master:
        """The master problem over the points."""
        return Master(function, self.mu, self.omega, self.simplex, joint)

    def mixture(self, alpha: Vector) -> Mixture:
        """The mixture of sources that the point with weights ``alpha`` (m,) is."""
        used = np.flatnonzero(alpha > 0)
        return mixed((float(alpha[j]), self.mixtures[j]) for j in used)

    def trim(self, keep: int, aggregate: bool) -> None:
        """Drop points until each simplex has at most ``keep`` besides the origin: the oldest of weight zero first.

        If more than ``keep`` have positive weight, the lightest are dropped. With ``aggregate`` their weighted mean is
        added as one point, so that the current point stays in the hull, as restricted simplicial decomposition
        requires; its mixture holds all their labellings. Without it the weights of the rest are scaled up, and the
        current point is lost.
        """
        counts = np.bincount(self.simplex, minlength=self.n_simplices)
        if (counts <= keep + 1).all():
            return
        chosen = np.ones(len(self), dtype=bool)
        extra = InnerApproximation(self.mu.shape[1], self.n_simplices)
        for group in range(self.n_simplices):
            if counts[group] <= keep + 1:
                continue
            members = np.flatnonzero(self.simplex == group)[1:]
            surplus = len(members) - keep
            idle = members[self.alpha[members] <= 0]
            chosen[idle[:surplus]] = False
            surplus -= len(idle[:surplus])
            if surplus <= 0:
                continue
            busy = members[self.alpha[members] > 0]
            light = busy[np.argsort(self.alpha[busy], kind="stable")][: surplus + 1 if aggregate else surplus]
            chosen[light] = False
            if aggregate:
                total = self.alpha[light].sum()
                share = self.alpha[light] / total
                mixture = mixed((float(w), self.mixtures[j]) for w, j in zip(share, light))
                extra.add(
                    (share @ self.mu[light])[None], np.array([share @ self.omega[light]]), [mixture], np.array([group])
                )
                extra.alpha[-1] = total
        kept = np.flatnonzero(chosen)
        self.mu, self.omega, self.simplex = self.mu[kept], self.omega[kept], self.simplex[kept]
        self.alpha = self.alpha[kept]
        self.mixtures = [self.mixtures[j] for j in kept]
        weights = extra.alpha[self.n_simplices :]
        self.add(
            extra.mu[self.n_simplices :],
            extra.omega[self.n_simplices :],
            extra.mixtures[self.n_simplices :],
            extra.simplex[self.n_simplices :],
        )
        if len(weights):
            self.alpha[-len(weights) :] = weights
        total = np.bincount(self.simplex, weights=self.alpha, minlength=self.n_simplices)
        self.alpha = self.alpha / total[self.simplex]


class LowerBound:
    """The best member of script-D found in the domain of D, as (mu, omega) and as a mixture of sources.

    It is 0 at first. For each new member z of script-D, the concave D is maximised over the part inside its domain of
    the segment from the member held to z, and the maximiser becomes the member held if it is better.
    """

    def __init__(self, problem: GenerativeMargin, sources: Sources, most_sources: int) -> None:
        self._problem = problem
        self._sources = sources
        self._most = most_sources
        self.mu = np.zeros(problem.dimension)
        self.omega = 0.0
        self.mixture: Mixture = {}
        self.value = problem.dual_value(self.mu, self.omega)
        self.dual_point = sources.dual_point(self.mixture)

    def improve(self, mu: Vector, omega: float, mixture: Callable[[], Mixture]) -> bool:
        """Move toward a member of script-D if that raises the bound; returns whether it did.

        A mixture may use at most ``most_sources`` sources, so that the witness stays small: if both ends of the segment
        together have more, it starts at 0 instead.
        """
        origin = np.zeros_like(self.mu)
        for start_mu, start_omega, start in ((self.mu, self.omega, self.mixture), (origin, 0.0, {})):
            t, value = self._problem.best_on_segment(mu, omega, (start_mu, start_omega))
            if not value > self.value + DUAL_ROUNDING * 1e-3 * magnitude(self._problem, self.value):
                continue
            combined = mixed(((1.0 - t, start), (t, mixture())))
            if len({source for source, _ in combined}) > self._most and start:
                continue
            self.mu = start_mu + t * (mu - start_mu)
            self.omega = start_omega + t * (omega - start_omega)
            self.mixture = combined
            self.value = value
            self.dual_point = self._sources.dual_point(combined)
            return True
        return False

    def polish(self, function: ProximalDual, points: InnerApproximation, lam: Vector) -> None:
        """Solve the master again with gamma times each factor in turn until mu <= c; use each optimum as a member.

        The smaller gamma, the less mu rises above c: v < 0 only where gamma (theta^n - theta) > lam e^theta.
        """
        alpha = points.alpha
        for factor in POLISH_GAMMAS:
            softer = replace(function, gamma=factor * function.gamma)
            found = points.master(softer).solve(alpha, lam)
            alpha, lam = found.alpha, found.dual.lam
            self.improve(found.dual.mu, found.dual.omega, partial(points.mixture, alpha))
            if (found.dual.mu <= function.c).all():
                return
