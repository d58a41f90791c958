r"""Pseudolikelihood (paper 4, 20.6, (20.31)): every variable predicted from all others, so that no ln Z is needed.

    P(theta) = C sum_i omega_i sum_v -ln p_theta(x_iv | x_i without v)  +  lam/2 |theta|^2 + l1 |theta|_1

Only the factors that hold v count in its conditional, a softmax over v's own labels (those not forbidden beside the
others'): P is a sum over samples, variables and labels, whatever the width of the graph. Samples in which v and its
neighbours in the graph, its *blanket*, have the same labels share a softmax. They are grouped once: group g has a
variable, labels of its blanket, and n_g(l), the weight C omega of its samples whose variable has label l. With
N_g = sum_l n_g(l) and k_g(l) the features of the factors that hold the variable at label l, the rows of a matrix K,

    P(theta) = sum_g [N_g ln sum_l e^{<theta, k_g(l)>} - sum_l n_g(l) <theta, k_g(l)>] + R(theta).

The number of groups is bounded by the number of joint labels of the blankets, for any number of samples: a million
samples of a grid of 900 binary variables make 14,400 groups at most. Variables that are not *targets* are inputs, and
the sum over v leaves them out.

**Dual.** A softmax is a maximum over distributions p_g of the labels, ln sum e^s = max <p_g, s> + H(p_g), so

    D(p) = sum_g N_g H(p_g) - R*(sum_g sum_l (n_g(l) - N_g p_g(l)) k_g(l)),        R* of `penalty`.

At the optimum p_g is the model's conditional. Every other p gives a lower bound too, and so does each mixture with the
empirical conditionals n_g / N_g, at which the argument of R* is 0. For lam = 0 such a mixture keeps D finite, and
before it Newton steps move p until no entry of the argument exceeds l1 by more than rounding. **Without a penalty** the
argument that rounding leaves is paid for as in `MarkovRandomField`, and the lower bound holds over all theta at which
no table of a factor has a score more than 1000 nats from its first (`.basis`); a certificate of another theta has none.

**Errata.** The slides call the logarithm of a conditional convex: it is concave, and P convex. In (20.31) both terms
are means over the samples; the sum over m is printed before the first alone.

**Dual witness.** {"conditionals": (R,)}: p, one number a group and label. Negative numbers are set to 0, and each group
is divided by its sum (uniform where that is 0).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import OPTIONAL, Index, Labels, Point, Vector
from convexstruct.brief import brief
from convexstruct.core.scale import Scale
from convexstruct.families.log_linear.basis import Part
from convexstruct.families.log_linear.existence import rising
from convexstruct.families.log_linear.penalised import FactorField
from convexstruct.families.log_linear.penalty import NO_PENALTY, Penalty
from convexstruct.features.counts.counts import example_weights
from convexstruct.features.graphs.factors import Factors
from convexstruct.features.graphs.forbidden import forbid
from convexstruct.graphs import starts
from convexstruct.inference.shards import Shards, Workers, in_shards
from convexstruct.rounding import TINY, UNIT, Rounded, RoundedArray, adjoint, entropy, gamma, summed
from convexstruct.tolerances import DUAL_ROUNDING
from convexstruct.validation.arguments import mapping, sentence, sized
from convexstruct.validation.arrays import chosen, real


class Groups(NamedTuple):
    """The distinct conditionals of the samples.

    variable (G,) : the variable of each group. start (G + 1,) : its first row of K, with one row for each label that is
    not forbidden.
    features (R, d) : K.
    sizes (R, d) : K computed from |design| in place of the design. counts (R,) : n, the weights C omega of each label.
    totals (G,) : N. width : products in the longest row of K, counted before terms of the same parameter are added.
    """

    variable: Index
    start: Index
    features: sp.csr_array
    sizes: sp.csr_array
    counts: Vector
    totals: Vector
    width: int


@dataclass(frozen=True, eq=False)
class PseudoLikelihood(FactorField):
    """The pseudolikelihood of factors and samples; made by `PseudoLikelihood.read`.

    factors : the model. samples : (m, n) labels, from 0. weights : (m,) omega > 0. targets : the variables v that the
    second sum runs over. scale : lam and C. l1 : weight of |theta|_1. workers : where the targets are worked on,
    if not here.
    """

    factors: Factors
    samples: Labels
    weights: Vector
    targets: tuple[int, ...]
    scale: Scale
    l1: float = 0.0
    workers: Workers | None = field(default=None, repr=False, kw_only=True, metadata=OPTIONAL)
    family: ClassVar[str] = "log_linear"

    __repr__ = brief

    @classmethod
    def read(
        cls,
        factors: Factors,
        samples: ArrayLike,
        *,
        forbidden: Any = None,
        weights: ArrayLike | None = None,
        targets: ArrayLike | None = None,
        l1: float = 0.0,
        C: float | None = None,
        C_mean: float | None = None,
        lam: float | None = None,
        beta: float | None = None,
    ) -> PseudoLikelihood:
        """Validate the data.

        Parameters
        ----------
        factors : of any width. samples, forbidden, weights, l1, C, C_mean, lam, beta : as `MarkovRandomField.read` has
            them; a conditional is over the labels that are not forbidden beside those of the others.
        targets : the variables that are predicted, or a mask; all by default. The others are inputs only, as in a
            conditional random field.

        Raises
        ------
        ValueError
            If ``factors`` is not of that type, there is no sample, a label is out of range, a sample is forbidden, a
            weight is not positive, or there is no target.
        """
        factors = forbid(factors, forbidden)
        read, n = factors.read_samples("samples", samples), factors.n_variables
        scale = Scale.read(len(read), free=True, C=C, C_mean=C_mean, lam=lam, beta=beta)
        which = np.arange(n) if targets is None else np.unique(chosen("targets", targets, n))
        if not len(which):
            raise sentence("targets is empty, wanted at least one variable")
        omega = example_weights(weights, len(read))
        return cls(factors, read, omega, tuple(which.tolist()), scale, Penalty(scale.lam, l1).l1)

    @cached_property
    def groups(self) -> Groups:
        """The distinct conditionals of the samples, variable by variable."""
        factors, samples = self.factors, self.samples
        entries, rho = factors.entries(samples), self.scale.C * self.weights
        variable, rows, lengths, counts = [], [], [], []
        for v in self.targets:
            deadline.check()
            card = factors.cards[v]
            holding, steps = factors.holding(v)
            first, group = _alike(samples, sorted({u for c in holding for u in factors.scopes[c]} - {v}), factors.cards)
            base = entries[np.ix_(first, holding)] - samples[first, v, None] * steps
            taken = (base[:, None, :] + np.arange(card)[:, None] * steps).reshape(len(first) * card, len(holding))
            kept = np.ones(len(taken), dtype=bool)
            if factors.forbidden is not None:
                kept = ~factors.forbidden[taken].any(axis=1)
            rows.append(taken[kept])
            counts.append(np.bincount(group * card + samples[:, v], weights=rho, minlength=len(taken))[kept])
            variable.append(np.full(len(first), v))
            lengths.append(kept.reshape(len(first), card).sum(axis=1))
        held = np.concatenate([np.full(len(each), each.shape[1]) for each in rows])
        sized("the conditionals of all samples and variables", len(held), int(held.sum()) + len(held))
        ends = starts(held)
        taken = np.concatenate([each.ravel() for each in rows])
        gather = sp.csr_array((np.ones(len(taken)), taken, ends), shape=(len(held), factors.n_entries))
        features, sizes = sp.csr_array(gather @ factors.design), sp.csr_array(gather @ abs(factors.design))
        width = int((gather @ np.diff(factors.design.indptr).astype(np.float64)).max(initial=0))
        start = starts(np.concatenate(lengths))
        n = np.concatenate(counts).astype(np.float64)
        return Groups(np.concatenate(variable), start, features, sizes, n, np.add.reduceat(n, start[:-1]), width)

    @cached_property
    def shards(self) -> Shards | None:
        """Parts with some of the targets each, and about as many distinct conditionals."""
        sizes = np.bincount(self.groups.variable, minlength=self.factors.n_variables)[list(self.targets)]

        def some(numbers: Index) -> PseudoLikelihood:
            return replace(self, targets=tuple(self.targets[i] for i in numbers), workers=None)

        return in_shards(self.workers, sizes, some)

    @property
    def weight(self) -> float:
        """2 sum_g N_g for each factor that a variable may have."""
        return 2.0 * float(self.groups.totals.sum()) * int(np.diff(self.factors.strides.indptr).max(initial=0))

    def with_factors(self, factors: Factors, parts: list[Part]) -> PseudoLikelihood:
        return replace(self, factors=factors)

    @property
    def trivial_value(self) -> float:
        """P(0) = sum_g N_g ln(labels of its variable); 1 where every variable has one label."""
        return float(self.groups.totals @ np.log(np.diff(self.groups.start))) or 1.0

    # -- the sum of softmax losses -------------------------------------------------------------------------------------

    def losses(self, theta: Vector) -> Vector:
        """The loss -ln p(label | blanket) at theta for every group and label; (R,)."""
        start = self.groups.start
        scores = np.asarray(self.groups.features @ theta)
        lengths = np.diff(start)
        scores -= np.repeat(np.maximum.reduceat(scores, start[:-1]), lengths)
        logs = np.log(np.add.reduceat(np.exp(scores), start[:-1]))
        return np.asarray(np.repeat(logs, lengths) - scores)

    def conditionals(self, theta: Vector) -> Vector:
        """The probability p(label | blanket) at theta for every group and label; (R,)."""
        return np.exp(-self.losses(theta))

    def witness(self, theta: Vector) -> Point:
        """The conditionals at theta as a dual point."""
        return {"conditionals": self.conditionals(theta)}

    def value_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        """The weighted sum of the losses, minus (20.31), and its gradient, both without the penalty."""
        deadline.check()
        if self.shards is not None:
            return self.shards.total(self.value_and_gradient, theta)
        losses = self.losses(theta)
        return float(self.groups.counts @ losses), self.missing(np.exp(-losses))

    def missing(self, p: Vector) -> Vector:
        """sum_g (N_g p_g - n_g)'K_g: the features expected under the conditionals p minus those of the samples;
        (d,)."""
        groups = self.groups
        each = np.repeat(groups.totals, np.diff(groups.start)) * p - groups.counts
        return np.asarray(groups.features.T @ each)

    def curvature(self, theta: Vector) -> Vector:
        """The diagonal of the losses' Hessian, sum_g N_g Var_p(K_g); (d,)."""
        if self.shards is not None:
            return self.shards.total(self.curvature, theta)
        groups = self.groups
        p, totals = self.conditionals(theta), np.repeat(groups.totals, np.diff(groups.start))
        spread = sp.csr_array((p, np.arange(len(p)), groups.start), shape=(len(groups.totals), len(p)))
        mean = sp.csr_array(spread @ groups.features)
        squares = groups.features.multiply(groups.features).T @ (totals * p)
        return np.asarray(np.maximum(squares - mean.multiply(mean).T @ groups.totals, 0.0))

    # -- bounds --------------------------------------------------------------------------------------------------------

    def primal(self, point: Point) -> Rounded:
        """P(theta) and its allowance; inf where theta is not finite or scores overflow."""
        with np.errstate(all="ignore"):
            return self.sharper(point["theta"], self.own_primal(point["theta"]))

    def own_primal(self, theta: Vector) -> Rounded:
        groups = self.groups
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            size = np.asarray(groups.sizes @ np.abs(theta))
            if not math.isfinite(float(size.sum())):
                return Rounded(math.inf)
            lengths = np.diff(groups.start)
            scores = gamma(groups.width + 2) * np.maximum.reduceat(size, groups.start[:-1]) + groups.width * TINY
            own = np.where(lengths > 1, 2 * scores + UNIT * (2 * lengths + 16 * np.log(lengths) + 40.0), 0.0)
            losses = self.losses(theta)
            counts = RoundedArray(groups.counts, self._counting * groups.counts)
            value = summed(counts * RoundedArray(losses, np.repeat(own, lengths) + 4 * UNIT * losses))
            value = value + self.penalty.value(theta)
            return value if math.isfinite(value) else Rounded(math.inf)

    @property
    def _counting(self) -> float:
        """The relative error of n: 0 where every weight is a whole number, since the sums are then exact."""
        rho = self.scale.C * self.weights
        whole = (rho == np.floor(rho)).all() and rho.sum() < 2.0**52 and self.scale.C == 1.0
        return 0.0 if whole else gamma(len(rho) + 2)

    @cached_property
    def _undecided(self) -> Vector:
        """N of each group, 0 where all labels but one are forbidden: such a group adds exactly 0 to P, its gradient and
        D; (G,)."""
        return np.where(np.diff(self.groups.start) > 1, self.groups.totals, 0.0)

    def _read_dual(self, dual_point: Point) -> Vector:
        named = mapping("dual_point", dual_point, {"conditionals"})
        name = "dual_point['conditionals']"
        return real(name, named["conditionals"], (int(self.groups.start[-1]),), finite=False, keep=False)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """How far the conditionals are from distributions."""
        given = self._read_dual(dual_point)
        if not np.isfinite(given).all():
            return {"conditionals outside the simplex": math.inf}
        with np.errstate(over="ignore"):
            away = np.abs(np.add.reduceat(given, self.groups.start[:-1]) - 1.0).max()
        return {"conditionals outside the simplex": float(max(away, -given.min()))}

    def dual(self, dual_point: Point) -> Rounded:
        """D at the normalised conditionals, or at the best mixture with the empirical ones; -inf if the conditionals
        are far from distributions."""
        if max(self.dual_residuals(dual_point).values()) > DUAL_ROUNDING:
            return Rounded(-math.inf)
        own = self.basis.problem
        groups = own.groups
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            p = self._normalised(self._read_dual(dual_point))
            if self.penalty.lam == 0.0:
                p = own._restored(p)
            empirical = self.entropy(self._normalised(groups.counts))
            entropy, g = self.entropy(p), own._apart(p)
            if (reach := self.basis.reach) is None:
                return self.penalty.lower_bound(entropy, g.value, g.errors, empirical.lower)
            found = reach.lower_bound(entropy, g.value, g.errors + self.basis.off)
            return found if found.lower > empirical.lower else empirical

    def _apart(self, p: Vector) -> RoundedArray:
        """Minus `missing` of the distributions near p, whose groups sum to 1 up to rounding; (d,)."""
        groups, lengths = self.groups, np.diff(self.groups.start)
        counts, totals = (
            RoundedArray(n, self._counting * n) for n in (groups.counts, np.repeat(groups.totals, lengths))
        )
        found: RoundedArray = adjoint(groups.features, counts - totals * self._rounded(p))
        return found

    def _rounded(self, p: Vector) -> RoundedArray:
        """Normalised p as the distributions near it."""
        return RoundedArray(p, gamma(int(np.diff(self.groups.start).max()) + 4) * p + TINY)

    def _restored(self, p: Vector) -> Vector:
        """Conditionals near p whose g is within l1 of 0 up to rounding: p (1 + s - its mean under p), s = K u, with u
        by least squares, in three Newton steps; p itself where there are too many parameters, or p would leave the
        simplex."""
        groups = self.groups
        if self.dimension > 2000:  # each step takes a dense matrix of so many rows and columns
            return p
        lengths = np.diff(groups.start)
        totals = np.repeat(groups.totals, lengths)
        for _ in range(3):
            share = sp.csr_array((p, np.arange(len(p)), groups.start), shape=(len(lengths), len(p)))
            mean = sp.csr_array(share @ groups.features)
            second = (groups.features.T @ groups.features.multiply((totals * p)[:, None])).toarray()
            bend = second - (mean.T @ mean.multiply(groups.totals[:, None])).toarray()
            missing = self.missing(p)
            excess = np.clip(missing, -self.l1, self.l1) - missing
            # parameters may be redundant: singular values below 1e-10 of the largest count as 0
            s = np.asarray(groups.features @ np.linalg.lstsq(bend, excess, rcond=1e-10)[0])
            moved = p * (1.0 + s - np.repeat(np.add.reduceat(p * s, groups.start[:-1]), lengths))
            if not moved.min() >= 0.0:
                break
            p = self._normalised(moved)
        return p

    def _normalised(self, p: Vector) -> Vector:
        """Each group divided by its sum; uniform where that is 0."""
        start, p = self.groups.start, np.maximum(p, 0.0)
        lengths = np.diff(start)
        sums = np.repeat(np.add.reduceat(p, start[:-1]), lengths)
        return np.where(sums > 0, p / np.where(sums > 0, sums, 1.0), np.repeat(1.0 / lengths, lengths))

    def entropy(self, p: Vector) -> Rounded:
        """sum_g N_g H of the distributions near p, whose groups sum to 1 up to rounding."""
        lengths = np.diff(self.groups.start)
        totals = np.repeat(self._undecided, lengths)
        return summed(RoundedArray(totals, self._counting * totals) * entropy(self._rounded(p)))

    # -- where there is no minimum -------------------------------------------------------------------------------------

    def runaway(self) -> Vector | None:
        """A direction d along which P falls for ever, so that no minimum exists; None if there is none, or a penalty.

        In every group each label l that occurs has the greatest score along d, <d, k_g(l) - k_g(l')> >= 0 for all l',
        and in some group a label that does not occur has a smaller one. `rising` maximises the sum of these gains.
        """
        if self.penalty != NO_PENALTY:
            return None
        seen, rows = np.flatnonzero(self.groups.counts > 0), self.basis.problem._differences()
        unseen = np.flatnonzero(self.groups.counts == 0)
        found = rising(-rows[unseen], rows[seen]) if len(unseen) else None
        return None if found is None else self.basis.theta(found)

    def _differences(self) -> sp.csr_array:
        """k_g(l) - k_g(the first label that occurs) for every row."""
        start, seen = self.groups.start, self.groups.counts > 0
        at = np.where(seen, np.arange(len(seen)), len(seen))
        first = np.repeat(np.minimum.reduceat(at, start[:-1]), np.diff(start))
        return sp.csr_array(self.groups.features - self.groups.features[first])


def _alike(samples: Labels, blanket: list[int], cards: tuple[int, ...]) -> tuple[Index, Labels]:
    """Samples whose blankets have the same labels: (a sample of each group (U,), the group of each sample (m,))."""
    code, largest = np.zeros(len(samples), dtype=np.int64), 1
    for u in blanket:
        if largest * cards[u] > 2**40:  # mixed radix, consecutive again far below the range of 64 bits
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
            largest = len(samples)
        code, largest = code * cards[u] + samples[:, u], largest * cards[u]
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return first.astype(np.intp), group.astype(np.int64)
