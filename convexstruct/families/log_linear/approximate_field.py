r"""Markov random fields on graphs too wide for exact inference: approximate learning (paper 4, 20.5-20.6).

    P(theta) = C [M ln Z(theta) - <theta, s>] + lam/2 |theta|^2 + l1 |theta|_1

with M = sum_i omega_i and s = sum_i omega_i f(x_i), as in `MarkovRandomField`; but ln Z is intractable. The solvers
approximate ln Z or its gradient, and none of them is certified: there is no lower bound here.

An upper bound is proved where every factor has at most two variables: ln Z <= the mean of ln Z over spanning trees
(`convexstruct.oracles.loopy.tree_reweighted`), so that P(theta) is at most the P of the tree-reweighted likelihood.
This bound is no estimate of P: on strongly coupled graphs it is far above. With larger factors the upper bound is
infinite. For a certified optimum on such graphs use `PseudoLikelihood`. Where joint labels are forbidden, belief
propagation and the bound have them with a score so low that it does not count; a bound it remains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import ROUNDING_BOUND, Labels, Point, Vector
from convexstruct.brief import brief
from convexstruct.core.scale import Scale
from convexstruct.families.log_linear.penalised import LikelihoodField, feature_sums, largest_scores
from convexstruct.families.log_linear.penalty import Penalty
from convexstruct.features.counts.counts import example_weights
from convexstruct.features.graphs.factors import Factors
from convexstruct.features.graphs.forbidden import forbid
from convexstruct.oracles.loopy.belief_propagation import FactorGraph, factor_graph, propagate
from convexstruct.oracles.loopy.tree_reweighted import SpanningTrees, spanning_trees, upper_bound
from convexstruct.rounding import Rounded, gamma
from convexstruct.validation.arguments import mapping
from convexstruct.validation.arrays import frozen


@dataclass(frozen=True, eq=False)
class ApproximateField(LikelihoodField):
    """A Markov random field whose likelihood is only approximated; made by `ApproximateField.read`.

    factors : the model. samples : (m, n) labels, from 0. weights : (m,) omega > 0. sums (d,) : s. mass : M. scale : lam
    and C. l1 : weight of |theta|_1. off (d,) : bounds on the error of ``sums``.
    """

    factors: Factors
    samples: Labels
    weights: Vector
    sums: Vector
    mass: float
    scale: Scale
    l1: float
    off: Vector = field(repr=False, metadata=ROUNDING_BOUND)
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
        l1: float = 0.0,
        C: float | None = None,
        C_mean: float | None = None,
        lam: float | None = None,
        beta: float | None = None,
    ) -> ApproximateField:
        """Validate the data.

        Parameters
        ----------
        factors : of any width. samples, forbidden, weights, l1, C, C_mean, lam, beta : as `MarkovRandomField.read` has
            them.

        Raises
        ------
        ValueError
            If ``factors`` is not of that type, there is no sample, a label is out of range, a sample is forbidden, or a
            weight is not positive.
        """
        factors = forbid(factors, forbidden)
        read = factors.read_samples("samples", samples)
        scale = Scale.read(len(read), free=True, C=C, C_mean=C_mean, lam=lam, beta=beta)
        omega = example_weights(weights, len(read))
        sums, off = feature_sums(factors, factors.counts(read, omega), len(read))
        mass = math.fsum(omega.tolist())
        return cls(factors, read, omega, frozen(sums), mass, scale, Penalty(scale.lam, l1).l1, frozen(off))

    @cached_property
    def graph(self) -> FactorGraph:
        """The factor graph for messages."""
        return factor_graph(self.factors.cards, self.factors.scopes)

    @cached_property
    def trees(self) -> SpanningTrees | None:
        """Spanning trees for the upper bound; None where a factor has more than two variables."""
        return spanning_trees(self.factors.n_variables, self.factors.scopes)

    def witness(self, theta: Vector) -> Point:
        """Empty: there are no dual points."""
        return {}

    def primal(self, point: Point) -> Rounded:
        """An upper bound on P(theta), with its allowance: C [M (tree-reweighted bound of ln Z) - <theta, s>] + R."""
        theta = point["theta"]
        if self.trees is None or not np.isfinite(theta).all():
            return Rounded(math.inf)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            flat, (size, lost) = finite_tables(self.factors, theta), largest_scores(self.factors, theta)
            if not math.isfinite(size):
                return Rounded(math.inf)
            messages = propagate(self.graph, flat, rho=self.trees.rho).messages[0]
            bound = upper_bound(self.graph, self.trees, flat, messages)
            longest = int(np.diff(self.factors.design.indptr).max(initial=0)) + 2
            return self.enclosed(theta, Rounded.of(float(bound), bound.allowance, gamma(longest) * size + lost))

    def dual(self, dual_point: Point) -> Rounded:
        """-inf: there is no lower bound on P here."""
        return Rounded(-math.inf)

    def beyond(self, point: Point) -> str:
        """Empty: there is no lower bound."""
        return ""

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """Empty: there are no dual points."""
        mapping("dual_point", dual_point, ())
        return {}


def finite_tables(factors: Factors, theta: Vector) -> Vector:
    """The stacked tables (T,) of A theta; a forbidden entry scores less than all others can make up for, but is finite,
    as belief propagation needs it."""
    flat = np.asarray(factors.design @ theta)
    most = float(np.maximum.reduceat(np.abs(flat), factors.start[:-1]).sum())
    return flat if factors.forbidden is None else np.where(factors.forbidden, -(1400.0 + 8.0 * most), flat)
