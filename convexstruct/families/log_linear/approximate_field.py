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
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Labels, Point, Vector
from convexstruct.core.certificates import Unconstrained
from convexstruct.core.scale import Scale
from convexstruct.families.log_linear.completion import completed
from convexstruct.families.log_linear.entropy import allowed_only
from convexstruct.families.log_linear.penalty import Penalty, read_theta
from convexstruct.features.counts.counts import example_weights
from convexstruct.features.graphs.factors import Factors
from convexstruct.features.graphs.forbidden import forbid
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.oracles.loopy.belief_propagation import FactorGraph, factor_graph, propagate
from convexstruct.oracles.loopy.tree_reweighted import SpanningTrees, spanning_trees, upper_bound
from convexstruct.rounding import TINY, UNIT, Rounded, dot, gamma
from convexstruct.validation.arguments import mapping


@dataclass(frozen=True, eq=False)
class ApproximateField(Unconstrained):
    """A Markov random field whose likelihood is only approximated; made by `ApproximateField.read`.

    factors : the model. samples : (m, n) labels, from 0. weights : (m,) omega > 0. scale : lam and C. l1 : weight of
    |theta|_1.
    """

    factors: Factors
    samples: Labels
    weights: Vector
    scale: Scale
    l1: float = 0.0
    family: ClassVar[str] = "log_linear"

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
        return cls(factors, read, example_weights(weights, len(read)), scale, Penalty(scale.lam, l1).l1)

    def __repr__(self) -> str:
        return (
            f"ApproximateField({len(self.samples)} samples, {self.factors.n_variables} variables, "
            f"{len(self.factors.scopes)} factors, theta in R^{self.dimension}, lam {self.scale.lam:g}, "
            f"l1 {self.l1:g}, C {self.scale.C:g})"
        )

    @property
    def dimension(self) -> int:
        return self.factors.dimension

    @cached_property
    def penalty(self) -> Penalty:
        return Penalty(self.scale.lam, self.l1)

    @cached_property
    def mass(self) -> float:
        """M."""
        return math.fsum(self.weights.tolist())

    @cached_property
    def sums(self) -> Vector:
        """s, the sums of the features; (d,)."""
        return self.factors.moments(self.factors.counts(self.samples, self.weights))

    @cached_property
    def graph(self) -> FactorGraph:
        """The factor graph for messages."""
        return factor_graph(self.factors.cards, self.factors.scopes)

    @cached_property
    def trees(self) -> SpanningTrees | None:
        """Spanning trees for the upper bound; None where a factor has more than two variables."""
        return spanning_trees(self.factors.n_variables, self.factors.scopes)

    @property
    def trivial_value(self) -> float:
        """P(0) = C M ln |X|, where X is the set of all joint labels; 1 where there is one joint label."""
        return self.scale.C * self.mass * math.fsum(map(math.log, self.factors.cards)) or 1.0

    def trivial(self) -> tuple[Point, Point]:
        """theta = 0; there are no dual points."""
        return {"theta": np.zeros(self.dimension)}, {}

    def as_point(self, value: Any) -> Point:
        """theta, as `read_theta` reads it."""
        return read_theta(value, self.dimension)

    def primal(self, point: Point) -> Rounded:
        """An upper bound on P(theta), with its allowance: C [M (tree-reweighted bound of ln Z) - <theta, s>] + R."""
        theta, design = point["theta"], self.factors.design
        if self.trees is None or not np.isfinite(theta).all():
            return Rounded(math.inf)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            flat = finite_tables(self.factors, theta)
            sizes = np.asarray(abs(design) @ np.abs(theta))
            if not math.isfinite(float(sizes.sum())):
                return Rounded(math.inf)
            messages = propagate(self.graph, flat, rho=self.trees.rho).messages[0]
            bound, fit = upper_bound(self.graph, self.trees, flat, messages), dot(theta, self.sums)
            penalty = self.penalty.value(theta)
            C, M = self.scale.C, self.mass
            value = C * (M * float(bound) - float(fit)) + float(penalty)
            longest = int(np.diff(design.indptr).max(initial=0)) + 2
            largest = np.maximum.reduceat(sizes, self.factors.start[:-1])  # a score is one entry of each table
            of_scores = gamma(longest) * float(largest.sum()) + len(sizes) * TINY
            column = int(np.bincount(design.indices).max(initial=0)) + len(self.weights) + 4
            counts = self.factors.counts(self.samples, self.weights)
            of_data = gamma(column) * float(np.abs(theta) @ (abs(design).T @ counts))
            allowed = C * (M * (bound.allowance + of_scores) + fit.allowance + of_data)
            rounding = 4 * UNIT * (C * (M * abs(float(bound)) + abs(float(fit))) + abs(value))
            if not math.isfinite(value):
                return Rounded(math.inf)
            return Rounded.of(value, allowed, penalty.allowance, rounding)

    def dual(self, dual_point: Point) -> Rounded:
        """-inf: there is no lower bound on P here."""
        return Rounded(-math.inf)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """Empty: there are no dual points."""
        mapping("dual_point", dual_point, ())
        return {}

    def predict(self, point: Any, examples: Any = None) -> list[Labels]:
        """The most probable completion of samples, -1 where a label is hidden; see
        `convexstruct.families.log_linear.completion.completed`. None: the most probable joint label."""
        return completed(FactorInference(self.factors), self.as_point(point)["theta"], examples)


def finite_tables(factors: Factors, theta: Vector) -> Vector:
    """The stacked tables (T,) of A theta; a forbidden entry scores less than all others can make up for, but is finite,
    as belief propagation needs it."""
    flat = np.asarray(factors.design @ theta)
    most = float(np.maximum.reduceat(np.abs(flat), factors.start[:-1]).sum())
    return allowed_only(flat, factors.forbidden, most)
