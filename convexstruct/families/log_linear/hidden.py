r"""Log-linear models with hidden variables and partial labels (paper 4, "learning with hidden variables").

    P(theta) = C sum_i omega_i [ln Z_i(theta) - ln Z_i(theta; K_i)] + R(theta),     R = lam/2 |theta|^2 + l1 |theta|_1

in nats. Z_i sums e^<theta, f> over all labellings of example i, and Z_i(K_i) over the set K_i of those that agree with
what is known: a set of allowed labels for each node (a conditional random field; a node with all labels allowed is
hidden), or the same for each variable of a sample (a Markov random field). Neither sum has labellings with forbidden
labels. The gradient is that of paper 4, unclamped expectations minus clamped ones,

    grad P = C sum_i omega_i (E f - E[f | K_i]) + lam theta.

**P is not convex.** Solvers end at a stationary point, and `stationarity` measures the residual there; it need not be a
minimum, and theta = 0 is often stationary where hidden labels may be permuted. The only lower bound is the trivial one:
Z_i is at least Z_i(K_i), so that P >= 0. Where every K_i is a single labelling, P is convex, and the problem is that of
``model``, with its dual.

**Expectation-maximisation** (`convexstruct.models.log_linear.expected_likelihood`): for any distributions q_i on K_i,

    P(theta) <= C sum_i omega_i [ln Z_i(theta) - <theta, E_q f> - H(q_i)] + R(theta),

with equality where q_i is the posterior at theta. The right side is convex: it is P of a fully observed model with the
expected features E_q f as its data.

**Rounding**: that of both ln Z, as in `ConditionalRandomField` and `MarkovRandomField`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import OPTIONAL, Flags, Index, Labels, Point, Vector
from convexstruct.brief import brief
from convexstruct.families.log_linear.basis import Basis
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.entropy import log_partitions
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.penalised import Penalised
from convexstruct.families.log_linear.penalty import Penalty
from convexstruct.features.graphs.allowed import read_allowed
from convexstruct.features.graphs.factors import Factors
from convexstruct.features.graphs.forbidden import forbid, labels_allowed, read_partial
from convexstruct.features.graphs.score_errors import score_errors
from convexstruct.graphs import ranges, starts
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.inference.shards import Shards, Workers, in_shards
from convexstruct.rounding import GREATEST, Rounded, RoundedArray, exact, gamma, summed
from convexstruct.validation.arguments import mapping, sentence
from convexstruct.validation.arrays import flags, frozen, predictive


@dataclass(frozen=True, eq=False)
class HiddenField(Penalised):
    """A log-linear model with labels that are not all known; made by `conditional` or `unconditional`.

    model : the fully observed model whose truth is one of the labellings in each K_i.
    known : (P, S) whether a node may have a label (conditional); or samples (m, n) with -1 where the label of a
        variable is not known, or (m, n, S) whether it may have a label (unconditional).
    workers : where the examples or samples are worked on, if not here.
    """

    model: ConditionalRandomField | MarkovRandomField
    known: Flags | Labels = field(repr=False)
    workers: Workers | None = field(default=None, repr=False, kw_only=True, metadata=OPTIONAL)
    family: ClassVar[str] = "log_linear"

    __repr__ = brief

    @classmethod
    def conditional(
        cls,
        node_features: Any,
        allowed: Sequence[ArrayLike],
        n_labels: int | None = None,
        *,
        edges: Sequence[ArrayLike] | Sequence[nx.Graph] | str = "chain",
        edge_features: Sequence[ArrayLike] | None = None,
        forbidden: ArrayLike | None = None,
        **options: Any,
    ) -> HiddenField:
        """A conditional random field with partial labels.

        Parameters
        ----------
        allowed : a list of one array for each example: booleans (n_i, S), True where a node may have a label, or labels
            (n_i,), -1 where a node's is not known. n_labels : S; needed where all arrays are of labels.
        node_features, edges, edge_features, forbidden : as `ConditionalRandomField.read` has them.
        options : weights, l1, and at most one of C, C_mean, lam, beta, as there.

        Raises
        ------
        ValueError
            As there, and if a node, or an example with its forbidden pairs, is left without any label.
        """
        parts = read_allowed(allowed, n_labels)
        known = np.concatenate(parts)
        size = known.shape[1]
        first = np.split(known.argmax(axis=1), starts([len(part) for part in parts])[1:-1])
        plain = ConditionalRandomField.read(
            node_features, first, size, edges=edges, edge_features=edge_features, **options
        )
        features, pairs = plain.features, None
        if forbidden is not None:
            pairs = flags("forbidden", forbidden, (size, size), why="one entry a pair of labels")
            table = np.where(pairs, -np.inf, 0.0)
            each = table if features.shared else np.broadcast_to(table, (features.n_edges, size, size))
            found = plain.oracle.best(np.where(known, 0.0, -np.inf), each)
            if np.isneginf(found.scores).any():
                i = int(np.isneginf(found.scores).argmax())
                raise sentence(
                    f"allowed[{i}] and forbidden leave no labelling of example {i}, wanted at least one without a "
                    "forbidden pair"
                )
            features = replace(features, truth=frozen(found.labels))
        model = replace(plain, features=features, forbidden=pairs if pairs is not None and pairs.any() else None)
        return cls(model, frozen(known))

    @classmethod
    def unconditional(
        cls, factors: Factors, samples: ArrayLike, *, forbidden: Any = None, **options: Any
    ) -> HiddenField:
        """A Markov random field with hidden variables.

        Parameters
        ----------
        factors : see `read_factors`, `factors_of_features`, `tabular_factors`; a narrow junction tree.
        samples : (m, n) one row a sample, one label a variable, -1 where it is not known; or flags (m, n, S), S the
            largest number of labels, True where a variable may have a label.
        forbidden : joint labels of probability 0, as `MarkovRandomField.read` has them.
        options : weights, l1, and at most one of C, C_mean, lam, beta, as `MarkovRandomField.read` has them.

        Raises
        ------
        ValueError
            As there, and if a variable, or a sample with what is forbidden, is left without any label.
        """
        allowed = forbid(factors, forbidden)  # first, since it checks that they are factors
        read, factors = read_partial("samples", samples, factors), allowed
        if factors.forbidden is None:
            first = read.argmax(axis=2) if read.ndim == 3 else np.maximum(read, 0)
        else:
            first = FactorInference(factors).completed("samples", np.zeros(factors.n_entries), read)
        return cls(MarkovRandomField.read(factors, first, **options), frozen(read))

    # -- sizes ---------------------------------------------------------------------------------------------------------

    @cached_property
    def observed(self) -> bool:
        """Whether every K_i is a single labelling: then P is convex, and that of ``model``."""
        if isinstance(self.model, ConditionalRandomField):
            return bool((self.known.sum(axis=1) == 1).all())
        return bool((self.known.sum(axis=2) == 1 if self.known.ndim == 3 else self.known >= 0).all())

    @cached_property
    def unknown(self) -> bool:
        """Whether nothing is known of any label: then P is R."""
        if isinstance(self.model, ConditionalRandomField):
            return bool(self.known.all())
        each = enumerate(self.model.factors.cards)
        return all(labels_allowed(self.known, v, card).all() for v, card in each)

    def some(self, examples: Index) -> HiddenField:
        """The problem of some of the examples or samples, with the whole penalty."""
        model = self.model
        if isinstance(model, ConditionalRandomField):
            return HiddenField(model.some(examples), self.known[ranges(model.features.node_start, examples)[0]])
        assert model.samples is not None
        assert model.weights is not None
        own = replace(model, samples=model.samples[examples], weights=model.weights[examples])
        return HiddenField(own, self.known[examples])

    @cached_property
    def shards(self) -> Shards | None:
        model, samples = self.model, np.ones(len(self.known), dtype=np.intp)
        sizes = model.features.lengths if isinstance(model, ConditionalRandomField) else samples
        return in_shards(self.workers, sizes, self.some)

    @property
    def dimension(self) -> int:
        return self.model.dimension

    @cached_property
    def penalty(self) -> Penalty:
        return self.model.penalty

    @cached_property
    def trivial_value(self) -> float:
        """P(0) = C sum_i omega_i ln(labellings / labellings in K_i); 1 where nothing is known."""
        value = self.value_and_gradient(np.zeros(self.dimension))[0]
        return value if value > 0 else 1.0

    # -- what solvers ask ----------------------------------------------------------------------------------------------

    def unclamped(self, theta: Vector) -> tuple[float, Vector]:
        """(C sum_i omega_i ln Z_i, C sum_i omega_i E f)."""
        model = self.model
        if isinstance(model, ConditionalRandomField):
            if self.shards is not None:
                return self.shards.total(self.unclamped, theta)
            return model.expectation(theta)
        found = model.inference.sums(model.factors.design @ theta)
        weight = model.scale.C * model.mass
        return weight * found.log_partition, weight * model.factors.moments(found.marginals)

    def clamped(self, theta: Vector) -> tuple[float, Vector]:
        """(C sum_i omega_i ln Z_i(K_i), C sum_i omega_i E[f | K_i])."""
        deadline.check()
        if self.shards is not None:
            return self.shards.total(self.clamped, theta)
        model = self.model
        if isinstance(model, ConditionalRandomField):
            node, edge = model.scores(theta)
            sums = model.oracle.sums(np.where(self.known, node, -np.inf), edge, model.ceiling)
            return float(model.ceiling @ sums.log_partition), model.features.adjoint(sums.node, sums.edge)
        flat = model.factors.design @ theta
        logs, entries = model.inference.clamped(flat, self.known, model.weights)
        assert model.weights is not None
        return model.scale.C * float(model.weights @ logs), model.scale.C * model.factors.moments(entries)

    def value_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        """P(theta) without R, and its gradient (d,)."""
        free, fixed = self.unclamped(theta), self.clamped(theta)
        return free[0] - fixed[0], free[1] - fixed[1]

    def curvature(self, theta: Vector) -> Vector:
        """An approximate diagonal of the Hessian of the unclamped part; (d,)."""
        if self.shards is None or not isinstance(self.model, ConditionalRandomField):
            return self.model.curvature(theta)
        return self.model.of_shared_table(self.shards.total(self._variances, theta))

    def _variances(self, theta: Vector) -> Vector:
        assert isinstance(self.model, ConditionalRandomField)
        return self.model.variances(theta)

    def witness(self, theta: Vector) -> Point:
        """The model's dual point of theta where all is observed; else empty, with the lower bound 0."""
        return self.model.witness(theta) if self.observed else {}

    @cached_property
    def basis(self) -> Basis:
        """The basis of ``model``."""
        own = self.model.basis
        return replace(own, problem=replace(self, model=own.problem) if own.parts else self)

    def beyond(self, point: Point) -> str:
        """As `model` has it where all is observed; elsewhere the lower bound is 0, which holds at any point."""
        return self.model.beyond(point) if self.observed else ""

    def witness_in_basis(self, u: Vector) -> Point:
        return self.model.witness_in_basis(u) if self.observed else {}

    def stationarity(self, point: Any) -> float:
        """The largest entry of P's subgradient of least norm at ``point``, over the largest of C sum_i omega_i E f;
        0 at a stationary point."""
        theta = self.as_point(point)["theta"]
        gradient = self.penalty.gradient(theta, self.value_and_gradient(theta)[1])
        largest = float(np.abs(self.unclamped(theta)[1]).max(initial=0.0))
        return float(np.abs(gradient).max(initial=0.0)) / (largest or 1.0)

    # -- primal and dual -----------------------------------------------------------------------------------------------

    def primal(self, point: Point) -> Rounded:
        """P(theta) with its allowance; inf where it is undefined, or scores might overflow."""
        theta = point["theta"]
        if self.observed:
            return self.model.primal(point)
        if not np.isfinite(theta).all():
            return Rounded(math.inf)
        with np.errstate(all="ignore"):
            if self.unknown:
                found = Rounded(0.0)
            else:
                crf = isinstance(self.model, ConditionalRandomField)
                found = self._conditional_loss(theta) if crf else self._loss(theta)
            value: Rounded = Rounded(max(float(found), 0.0), found.allowance) + self.penalty.value(theta)
            return value if math.isfinite(value) else Rounded(math.inf)

    def _conditional_loss(self, theta: Vector) -> Rounded:
        """C sum_i omega_i [ln Z_i - ln Z_i(K_i)] of a conditional random field."""
        model = self.model
        assert isinstance(model, ConditionalRandomField)
        features = model.features
        sizes, error_of_scores = score_errors(features, theta)
        if not sizes.sum() < GREATEST:
            return Rounded(math.inf)
        node, edge = model.scores(theta)
        free = log_partitions(model.oracle, features, node, edge)
        fixed = log_partitions(model.oracle, features, np.where(self.known, node, -np.inf), edge)
        apart = free - fixed + RoundedArray(0.0, 2.0 * error_of_scores.sum(axis=0))
        return summed(exact(model.weights) * model.scale.C * apart)

    def _loss(self, theta: Vector) -> Rounded:
        """C sum_i omega_i [ln Z_i - ln Z_i(K_i)] of a Markov random field."""
        model = self.model
        assert isinstance(model, MarkovRandomField)
        assert model.weights is not None
        flat = model.factors.design @ theta
        reach, rounding = model.rounding_of_log(theta)
        if not reach < GREATEST:
            return Rounded(math.inf)
        free = model.inference.sums(flat).log_partition
        fixed = model.inference.clamped(flat, self.known)[0]
        loss = model.scale.C * summed(model.weights * (exact(free) - fixed))
        # each known variable adds a score of 0; the last term is for the differences
        own = 2.0 * model.mass * (rounding + gamma(model.factors.n_variables + 4) * reach)
        return Rounded.of(loss, loss.allowance, model.scale.C * own)

    def dual(self, dual_point: Point) -> Rounded:
        """0 for any dual point; where all is observed, the bound of ``model`` at the dual point."""
        if self.observed:
            return self.model.dual(dual_point)
        self.dual_residuals(dual_point)
        return Rounded(0.0)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """Empty, except where all is observed: then those of ``model``."""
        if self.observed:
            return self.model.dual_residuals(dual_point)
        mapping("dual_point", dual_point, ())
        return {}

    # -- what is not known ---------------------------------------------------------------------------------------------

    def completed(self, point: Any) -> list[Labels]:
        """The most probable labelling in each K_i, one array for each example or sample."""
        theta = predictive(self.as_point(point))["theta"]
        if isinstance(self.model, ConditionalRandomField):
            node, edge = self.model.scores(theta)
            found = self.model.oracle.best(np.where(self.known, node, -np.inf), edge)
            return self.model.features.split_labels(found.labels)
        model = self.model
        return list(model.inference.completed("samples", model.factors.design @ theta, self.known))

    def predict(self, point: Any, examples: Any = None) -> list[Labels]:
        """The most probable labelling of each of ``examples``, as ``predict`` of ``model`` has it."""
        return self.model.predict(point, examples)
