r"""Markov random fields: likelihood training of undirected models without inputs (paper 4, 20.2-20.4).

    P(theta) = C [M ln Z(theta) - <theta, s>] + lam/2 |theta|^2 + l1 |theta|_1,     p(x) = e^<theta, f(x)> / Z(theta)

over the joint labels that are not forbidden.

M = sum_i omega_i is the mass of the data and s = sum_i omega_i f(x_i) the sum of their features; the likelihood depends
on the data through these alone. s / M are the *moments*. They are computed from samples or from counts of each factor's
table, or are given.

**Dual** (maximum entropy, Theorem 20.3.4). For every distribution mu over the joint labels, with entropy H and moments
F mu,

    D(mu) = C M H(mu) - R*(g),      g = C (s - M F mu),

is a lower bound, with R* of `penalty`; it is exact at mu = p of the optimum. For lam = 0 and l1 > 0 mu is mixed with
the truth until g is inside the box |g_j| <= l1. **Without a penalty** g must be 0, which no computed g is. So the
clique tables of the witness are changed a little such that the moments are restored (`clique_entropy.restored`), and
the bound is lowered by what the g that rounding leaves can contribute: it then holds over all theta at which no table
of a factor has a score more than 1000 nats from its first (`.basis`); a certificate of another theta has none.

**Errata.** The second derivative of ln Z is Cov f, as the last line of its derivation says; two lines above are wrong.

**Dual witness**: {"theta": (d,)}, the Gibbs distribution there, or {"cliques": (n,)}, clique tables as
`FactorPolytope` lays them out. Both are read as conditionals from the root, so that either stands for some
distribution.

**Rounding.** P is that of exact sums of the data; ``off`` bounds the error of s. With S the sum over factors of the
largest (|A||theta|)_t, no sum of scores exceeds S and no message S + ln |X|. Each passes through at most as many
additions as a row has features, and as there are factors and cliques, and each log-sum-exp adds an error of a few units
in the last place. -<theta, s> and g are sums of products. `clique_entropy` has H.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import ROUNDING_BOUND, Labels, Point, Vector
from convexstruct.brief import brief
from convexstruct.core.scale import Scale
from convexstruct.families.log_linear.basis import Part
from convexstruct.families.log_linear.clique_entropy import CliqueDistribution, distribution, restored
from convexstruct.families.log_linear.existence import runaway, truth
from convexstruct.families.log_linear.penalised import LikelihoodField, feature_sums, largest_scores
from convexstruct.families.log_linear.penalty import NO_PENALTY, Penalty
from convexstruct.features.counts.counts import example_weights
from convexstruct.features.graphs.factors import Factors
from convexstruct.features.graphs.forbidden import forbid
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.marginals.factor_polytope import FactorPolytope, factor_polytope
from convexstruct.rounding import FUNCTION, GREATEST, UNIT, Rounded, RoundedArray, adjoint, gamma
from convexstruct.tolerances import SUM_TO_ONE
from convexstruct.validation.arguments import mapping, number, refuse, sentence
from convexstruct.validation.arrays import frozen, real


@dataclass(frozen=True, eq=False)
class MarkovRandomField(LikelihoodField):
    """A Markov random field to be fitted; made by `MarkovRandomField.read`.

    factors : the model. sums (d,) : s. mass : M. scale : lam and C. l1 : weight of |theta|_1. off (d,) : bounds on the
    error of ``sums``. samples (m, n), weights (m,) : None where the data were not given as samples.
    """

    factors: Factors
    sums: Vector
    mass: float
    scale: Scale
    l1: float
    off: Vector = field(repr=False, metadata=ROUNDING_BOUND)
    samples: Labels | None = field(default=None, repr=False)
    weights: Vector | None = field(default=None, repr=False)
    family: ClassVar[str] = "log_linear"

    __repr__ = brief

    @classmethod
    def read(
        cls,
        factors: Factors,
        samples: ArrayLike | None = None,
        *,
        counts: Sequence[ArrayLike] | None = None,
        moments: ArrayLike | None = None,
        forbidden: Any = None,
        weights: ArrayLike | None = None,
        l1: float = 0.0,
        C: float | None = None,
        C_mean: float | None = None,
        lam: float | None = None,
        beta: float | None = None,
    ) -> MarkovRandomField:
        """Validate the data; exactly one of samples, counts and moments.

        Parameters
        ----------
        factors : see `read_factors`, `factors_of_features`, `tabular_factors`; they need a narrow junction tree.
        samples : (m, n) one row a sample, one label a variable.
        counts : for each of ``factors`` how often each of its joint labels occurs, in the shape of its table.
        moments : (d,) the mean of each feature; the mass is 1.
        forbidden : joint labels of probability 0: (S, S) flags of pairs, or a list of (scope, table); see
            `convexstruct.features.graphs.forbidden.forbid`.
        weights : (m,) omega_i of the samples, 1 by default.
        l1 : weight of |theta|_1.
        C, C_mean, lam, beta : at most one; see `Scale`. None: no L2 penalty, and C = 1. Counts and moments count as one
            example of their mass.

        Raises
        ------
        ValueError
            If the junction tree is too wide; if samples, counts or moments do not fit the factors, or have what is
            forbidden; if no distribution has the given counts or moments.
        """
        allowed = forbid(factors, forbidden)  # first, since it checks that they are factors; it may add some
        n_scopes, factors = len(factors.scopes), allowed
        given = {"samples": samples, "counts": counts, "moments": moments}
        came = [name for name, value in given.items() if value is not None]
        if len(came) != 1:
            raise sentence(f"data are {', '.join(came) or 'none'}, wanted exactly one of samples, counts, moments")
        if weights is not None and samples is None:
            raise sentence(f"weights are given with {came[0]}, wanted them with samples only")
        polytope = factor_polytope(FactorInference(factors))
        if not polytope.support.any():
            raise sentence("forbidden leaves no joint label, wanted at least one that is allowed")
        read, omega, n = None, None, 1
        if samples is not None:
            read = factors.read_samples("samples", samples)
            n = len(read)
            omega = example_weights(weights, n)
            entries, mass = factors.counts(read, omega), math.fsum(omega.tolist())
        elif counts is not None:
            entries, mass = _read_counts(factors, counts, n_scopes)
        else:
            entries, mass = np.zeros(factors.n_entries), 1.0
        if moments is not None:
            sums = real("moments", moments, (factors.dimension,), why="one mean a feature")
            off = 2 * UNIT * np.abs(sums)
        else:
            sums, off = feature_sums(factors, entries, n)
        if read is None:
            z = truth(polytope, sums / mass)
            z = restored(polytope, distribution(polytope, z).z, sums / mass)
            off = off + np.abs(sums - mass * (polytope.features @ z))
        scale = Scale.read(n, free=True, C=C, C_mean=C_mean, lam=lam, beta=beta)
        return cls(factors, frozen(sums), mass, scale, Penalty(scale.lam, l1).l1, frozen(off), read, omega)

    # -- sizes ---------------------------------------------------------------------------------------------------------

    @property
    def moments(self) -> Vector:
        """s / M, the mean of each feature; shape (d,)."""
        return self.sums / self.mass

    @property
    def weight(self) -> float:
        """2 C M for each factor."""
        return 2.0 * self.scale.C * self.mass * len(self.factors.scopes)

    def with_factors(self, factors: Factors, parts: list[Part]) -> MarkovRandomField:
        if self.samples is not None:
            sums, off = feature_sums(factors, factors.counts(self.samples, self.weights), len(self.samples))
            return replace(self, factors=factors, sums=frozen(sums), off=frozen(off))
        sums, off = self.sums.copy(), self.off.copy()
        n = len(factors.scopes) + self.dimension + 8
        for part in parts:
            at, own, less = part.at, part.span, part.less
            sizes = np.abs(self.sums[at]) + self.mass * len(factors.scopes) * self.factors.largest[at]
            sums[at] = own.change.T @ (self.sums[at] - self.mass * less)
            off[at] = np.abs(own.change).T @ (self.off[at] + gamma(n) * sizes) * (1 + gamma(n))
        return replace(self, factors=factors, sums=frozen(sums), off=frozen(off))

    @cached_property
    def polytope(self) -> FactorPolytope:
        """The marginal polytope, by the cliques of the junction tree."""
        return factor_polytope(self.inference)

    # -- primal --------------------------------------------------------------------------------------------------------

    def value_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        """C [M ln Z - <theta, s>] and its gradient (20.4), both without the penalty."""
        deadline.check()
        found = self.inference.sums(self.factors.design @ theta)
        return self.fit(theta, found.log_partition, self.factors.moments(found.marginals))

    def curvature(self, theta: Vector) -> Vector:
        """An estimate of the diagonal of the Hessian, C M times the variances of the features with the factors taken as
        independent; (d,)."""
        marginals = self.inference.sums(self.factors.design @ theta).marginals
        return self.scale.C * self.mass * self.factors.variances(marginals)

    def primal(self, point: Point) -> Rounded:
        """P(theta) and its allowance; inf where theta is not finite or scores might overflow."""
        found = self.own_primal(point["theta"])
        with np.errstate(all="ignore"):
            return found if self.samples is None else self.sharper(point["theta"], found)

    def own_primal(self, theta: Vector) -> Rounded:
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            reach, of_log = self.rounding_of_log(theta)
            if not (np.isfinite(theta).all() and reach < GREATEST):
                return Rounded(math.inf)
            log_partition = self.inference.sums(self.factors.design @ theta).log_partition
            return self.enclosed(theta, Rounded(log_partition, of_log))

    def rounding_of_log(self, theta: Vector) -> tuple[float, float]:
        """(a bound on |score| of any joint labels plus ln |X|, a bound on the error of ln Z at theta)."""
        factors, tree = self.factors, self.inference.tree
        size, lost = largest_scores(factors, theta)
        reach = size + self.log_labels
        longest = int(np.diff(factors.design.indptr).max(initial=0))
        additions = longest + len(factors.scopes) + 8 * tree.n_cliques + 8
        functions = math.fsum(gamma(k + math.ceil(2 * FUNCTION * (2 + math.log(k)))) for _, k in tree.shapes)
        return reach, gamma(additions) * reach + functions + lost

    # -- dual ----------------------------------------------------------------------------------------------------------

    def gibbs(self, theta: Vector) -> Vector:
        """The clique tables (n,) of p at theta."""
        found = self.inference.cliques(self.factors.design @ theta)
        return np.concatenate([table.ravel() for table in found.cliques])

    def witness(self, theta: Vector) -> Point:
        """The Gibbs distribution of theta as a dual point."""
        return {"theta": theta.copy()}

    def witness_in_basis(self, u: Vector) -> Point:
        return {"cliques": self.basis.problem.gibbs(u)} if self.basis.parts else self.witness(u)

    def dual(self, dual_point: Point) -> Rounded:
        """D at the witness, and its allowance; -inf where the witness is not finite, or scores might overflow."""
        name, value = self._read_dual(dual_point)
        with np.errstate(all="ignore"):
            scores = self.factors.design @ value if name == "theta" else np.zeros(1)
            if not (np.isfinite(value).all() and float(np.abs(scores).sum()) < GREATEST):
                return Rounded(-math.inf)
            z = self.gibbs(value) if name == "theta" else value
            found, own = distribution(self.polytope, z), self.basis.problem
            if self.penalty == NO_PENALTY:
                found = distribution(self.polytope, restored(own.polytope, found.z, own.moments))
            g = own._apart(found)
            entropy = self.scale.C * (self.rounded_mass * found.entropy)
            return (self.basis.reach or self.penalty).lower_bound(entropy, g.value, g.errors + self.basis.off)

    def _apart(self, found: CliqueDistribution) -> RoundedArray:
        """g = C (s - M F mu); (d,)."""
        marginals = self.polytope.tables @ found.z
        widest = max(rows * columns for rows, columns in self.inference.tree.shapes)
        mu = RoundedArray(marginals, (found.relative + gamma(widest)) * marginals)
        mean = adjoint(self.factors.design, mu)
        g: RoundedArray = self.scale.C * (RoundedArray(self.sums, self.off) - self.rounded_mass * mean)
        return g

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """How far clique tables are from agreeing ones that sum to 1; empty for theta, which is always feasible."""
        name, value = self._read_dual(dual_point)
        if name == "theta":
            return {}
        if not np.isfinite(value).all():
            return {"cliques outside the marginal polytope": math.inf}
        with np.errstate(over="ignore"):
            apart = np.abs(self.polytope.agreement @ value).max(initial=0.0)
            away = abs(float((self.polytope.totals @ value)[0]) - 1.0)
        outside = np.where(self.polytope.support, -value, np.abs(value)).max()
        return {"cliques outside the marginal polytope": float(max(apart, away, outside, 0.0))}

    def _read_dual(self, dual_point: Point) -> tuple[str, Vector]:
        name = "cliques" if isinstance(dual_point, Mapping) and "cliques" in dual_point else "theta"
        shape = self.polytope.n_variables if name == "cliques" else self.dimension
        named = mapping(
            "dual_point", dual_point, {name}, otherwise=', or "theta"' if name == "cliques" else ', or "cliques"'
        )
        return name, real(f"dual_point[{name!r}]", named[name], (shape,), finite=False, keep=False)

    # -- where there is no minimum -------------------------------------------------------------------------------------

    def runaway(self) -> Vector | None:
        """A direction (d,) along which P never rises and falls without attaining its infimum, so that there is no
        minimum without a penalty; None where there is a minimum or a penalty."""
        if self.penalty != NO_PENALTY:
            return None
        support = self.polytope.support
        if self.samples is not None and (self.polytope.of_samples(self.samples, self.weights) > 0)[support].all():
            return None  # every joint label that a clique may have occurs: the moments are inside
        own = self.basis.problem
        found = runaway(own.polytope, own.inference, own.moments)
        return None if found is None else self.basis.theta(found)


def _read_counts(factors: Factors, counts: Any, n_scopes: int) -> tuple[Vector, float]:
    """The stacked counts (T,) and their mass, which is the same for each factor; 0 beyond the first ``n_scopes``
    factors, which `forbid` has added and which have no parameters."""
    if not isinstance(counts, Sequence) or isinstance(counts, str) or len(counts) != n_scopes:
        refuse("counts", counts, f"a list of {n_scopes} tables, one a factor")
    tables = []
    for c, (table, shape) in enumerate(zip(counts, factors.shapes)):
        tables.append(real(f"counts[{c}]", table, shape, why="one axis a variable of the factor"))
        if tables[c].min() < 0:
            raise sentence(f"counts[{c}] has {tables[c].min():g}, wanted numbers of at least 0")
        never = factors.masked(np.zeros(factors.n_entries))[factors.start[c] : factors.start[c + 1]] < 0
        if tables[c].ravel()[never].any():
            raise sentence(f"counts[{c}] counts forbidden labels of variables {factors.scopes[c]}, wanted 0 of them")
    masses = [math.fsum(table.ravel().tolist()) for table in tables]
    mass = number("counts[0], summed,", masses[0], above=0)
    for c, one in enumerate(masses):
        if abs(one - mass) > SUM_TO_ONE * mass:
            raise sentence(f"counts[{c}] sum to {one:g} and counts[0] to {mass:g}, wanted one sum for all factors")
    found = np.zeros(factors.n_entries)
    found[: factors.start[n_scopes]] = np.concatenate([table.ravel() for table in tables])
    return found, mass
