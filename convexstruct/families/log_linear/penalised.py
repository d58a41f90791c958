r"""What the problems P(theta) = L(theta) + R(theta) of this family have in common.

L is a weighted sum of ln Z minus the score of the truth, and R the penalty. A *factor field* scores joint labels by
tables on the scopes of `Factors`. The likelihood of a factor field depends on the data through their mass M and the sum
s of their features alone:

    P(theta) = C [M ln Z(theta) - <theta, s>] + R(theta)

with ln Z exact (`MarkovRandomField`), bounded or approximated (`ApproximateField`), or estimated from samples.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Labels, Point, Vector
from convexstruct.core.certificates import Unconstrained
from convexstruct.core.scale import Scale
from convexstruct.families.log_linear.basis import BEYOND, Basis, Part, joined, shared_entries, span, too_many
from convexstruct.families.log_linear.penalty import NO_PENALTY, Penalty, read_theta
from convexstruct.features.graphs.factors import Factors
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.rounding import EPS, TINY, Rounded, RoundedArray, dot, gamma
from convexstruct.tolerances import ROUNDING
from convexstruct.validation.arguments import sentence
from convexstruct.validation.arrays import predictive, wholes


class Penalised(Unconstrained):
    """The penalty of a problem with the fields scale and l1, and its points theta (d,)."""

    scale: Scale
    l1: float

    @property
    def dimension(self) -> int:
        raise NotImplementedError

    def witness(self, theta: Vector) -> Point:
        """The distributions at theta as a dual point."""
        raise NotImplementedError

    @cached_property
    def penalty(self) -> Penalty:
        return Penalty(self.scale.lam, self.l1)

    @property
    def basis(self) -> Basis:
        """Without a penalty: the problem in the parameters that its bounds are stated in. With one, as it is."""
        # kept in itself, a problem would live until the next search for circles, and with it the examples of a file
        return self._basis if self.penalty == NO_PENALTY else Basis(self)

    @cached_property
    def _basis(self) -> Basis:
        return self.in_basis()

    def in_basis(self) -> Basis:
        raise NotImplementedError

    def beyond(self, point: Point) -> str:
        """Without a penalty: whether, and why, lower bounds do not hold at a point; "" where they do."""
        return "" if self.basis.covers(point["theta"]) else BEYOND

    def witness_in_basis(self, u: Vector) -> Point:
        """The distributions at parameters u of the basis as a dual point."""
        return self.basis.problem.witness(u)  # type: ignore[no-any-return]

    def as_point(self, value: Any) -> Point:
        """theta, as `read_theta` reads it."""
        return read_theta(value, self.dimension)

    def trivial(self) -> tuple[Point, Point]:
        """theta = 0, and its distributions: uniform."""
        theta = np.zeros(self.dimension)
        return {"theta": theta}, self.witness(theta)


class FactorField(Penalised):
    """A problem with the field factors."""

    factors: Factors

    if TYPE_CHECKING:

        @property
        def weight(self) -> float:
            """The sum over all entries of all tables of |truth less expected share|, at most."""
            ...

        def with_factors(self, factors: Factors, parts: list[Part]) -> FactorField:
            """The same problem with the features of ``parts`` replaced by their bases."""
            ...

        def own_primal(self, theta: Vector) -> Rounded:
            """P(theta) with its allowance, from sums of the features as they are."""
            ...

    @property
    def dimension(self) -> int:
        return self.factors.dimension

    @cached_property
    def inference(self) -> FactorInference:
        """The exact oracle; where it is used, ValueError if the graph is too wide."""
        return FactorInference(self.factors)

    def in_basis(self) -> Basis:
        """A basis for each set of features that share entries of tables."""
        factors, parts, pieces, said = self.factors, [], [], ""
        kept = np.ones(self.dimension)
        for columns, rows, D, low, less in shared_entries(factors):
            if (own := span(D, low)) is None:
                said = too_many(len(columns), len(rows))
                continue
            parts.append(Part(columns, D, own, False, self.weight, less, rows, low))
            kept[columns] = 0.0
            at = np.repeat(rows, len(columns)), np.tile(columns, len(rows))
            pieces.append(sp.coo_array((own.features.ravel(), at), shape=factors.design.shape))
        if not parts:
            return joined(self, [], factors.largest, said)
        design = sp.csr_array(sum(pieces, factors.design @ sp.diags_array(kept)))
        return joined(self.with_factors(replace(factors, design=design), parts), parts, factors.largest, said)

    @cached_property
    def by_entries(self) -> FactorField:
        """The same problem with a parameter for each entry of each table, its score."""
        design = sp.csr_array(sp.eye_array(self.factors.n_entries))
        return self.with_factors(replace(self.factors, design=design), [])

    def sharper(self, theta: Vector, found: Rounded) -> Rounded:
        """P(theta), ``found`` unless its allowance is large: where the features of a factor have large constants, their
        terms cancel. Then it is computed from scores without these constants, which are rounded once."""
        parts = self.basis.parts
        if not parts or found.allowance <= ROUNDING * abs(found) or not np.isfinite(theta).all():
            return found
        rest, design = theta.copy(), self.factors.design
        for part in parts:
            rest[part.at] = 0.0
        scores, sizes = np.asarray(design @ rest), np.asarray(abs(design) @ np.abs(rest))
        longest = int(np.diff(design.indptr).max(initial=0))
        error = gamma(longest) * float(sizes.max(initial=0.0)) + (longest + 1) * TINY
        for part in parts:
            own, off = part.scores(theta)
            scores[part.rows] += own[:, 0]
            error += off
        error += gamma(len(parts) + 1) * float(np.abs(scores).max(initial=0.0))
        value = self.by_entries.own_primal(scores)
        better = Rounded.of(value, value.allowance, self.weight * error)
        return better if better.allowance < found.allowance else found

    def predict(self, point: Any, examples: Any = None) -> list[Labels]:
        """The most probable completion of each sample, one array (n,) a sample.

        point : theta, as `as_point` reads it. examples : (m, n) samples, -1 where a label is to be predicted; None: one
        sample with every label open.

        Raises
        ------
        ValueError
            If the samples do not fit the factors, no completion of one is allowed, or the graph is too wide for exact
            inference.
        """
        cards, theta = np.array(self.factors.cards), predictive(self.as_point(point))["theta"]
        if examples is None:
            read = np.full((1, len(cards)), -1, dtype=np.int64)
        else:
            why = "one row a sample, one label a variable, -1 where it is to be predicted"
            read = wholes("examples", examples, ("samples", len(cards)), least=-1, why=why)
        if (read >= cards).any():
            v = int(np.flatnonzero((read >= cards).any(axis=0))[0])
            raise sentence(f"examples has label {read[:, v].max()} of variable {v}, wanted labels below {cards[v]}")
        return list(self.inference.completed("examples", np.asarray(self.factors.design @ theta), read))


class LikelihoodField(FactorField):
    """A factor field whose data have a mass M = ``mass`` and sums of features s = ``sums`` (d,); ``off`` (d,) bounds
    the error of s."""

    mass: float
    sums: Vector
    off: Vector

    @property
    def rounded_mass(self) -> Rounded:
        """M, a sum that was rounded once."""
        return Rounded(self.mass, EPS * self.mass)

    @property
    def log_labels(self) -> float:
        """ln |X|, where X is the set of all joint labels, forbidden ones too."""
        return math.fsum(math.log(card) for card in self.factors.cards)

    @property
    def trivial_value(self) -> float:
        """P(0) = C M ln |X|; 1 where there is one joint label."""
        return self.scale.C * self.mass * self.log_labels or 1.0

    def fit(self, theta: Vector, log_partition: float, mean: Vector) -> tuple[float, Vector]:
        """C [M ln Z - <theta, s>] and its gradient (20.4), C (M E f - s), from ln Z and E f (d,); without the
        penalty."""
        C, M = self.scale.C, self.mass
        return C * (M * log_partition - float(theta @ self.sums)), C * (M * mean - self.sums)

    def enclosed(self, theta: Vector, log_partition: Rounded) -> Rounded:
        """P(theta) with its allowance from ln Z with its own; inf where it is not finite."""
        C, M = self.scale.C, self.rounded_mass
        fit = dot(theta, RoundedArray(self.sums, self.off))
        value: Rounded = C * (M * log_partition - fit) + self.penalty.value(theta)
        return value if math.isfinite(value) else Rounded(math.inf)


def feature_sums(factors: Factors, entries: Vector, n: int) -> tuple[Vector, Vector]:
    """s and bounds on its error, from counts of the tables' entries (T,), sums of ``n`` terms each."""
    longest = int(np.diff(factors.design.tocsc().indptr).max(initial=0)) + n + 4
    off = gamma(longest) * (abs(factors.design).T @ entries) + longest * TINY
    return factors.moments(entries), off


def largest_scores(factors: Factors, theta: Vector) -> tuple[float, float]:
    """(a bound on |score| of any joint label at theta, what underflow may add to a score). A score is one entry of each
    table."""
    sizes = np.asarray(abs(factors.design) @ np.abs(theta))
    return float(np.maximum.reduceat(sizes, factors.start[:-1]).sum()), len(sizes) * TINY
